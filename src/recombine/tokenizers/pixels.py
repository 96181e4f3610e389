"""Pixels as tokens: square patches, nothing learned but shift and scale. The ceiling of this tokenizer is 1."""

from typing import Literal

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from recombine.settings import Settings
from recombine.tokenizers.base import Tokenizer, Tokens, to_grid, to_tokens


class PixelsSettings(Settings):
    """The cut of an image into patches."""

    kind: Literal["pixels"] = Field(
        default="pixels", description="a token is a square patch of the image as it is; nothing is learned"
    )
    patch: int = Field(4, ge=1, le=64, description="pixels a side of the square patch that is one token")


class Pixels(Tokenizer):
    """A token is a patch: its channels are the patch's colours x rows x columns."""

    kind = "pixels"

    def __init__(self, settings: PixelsSettings, image_size: int, colours: int):
        super().__init__(image_size, settings.patch, colours * settings.patch**2)
        self.patch = settings.patch

    def analyse(self, images: Tensor) -> Tokens:
        return Tokens(to_tokens(F.pixel_unshuffle(images, self.patch)), None, None)

    def synthesise(self, raw: Tensor) -> Tensor:
        return F.pixel_shuffle(to_grid(raw, self.grid), self.patch)
