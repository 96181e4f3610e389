"""A tiny rendering study, trained for a moment: every arm is measured, and the claims can read the table."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from recombine.anatomy.measures import read_measures
from recombine.claims.planes.failures import f1_failure
from recombine.claims.planes.table import PlaneTable
from recombine.errors import UserError
from recombine.report.page import write_report
from recombine.runner import run_study
from recombine.studies import rendering_measures, rendering_run
from recombine.studies.rendering import RenderingStudy
from recombine.studies.rendering_measures import measure_inside, measure_study, middle_cell, solo
from recombine.studies.rendering_run import open_arm, run_arm
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
    measure_study(study, tmp_path, store, inside=False)
    assert {row["layer"] for row in read_measures(tmp_path) or []} == {"picture"}


def tiny(**words: object) -> RenderingStudy:
    """Two members of a CNN and an MLP on a plane of 64 cells."""
    arm = {
        "world": {"kind": "bumps", "image_size": 8},
        "support": {"kind": "donut", "low": 2, "high": 5},
        "training": {"steps": 2, "batch": 4},
        "data": {"images": 30},
    }
    arms = {
        "cnn": {**arm, "decoder": {"kind": "cnn", "width": 4, "depth": 2}},
        "mlp": {**arm, "decoder": {"kind": "mlp", "width": 8, "depth": 2}, "encoding": {"kind": "onehot"}},
    }
    base = {"name": "tiny", "question": "Is it kept?", "seeds": (0, 1), "judging": {"evaluations": 1}, "arms": arms}
    return RenderingStudy.model_validate(base | words)


def test_members_measured_one_by_one_are_those_measured_together(tmp_path: Path) -> None:
    study, store = tiny(), Store(tmp_path)
    for name, settings in study.arms.items():
        run_arm(study, name, store, torch.device("cpu"))
        opened = open_arm(study, name, store)
        together, maps = measure_inside(settings, opened)
        for m in range(2):
            alone, own = measure_inside(settings, solo(settings, opened, m))
            for a, b in zip(alone, together, strict=True):
                assert (a.layer, a.measure, a.region) == (b.layer, b.measure, b.region)
                torch.testing.assert_close(
                    a.values[0].double(), b.values[m].double(), rtol=1e-3, atol=1e-4, equal_nan=True
                )
            for key, values in own.items():
                torch.testing.assert_close(values[0], maps[key][m], rtol=1e-3, atol=1e-3)


def test_a_stopped_measuring_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, store = tiny(), Store(tmp_path / "store")
    for name in study.arms:
        run_arm(study, name, store, torch.device("cpu"))
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    measure_study(study, tmp_path / "whole", tmp_path / "copy")
    expected = read_measures(tmp_path / "whole")
    assert expected is not None

    class Killed(BaseException):
        pass

    real, calls = rendering_measures.measure_inside, []

    def counted(*given: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            raise Killed
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(rendering_measures, "measure_inside", counted)
    out = tmp_path / "out"
    with pytest.raises(Killed):
        measure_study(study, out, store)
    assert not out.exists()  # nothing half
    measure_study(study, out, store)
    assert len(calls) == 5  # four members in all, one of them twice
    found = read_measures(out)
    assert found is not None and len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert {k: v for k, v in a.items() if k != "value"} == {k: v for k, v in b.items() if k != "value"}
        assert a["value"] == pytest.approx(b["value"], nan_ok=True)
    seconds = measure_study(study, out, store)
    assert len(calls) == 5  # nothing is measured twice
    assert set(seconds) == {"cnn", "mlp"} and min(seconds.values()) > 0  # as long as it took when it was


def test_what_is_measured_is_chosen_without_training_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, store = tmp_path / "out", tmp_path / "store"
    run_study(tiny(measures="none"), out, store, "cpu")
    page = (out / "report.html").read_text()
    assert read_measures(out) is None and not (out / "maps.safetensors").exists() and "Memory or truth" not in page
    monkeypatch.setattr(rendering_run, "_train", None)
    run_study(tiny(measures="outputs"), out, store, "cpu")
    assert {row["layer"] for row in read_measures(out) or []} == {"picture"}
    page = (out / "report.html").read_text()
    assert "Memory or truth" in page and "Layer by layer" not in page
    run_study(tiny(measures="all"), out, store, "cpu")
    assert {"input", "layer 1", "output", "truth"} <= {row["layer"] for row in read_measures(out) or []}
    assert "Layer by layer" in (out / "report.html").read_text()
    seconds = json.loads((out / "study.json").read_text())["seconds"]
    assert seconds["measuring cnn"] > 0 and seconds["total"] >= seconds["measuring cnn"] + seconds["arm cnn"]
    names = {path.stem for path in (out / "figures").iterdir()}
    assert {"superposition", "superposition-depth", "kernels-cnn", "volume-cnn", "kernels-mlp", "volume-mlp"} <= names
    run_study(tiny(measures="none"), out, store, "cpu")
    assert read_measures(out) is None


def test_a_study_whose_measuring_fails_is_whole_but_for_the_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(rendering_measures, "measure_inside", fails)
    with pytest.raises(UserError, match="the measuring of arm cnn does not fit into memory"):
        run_study(tiny(), tmp_path / "out", tmp_path / "store", "cpu")
    assert read_measures(tmp_path / "out") is None
    assert json.loads((tmp_path / "out" / "study.json").read_text())["finished"] is None
    page = write_report(tmp_path / "out").read_text()
    assert "The study has not finished." in page and "Its arms have not been measured inside." in page


def test_the_middle_of_a_hole() -> None:
    study = tiny()
    plane = study.arms["cnn"].plane()
    cell = middle_cell(plane.cells, plane.trained, plane.depth)
    assert plane.depth[cell] == plane.depth.max() and not plane.trained[cell]
