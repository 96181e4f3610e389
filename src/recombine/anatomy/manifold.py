"""The surface that a layer's activations draw over the (x, y) plane: its tangents, its metric and its area.

Tangents come from automatic differentiation, not from differences between cells. Where a code has no derivative (a
one-hot code, or a generator's samples) `grid_tangents` takes differences, as the published study does throughout. The
two do not give the same numbers for narrow bumps: for a whole Gaussian bump the volume element is pi / 2
(log10 = 0.196) at every width, while central differences with step 1 give 0.993 (log10 = -0.003) at width 1. Compare
numbers of one kind only.

Shapes: M members, C cells, D features of a layer (all axes after the cells', flattened), 2 factors (x, y).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import jvp

from recombine.errors import UserError

FLOOR = 1e-12
"""Added to a volume element before its logarithm, as in the published study."""


def tangents(layers: Callable[[Tensor], dict[str, Tensor]], cells: Tensor, batch: int = 256) -> dict[str, Tensor]:
    """The derivative of every layer by x and by y at cells (C, 2): {layer: (M, C, D, 2)}.

    `layers` maps cells (B, 2), as numbers, to named activations (M, B, ...): the encoding is part of it, and must be
    differentiable. Cells must not act on one another (no batch statistics): then one forward-mode product per factor
    gives the derivative of all cells at once. `batch` cells are taken at a time, to bound memory.
    """
    found: dict[str, list[Tensor]] = {}
    with torch.no_grad():
        for part in cells.to(torch.get_default_dtype() if not cells.is_floating_point() else cells.dtype).split(batch):
            slopes = []
            for factor in range(part.shape[1]):
                direction = torch.zeros_like(part)
                direction[:, factor] = 1.0
                slopes.append(jvp(layers, (part,), (direction,))[1])
            for name in slopes[0]:
                columns = [slope[name].flatten(2) for slope in slopes]
                found.setdefault(name, []).append(torch.stack(columns, dim=-1))
    return {name: torch.cat(parts, dim=1) for name, parts in found.items()}


def grid_tangents(features: Tensor) -> Tensor:
    """Central differences, step 1 (one-sided at the plane's border), of features on a full grid.

    (M, rows y, columns x, D) to (M, y, x, D, 2) with the derivative by x first. Near the hole's border they mix trained
    and held-out cells: `plane.inner` says which cells are free of that.
    """
    if min(features.shape[1:3]) < 2:
        raise UserError(f"Differences need at least two cells in each direction; got {tuple(features.shape[1:3])}.")
    by_y, by_x = torch.gradient(features.double(), dim=(1, 2))
    return torch.stack([by_x, by_y], dim=-1)


@dataclass(frozen=True)
class Geometry:
    """What is kept of a layer's tangents: the metric (M, C, 2, 2) and the volume element (M, C)."""

    metric: Tensor
    volume: Tensor

    @property
    def log_volume(self) -> Tensor:
        return (self.volume + FLOOR).log10()


def geometry(layers: Callable[[Tensor], dict[str, Tensor]], cells: Tensor, batch: int = 64) -> dict[str, Geometry]:
    """Metric and volume of every layer at cells (C, 2). The tangents of `batch` cells are held at a time: those of a
    whole plane and a wide layer do not fit."""
    parts: dict[str, list[Geometry]] = {}
    for some in cells.split(batch):
        for name, jacobian in tangents(layers, some, batch).items():
            parts.setdefault(name, []).append(Geometry(metric(jacobian), volume_element(jacobian)))
    return {
        name: Geometry(torch.cat([one.metric for one in found], 1), torch.cat([one.volume for one in found], 1))
        for name, found in parts.items()
    }


def grid_geometry(features: Tensor) -> Geometry:
    """The same by differences between the cells of a full grid: features (M, rows y, columns x, D).

    Cells are in the order of pixels. One member at a time, to bound memory.
    """
    jacobians = (grid_tangents(own[None]).flatten(1, 2) for own in features)
    found = [Geometry(metric(jacobian), volume_element(jacobian)) for jacobian in jacobians]
    return Geometry(torch.cat([one.metric for one in found]), torch.cat([one.volume for one in found]))


def metric(jacobian: Tensor) -> Tensor:
    """The metric tensor g = J^T J: (..., D, 2) to (..., 2, 2), in float64."""
    exact = jacobian.double()
    return exact.mT @ exact


def volume_element(jacobian: Tensor) -> Tensor:
    """sqrt(det g), the area of the surface per unit of the plane: (..., D, 2) to (...).

    Computed as the length of one tangent times the part of the other that is at right angles to it: near a collapse
    the determinant is a small difference of large numbers, and this is not.
    """
    exact = jacobian.double()
    lengths = exact.norm(dim=-2)  # (..., 2)
    # The longer one first: it is the better direction to project on.
    order = lengths.argsort(dim=-1, descending=True)
    sorted_ = exact.gather(-1, order[..., None, :].expand_as(exact))
    long, short = sorted_.unbind(-1)
    size = long.norm(dim=-1, keepdim=True)
    unit = long / torch.where(size > 0, size, 1.0)
    rest = short - (short * unit).sum(-1, keepdim=True) * unit
    return size.squeeze(-1) * rest.norm(dim=-1)


def log_volume(jacobian: Tensor) -> Tensor:
    """log10(volume element + 1e-12): (..., D, 2) to (...)."""
    return (volume_element(jacobian) + FLOOR).log10()
