"""A plain multilayer perceptron from the code to the pixels."""

from itertools import pairwise
from typing import Literal

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from recombine.nets.decoders.base import Affine, Decoder
from recombine.nets.layers import SeedStream
from recombine.settings import Settings


class MLPSettings(Settings):
    """The perceptron: (Linear + ReLU) x depth, then Linear to the pixels."""

    kind: Literal["mlp"] = Field(default="mlp", description="fully connected layers from the code to the pixels")
    depth: int = Field(default=3, ge=1, le=32, description="hidden layers")
    width: int = Field(default=256, ge=1, le=8192, description="features of every hidden layer")


class MLP(Decoder):
    def __init__(self, settings: MLPSettings, code_widths: tuple[int, ...], image_size: int, seeds: SeedStream):
        super().__init__(code_widths, image_size)
        sizes = [sum(code_widths), *[settings.width] * settings.depth]
        self.hidden = nn.ModuleList(Affine(inputs, outputs, seeds) for inputs, outputs in pairwise(sizes))
        self.leave = Affine(sizes[-1], image_size**2, seeds)

    def run(self, code: Tensor, kept: list[Tensor] | None) -> Tensor:
        x = code.to(self.dtype)
        for layer in self.hidden:
            x = F.relu(layer(x))
            if kept is not None:
                kept.append(x)
        return self.leave(x.float()).unflatten(-1, (self.image_size, self.image_size))
