"""Layers whose parameters carry a leading member axis: M models of one shape that train together.

Activations are (M, B, ..., features). A layer is M independent layers: nothing ever mixes members. Each member's
weights are drawn from a generator seeded by that member's seed, in the order the layers are built, so member i starts
as the solo run of seed i does. M = 1 is the ordinary model.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

FEW_ROWS = 32  # tables so small are faster as a product on a GPU: the gradient of a lookup is a scatter


class SeedStream:
    """The seeds of the members and one generator for each: handed from layer to layer while a network is built."""

    def __init__(self, seeds: Sequence[int], purpose: int = 0):
        self.seeds = tuple(seeds)
        # 2654435761 is Knuth's multiplicative constant: seeds 0, 1, 2 … become generators that are far apart.
        self.generators = [
            torch.Generator().manual_seed((seed * 2654435761 + purpose) % (1 << 63)) for seed in self.seeds
        ]

    def __len__(self) -> int:
        return len(self.seeds)


def _stack(draw: Callable[[torch.Generator], Tensor], seeds: SeedStream) -> nn.Parameter:
    return nn.Parameter(torch.stack([draw(generator) for generator in seeds.generators]))


def normal_parameter(shape: tuple[int, ...], std: float, seeds: SeedStream) -> nn.Parameter:
    """(M, *shape) of N(0, std^2)."""
    return _stack(lambda g: torch.randn(shape, generator=g) * std, seeds)


class Linear(nn.Module):
    """M linear maps: (M, B, ..., inputs) to (M, B, ..., outputs). Xavier-uniform weights, zero bias; `zero` starts at
    0."""

    def __init__(self, inputs: int, outputs: int, seeds: SeedStream, zero: bool = False):
        super().__init__()
        bound = 0.0 if zero else math.sqrt(6.0 / (inputs + outputs))
        self.weight = _stack(
            lambda g: (torch.rand(inputs, outputs, generator=g) * 2 - 1) * bound, seeds
        )  # (M, in, out)
        self.bias = nn.Parameter(torch.zeros(len(seeds), 1, outputs))

    def product(self, x: Tensor, outputs: slice = slice(None)) -> Tensor:
        """The map without its bias; of some outputs only."""
        rows = x.reshape(x.shape[0], -1, x.shape[-1])
        low: Tensor | None = getattr(self.weight, "low", None)  # a trainer's copy of the weights in fewer bits
        if low is None or low.dtype != x.dtype:
            y = torch.bmm(rows, self.weight[..., outputs].to(x.dtype))  # (M, B * ..., out)
        elif torch.is_grad_enabled():
            from recombine.nets.fused.product import product

            y = product(rows, self.weight, low, outputs)
        else:
            y = torch.bmm(rows, low[..., outputs])
        return y.view(*x.shape[:-1], y.shape[-1])

    def forward(self, x: Tensor) -> Tensor:
        # Not baddbmm: it would copy the bias to every row first.
        return self.product(x) + self.bias.to(x.dtype).view(len(x), *[1] * (x.dim() - 2), -1)


class Table(nn.Module):
    """M embedding tables: indices (M, B, ...) to (M, B, ..., D)."""

    def __init__(self, rows: int, width: int, seeds: SeedStream, std: float = 0.02):
        super().__init__()
        self.weight = normal_parameter((rows, width), std, seeds)  # (M, rows, D)

    def forward(self, indices: Tensor) -> Tensor:
        members, rows, width = self.weight.shape
        if indices.is_cuda and rows <= FEW_ROWS:
            chosen = nn.functional.one_hot(indices.flatten(1), rows).to(self.weight.dtype)  # (M, B * ..., rows)
            return torch.bmm(chosen, self.weight).view(*indices.shape, width)
        offset = torch.arange(members, device=indices.device).view(-1, *[1] * (indices.dim() - 1)) * rows
        return nn.functional.embedding(indices + offset, self.weight.reshape(members * rows, width))


def layer_norm(x: Tensor) -> Tensor:
    """LayerNorm over features without affine part, eps 1e-6 (DiT)."""
    return nn.functional.layer_norm(x, (x.shape[-1],), eps=1e-6)


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """x (1 + scale) + shift; x (M, B, T, D), shift and scale (M, B, 1, D)."""
    return torch.addcmul(shift, x, 1 + scale)
