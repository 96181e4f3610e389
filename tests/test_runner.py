"""The runner: contract columns, nothing computed twice, and a killed study that goes on to equal results."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from interrupting import only_one_member_fits
from recombine import files
from recombine.errors import UserError
from recombine.runner import run_study
from recombine.studies import arms
from recombine.studies.arms import evaluation_steps, make_trainer
from recombine.studies.forecast import forecast
from recombine.studies.inside import Inside
from recombine.studies.monitors import read_monitors
from recombine.studies.pictures import NAME
from recombine.studies.quality_table import read_quality
from recombine.studies.results import read_results
from recombine.studies.spec import Study
from recombine.studies.stages import fit_tokenizers, open_setting
from recombine.studies.store import Store
from recombine.training import Trainer, TrainingSettings


@pytest.fixture(scope="module")
def finished(small_study: Study, shared_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small study, run without interruption."""
    out = tmp_path_factory.mktemp("finished") / "out"
    run_study(small_study, out, shared_store, "cpu")
    return out


def without_arms(store: Path, target: Path) -> Path:
    """A copy of a store in which tokenizer, probe and judge are done and every arm is still to do."""
    return Path(shutil.copytree(store, target, ignore=shutil.ignore_patterns("arm-*")))


def command(study: Study, folder: Path, store: Path) -> list[str]:
    folder.mkdir(exist_ok=True)
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(study.resolved(), sort_keys=False))
    words = ["run", str(path), "--out", str(folder / "out"), "--store", str(store), "--device", "cpu"]
    return [sys.executable, "-m", "recombine.cli", *words]


def wait_for_rows(store: Path, running: subprocess.Popen, kill_after: int) -> None:
    """Until an unfinished arm has that many evaluations on disk."""
    deadline = time.time() + 120
    while time.time() < deadline and running.poll() is None:
        for judged in store.glob("arm-*.work/judged.json"):
            if len({row["step"] for row in json.loads(judged.read_bytes())["rows"]}) >= kill_after:
                return
        time.sleep(0.01)
    raise AssertionError(f"the run ended before it could be stopped: {running.poll()}")


def test_contract_of_a_finished_study(finished: Path, small_study: Study):
    table = read_results(finished)
    wanted = {"study", "arm", "member", "step", "composition", "level", "n", "joint", "valid", "joint_probe_only"}
    wanted |= {"factor_shape", "factor_colour", "factor_size", "joint_raw", "valid_raw", "joint_probe_only_raw", "loss"}
    assert wanted <= set(table.column_names)
    rows = table.to_pylist()
    keys = {(row["study"], row["arm"], row["member"], row["step"], row["composition"]) for row in rows}
    assert len(keys) == len(rows) == 2 * 2 * 4 * 8
    assert {row["step"] for row in rows} == {30, 60, 90, 120}
    assert {row["composition"]: row["level"] for row in rows} == {
        "000": 0, "001": 0, "010": 0, "100": 0, "011": 1, "101": 1, "110": 1, "111": 2,
    }  # fmt: skip
    for row in rows:
        assert row["n"] == 8 and row["joint"] <= min(row["valid"], row["joint_probe_only"]) <= 1
        assert row["joint_probe_only"] <= min(row["factor_shape"], row["factor_colour"], row["factor_size"])
    facts = json.loads((finished / "study.json").read_text())
    assert 0.05 < facts["memory_gib_of_last_call"] < 64  # of the process, to compare with the forecast
    assert Study.model_validate(facts["study"]) == small_study
    assert set(facts["arms"]) == {"maskgit", "dit"} and facts["seconds"]["total"] > 0
    for arm in facts["arms"].values():
        assert arm["seconds"] == pytest.approx(sum(arm["spent"].values()))
        assert all(arm["spent"][part] > 0 for part in ("starting", "training", "drawing and judging", "saving"))
    assert facts["arms"]["dit"]["initial_weights_in_average"] == 0  # the first update copies the weights
    assert set(facts["tokenizers"]["vqvae"]["ceiling"]) == {row["composition"] for row in rows}
    assert min(facts["judge"]["accepted"].values()) >= 0.99 and min(facts["judge"]["refused"].values()) >= 0.99
    assert any(kind.startswith("half-trained") for kind in facts["judge"]["half_trained_far"])
    assert (finished / "report.html").stat().st_size > 10_000
    assert set(files.load_tensors(finished / NAME)) == {
        "real", "reconstruction.vqvae", "maskgit", "maskgit.valid", "maskgit.right", "maskgit.joint", "dit",
        "dit.valid", "dit.right", "dit.joint",
    }  # fmt: skip


