"""Which study answers a claim, and what the others say beside it: a run that several have is told once."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from planted import DISCRETE, JEPA, OBJECTIVES, REPRODUCED, Plan, plant, study_of
from planted_beyond import of_library, plant_shares
from recombine.claims import jepa, ladder, tokenizer
from recombine.claims.ledger import ask, open_studies
from recombine.studies.results import write_results
from recombine.studies.spec import Study

LOW = Plan(far=0.02, spread=0.01)


def test_a_run_that_two_studies_have_is_told_once(tmp_path: Path) -> None:
    """An arm that was taken over is no second finding; one with other seeds, settings, judge or numbers is."""
    controls = {"maskgit": LOW, "autoregressive": LOW}
    first = plant(tmp_path / "objectives", OBJECTIVES, REPRODUCED["objectives"])

    def told(folder: Path) -> tuple[str, ...]:
        return ask(ladder.CLAIM, open_studies([first, folder])).evidence

    def says(evidence: tuple[str, ...], text: str) -> bool:
        return any(text in one for one in evidence)

    same = told(plant(tmp_path / "same", DISCRETE, controls))
    assert says(same, "Other arms with a categorical output do not compose either: autoregressive (discrete) ")
    assert not says(same, "maskgit (discrete)")
    fresh = plant(tmp_path / "fresh", DISCRETE, controls, seeds=range(8, 16))
    assert says(told(fresh), "maskgit (discrete) ")
    other = plant(tmp_path / "other", DISCRETE, controls | {"maskgit": replace(LOW, far=0.04)})
    assert says(told(other), "maskgit (discrete) ")
    judged = plant(tmp_path / "judged", DISCRETE, controls)
    facts = json.loads((judged / "study.json").read_text())
    (judged / "study.json").write_text(json.dumps(facts | {"judge": {"threshold": 0.2}}), encoding="utf-8")
    assert says(told(judged), "maskgit (discrete) ")
    shorter = study_of("discrete", {"maskgit": {"generator": "maskgit", "training": {"rate": 1e-4}}})
    assert says(told(plant(tmp_path / "shorter", shorter, {"maskgit": LOW})), "maskgit (discrete) ")


def test_a_study_of_the_same_runs_is_no_second_test(tmp_path: Path) -> None:
    """Under another name, and with an arm more, the ladder is still the same four runs."""
    arms = {name: OBJECTIVES.resolved()["arms"][name] for name in ("maskgit", "givt", "mar", "dit-vq")}
    plans = {name: REPRODUCED["objectives"][name] for name in arms}
    again = Study.model_validate(OBJECTIVES.resolved() | {"name": "discrete", "arms": arms})
    first = plant(tmp_path / "objectives", OBJECTIVES, REPRODUCED["objectives"])
    for number, changes in enumerate(({}, {"givt": Plan(far=0.7)})):
        second = plant(tmp_path / f"discrete-{number}", again, plans | changes)
        found = ask(ladder.CLAIM, open_studies([first, second]))
        assert found.finding is not None and found.finding.study.name == "objectives"
        assert any("same test on the study discrete" in text for text in found.evidence) is bool(changes)


def test_a_study_that_lacks_a_rung_stands_beside_one_that_has_all(tmp_path: Path) -> None:
    """A longer run of MaskGIT and DiT alone does not answer for GIVT and MAR."""
    some = study_of("objectives-long", {"maskgit": {"generator": "maskgit"}, "dit-vq": {"generator": "dit"}})
    long = plant(tmp_path / "long", some, {"maskgit": LOW, "dit-vq": LOW})
    whole = plant(tmp_path / "whole", OBJECTIVES, REPRODUCED["objectives"])
    found = ask(ladder.CLAIM, open_studies([long, whole]))
    assert found.finding is not None and found.finding.study.name == "objectives" and found.verdict == "reproduced"
    (beside,) = (text for text in found.limits if "objectives-long" in text)
    assert beside.endswith("8 seeds of the same numbers; it has no GIVT or MAR).") and "not reproduced" in beside
    alone = ask(ladder.CLAIM, open_studies([long]))
    assert alone.finding is not None and alone.finding.lacking == ("GIVT", "MAR") and alone.verdict == "not reproduced"


def test_runs_that_were_trained_on_are_no_second_sample(tmp_path: Path) -> None:
    """Equal in all but their length, with the same numbers where both were judged."""
    plans = dict.fromkeys(("dit-vq", "dit-vae"), Plan(far=0.9, spread=0.01))
    arms = {
        "dit-vq": {"generator": "dit"},
        "dit-vae": {"generator": "dit", "tokenizer": {"kind": "vae", "factor": 4, "channels": 16}},
    }
    short, long = (
        plant(tmp_path / name, study_of(name, arms, steps), plans)
        for name, steps in (("objectives", 30_000), ("objectives-long", 60_000))
    )
    rows = {row_of(row): row for row in pq.read_table(long / "results.parquet").to_pylist()}
    found = ask(tokenizer.CLAIM, open_studies([short, long]))
    assert any("study objectives: " in text and "8 seeds of the same numbers)" in text for text in found.evidence)
    cut = pq.read_table(short / "results.parquet").to_pylist()
    for row in cut:
        row |= {name: value for name, value in rows.get(row_of(row), {}).items() if name not in ("study", "loss")}
    write_results(short, cut)
    found = ask(tokenizer.CLAIM, open_studies([short, long]))
    assert any("study objectives: " in text and "the same runs up to step 30,000)" in text for text in found.evidence)
    assert any(text.startswith("By the probe alone ") and "equal within 10 points" in text for text in found.limits)


def test_runs_that_were_trained_on_but_for_one(tmp_path: Path) -> None:
    """Most of a ladder goes on and one rung was trained again: it says which."""
    arms = {name: OBJECTIVES.resolved()["arms"][name] for name in ("maskgit", "givt", "mar", "dit-vq")}
    short, long = (
        Study.model_validate(
            OBJECTIVES.resolved()
            | {
                "name": name,
                "arms": {arm: own | {"training": own["training"] | {"steps": steps}} for arm, own in arms.items()},
            }
        )
        for name, steps in (("objectives", 30_000), ("objectives-long", 60_000))
    )
    plans = {name: REPRODUCED["objectives"][name] for name in arms}
    folders = [plant(tmp_path / study.name, study, plans) for study in (short, long)]
    rows = {row_of(row): row for row in pq.read_table(folders[1] / "results.parquet").to_pylist()}
    cut = pq.read_table(folders[0] / "results.parquet").to_pylist()
    for row in cut:
        same = rows.get(row_of(row), {}) if row["arm"] != "mar" else {}
        row |= {name: value for name, value in same.items() if name not in ("study", "loss")}
    write_results(folders[0], cut)
    found = ask(ladder.CLAIM, open_studies(folders))
    (beside,) = (text for text in found.evidence if "study objectives: " in text)
    assert beside.endswith("the same runs up to step 30,000, but for MAR).")
    turned = found.finding
    assert turned is not None and turned.study.name == "objectives-long"


def test_a_categorical_model_that_composes_elsewhere_counts(tmp_path: Path) -> None:
    """In a world where other combinations are trained: against the general wording, if nothing else is turned there."""
    first = plant(tmp_path / "objectives", OBJECTIVES, REPRODUCED["objectives"])
    for name, expected in (("maskgit-0", "partly"), ("maskgit-3", "reproduced"), ("dit-0", "reproduced")):

        def share(arm: str, text: str, level: int, seed: int, high: str = name) -> float:
            return 0.97 if level == 0 else 0.8 if arm == high else 0.02

        there = plant_shares(tmp_path / name, of_library("dependent"), share, evaluations=5)
        found = ask(ladder.CLAIM, open_studies([first, there]))
        assert found.verdict == expected
        named = [
            text
            for text in found.limits
            if "maskgit-0 of the study dependent (20 of 27 combinations trained) 80" in text
        ]
        assert bool(named) is (expected == "partly")


def row_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """What a row is about."""
    return tuple(row[name] for name in ("arm", "member", "step", "composition"))


def test_c4_says_what_another_study_says(tmp_path: Path) -> None:
    """objectives gives the verdict; jepa, a search that has the arms too but is shorter, stands beside it."""
    low = dict.fromkeys(REPRODUCED["jepa"], LOW)
    folders = [plant(tmp_path / "jepa", JEPA, low), plant(tmp_path / "o", OBJECTIVES, REPRODUCED["objectives"])]
    found = ask(jepa.GAIN, open_studies(folders))
    assert found.verdict == "reproduced"
    assert any("study jepa: not reproduced" in text for text in found.evidence)
