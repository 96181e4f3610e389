"""The published decoder of rotated digits: a linear map to a grid, then transposed convolutions with batch norm.

Linear(2 -> 7 x 7 x 128), a transposed convolution to 128 channels and one to 64, both doubling, each with batch
normalisation and ReLU, a 3 x 3 convolution to one channel and a sigmoid. Normalisation is by the batch's own mean and
variance while training, and by their running averages otherwise, per member.

Shapes: M members, B batch, P pixels a side.
"""

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from recombine.nets.decoders.base import Affine, Decoder
from recombine.nets.decoders.cnn import Convolution, FewOutputs
from recombine.nets.layers import SeedStream
from recombine.settings import Settings

MOMENTUM = 0.1  # share of the batch in the running averages, torch's default
EPSILON = 1e-5


class RotatorSettings(Settings):
    """The decoder of rotated digits."""

    kind: Literal["rotator"] = Field(
        default="rotator", description="linear, two doubling convolutions with batch norm, sigmoid: for rotated digits"
    )
    width: int = Field(default=128, ge=2, le=1024, description="channels of the first grid; the second has half")


class BatchNorm(nn.Module):
    """Per member and channel, over (B, members * channels, h, w)."""

    mean: Tensor
    variance: Tensor

    def __init__(self, channels: int, seeds: SeedStream):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(len(seeds), channels))
        self.shift = nn.Parameter(torch.zeros(len(seeds), channels))
        self.register_buffer("mean", torch.zeros(len(seeds), channels))
        self.register_buffer("variance", torch.ones(len(seeds), channels))

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(
            x, self.mean.view(-1), self.variance.view(-1), self.scale.reshape(-1), self.shift.reshape(-1),
            self.training, MOMENTUM, EPSILON,
        )  # fmt: skip


class Rotator(Decoder):
    def __init__(self, settings: RotatorSettings, code_widths: tuple[int, ...], image_size: int, seeds: SeedStream):
        super().__init__(code_widths, image_size)
        self.start, self.width = image_size // 4, settings.width
        self.enter = Affine(sum(code_widths), settings.width * self.start**2, seeds)
        half = settings.width // 2
        self.hidden = nn.ModuleList(
            Convolution(inputs, outputs, 4, seeds, doubles=True)
            for inputs, outputs in ((settings.width, settings.width), (settings.width, half))
        )
        self.norms = nn.ModuleList(BatchNorm(channels, seeds) for channels in (settings.width, half))
        self.leave = FewOutputs(half, 1, seeds)

    @staticmethod
    def check(settings: Any, code_widths: tuple[int, ...], image_size: int) -> None:
        if image_size % 4:
            raise ValueError(f"rotator doubles its grid twice, so image_size must be a multiple of 4, not {image_size}")

    def run(self, code: Tensor, kept: list[Tensor] | None) -> Tensor:
        members, batch = code.shape[:2]
        everyone = slice(0, members)
        grid = self.enter(code).view(members, batch, self.width, self.start, self.start)
        x = grid.transpose(0, 1).reshape(batch, -1, self.start, self.start)
        for layer, norm in zip(self.hidden, self.norms, strict=True):
            x = F.relu(norm(layer(x, everyone)))
            if kept is not None:
                kept.append(x.unflatten(1, (members, -1)).transpose(0, 1))
        rows = x.permute(0, 2, 3, 1).unflatten(-1, (members, -1)).movedim(-2, 0)
        return torch.sigmoid(self.leave(rows, everyone)[:, :, 0])
