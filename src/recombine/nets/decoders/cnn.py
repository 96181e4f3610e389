"""The standard decoder: a small grid grows to the image by transposed convolutions.

The code is a 1 x 1 image. A transposed convolution spreads it over a grid of N / 4 pixels a side (7 for N = 28), two
with stride 2 double that to N, more with 3 x 3 kernels keep the size, each followed by ReLU; a last 3 x 3 one
gives the one channel. With N = 28 this is the published network. For other N the published one starts at 7 all the same
and resizes the image at the end; starting at N / 4 instead, rounded up, is ours.

Members: on a GPU all members are one grouped convolution; on a CPU each goes through the network by itself, because
oneDNN is no slower on plain convolutions and one member's activations stay in the cache (benchmarks/LOG-rendering.md).

Shapes: M members, B batch, W columns of the code, H width, P pixels a side.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from recombine.nets.decoders.base import Decoder, uniform_parameter
from recombine.nets.layers import SeedStream
from recombine.settings import Settings


class CNNSettings(Settings):
    """The convolutional decoder."""

    kind: Literal["cnn"] = Field(default="cnn", description="transposed convolutions from a small grid to the image")
    depth: int = Field(default=4, ge=2, le=32, description="hidden layers; the first two double the grid")
    width: int = Field(default=64, ge=1, le=2048, description="channels of every hidden layer")


class Convolution(nn.Module):
    """M convolutions, transposed or not, over (B, members * channels, h, w)."""

    def __init__(self, inputs: int, outputs: int, kernel: int, seeds: SeedStream, doubles: bool = False):
        super().__init__()
        self.doubles = doubles
        shape = (inputs, outputs) if doubles else (outputs, inputs)
        # torch takes the second dimension of the weight for the fan in, also of a transposed convolution.
        fan_in = shape[1] * kernel * kernel
        self.weight = uniform_parameter((*shape, kernel, kernel), fan_in, seeds)
        self.bias = uniform_parameter((outputs,), fan_in, seeds)

    def forward(self, x: Tensor, members: slice) -> Tensor:
        weight = self.weight[members].to(x.dtype)
        bias = self.bias[members].to(x.dtype).flatten()
        groups = len(weight)
        if self.doubles:
            return F.conv_transpose2d(x, weight.flatten(0, 1), bias, stride=2, padding=1, groups=groups)
        return F.conv2d(x, weight.flatten(0, 1), bias, padding=1, groups=groups)


class FewOutputs(nn.Module):
    """M transposed 3 x 3 convolutions to a channel or two, as a product to 9 planes each and their sum at 9 shifts.
    With so few channels out, torch's own convolutions are several times slower (benchmarks/LOG-rendering.md)."""

    def __init__(self, inputs: int, outputs: int, seeds: SeedStream):
        super().__init__()
        self.outputs = outputs
        self.weight = uniform_parameter((inputs, outputs * 9), 9 * inputs, seeds)
        self.bias = uniform_parameter((outputs,), 9 * inputs, seeds)

    def forward(self, x: Tensor, members: slice) -> Tensor:
        """(m, B, h, w, inputs) to (m, B, outputs, h, w)."""
        weight, bias = self.weight[members], self.bias[members]
        count, batch, high, wide, _ = x.shape
        planes = torch.bmm(x.reshape(count, batch * high * wide, -1), weight)
        planes = planes.view(count * batch, high * wide, -1).transpose(1, 2)
        image = F.fold(planes, (high, wide), 3, padding=1)
        return image.view(count, batch, self.outputs, high, wide) + bias[:, None, :, None, None]


class CNN(Decoder):
    """The published decoder, M times."""

    def __init__(self, settings: CNNSettings, code_widths: tuple[int, ...], image_size: int, seeds: SeedStream):
        super().__init__(code_widths, image_size)
        self.settings = settings
        self.start = -(-image_size // 4)
        inputs, width = sum(code_widths), settings.width
        fan_in = width * self.start**2
        self.enter = uniform_parameter(
            (inputs, width * self.start**2), fan_in, seeds
        )  # a transposed convolution of 1x1
        self.enter_bias = uniform_parameter((width,), fan_in, seeds)
        self.hidden = nn.ModuleList(
            Convolution(width, width, 4 if layer < 2 else 3, seeds, doubles=layer < 2)
            for layer in range(settings.depth)
        )
        self.leave = FewOutputs(width, 1, seeds)

    def run(self, code: Tensor, kept: list[Tensor] | None) -> Tensor:
        members = len(code)
        if code.device.type == "cuda":
            return self._some(code, slice(0, members), kept)
        apart: list[list[Tensor]] = [[] for _ in range(members)]
        images = [
            self._some(code[m : m + 1], slice(m, m + 1), None if kept is None else apart[m]) for m in range(members)
        ]
        if kept is not None:
            kept += [torch.cat(states) for states in zip(*apart, strict=True)]
        return torch.cat(images)

    def _some(self, code: Tensor, members: slice, kept: list[Tensor] | None) -> Tensor:
        """The images (m, B, P, P) of some members, side by side in the channels."""
        count, batch = code.shape[:2]
        width, side = self.settings.width, self.start

        def keep(x: Tensor) -> Tensor:
            if kept is not None:
                kept.append(x.unflatten(1, (count, width)).transpose(0, 1))
            return x

        enter = self.enter[members].to(self.dtype)
        grid = torch.bmm(code.to(self.dtype), enter).view(count, batch, width, side, side)
        grid = grid + self.enter_bias[members].to(self.dtype)[:, None, :, None, None]
        x = grid.transpose(0, 1).reshape(batch, count * width, side, side)
        x = keep(F.relu(x.contiguous(memory_format=torch.channels_last)))
        for layer in self.hidden:
            x = keep(F.relu(layer(x, members)))
        size = self.image_size
        # In float32: in bfloat16 a white background comes in steps of 0.004.
        rows = x.float().permute(0, 2, 3, 1).unflatten(-1, (count, width)).movedim(-2, 0)  # (m, B, h, w, H)
        return self.leave(rows, members)[:, :, 0, :size, :size]
