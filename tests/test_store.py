"""Files and store: whole or not there, found by what made them, and damage is met with a sentence."""

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recombine import files
from recombine.errors import UserError
from recombine.studies.store import CLAIM, Store, claim_folder

RECIPE = {"seed": 3, "settings": {"codes": 64, "rate": 1e-3}, "shape": (4, 4)}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def fill(store: Store) -> Path:
    tensors = {"w": torch.arange(12.0).view(3, 4), "ids": torch.tensor([1, 2], dtype=torch.int64)}
    return store.save("tokenizer", RECIPE, tensors, {"loss": 0.5})


def test_what_is_saved_is_loaded(store: Store) -> None:
    assert not store.has("tokenizer", RECIPE)
    folder = fill(store)
    assert store.has("tokenizer", RECIPE) and not store.has("probe", RECIPE)
    assert folder == store.path("tokenizer", store.key("tokenizer", RECIPE))
    held = ["facts.json", "recipe.json", "sums.json", "tensors.safetensors"]
    assert sorted(path.name for path in folder.iterdir()) == held
    tensors, facts = store.load("tokenizer", RECIPE)
    assert torch.equal(tensors["w"], torch.arange(12.0).view(3, 4)) and tensors["ids"].dtype == torch.int64
    assert facts == {"loss": 0.5}


def test_an_edited_or_exchanged_entry_is_refused(store: Store) -> None:
    """Well-formed files that are not what was saved: a number changed by hand, facts emptied, other tensors."""
    folder = fill(store)
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    changes = {
        "facts.json": [b'{"loss": 0.1}', b"{}"],
        "tensors.safetensors": [files.tensor_bytes({"other": torch.zeros(2)})],
        "sums.json": [b"{}"],
    }
    for name, contents in changes.items():
        for content in contents:
            (folder / name).write_bytes(content)
            with pytest.raises(UserError, match=r"checksums differ.*delete the folder"):
                store.load("tokenizer", RECIPE)
            (folder / name).write_bytes(whole[name])
    assert store.load("tokenizer", RECIPE)[1] == {"loss": 0.5}


def test_the_key_is_the_content(store: Store) -> None:
    turned = dict(reversed(list(RECIPE.items())))
    assert store.key("tokenizer", RECIPE) == store.key("tokenizer", turned)
    assert store.key("tokenizer", RECIPE) != store.key("probe", RECIPE)
    assert store.key("tokenizer", RECIPE) != store.key("tokenizer", RECIPE | {"seed": 4})
    # Written down, so that a change of the hash (which would orphan every store) is noticed.
    assert files.content_hash({"b": [1, 2.5, None], "a": "é"}) == "84afbf1d4853005f"


def test_views_of_one_storage_are_saved(store: Store) -> None:
    base = torch.arange(6.0).view(2, 3)
    store.save("x", {}, {"a": base, "b": base.T}, {})
    assert torch.equal(store.load("x", {})[0]["b"], base.T)


