"""Moving averages of weights, for all tensors at once."""

import torch
from torch import Tensor


@torch.no_grad()
def move(average: list[Tensor], weights: list[Tensor], kept: Tensor) -> None:
    """average = kept * average + (1 - kept) * weights, in three fused calls."""
    difference = torch._foreach_sub(weights, average)
    torch._foreach_mul_(difference, 1 - kept)
    torch._foreach_add_(average, difference)
