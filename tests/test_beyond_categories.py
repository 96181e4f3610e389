"""B12, categories or vectors: every word of the entry, what is not compared, and what else differs."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planted_beyond import Share, by_arm, drawn, of_library, plant_shares, some_arms, words
from planted_cells import lean
from recombine.claims.beyond.categories import ALL, B12, CATEGORIES, STEPS, VECTORS, arms_of, judge_categories
from recombine.claims.beyond.entries import Entry, Gains, Rows
from recombine.claims.beyond.figures import draw_entry
from recombine.claims.beyond.questions import ask_beyond, look_beyond
from recombine.claims.ledger import open_studies
from recombine.claims.tables import NAMED, Measure, open_study
from recombine.studies.spec import Study

STUDY = of_library("discrete")
NAMES = {
    "MaskGIT": "maskgit",
    "soft-target MaskGIT": "maskgit-soft",
    "all-token MaskGIT": "maskgit-all",
    "discrete diffusion": "discrete-diffusion",
    "autoregressive": "autoregressive",
    "regression": "regression",
    "GIVT": "givt",
    "MAR": "mar",
    "DiT": "dit",
}
ENDS = {"maskgit": 0.3, "maskgit-soft": 0.5, "maskgit-all": 0.1, "discrete-diffusion": 0.3, "autoregressive": 0.1}
ENDS |= {"regression": 0.3, "givt": 0.7, "mar": 0.5, "dit": 0.1, "dit-vae": 0.9}
SAID = {
    ALL: "higher",
    "regression minus MaskGIT": "alike",
    "MAR minus regression": "higher",
    "GIVT minus regression": "higher",
    "DiT minus regression": "lower",
    "autoregressive minus MaskGIT": "lower",
    "discrete diffusion minus MaskGIT": "alike",
    "soft-target MaskGIT minus MaskGIT": "higher",
    "all-token MaskGIT minus MaskGIT": "lower",
}


def planted(folder: Path, ends: Mapping[str, float] = ENDS, study: Study = STUDY, **more: Any) -> Path:
    return plant_shares(folder, study, by_arm(ends), **({"evaluations": 5} | more))


def sides(categories: float, vectors: float) -> dict[str, float]:
    """All models of a side draw alike."""
    return {arm: vectors if label in VECTORS else categories for label, arm in NAMES.items()}


def asked(folder: Path) -> Entry:
    return ask_beyond(B12, open_studies([folder]))


# The arms


def test_arms_are_found_by_their_settings(tmp_path: Path) -> None:
    """Names do not matter, and a model on other tokens is on neither side."""
    resolved = STUDY.resolved()
    arms = {f"{name}-renamed": arm for name, arm in reversed(resolved["arms"].items())}
    other = open_study(planted(tmp_path, study=Study.model_validate(resolved | {"arms": arms}), evaluations=1))
    assert {label: arm.name for label, arm in arms_of(other).items()} == {
        label: f"{name}-renamed" for label, name in NAMES.items()
    }
    assert list(arms_of(other)) == [*CATEGORIES, *VECTORS] == list(NAMES)


def test_steps_are_between_arms_of_the_entry_and_have_their_own_names() -> None:
    assert all(one.pair <= set(NAMES) for one in STEPS)
    assert [ALL, *(one.name for one in STEPS)] == list(SAID)


# The answer


def test_vectors_draw_more(tmp_path: Path) -> None:
    entry = asked(planted(tmp_path))
    assert entry.word == "vectors draw more" and words(entry) == SAID
    assert entry.text.startswith(
        "Of level-2 models of categories draw 10\u00a0% to 50\u00a0% and models of vectors draw "
    )
    assert (
        " Models of vectors draw more: level-2 of vectors (the mean of regression, GIVT, MAR and DiT) minus that of "
        "categories (the mean of MaskGIT, soft-target MaskGIT, all-token MaskGIT, discrete diffusion and "
        "autoregressive) is +14 points ("
    ) in entry.text
    assert "and masks kept: regression minus MaskGIT is " in entry.text
    assert "and vectors kept: MAR minus regression is +20 points (" in entry.text
    assert "and categories kept: autoregressive minus MaskGIT is \u221220 points (" in entry.text
    assert entry.text.endswith(", lower).") and "not compared" not in entry.text
    found = entry.found
    assert found is not None and found.ours_of == (ALL,) and found.ours.n == 8
    ends = {arm: np.array([end + 0.01 * lean(seed, arm) for seed in range(8)]) for arm, end in ENDS.items()}
    means = [np.mean([ends[NAMES[label]] for label in own]) for own in (VECTORS, CATEGORIES)]
    assert found.ours.mean == pytest.approx(means[0] - means[1])
    assert found.arms == NAMES
    assert found.more[0].startswith("Level-2 is 30\u00a0% (") and "90\u00a0%" not in found.more[0]


@pytest.mark.parametrize(
    ("ends", "noise", "word", "begin"),
    [
        (sides(0.5, 0.2), 0.01, "categories draw more", "Models of categories draw more: "),
        (sides(0.3, 0.3), 0.01, "alike", "They draw about as much: "),
        (sides(0.4, 0.4), 0.3, "cannot tell", "The seeds cannot tell: "),
        (sides(0.01, 0.01), 0.01, "cannot tell", "It cannot be told where both draw next to nothing: "),
    ],
)
def test_the_other_words(tmp_path: Path, ends: Mapping[str, float], noise: float, word: str, begin: str) -> None:
    entry = asked(planted(tmp_path, ends, noise=noise))
    assert entry.word == word and f". {begin}" in entry.text
    half = [label for label in NAMES if ends[NAMES[label]] >= 0.5]
    assert ("none as much as half. " in entry.text) == (not half)


def test_at_the_floor_alike_is_not_said(tmp_path: Path) -> None:
    entry = asked(planted(tmp_path, sides(0.01, 0.01)))
    assert set(words(entry).values()) == {"neither composes"}


def test_single_steps_do_not_decide(tmp_path: Path) -> None:
    """Steps of either sign that cancel: the word is that of both sides together."""
    ends = sides(0.3, 0.3) | {"givt": 0.5, "mar": 0.1}
    entry = asked(planted(tmp_path, ends))
    assert words(entry)["GIVT minus regression"] == "higher" and words(entry)["MAR minus regression"] == "lower"
    assert entry.word == "alike"


def test_comparisons_are_paired_by_seed(tmp_path: Path) -> None:
    """What all arms share of a seed is no noise."""

    def share(arm: str, text: str, level: int, seed: int) -> float:
        return 0.2 + 0.08 * seed + (0.1 if arm in ("regression", "givt", "mar", "dit") else 0) if level else 0.97

    entry = asked(plant_shares(tmp_path, STUDY, share, evaluations=5))
    assert entry.word == "vectors draw more" and entry.found is not None
    assert entry.found.ours.mean == pytest.approx(0.1, abs=0.01)


def test_the_measure_is_the_callers(tmp_path: Path) -> None:
    """Nothing is right and valid; the probe alone names more of what models of vectors draw."""
    folder = planted(tmp_path, sides(0.0, 0.3), probe=0.2)
    probe = judge_categories(open_studies([folder]), Measure(NAMED))
    assert probe.more[0].startswith("Level-2 is 20\u00a0% (") and probe.word == "vectors draw more"
    entry = asked(folder)
    assert [one.label for one in entry.named] == list(SAID)


# What is not compared


def dull(*arms: str, ends: Mapping[str, float] = ENDS) -> Share:
    return lambda arm, text, level, seed: ends[arm] if level else 0.4 if arm in arms else 0.97


def test_arms_that_have_not_learned(tmp_path: Path) -> None:
    """They are in no mean and no step, and named; they are drawn all the same."""
    entry = asked(plant_shares(tmp_path, STUDY, dull("maskgit-soft", "dit"), evaluations=5))
    assert set(words(entry)) == set(SAID) - {"soft-target MaskGIT minus MaskGIT", "DiT minus regression"}
    for label in ("Soft-target MaskGIT", "DiT"):
        assert f"{label} draws only 40\u00a0% of the trained compositions and is not compared." in entry.limits
    assert "(the mean of regression, GIVT and MAR)" in entry.text
    assert "(the mean of MaskGIT, all-token MaskGIT, discrete diffusion and autoregressive)" in entry.text
    assert "; DiT minus regression is not compared." in entry.text
    assert entry.found is not None and isinstance(entry.found.panels[0], Rows)
    assert [row.label for row in entry.found.panels[0].rows] == list(NAMES)


def test_more_arms_may_have_learned_by_the_probe_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There the means are of other arms, which is said, and their steps have rows in the figure."""
    folder = plant_shares(tmp_path, STUDY, dull("maskgit-soft", "dit"), evaluations=5)
    studies = open_studies([folder])
    for row in studies["discrete"].finished.rows:
        if row["level"] == 0:
            row[NAMED] = 1.0
    entry = ask_beyond(B12, studies)
    said = (
        "Counted by the probe alone, soft-target MaskGIT and DiT have learned too: there they are compared, and count "
    )
    assert f"{said}in the mean." in entry.limits
    assert entry.by_probe is not None and "(the mean of regression, GIVT, MAR and DiT)" in entry.by_probe.answer
    ends = [text.get_text() for text in drawn(entry, tmp_path, monkeypatch).axes[-1].texts]
    assert ends == [*words(entry).values(), "not compared", "not compared"]  # many rows, so on one line
    assert len(entry.to_json()["by_probe_only"]) == 2
    one = asked(plant_shares(tmp_path / "neither", STUDY, dull("dit"), evaluations=5))
    assert not any("by the probe alone" in limit for limit in one.limits)


