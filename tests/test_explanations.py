"""Explanations: every word on every rival can be reached, by tables planted to reach it; and the committed results."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from planted import CONDITIONING, DISCRETE, LEVELS, OBJECTIVES, TOKENIZERS, Plan, library, plant, study_of
from planted_cells import FACTORS, WITHHELD, Draw, Shares, far, lean, learned, plant_cells, ramp
from recombine.claims.ledger import CLAIMS, is_figures, make_ledger, open_studies
from recombine.claims.page import page_text, write_page
from recombine.claims.tables import Curve, open_study
from recombine.claims.tokenizer import width
from recombine.claims.why import dropout as why_dropout
from recombine.claims.why import peak as why_peak
from recombine.claims.why import peak_vectors as why_vectors
from recombine.claims.why import rise as why_rise
from recombine.claims.why import rise_bounds as why_bounds
from recombine.claims.why.answers import Answer, Explanation, Lines, by_share, by_test
from recombine.claims.why.cells import FactorWords, cells, early, inward, late, parted, peaks
from recombine.claims.why.explanations import EXPLANATIONS, ask_why, explain
from recombine.claims.why.figures import draw_answer
from recombine.cli import app
from recombine.judges.statistics import Interval, paired

ROOT = Path(__file__).resolve().parent.parent
PEAK, DROPOUT, RISE = why_peak.EXPLANATION, why_dropout.EXPLANATION, why_rise.EXPLANATION


def words(answer: Answer) -> dict[str, str]:
    assert answer.finding is not None, answer.evidence
    return {one.rival: one.word for one in answer.finding.outcomes}


def asked(explanation: Explanation, *folders: Path) -> Answer:
    return ask_why(explanation, open_studies(folders))


# E1


def maskgit(**level_2: Any) -> Draw:
    """A MaskGIT that learns what it is trained on; of level-2 each share goes from the first number to the second."""

    def draw(code: str, time: float, seed: int) -> Shares:
        if not far(code):
            return {"valid": ramp(time, 0.05, 0.3), "named": 1.0 if time > 0.3 else level_2.get("others", 1.0)}
        there = {name: ends for name, ends in level_2.items() if name != "others"}
        return {name: a + (b - a) * ramp(time, 0.3, 0.6) + 0.02 * lean(seed, name) for name, (a, b) in there.items()}

    return draw


NOT_VALID, FIXED = why_peak.NOT_VALID, why_peak.FIXED
HABIT, BROKEN, WEAK, LOUD = why_peak.HABIT, why_peak.BROKEN, why_vectors.WEAK, why_vectors.LOUD
PEAKS: dict[str, tuple[Draw, dict[str, str]]] = {
    "pictures that are not valid, then the habit of training": (
        maskgit(colour=(0.9, 0.3), valid=(0.2, 0.2), joint=(0.17, 0.03)),
        {NOT_VALID: "supported", FIXED: "contradicted", HABIT: "supported", BROKEN: "contradicted"},
    ),
    "a real peak that is unlearned": (
        maskgit(colour=(0.8, 0.2), valid=(0.9, 0.9), joint=(0.75, 0.15)),
        {NOT_VALID: "contradicted", FIXED: "contradicted", HABIT: "supported", BROKEN: "contradicted"},
    ),
    "a fixed answer": (
        maskgit(colour=(0.9, 0.3), valid=(0.2, 0.2), joint=(0.15, 0.15), others=0.1),
        {NOT_VALID: "supported", FIXED: "supported", HABIT: "contradicted", BROKEN: "contradicted"},
    ),
    "a fixed answer, and so little that is right and valid that nothing can fall": (
        maskgit(colour=(0.9, 0.3), valid=(0.05, 0.05), joint=(0.02, 0.02), others=0.1),
        {NOT_VALID: "supported", FIXED: "supported", HABIT: "cannot tell", BROKEN: "cannot tell"},
    ),
    "pictures that break": (
        maskgit(valid=(0.8, 0.2), joint=(0.8, 0.2)),
        {NOT_VALID: "cannot tell", FIXED: "cannot tell", HABIT: "contradicted", BROKEN: "supported"},
    ),
    "wrong pictures without a factor that is lost": (  # read as another composition, though the probe names all right
        maskgit(valid=(0.8, 0.8), joint=(0.8, 0.2)),
        {NOT_VALID: "cannot tell", FIXED: "cannot tell", HABIT: "cannot tell", BROKEN: "contradicted"},
    ),
}


@pytest.mark.parametrize("case", PEAKS)
def test_e1(tmp_path: Path, case: str) -> None:
    draw, expected = PEAKS[case]
    found = asked(PEAK, plant_cells(tmp_path, OBJECTIVES, {"maskgit": draw}))
    assert words(found) == expected | {WEAK: "cannot tell", LOUD: "cannot tell"}  # one size of class vectors only
    assert found.word == "explained" or "supported" not in expected.values()
    assert ("There is no real one." in found.text) == case.startswith("a fixed answer") and "  " not in found.text
    assert ("colour" in found.text) == (expected[HABIT] == "supported")


def test_e1_cannot_tell_from_seeds_that_differ(tmp_path: Path) -> None:
    """Half of the seeds lose validity, the other half colour: neither part is clear."""

    def draw(code: str, time: float, seed: int) -> Shares:
        if not far(code):
            return {"valid": ramp(time, 0.05, 0.3)}
        gone = ramp(time, 0.3, 0.6)
        lost = {"valid": 0.5 - 0.35 * gone} if seed % 2 else {"valid": 0.5, "colour": 1 - gone}
        return lost | {"joint": 0.5 - 0.35 * gone, "named": 1 - 0.9 * gone}

    found = words(asked(PEAK, plant_cells(tmp_path, OBJECTIVES, {"maskgit": draw})))
    assert found[HABIT] == found[BROKEN] == "cannot tell"


@pytest.mark.parametrize(
    ("draw", "reason"),
    [
        (maskgit(colour=(0.3, 0.3), valid=(0.2, 0.2), joint=(0.03, 0.03)), "nothing to explain"),
        (lambda code, time, seed: {"valid": 0.4}, "40"),  # did not learn what it was trained on
    ],
)
def test_e1_is_untested_with_a_reason(tmp_path: Path, draw: Draw, reason: str) -> None:
    found = asked(PEAK, plant_cells(tmp_path, OBJECTIVES, {"maskgit": draw}))
    assert found.word == "untested" and reason in found.text and found.finding is None


def test_a_run_that_two_studies_have_is_told_once(tmp_path: Path) -> None:
    """That nothing falls there, and that something does."""
    steady = maskgit(colour=(0.3, 0.3), valid=(0.2, 0.2), joint=(0.03, 0.03))
    falls = PEAKS["a real peak that is unlearned"][0]
    before = study_of("early", {"maskgit": None})
    early = plant_cells(tmp_path / "early", before, {"maskgit": falls}, seeds=range(16, 24))
    for number, draw in enumerate((steady, falls)):
        first = plant_cells(tmp_path / f"objectives-{number}", OBJECTIVES, {"maskgit": draw})
        again = plant_cells(tmp_path / f"again-{number}", DISCRETE, {"maskgit": draw})
        other = plant_cells(tmp_path / f"other-{number}", DISCRETE, {"maskgit": draw}, seeds=range(8, 16))
        for discrete, told in ((again, False), (other, True)):
            found = asked(PEAK, early, first, discrete)
            assert found.finding is not None and found.finding.study.name == "early"
            assert any("the study objectives" in text for text in found.evidence)
            assert any("the study discrete" in text for text in found.evidence) is told
    unanswered = asked(PEAK, *(tmp_path / name for name in ("objectives-0", "again-0")))
    assert unanswered.finding is None and unanswered.text.count("nothing to explain") == 1


def test_untested_without_factors_seeds_or_studies(tmp_path: Path) -> None:
    plain = plant(tmp_path / "plain", OBJECTIVES, {"maskgit": Plan(far=0.02, peak=0.6)})
    assert "does not tell the factors apart" in asked(PEAK, plain).text
    draw = PEAKS["a real peak that is unlearned"][0]
    few = plant_cells(tmp_path / "few", OBJECTIVES, {"maskgit": draw}, seeds=range(5))
    assert "5 seeds" in asked(PEAK, few).text
    for explanation in (DROPOUT, RISE):
        assert asked(explanation, few).word == "untested"
    assert asked(DROPOUT, few).text == "No result of the study conditioning was given."


def test_e1_of_the_committed_results() -> None:
    """MaskGIT does not clearly fall there, so nothing is explained, and it is said by how much it falls."""
    found = asked(PEAK, ROOT / "results" / "objectives")
    assert found.word == "untested" and found.finding is None
    assert found.text.startswith("In the study objectives MaskGIT does not clearly fall from an early peak at level-2 ")
    assert "named right" in found.text and "right and valid" in found.text
    assert found.text.endswith("so there is nothing to explain.")


def test_e1_a_factor_that_is_lost_in_no_composition_alone() -> None:
    """In early colour is clearly lost over all of level-2, but in no composition once corrected for their number."""
    found = asked(PEAK, ROOT / "results" / "early")
    habit = next(one.sentence for one in found.finding.outcomes if one.rival == HABIT)
    assert (
        words(found)[NOT_VALID] == "supported"
        and "Colour is clearly lost at level-2; corrected for all held-out compositions, in none: " in habit
    )
    assert found.word == "partly explained" and found.text.endswith("why, the seeds cannot tell.")


# E1 with class vectors of several sizes

FALLS = maskgit(colour=(0.8, 0.2), valid=(0.9, 0.9), joint=(0.75, 0.15))
KEPT = maskgit(colour=(0.8, 0.8), valid=(0.9, 0.9), joint=(0.75, 0.75))
LESS = maskgit(colour=(0.8, 0.5), valid=(0.9, 0.9), joint=(0.75, 0.45))
NEVER = maskgit(colour=(0.8, 0.8), valid=(0.9, 0.9), joint=(0.1, 0.1))  # drawn by the probe's word only
UNLEARNED: Draw = lambda code, time, seed: {"valid": 0.4}  # noqa: E731
SPREADS = library("spread")


def falls_to(end: float) -> Draw:
    """From 75 % right and valid, as FALLS and KEPT."""
    return maskgit(colour=(0.8, end + 0.05), valid=(0.9, 0.9), joint=(0.75, end))


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
    named = maskgit(colour=(0.9, 0.3), valid=(0.05, 0.05), joint=(0.02, 0.02))
    kept = maskgit(colour=(0.9, 0.9), valid=(0.05, 0.05), joint=(0.02, 0.02))
    found = asked(PEAK, spreads(tmp_path, named, kept))
    assert words(found)[WEAK] == "cannot tell"
    assert any("Judged by the probe alone" in limit and f"{WEAK}: supported" in limit for limit in found.limits)


def test_e1_needs_the_smallest_vectors_to_fall(tmp_path: Path) -> None:
    """That larger ones fall is said, but explains nothing of the question."""
    found = asked(PEAK, spreads(tmp_path, KEPT, FALLS))
    assert found.word == "untested" and "the smallest class vectors (0.02) does not clearly fall" in found.text
    assert "others change, right and valid, by \u221260 points" in found.text


def named(before: float, after: float) -> Draw:
    """What the probe names falls; next to nothing is valid."""
    return maskgit(colour=(before, after), valid=(0.05, 0.05), joint=(0.02, 0.02))


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


# E2


def dropout(*lost: str, by: str = "shape", to: float = 0.03, valid: float = 1.0) -> Draw:
    """An arm that loses a factor in these compositions from half of the training on, or validity."""

    def draw(code: str, time: float, seed: int) -> Shares:
        gone = ramp(time, 0.5, 0.7) if code in lost else 0.0
        up = ramp(time, 0, 0.2)
        late_valid = 1 - (1 - valid) * gone
        return {by: 1 - (1 - to) * gone + 0.01 * lean(seed, by), "valid": min(up, late_valid)}

    return draw


CELLS = ("101", "110", "111")
KEEPS, LOSES = dropout(), dropout(*CELLS)
INFERRED, WRONG, LONG = why_dropout.INFERRED, why_dropout.WRONG, why_dropout.LONG


def conditioning(folder: Path, **arms: Draw) -> Path:
    every = {"full": KEEPS, "full-dropout": KEEPS, "quantized": KEEPS, "quantized-dropout": LOSES}
    named = {name.replace("_", "-"): draw for name, draw in arms.items()}
    return plant_cells(folder / "conditioning", CONDITIONING, every | named)


def withheld(folder: Path, **arms: Draw) -> Path:
    every = {f"{name}-withheld": arms.get(name, KEEPS) for name in FACTORS}
    return plant_cells(folder / "withheld", WITHHELD, every)


def test_e2_the_factor_is_inferred(tmp_path: Path) -> None:
    """Dropout loses shape late in three compositions; withholding shape alone is enough."""
    found = asked(DROPOUT, conditioning(tmp_path), withheld(tmp_path, shape=LOSES))
    assert words(found) == {INFERRED: "supported", WRONG: "contradicted", LONG: "contradicted"}
    assert "101, 110 and 111 shape" in found.text
    assert any("towards 001" in note and "not clearly lost: 011" in note for note in found.evidence)
    alone = next(note for note in found.evidence if "with shape withheld" in note)
    assert alone.startswith("From their early height to the end, 101, 110 and 111 lose ")
    assert "with colour withheld and" in alone and alone.endswith("with size withheld (less than 0: they rise).")
    assert found.finding is not None and [one.name for one in found.finding.beside] == ["withheld"]
    assert found.finding.arms["shape withheld"] == "shape-withheld (withheld)"


def test_e2_names_what_was_never_drawn(tmp_path: Path) -> None:
    """A composition without valid pictures has nothing to lose, though its factor falls like the others'."""

    def draw(code: str, time: float, seed: int) -> Shares:
        return LOSES(code, time, seed) | ({"valid": 0.0} if code == "111" else {})

    found = asked(DROPOUT, conditioning(tmp_path, quantized_dropout=draw))
    assert "In 101 and 110 shape falls back" in found.text
    (note,) = [note for note in found.evidence if "not clearly lost: 011;" in note]
    assert "hardly drawn at any time, so nothing to lose: 111 (shape named right 99.9\xa0% to 3\xa0%)" in note


