"""B2, factors that depend on each other: the rare compositions, and every word of the entry."""

from pathlib import Path

import pytest

from planted_beyond import asked, levels_of, of_library, plant_shares, some_arms, words
from recombine.claims.beyond.data import rare_and_common
from recombine.claims.beyond.figures import draw_entry

RAREST = {"001", "010", "100", "011", "101", "110"}


def test_b2_rare_compositions_are_those_of_the_study_file() -> None:
    study = of_library("dependent")
    rare, common = rare_and_common(levels_of(study, "dit-3"), 3.0)
    assert rare == RAREST and len(common) == 14
    assert rare_and_common(levels_of(study, "dit-3"), 0.0) == (set(), rare | common)


@pytest.mark.parametrize(
    ("loss", "seldom", "word", "expected"),
    [
        (0.1, 0.0, "dependence costs", ("lower", "alike")),
        (0.0, 0.3, "dependence costs", ("alike", "lower")),
        (0.0, 0.0, "no loss", ("alike", "alike")),
        (-0.1, 0.0, "no loss", ("higher", "alike")),
    ],
)
def test_b2(tmp_path: Path, loss: float, seldom: float, word: str, expected: tuple[str, str]) -> None:
    def share(arm: str, text: str, level: int, seed: int) -> float:
        how = int(arm[-1])
        if level == 0:
            return 0.97 - seldom * how * (text in RAREST)
        return 0.5 - (loss * how if level == 2 else 0)

    entry = asked("B2", plant_shares(tmp_path, of_library("dependent"), share, evaluations=5))
    said = {
        f"{family}{end}": one
        for family in ("DiT", "MaskGIT")
        for end, one in zip(("", ", rare"), expected, strict=True)
    }
    assert words(entry) == said and entry.word == word
    assert entry.found is not None and entry.found.ours.mean == pytest.approx(-3 * loss, abs=0.02)
    assert "the 6 rarest trained compositions are" in entry.text and ", rare" not in entry.text


def test_b2_asks_for_learning_of_what_was_often_seen(tmp_path: Path) -> None:
    """An arm that misses rare compositions alone is compared all the same."""

    def share(arm: str, text: str, level: int, seed: int) -> float:
        rare = arm.endswith("3") and text in RAREST
        return 0.5 if level else 0.0 if rare else 0.72  # 50 % of all trained ones at the strongest

    assert len(words(asked("B2", plant_shares(tmp_path, of_library("dependent"), share, evaluations=2)))) == 4


def test_b2_without_the_weakest_dependence(tmp_path: Path) -> None:
    library = of_library("dependent")
    study = some_arms(library, "dependent", [arm for arm in library.arms if not arm.endswith("-1")])

    def share(arm: str, text: str, level: int, seed: int) -> float:
        return 0.97 if level == 0 else 0.5 - 0.1 * int(arm[-1]) * (level == 2)

    entry = asked("B2", plant_shares(tmp_path, study, share, evaluations=5))
    assert words(entry)["DiT"] == "lower" and "at the strongest dependence (3) against none" in entry.text
    assert draw_entry(entry, tmp_path / "B2.png").stat().st_size > 10_000
