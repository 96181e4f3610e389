"""B3, missing labels: every word of the entry, and what guidance does where nothing is missing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from planted import study_of
from planted_beyond import asked, by_arm, of_library, plant_shares, some_arms, words
from recombine.claims.beyond.entries import Entry, Gains, Rows
from recombine.claims.beyond.figures import draw_entry
from recombine.studies.spec import Study

SPACE = "\u00a0"
# Arms of their own, so that these rules do not hang on what the library holds today.
TENTH = {"kind": "quantized", "dropout": 0.1}
EACH = {"kind": "dit", "guidance": 1, "guided": "each"}
REMEDIES = study_of(
    "remedies",
    {
        "complete": {"generator": "dit"},
        "unknown": {"generator": "dit", "conditioning": TENTH},
        "imputed": {"generator": "dit", "conditioning": {**TENTH, "missing": "imputed"}},
        "zero": {"generator": "dit", "conditioning": {**TENTH, "missing": "zero"}},
        "guided-each": {"generator": EACH, "conditioning": TENTH},
        "complete-guided": {
            "generator": {"kind": "dit", "guidance": 1},
            "conditioning": {"kind": "quantized", "dropout": 0, "drop_all": 0.1},
        },
    },
)
ENDS = {"complete": 0.8, "unknown": 0.5, "imputed": 0.5, "zero": 0.3, "guided-each": 0.62, "complete-guided": 0.88}
CONTROL, GUIDED = f"guided by all together, 0{SPACE}%", f"guided by each factor, 10{SPACE}%"


def remedied(folder: Path, ends: Mapping[str, float], study: Study = REMEDIES, **more: Any) -> Entry:
    return asked("B3", plant_shares(folder, study, by_arm(ends), evaluations=5, **more))


def test_b3_none_helps(tmp_path: Path) -> None:
    entry = asked("B3", plant_shares(tmp_path, of_library("remedies"), by_arm({}, others=0.4)))
    assert entry.word == "none helps" and entry.text.startswith("No: ")


def test_b3_tells_what_guidance_does_where_nothing_is_missing(tmp_path: Path) -> None:
    entry = remedied(tmp_path, ENDS)
    assert words(entry) == {
        f"a guess from the image, 10{SPACE}%": "alike",
        f"class 0 told, 10{SPACE}%": "lower",
        GUIDED: "higher",
        CONTROL: "higher",
    }
    found = entry.found
    assert (
        found is not None and found.arms[CONTROL] == "complete-guided" and found.arms["told everything"] == "complete"
    )
    gain, helped = (next(one for one in found.contrasts if one.label == label) for label in (CONTROL, GUIDED))
    assert gain.test.mean == pytest.approx(0.08, abs=0.01)  # minus complete, not minus unknown
    assert f"and against it level-2 is higher for {CONTROL}, {gain.text}" in entry.text
    assert f", beside {helped.text} for {GUIDED}." in entry.text and helped.test.mean == pytest.approx(0.12, abs=0.01)
    rows, gains = found.panels
    assert isinstance(rows, Rows) and rows.rows[0].label == CONTROL and len(rows.rows) == 5
    assert isinstance(gains, Gains) and gains.title == f"Minus unknown (0{SPACE}%: minus told everything)"
    assert found.ours.mean == pytest.approx(0.0, abs=0.01)  # a guess minus unknown, as before
    assert any(f"nothing told at all (10{SPACE}% of the labels)" in limit for limit in entry.limits)
    assert draw_entry(entry, tmp_path / "B3.png").stat().st_size > 10_000


def test_b3_the_control_is_no_remedy(tmp_path: Path) -> None:
    """Guidance that helps a model that lacks nothing does not say that a remedy helps; nor is it our number."""
    ends = dict.fromkeys(ENDS, 0.5) | {"complete-guided": 0.9}
    entry = remedied(tmp_path / "one", ends)
    assert words(entry)[CONTROL] == "higher" and entry.word == "none helps" and entry.text.startswith("No: ")
    few = some_arms(REMEDIES, "remedies", ["complete", "unknown", "zero", "complete-guided"])
    without = remedied(tmp_path / "two", ends, few)  # no guess: our number is the mean of the remedies
    assert without.found is not None and without.found.ours.mean == pytest.approx(0, abs=0.01)
    assert "beside" not in without.text


def test_b3_at_two_shares_of_missing_labels(tmp_path: Path) -> None:
    """Each remedy is compared at its own share, and the control at none."""
    third = {"kind": "quantized", "dropout": 0.33}
    more = {
        "unknown-third": {"generator": "dit", "conditioning": third},
        "imputed-third": {"generator": "dit", "conditioning": {**third, "missing": "imputed"}},
    }
    both = REMEDIES.resolved()
    both["arms"] |= study_of("remedies", more).resolved()["arms"]
    ends = ENDS | {"unknown-third": 0.2, "imputed-third": 0.5}
    entry = remedied(tmp_path, ends, Study.model_validate(both))
    assert words(entry)[f"a guess from the image, 33{SPACE}%"] == "higher"  # minus 20 %, not minus 50 %
    assert words(entry)[f"a guess from the image, 10{SPACE}%"] == "alike" and words(entry)[CONTROL] == "higher"
    assert f"with 33{SPACE}% missing (unknown: 20{SPACE}% (" in entry.text
    assert entry.found is not None and entry.found.ours.mean == pytest.approx(0.15, abs=0.01)


@pytest.mark.parametrize("gone", ["complete", "complete-guided", "guided-each", "imputed", "zero"])
def test_b3_answers_without_any_one_arm(tmp_path: Path, gone: str) -> None:
    study = some_arms(REMEDIES, "remedies", [arm for arm in REMEDIES.arms if arm != gone])
    entry = remedied(tmp_path, ENDS, study)
    both = gone not in ("complete", "complete-guided")
    assert (CONTROL in words(entry)) is both and ("against it level-2" in entry.text) is both
    assert len(words(entry)) == 3 and not entry.text.endswith("..")


def test_b3_a_control_that_has_not_learned(tmp_path: Path) -> None:
    for dull, label in {"complete-guided": CONTROL, "complete": "told everything"}.items():

        def share(arm: str, text: str, level: int, seed: int, dull: str = dull) -> float:
            return ENDS[arm] if level else 0.4 if arm == dull else 0.97

        entry = asked("B3", plant_shares(tmp_path / dull, REMEDIES, share, evaluations=5))
        assert CONTROL not in words(entry) and len(words(entry)) == 3
        assert any(limit.startswith(f"{label} draws only 40{SPACE}%") for limit in entry.limits)

    def only_control(arm: str, text: str, level: int, seed: int) -> float:
        return ENDS[arm] if level else 0.97 if arm.startswith("complete") else 0.4

    none = asked("B3", plant_shares(tmp_path / "none", REMEDIES, only_control, evaluations=5))
    assert none.found is None and "no remedy and unknown that both learned" in none.why