def test_raw_weights_are_judged_only_if_asked_for(
    finished: Path, small_study: Study, shared_store: Path, tmp_path: Path
):
    """Without them every other number is the same, and the page does not offer them."""
    fewer = small_study.model_copy(
        update={
            "judging": small_study.judging.model_copy(update={"raw": False}),
            "arms": {"dit": small_study.arms["dit"]},
        }
    )
    run_study(fewer, tmp_path / "out", shared_store, "cpu")
    found = read_results(tmp_path / "out")
    assert not [name for name in found.column_names if name.endswith("_raw")]
    whole = [row for row in read_results(finished).to_pylist() if row["arm"] == "dit"]
    assert found.to_pylist() == [{key: value for key, value in row.items() if key[-4:] != "_raw"} for row in whole]
    assert "joint_raw" not in (tmp_path / "out" / "report.html").read_text()


def test_members_are_looked_inside_at_every_evaluation(finished: Path):
    rows = read_monitors(finished).to_pylist()
    keys = {(row["arm"], row["member"], row["step"], row["monitor"], row["layer"], row["level"]) for row in rows}
    assert len(keys) == len(rows) and all(row["study"] == "small" for row in rows)
    assert {row["arm"] for row in rows} == {"maskgit"}  # there is nothing to look at in a DiT yet
    last = [row for row in rows if row["step"] == 120 and row["member"] == 0]
    assert {(row["member"], row["step"]) for row in rows} == {(m, step) for m in (0, 1) for step in (30, 60, 90, 120)}
    per_layer = {"rank_me", "spread", "least_spread", "mean_cosine"}
    found = {name: {row["layer"] for row in last if row["monitor"] == name} for name in {r["monitor"] for r in last}}
    assert all(found[name] == {0, 1, 2, 3} for name in per_layer)
    assert found["jepa_loss"] == found["jepa_over_mean"] == {2, 3}  # the layers that the JEPA has at this depth
    probes = [row for row in last if row["monitor"].startswith("linear_")]
    assert {row["monitor"] for row in probes} == {"linear_shape", "linear_colour", "linear_size"}
    assert {row["level"] for row in probes} == {0, 1, 2} and all(0 <= row["value"] <= 1 for row in probes)
    first_layer = [row["value"] for row in probes if row["layer"] == 0 and row["level"] == 0]
    assert min(first_layer) > 0.7  # tokens show the factors, though the condition was drawn by lot
    assert all(row["value"] > 1 for row in last if row["monitor"] == "rank_me")
    assert "Inside the models" in (finished / "report.html").read_text()


def test_quality_is_measured_at_the_last_evaluation(finished: Path):
    rows = read_quality(finished).to_pylist()
    assert {(row["study"], row["arm"], row["member"], row["step"]) for row in rows} == {
        ("small", arm, member, 120) for arm in ("maskgit", "dit") for member in (0, 1)
    }
    assert {row["level"] for row in rows} == {0, 1, 2} and all(math.isfinite(row["value"]) for row in rows)
    facts = json.loads((finished / "study.json").read_text())
    assert facts["arms"]["dit"]["images"] == {"000": 64, "001": 64, "010": 64, "100": 64}
    assert facts["arms"]["dit"]["multi_information"] == pytest.approx(3 * 0.8112781244591328 - 2)
    assert facts["arms"]["dit"]["code"] == facts["versions"]["code"]
    assert facts["arms"]["dit"]["hardware"] == facts["hardware"]
    assert "Quality of the pictures" in (finished / "report.html").read_text()


def test_the_latents_a_generator_trains_on_have_unit_scale(small_study: Study, shared_store: Path, finished: Path):
    """On the trained compositions, within 2 %: held-out ones, which the tokenizer saw, do not count."""
    setting = open_setting(small_study, Store(shared_store), torch.device("cpu"))
    entry = next(iter(fit_tokenizers(setting).values()))
    arm = small_study.arms["dit"]
    run = make_trainer(setting, arm.model_copy(update={"training": TrainingSettings(size="xs", images=1000)}), entry)
    assert run.data.x.std().item() == pytest.approx(1, abs=0.02)
    assert run.data.x.mean().item() == pytest.approx(0, abs=0.02)


def test_a_model_to_which_all_images_look_alike_shows_it(small_study: Study, shared_store: Path, finished: Path):
    """Positions differ in every model; rank and spread must not take that for a difference between images."""
    setting = open_setting(small_study, Store(shared_store), torch.device("cpu"))
    entry = next(iter(fit_tokenizers(setting).values()))
    arm = small_study.arms["maskgit"]
    run = make_trainer(setting, arm, entry)
    with torch.no_grad():
        run.generator.inputs.weight.zero_()
    for average, flat in zip(run.average, run.flats, strict=True):  # the averaged weights are those looked at
        average.copy_(flat.weights)
    rows = Inside(setting, arm, entry, "ids").look(run)
    values = {(row["monitor"], row["layer"]): row["value"] for row in rows if row["member"] == 0}
    assert values["spread", 0] < 1e-6 and values["rank_me", 0] < 1.5