@pytest.mark.parametrize("side", ["categories", "vectors"])
def test_a_side_of_which_none_has_learned(tmp_path: Path, side: str) -> None:
    own = [NAMES[label] for label in (VECTORS if side == "vectors" else CATEGORIES)]
    entry = asked(plant_shares(tmp_path / "dull", STUDY, dull(*own), evaluations=5))
    said = f"Of the models of {side} in the study discrete none "
    assert entry.found is None and entry.why == f"{said}have learned what they were trained on."
    kept = [arm for arm in ENDS if arm not in own]
    absent = asked(planted(tmp_path / "absent", study=some_arms(STUDY, STUDY.name, kept)))
    assert absent.found is None and absent.why == f"{said}are there."


def test_arms_that_were_not_run(tmp_path: Path) -> None:
    """Without MaskGIT only steps from regression are left."""
    kept = ["autoregressive", "regression", "mar", "dit-vae"]
    entry = asked(planted(tmp_path, study=some_arms(STUDY, STUDY.name, kept)))
    assert set(words(entry)) == {ALL, "MAR minus regression"}
    assert "(the mean of regression and MAR) minus that of categories (autoregressive alone)" in entry.text
    assert "not compared" not in entry.text  # of arms that are not there nothing is said but once
    gone = "MaskGIT, soft-target MaskGIT, all-token MaskGIT, discrete diffusion, GIVT and DiT"
    assert f"The study discrete has no arm for {gone}." in entry.limits
    assert not any(limit.startswith("Only regression minus MaskGIT") for limit in entry.limits)


