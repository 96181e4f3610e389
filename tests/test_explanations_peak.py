"""E1, MaskGIT's early peak: every word on every rival can be reached, by tables planted to reach it."""

from pathlib import Path

import pytest

from planted import DISCRETE, OBJECTIVES, study_of
from planted_cells import Draw, Shares, far, plant_cells, ramp
from planted_explanations import FALLS, NOT_REAL, PEAK, STEADY, UNLEARNED, asked, maskgit, words
from recombine.claims.why import peak as why_peak
from recombine.claims.why import peak_vectors as why_vectors

ROOT = Path(__file__).resolve().parent.parent
NOT_VALID, FIXED = why_peak.NOT_VALID, why_peak.FIXED
HABIT, BROKEN, WEAK, LOUD = why_peak.HABIT, why_peak.BROKEN, why_vectors.WEAK, why_vectors.LOUD
PEAKS: dict[str, tuple[Draw, dict[str, str]]] = {
    "pictures that are not valid, then the habit of training": (
        NOT_REAL,
        {NOT_VALID: "supported", FIXED: "contradicted", HABIT: "supported", BROKEN: "contradicted"},
    ),
    "a real peak that is unlearned": (
        FALLS,
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
        (STEADY, "nothing to explain"),
        (UNLEARNED, "40"),
    ],
)
def test_e1_is_untested_with_a_reason(tmp_path: Path, draw: Draw, reason: str) -> None:
    found = asked(PEAK, plant_cells(tmp_path, OBJECTIVES, {"maskgit": draw}))
    assert found.word == "untested" and reason in found.text and found.finding is None


def test_a_run_that_two_studies_have_is_told_once(tmp_path: Path) -> None:
    """That nothing falls there, and that something does."""
    before = study_of("early", {"maskgit": None})
    early = plant_cells(tmp_path / "early", before, {"maskgit": FALLS}, seeds=range(16, 24))
    for number, draw in enumerate((STEADY, FALLS)):
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