def test_members_that_do_not_fit_together_are_trained_in_parts(
    finished: Path, small_study: Study, shared_store: Path, tmp_path, monkeypatch, capsys
):
    """Out of memory with two members: one at a time, said, with the same table but for rounding."""
    only_one_member_fits(monkeypatch)
    run_study(small_study, tmp_path / "out", without_arms(shared_store, tmp_path / "store"), "cpu")
    assert "2 members do not fit into memory together; going on with 1 at a time" in capsys.readouterr().out
    parts, whole = read_results(tmp_path / "out").to_pylist(), read_results(finished).to_pylist()
    keys = ("study", "arm", "member", "seed", "step", "composition", "level", "n")
    assert [[row[key] for key in keys] for row in parts] == [[row[key] for key in keys] for row in whole]
    for one, other in zip(parts, whole, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-3)
    facts = json.loads((tmp_path / "out/study.json").read_text())
    assert facts["arms"]["dit"]["members_at_once"] == [1, 1]
    assert read_monitors(tmp_path / "out").num_rows == read_monitors(finished).num_rows
    assert read_quality(tmp_path / "out").num_rows == read_quality(finished).num_rows
    assert {row["member"] for row in read_quality(tmp_path / "out").to_pylist()} == {0, 1}
    assert not list((tmp_path / "store").glob("*.work"))
    run_study(small_study, tmp_path / "out", tmp_path / "store", "cpu")  # and again: nothing is tried, nothing said
    assert "do not fit" not in capsys.readouterr().out
    assert forecast(small_study, torch.device("cpu")).seconds.keys() >= {"arm dit, 1 member at a time"}


def test_a_member_that_does_not_fit_by_itself_is_one_sentence(
    small_study: Study, shared_store: Path, finished: Path, tmp_path, monkeypatch
):
    def no_memory(self: Trainer, steps: int) -> None:
        raise torch.OutOfMemoryError("none at all")

    monkeypatch.setattr(Trainer, "run", no_memory)
    with pytest.raises(UserError, match="does not fit into memory even with one member"):
        run_study(small_study, tmp_path / "out", without_arms(shared_store, tmp_path / "store"), "cpu")


def test_arms_of_earlier_code_are_still_found(finished: Path, small_study: Study, shared_store: Path, tmp_path):
    """They wrote down how long they took, but not on what."""
    kept = tmp_path / "store"
    without_arms(shared_store, kept)
    older, ours = Store(kept), Store(shared_store)
    for place in shared_store.glob("arm-*"):
        recipe = json.loads((place / "recipe.json").read_text())
        tensors, facts = ours.load("arm", recipe)
        seconds = sum(facts.pop("spent").values())
        older.save("arm", recipe, tensors, facts | {"seconds": seconds})
    run_study(small_study, tmp_path / "out", kept, "cpu")
    assert read_results(tmp_path / "out").to_pylist() == read_results(finished).to_pylist()
    arm = json.loads((tmp_path / "out/study.json").read_text())["arms"]["dit"]
    assert arm["spent"] == {"all": arm["seconds"]} and arm["seconds"] > 0


