"""B8, both studies on one axis: which generators put held-out bumps in place."""

from pathlib import Path

import numpy as np
import pytest

from planted_beyond import asked, plant_bridge, words


def test_b8(tmp_path: Path) -> None:
    hits = {"cnn": 0.1, "dit-pixels": 0.9, "dit-vq": 0.6, "regression-pixels": 0.3, "maskgit-vq": 0.1}
    entry = asked("B8", plant_bridge(tmp_path / "one", hits))
    said = words(entry)
    assert (
        entry.word == "2 of 4 generators do"
        and said["DiT on pixels, in place"] == said["regression on pixels, in place"] == "higher"
    )
    assert said["DiT on pixels, memory"] == "lower" and said["DiT minus MaskGIT on VQ tokens"] == "higher"
    assert len(said) == 4 + 4 + 2
    assert (
        "The CNN puts 10\u00a0% (" in entry.text
        and "the memory's share deep in the hole is 0.9" in entry.text
        and ", higher), DiT on VQ tokens 6" in entry.text
        and ", lower) with DiT on pixels" in entry.text
    )
    assert entry.found is not None and "0.5" in entry.found.more[0]
    assert entry.found.ours.mean == pytest.approx(np.mean([0.8, 0.5, 0.2, 0.0]), abs=0.03)
    none = asked("B8", plant_bridge(tmp_path / "two", {**hits, "dit-pixels": 0.3, "dit-vq": 0.3}))
    assert none.word == "none does"


def test_b8_leaves_out_what_is_not_fitted(tmp_path: Path) -> None:
    hits = {"cnn": 0.1, "dit-pixels": 0.9}
    entry = asked("B8", plant_bridge(tmp_path / "one", hits, inside={"maskgit-vq": 0.5}))
    assert not any("MaskGIT" in label for label in words(entry)) and any("MaskGIT" in limit for limit in entry.limits)
    blind = asked("B8", plant_bridge(tmp_path / "two", hits, inside={"cnn": 0.5}))
    assert blind.found is None and "CNN has not fitted" in blind.why