@pytest.mark.parametrize(
    ("arms", "expected"),
    [
        ({}, "contradicted"),  # withholding shape alone does nothing
        ({"shape": LOSES, "colour": LOSES}, "contradicted"),  # withholding another factor does it too
        ({"shape": lambda *of: (LOSES if of[2] % 2 else KEEPS)(*of)}, "cannot tell"),  # half of the seeds
    ],
)
def test_e2_the_factor_is_not_inferred(tmp_path: Path, arms: dict[str, Draw], expected: str) -> None:
    found = asked(DROPOUT, conditioning(tmp_path), withheld(tmp_path, **arms))
    assert words(found)[INFERRED] == expected


def test_e2_without_arms_that_withhold_some(tmp_path: Path) -> None:
    found = asked(DROPOUT, conditioning(tmp_path))
    assert words(found) == {INFERRED: "cannot tell", WRONG: "contradicted", LONG: "contradicted"}
    assert "It is not wrong labels or long training alone." in found.text
    assert found.word == "cannot tell"


def test_e2_wrong_labels(tmp_path: Path) -> None:
    """Only the arm that is told class 0 loses anything."""
    arms = {"full_mislabelled": LOSES, "quantized_dropout": KEEPS}
    found = asked(DROPOUT, conditioning(tmp_path, **arms))
    assert words(found) == {INFERRED: "contradicted", WRONG: "supported", LONG: "contradicted"}
    assert "because zeros are told" in found.text


