"""The low-rank embedding network: every value of a factor owns a picture, and the picture is pushed to be a stripe.

Value v of factor f has an N x N matrix E = sum_k lambda_k l_k r_k^T with unit vectors l_k and r_k. The two matrices of
an image are two channels of a tiny convolutional network (98 weights). Two penalties, added once per step over all
values:

- L_ent = entropy_weight * sum over factors and values of H(p), p_k = lambda_k^2 / sum lambda^2: few terms;
- L_var = variance_weight * sum over the four vector tensors, values and terms of the unbiased variance of a vector's
  entries: constant vectors. Rank 1 with one constant side is a stripe.

`variance: raw` takes the variance of the vectors as they are stored, as published; since they are normalised before
use, shrinking them lowers it with no change in function. `variance: normalised` takes that of the unit vectors (ours).

Shapes: M members, B batch, V values of a factor, K terms, N pixels a side.
"""

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from recombine.nets.decoders.base import Decoder, PReLU
from recombine.nets.decoders.cnn import Convolution
from recombine.nets.layers import SeedStream, normal_parameter
from recombine.settings import Settings

LEAST_SHARE = 1e-8  # a share p_k is taken for at least this, so that its logarithm is finite


class LowRankSettings(Settings):
    """The low-rank embedding network and its two penalties."""

    kind: Literal["lowrank"] = Field(default="lowrank", description="each value of a factor owns a picture")
    terms: int | None = Field(default=None, ge=1, le=256, description="rank-1 terms of a picture; null: image_size")
    entropy_weight: float = Field(default=0.1, ge=0, description="of L_ent; 0: off")
    variance_weight: float = Field(default=0.01, ge=0, description="of L_var; 0: off")
    variance: Literal["raw", "normalised"] = Field(
        default="raw",
        description="of which vectors L_var is: raw as published, or the unit vectors that are used (ours)",
    )


class Pictures(nn.Module):
    """The pictures of all values of one factor."""

    def __init__(self, values: int, terms: int, side: int, seeds: SeedStream):
        super().__init__()
        # Named "weight" so that they decay, as published.
        self.lambda_weight = normal_parameter((values, terms), terms**-0.5, seeds)  # (M, V, K)
        self.left_weight = normal_parameter((values, terms, side), 1.0, seeds)  # (M, V, K, N)
        self.right_weight = normal_parameter((values, terms, side), 1.0, seeds)
        with torch.no_grad():
            for vectors in self.vectors:
                vectors.copy_(F.normalize(vectors, dim=-1))

    @property
    def vectors(self) -> tuple[Tensor, Tensor]:
        return self.left_weight, self.right_weight

    def forward(self) -> Tensor:
        """(M, V, N, N)."""
        left, right = (F.normalize(vectors, dim=-1) for vectors in self.vectors)
        return (left * self.lambda_weight[..., None]).transpose(-1, -2) @ right

    def entropy(self) -> Tensor:
        """H(p) of every value, (M, V), in nats; exp of it is the effective number of terms."""
        square = self.lambda_weight**2
        share = (square / square.sum(-1, keepdim=True)).clamp(min=LEAST_SHARE)
        return -(share * share.log()).sum(-1)

    def variance(self, normalised: bool) -> Tensor:
        """The sum of the variances of all vectors, (M,)."""
        total = torch.zeros(len(self.lambda_weight), device=self.lambda_weight.device)
        for vectors in self.vectors:
            used = F.normalize(vectors, dim=-1) if normalised else vectors
            size = used.shape[-1]  # written out: torch's own var is slow over short rows
            centred = used.square().sum((1, 2, 3)) - used.sum(-1).square().sum((1, 2)) / size
            total = total + centred / (size - 1)
        return total


class LowRank(Decoder):
    def __init__(self, settings: LowRankSettings, code_widths: tuple[int, ...], image_size: int, seeds: SeedStream):
        super().__init__(code_widths, image_size)
        self.settings = settings
        terms = settings.terms or image_size
        self.pictures = nn.ModuleList(Pictures(width, terms, image_size, seeds) for width in code_widths)
        self.layers = nn.ModuleList(Convolution(2, outputs, 3, seeds) for outputs in (2, 2, 1))
        self.bends = nn.ModuleList(PReLU(seeds) for _ in range(3))

    @staticmethod
    def check(settings: Any, code_widths: tuple[int, ...], image_size: int) -> None:
        if len(code_widths) != 2 or any(width != image_size for width in code_widths):
            raise ValueError(
                "lowrank has a picture for every value of x and of y, so it needs a code with a column for each: use "
                "encoding onehot or population"
            )

    def embeddings(self) -> list[Tensor]:
        """The pictures of x and of y, (M, V, N, N) each."""
        return [pictures() for pictures in self.pictures]

    def run(self, code: Tensor, kept: list[Tensor] | None) -> Tensor:
        members, batch = code.shape[:2]
        size = self.image_size
        parts = code.float().split(self.code_widths, dim=-1)
        # A code is a mixture of values; of a one-hot code that is the one value's picture, of no value a blank one.
        channels = [
            torch.bmm(part, pictures.flatten(2)) for part, pictures in zip(parts, self.embeddings(), strict=True)
        ]
        x = torch.stack(channels, 2).view(members, batch, 2, size, size)
        everyone = slice(0, members)
        for bend, layer in zip(self.bends, self.layers, strict=True):
            x = bend(x)
            if kept is not None:
                kept.append(x)
            y = layer(x.transpose(0, 1).reshape(batch, -1, size, size), everyone)
            x = y.view(batch, members, -1, size, size).transpose(0, 1)
        return x[:, :, 0]

    def penalty(self) -> Tensor | float:
        settings = self.settings
        total: Tensor | float = 0.0
        for pictures in self.pictures:
            assert isinstance(pictures, Pictures)
            if settings.entropy_weight:
                total = total + settings.entropy_weight * pictures.entropy().sum(-1)
            if settings.variance_weight:
                total = total + settings.variance_weight * pictures.variance(settings.variance == "normalised")
        return total
