"""A finished forced-rendering study as arrays: what its page, its figures and the claims read.

Shapes: M members, C cells.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from recombine import files
from recombine.errors import UserError
from recombine.judges.statistics import Interval, interval
from recombine.studies.results import read_results

AGAIN = "give the command that made the study again"
BOUNDS = {"mse": (0.0, np.inf), "relative": (0.0, np.inf), "ssim": (-1.0, 1.0)}  # where the truth must lie
NUMBERS = ("mse", "ssim", "position_error", "joint", "valid", "joint_probe_only")


def within(cell: Interval, least: float, most: float) -> Interval:
    """An interval with its ends clipped to where the truth must lie, as those of shares are."""
    if cell.low is None or cell.high is None:
        return cell
    return replace(cell, low=max(cell.low, least), high=min(cell.high, most))


@dataclass(frozen=True)
class ArmNumbers:
    """One arm at its last step."""

    name: str
    step: int
    seeds: tuple[int, ...]
    cells: np.ndarray  # (C, F): (x, y), or angles
    trained: np.ndarray  # (C,) bool
    depth: np.ndarray  # (C,); -1 in the support
    blank: np.ndarray  # (C,)
    values: dict[str, np.ndarray]  # (M, C) by name, as in NUMBERS
    diverged: tuple[int, ...] = ()  # seeds

    @property
    def lost(self) -> bool:
        """Whether every member diverged: its numbers are those of black pictures, and none is worth showing."""
        return len(self.diverged) == len(self.seeds)

    @property
    def label(self) -> str:
        """The name, as a table or figure shows it: it says how many seeds diverged."""
        if not self.diverged:
            return self.name
        how_many = "" if self.lost else f"{len(self.diverged)} of {len(self.seeds)} seeds "
        return f"{self.name} ({how_many}diverged)"

    @property
    def is_plane(self) -> bool:
        return self.cells.shape[1] == 2

    @property
    def side(self) -> int:
        return round(len(self.cells) ** 0.5)

    def members(self, word: str, where: np.ndarray) -> np.ndarray:
        """The mean of a number over the cells `where` (C,), for each member, (M,). `relative` is mse over blank."""
        if word == "relative":
            return self.values["mse"][:, where].mean(1) / self.blank[where].mean()
        return self.values[word][:, where].mean(1)

    def mean(self, word: str, where: np.ndarray) -> Interval:
        """The same over members, with its 95 % interval."""
        share = word in ("joint", "valid", "joint_probe_only")
        return within(interval(self.members(word, where), share), *BOUNDS.get(word, (-np.inf, np.inf)))

    def map(self, word: str) -> np.ndarray:
        """The mean over members at every cell, (C,); `relative` is over the blank error of the same cell."""
        if word == "relative":
            return self.values["mse"].mean(0) / self.blank
        return self.values[word].mean(0)

    def place(self, cell: int) -> str:
        """What was asked for, as it is written over a picture: "(14, 6)", or "159.8°"."""
        values = [f"{value:.4g}" for value in self.cells[cell]]
        return f"({', '.join(values)})" if self.is_plane else f"{values[0]}°"

    @cached_property
    def depths(self) -> list[float]:
        return sorted(set(self.depth[~self.trained].tolist()))


@dataclass(frozen=True)
class FinishedRendering:
    """The files of one study."""

    folder: Path
    facts: dict[str, Any]
    arms: dict[str, ArmNumbers]
    pictures: dict[str, np.ndarray]  # what the first member draws (C, P, P) by arm, and "<arm>.real"

    @property
    def name(self) -> str:
        return str(self.facts["name"])

    @property
    def labelled(self) -> "FinishedRendering":
        """The same with arms called by their labels, for figures: they say there too which arm diverged."""
        arms = {arm.label: replace(arm, name=arm.label) for arm in self.arms.values()}
        pictures = {}
        for key, drawn in self.pictures.items():
            name, dot, what = key.partition(".")  # names of arms have no dot
            pictures[f"{self.arms[name].label}{dot}{what}" if name in self.arms else key] = drawn
        return replace(self, arms=arms, pictures=pictures)


def is_rendering(folder: Path) -> bool:
    """Whether a folder holds a study of this kind."""
    path = Path(folder) / "study.json"
    if not path.is_file():
        return False
    facts = files.load_json(path, AGAIN)
    return isinstance(facts, dict) and facts.get("kind") == "rendering"


def read_rendering(folder: Path) -> FinishedRendering:
    """Read a finished study; UserError where a file is missing or does not hold what a study writes."""
    folder = Path(folder)
    facts = files.load_json(folder / "study.json", AGAIN)
    table = read_results(folder)
    try:
        pictures = load_file(folder / "pictures.safetensors") if (folder / "pictures.safetensors").is_file() else {}
        columns = {word: table.column(word).to_numpy() for word in table.column_names if word not in ("study", "loss")}
        if "loss" in table.column_names:  # none is written for a member that diverged
            columns["diverged"] = table.column("loss").is_null(nan_is_null=True).to_numpy()
        arms = {name: _arm(name, columns) for name in facts["arms"]}
    except (KeyError, ValueError, TypeError, SafetensorError) as error:
        raise UserError(
            f"the files in {folder} do not hold what a study writes ({type(error).__name__}: {error}); {AGAIN}."
        ) from error
    return FinishedRendering(folder, facts, arms, pictures)


def _arm(name: str, columns: dict[str, np.ndarray]) -> ArmNumbers:
    rows = columns["arm"] == name
    step = int(columns["step"][rows].max())
    rows &= columns["step"] == step
    member = columns["member"][rows]
    count = len(set(member.tolist()))
    order = np.argsort(member, kind="stable")

    def grid(word: str) -> np.ndarray:
        return columns[word][rows][order].reshape(count, -1)

    seeds = tuple(int(seed) for seed in grid("seed")[:, 0])
    lost = grid("diverged")[:, 0] if "diverged" in columns else np.zeros(count, dtype=bool)
    factors = ("x", "y") if "x" in columns and not np.isnan(grid("x")).any() else ("angle",)
    return ArmNumbers(
        name,
        step,
        seeds,
        np.stack([grid(factor)[0] for factor in factors], 1),
        grid("level")[0] == 0,
        grid("depth")[0].round(3),  # of angles, equal depths from either edge differ in their last digit
        grid("blank")[0],
        {word: grid(word) for word in NUMBERS},
        tuple(seed for seed, gone in zip(seeds, lost, strict=True) if gone),
    )
