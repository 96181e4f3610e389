"""E1 with class vectors that begin at several sizes: weak and loud conditioning, and which study answers."""

from pathlib import Path

import pytest

from planted import OBJECTIVES, library
from planted_cells import Draw, Shares, plant_cells
from planted_explanations import FALLS, PEAK, UNLEARNED, asked, maskgit, words
from recombine.claims.why import peak as why_peak
from recombine.claims.why import peak_vectors as why_vectors
from recombine.claims.why.answers import Lines
from recombine.claims.why.figures import draw_answer

WEAK, LOUD, HABIT = why_vectors.WEAK, why_vectors.LOUD, why_peak.HABIT
SPREADS = library("spread")
KEPT = maskgit(colour=(0.8, 0.8), valid=(0.9, 0.9), joint=(0.75, 0.75))
LESS = maskgit(colour=(0.8, 0.5), valid=(0.9, 0.9), joint=(0.75, 0.45))
NEVER = maskgit(colour=(0.8, 0.8), valid=(0.9, 0.9), joint=(0.1, 0.1))  # drawn by the probe's word only


def falls_to(end: float) -> Draw:
    """From 75 % right and valid, as FALLS and KEPT."""
    return maskgit(colour=(0.8, end + 0.05), valid=(0.9, 0.9), joint=(0.75, end))


def named(before: float, after: float) -> Draw:
    """What the probe names falls; next to nothing is valid."""
    return maskgit(colour=(before, after), valid=(0.05, 0.05), joint=(0.02, 0.02))


def spreads(folder: Path, small: Draw, equal: Draw | None = KEPT, large: Draw | None = None) -> Path:
    """The library's study spread with these arms of MaskGIT."""
    arms = {"maskgit-large": large, "maskgit-equal": equal, "maskgit-small": small}
    return plant_cells(folder / "spread", SPREADS, {name: draw for name, draw in arms.items() if draw is not None})


def mixed(code: str, time: float, seed: int) -> Shares:
    """Falls in half of the seeds."""
    return (FALLS if seed % 2 else KEPT)(code, time, seed)


@pytest.mark.parametrize(
    ("equal", "word", "sentence", "answer"),
    [
        (KEPT, "supported", "from 75", "(0.2) it falls less than half as far"),
        (falls_to(0.60), "supported", "larger by +45 points", "(0.2) it falls less than half as far"),  # it falls, yet
        (falls_to(0.30), "contradicted", "larger by +15 points", "(0.2) it falls too, more than half as far"),
        (FALLS, "contradicted", "with 0.2", "(0.2) it falls too, more than half as far"),
        (mixed, "cannot tell", "with 0.2", "cannot be told"),
        (NEVER, "cannot tell", "could not fall as far", "cannot be told"),
        (UNLEARNED, "cannot tell", "draws only 40", "cannot be told"),
        (None, "cannot tell", "No other arm of spread", "cannot be told"),
    ],
)
def test_e1_weak_conditioning(tmp_path: Path, equal: Draw | None, word: str, sentence: str, answer: str) -> None:
    """The arm with the smallest vectors is judged, wherever it stands; the one of 0.2 says what larger ones do."""
    found = asked(PEAK, spreads(tmp_path, FALLS, equal, large=KEPT))
    assert found.finding is not None and words(found)[WEAK] == word and words(found)[HABIT] == "supported"
    assert next(iter(found.finding.arms.items())) == ("MaskGIT with the smallest class vectors (0.02)", "maskgit-small")
    assert ("maskgit-equal" in found.finding.arms.values()) == (equal is not None)
    said = next(one.sentence for one in found.finding.outcomes if one.rival == WEAK)
    assert sentence in said and "begin small (0.02)" in found.text and answer in found.text
    assert any("Judged is MaskGIT with the smallest" in note and "with 1" in note for note in found.evidence)


def test_e1_a_difference_that_does_not_matter(tmp_path: Path) -> None:
    """Small vectors lose 7 points. Larger ones that lose 5 lose more than half; those that lose 3 lose less, but a
    difference below 5 points is no effect."""
    for end, word in ((0.70, "contradicted"), (0.72, "cannot tell")):
        found = asked(PEAK, spreads(tmp_path / word, falls_to(0.68), falls_to(end)))
        assert words(found)[WEAK] == word


def test_e1_larger_vectors_by_the_probe_alone(tmp_path: Path) -> None:
    """Only what the probe names falls: the rival is not told of what is valid, and the limits say what the probe
    would."""
    found = asked(PEAK, spreads(tmp_path, named(0.9, 0.3), named(0.9, 0.9)))
    assert words(found)[WEAK] == "cannot tell"
    assert any("Judged by the probe alone" in limit and f"{WEAK}: supported" in limit for limit in found.limits)


def test_e1_needs_the_smallest_vectors_to_fall(tmp_path: Path) -> None:
    """That larger ones fall is said, but explains nothing of the question."""
    found = asked(PEAK, spreads(tmp_path, KEPT, FALLS))
    assert found.word == "untested" and "the smallest class vectors (0.02) does not clearly fall" in found.text
    assert "others change, right and valid, by \u221260 points" in found.text


