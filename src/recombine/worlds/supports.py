"""Which part of the (x, y) plane is trained on: the support. Everything else is held out.

Every single x and every single y must be in the support; only pairs may be missing. A support that hides a whole value
asks another question (extrapolation), so it is refused by name. Of angles, which are one factor alone, a gap is held
out.

Shapes: N values of x and of y, C cells (pairs, or angles).
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from recombine.settings import Settings


class DonutSupport(Settings):
    """The published square ring: x and y both in low..high is held out."""

    kind: Literal["donut"] = Field(default="donut", description="a box in the middle is held out")
    low: int = Field(default=6, ge=0, le=1000, description="the first x, and y, of the box")
    high: int = Field(default=22, ge=0, le=1000, description="the last x, and y, of the box (it belongs to it)")

    @model_validator(mode="after")
    def _ordered(self) -> "DonutSupport":
        if self.high < self.low:
            raise ValueError(f"high ({self.high}) must not be less than low ({self.low})")
        return self


class CornerSupport(Settings):
    """A box in a corner is held out."""

    kind: Literal["corner"] = Field(default="corner", description="a box in one corner is held out")
    start: int = Field(default=14, ge=1, le=1000, description="the box holds x, and y, from this value to the last")
    side: Literal["high", "low"] = Field(
        default="high", description="high: x and y both at least start; low: the same counted from the other end"
    )


class CrossSupport(Settings):
    """A cross is trained on: a band of x with every y, and a band of y with every x. Four corners are held out."""

    kind: Literal["cross"] = Field(default="cross", description="two crossing bands are trained on")
    low: int = Field(default=10, ge=0, le=1000, description="the first x, and y, of the bands")
    high: int = Field(default=17, ge=0, le=1000, description="the last (it belongs to them)")

    @model_validator(mode="after")
    def _ordered(self) -> "CrossSupport":
        if self.high < self.low:
            raise ValueError(f"high ({self.high}) must not be less than low ({self.low})")
        return self


class LShapeSupport(Settings):
    """An L is trained on: the first few x with every y, and the first few y with every x."""

    kind: Literal["l_shape"] = Field(default="l_shape", description="two strips along the edges are trained on")
    thickness: int = Field(default=6, ge=1, le=1000, description="how many values wide the strips are")


class MaskSupport(Settings):
    """Any support, drawn in the file."""

    kind: Literal["mask"] = Field(default="mask", description="any cells, drawn as rows of text")
    rows: tuple[str, ...] = Field(
        default=(),
        description="one text for each y, from the top; in it one character for each x: # trained, . held out",
    )


class GapSupport(Settings):
    """A gap in the angles is held out."""

    kind: Literal["gap"] = Field(default="gap", description="a range of angles is held out")
    low: float = Field(default=160.0, ge=0, lt=360, description="where it begins, in degrees (trained itself)")
    high: float = Field(default=200.0, gt=0, le=360, description="where it ends (trained itself)")

    @model_validator(mode="after")
    def _ordered(self) -> "GapSupport":
        if self.high <= self.low:
            raise ValueError(f"high ({self.high:g}) must be more than low ({self.low:g})")
        return self


AnySupport = DonutSupport | CornerSupport | CrossSupport | LShapeSupport | MaskSupport | GapSupport
SupportSettings = Annotated[AnySupport, Field(discriminator="kind")]


def support_mask(settings: AnySupport, size: int) -> np.ndarray:
    """Which cells are trained on, (N, N) bool with rows y and columns x; ValueError where the support is of no use."""
    x = np.arange(size)
    if isinstance(settings, GapSupport):
        raise ValueError("gap is a support of angles; a plane of (x, y) needs donut, corner, cross, l_shape or mask")
    if isinstance(settings, MaskSupport):
        mask = _drawn(settings.rows, size)
    else:
        if isinstance(settings, DonutSupport):
            inside = (x >= settings.low) & (x <= settings.high)
        elif isinstance(settings, CornerSupport):
            inside = x >= settings.start if settings.side == "high" else x < size - settings.start
        elif isinstance(settings, CrossSupport):
            inside = (x < settings.low) | (x > settings.high)
        else:
            inside = x >= settings.thickness
        if isinstance(settings, DonutSupport | CrossSupport) and settings.high >= size:
            raise ValueError(
                f"the {settings.kind} reaches to {settings.high}, and x and y end at {size - 1}: set its high to "
                f"{size - 1} or less"
            )
        mask = ~(inside[:, None] & inside[None, :])
    check_support(mask)
    return mask


def _drawn(rows: Sequence[str], size: int) -> np.ndarray:
    if len(rows) != size:
        raise ValueError(f"a mask needs one row of text for each of the {size} values of y, not {len(rows)}")
    for number, row in enumerate(rows):
        if len(row) != size or set(row) - {"#", "."}:
            raise ValueError(f"row {number} of the mask should be {size} characters # or ., not {row[:60]!r}")
    return np.array([[character == "#" for character in row] for row in rows])


def check_support(mask: np.ndarray) -> None:
    """ValueError where a whole value is hidden, or nothing is held out."""
    for name, seen in (("x", mask.any(0)), ("y", mask.any(1))):
        if not seen.all():
            raise ValueError(
                f"no trained pair has {name} = {_ranges(np.flatnonzero(~seen))}: every single value must be seen, only "
                "pairs may be missing; make the support larger"
            )
    if mask.all():
        raise ValueError("every pair is trained on, so nothing is left to ask for; make the support smaller")


def connected(cells: Tensor, trained: Tensor) -> bool:
    """Whether one can go from any trained cell (C, 2) to any other by steps that each keep x or keep y.

    Where one cannot (a diagonal alone), the additive prediction a(x) + b(y) is not fixed by what was trained on: a
    constant may move from a to b in one part and not in the other.
    """
    x, y = (values.unique(return_inverse=True)[1] for values in cells[trained].T)
    links = torch.stack([x, y + int(x.max()) + 1]).cpu().numpy()  # each trained cell links its x to its y
    size = int(links.max()) + 1
    graph = coo_array((np.ones(links.shape[1]), (links[0], links[1])), shape=(size, size))
    return int(connected_components(graph, directed=False, return_labels=False)) == 1


def no_additive(arm: str) -> str:
    """What is said of an arm whose support is not connected."""
    return (
        f"arm {arm}: the additive prediction is not measured, since the trained cells fall into parts that share no x "
        "and no y; train on a cell that joins them if you need it."
    )


def _ranges(values: np.ndarray) -> str:
    """3, 5 to 8, 11."""
    runs = np.split(values, np.flatnonzero(np.diff(values) > 1) + 1)
    return ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def gap_mask(settings: AnySupport, angles: Tensor) -> Tensor:
    """Which angles (C,) in degrees are trained on, (C,) bool; ValueError where the gap is of no use.

    At least 2 angles must be left: a gap asks for what lies between two trained edges, and what is drawn in it is
    compared with their cross-fade. From 0 to 360 degrees, which are one angle, both edges would be the same picture.
    """
    if not isinstance(settings, GapSupport):
        raise ValueError(f"{settings.kind} is a support of pairs (x, y); of angles only a gap can be held out")
    trained = (angles <= settings.low) | (angles >= settings.high)
    if trained.all():
        raise ValueError("the gap must hold some of the angles and leave some: make it wider or take more angles")
    if int(trained.sum()) < 2:
        raise ValueError(
            f"the gap from {settings.low:g} to {settings.high:g} degrees leaves {int(trained.sum())} trained angle, "
            "and needs one at each of its two edges: make it narrower"
        )
    return trained


def depth_of(cells: Tensor, trained: Tensor) -> Tensor:
    """How deep each cell (C, F) lies in the hole, (C,): chessboard distance to the nearest trained cell, less 1.

    Trained cells have -1, the rim of a hole 0, the centre of a 17 x 17 hole 8. The image's border is no support, so in
    a corner hole depth grows towards the corner.
    """
    if not trained.any():
        raise ValueError("no cell is trained on")
    away = torch.cdist(cells.double(), cells[trained].double(), p=float("inf"))
    return (away.min(1).values - 1.0).float()
