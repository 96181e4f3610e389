"""The update of all members: clip each member's gradient, AdamW (Loshchilov and Hutter 2019), averaged weights.

One function over lists of tensors, in torch's multi-tensor operations: on a CPU it runs as it is, on a GPU it is
compiled into a few kernels that read and write everything once.

Shapes: every weight is (M, ...).
"""

import torch
from torch import Tensor

EPSILON = 1e-8


class AdamW:
    """The moments of the gradients, and the averaged weights if there are any."""

    def __init__(
        self,
        weights: list[Tensor],
        decayed: list[bool],
        decay: float,
        betas: tuple[float, float],
        clip: float | None,
        average: list[Tensor] | None,
    ):
        self.weights = weights
        self.first = [torch.zeros_like(weight) for weight in weights]
        self.second = [torch.zeros_like(weight) for weight in weights]
        self.average = average
        self.decays = [decay if decays else 0.0 for decays in decayed]
        self.betas, self.clip = betas, clip
        self.apply = _update

    @torch.no_grad()
    def step(self, step: Tensor, rate: Tensor, kept: Tensor | None) -> None:
        """Update in place with the gradients that the weights hold, which are then gone. `step` is 1, 2, …; `kept` is
        the share of the average that stays."""
        gradients = [weight.grad if weight.grad is not None else torch.zeros_like(weight) for weight in self.weights]
        for weight in self.weights:
            weight.grad = None
        weights = [weight.detach() for weight in self.weights]
        moments = (self.first, self.second)
        self.apply(weights, gradients, moments, self.average, self.decays, self.betas, self.clip, step, rate, kept)


def _update(
    weights: list[Tensor],
    gradients: list[Tensor],
    moments: tuple[list[Tensor], list[Tensor]],
    average: list[Tensor] | None,
    decays: list[float],
    betas: tuple[float, float],
    clip: float | None,
    step: Tensor,
    rate: Tensor,
    kept: Tensor | None,
) -> None:
    first, second = moments
    if clip is not None:
        gradients = clip_members(gradients, clip)
    torch._foreach_lerp_(first, gradients, 1 - betas[0])
    torch._foreach_mul_(second, betas[1])
    torch._foreach_addcmul_(second, gradients, gradients, 1 - betas[1])
    done = step.to(torch.float32)
    size = rate / (1 - betas[0] ** done)
    root = torch.sqrt(1 - betas[1] ** done)
    scale = torch._foreach_sqrt(second)
    torch._foreach_div_(scale, root)
    torch._foreach_add_(scale, EPSILON)
    change = torch._foreach_div(first, scale)
    torch._foreach_mul_(change, size)
    shrunk = [place for place, decay in enumerate(decays) if decay > 0]
    if shrunk:  # decay by the weight as it was, not through the moments
        lost = torch._foreach_mul([weights[place] for place in shrunk], [decays[place] for place in shrunk])
        torch._foreach_mul_(lost, rate)
        torch._foreach_add_([change[place] for place in shrunk], lost)
    torch._foreach_sub_(weights, change)
    if average is not None and kept is not None:
        difference = torch._foreach_sub(weights, average)
        torch._foreach_mul_(difference, 1 - kept)
        torch._foreach_add_(average, difference)


def clip_members(gradients: list[Tensor], limit: float) -> list[Tensor]:
    """Each member's gradient scaled to at most `limit` in norm. One norm over all members would couple the seeds."""
    squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients])  # (parameters, M)
    scale = (limit / (squares.sum(0).sqrt() + 1e-6)).clamp(max=1)
    scales = [scale.view(-1, *[1] * (gradient.dim() - 1)) for gradient in gradients]
    return list(torch._foreach_mul(gradients, scales))