def test_e2_says_which_factor_each_kind_of_dropout_loses() -> None:
    """Both end at zero; only the factors tell that they are two losses."""
    found = asked(DROPOUT, *(ROOT / "results" / name for name in ("conditioning", "mislabelled")))
    (said,) = (note for note in found.evidence if note.startswith("Which factor is lost (shape / colour / size "))
    null, zeros = said.split("; quantized")[0].split("; full conditioning and zeros ")
    assert "full conditioning and a learned null 011" in null and "101 65 / 100 / 100\u00a0%" in null
    assert "101 100 / 100 / 0.9\u00a0%" in zeros and "quantized conditioning and zeros" in said


def test_e2_wrong_labels_that_do_most_of_it(tmp_path: Path) -> None:
    arms = {"full_mislabelled": LOSES, "full_dropout": dropout(*CELLS, to=0.8), "quantized_dropout": KEEPS}
    assert words(asked(DROPOUT, conditioning(tmp_path, **arms)))[WRONG] == "supported"


def test_e2_long_training(tmp_path: Path) -> None:
    """The arm without dropout falls as far, so nothing is left for dropout to explain."""
    found = words(asked(DROPOUT, conditioning(tmp_path, quantized=LOSES), withheld(tmp_path, shape=LOSES)))
    assert found[LONG] == "supported" and found[INFERRED] == "cannot tell"


