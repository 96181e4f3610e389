"""Processes that work on one study with one store: each takes what nobody is at work on, and nothing is made twice."""

import fcntl
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from recombine import files
from recombine.judges import Judge, Probe, build_probe
from recombine.runner import run_study
from recombine.studies import bridge, rendering_run, stages
from recombine.studies.rendering import RenderingArm
from recombine.studies.sharing import share_out
from recombine.studies.spec import Study, load_study
from recombine.studies.store import Busy, Store
from recombine.tokenizers import VQVAESettings, build_tokenizer, fit_tokenizer
from recombine.worlds import World

RECIPE = {"version": 1}
Log = tuple[object, dict[str, Any]]  # what fitting gives


@contextmanager
def at_work(path: Path) -> Iterator[None]:
    """Another process, as far as locks go: a lock belongs to who opened the file."""
    with open(path, "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def lock_of(entry: Path) -> Path:
    return entry.parent / f".{entry.name}.lock"


def together(*works: Callable[[], object]) -> None:
    """Does these at the same time, in threads, and waits for all to end well."""
    ended = []
    start = threading.Barrier(len(works))

    def do(work: Callable[[], object]) -> None:
        start.wait()
        work()
        ended.append(work)

    threads = [threading.Thread(target=do, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(ended) == len(works)


def until(found: Callable[[], bool], seconds: float = 120) -> None:
    """Waits for a condition."""
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


def heard(capsys: pytest.CaptureFixture[str], words: str) -> Callable[[], bool]:
    """Whether this was said since the last look."""
    said: list[str] = []

    def look() -> bool:
        said.append(capsys.readouterr().out)
        return words in "".join(said)

    return look


def test_arms_that_others_are_at_work_on_come_last() -> None:
    asked: list[tuple[str, bool]] = []

    def make(name: str, wait: bool) -> str:
        asked.append((name, wait))
        if name in "ac" and not wait:
            raise Busy(name)
        return name.upper()

    assert list(share_out("abc", make).items()) == [("a", "A"), ("b", "B"), ("c", "C")]
    assert asked == [("a", False), ("b", False), ("c", False), ("a", True), ("c", True)]


def test_who_does_not_wait_is_told_what_is_left() -> None:
    asked: list[str] = []

    def make(name: str, wait: bool) -> None:
        assert not wait
        asked.append(name)
        if name == "c" or (name == "b" and "d" not in asked):  # b becomes free while d is made
            raise Busy(name)

    with pytest.raises(Busy, match=r"^c$"):
        share_out("abcd", make, wait=False)
    assert asked == ["a", "b", "c", "d", "b", "c"]


def test_one_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with store.alone("arm", RECIPE, "arm x", wait=False):
        with pytest.raises(Busy), store.alone("arm", RECIPE, "arm x", wait=False):
            pass
        with store.alone("arm", RECIPE | {"version": 2}, "arm y", wait=False):
            pass  # another entry
        store.save("arm", RECIPE, {}, {})
    assert not lock_of(store.path("arm", store.key("arm", RECIPE))).exists()  # not needed any more
    with pytest.raises(ZeroDivisionError), store.alone("arm", RECIPE, "arm x", wait=False):
        raise ZeroDivisionError
    with store.alone("arm", RECIPE, "arm x", wait=False):
        pass  # who failed has let go


def test_what_several_ask_for_is_made_once(tmp_path: Path) -> None:
    """In whatever order: nobody holds one and waits for another."""
    store, made = Store(tmp_path / "store"), []

    def make(name: str, wait: bool) -> None:
        def fit() -> None:
            made.append(name)
            time.sleep(0.2)  # long enough for the others to ask
            store.save("x", {"name": name}, {}, {})

        store.once("x", {"name": name}, name, fit, wait)

    together(*(partial(share_out, order, make) for order in ("ab", "ba", "ab", "ba")))
    assert sorted(made) == ["a", "b"] and len(list(store.folder.iterdir())) == 2


def test_who_waits_takes_over_from_one_that_is_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, made = Store(tmp_path / "store"), []

    def make() -> None:
        made.append("here")
        store.save("probe", RECIPE, {}, {})

    fit = (
        "import sys, time; from recombine.studies.store import Store\n"
        "def make(): print('fitting', flush=True); time.sleep(60)\n"
        "Store(sys.argv[1]).once('probe', {'version': 1}, 'probe', make)"
    )
    other = subprocess.Popen([sys.executable, "-c", fit, str(store.folder)], stdout=subprocess.PIPE, text=True)
    waiting = threading.Thread(target=store.once, args=("probe", RECIPE, "probe", make), daemon=True)
    try:
        assert other.stdout is not None and other.stdout.readline() == "fitting\n"
        with pytest.raises(Busy):
            store.once("probe", RECIPE, "probe", make, wait=False)
        waiting.start()
        until(heard(capsys, "probe: another process is at work on it; waiting for it\n"))
        assert not made
    finally:
        other.kill()
        other.wait()
    waiting.join(60)
    store.once("probe", RECIPE, "probe", make)
    assert made == ["here"] and [path.name[:6] for path in store.folder.iterdir()] == ["probe-"]


def test_tokenizers_probe_and_judge_are_made_once(
    small_study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By two at once: while one is at the tokenizer the other makes the probe, at the judge it waits."""
    made: list[str] = []
    probed = threading.Event()

    def fit_briefly(settings: VQVAESettings, images: Tensor, seed: int) -> Log:
        made.append("tokenizer")
        assert probed.wait(60)
        return fit_tokenizer(settings.model_copy(update={"steps": 2}), images, seed)

    def fit_probe(world: World, *_: object) -> Log:
        made.append("probe")
        probed.set()
        return build_probe(world), {"accuracy": {"000": 1.0}}

    def calibrate(setting: stages.Setting, probe: Probe, _: object) -> Log:
        made.append("judge")
        until(heard(capsys, "judge: another process is at work on it; waiting for it"), 60)
        return Judge(setting.world, probe, 1.0, 0.0, {}), {"accepted": {"real": 1.0}, "refused": {"noise": 1.0}}

    monkeypatch.setattr(stages, "fit_tokenizer", fit_briefly)
    monkeypatch.setattr(stages, "fit_probe", fit_probe)
    monkeypatch.setattr(stages, "_calibrate", calibrate)
    store = Store(tmp_path / "store")

    def work() -> None:
        setting = stages.open_setting(small_study, store, torch.device("cpu"))
        fitted, (probe, _) = stages.fit_tokenizers_and_probe(setting)
        stages.calibrate_judge(setting, probe, fitted)
        assert list(fitted) == ["vqvae"]

    together(work, work)
    assert sorted(made) == ["judge", "probe", "tokenizer"] and len(list(store.folder.iterdir())) == 3


def test_tokenizers_of_planes_are_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = load_study("bridge", shrunk=True)
    assert not isinstance(study, Study)
    arm = next(arm for arm in study.arms.values() if arm.tokenizer is not None)
    made: list[str] = []

    def fit_on_plane(arm: RenderingArm, _: object) -> Log:
        assert arm.tokenizer is not None
        made.append(arm.tokenizer.kind)
        until(heard(capsys, f"tokenizer {made[0]}: another process is at work on it; waiting for it"), 60)
        ceiling = {"held_out": {"joint": 1.0, "relative": 0.0}}
        return build_tokenizer(arm.tokenizer, arm.world.image_size, 1), {"seconds": 0.0, "ceiling": ceiling}

    monkeypatch.setattr(bridge, "fit_on_plane", fit_on_plane)
    store, device = Store(tmp_path / "store"), torch.device("cpu")
    together(*2 * [lambda: bridge.open_tokenizer(arm, arm.plane(), store, device)])
    assert len(made) == 1 and len(list(store.folder.iterdir())) == 1


@pytest.fixture(scope="module")
def alone(small_study: Study, shared_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study as one process makes it, with a store of its own: others may have made its members one by one."""
    folder = tmp_path_factory.mktemp("alone")
    if shared_store.exists():  # with a tokenizer, a probe and a judge
        shutil.copytree(shared_store, folder / "store", ignore=shutil.ignore_patterns("arm-*", "weights-*"))
    run_study(small_study, folder / "out", folder / "store", "cpu")
    return folder


@pytest.mark.parametrize("other", ["finishes", "is killed"])
def test_a_study_takes_what_is_free_and_waits_for_the_rest(
    small_study: Study, alone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], other: str
) -> None:
    first, store = alone / "store", tmp_path / "store"
    shutil.copytree(first, store, ignore=shutil.ignore_patterns("arm-*", "weights-*"))
    entries = {}
    for entry in first.glob("arm-*"):
        recipe = files.load_json(entry / "recipe.json", "")
        name = next(name for name, arm in small_study.arms.items() if recipe["arm"] == arm.model_dump(mode="json"))
        entries[name] = store / entry.name
    assert list(small_study.arms) == ["maskgit", "dit"] and len(entries) == 2
    capsys.readouterr()
    second = threading.Thread(target=run_study, args=(small_study, tmp_path / "second", store, "cpu"), daemon=True)
    with at_work(lock_of(entries["maskgit"])):
        with pytest.raises(Busy, match=r"^maskgit$"):  # who does not wait makes what is free, and leaves
            run_study(small_study, tmp_path / "second", store, "cpu", wait=False)
        left = files.load_json(tmp_path / "second" / "study.json")
        assert entries["dit"].is_dir() and left["finished"] is None and list(left["arms"]) == ["dit"]
        second.start()
        until(heard(capsys, "arm maskgit: another process is at work on it; waiting for it"))
        assert entries["dit"].is_dir() and not entries["maskgit"].exists()
        if other == "finishes":
            shutil.copytree(first / entries["maskgit"].name, entries["maskgit"])
    second.join(120)
    assert not second.is_alive()
    assert heard(capsys, "arm maskgit: 120 steps of 2 members")() == (other == "is killed")
    results = [(out / "results.parquet").read_bytes() for out in (alone / "out", tmp_path / "second")]
    assert results[0] == results[1]
    assert not list(store.glob(".arm-*"))


def test_decoders_are_shared_out_too(tmp_path: Path) -> None:
    study = load_study("demo-rendering")
    assert not isinstance(study, Study)
    name, store = next(iter(study.arms)), Store(tmp_path / "store")
    store.folder.mkdir()
    device = torch.device("cpu")
    recipe = rendering_run.recipe_of(study, study.arms[name], device)
    entry = store.path(rendering_run.KIND, store.key(rendering_run.KIND, recipe))
    with at_work(lock_of(entry)), pytest.raises(Busy):
        rendering_run.run_arm(study, name, store, device, wait=False)
