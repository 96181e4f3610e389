"""The Halton order of a token grid: early tokens are spread over the image (Besnier et al. 2025)."""

import torch
from torch import Tensor


def radical_inverse(number: int, base: int) -> float:
    """The digits of `number` in `base`, mirrored at the point: 1, 2, 3, 4 in base 2 give 1/2, 1/4, 3/4, 1/8."""
    mirrored, scale = 0, 1
    while number:
        number, digit = divmod(number, base)
        mirrored, scale = mirrored * base + digit, scale * base
    return mirrored / scale


def halton_rank(grid: tuple[int, int]) -> Tensor:
    """When each token's turn comes, (T,) int64, a permutation of 0..T-1; tokens in row order.

    Points of the 2-D Halton sequence (base 2 down, base 3 across) fall on the grid one after another; a cell's rank is
    its place among the cells in the order in which they are first hit.
    """
    height, width = grid
    hit: dict[int, None] = {}  # cells in order of their first hit
    number = 0
    while len(hit) < height * width:
        number += 1
        row, column = int(radical_inverse(number, 2) * height), int(radical_inverse(number, 3) * width)
        hit.setdefault(row * width + column)
    rank = torch.empty(height * width, dtype=torch.int64)
    rank[torch.tensor(list(hit))] = torch.arange(height * width)
    return rank
