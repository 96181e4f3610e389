"""What all masked generators share: how much is hidden while training, and the order in which tokens are revealed.

Shapes: M members, B batch, T tokens.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from recombine.randomness import Draws

# (tokens (M, B, T, ...), unknown (M, B, T) bool, share revealed so far) -> (drawn tokens, confidence (M, B, T))
Draw = Callable[[Tensor, Tensor, float], tuple[Tensor, Tensor]]


def cosine_ratio(u: Tensor) -> Tensor:
    """The cosine law: ratio = cos(pi u / 2) of u ~ U(0, 1), mean 2 / pi. (Its density is what Muse calls "arccos".)"""
    return torch.cos(u * (math.pi / 2))


def hide(draws: Draws, ratio: Tensor, tokens: int) -> Tensor:
    """(M, B, T) bool: exactly ceil(ratio * T) tokens hidden, at least one, at random positions; ratio (M, B, 1)."""
    hidden = torch.ceil(ratio * tokens).clamp(min=1)
    rank = draws.uniform(ratio.shape[1], tokens).argsort(-1).argsort(-1)
    return rank < hidden


def draw_mask(draws: Draws, batch: int, tokens: int) -> Tensor:
    """A training mask whose ratio follows the cosine law."""
    return hide(draws, cosine_ratio(draws.uniform(batch, 1)), tokens)


def reveal(draw: Draw, x: Tensor, unknown: Tensor, draws: Draws, steps: int, choice_temperature: float = 0.0) -> Tensor:
    """Fill the unknown tokens of x (M, B, T, ...) in `steps` iterations; tokens known at the start never change.

    Iteration k, r = (k + 1) / steps: draw every unknown token; hide again the floor(N0 cos(pi r / 2)) of least
    confidence (to which choice_temperature (1 - r) Gumbel noise is added), at least 1 and at most all unknown but one.
    N0 is the number unknown at the start. The last iteration's draw is the answer (Chang et al. 2022).
    """
    at_start = unknown.sum(-1, keepdim=True)  # N0, (M, B, 1)
    revealed = 0.0
    for k in range(steps):
        ratio = (k + 1) / steps
        drawn, confidence = draw(x, unknown, revealed)
        x = torch.where(unknown.view(*unknown.shape, *[1] * (x.dim() - 3)), drawn, x)
        if k == steps - 1:
            break
        if choice_temperature > 0:
            noise = draws.uniform(*unknown.shape[1:]) + 2.0**-25  # never 0
            confidence = confidence - choice_temperature * (1 - ratio) * torch.log(-torch.log(noise))
        confidence = confidence.masked_fill(~unknown, math.inf)
        share = min(max(math.cos(math.pi / 2 * ratio), 1e-6), 1.0)
        count = torch.floor(at_start * share).long()
        count = torch.minimum(count.clamp(min=1), unknown.sum(-1, keepdim=True) - 1).clamp(min=0)
        threshold = confidence.sort(-1).values.gather(-1, count)
        unknown = confidence < threshold
        revealed = 1 - share
    return x


def draw_categories(log_probability: Tensor, draws: Draws) -> Tensor:
    """One category per position of (M, B, T, K) by inverting the cumulative distribution: (M, B, T) int64."""
    cumulative = log_probability.exp().cumsum(-1)
    level = draws.uniform(*log_probability.shape[1:-1])[..., None] * cumulative[..., -1:]
    return (cumulative <= level).sum(-1).clamp(max=log_probability.shape[-1] - 1)
