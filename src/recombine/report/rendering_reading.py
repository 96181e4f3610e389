"""A finished forced-rendering study as arrays: what its page, its figures and the claims read.

Shapes: M members, C cells.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from recombine import files
from recombine.errors import UserError
from recombine.judges.statistics import Interval, interval
from recombine.studies.facts import read_facts
from recombine.studies.pictures import read_pictures
from recombine.studies.results import read_results

AGAIN = "give the command that made the study again"
BOUNDS = {  # where the truth must lie
    "mse": (0.0, np.inf),
    "relative": (0.0, np.inf),
    "ssim": (-1.0, 1.0),
    "dissimilarity": (0.0, np.inf),
    "position_error": (0.0, np.inf),
}
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
    blank_ssim: np.ndarray | None = None  # (C,); None where neither table nor settings give it

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
        """The mean of a number over the cells `where` (C,), for each member, (M,). Ratios of such means: `relative` is
        mse over blank, `dissimilarity` 1 - ssim over 1 - blank_ssim, NaN where the latter is not known."""
        if word == "relative":
            return self.values["mse"][:, where].mean(1) / self.blank[where].mean()
        if word == "dissimilarity":
            blank = np.nan if self.blank_ssim is None else self.blank_ssim[where].mean()
            return (1.0 - self.values["ssim"][:, where].mean(1)) / (1.0 - blank)
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
    facts = read_facts(folder)
    table, pictures = read_results(folder), read_pictures(folder)
    try:
        columns = {word: table.column(word).to_numpy() for word in table.column_names if word not in ("study", "loss")}
        if "loss" in table.column_names:  # none is written for a member that diverged
            columns["diverged"] = table.column("loss").is_null(nan_is_null=True).to_numpy()
        arms = {name: _arm(name, columns) for name in facts["arms"]}
        if "blank_ssim" not in columns:
            arms = _with_blank_ssim(arms, facts["arms"])
    except (KeyError, ValueError, TypeError) as error:
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
        grid("blank_ssim")[0] if "blank_ssim" in columns else None,
    )


def _with_blank_ssim(arms: dict[str, ArmNumbers], facts: dict[str, Any]) -> dict[str, ArmNumbers]:
    """The arms of an older table with the similarity of a blank picture, from their planes; each world is drawn once,
    since a scaling study has many arms of few worlds."""
    found: dict[str, ArmNumbers] = {}
    for name, arm in arms.items():
        settings = facts[name].get("settings", {})
        like = (one for one in found if facts[one].get("settings", {}).get("world") == settings.get("world"))
        same = next(like, None)
        known = _blank_ssim(settings, arm) if same is None else found[same].blank_ssim
        found[name] = replace(arm, blank_ssim=known)
    return found


def _blank_ssim(settings: dict[str, Any], arm: ArmNumbers) -> np.ndarray | None:
    """The similarity (C,) of a blank picture with the true one; None where the settings cannot be read as today's, the
    world's own files are not here, or it is drawn in another way today (its blank error differs from the table's)."""
    from recombine.judges.plane import blank_ssim
    from recombine.studies.rendering import RenderingArm

    try:
        plane = RenderingArm.model_validate(settings).plane()
    except (ValueError, UserError):
        return None
    blank = plane.blank.double().numpy()
    if blank.shape != arm.blank.shape or not np.allclose(blank, arm.blank, rtol=1e-3, atol=0):
        return None
    return np.asarray(blank_ssim(plane).double().numpy())
