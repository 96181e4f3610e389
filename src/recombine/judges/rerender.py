"""Re-rendering: which picture of the world is this, and how far is it from being one?

Reading an image means finding the values (shape, colour, size, place) whose rendering is nearest to it. Nothing is
learned: a first guess of size and place comes from the moments of the ink, every shape is tried, and damped
Gauss-Newton steps on the renderer refine the guess. Colour enters an image linearly once the shape's mask is known, so
it is solved exactly at every step (variable projection: Golub and Pereyra 1973, with Kaufman's Jacobian) and only
three unknowns are searched. While searching, image and rendering are compared slightly smoothed: a tokenizer's blur
then hardly biases the size, and real images come to rest in fewer steps.

Shapes: N images, P pixels a side, V values.
"""

from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional as F

from recombine.errors import UserError
from recombine.out_of_memory import in_batches
from recombine.worlds import World

STEPS = 8  # damped Gauss-Newton steps; real images are at rest after about five
NUDGE = 0.05  # pixels by which an unknown is moved to measure how the mask changes
LONGEST_STEP = 0.1  # of any unknown at once
CHUNK_CPU, CHUNK_CUDA = 2**16, 2**23  # pixels read at once: what fits a cache, and what bounds the memory of a GPU


@runtime_checkable
class Paintable(World, Protocol):
    """A world whose images are one mask, painted in one colour, on white; values are (shape, r, g, b, size, x, y)."""

    shape_names: tuple[str, ...]

    def coverage(self, shape: int, pose: Tensor) -> Tensor:
        """The mask (N, P, P) of that shape at pose (N, 3) = (size, x, y)."""

    def placed(self, values: Tensor, slack: float = 0.0) -> Tensor:
        """Whether the free position lies in its range, (N,)."""


def paintable(world: World) -> Paintable:
    """The world, if it can be judged by re-rendering."""
    if not isinstance(world, Paintable):
        raise UserError(f"World {world.name} cannot be judged by re-rendering: it has no mask of a shape at a pose.")
    return world


@dataclass(frozen=True)
class Reading:
    """The nearest picture of the world for each image."""

    values: Tensor  # (N, V)
    error: Tensor  # (N,) local defect: see `defect`
    rendered: Tensor  # (N, 3, P, P)


def defect(images: Tensor, rendered: Tensor) -> Tensor:
    """How far two images differ where they differ most, (N,): the largest difference of the means of 2x2 windows.

    A mean over the whole image would forgive a missing corner. Means are compared, not pixels, because the slight blur
    of a tokenizer's decoder errs to both sides of an edge and so nearly cancels, while missing or foreign ink does not.
    """
    return F.avg_pool2d(images - rendered, 2, stride=1).abs().mean(1).flatten(1).amax(1)


def _moments(ink: Tensor) -> Tensor:
    """Root mean square radius and centre of the ink (N, P, P), as (N, 3) in shares of the side.

    Ink fainter than a fifth of the darkest pixel is left out: faint noise all over would push the radius up.
    """
    side = ink.shape[-1]
    ink = (ink - 0.2 * ink.amax((1, 2), keepdim=True)).clamp(min=0.0)
    middles = (torch.arange(side, device=ink.device, dtype=ink.dtype) + 0.5) / side
    mass = ink.sum((1, 2)).clamp(min=1e-6)
    columns, rows = ink.sum(1), ink.sum(2)
    x, y = (columns @ middles) / mass, (rows @ middles) / mass
    spread = (columns @ middles**2) / mass - x**2 + (rows @ middles**2) / mass - y**2
    return torch.stack([spread.clamp(min=1e-6).sqrt(), x, y], 1)


def _first_guess(world: Paintable, shape: int, ink: Tensor) -> Tensor:
    """Pose (N, 3) from the moments, by the rule of three from the shape's own mask at a known pose."""
    known = torch.tensor([[0.2, 0.5, 0.5]], device=ink.device, dtype=ink.dtype)
    model = _moments(world.coverage(shape, known))
    found = _moments(ink)
    scale = found[:, :1] / model[:, :1]
    place = found[:, 1:] - scale * (model[:, 1:] - known[:, 1:])
    return _bounded(torch.cat([scale * known[:, :1], place], 1))


def _bounded(pose: Tensor) -> Tensor:
    """Poses kept where a mask exists at all."""
    return torch.cat([pose[:, :1].clamp(0.05, 0.6), pose[:, 1:].clamp(0.0, 1.0)], 1)