@pytest.mark.parametrize(
    ("large", "equal", "word", "sentence"),
    [
        (named(0.9, 0.05), named(0.9, 0.8), "supported", "larger by +74 points"),
        (named(0.9, 0.05), named(0.9, 0.3), "contradicted", "larger by +24 points"),
        (named(0.9, 0.88), named(0.9, 0.88), "cannot tell", "does not clearly fall with 1"),
        (named(0.9, 0.05), named(0.3, 0.3), "cannot tell", "could not fall as far"),
        (UNLEARNED, named(0.9, 0.9), "cannot tell", "With 1 MaskGIT draws only 40"),
        (named(0.9, 0.05), UNLEARNED, "cannot tell", "With 0.2 MaskGIT draws only 40"),
        (named(0.9, 0.05), None, "cannot tell", "vectors that begin at 0.2"),
        (None, named(0.9, 0.05), "cannot tell", "no class vectors begin larger than 0.2"),
    ],
)
def test_e1_loud_conditioning(tmp_path: Path, large: Draw | None, equal: Draw | None, word: str, sentence: str) -> None:
    """Asked of what the probe names, beside small vectors that are judged; those of 0.2 say what smaller ones do."""
    found = asked(PEAK, spreads(tmp_path, FALLS, equal, large))
    assert found.finding is not None and words(found)[LOUD] == word
    assert sentence in next(one.sentence for one in found.finding.outcomes if one.rival == LOUD)
    assert next(iter(found.finding.arms.values())) == "maskgit-small"
    assert ("Where class vectors begin large (1)" in found.text) == (word != "cannot tell")


def test_e1_of_the_study_peak(tmp_path: Path) -> None:
    """Where none begin small the largest vectors are judged, and it goes before studies with one size."""
    arms = {"equal": named(0.9, 0.85), "between": named(0.9, 0.5), "large": named(0.9, 0.05)}
    folder = plant_cells(tmp_path / "peak", library("peak"), arms)
    found = asked(PEAK, plant_cells(tmp_path / "objectives", OBJECTIVES, {"maskgit": FALLS}), folder)
    assert found.finding is not None and found.finding.study.name == "peak"
    assert found.finding.arms == {
        "MaskGIT with the largest class vectors (1)": "large",
        "MaskGIT with smaller ones (0.2)": "equal",
    }
    assert words(found)[LOUD] == "supported" and words(found)[WEAK] == "cannot tell"
    assert found.word == "explained" and "with 0.2 less than half as far" in found.text
    last = found.finding.panels[-1]
    assert isinstance(last, Lines) and last.title == "Named right, by class vectors" and len(last.lines) == 3
    assert draw_answer(found, tmp_path / "E1.png").stat().st_size > 10_000


def test_the_study_peak_has_fresh_seeds() -> None:
    seen = {
        seed for name in ("spread", "loud", "objectives", "early", "jepa-published") for seed in library(name).seeds
    }
    assert not seen & set(library("peak").seeds)


def test_e1_is_answered_by_spread_where_objectives_does_not_fall(tmp_path: Path) -> None:
    """And it is said that objectives does not; where it does, it answers, and spread stands beside it."""
    second = spreads(tmp_path, FALLS)
    first = plant_cells(tmp_path / "steady", OBJECTIVES, {"maskgit": KEPT})
    found = asked(PEAK, first, second)
    assert found.finding is not None and found.finding.study.name == "spread" and words(found)[WEAK] == "supported"
    assert any("study objectives MaskGIT does not clearly fall" in note for note in found.evidence)
    assert found.limits[0] == PEAK.caveat
    first = plant_cells(tmp_path / "falling", OBJECTIVES, {"maskgit": FALLS})
    found = asked(PEAK, second, first)
    assert found.finding is not None and found.finding.study.name == "objectives"
    assert any("study spread" in note and f"{WEAK}: supported" in note for note in found.evidence)


def test_e1_of_spread_on_the_page(tmp_path: Path) -> None:
    """Its figure shows a curve per size."""
    found = asked(PEAK, spreads(tmp_path, FALLS, KEPT, large=LESS))
    assert found.finding is not None
    last = found.finding.panels[-1]
    assert isinstance(last, Lines) and [line.label for line in last.lines] == [
        f"vectors {v}" for v in ("0.02", "0.2", "1")
    ]
    assert draw_answer(found, tmp_path / "E1.png").stat().st_size > 10_000


def test_e1_compares_other_objectives_of_the_same_vectors(tmp_path: Path) -> None:
    """DiT with small vectors stands beside MaskGIT with small ones, whatever its place in the file."""
    arms = {"dit-equal": KEPT, "dit-small": FALLS, "maskgit-small": FALLS}
    found = asked(PEAK, plant_cells(tmp_path, SPREADS, arms))
    assert any("DiT falls from" in note for note in found.evidence)