def test_e2_pictures_that_break_are_no_lost_factor(tmp_path: Path) -> None:
    broken = dropout(*CELLS, to=1.0, valid=0.1)
    found = asked(DROPOUT, conditioning(tmp_path, quantized_dropout=broken), withheld(tmp_path))
    assert words(found)[INFERRED] == "contradicted" and "right pictures are lost" in found.text
    assert any("Judged by the probe alone" in limit for limit in found.limits)


def test_e2_nothing_lost(tmp_path: Path) -> None:
    found = asked(DROPOUT, conditioning(tmp_path, quantized_dropout=KEEPS))
    assert found.word == "untested" and "loses no held-out composition by step 60,000" in found.text


def test_e2_a_seeds_chance_peak_is_no_fall(tmp_path: Path) -> None:
    """Noise that is as large late as early must not look like a loss, though every seed lies below its own highest."""

    def noisy(code: str, time: float, seed: int) -> Shares:
        return {"shape": 0.6 + 0.1 * lean(seed, f"{code}{time}"), "valid": 1.0 if LEVELS[code] else ramp(time, 0, 0.2)}

    trained = {"full_dropout": noisy, "quantized_dropout": noisy}
    for name, draw in trained.items():
        trained[name] = lambda code, time, seed, draw=draw: draw(code, time, seed) if LEVELS[code] else {}
    assert asked(DROPOUT, conditioning(tmp_path, **trained)).word == "untested"


