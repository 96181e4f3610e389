"""What a world is: images whose factors are known, drawn from numbers.

Shapes: B images, F factors, V values (everything that determines an image), J uniforms of free variation, P pixels a
side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from recombine.out_of_memory import in_batches
from recombine.randomness import Draws, seeds_tensor

Composition = tuple[int, ...]


@dataclass(frozen=True)
class Factor:
    """One thing that varies, with its named values. `width` numbers describe it in full; 0: it is a class and nothing
    more."""

    name: str
    values: tuple[str, ...]
    width: int


class World(Protocol):
    """A renderer with known factors. Labels are (B, F) class indices; values are (B, V) numbers that fix every
    pixel."""

    name: str
    factors: tuple[Factor, ...]
    value_names: tuple[str, ...]
    image_size: int
    channels: int
    jitters: int

    def draw(self, labels: Tensor, uniforms: Tensor) -> Tensor:
        """Values (B, V) of images of these compositions; `uniforms` (B, J) in [0, 1) choose the free variation."""

    def canonical(self, labels: Tensor) -> Tensor:
        """Values (B, V) at the middle of each class's range, without free variation."""

    def render(self, values: Tensor) -> Tensor:
        """Images (B, 3, P, P) in [0, 1]; differentiable in the values that are continuous."""

    def describe(self, values: Tensor) -> list[Tensor]:
        """Per factor its (B, width) description in about [-1, 1], for full conditioning; (B, 0) where width is 0."""

    def classify(self, values: Tensor, slack: float = 0.0) -> Tensor:
        """Labels (B, F) whose range holds the values, -1 where none does; `slack` widens each range by that share."""


@dataclass(frozen=True)
class Images:
    """Images with everything known about them, all on one device."""

    images: Tensor  # (N, 3, P, P) in [0, 1]
    labels: Tensor  # (N, F) int64
    values: Tensor  # (N, V)


def make_images(
    world: World,
    compositions: Sequence[Composition],
    per_composition: int | Sequence[int],
    seed: int,
    purpose: str,
    device: torch.device | str = "cpu",
) -> Images:
    """`per_composition` images of each composition (or a number for each), in that order. Another `purpose` gives
    other images: data that is trained on, calibrated on and reported on never meet."""
    times = per_composition if isinstance(per_composition, int) else torch.tensor(list(per_composition), device=device)
    labels = torch.tensor(list(compositions), dtype=torch.int64, device=device).repeat_interleave(times, 0)
    uniforms = Draws(seeds_tensor([seed], device), f"images {purpose}").uniform(len(labels), world.jitters)[0]
    values = world.draw(labels, uniforms)
    parts = in_batches(world.render, values, len(values))  # drawing takes several times the memory of what is drawn
    return Images(parts[0] if len(parts) == 1 else torch.cat(parts), labels, values)
