"""Kernels over the (x, y) plane: which pairs of cells does a network treat as alike?

Two questions, one set of model kernels:

- `compare_kernels`: is the representational kernel of a layer (products of its activations) like a model kernel?
- `kernel_regression`: does a model kernel, fitted to the network's outputs at trained cells, predict what the network
  draws at held-out cells?

and `gradient_kernel`, the network's own tangent kernel (Jacot et al. 2018), which `compare_kernels` takes as well;
`sampled_gradient_kernel` is the same from a few random directions, which is what studies can afford.

The model kernels, g(d; l) = exp(-d^2 / 2 l^2), dx and dy the differences of two cells and r their distance:

    factorized         g(dx; lx) and g(dy; ly) as two terms: x and y are coded apart, functions in it are a(x) + b(y)
    binary_factorized  [dx = 0] and [dy = 0]: the same with no notion of nearness; alike means "x or y is shared"
    conjunction        [dx = 0 and dy = 0]: a table with one entry per cell; alike means "the same pair"
    product            g(dx; lx) g(dy; ly) with lx unlike ly: one bump per pair, longer in one direction
    radial             g(r; l): one bump per pair

The published study calls the product "factorized" and lets lx = ly, where it *is* the radial kernel and cannot lose to
it; that case is radial here and the product must be unequal. Its README speaks of "binary, factorized" kernels and
defines none: the second line is our reading. Length scales, ridge and weights are chosen from trained cells alone.

Shapes: M members, C cells, n trained, D features, P pixels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.func import jvp, vjp, vmap

from recombine.anatomy.plane import check_plane
from recombine.anatomy.ridge import RIDGES, KernelRidge
from recombine.errors import UserError
from recombine.randomness import Draws

LENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""The length scales tried, in pixels."""

FAMILIES = ("factorized", "binary_factorized", "conjunction", "product", "radial")

BLOCK = 4
"""Side of the squares of trained cells that are left out together when a kernel regression is chosen."""

ROUNDING = 1e-12
"""Kernel values that vary by less than this share of the kernel's size do not vary."""

DIRECTIONS = 8
"""Random directions of the parameters that a sampled gradient kernel is made of. A matter of time: each costs about
three times what drawing the plane does. Of one trained CNN of the study demo-rendering the radial kernel's R^2 over
trained pairs was 0.78 with 8 directions, 0.82 with 16 and 0.84 with 64, the factorized one's 0.50, 0.52 and 0.52; over
held-out pairs the noise may be as large as the numbers."""

GRADIENT_CELLS = 256
GRADIENT_PARAMETERS = 2**18
"""The most cells (16 x 16) and parameters of a decoder with which studies measure the gradient kernel. A matter of time
too: on one CPU core a member takes 1 s with the decoder of demo-rendering, 5 s with a CNN near the limit and half a
minute with a transformer; at the published size (784 cells, 381,313 parameters) a CNN takes 40 s, nearly as long as all
else that is measured of it."""


def length_choices(family: str, lengths: Sequence[float] = LENGTHS) -> list[tuple[float, ...]]:
    """All length scales that a family is tried with; the empty tuple for a family that has none."""
    if family == "factorized":
        return list(product(lengths, lengths))
    if family == "product":
        return [pair for pair in product(lengths, lengths) if pair[0] != pair[1]]
    if family == "radial":
        return [(length,) for length in lengths]
    if family in FAMILIES:
        return [()]
    raise UserError(f"There is no kernel family {family!r}; choose from {', '.join(FAMILIES)}.")


def model_kernel(family: str, lengths: tuple[float, ...], cells: Tensor) -> Tensor:
    """The terms of a model kernel on cells (C, 2): (terms, C, C), two terms for the factorized families, else one."""
    dx, dy = (cells.double().T[:, :, None] - cells.double().T[:, None]).abs()  # (C, C) each
    if family == "factorized":
        return torch.stack([_near(dx, lengths[0]), _near(dy, lengths[1])])
    if family == "binary_factorized":
        return torch.stack([dx == 0, dy == 0]).double()
    if family == "conjunction":
        return ((dx == 0) & (dy == 0)).double()[None]
    if family == "product":
        return (_near(dx, lengths[0]) * _near(dy, lengths[1]))[None]
    if family == "radial":
        return _near((dx.square() + dy.square()).sqrt(), lengths[0])[None]
    raise UserError(f"There is no kernel family {family!r}; choose from {', '.join(FAMILIES)}.")