def test_the_librarys_studies_have_the_arms_of_e2(tmp_path: Path) -> None:
    """The settings that E2 looks for are those that the studies of the library would write."""
    first, some = library("conditioning"), library("withheld")
    draws = {name: LOSES if "dropout" in name else KEEPS for name in first.arms}
    folders = [plant_cells(tmp_path / "a", first, draws)]
    folders.append(plant_cells(tmp_path / "b", some, {name: LOSES if "shape" in name else KEEPS for name in some.arms}))
    faulty = library("mislabelled")
    folders.append(plant_cells(tmp_path / "c", faulty, dict.fromkeys(faulty.arms, LOSES)))
    found = asked(DROPOUT, *folders)
    assert words(found) == {INFERRED: "supported", WRONG: "contradicted", LONG: "contradicted"}
    assert found.finding is not None and {one.name for one in found.finding.beside} == {"withheld", "mislabelled"}
    assert "told as zeros" in found.finding.arms


# E3


def rises(when: float, wide: float, scatter: float = 0.0, valid: float | None = None) -> Draw:
    """Level-2 reaches half of its end at `when`, within `wide`, seeds up to `scatter` apart; it is valid from `valid`
    (the same where not given). What is trained, and level-1, comes at 0.2."""

    def draw(code: str, time: float, seed: int) -> Shares:
        middle = when + scatter * (seed - 3.5) / 3.5
        if not far(code):
            return {"valid": ramp(time, 0.15, 0.25)}
        up = ramp(time, middle - wide / 2, middle + wide / 2)
        return {
            "joint": 0.9 * up,
            "named": up,
            "valid": 0.95 * (up if valid is None else ramp(time, valid, valid + 0.05)),
        }

    return draw


