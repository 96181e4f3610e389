"""C3 where full conditioning does not compose itself, and how much the arms with dropout were trained."""

from pathlib import Path

import pytest

from planted import CONDITIONING, REPRODUCED, Plan, library, plant
from recombine.claims import conditioning
from recombine.claims.ledger import ask, open_studies
from recombine.claims.page import ours_text, page_text
from recombine.claims.testing import COMPOSES
from recombine.claims.verdicts import Verdict
from recombine.studies.spec import Study

FLOOR = "full conditioning itself does not compose"
ARMS = ("full", "full-dropout", "quantized", "quantized-dropout")


def asked(folder: Path, plans: dict[str, Plan], study: Study = CONDITIONING, **more: object) -> Verdict:
    return ask(conditioning.CLAIM, open_studies([plant(folder, study, plans, **more)]))  # type: ignore[arg-type]


def states(verdict: Verdict) -> list[str]:
    """Of the three core parts: quantized, dropout, both."""
    assert verdict.finding is not None
    return [part.state for part in verdict.finding.parts if part.role == "core"]


def flat(far: float) -> Plan:
    return Plan(far=far, spread=0.01)


@pytest.mark.parametrize("far", [0.05, 0.3, 0.45])
def test_nothing_can_be_lost_at_a_floor(tmp_path: Path, far: float) -> None:
    """All arms alike and low, and followed for long enough: untested, with our number and the reason."""
    found = asked(tmp_path, dict.fromkeys(ARMS, flat(far)))
    assert states(found) == ["open"] * 3 and found.verdict == "untested"
    assert found.finding is not None and abs(found.finding.ours.mean) < 0.03
    core = [part.sentence for part in found.finding.parts if part.role == "core"]
    assert all(FLOOR in sentence for sentence in core)
    assert all(sentence in found.evidence for sentence in core)
    assert found.to_json()["ours"] == found.finding.ours.mean and found.to_json()["interval"] is not None
    assert ours_text(found) == "not judged"


def test_an_untested_floor_has_its_section(tmp_path: Path) -> None:
    studies = open_studies([plant(tmp_path / "results" / "c", CONDITIONING, dict.fromkeys(ARMS, flat(0.3)))])
    text = page_text([ask(conditioning.CLAIM, studies)], studies, tmp_path, [], [])
    assert "## C3. What the model is told: untested" in text and FLOOR in text and "Images that each seed" in text


def test_the_floor_ends_where_full_composes(tmp_path: Path) -> None:
    """Nothing lost counts against the claim from `composes` on: the same tables on either side of it."""
    for far, words in ((COMPOSES.value - 0.03, "untested"), (COMPOSES.value + 0.03, "not reproduced")):
        found = asked(tmp_path / words, dict.fromkeys(ARMS, Plan(far=far, spread=0.005)))
        assert found.verdict == words
        assert (FLOOR in " ".join(found.evidence)) == (words == "untested")


def test_a_clear_loss_from_a_low_start_still_holds(tmp_path: Path) -> None:
    """What is clearly lost is lost, however little there was; the rest stays open."""
    plans = {**dict.fromkeys(ARMS, flat(0.3)), "full-dropout": flat(0.02)}
    found = asked(tmp_path / "one", plans)
    assert states(found) == ["open", "held", "open"] and found.verdict == "partly"
    plans = {"full": flat(0.4), "quantized": flat(0.2), "full-dropout": flat(0.02), "quantized-dropout": flat(0.02)}
    assert states(asked(tmp_path / "all", plans)) == ["held"] * 3
    plans["quantized-dropout"] = flat(0.2)  # below full, not below quantized
    assert states(asked(tmp_path / "in-part", plans)) == ["held", "held", "in part"]


def test_with_full_high_the_verdicts_are_as_before(tmp_path: Path) -> None:
    planned = {name: REPRODUCED["conditioning"][name] for name in ARMS}
    late = asked(tmp_path / "late", planned)
    assert states(late) == ["held"] * 3 and late.verdict == "reproduced"
    assert any(sentence.startswith("Late decline: full + dropout falls from") for sentence in late.evidence)
    none = asked(tmp_path / "none", dict.fromkeys(ARMS, flat(0.98)))
    assert states(none) == ["failed"] * 3 and none.verdict == "not reproduced"
    some = asked(tmp_path / "some", {**dict.fromkeys(ARMS, flat(0.98)), "quantized": flat(0.6)})
    assert states(some) == ["held", "failed", "failed"] and some.verdict == "partly"
    assert not any(FLOOR in sentence for one in (late, none, some) for sentence in one.evidence)


def test_a_floor_and_a_short_run_are_both_said(tmp_path: Path) -> None:
    short = asked(tmp_path, dict.fromkeys(ARMS, flat(0.3)), steps=dict.fromkeys(ARMS, 11_000))
    assert states(short) == ["open"] * 3
    assert short.finding is not None
    for part in short.finding.parts[1:3]:
        assert FLOOR in part.sentence and ", and it was followed to step 11,000 only" in part.sentence


def test_images_are_steps_times_batch(tmp_path: Path) -> None:
    """60,000 steps of 128 in the planted study, 50,000 of 64 in the library's; the published number is not known."""
    planted = asked(tmp_path / "planted", dict.fromkeys(ARMS, flat(0.9)), steps={"quantized-dropout": 30_000})
    text = next(note for note in planted.evidence if note.startswith("Images"))
    assert "full + dropout 7.68 million and quantized + dropout 3.84 million; " in text and "not known" in text
    study = library("conditioning")
    own = asked(tmp_path / "own", dict.fromkeys(study.arms, flat(0.9)), study)
    training = study.arms["full-dropout"].training
    assert f"full + dropout {training.steps * training.batch / 1e6:.2f} million" in " ".join(own.evidence)
    assert conditioning.FOLLOWED.value == 50_000  # still in steps


def test_a_clear_gain_from_a_low_start_speaks_against_it(tmp_path: Path) -> None:
    """Full does not compose, the others do: nothing could be lost, but the opposite of the claim is clear."""
    found = asked(tmp_path, {**dict.fromkeys(ARMS, flat(0.9)), "full": flat(0.3)})
    assert states(found)[:2] == ["failed", "failed"] and found.verdict == "not reproduced"
    assert any("clearly the opposite" in text for text in found.evidence)