@pytest.mark.parametrize("name", ["tensors.safetensors", "facts.json", "recipe.json"])
@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "garbage"])
def test_a_damaged_entry_is_named(store: Store, name: str, damage: str) -> None:
    folder = fill(store)
    path = folder / name
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes({"cut": whole[:-5], "empty": b"", "garbage": b"\xff" * len(whole)}[damage])
    with pytest.raises(UserError) as caught:
        store.load("tokenizer", RECIPE)
    assert str(path) in str(caught.value) and f"delete the folder {folder}" in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_cut_or_flipped_header_gets_through(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.safetensors"
    whole = files.tensor_bytes({"w": torch.zeros(5), "v": torch.ones(2, 2)})
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(UserError, match="damaged or cut short"):
        files.load_tensors(path)
    at = data.draw(st.integers(0, 7))  # the length of the header
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
    with pytest.raises(UserError, match="damaged or cut short"):
        files.load_tensors(path)


@pytest.mark.parametrize("damage", ["cut", "empty", "garbage", "flipped"])
def test_compressed_tensors_are_the_same_and_damage_is_named(tmp_path: Path, damage: str) -> None:
    pictures = {"a": torch.zeros(8, 3, 28, 28, dtype=torch.uint8), "b": torch.arange(6.0)}
    plain, path, again = (tmp_path / name for name in ("t.safetensors", "t.safetensors.gz", "again.gz"))
    for one in (plain, path, again):
        files.save_tensors_atomic(one, pictures)
    whole = path.read_bytes()
    assert whole == again.read_bytes() and len(whole) < plain.stat().st_size / 10
    assert files.unpacked(path) == plain.read_bytes() == files.unpacked(plain)
    assert all(torch.equal(files.load_tensors(path)[name], tensor) for name, tensor in pictures.items())
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    path.write_bytes({"cut": whole[:-5], "empty": b"", "garbage": b"\xff" * len(whole), "flipped": flipped}[damage])
    with pytest.raises(UserError, match=r"t\.safetensors\.gz is damaged or cut short; delete it"):
        files.load_tensors(path)


def test_an_edited_recipe_is_refused(store: Store) -> None:
    folder = fill(store)
    (folder / "recipe.json").write_text(json.dumps(RECIPE | {"seed": 4}))
    with pytest.raises(UserError, match="not the recipe"):
        store.load("tokenizer", RECIPE)


def test_an_interrupted_save_leaves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "tensor_bytes", stop)
    with pytest.raises(KeyboardInterrupt):
        fill(store)
    assert list(store.folder.iterdir()) == []


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    files.write_atomic(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left"):
        files.write_atomic(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def _save_same(folder: str) -> None:
    store = Store(Path(folder))
    for i in range(20):
        store.save("x", {"i": i}, {"w": torch.full((100,), float(i))}, {})


def test_two_processes_may_save_the_same(store: Store) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_save_same, args=(str(store.folder),)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert len(list(store.folder.iterdir())) == 20
    assert store.load("x", {"i": 7})[0]["w"][0] == 7


def test_what_a_killed_process_left_is_swept_after_a_day(store: Store) -> None:
    old, new = store.folder / ".x-1.99.partial", store.folder / ".x-2.99.partial"
    old.mkdir(parents=True)
    new.mkdir()
    os.utime(old, (0, 0))
    fill(store)
    assert not old.exists() and new.exists()


def test_a_folder_is_claimed_once_and_again_by_the_same_study(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "a"
    for _ in range(2):
        with claim_folder(out, "abc", "mine"):
            assert (out / CLAIM).exists()
        (out / "results.parquet").touch()
    before = sorted(out.iterdir())
    with pytest.raises(UserError, match=r"belongs to another study \(mine"):
        claim_folder(out, "def", "other")
    assert sorted(out.iterdir()) == before and json.loads((out / CLAIM).read_text())["study"] == "abc"


def test_foreign_folders_are_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(UserError, match="is not empty"):
        claim_folder(tmp_path, "abc")
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.jpg"]
    with pytest.raises(UserError, match="is a file"):
        claim_folder(tmp_path / "holiday.jpg", "abc")
    (tmp_path / CLAIM).write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        claim_folder(tmp_path, "abc")


def test_a_folder_that_was_kept_is_known_by_its_study(tmp_path: Path) -> None:
    """Copied without its hidden file, as results/ are."""
    (tmp_path / "study.json").write_text(json.dumps({"hash": "abc", "name": "one"}))
    with pytest.raises(UserError, match=r"belongs to another study \(one, or other settings of it\)"):
        claim_folder(tmp_path, "def", "other")
    assert [path.name for path in tmp_path.iterdir()] == ["study.json"]
    claim_folder(tmp_path, "abc", "one").close()
    assert json.loads((tmp_path / CLAIM).read_text())["study"] == "abc"


def test_one_process_at_a_time_and_a_killed_one_lets_go(tmp_path: Path) -> None:
    hold = (
        "import sys, time; from pathlib import Path; from recombine.studies.store import claim_folder\n"
        "lock = claim_folder(Path(sys.argv[1]), 'abc'); print('held', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", hold, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(UserError, match="another process is at work"):
            claim_folder(tmp_path, "abc")
    finally:
        other.kill()
        other.wait()
    claim_folder(tmp_path, "abc").close()
