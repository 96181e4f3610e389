"""Superposition: does a decoder draw a missing pair, or does it add up what it memorised about each factor alone?

For a held-out cell (x, y) the *memory* is a fixed mixture of the decoder's own outputs at trained cells, and the
*truth* is the picture of the world. The score says which of the two the output looks like. The published study shows
pictures and no number; every number here is our own definition:

- background: the median of a picture over its pixels is taken off (dark on white and bright on black count alike);
- memory, truth: cosine over pixels of the output with the memory and with the true picture;
- control: the mean cosine of the output with the memories of all *other* held-out cells, which is the exact mean
  over shuffles that move the cell: what any memory would give;
- share: the output is fitted as alpha * memory + beta * truth, both of unit length, alpha and beta not negative;
  share = alpha / (alpha + beta). A superposition scores 1 and a perfect renderer 0, also at the rim of the hole, where
  memory and truth overlap and the plain cosines do not part. NaN where they are one picture (cosine above 0.99) or
  neither is in the output (less than 1 % of its energy explained);
- explained: the part of the output's energy that this fit explains. A share is worth reading where this is high;
- strength: the output's length over the truth's. Near 0 nothing is drawn, and directions mean nothing.

Deep inside the hole (depth >= 2, `worlds.supports.depth_of`) the truth hardly overlaps the memory, so there the plain
cosines are clean as well.

Shapes: M members, C cells, n trained and K held out, P pixels.
"""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from recombine.anatomy.plane import check_plane
from recombine.errors import UserError
from recombine.worlds.supports import depth_of

SAME_PICTURE = 0.99
"""Memory and truth with a cosine above this are one picture: no output can tell them apart."""

PRESENT = 0.01
"""Below this explained part neither memory nor truth is in the output, and their shares are those of noise."""

DEEP = 2
"""Cells with at least this depth count as deep inside the hole."""


@dataclass(frozen=True)
class Superposition:
    """One number per member and held-out cell, (M, K), as the module's docstring defines them; depth is (K,)."""

    memory: Tensor
    truth: Tensor
    control: Tensor
    share: Tensor
    explained: Tensor
    strength: Tensor
    depth: Tensor

    def summary(self, at_least: float = 0.0) -> dict[str, Tensor]:
        """The mean of each over the cells with a depth of `at_least`, (M,); cells without a value are left out.

        `undefined` is the part of those cells that have no share.
        """
        chosen = self.depth >= at_least
        if not chosen.any():
            raise UserError(f"No held-out cell has a depth of {at_least:g}; the deepest has {self.depth.max():g}.")
        names = [field.name for field in fields(self) if field.name != "depth"]
        means = {name: getattr(self, name)[:, chosen].nanmean(1) for name in names}
        return {**means, "undefined": self.share[:, chosen].isnan().double().mean(1)}


def memory_weights(cells: Tensor, trained: Tensor, within: float = 0.0) -> Tensor:
    """The mean over trained cells that share x or y with each held-out cell, as weights (K, n).

    Two values are shared when they differ by at most `within`: 0 for integer cells, half a pixel or so for continuous
    ones. A cell that shares its value with no trained cell has no memory: the support hides a whole factor value.
    """
    check_plane(cells, trained, len(trained))
    away = (cells[~trained].double()[:, None] - cells[trained].double()[None]).abs()  # (K, n, factors)
    shared = (away <= within).any(2).double()
    count = shared.sum(1, keepdim=True)
    if (count == 0).any():
        raise UserError(
            "A held-out cell shares neither x nor y with any trained cell; "
            "choose a support that shows every factor value, or a larger `within`."
        )
    return shared / count


def additive_weights(cells: Tensor, trained: Tensor) -> Tensor:
    """The additive prediction a(x) + b(y), fitted by least squares to the trained cells, as weights (K, n).

    The other reading of "superposition": a decoder that is additive in the two factors, whatever a and b are, equals
    this prediction exactly at every held-out cell. The fit does not depend on the decoder, only on the support.
    """
    check_plane(cells, trained, len(trained))
    columns = []
    for values in cells.T:
        columns.append((values[:, None] == values.unique()[None]).double())
    design = torch.cat(columns, dim=1)  # (C, number of x values + of y values)
    # Each further factor has one direction that the first one's constant already covers.
    rank = design.shape[1] - len(columns) + 1
    if int(torch.linalg.matrix_rank(design[trained])) < rank:
        raise UserError(
            "The trained cells do not fix an additive prediction: some factor value is never seen, or the support "
            "falls into parts that share no x and no y; choose a connected support that shows every value."
        )
    return design[~trained] @ torch.linalg.pinv(design[trained])