def test_too_few_seeds_and_no_study(tmp_path: Path) -> None:
    few = planted(tmp_path / "few", seeds=range(5))
    entry = asked(few)
    assert entry.found is None and "share 5 seeds" in entry.why
    other = plant_shares(tmp_path / "objectives", of_library("objectives"), by_arm({}), evaluations=1)
    assert "B12" not in [one.id for one in look_beyond(open_studies([other]))]
    assert "B12" in [one.id for one in look_beyond(open_studies([few]))]


# What else differs


def test_the_limits_say_what_else_differs(tmp_path: Path) -> None:
    limits = asked(planted(tmp_path)).limits
    assert limits[0] == (
        "What is compared here was written when the shares of this study had been seen (docs/claims.md)."
    )
    assert "Only regression minus MaskGIT exchanges categories for vectors and keeps the masks." in limits
    also = next(limit for limit in limits if limit.startswith("Beside what is meant, these change: "))
    assert "regression minus MaskGIT, chance (" in also and also.endswith(
        "; all-token MaskGIT minus MaskGIT, smoothing."
    )
    assert "soft-target" not in also  # its targets are all that it changes
    ways = next(limit for limit in limits if limit.startswith("How pictures are drawn differs too: "))
    masked = "MaskGIT, soft-target MaskGIT and all-token MaskGIT in 32 steps, by confidence with noise 1; "
    assert masked in ways and "; regression in 12 steps, at random; " in ways and "; DiT in 50 steps, " in ways
    assert "GIVT in 32 steps, by confidence with noise 2 and none in a token" in ways
    assert not any("differ from MaskGIT" in limit for limit in limits)


def test_settings_beside_the_generator_are_named(tmp_path: Path) -> None:
    resolved = STUDY.resolved()
    mar = resolved["arms"]["mar"]
    arms = resolved["arms"] | {"mar": mar | {"training": mar["training"] | {"rate": 5e-4}}}
    entry = asked(planted(tmp_path, study=Study.model_validate(resolved | {"arms": arms})))
    assert "Beside what is compared, these differ from MaskGIT: MAR in training.rate." in entry.limits


# The figure


def test_the_figure(tmp_path: Path) -> None:
    entry = asked(planted(tmp_path))
    assert entry.found is not None
    rows, gains = entry.found.panels
    assert isinstance(rows, Rows) and isinstance(gains, Gains) and gains.contrasts == entry.found.contrasts
    assert [row.label for row in rows.rows] == list(NAMES)
    assert {row.label: row.colour for row in rows.rows} == {
        label: "blue" if label in VECTORS else "red" for label in NAMES
    }
    assert np.mean(rows.rows[6].values) == pytest.approx(0.7, abs=0.01)
    one, two = (draw_entry(asked(tmp_path), tmp_path / f"{name}.png").read_bytes() for name in "ab")
    assert one == two and len(one) > 10_000


def test_names_do_not_run_into_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = drawn(asked(planted(tmp_path)), tmp_path, monkeypatch)
    rows, gains = figure.axes
    assert min(text.get_window_extent().x0 for text in gains.get_yticklabels()) > rows.bbox.x1
    assert max(text.get_window_extent().x1 for text in gains.texts) < figure.bbox.x1
    heights = [text.get_window_extent() for text in gains.get_yticklabels()]
    assert all(below.y1 <= above.y0 for above, below in pairwise(heights))
