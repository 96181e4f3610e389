"""Forced rendering: a decoder is told every factor and must draw the one image that follows from them.

A generator as far as the training loop is concerned: nothing is random, so what it draws is what it predicts. The loss
is the mean squared error over pixels, plus the decoder's own penalty and, for rotated digits, a share of the absolute
error.

Shapes: M members, B batch, W columns of the code, P pixels a side.
"""

import torch
from torch import Tensor, nn

from recombine.generators.base import Generator
from recombine.nets.decoders import Decoder
from recombine.randomness import Draws

PLANE_AT_ONCE = 128  # codes drawn at once, so that all pixels of a wide network fit in memory


class Rendering(Generator):
    """M decoders with their loss."""

    takes = "latents"

    def __init__(self, decoder: Decoder, seeds: tuple[int, ...], absolute: float = 0.0):
        nn.Module.__init__(self)  # not Generator's: there is no backbone, and a code is told in full or not at all
        self.decoder = decoder
        self.seeds = seeds
        self.absolute = absolute

    @property
    def dtype(self) -> torch.dtype:  # type: ignore[override]
        return self.decoder.dtype

    @dtype.setter
    def dtype(self, dtype: torch.dtype) -> None:
        self.decoder.dtype = dtype

    def loss(self, x: Tensor, cond: Tensor, draws: Draws) -> Tensor:
        """x (M, B, P, P) images, cond (M, B, W) codes; (M,)."""
        error = self.decoder(cond) - x
        loss = error.square().mean((1, 2, 3))
        if self.absolute:
            loss = loss + self.absolute * error.abs().mean((1, 2, 3))
        return loss + self.decoder.penalty()

    @torch.no_grad()
    def sample(self, cond: Tensor, draws: Draws | None = None, guidance: float = 0.0) -> Tensor:
        """Images (M, B, P, P) for codes (M, B, W)."""
        self.eval()
        images = torch.cat([self.decoder(some) for some in cond.split(PLANE_AT_ONCE, dim=1)], dim=1)
        self.train()
        return images
