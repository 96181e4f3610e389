"""Averaged weights whose memory grows with the run, so that they are right after 100 steps and after 100,000.

Power-function EMA (Karras et al. 2024, section 3.1): decay_t = (1 - 1/t)^(gamma + 1). The first update copies the
weights, so nothing of the initial weights is ever left, and the average spans a fixed share (`width`) of the steps
seen.
"""

import torch
from torch import Tensor


def power_of_width(width: float) -> float:
    """The gamma whose power function t^gamma, as a density on [0, 1], has standard deviation `width`.

    The variance is (gamma + 1) / ((gamma + 2)^2 (gamma + 3)); it falls steadily in gamma, so bisection finds it.
    """
    low, high = 0.0, 1e6
    for _ in range(200):
        gamma = (low + high) / 2
        variance = (gamma + 1) / ((gamma + 2) ** 2 * (gamma + 3))
        low, high = (gamma, high) if variance > width**2 else (low, gamma)
    return (low + high) / 2


def initial_share(steps: int, gamma: float) -> float:
    """How much of the initial weights is left in the average after `steps` updates: the product of all decays."""
    return float(decay(torch.arange(1, steps + 1), gamma).prod())


def decay(step: Tensor, gamma: float) -> Tensor:
    """The share of the old average kept at `step` = 1, 2, …: 0 at the first."""
    return (1 - 1 / step.to(torch.float64)).pow(gamma + 1).to(torch.float32)
