"""What a decoder of the forced-rendering study is trained on: images of the support, and perhaps stripes among them.

Every member draws its own training set, as a function of its seed, so two arms of one seed see the same pairs. The set
is a list of rows of one table of images and codes, which is small: with whole centres an image is drawn once, however
often it is in a set.

Stripes are the data remedy. The published formula, counts and order are not known; this is our own definition. A stripe
is the image of one factor alone (`Bumps.stripe`), with the other factor's columns of the code at 0. All 2 N stripes are
in turn: x = 0, y = 0, x = 1, y = 1, … They take the place of as many images of the support, so that arms with and
without stripes have equally many images and take equally many steps.

- mixture: a batch holds any images of the set, stripes and bumps;
- curriculum: the first `first` of the steps sees stripes alone, the rest bumps alone.

A set is gone through in epochs, each in an order of its own. An epoch is a whole number of batches: where the set does
not fill the last one, images of the same epoch come again (published: the last batch is smaller). The order follows
from (seed, epoch), so nothing but the step has to be known to go on.

Shapes: M members, n images of a set, R rows of the table, B batch, W columns of the code, P pixels a side.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from recombine.encodings import Encoding
from recombine.randomness import Draws, seeds_tensor
from recombine.settings import Settings
from recombine.training import TrainingData
from recombine.worlds.bumps import Bumps
from recombine.worlds.digits import Digits
from recombine.worlds.supports import depth_of


class DataSettings(Settings):
    """The training set of each member."""

    images: int | None = Field(
        default=2000,
        ge=1,
        le=10_000_000,
        description="images of each member's training set, drawn from the support with replacement; null: every cell "
        "of the support once",
    )
    stripes: int = Field(
        default=0, ge=0, le=10_000_000, description="how many of them are stripes instead (bumps only); ours"
    )
    order: Literal["mixture", "curriculum"] = Field(
        default="mixture", description="mixture: stripes among the bumps; curriculum: stripes first, then bumps"
    )
    first: float = Field(
        default=0.2, gt=0, lt=1, description="curriculum: the share of the steps that sees stripes alone"
    )
    needs = {"first": ("order", "curriculum")}

    @model_validator(mode="after")
    def _some_bumps(self) -> "DataSettings":
        if self.images is not None and self.stripes >= self.images:
            raise ValueError(f"{self.stripes} stripes leave no bump among {self.images} images: take fewer")
        if self.order == "curriculum" and not self.stripes:
            raise ValueError("a curriculum begins with stripes: set stripes, or leave order out")
        return self


@dataclass(frozen=True)
class Plane:
    """Every cell of a world: what a decoder is asked for when it is judged."""

    cells: Tensor  # (C, F) factor values: (x, y), or an angle
    images: Tensor  # (C, P, P) as they should be
    trained: Tensor  # (C,) bool: whether the cell is in the support
    depth: Tensor  # (C,) how deep in the hole; -1 in the support
    background: float  # of a blank image

    @property
    def blank(self) -> Tensor:
        """Mean squared error of a blank image at every cell, (C,)."""
        return (self.images - self.background).square().mean((1, 2))

    def to(self, device: torch.device) -> "Plane":
        moved = {word: getattr(self, word).to(device) for word in ("cells", "images", "trained", "depth")}
        return replace(self, **moved)


def make_plane(world: Bumps | Digits, trained: Tensor) -> Plane:
    """The plane of a world; `trained` (C,) is in the order of the cells: of pixels, rows first, or of angles."""
    if isinstance(world, Digits):
        cells = world.angles()
        apart = (cells[:, None, 0] - cells[trained][None, :, 0]).abs()
        depth = torch.where(trained, -1.0, torch.minimum(apart, 360.0 - apart).min(1).values)  # degrees
    else:
        y, x = torch.meshgrid(torch.arange(world.image_size), torch.arange(world.image_size), indexing="ij")
        cells = torch.stack([x.flatten(), y.flatten()], 1).float()
        depth = depth_of(cells, trained)
    return Plane(cells, world.render(cells)[:, 0], trained, depth, world.background)


@dataclass(frozen=True)
class CuratedData(TrainingData):
    """A table of images with a list of its rows for each member; stripes stand last in every list."""

    rows: Tensor  # (M, n) int64
    seeds: Tensor  # (M,)
    stripes: int  # the last so many of every member's rows are stripes
    first_steps: int  # of the curriculum: before it only stripes, then only bumps; 0: a mixture
    step: Tensor  # () int64, the trainer's own count: shared, so that a resumed run is in the right part

    def batch(self, draws: Draws, size: int) -> tuple[Tensor, Tensor]:
        count = self.rows.shape[1]
        striped = torch.arange(count, device=self.rows.device) >= count - self.stripes
        early = self.step < self.first_steps
        shown = (striped == early) if self.first_steps else torch.ones_like(striped)  # (n,) bool
        started = torch.where(early, 0, self.first_steps)  # of this part of the curriculum
        pool = shown.sum()
        batches = (pool + size - 1) // size  # of an epoch
        epoch, batch = (self.step - started) // batches, (self.step - started) % batches
        keys = Draws(self.seeds, "rendering epochs", epoch * 2 + early).uniform(count)  # (M, n)
        order = keys.masked_fill(~shown, 2.0).argsort(1)  # what is shown comes first
        place = order[:, (batch * size + torch.arange(size, device=order.device)) % pool]
        row = self.rows.gather(1, place)
        x = self.x[row]
        if self.spread is not None:  # tokens of a VAE are drawn anew at every visit
            x = x + self.spread[row] * draws.normal(*x.shape[1:])
        return x, self.cond[row]


def make_data(
    settings: DataSettings,
    world: Bumps | Digits,
    plane: Plane,
    encoding: Encoding,
    seeds: tuple[int, ...],
    steps: int,
    device: torch.device | str = "cpu",
) -> CuratedData:
    """The training sets of all members."""
    draws = Draws(seeds_tensor(seeds), "rendering data")
    support = plane.cells[plane.trained]  # (S, F)
    if settings.images is None:
        rows = torch.arange(len(support)).expand(len(seeds), -1)
    else:
        rows = draws.integers(len(support), settings.images - settings.stripes)
    values, tables, codes = support, [], []
    if isinstance(world, Bumps) and world.settings.centres == "continuous":
        away = draws.uniform(rows.shape[1], 2) - 0.5  # (M, n, 2)
        values = (support[rows] + away).flatten(0, 1)
        rows = torch.arange(len(values)).view(rows.shape)
    tables.append(world.render(values)[:, 0])
    codes.append(encoding(values))
    if settings.stripes:
        if not isinstance(world, Bumps):
            raise ValueError("stripes are of bumps; digits have none")
        line = torch.arange(world.image_size).float()[:, None].expand(-1, 2)
        turn = torch.arange(settings.stripes) % (2 * world.image_size)
        stripes = (len(values) + (turn % 2) * world.image_size + turn // 2).expand(len(seeds), -1)
        rows = torch.cat([rows, stripes], 1)
        tables += [world.stripe(line, factor)[:, 0] for factor in (0, 1)]
        codes += [encoding.only(line, factor) for factor in (0, 1)]
    first = round(settings.first * steps) if settings.order == "curriculum" else 0
    return CuratedData(
        torch.cat(tables).to(device),
        None,
        torch.cat(codes).to(device),
        rows.contiguous().to(device),
        seeds_tensor(seeds, device),
        settings.stripes,
        first,
        torch.zeros((), dtype=torch.int64, device=device),
    )
