"""How far a layer keeps x and y apart: the factorization metric, the rank of its activations, and a linear read-out.

Every number is given for trained cells (ID) and held-out cells (OOD) apart. The published study takes the metric over
the whole plane, writes 1 for the input without computing it, and reads out factors from the very cells it was fitted
on.

Shapes: M members, C cells, D features, 2 factors (x, y).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recombine.anatomy.plane import check_plane
from recombine.anatomy.ridge import RIDGES, KernelRidge
from recombine.errors import UserError


@dataclass(frozen=True)
class Regions:
    """One number per member, (M,): over all cells, over trained cells and over held-out cells."""

    all: Tensor
    trained: Tensor
    held_out: Tensor


def region_means(values: Tensor, trained: Tensor) -> Regions:
    """Means over cells of values (M, C), NaN left out."""
    return Regions(values.nanmean(1), values[:, trained].nanmean(1), values[:, ~trained].nanmean(1))


def factorization(metric: Tensor, trained: Tensor) -> Regions:
    """F = 1 - mean |g_xy| / mean (g_xx + g_yy), means over cells, from the metric (M, C, 2, 2).

    1: moving x and moving y change the layer in directions at right angles. A disentangled code gives exactly 1. The
    least value is 1/2, not 0 (both tangents equal everywhere), so read F against that. NaN where nothing varies.
    """
    mixed, own = metric[..., 0, 1].abs(), metric[..., 0, 0] + metric[..., 1, 1]

    def over(cells: Tensor) -> Tensor:
        total = own[:, cells].mean(1)
        return 1 - mixed[:, cells].mean(1) / torch.where(total > 0, total, torch.nan)

    return Regions(over(torch.ones_like(trained)), over(trained), over(~trained))


def tangent_overlap(metric: Tensor, trained: Tensor) -> Regions:
    """Mean |cosine| of the two tangents, from the metric (M, C, 2, 2): 0 apart, 1 one direction.

    Ours, beside F: F weighs a cell by the length of its tangents, so cells where the layer hardly moves (a collapsed
    hole) hardly count in it; here every cell counts alike. A cell with a tangent of length 0 is left out.
    """
    size = (metric[..., 0, 0] * metric[..., 1, 1]).sqrt()
    return region_means(metric[..., 0, 1].abs() / torch.where(size > 0, size, torch.nan), trained)


def effective_rank(singular: Tensor) -> Tensor:
    """exp(H(p)), p_k = s_k^2 / sum s^2, of singular values (..., K): the number of directions that carry the energy.

    The entropy is that of the study's regulariser (with s its lambda). Roy and Vetterli's effective rank, and RankMe in
    `features`, take s and not s^2, which gives weak directions more say. Zeros give 1.
    """
    energy = singular.double().square()
    total = energy.sum(-1, keepdim=True)
    return torch.special.entr(energy / torch.where(total > 0, total, 1.0)).sum(-1).exp()


@dataclass(frozen=True)
class Ranks:
    """Rank of a layer's activations over the plane, (M,) each, by three definitions.

    effective: exp of the entropy of the covariance's eigenvalues; above: eigenvalues over 1e-3 of the largest; energy:
    the fewest eigenvalues that hold 99 % of their sum. The last two are the published study's.
    """

    effective: Tensor
    above: Tensor
    energy: Tensor


def activation_ranks(features: Tensor, share: float = 1e-3, energy: float = 0.99) -> Ranks:
    """Ranks of features (M, C, D or more axes), centred over the cells given; NaN for a member that diverged."""
    finite = features.isfinite().flatten(1).all(1)
    grams = []
    for own, known in zip(features.flatten(2), finite.tolist(), strict=True):  # one member in float64 at a time
        x = own.double() if known else torch.zeros_like(own, dtype=torch.float64)
        x = x - x.mean(0)
        grams.append(x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x)
    values = torch.linalg.eigvalsh(torch.stack(grams)).clamp(min=0).flip(-1)  # (M, min(C, D)), largest first
    total = values.sum(1, keepdim=True)
    held = values.cumsum(1) / torch.where(total > 0, total, 1.0)
    counts = (
        effective_rank(values.sqrt()),
        ((values > share * values[:, :1]) & (values > 0)).sum(1).double(),
        torch.where(total[:, 0] > 0, (held < energy - 1e-12).sum(1) + 1, 0).double(),
    )
    return Ranks(*(torch.where(finite, count, torch.nan) for count in counts))


@dataclass(frozen=True)
class ReadOut:
    """Linear read-out of x and y, (M, 2) each: R^2 and root-mean-square error in pixels, over cells not fitted on.

    `trained_*`: each trained cell read by a fit to all the others. `held_out_*`: held-out cells read by a fit to all
    trained ones. R^2 is against the spread of the cells read, so it is harsher on a small hole; the error in pixels
    is comparable between the two. NaN where the cells read have no spread, as in a hole of one cell.
    """

    trained_r2: Tensor
    held_out_r2: Tensor
    trained_error: Tensor
    held_out_error: Tensor


def read_out(features: Tensor, cells: Tensor, trained: Tensor, ridges: Sequence[float] = RIDGES) -> ReadOut:
    """Read (x, y) linearly from features (M, C, D or more axes): ridge with a constant, ridge by leave-one-out error.

    One row per cell: the same cell twice would be its own answer. A member that diverged gets NaN.
    """
    check_plane(cells, trained, features.shape[1])
    if len(cells.unique(dim=0)) < len(cells):
        raise UserError("The read-out needs each cell once; average the features of a cell that occurs twice.")
    goal = cells.double()
    seen, unseen = goal[trained], goal[~trained]

    def r2(errors: Tensor, truth: Tensor) -> Tensor:
        spread = (truth - truth.mean(0)).square().sum(0)
        return 1 - errors.square().sum(0) / torch.where(spread > 0, spread, torch.nan)

    rows = []
    for states in features.flatten(2):
        own = states.double()
        if not own.isfinite().all():
            rows.append(torch.full((4, goal.shape[1]), torch.nan, dtype=goal.dtype, device=goal.device))
            continue
        x = own - own[trained].mean(0)
        fit = KernelRidge(x @ x.T, trained)
        errors = {ridge: fit.left_out(seen, ridge) - seen for ridge in ridges}
        best = min(errors, key=lambda ridge: float(errors[ridge].square().sum()))
        inside, outside = errors[best], fit.held_out(seen, best) - unseen
        sizes = [e.square().mean(0).sqrt() for e in (inside, outside)]
        rows.append(torch.stack([r2(inside, seen), r2(outside, unseen), *sizes]))
    return ReadOut(*torch.stack(rows, dim=1).unbind(0))
