"""Everything that was ever computed, under the hash of what made it; and the claim of a study on its output folder.

An entry is a folder `<kind>-<key>/` with `recipe.json` (all that the result depends on), `tensors.safetensors` and
`facts.json`. The key is the hash of kind and recipe, so what is there is right by its name: a tokenizer, a probe or an
arm made for one study is found by every other that needs the same one.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from recombine import files
from recombine.errors import UserError
from recombine.progress import say

if TYPE_CHECKING:
    import torch
    from torch import Tensor

CLAIM = ".study.json"  # which study an output folder belongs to
LOCK = ".lock"  # held by the process at work in it
DAY = 24 * 3600.0


class Busy(Exception):
    """Another process is at work on what is named."""


def store_folder(out: Path, store: Path | None) -> Path:
    """Where finished parts are kept: the folder given, or $RECOMBINE_STORE, or one in `out`."""
    folder = Path(store or os.environ.get("RECOMBINE_STORE") or out / "store")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"the store {folder} is a file, not a folder; choose another --store.")
    return folder


class Store:
    """A folder of finished results. Many processes may share one: entries appear whole, and are never changed."""

    def __init__(self, folder: Path | str):
        self.folder = Path(folder)

    def key(self, kind: str, recipe: Mapping[str, Any]) -> str:
        """The name of the result that `recipe` makes."""
        return files.content_hash({"kind": kind, "recipe": recipe})

    def path(self, kind: str, key: str) -> Path:
        """The folder of an entry, whether or not it is there."""
        return self.folder / f"{kind}-{key}"

    def has(self, kind: str, recipe: Mapping[str, Any]) -> bool:
        """Whether the result of this recipe is there."""
        return self.path(kind, self.key(kind, recipe)).is_dir()

    def save(
        self, kind: str, recipe: Mapping[str, Any], tensors: Mapping[str, "Tensor"], facts: Mapping[str, Any]
    ) -> Path:
        """Adds an entry, whole or not at all. If another process was faster, its equal entry stays."""
        target = self.path(kind, self.key(kind, recipe))
        partial = files.partial_name(target)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._sweep()
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            files.save_json_atomic(partial / "recipe.json", recipe)
            files.save_tensors_atomic(partial / "tensors.safetensors", tensors)
            files.save_json_atomic(partial / "facts.json", facts)
            files.save_json_atomic(partial / "sums.json", _sums(partial))
            try:
                os.rename(partial, target)
            except OSError:
                if not target.is_dir():
                    raise
            files.sync_folder(self.folder)
        except OSError as error:
            raise files.cannot_write(target, error) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return target

    def load(
        self, kind: str, recipe: Mapping[str, Any], device: "torch.device | str" = "cpu"
    ) -> tuple["dict[str, Tensor]", dict[str, Any]]:
        """Tensors and facts of an entry. One that is damaged, or was edited, is refused by name."""
        entry = self.path(kind, self.key(kind, recipe))
        fix = f"delete the folder {entry} and give the same command again: it will be computed again"
        kept = files.load_json(entry / "recipe.json", fix)
        if files.canonical_json(kept) != files.canonical_json(recipe):
            raise UserError(f"{entry / 'recipe.json'} is not the recipe that the folder is named for; {fix}.")
        tensors = files.load_tensors(entry / "tensors.safetensors", device, fix)
        facts = files.load_json(entry / "facts.json", fix)
        if files.load_json(entry / "sums.json", fix) != _sums(entry):
            raise UserError(f"{entry} was changed after it was made (its checksums differ); {fix}.")
        return tensors, facts

    @contextmanager
    def alone(self, kind: str, recipe: Mapping[str, Any], name: str, wait: bool) -> Iterator[None]:
        """While an entry is made: this process alone, so that two do not write one checkpoint. Where another is at
        work on it, waits for it, or raises Busy. The system lets go of the lock when a process ends in whatever way.
        """
        import fcntl

        path = self.folder / f".{kind}-{self.key(kind, recipe)}{LOCK}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = open(path, "ab")  # noqa: SIM115 (closed below)
        except OSError as error:
            raise files.cannot_write(self.folder, error) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if not wait:
                    raise Busy(name) from error
                say(f"{name}: another process is at work on it; waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
            if self.has(kind, recipe):  # whoever comes now will not ask for the lock
                path.unlink(missing_ok=True)

    def once(
        self, kind: str, recipe: Mapping[str, Any], name: str, make: Callable[[], None], wait: bool = True
    ) -> None:
        """Sees to it that an entry is there: where it is not, `make` makes and saves it, in one process alone. Where
        another is at work on it, waits for it, or raises Busy; if that one ends without the entry, it is made here."""
        if self.has(kind, recipe):
            return
        with self.alone(kind, recipe, name, wait):
            if not self.has(kind, recipe):  # it may have been made while we waited
                make()

    def _sweep(self) -> None:
        """Removes what killed processes left half-written (a day old, so that nobody is still writing it)."""
        for left in self.folder.glob(".*.partial"):
            try:
                old = time.time() - left.stat().st_mtime > DAY
            except FileNotFoundError:  # its writer has just finished
                continue
            if old:
                shutil.rmtree(left, ignore_errors=True)


def _sums(entry: Path) -> dict[str, str]:
    """Checksums of what an entry holds: an edited or exchanged file must not pass for a result."""
    held = ("recipe.json", "tensors.safetensors", "facts.json")
    return {name: hashlib.sha256((entry / name).read_bytes()).hexdigest() for name in held}


def claim_folder(out: Path, study_hash: str, name: str = "") -> IO[bytes]:
    """Makes `out` the folder of this study and of this process alone; refuses, touching nothing, if it is another's.

    Returns the lock, to be held open while working: `with claim_folder(...):`. The system lets go of it when the
    process ends in whatever way, so a killed run leaves nothing to clean up.
    """
    import fcntl

    out = Path(out)
    _refuse_foreign(out, study_hash)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = open(out / LOCK, "ab")  # noqa: SIM115 (the caller closes it)
    except OSError as error:
        raise files.cannot_write(out, error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _refuse_foreign(out, study_hash)  # again: another process may have claimed it before we held the lock
        if not (out / CLAIM).exists():
            files.save_json_atomic(out / CLAIM, {"study": study_hash, "name": name})
        for left in out.glob(".*.partial"):  # we hold the lock, so nobody is still writing these
            left.unlink(missing_ok=True)
    except BlockingIOError as error:
        lock.close()
        raise UserError(f"another process is at work in {out}; wait for it, or choose another --out.") from error
    except BaseException:
        lock.close()
        raise
    return lock


def _refuse_foreign(out: Path, study_hash: str) -> None:
    """Stops unless `out` is absent, empty, or this study's."""
    try:
        there = out.exists()
    except OSError as error:
        raise UserError(f"{out} cannot be a folder ({error.strerror}); choose another --out.") from error
    if not there:
        return
    if not out.is_dir():
        raise UserError(f"{out} is a file, not a folder; choose another --out.")
    try:
        inside = {path.name for path in out.iterdir()}
    except OSError as error:
        raise UserError(f"cannot look into {out} ({error.strerror}); choose another --out.") from error
    # A folder that was kept or copied may lack the hidden file; what its study.json says is as good.
    file, key = (CLAIM, "study") if CLAIM in inside else ("study.json", "hash")
    if file in inside:
        try:
            claim = json.loads((out / file).read_bytes())
            owner, name = str(claim[key]), str(claim["name"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{out / file} is damaged; delete the folder {out} or choose another --out.") from error
        if owner != study_hash:
            raise UserError(
                f"{out} belongs to another study ({name or 'unnamed'}, or other settings of it);"
                " choose another --out, or delete that folder."
            )
    elif any(entry != LOCK and not entry.endswith(".partial") for entry in inside):
        raise UserError(f"{out} is not empty and holds no study; choose another --out.")