def test_a_shared_store_knows_no_names(finished: Path, small_study: Study, shared_store: Path, tmp_path, monkeypatch):
    """The same arms under swapped names, in another study, keep their own numbers and pictures."""

    def forbidden(*_args: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(Trainer, "run", forbidden)
    swapped = {"dit": small_study.arms["maskgit"], "maskgit": small_study.arms["dit"]}
    run_study(
        small_study.model_copy(update={"name": "swapped", "arms": swapped}), tmp_path / "out", shared_store, "cpu"
    )
    rows = {name: read_results(folder).to_pylist() for name, folder in (("new", tmp_path / "out"), ("old", finished))}
    assert {row["study"] for row in rows["new"]} == {"swapped"}
    names = {"dit": "maskgit", "maskgit": "dit"}
    renamed = [row | {"study": "small", "arm": names[row["arm"]]} for row in rows["new"]]
    assert [row for row in renamed if row["arm"] == "dit"] == [row for row in rows["old"] if row["arm"] == "dit"]
    pictures = [files.load_tensors(folder / NAME) for folder in (tmp_path / "out", finished)]
    assert torch.equal(pictures[0]["maskgit"], pictures[1]["dit"])


def test_nothing_is_computed_twice(finished: Path, small_study: Study, shared_store: Path, tmp_path, monkeypatch):
    def forbidden(*_args: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(Trainer, "run", forbidden)
    monkeypatch.setattr("recombine.studies.stages.fit_tokenizer", forbidden)
    monkeypatch.setattr("recombine.studies.stages.fit_probe", forbidden)
    monkeypatch.setattr("recombine.studies.stages.calibrate", forbidden)
    run_study(small_study, tmp_path / "again", shared_store, "cpu")
    assert read_results(tmp_path / "again").equals(read_results(finished))
    assert read_monitors(tmp_path / "again").equals(read_monitors(finished))


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_a_stopped_study_goes_on_to_equal_results(
    finished: Path, small_study: Study, shared_store, tmp_path, stop, code
):
    store = without_arms(shared_store, tmp_path / "store")
    environment = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}  # sums depend on the number of threads
    running = subprocess.Popen(
        command(small_study, tmp_path / "study", store),
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # Tests that a script started in the background inherit that SIGINT is ignored, and would hand it on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    wait_for_rows(store, running, kill_after=2)
    running.send_signal(stop)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == code, errors
    assert not (tmp_path / "study/out/results.parquet").exists()
    if stop == signal.SIGINT:
        assert errors.decode().strip() == "recombine: stopped; the same command goes on"
    again = subprocess.run(
        command(small_study, tmp_path / "study", store), env=environment, capture_output=True, timeout=200, check=True
    )
    assert b"going on at step" in again.stdout
    assert read_results(tmp_path / "study/out").equals(read_results(finished))
    assert read_monitors(tmp_path / "study/out").equals(read_monitors(finished))
    assert read_quality(tmp_path / "study/out").equals(read_quality(finished))
    pictures = [files.load_tensors(folder / NAME) for folder in (tmp_path / "study/out", finished)]
    assert all(torch.equal(pictures[0][key], pictures[1][key]) for key in pictures[1])
    assert not list(store.glob("*.work"))


def test_a_stop_in_the_middle_of_an_evaluation_loses_nothing(
    finished, small_study, shared_store, tmp_path, monkeypatch
):
    """Saving whenever it is allowed and stopping while the second evaluation is judged: it is neither left out nor
    doubled."""
    store = without_arms(shared_store, tmp_path / "store")
    monkeypatch.setattr("recombine.studies.arms._Work.due", lambda *_: True)
    monkeypatch.setattr("recombine.studies.arms.STEPS_AT_ONCE", 5)
    plain = arms.evaluate

    def stops(*given: Any) -> Any:
        if given[4].steps_done == 60:
            raise KeyboardInterrupt
        return plain(*given)

    monkeypatch.setattr(arms, "evaluate", stops)
    with pytest.raises(KeyboardInterrupt):
        run_study(small_study, tmp_path / "out", store, "cpu")
    monkeypatch.setattr(arms, "evaluate", plain)
    run_study(small_study, tmp_path / "out", store, "cpu")
    assert read_results(tmp_path / "out").equals(read_results(finished))


def test_a_checkpoint_that_is_cut_short_is_one_sentence(
    small_study: Study, shared_store, finished, tmp_path, monkeypatch
):
    store = without_arms(shared_store, tmp_path / "store")
    plain = Trainer.run
    left = iter(range(3))

    def stops_soon(self: Trainer, steps: int) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        plain(self, steps)

    monkeypatch.setattr(Trainer, "run", stops_soon)
    with pytest.raises(KeyboardInterrupt):
        run_study(small_study, tmp_path / "out", store, "cpu")
    monkeypatch.undo()
    (checkpoint,) = store.glob("arm-*.work/checkpoint.safetensors")
    whole = checkpoint.read_bytes()
    for damage in (whole[: len(whole) // 2], b"", whole[:4] + b"\xff" * 40 + whole[44:]):
        checkpoint.write_bytes(damage)
        done = subprocess.run(
            [*command(small_study, tmp_path, store)], capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 2 and "Traceback" not in done.stderr
        assert done.stderr.startswith("recombine: ") and len(done.stderr.strip().splitlines()) == 1
        assert "cut short" in done.stderr and checkpoint.parent.name in done.stderr and "delete" in done.stderr


def test_a_folder_of_another_study_is_refused_and_left_alone(finished: Path, small_study: Study, shared_store: Path):
    other = small_study.model_copy(update={"name": "other"})
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    with pytest.raises(UserError, match="belongs to another study"):
        run_study(other, finished, shared_store, "cpu")
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


def test_a_missing_gpu_is_said(small_study: Study, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="no CUDA GPU"):
        run_study(small_study, tmp_path / "out", None, "cuda")
    assert not (tmp_path / "out").exists()


def test_a_store_that_is_a_file_is_refused_before_anything_is_written(small_study: Study, tmp_path):
    (tmp_path / "store").write_text("")
    with pytest.raises(UserError, match="is a file, not a folder"):
        run_study(small_study, tmp_path / "out", tmp_path / "store", "cpu")
    assert not (tmp_path / "out").exists()


def test_evaluations_are_spread_to_the_end():
    assert evaluation_steps(100, 4) == [25, 50, 75, 100]
    assert evaluation_steps(3, 3) == [1, 2, 3] and evaluation_steps(11_000, 1) == [11_000]