def _near(distance: Tensor, length: float) -> Tensor:
    return (-distance.square() / (2 * length**2)).exp()


def _centred(kernel: Tensor, trained: Tensor) -> Tensor:
    """A kernel (..., C, C) of features less their mean over the trained cells."""
    row = kernel[..., trained].mean(-1, keepdim=True)  # (..., C, 1)
    return kernel - row - row.mT + row[..., trained, :].mean(-2, keepdim=True)


def representational_kernel(features: Tensor, trained: Tensor) -> Tensor:
    """Products of a layer's features (M, C, D or more axes) over all pairs of cells, (M, C, C) in float64.

    Features are taken less their mean over trained cells, and scaled so that a trained cell's product with itself is 1
    on average. A layer that does not vary over the plane gives zeros.
    """
    grams = []
    for own in features.flatten(2):  # one member in float64 at a time
        x = own.double()
        x = x - x[trained].mean(0)
        grams.append(x @ x.mT)
    return _scaled(torch.stack(grams), trained)


def normalised_kernel(kernel: Tensor, trained: Tensor) -> Tensor:
    """A kernel (M, C, C) that was not made of features here, centred and scaled as `representational_kernel` does."""
    return _scaled(_centred(kernel.double(), trained), trained)


def _scaled(kernel: Tensor, trained: Tensor) -> Tensor:
    size = kernel[:, trained, trained].mean(1)[:, None, None]
    return kernel / torch.where(size > 0, size, 1.0)


@dataclass(frozen=True)
class KernelFit:
    """How well one family describes a kernel: R^2 over pairs of cells, (M,) each.

    `trained` are the pairs the fit was made on, `across` those of a trained and a held-out cell, `held_out` those of
    two held-out cells, which the fit has not seen: there R^2 can be negative. NaN where the kernel does not vary.
    `lengths` has one tuple a member.
    """

    trained: Tensor
    across: Tensor
    held_out: Tensor
    lengths: list[tuple[float, ...]]


def _r2(kernel: Tensor, fitted: Tensor, pairs: Tensor) -> float:
    values, errors = kernel[pairs], (kernel - fitted)[pairs]
    total = (values - values.mean()).square().sum()
    if not total > ROUNDING * kernel.square().mean() * len(values):
        return float("nan")
    return float(1 - errors.square().sum() / total)


def compare_kernels(
    kernel: Tensor,
    cells: Tensor,
    trained: Tensor,
    families: Sequence[str] = FAMILIES,
    lengths: Sequence[float] = LENGTHS,
    ridge: float = 1e-9,
) -> dict[str, KernelFit]:
    """Fit each family to a kernel (M, C, C) and say how well it describes it, per family.

    The fit is a ridge regression of the kernel's entries over pairs of trained cells, each pair once and a cell with
    itself included, on the family's terms and a constant; both sides are centred at the trained cells, as features
    are. `ridge` is a share of each term's own sum of squares: it only keeps equal terms solvable. Length scales are
    those with the best R^2 on the pairs of trained cells. That is in-sample, but five numbers at most are fitted to
    tens of thousands of pairs.
    """
    check_plane(cells, trained, kernel.shape[1])
    finite = kernel.isfinite().flatten(1).all(1)
    goal = _centred(torch.where(finite[:, None, None], kernel, 0.0).double(), trained)  # a diverged member gets NaN
    once = torch.ones_like(goal[0], dtype=torch.bool).triu()
    both, neither = trained[:, None] & trained, ~trained[:, None] & ~trained
    pairs = {"trained": once & both, "across": once & ~both & ~neither, "held_out": once & neither}
    y = goal[:, pairs["trained"]].T  # (pairs, M)
    constant = y.mean(0)
    found: dict[str, KernelFit] = {}
    for family in families:
        least = [torch.inf] * len(goal)
        best: list[tuple[tuple[float, ...], Tensor]] = [((), goal[0])] * len(
            goal
        )  # replaced below: every family has a choice, and an error is finite
        for chosen in length_choices(family, lengths):
            terms = _centred(model_kernel(family, chosen, cells), trained)  # (terms, C, C)
            x = terms[:, pairs["trained"]]
            mean = x.mean(1, keepdim=True)
            gram = (x - mean) @ (x - mean).T
            gram = gram + torch.diag_embed(ridge * gram.diagonal() + torch.finfo(gram.dtype).tiny)
            weight = torch.linalg.solve(gram, (x - mean) @ (y - constant))  # (terms, M)
            errors = (y - constant - (x - mean).T @ weight).square().sum(0)
            for m, error in enumerate(errors.tolist()):
                if error < least[m]:
                    fitted = (weight[:, m, None, None] * (terms - mean[..., None])).sum(0) + constant[m]
                    least[m], best[m] = error, (chosen, fitted)
        scores = {
            kind: torch.tensor([_r2(goal[m], fitted, mask) for m, (_, fitted) in enumerate(best)])
            for kind, mask in pairs.items()
        }
        found[family] = KernelFit(lengths=[chosen for chosen, _ in best], **scores)
    return found