def edge_weights(values: Tensor, trained: Tensor, period: float | None = None) -> Tensor:
    """The cross-fade between the two trained values on either side of a gap, as weights (K, n).

    For one factor, such as an angle (C,): weights fall linearly with the distance, so half way through the gap the
    memory is the mean of both edges. With a `period` the values lie on a circle.
    """
    check_plane(values[:, None], trained, len(trained))
    away = values[trained].double()[None] - values[~trained].double()[:, None]  # (K, n)
    up = away % period if period is not None else torch.where(away > 0, away, torch.inf)
    down = (-away) % period if period is not None else torch.where(away < 0, -away, torch.inf)
    (above, i), (below, j) = up.min(1), down.min(1)
    if not (above.isfinite() & below.isfinite()).all():
        raise UserError("A held-out value has no trained value on one side; give a `period`, or a gap with two edges.")
    weights = torch.zeros_like(away)
    rows = torch.arange(len(away), device=away.device)
    weights[rows, i] += below / (above + below)
    weights[rows, j] += above / (above + below)
    return weights


def without_background(pictures: Tensor) -> Tensor:
    """Pictures (..., P) less their own median over pixels, in float64."""
    exact = pictures.double()
    # torch's median is the lower of the two middle pixels; with the upper one too, a negative picture counts alike.
    middle = (exact.median(-1, keepdim=True).values - (-exact).median(-1, keepdim=True).values) / 2
    return exact - middle


def _unit(pictures: Tensor) -> Tensor:
    """Pictures (..., P) of length 1; NaN for a picture without any content, which has no direction."""
    length = pictures.norm(dim=-1, keepdim=True)
    return pictures / torch.where(length > 0, length, torch.nan)


def _fit_two(p: Tensor, q: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The non-negative least-squares weights of two unit vectors with cosine c in a vector whose products with them
    are p and q."""
    gap = torch.where(c.abs() <= SAME_PICTURE, 1 - c.square(), torch.nan)
    alpha, beta = (p - c * q) / gap, (q - c * p) / gap
    # Outside the quadrant the best point lies on an axis: on that of the larger product.
    inside = (alpha >= 0) & (beta >= 0)
    first = p >= q
    known = gap.isfinite() & p.isfinite() & q.isfinite()
    alpha = torch.where(inside, alpha, torch.where(first, p.clamp(min=0), 0.0))
    beta = torch.where(inside, beta, torch.where(first, 0.0, q.clamp(min=0)))
    return torch.where(known, alpha, torch.nan), torch.where(known, beta, torch.nan)


def superposition(
    outputs: Tensor,
    truths: Tensor,
    cells: Tensor,
    trained: Tensor,
    weights: Tensor | None = None,
    depth: Tensor | None = None,
) -> Superposition:
    """Score outputs (M, C, P) against true pictures (C, P) at the held-out cells; see the module's docstring.

    `weights` (K, n) says what the memory of each held-out cell is: `memory_weights` unless given. A cell may stand in
    the list more than once (several samples of a generator): the control leaves out all rows of the same cell. `depth`
    (C,) is that of the cells inside the hole, where it is not `depth_of` (angles lie on a circle).
    """
    check_plane(cells, trained, outputs.shape[1])
    if truths.shape != outputs.shape[1:]:
        raise UserError(f"True pictures {tuple(truths.shape)} must match the outputs {tuple(outputs.shape[1:])}.")
    mixture = memory_weights(cells, trained) if weights is None else weights
    # Mixed with the background in place, since it is the decoder's outputs that are mixed, then freed of it.
    memory = _unit(without_background(mixture @ outputs[:, trained].double()))  # (M, K, P)
    real = without_background(truths[~trained])
    truth = _unit(real)  # (K, P)
    drawn = without_background(outputs[:, ~trained])
    own = _unit(drawn)

    p, q = (own * memory).sum(-1), (own * truth).sum(-1)  # (M, K)
    alpha, beta = _fit_two(p, q, (memory * truth).sum(-1))
    explained = alpha * p + beta * q  # of the energy of an output of length 1
    present = torch.where(explained >= PRESENT, alpha + beta, torch.nan)
    held = cells[~trained]
    other = (held[:, None] != held[None]).any(2)  # (K, K)
    control = torch.where(other, own @ memory.mT, torch.nan).nanmean(2)  # a memory without content is left out
    return Superposition(
        memory=p,
        truth=q,
        control=control,
        share=alpha / present,
        explained=explained,
        strength=drawn.norm(dim=-1) / real.norm(dim=-1),
        depth=(depth_of(cells, trained) if depth is None else depth)[~trained],
    )
