"""What all masked generators share: how much is hidden while training, and the order in which tokens are revealed.

Shapes: M members, B batch, T tokens.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from recombine.randomness import Draws

# (tokens (M, B, T, ...), unknown (M, B, T) bool) -> (drawn tokens, confidence (M, B, T))
Draw = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

# How the share that is hidden falls from 1 to 0. In training, at a uniform place of the way; in decoding, after the
# share r of the steps. Cosine: cos(pi r / 2), as Chang et al. 2022. Arccos: arccos(r) / (pi / 2), as later code has it.
# The same mean, but cosine trains more often near both ends, and begins to decode slowly where arccos ends in a rush.
MaskLaw = Literal["cosine", "arccos"]


def cosine_ratio(u: Tensor) -> Tensor:
    """The cosine law: ratio = cos(pi u / 2) of u ~ U(0, 1), mean 2 / pi. (Its density is what Muse calls "arccos".)"""
    return torch.cos(u * (math.pi / 2))


def arccos_ratio(u: Tensor) -> Tensor:
    """The arccos law: ratio = arccos(u) / (pi / 2) of u ~ U(0, 1), mean 2 / pi. P(ratio < r) = 1 - cos(pi r / 2)."""
    return torch.acos(u) * (2 / math.pi)


def share_left(r: float, law: MaskLaw) -> float:
    """The share still hidden after the share r of the decoder's steps."""
    return math.cos(math.pi / 2 * r) if law == "cosine" else math.acos(r) * (2 / math.pi)


def hide(draws: Draws, ratio: Tensor, tokens: int) -> Tensor:
    """(M, B, T) bool: exactly ceil(ratio * T) tokens hidden, at least one, at random positions; ratio (M, B, 1)."""
    hidden = torch.ceil(ratio * tokens).clamp(min=1)
    rank = draws.uniform(ratio.shape[1], tokens).argsort(-1).argsort(-1)
    return rank < hidden


def draw_mask(draws: Draws, batch: int, tokens: int, law: MaskLaw = "cosine") -> Tensor:
    """A training mask whose ratio follows the law."""
    ratio = cosine_ratio if law == "cosine" else arccos_ratio
    return hide(draws, ratio(draws.uniform(batch, 1)), tokens)


def block_mask(draws: Draws, batch: int, grid: tuple[int, int], blocks: int, share: float) -> Tensor:
    """(M, B, T) bool: the union of `blocks` rectangles of about `share` of the grid each, of aspect 3:4 to 3:2.

    A rectangle may hang over the edge of the grid, at every place where at least one cell of it lies inside. So a cell
    of the border is hidden as often as one of the middle, exactly, on grids of any size: rectangles kept inside would
    cover the middle of a small grid nearly always and its corners seldom.
    """
    rows, columns = grid
    area = share * rows * columns
    aspect = torch.exp(math.log(0.75) + math.log(1.5 / 0.75) * draws.uniform(batch, blocks, 1))  # height over width
    inside = []
    for cells, side in ((rows, (area * aspect).sqrt()), (columns, (area / aspect).sqrt())):
        length = side.round().clamp(1, cells)  # (M, B, blocks, 1)
        first = torch.floor(draws.uniform(batch, blocks, 1) * (cells + length - 1)) - (length - 1)
        place = torch.arange(cells, device=first.device)
        inside.append((place >= first) & (place < first + length))  # (M, B, blocks, cells)
    return (inside[0][..., :, None] & inside[1][..., None, :]).any(2).flatten(-2)


def reveal(
    draw: Draw,
    x: Tensor,
    unknown: Tensor,
    draws: Draws,
    steps: int,
    choice_temperature: float = 0.0,
    law: MaskLaw = "cosine",
) -> Tensor:
    """Fill the unknown tokens of x (M, B, T, ...) in `steps` iterations; tokens known at the start never change.

    Iteration k, r = (k + 1) / steps: draw every unknown token; hide again the floor(N0 share_left(r)) of least
    confidence (to which choice_temperature (1 - r) Gumbel noise is added), at least 1 and at most all unknown but one.
    N0 is the number unknown at the start. The last iteration's draw is the answer (Chang et al. 2022).
    """
    at_start = unknown.sum(-1, keepdim=True)  # N0, (M, B, 1)
    for k in range(steps):
        ratio = (k + 1) / steps
        drawn, confidence = draw(x, unknown)
        x = torch.where(unknown.view(*unknown.shape, *[1] * (x.dim() - 3)), drawn, x)
        if k == steps - 1:
            break
        if choice_temperature > 0:
            noise = draws.uniform(*unknown.shape[1:]) + 2.0**-25  # never 0
            confidence = confidence - choice_temperature * (1 - ratio) * torch.log(-torch.log(noise))
        confidence = confidence.masked_fill(~unknown, math.inf)
        share = min(max(share_left(ratio, law), 1e-6), 1.0)
        count = torch.floor(at_start * share).long()
        count = torch.minimum(count.clamp(min=1), unknown.sum(-1, keepdim=True) - 1).clamp(min=0)
        threshold = confidence.sort(-1).values.gather(-1, count)
        unknown = confidence < threshold
    return x


def draw_categories(log_probability: Tensor, draws: Draws) -> Tensor:
    """One category per position of (M, B, T, K) by inverting the cumulative distribution: (M, B, T) int64."""
    cumulative = log_probability.exp().cumsum(-1)
    level = draws.uniform(*log_probability.shape[1:-1])[..., None] * cumulative[..., -1:]
    return (cumulative <= level).sum(-1).clamp(max=log_probability.shape[-1] - 1)
