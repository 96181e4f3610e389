"""The folder of an unfinished arm: its last checkpoint, and beside it what was written down so far."""

import time
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree
from typing import Any

import torch
from torch import Tensor

from recombine import files


class Unfinished:
    """What an arm is resumed from. Subclasses say what is in it."""

    def __init__(self, folder: Path, facts: str):
        self.folder = folder
        self.checkpoint = folder / "checkpoint.safetensors"
        self.facts = folder / facts
        self.fix = f"delete the folder {folder} and give the same command again: this arm starts anew"
        self._last, self._cost = time.perf_counter(), 0.0  # when the last save ended, and the seconds it took

    def due(self, after: float) -> bool:
        """Whether to save: `after` seconds have passed, and saving stays about a fiftieth of the work (a checkpoint of
        many wide members takes a second to write; what a kill takes is then less than a minute). The first tenth of a
        second is free: small members are saved at every evaluation."""
        return time.perf_counter() - self._last >= max(after, 50 * (self._cost - 0.1))

    def write(self, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Facts first: a kill in between leaves facts past the checkpoint, which whoever resumes drops and which come
        out equal again."""
        begun = time.perf_counter()
        files.save_json_atomic(self.facts, facts)
        files.save_tensors_atomic(self.checkpoint, tensors)
        self._last = time.perf_counter()
        self._cost = self._last - begun

    def read(self, device: torch.device) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Facts and tensors of the checkpoint, which is there."""
        tensors = files.load_tensors(self.checkpoint, device, self.fix)
        return files.load_json(self.facts, self.fix), tensors

    def remove(self) -> None:
        rmtree(self.folder, ignore_errors=True)


class Spent:
    """The seconds of an arm's work by what they were spent on, over all interruptions."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._mark = time.perf_counter()

    def on(self, part: str) -> None:
        """All time since the last call went into `part`."""
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._mark
        self._mark = now

    def add(self, seconds: Mapping[str, float]) -> None:
        """What was spent elsewhere: before an interruption, or on other members of the arm."""
        for part, some in seconds.items():
            self.seconds[part] = self.seconds.get(part, 0.0) + float(some)

    @property
    def total(self) -> float:
        return sum(self.seconds.values())
