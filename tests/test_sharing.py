"""Processes that work on one study with one store: each takes what nobody is at work on, and none is trained twice."""

import fcntl
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from recombine import files
from recombine.runner import run_study
from recombine.studies import rendering_run
from recombine.studies.sharing import share_out
from recombine.studies.spec import Study, load_study
from recombine.studies.store import Busy, Store

RECIPE = {"version": 1}


@contextmanager
def at_work(path: Path) -> Iterator[None]:
    """Another process, as far as locks go: a lock belongs to who opened the file."""
    with open(path, "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def lock_of(entry: Path) -> Path:
    return entry.parent / f".{entry.name}.lock"


def until(found: Callable[[], bool], seconds: float = 120) -> None:
    """Waits for a condition."""
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


def test_arms_that_others_are_at_work_on_come_last() -> None:
    asked: list[tuple[str, bool]] = []

    def make(name: str, wait: bool) -> str:
        asked.append((name, wait))
        if name in "ac" and not wait:
            raise Busy(name)
        return name.upper()

    assert list(share_out("abc", make).items()) == [("a", "A"), ("b", "B"), ("c", "C")]
    assert asked == [("a", False), ("b", False), ("c", False), ("a", True), ("c", True)]


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
    said: list[str] = []
    capsys.readouterr()

    def heard(word: str) -> bool:
        said.append(capsys.readouterr().out)
        return word in "".join(said)

    second = threading.Thread(target=run_study, args=(small_study, tmp_path / "second", store, "cpu"), daemon=True)
    with at_work(lock_of(entries["maskgit"])):
        second.start()
        until(lambda: heard("arm maskgit: another process is at work on it; waiting for it"))
        assert entries["dit"].is_dir() and not entries["maskgit"].exists()
        if other == "finishes":
            shutil.copytree(first / entries["maskgit"].name, entries["maskgit"])
    second.join(120)
    assert not second.is_alive()
    assert heard("arm maskgit: 120 steps of 2 members") == (other == "is killed")
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
