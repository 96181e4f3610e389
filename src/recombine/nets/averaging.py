"""Moving averages of weights."""

import torch
from torch import Tensor


@torch.no_grad()
def move(average: list[Tensor], weights: list[Tensor], kept: Tensor) -> None:
    """average = kept * average + (1 - kept) * weights."""
    for mean, weight in zip(average, weights, strict=True):
        mean.lerp_(weight, 1 - kept)