SHARPNESS, SPREAD = why_rise.SHARPNESS, why_rise.SPREAD
TOGETHER, FIRST = why_rise.TOGETHER, why_rise.WRONG_FIRST
RISES: dict[str, tuple[Draw, Draw, dict[str, str]]] = {
    "each VAE seed is gradual": (
        rises(0.45, 0.6),
        rises(0.45, 0.04),
        {SHARPNESS: "supported", SPREAD: "contradicted", TOGETHER: "contradicted", FIRST: "contradicted"},
    ),
    "only the mean is gradual": (
        rises(0.5, 0.04, scatter=0.3),
        rises(0.5, 0.04),
        {SHARPNESS: "contradicted", SPREAD: "supported", TOGETHER: "contradicted", FIRST: "contradicted"},
    ),
    "with the whole model": (
        rises(0.21, 0.1),
        rises(0.21, 0.1),
        {SHARPNESS: "contradicted", SPREAD: "contradicted", TOGETHER: "supported", FIRST: "contradicted"},
    ),
    "valid pictures first": (
        rises(0.6, 0.1, valid=0.2),
        rises(0.6, 0.1, valid=0.2),
        {SHARPNESS: "contradicted", SPREAD: "contradicted", TOGETHER: "contradicted", FIRST: "supported"},
    ),
}


@pytest.mark.parametrize("case", RISES)
def test_e3(tmp_path: Path, case: str) -> None:
    vae, vq, expected = RISES[case]
    found = asked(RISE, plant_cells(tmp_path, TOKENIZERS, {"vq": vq, "vae": vae}, evaluations=50))
    assert words(found) == expected, [one.sentence for one in found.finding.outcomes] if found.finding else ""


def test_e3_cannot_tell_from_few_evaluations(tmp_path: Path) -> None:
    vae, vq, _ = RISES["with the whole model"]
    found = words(asked(RISE, plant_cells(tmp_path, TOKENIZERS, {"vq": vq, "vae": vae}, evaluations=5)))
    assert found[SHARPNESS] == "cannot tell" and found[TOGETHER] == "cannot tell"


def test_e3_needs_seeds_that_compose(tmp_path: Path) -> None:
    weak: Draw = lambda code, time, seed: {"joint": 0.3 if far(code) else 0.95}  # noqa: E731
    found = asked(RISE, plant_cells(tmp_path, TOKENIZERS, {"vq": weak, "vae": RISES["with the whole model"][0]}))
    assert found.word == "untested" and "0 of 8 seeds compose" in found.text


def test_e3_falls_back_on_another_study(tmp_path: Path) -> None:
    vae, vq, expected = RISES["each VAE seed is gradual"]
    arms = {"dit-vq": vq, "dit-vae": vae}
    found = asked(RISE, plant_cells(tmp_path, OBJECTIVES, arms, evaluations=50))
    assert words(found) == expected and found.finding is not None and found.finding.study.name == "objectives"


# The measures


def test_peaks_are_those_of_the_other_seeds() -> None:
    """A seed's own spike does not move its own moment, only the others'."""
    values = np.array([[0.1, 0.1, 0.1], [0.2, 0.3, 0.2], [0.9, 0.1, 0.1]])
    assert peaks(values).tolist() == [1, 2, 2]
    assert early(values, peaks(values)).tolist() == [0.2, 0.1, 0.1]
    noise = np.random.default_rng(0).normal(0.5, 0.1, (25, 400))
    fall = early(noise, peaks(noise)) - late(noise)
    assert abs(fall.mean()) < 0.02 < 0.1 < (noise.max(axis=0) - late(noise)).mean()


