"""What every decoder of the forced-rendering study is: M networks of one shape, from codes to images.

Weights start as torch's own layers do (uniform within 1 / sqrt(fan in), biases too), since that is what the published
decoders start from; each member's come from its own seed, so member i starts as the solo run of seed i does.

Shapes: M members, B batch, W columns of the code, P pixels a side.
"""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from recombine.nets.layers import SeedStream


def uniform_parameter(shape: tuple[int, ...], fan_in: int, seeds: SeedStream) -> nn.Parameter:
    """(M, *shape), uniform within 1 / sqrt(fan in)."""
    bound = fan_in**-0.5
    return nn.Parameter(torch.stack([(torch.rand(shape, generator=g) * 2.0 - 1.0) * bound for g in seeds.generators]))


class Affine(nn.Module):
    """M linear maps (M, ..., inputs) to (M, ..., outputs) that start as torch.nn.Linear does."""

    def __init__(self, inputs: int, outputs: int, seeds: SeedStream):
        super().__init__()
        self.weight = uniform_parameter((inputs, outputs), inputs, seeds)
        self.bias = uniform_parameter((outputs,), inputs, seeds)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(x.shape[0], -1, x.shape[-1])
        y = torch.baddbmm(self.bias.to(x.dtype)[:, None], rows, self.weight.to(x.dtype))
        return y.view(*x.shape[:-1], y.shape[-1])


class PReLU(nn.Module):
    """x where it is positive, a learned share of it elsewhere: one number per member, 0.25 at the start."""

    def __init__(self, seeds: SeedStream):
        super().__init__()
        self.slope = nn.Parameter(torch.full((len(seeds),), 0.25))

    def forward(self, x: Tensor) -> Tensor:
        slope = self.slope.to(x.dtype).view(-1, *[1] * (x.dim() - 1))
        return slope * x + (1 - slope) * x.relu()


class Decoder(nn.Module, ABC):
    """M decoders. `dtype` is that of hidden activations; the last layer and the images are float32."""

    def __init__(self, code_widths: tuple[int, ...], image_size: int):
        super().__init__()
        self.code_widths, self.image_size = code_widths, image_size
        self.dtype = torch.float32

    @staticmethod
    def check(settings: Any, code_widths: tuple[int, ...], image_size: int) -> None:
        """ValueError where such a decoder cannot be built for this code and image."""

    @abstractmethod
    def run(self, code: Tensor, kept: list[Tensor] | None) -> Tensor:
        """Images (M, B, P, P) of codes (M, B, W); where `kept` is a list, every hidden state (M, B, ...) is added to
        it, after its nonlinearity."""

    def forward(self, code: Tensor) -> Tensor:
        return self.run(code, None)

    def states(self, code: Tensor) -> list[Tensor]:
        """The hidden states (M, B, features) of every layer, from the first to the images themselves, float32."""
        kept: list[Tensor] = []
        images = self.run(code, kept)
        return [state.float().flatten(2) for state in [*kept, images]]

    def penalty(self) -> Tensor | float:
        """What is added to the loss of each member, (M,)."""
        return 0.0
