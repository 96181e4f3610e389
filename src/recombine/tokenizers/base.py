"""What a tokenizer is: images to a grid of tokens of unit scale and back.

Shapes: N images, 3 colours, P pixels a side, T tokens (h x w, row by row), C channels of a token.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from recombine.errors import UserError
from recombine.out_of_memory import in_batches
from recombine.randomness import Draws

CHUNK = 1024  # images encoded or decoded at a time, so that memory does not grow with the number of images


@dataclass(frozen=True)
class Tokens:
    """Images as tokens. Over the images the tokenizer was fitted on, mean + std * noise has mean 0 and deviation 1."""

    mean: Tensor  # (N, T, C) normalised
    std: Tensor | None  # (N, T, C) of a VAE's posterior, in the same units; None: the tokens are exact
    ids: Tensor | None  # (N, T) int64 codes of a VQ-VAE; `mean` is then their embedding


@contextmanager
def exact(device: torch.device) -> Iterator[None]:
    """Full float32 whatever the caller trains in: rounding must not move a token to another code."""
    with (
        torch.autocast(device.type, enabled=False),
        torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False),
    ):
        yield


class Tokenizer(nn.Module):
    """The frame all tokenizers share; a kind fills in `analyse`, `synthesise` and, if it learns, `loss`.

    Generators are built for unit scale, so tokens leave as (raw - shift) * scale. `shift` is the mean of each channel:
    the noise that generators start from is centred, and an offset would only be one more thing to learn. `scale` is one
    number, 1 / deviation over all tokens of the fitted images: a number per channel would blow up channels that carry
    nothing. Both come from data (`set_scale`), and live in the state dict.
    """

    kind: str
    shift: Tensor
    scale: Tensor

    def __init__(self, image_size: int, factor: int, channels: int, codes: int | None = None):
        super().__init__()
        side = image_size // factor
        self.image_size = image_size
        self.grid = (side, side)
        self.tokens = side * side
        self.channels = channels
        self.codes = codes
        self.register_buffer("shift", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(()))

    # What a kind fills in, in raw units: ------------------------------------------------------------------------------

    def analyse(self, images: Tensor) -> Tokens:
        """Raw tokens of images (N, 3, P, P)."""
        raise NotImplementedError

    def synthesise(self, raw: Tensor) -> Tensor:
        """Images (N, 3, P, P), not clamped, of raw tokens (N, T, C)."""
        raise NotImplementedError

    def loss(self, images: Tensor, draws: Draws, progress: float) -> dict[str, Tensor]:
        """Named losses of one batch, of which "loss" is descended; `progress` in [0, 1) is the share of steps done."""
        raise NotImplementedError

    def measure(self, images: Tensor) -> dict[str, float]:
        """What is worth knowing about this kind once it is fitted."""
        return {}

    # What the others use: ---------------------------------------------------------------------------------------------

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tokens:
        """Tokens of images (N, 3, P, P)."""
        with exact(images.device):
            parts = in_batches(lambda chunk: self.analyse(chunk.float()), images, CHUNK)
        mean = self.normalise(torch.cat([part.mean for part in parts]))
        deviations = [part.std for part in parts if part.std is not None]
        ids = [part.ids for part in parts if part.ids is not None]
        return Tokens(mean, torch.cat(deviations) * self.scale if deviations else None, torch.cat(ids) if ids else None)

    @torch.no_grad()
    def decode(self, z: Tensor) -> Tensor:
        """Images (N, 3, P, P) in [0, 1] of normalised tokens (N, T, C), which are taken as they are: a VQ-VAE does not
        look for the nearest code again."""
        with exact(z.device):
            raw = z.float() / self.scale + self.shift
            return torch.cat(in_batches(lambda chunk: self.synthesise(chunk).clamp(0.0, 1.0), raw, CHUNK))

    def embed(self, ids: Tensor) -> Tensor:
        """Normalised tokens (..., T, C) of codes (..., T)."""
        raise UserError(f"A {self.kind} tokenizer has no codes: use a vqvae tokenizer with this generator.")

    def normalise(self, raw: Tensor) -> Tensor:
        return (raw - self.shift) * self.scale

    @torch.no_grad()
    def set_scale(self, images: Tensor) -> None:
        """Sets shift and scale so that the tokens of these images, as a generator will draw them, have mean 0 and
        deviation 1. A VAE's tokens are drawn anew from the posterior: their variance is var(mean) + mean(std^2)."""

        def sums(chunk: Tensor) -> Tensor:
            """Of tokens, of their squares, and of the posterior's variances, (3, C)."""
            raw = self.analyse(chunk.float())
            extra = torch.zeros_like(raw.mean) if raw.std is None else raw.std
            parts = (raw.mean.double(), raw.mean.double().square(), extra.double().square())
            return torch.stack([part.sum((0, 1)) for part in parts])

        nothing = torch.zeros(3, self.channels, dtype=torch.float64, device=images.device)
        with exact(images.device):
            total, squares, extra = sum(in_batches(sums, images, CHUNK), start=nothing)
        count = len(images) * self.tokens
        mean = total / count
        variance = ((squares + extra) / count - mean.square()).mean()
        if not variance > 1e-12:
            raise UserError(f"All tokens of the {self.kind} tokenizer are alike: give it different images.")
        self.shift.copy_(mean)
        self.scale.copy_(variance.rsqrt())


def to_tokens(grid: Tensor) -> Tensor:
    """(N, C, h, w) to (N, T, C)."""
    return grid.flatten(2).transpose(1, 2)


def to_grid(tokens: Tensor, grid: tuple[int, int]) -> Tensor:
    """(N, T, C) to (N, C, h, w)."""
    return tokens.transpose(1, 2).reshape(len(tokens), -1, *grid)