def test_a_fall_is_parted_without_rest() -> None:
    random = np.random.default_rng(1)
    valid = random.uniform(0, 1, (10, 50))
    valid[:, :5] = 0
    valid[-2:, 5:8] = 0  # valid early only
    right = valid * random.uniform(0, 1, (10, 50))
    at = peaks(right)
    broken, wrong = parted(valid, right, at)
    assert broken + wrong == pytest.approx(early(right, at) - late(right))
    assert (wrong[5:8] == 0).all() and (broken[:5] == 0).all()
    steady = np.full((10, 4), 0.5)
    falling = np.linspace(0.5, 0.1, 10)[:, None].repeat(4, axis=1)
    assert parted(steady, falling, peaks(falling))[0] == pytest.approx(0)  # as many are valid: all is wrong pictures
    assert parted(falling, falling, peaks(falling))[1] == pytest.approx(0)  # all valid ones are right: all is broken


def test_exchanges_that_lead_nearer_to_training() -> None:
    shape, colour, size = (FactorWords(i, name, ()) for i, name in enumerate(FACTORS))
    assert inward("110", shape, LEVELS) == ["010"] and inward("110", colour, LEVELS) == ["100"]
    assert inward("110", size, LEVELS) == [] and inward("000", shape, LEVELS) == []
    assert inward("111", size, LEVELS) == ["110"]


def test_cells_average_to_levels(tmp_path: Path) -> None:
    """Composition by composition gives the level means that the claims read."""
    arm = open_study(plant_cells(tmp_path, OBJECTIVES, {"maskgit": learned})).arms[0]
    own = cells(arm, arm.seeds)
    assert own.mean(own.at(1), "valid") == pytest.approx(arm.curve("valid", 1).values)
    assert len(cells(arm, [0, 1], until=30_000).steps) == 10


def test_the_mean_of_jumps_is_gradual() -> None:
    """Eight jumps at different steps: no seed has a width, their mean has; alike seeds have none in excess."""
    steps = np.arange(1, 101) * 10.0
    jumps = np.where(steps[:, None] > 300 + 50 * np.arange(8), 0.9, 0.0)
    curve = Curve(steps, tuple(range(8)), jumps)
    whole = width(steps, jumps.mean(axis=1))[0]
    own = np.array([width(steps, jumps[:, i])[0] for i in range(8)])
    assert whole > 0.4 and own.max() < 0.03
    found = why_rise.excess(curve)
    assert found.mean == pytest.approx(whole - own.mean()) and found.low is not None and found.low > 0.1
    assert found == why_rise.excess(curve)  # drawn the same each time
    alike = Curve(steps, tuple(range(8)), jumps[:, :1].repeat(8, axis=1))
    none = why_rise.excess(alike)
    assert (none.mean, none.low, none.high) == pytest.approx((0, 0, 0))
    assert why_bounds.half_steps(curve).least == pytest.approx(305.0 + 50 * np.arange(8), abs=1)


def test_words_follow_from_intervals() -> None:
    assert [by_share(Interval(0.5, *ends, 8)) for ends in ((0.6, 0.9), (0.1, 0.4), (0.4, 0.6))] == [
        "supported",
        "contradicted",
        "cannot tell",
    ]
    up = paired([0.3, 0.31, 0.32, 0.3, 0.29, 0.3], [0.0] * 6)
    assert by_test(up, up.p) == "supported" and by_test(up, 0.2) == by_test(up, None) == "cannot tell"


