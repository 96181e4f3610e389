"""Many weights in one tensor, so that clipping, the optimizer and averaging are a few large operations, not hundreds of
small ones.

Shapes: M members, P numbers of one member.
"""

import math
import warnings

import torch
from torch import Tensor, nn

from recombine.nets.averaging import move

# Gradients lie as the weights do, with the other weights between their members: torch would rather have them dense.
warnings.filterwarnings("ignore", message="grad and param do not obey the gradient layout contract")

ALIGN = 64  # numbers: every weight starts where 16-byte loads of any dtype may start


class Flat:
    """Weights (M, ...) as views of one tensor (M, P), and their gradients as views of another. The numbers between them
    are 0 and stay so. With `low`, a third holds the weights in that dtype; a weight's part of it is its attribute `low`
    (see `nets/layers.py`), and `written` tells which of its gradient's columns a product has put there in this step."""

    def __init__(self, weights: dict[str, nn.Parameter], decay: float, low: torch.dtype | None = None):
        self.decay = decay
        self.places: dict[str, tuple[int, torch.Size]] = {}  # where each weight begins, and its shape
        width = 0
        for name, weight in weights.items():
            self.places[name] = width, weight.shape
            width += -(-weight[0].numel() // ALIGN) * ALIGN
        first = next(iter(weights.values()))
        self.weights = torch.zeros(len(first), width, device=first.device)
        self.gradients = torch.zeros_like(self.weights)
        self.weights.grad = self.gradients
        views, gradients = self.views(self.weights), self.views(self.gradients)
        for name, weight in weights.items():
            views[name].copy_(weight.detach())
            weight.data, weight.grad = views[name], gradients[name]
        self._all = list(weights.values())
        self.low = None if low is None else self.weights.to(low)
        if self.low is not None:
            for name, view in self.views(self.low).items():
                weights[name].low, weights[name].written = view, set()  # type: ignore[attr-defined]

    def clear(self) -> None:
        """Make ready for the next step: gradients that products write are left as they are, the others become 0. (In a
        step that is replayed a weight has such a gradient always or never.)"""
        written = [weight for weight in self._all if getattr(weight, "written", None)]
        if not written:
            self.gradients.zero_()
            return
        for weight in self._all:
            if weight.grad is not None and not any(weight is other for other in written):
                weight.grad.zero_()
        for weight in written:
            weight.written.clear()  # type: ignore[attr-defined]

    @torch.no_grad()
    def set(self, weights: Tensor) -> None:
        """Take the numbers of `weights` (M, P)."""
        self.weights.copy_(weights)
        if self.low is not None:
            self.low.copy_(weights)

    def views(self, tensor: Tensor) -> dict[str, Tensor]:
        """The weights' parts (M, ...) of a tensor (M, P), by name."""
        return {
            name: tensor[:, start : start + math.prod(shape[1:])].view(shape)
            for name, (start, shape) in self.places.items()
        }


class Trail:
    """Buffers that trail behind some weights of a `Flat`, as views of a tensor laid out as its weights are: one
    operation moves them all. They have an attribute `low` where the weights have."""

    def __init__(self, flat: Flat, buffers: dict[str, Tensor]):
        self.flat = flat
        self.weights = flat.weights.clone()
        self.low = None if flat.low is None else torch.empty_like(flat.low)
        views = flat.views(self.weights)
        lows = {} if self.low is None else flat.views(self.low)
        for name, buffer in buffers.items():
            views[name].copy_(buffer)
            buffer.data = views[name]
            if lows:
                buffer.low = lows[name]  # type: ignore[attr-defined]
        self.refresh()

    def refresh(self) -> None:
        """Bring `low` up to date."""
        if self.low is not None:
            self.low.copy_(self.weights)

    @torch.no_grad()
    def move(self, kept: Tensor) -> None:
        """kept * buffers + (1 - kept) * weights."""
        move([self.weights], [self.flat.weights], kept)
        self.refresh()


def clip_scale(gradients: list[Tensor], limit: float | None) -> Tensor:
    """(M,): what each member's gradients (M, P) must be multiplied by to have at most `limit` in norm. One norm over
    all members would couple the seeds."""
    if limit is None:
        return torch.ones(len(gradients[0]), device=gradients[0].device)
    norms = torch.stack([torch.linalg.vector_norm(gradient, dim=1) for gradient in gradients])
    return (limit / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)).clamp(max=1)
