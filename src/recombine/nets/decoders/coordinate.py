"""The coordinate ("spatial-aware") network: every pixel is a function of the code and of its own position.

Per pixel: Linear(code) + position, then (Linear + PReLU) x depth, then Linear to one number; no pixel sees another.
The first of these layers is linear in a sum of which one part depends on the image alone and the other on the pixel
alone, so it is computed once for each of them and not once for each pair.

Shapes: M members, B batch, T = P * P pixels, D width.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from recombine.nets.backbone import grid_positions
from recombine.nets.decoders.base import Affine, Decoder, PReLU
from recombine.nets.layers import SeedStream, normal_parameter
from recombine.settings import Settings


class CoordinateSettings(Settings):
    """The coordinate network."""

    kind: Literal["coordinate"] = Field(
        default="coordinate", description="each pixel from the code and its own position; no pixel sees another"
    )
    depth: int = Field(default=2, ge=1, le=16, description="hidden layers")
    width: int = Field(default=256, ge=4, le=4096, multiple_of=4, description="features of every hidden layer")
    positions: Literal["fixed", "learned"] = Field(
        default="fixed",
        description="fixed: 2-D sines and cosines, smooth in the place; learned: a free vector for each pixel (ours)",
    )


class Coordinate(Decoder):
    positions: Tensor  # (T, D), or (M, T, D) where learned

    def __init__(self, settings: CoordinateSettings, code_widths: tuple[int, ...], image_size: int, seeds: SeedStream):
        super().__init__(code_widths, image_size)
        width = settings.width
        if settings.positions == "fixed":
            self.register_buffer("positions", grid_positions((image_size, image_size), width), persistent=False)
        else:  # of the same length as the fixed ones, whose squares sum to half the width
            self.positions = normal_parameter((image_size**2, width), 0.5**0.5, seeds)
        self.enter = Affine(sum(code_widths), width, seeds)
        self.hidden = nn.ModuleList(Affine(width, width, seeds) for _ in range(settings.depth))
        self.bends = nn.ModuleList(PReLU(seeds) for _ in range(settings.depth))
        self.leave = Affine(width, 1, seeds)

    def run(self, code: Tensor, kept: list[Tensor] | None) -> Tensor:
        members = len(code)
        told = self.enter(code.to(self.dtype))  # (M, B, D)
        places = self.positions.to(self.dtype).expand(members, -1, -1)  # (M, T, D)
        first = self.hidden[0]
        assert isinstance(first, Affine)
        of_places = torch.bmm(places, first.weight.to(self.dtype))
        x = self.bends[0](first(told)[:, :, None] + of_places[:, None])  # (M, B, T, D)
        for layer, bend in zip([None, *self.hidden[1:]], self.bends, strict=True):
            if layer is not None:
                x = bend(layer(x))
            if kept is not None:
                kept.append(x)
        return self.leave(x.float())[..., 0].unflatten(-1, (self.image_size, self.image_size))
