"""A transformer over the pixels: the house's one backbone, with a token for every pixel.

Every token begins as Linear(code) plus its fixed position, as published. Where the published network is an ordinary
encoder (post-LN, feed-forward 2048, dropout), this is the backbone of the other study (adaLN-Zero, feed-forward 4 D, no
dropout), which is told the code a second time by its modulation.

Shapes: M members, B batch, T = P * P pixels, D width.
"""

from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from recombine.nets.backbone import Backbone, Dimensions
from recombine.nets.decoders.base import Affine, Decoder
from recombine.nets.layers import SeedStream
from recombine.settings import Settings


class TransformerSettings(Settings):
    """The transformer over pixels."""

    kind: Literal["transformer"] = Field(default="transformer", description="attention between all pixels")
    depth: int = Field(default=2, ge=1, le=24, description="blocks")
    width: int = Field(default=128, ge=16, le=2048, multiple_of=16, description="features of a pixel")
    heads: int = Field(default=4, ge=1, le=32, description="attention heads; they must divide the width")


class Transformer(Decoder):
    def __init__(self, settings: TransformerSettings, code_widths: tuple[int, ...], image_size: int, seeds: SeedStream):
        super().__init__(code_widths, image_size)
        self.enter = Affine(sum(code_widths), settings.width, seeds)
        dimensions = Dimensions(settings.depth, settings.width, settings.heads)
        self.backbone = Backbone(dimensions, (image_size, image_size), 1, seeds)

    @staticmethod
    def check(settings: Any, code_widths: tuple[int, ...], image_size: int) -> None:
        if settings.width % settings.heads:
            fitting = [str(n) for n in range(1, min(settings.width, 16) + 1) if settings.width % n == 0]
            raise ValueError(
                f"{settings.heads} heads do not divide a width of {settings.width}; take {', '.join(fitting)} heads"
            )

    def run(self, code: Tensor, kept: list[Tensor] | None) -> Tensor:
        told = self.enter(code.to(self.dtype))  # (M, B, D)
        tokens = told[:, :, None].expand(-1, -1, self.image_size**2, -1)
        if kept is None:
            pixels = self.backbone(tokens, told)
        else:
            pixels, states = self.backbone.with_states(tokens, told, range(len(self.backbone.blocks)))
            kept += states
        return pixels[..., 0].unflatten(-1, (self.image_size, self.image_size))
