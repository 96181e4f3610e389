"""A tiny rendering study, trained for a moment: every arm is measured, and the claims can read the table."""

from pathlib import Path

import pytest
import torch

from recombine.anatomy.measures import read_measures
from recombine.claims.plane_table import PlaneTable
from recombine.claims.rendering_judges import f1_failure
from recombine.studies.rendering import RenderingStudy
from recombine.studies.rendering_measures import measure_study
from recombine.studies.rendering_run import run_arm
from recombine.studies.store import Store

SEEDS = (0, 1, 2, 3, 4, 5)


def test_a_study_is_measured(tmp_path: Path) -> None:
    bumps = {"kind": "bumps", "image_size": 8}
    small = {"world": bumps, "support": {"kind": "donut", "low": 2, "high": 5}, "training": {"steps": 2, "batch": 4}}
    digit = {"world": {"kind": "digits", "angles": 36}, "support": {"kind": "gap"}, "encoding": {"kind": "angle"}}
    cnn = {"kind": "cnn", "width": 4, "depth": 2}
    study = RenderingStudy.model_validate(
        {
            "name": "tiny",
            "question": "Is it measured?",
            "seeds": SEEDS,
            "judging": {"evaluations": 1},
            "arms": {
                "plain": {**small, "decoder": cnn, "data": {"images": 30}},
                "onehot": {**small, "decoder": cnn, "encoding": {"kind": "onehot"}, "data": {"images": 30}},
                "digit": {**digit, "decoder": {"kind": "rotator", "width": 4}, "training": {"steps": 2, "batch": 4}},
                "lowrank": {**small, "decoder": {"kind": "lowrank"}, "encoding": {"kind": "onehot"}},
            },
        }
    )
    store = Store(tmp_path / "store")
    for name in study.arms:
        run_arm(study, name, store, torch.device("cpu"))
    measure_study(study, tmp_path, store)
    table = read_measures(tmp_path)
    assert table is not None
    keys = {(r["arm"], r["seed"], r["layer"], r["measure"], r["region"]) for r in table}
    assert len(keys) == len(table)
    turned = {(r["layer"], r["measure"], r["region"]) for r in table if r["arm"] == "digit"}
    assert ("picture", "superposition_memory", "held_out") in turned and ("picture", "hit", "held_out") in turned
    for name in set(study.arms) - {"digit"}:
        own = {
            (r["layer"], r["measure"], r["region"]): r["value"] for r in table if r["arm"] == name and r["seed"] == 3
        }
        assert own["input", "factorization", "held_out"] == pytest.approx(1)
        assert {"picture", "truth", "input", "output"} <= {layer for layer, _, _ in own}
        assert ("picture", "hit", "held_out") in own and ("picture", "superposition_share", "held_out") in own
    planes = PlaneTable(study.name, study.resolved()["arms"], table)
    found = f1_failure(planes)
    assert found.arms["CNN"] == "plain" and found.parts[0].state == "open"  # two steps fit nothing
    only = measure_study(study, tmp_path, store, inside=False)
    assert only.is_file() and {row["layer"] for row in read_measures(tmp_path) or []} == {"picture"}