# In the ledger


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results/ of studies that answer all three."""
    home = tmp_path_factory.mktemp("home")
    results = home / "results"
    plant_cells(results / "objectives", OBJECTIVES, {"maskgit": next(iter(PEAKS.values()))[0]})
    conditioning(results, full_mislabelled=LOSES)
    withheld(results, shape=LOSES)
    vae, vq, _ = RISES["each VAE seed is gradual"]
    plant_cells(results / "tokenizers", TOKENIZERS, {"vq": vq, "vae": vae}, evaluations=50)
    return home


def folders(home: Path) -> list[Path]:
    return sorted((home / "results").iterdir())


def test_the_command_and_its_json(planted: Path) -> None:
    done = CliRunner().invoke(app, ["claims", *map(str, folders(planted))], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    for one in EXPLANATIONS:
        assert one.id in done.output
    done = CliRunner().invoke(app, ["claims", *map(str, folders(planted)), "--json"])
    assert done.exit_code == 0, done.output
    claims = json.loads(done.output)
    assert [one["id"] for one in claims] == [claim.id for claim in CLAIMS]
    found = {why["id"]: why for one in claims for why in one["why"]}
    assert {one["id"]: [why["id"] for why in one["why"]] for one in claims if one["why"]} == {
        "C1": ["E1"],
        "C2": ["E3"],
        "C3": ["E2"],
    }
    for one in EXPLANATIONS:
        why = found[one.id]
        assert (
            why["word"] == "explained" and why["seeds"] == 8 and why["interval"][0] < why["ours"] < why["interval"][1]
        )
        assert [rival["name"] for rival in why["rivals"]] == list(one.rivals)
        assert all(rival["prediction"] and rival["sentence"] for rival in why["rivals"])


def test_the_json_of_what_is_untested(tmp_path: Path) -> None:
    plain = plant(tmp_path, OBJECTIVES, {"maskgit": Plan(far=0.02)})
    for one in explain(open_studies([plain])):
        found = one.to_json()
        assert found["word"] == "untested" and found["ours"] is None and found["answer"]
        assert {rival["word"] for rival in found["rivals"]} == {"untested"}


def test_the_page_says_why(planted: Path, tmp_path: Path) -> None:
    """Its figures are drawn, the same each time, and its links lead to headings."""
    write_page(planted / "RESULTS.md", folders(planted))
    text = (planted / "RESULTS.md").read_text(encoding="utf-8")
    assert text.index("\n## Why\n") > text.index("\n## The ledger\n")
    studies = open_studies(folders(planted))
    assert page_text(make_ledger(studies), studies, planted) == text and "nan" not in text
    for answer in explain(studies):
        title = f"{answer.id}. {answer.explanation.title}: explained"
        assert f"\n### {title}\n" in text and f"(results/figures/{answer.id}.png)" in text
        assert answer.finding is not None and all(one.sentence in text for one in answer.finding.outcomes)
        again = draw_answer(answer, tmp_path / f"{answer.id}.png")
        assert again.read_bytes() == (planted / "results" / "figures" / f"{answer.id}.png").read_bytes()
    assert "[MaskGIT's early peak](#e1)" in text and text.count('\n<a id="e1"></a>\n\n### E1. ') == 1
    assert is_figures(planted / "results" / "figures")


@pytest.mark.parametrize("times", [1, 3])
def test_rivals_stay_in_the_figure(planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """However many there are, and above the panels."""
    answer = ask_why(PEAK, open_studies(folders(planted)))
    assert answer.finding is not None
    answer = replace(answer, finding=replace(answer.finding, outcomes=times * answer.finding.outcomes))
    figures, save = [], Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *to, **how: figures.append(figure) or save(figure, *to, **how)
    )
    draw_answer(answer, tmp_path / "E1.png")
    (figure,) = figures
    _, _, question, *lines = figure.texts
    assert len(lines) > 1 and not any(line.get_text().endswith("cannot") for line in lines)
    boxes = [text.get_window_extent() for text in (question, *lines)]
    assert max(box.x1 for box in boxes) < figure.bbox.x1
    assert all(below.y1 < above.y0 for above, below in pairwise(boxes))
    assert max(axes.get_tightbbox().y1 for axes in figure.axes) < boxes[-1].y0


def test_docs_name_every_threshold_and_rival() -> None:
    text = " ".join((ROOT / "docs" / "claims.md").read_text(encoding="utf-8").split())
    shared = {one.name for claim in CLAIMS for one in claim.thresholds}
    for explanation in EXPLANATIONS:
        assert f"**{explanation.id}, " in text
        for rival in explanation.rivals:
            assert f"*{rival}*" in text, rival
        for one in explanation.thresholds:
            if one.name not in shared:
                assert f"*{one.name}* ({one.value:g}): {one.reason}" in text
