"""A small VQ-VAE (van den Oord et al. 2017): each token is one of K codes.

The codebook follows the encoder by exponential moving averages (their appendix A.1). Codes that nobody uses are moved
to encoder outputs that are far from every code; the codebook also starts that way, so it is initialised from data.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from recombine.nets.convs import Decoder, Encoder
from recombine.out_of_memory import in_batches
from recombine.randomness import Draws
from recombine.settings import Settings
from recombine.tokenizers.base import CHUNK, Tokenizer, Tokens, exact, to_grid, to_tokens


class VQVAESettings(Settings):
    """Size, loss, codebook and training of a VQ-VAE."""

    kind: Literal["vqvae"] = Field(
        default="vqvae", description="a small convolutional VQ-VAE: a token is one code of a learned codebook"
    )
    factor: int = Field(4, ge=1, le=64, description="pixels a side that one token stands for")
    codes: int = Field(256, ge=2, le=65536, description="size of the codebook")
    channels: int = Field(16, ge=1, le=512, description="numbers per code")
    width: int = Field(64, ge=8, le=1024, description="channels of the convolutions")
    depth: int = Field(2, ge=0, le=16, description="residual blocks in the encoder, and in the decoder")
    commitment: float = Field(
        0.25,
        ge=0.0,
        le=100.0,
        description="weight of the distance from encoder output to code. Both terms of the loss are means: squared "
        "error over images and pixel values, squared distance over tokens and channels",
    )
    decay: float = Field(0.99, ge=0.0, lt=1.0, description="of the moving averages that make the codebook")
    revive_below: float = Field(
        0.1, ge=0.0, lt=1.0, description="a code used less than this share of the average use is revived; 0: never"
    )
    revive_until: float = Field(2 / 3, ge=0.0, le=1.0, description="share of training after which no code is revived")
    steps: int = Field(2500, ge=1, le=10_000_000, description="training steps")
    batch: int = Field(16, ge=1, le=65536, description="images per step")
    rate: float = Field(1e-2, gt=0.0, le=1.0, description="peak learning rate of AdamW")
    sees: Literal["all", "train"] = Field("all", description="fitted on every composition, or on the trained ones only")


class VQVAE(Tokenizer):
    kind = "vqvae"
    codebook: Tensor  # (K, C)
    usage: Tensor  # (K,) moving average of the share of tokens that choose a code
    sums: Tensor  # (K, C) moving average of the outputs that choose a code, times their share

    def __init__(self, settings: VQVAESettings, image_size: int, colours: int):
        super().__init__(image_size, settings.factor, settings.channels, settings.codes)
        self.settings = settings
        self.encoder = Encoder(colours, settings.factor, settings.width, settings.depth, settings.channels)
        self.decoder = Decoder(colours, settings.factor, settings.width, settings.depth, settings.channels)
        self.register_buffer("codebook", torch.zeros(settings.codes, settings.channels))
        self.register_buffer("usage", torch.zeros(settings.codes))
        self.register_buffer("sums", torch.zeros(settings.codes, settings.channels))

    def distances(self, raw: Tensor) -> Tensor:
        """Squared distances (..., K) of raw tokens (..., C) to all codes, less |raw|^2, which is the same for all."""
        return self.codebook.square().sum(-1) - 2.0 * raw @ self.codebook.T

    def analyse(self, images: Tensor) -> Tokens:
        ids = self.distances(to_tokens(self.encoder(images))).argmin(-1)
        return Tokens(self.codebook[ids], None, ids)

    def synthesise(self, raw: Tensor) -> Tensor:
        return self.decoder(to_grid(raw, self.grid))

    def embed(self, ids: Tensor) -> Tensor:
        return self.normalise(self.codebook[ids])

    def loss(self, images: Tensor, draws: Draws, progress: float) -> dict[str, Tensor]:
        outputs = to_tokens(self.encoder(images))  # (B, T, C)
        flat = outputs.detach().flatten(0, 1)
        if progress == 0.0 or (self.settings.revive_below > 0.0 and progress < self.settings.revive_until):
            self.revive(flat, draws)  # at the first step every code is unused
        ids = self.distances(flat).argmin(-1)  # (B * T,)
        chosen = self.codebook[ids].view_as(outputs)
        self.follow(flat, ids)
        squared_error = F.mse_loss(self.synthesise(straight_through(outputs, chosen)), images)
        commitment = F.mse_loss(outputs, chosen)
        return {
            "loss": squared_error + self.settings.commitment * commitment,
            "squared_error": squared_error,
            "commitment": commitment,
        }

    @torch.no_grad()
    def follow(self, flat: Tensor, ids: Tensor) -> None:
        """Moves each code to the moving average of the outputs (n, C) that chose it. One-hot products rather than
        scattered additions: those are summed in no fixed order on a GPU."""
        chose = F.one_hot(ids, self.settings.codes).to(flat.dtype)  # (n, K)
        new = 1.0 - self.settings.decay
        self.usage.lerp_(chose.mean(0), new)
        self.sums.lerp_(chose.T @ flat / len(flat), new)
        self.codebook.copy_(self.sums / self.usage.clamp(min=1e-12)[:, None])

    @torch.no_grad()
    def revive(self, flat: Tensor, draws: Draws) -> None:
        """Moves every code that is used too little to one of the outputs (n, C), drawn in proportion to their squared
        distance to the nearest code and each only once (Gumbel top-k): the new codes go where they are missed. All in
        tensors: nothing is asked of the host."""
        gaps = self.distances(flat).amin(-1) + flat.square().sum(-1)
        gumbel = -torch.log(-torch.log(draws.uniform(len(flat))[0].clamp(2.0**-25, 1.0 - 2.0**-24)))
        order = (gaps.clamp(min=1e-12).log() + gumbel).topk(min(self.settings.codes, len(flat))).indices
        dead = self.usage <= self.settings.revive_below / self.settings.codes  # (K,)
        rank = (dead.long().cumsum(0) - 1).clamp(min=0) % len(order)  # the i-th dead code takes the i-th of the order
        candidates = flat[order[rank]]  # (K, C)
        fresh = torch.full_like(self.usage, 1.0 / self.settings.codes)  # average use: time to prove itself
        self.codebook.copy_(torch.where(dead[:, None], candidates, self.codebook))
        self.sums.copy_(torch.where(dead[:, None], candidates * fresh[:, None], self.sums))
        self.usage.copy_(torch.where(dead, fresh, self.usage))

    @torch.no_grad()
    def measure(self, images: Tensor) -> dict[str, float]:
        """Perplexity of the codes over these images, and the share of codes used at all."""

        def used(chunk: Tensor) -> Tensor:
            """How often each code is, (K,)."""
            ids = self.analyse(chunk.float()).ids
            assert ids is not None
            return torch.bincount(ids.flatten(), minlength=self.settings.codes)

        with exact(images.device):
            counts = torch.stack(in_batches(used, images, CHUNK)).sum(0)
        share = counts.double() / counts.sum()
        return {
            "perplexity": torch.special.entr(share).sum().exp().item(),
            "active_share": (counts > 0).double().mean().item(),
        }


def straight_through(outputs: Tensor, chosen: Tensor) -> Tensor:
    """The value of `chosen` with the gradient of `outputs`."""
    return outputs + (chosen - outputs).detach()