@dataclass(frozen=True)
class KernelRegression:
    """How well kernel regression in one family predicts a network's outputs, (M,) each; `lengths` one tuple a member.

    Errors are squared errors over those of the constant prediction, the mean output at trained cells: 0 is a perfect
    prediction of the network (not of the truth), 1 is no better than the constant. `left_out` is over trained cells,
    each predicted from the other blocks (it chose lengths and ridge); `held_out` over held-out cells.
    """

    left_out: Tensor
    held_out: Tensor
    ridge: Tensor
    lengths: list[tuple[float, ...]]


def kernel_regression(
    outputs: Tensor,
    cells: Tensor,
    trained: Tensor,
    families: Sequence[str] = FAMILIES,
    lengths: Sequence[float] = LENGTHS,
    ridges: Sequence[float] = RIDGES,
    block: float = BLOCK,
) -> dict[str, KernelRegression]:
    """Predict a network's outputs (M, C, P) at held-out cells from those at trained cells, with each family's kernel.

    Ridge with a free constant, so that a white background costs nothing. Lengths and ridge are those with the smallest
    error over trained cells, each predicted without the square of `block` by `block` cells it lies in, for each member
    apart. Single cells would be too easy: their neighbours give them away, and what interpolates best to a neighbour
    goes wild in a hole. The two terms of a factorized family are added with equal weight. A binary factorized kernel
    can be any a(x) + b(y), so both factorized families predict an additive network; which of them its layers have is
    what `compare_kernels` says. One row per cell: the same cell twice would be its own answer.
    """
    check_plane(cells, trained, outputs.shape[1])
    if len(cells.unique(dim=0)) < len(cells):
        raise UserError("Kernel regression needs each cell once; average the outputs of a cell that occurs twice.")
    members, pixels = len(outputs), outputs.shape[2]
    # Members share cells and kernel, so they are columns of one regression: (C, M * P).
    flat = outputs.double().transpose(0, 1).flatten(1)
    seen, unseen = flat[trained], flat[~trained]
    squares = (cells[trained].double() / block).floor().unique(dim=0, return_inverse=True)[1]

    def size(errors: Tensor) -> Tensor:
        return errors.square().view(-1, members, pixels).sum((0, 2))  # (M,)

    base_seen = size(seen - seen.mean(0))
    base_unseen = size(unseen - seen.mean(0))
    found: dict[str, KernelRegression] = {}
    for family in families:
        least = torch.full((members,), torch.inf, dtype=torch.float64, device=flat.device)
        error, used = torch.full_like(least, torch.nan), torch.full_like(least, torch.nan)
        names: list[tuple[float, ...]] = [()] * members
        for chosen in length_choices(family, lengths):
            fit = KernelRidge(model_kernel(family, chosen, cells).sum(0), trained)
            for ridge in ridges:
                left = size(fit.left_out(seen, ridge, squares) - seen) / base_seen
                better = left < least
                if not better.any():
                    continue
                ahead = size(fit.held_out(seen, ridge) - unseen) / base_unseen
                least, error = torch.where(better, left, least), torch.where(better, ahead, error)
                used = torch.where(better, ridge, used)
                names = [chosen if b else old for b, old in zip(better.tolist(), names, strict=True)]
        found[family] = KernelRegression(
            left_out=torch.where(least.isfinite(), least, torch.nan), held_out=error, ridge=used, lengths=names
        )
    return found