def soften(planes: Tensor) -> Tensor:
    """(..., P, P) smoothed by the 3x3 binomial window; the edge is repeated outwards."""
    flat = F.pad(planes.reshape(-1, 1, *planes.shape[-2:]), (1, 1, 1, 1), mode="replicate")
    flat = flat[..., :-2, :] + 2.0 * flat[..., 1:-1, :] + flat[..., 2:, :]
    flat = flat[..., :-2] + 2.0 * flat[..., 1:-1] + flat[..., 2:]
    return (flat / 16.0).reshape(planes.shape)


def _mask(world: Paintable, shape: int, pose: Tensor) -> Tensor:
    """The mask as it is compared, (N, Q)."""
    return soften(world.coverage(shape, pose)).flatten(1)


def _paint(mask: Tensor, ink: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Best possible ink (N, 3) for the masks (N, Q), what is left over (N, 3, Q), and its square sum (N,)."""
    amount = (ink @ mask[:, :, None])[..., 0] / mask.square().sum(1, keepdim=True).clamp(min=1e-6)
    amount = amount.clamp(0.0, 1.0)  # no ink is negative or darker than black
    rest = ink - amount[:, :, None] * mask[:, None]
    return amount, rest, rest.square().sum((1, 2))


def _fit(world: Paintable, shape: int, ink: Tensor, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pose (N, 3), ink colour (N, 3) and square error (N,) of the nearest picture with that shape."""
    nudge = NUDGE / world.image_size
    nudges = nudge * torch.eye(3, device=ink.device, dtype=ink.dtype)
    flat = soften(ink).flatten(2)  # (N, 3, Q)
    pose = _first_guess(world, shape, ink.mean(1))
    mask = _mask(world, shape, pose)
    amount, rest, error = _paint(mask, flat)
    damping = torch.full_like(error, 1e-2)
    for _ in range(steps):
        # How the mask changes with each unknown, less the part that a change of colour makes up for.
        slopes = torch.stack([(_mask(world, shape, pose + by) - mask) / nudge for by in nudges], 1)  # (N, 3, Q)
        along = (slopes @ mask[:, :, None]) / mask.square().sum(1).clamp(min=1e-6)[:, None, None]
        slopes = slopes - along * mask[:, None]
        normal = (slopes @ slopes.mT) * amount.square().sum(1)[:, None, None]
        pull = slopes @ (amount[:, None] @ rest).mT  # (N, 3, 1)
        ridge = torch.diag_embed(damping[:, None] * normal.diagonal(dim1=1, dim2=2) + 1e-6)
        step = torch.linalg.solve_ex(normal + ridge, pull)[0][..., 0]
        trial = _bounded(pose + step.clamp(-LONGEST_STEP, LONGEST_STEP))
        trial_mask = _mask(world, shape, trial)
        trial_amount, trial_rest, trial_error = _paint(trial_mask, flat)
        better = trial_error < error
        pose = torch.where(better[:, None], trial, pose)
        mask = torch.where(better[:, None], trial_mask, mask)
        amount = torch.where(better[:, None], trial_amount, amount)
        rest = torch.where(better[:, None, None], trial_rest, rest)
        error = torch.where(better, trial_error, error)
        damping = torch.where(better, damping * 0.2, damping * 10.0).clamp(1e-5, 1e3)
    return pose, amount, error


@torch.no_grad()
def read(world: Paintable, images: Tensor, steps: int = STEPS) -> Reading:
    """The nearest picture of the world for each of the images (N, 3, P, P)."""
    pixels = CHUNK_CUDA if images.is_cuda else CHUNK_CPU
    parts = in_batches(lambda part: _read_chunk(world, part, steps), images, pixels // world.image_size**2)
    return Reading(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(Reading)))


def _read_chunk(world: Paintable, images: Tensor, steps: int) -> Reading:
    ink = 1.0 - images
    values, least = images.new_zeros(len(images), 7), images.new_full((len(images),), torch.inf)
    for shape in range(len(world.shape_names)):
        pose, amount, error = _fit(world, shape, ink, steps)
        this = torch.cat([torch.full_like(error, shape)[:, None], 1.0 - amount, pose], 1)
        values = torch.where((error < least)[:, None], this, values)
        least = torch.minimum(error, least)
    values = torch.cat([values[:, :1], _core_colour(world, values, ink), values[:, 4:]], 1)
    rendered = world.render(values)
    return Reading(values, defect(images, rendered), rendered)


def _core_colour(world: Paintable, values: Tensor, ink: Tensor) -> Tensor:
    """The colour (N, 3) read mostly in the shape's inside, which blur at the edges does not bleach."""
    black = torch.cat([values[:, :1], torch.zeros_like(values[:, 1:4]), values[:, 4:]], 1)
    mask = 1.0 - world.render(black)[:, :1]
    weight = soften(mask) ** 4
    return (1.0 - (weight * ink).sum((2, 3)) / (weight * mask).sum((2, 3)).clamp(min=1e-6)).clamp(0.0, 1.0)