def gradient_kernel(
    network: Callable[[Any, Tensor], Tensor],
    parameters: dict[str, Tensor],
    inputs: Tensor,
    pixels: Sequence[int] | None = None,
    at_once: int = 8,
) -> Tensor:
    """The tangent kernel of a network over its inputs, (M, B, B): sum over pixels of grad f_p(a) . grad f_p(b).

    `network(parameters, inputs)` maps (M, B, I) to (M, B, ...) as `torch.func.functional_call` does; `parameters` carry
    the member axis in front and members never mix, so the gradient of the sum over members holds each member's own.
    `pixels` are the outputs counted, all unless given. For small sizes: the gradients of `at_once` pixels at all B
    inputs, B * at_once times the number of parameters, are held at once.
    """
    members, count = inputs.shape[0], inputs.shape[1]
    weights = {name: value.detach() for name, value in parameters.items()}
    for name, value in weights.items():
        if len(value) != members:
            raise UserError(f"Parameter {name} has no leading axis of {members} members.")

    def slopes(x: Tensor, some: Tensor) -> dict[str, Tensor]:
        """Gradients of some pixels at one input (M, I): {parameter: (pixels, M, ...)}."""
        # Only the way back is vectorised: a network's forward pass may hold what vmap cannot take (memory formats).
        values, back = vjp(lambda w: network(w, x[:, None]).flatten(1), weights)[:2]
        seeds = torch.zeros(len(some), *values.shape, dtype=values.dtype, device=values.device)
        seeds[torch.arange(len(some)), :, some] = 1.0
        found: dict[str, Tensor] = vmap(lambda seed: back(seed)[0])(seeds)
        return found

    with torch.no_grad():
        outputs = network(weights, inputs[:, :1]).flatten(1).shape[1]
    chosen = torch.arange(outputs) if pixels is None else torch.tensor(list(pixels))
    kernel = torch.zeros(members, count, count, dtype=torch.float64, device=inputs.device)
    for some in chosen.to(inputs.device).split(at_once):
        found = [slopes(x, some) for x in inputs.unbind(1)]
        for name in weights:
            rows = torch.stack([one[name] for one in found], dim=2).flatten(3).double()  # (pixels, M, B, numbers)
            kernel += (rows @ rows.mT).sum(0)
    return kernel


def gradient_is_small(cells: int, parameters: int) -> bool:
    """Whether studies measure the gradient kernel of a decoder with so many parameters over so many cells."""
    return cells <= GRADIENT_CELLS and parameters <= GRADIENT_PARAMETERS


def sampled_gradient_kernel(
    network: Callable[[Any, Tensor], Tensor],
    parameters: dict[str, Tensor],
    inputs: Tensor,
    directions: int = DIRECTIONS,
    batch: int = 64,
) -> Tensor:
    """The gradient kernel (M, B, B) from random directions u of the parameters: the mean of (J(a) u) . (J(b) u).

    J(a) are the gradients of all pixels at a. With the numbers of u normal and independent the mean over u is
    sum_p grad f_p(a) . grad f_p(b), that is `gradient_kernel`, without bias. The noise of n directions falls as
    1 / sqrt(n) and costs a fit a little of its R^2. One forward derivative gives all pixels of all inputs at once: of a
    trained CNN of 16 x 16 pixels, gradients along eight random directions of the *pixels* take longer than eight of
    these and, from their noise, give R^2 less than half as large. All members get the same directions, so that a member
    measured alone gets the same numbers. `batch` inputs go through the network at once.
    """
    weights = {name: value.detach() for name, value in parameters.items()}
    members, count = inputs.shape[0], inputs.shape[1]
    kernel = torch.zeros(members, count, count, dtype=torch.float64, device=inputs.device)
    for step in range(directions):
        along = {}
        for name, value in weights.items():
            drawn = Draws(torch.zeros(1), f"gradient kernel, {name}", step).normal(*value.shape[1:])  # (1, ...)
            along[name] = drawn.to(value).expand_as(value)
        parts = [
            jvp(lambda w, x=some: network(w, x).flatten(2), (weights,), (along,))[1]  # type: ignore[misc]
            for some in inputs.split(batch, dim=1)
        ]
        moved = torch.cat(parts, dim=1).double()  # (M, B, P)
        kernel += moved @ moved.mT / directions
    return kernel
