"""How factor values are told to a decoder. Every code is disentangled: each factor has columns of its own.

A code is differentiable in the values, so that the geometry of a decoder can be measured in (x, y).

Shapes: B rows, F factors, N values of a factor, W columns of the code, W = sum of the factors' widths.
"""

import math
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from recombine.settings import Settings


class PopulationEncoding(Settings):
    """Column k of a factor is exp(-(k - v)^2 / (2 width sigma^2)): cells with overlapping receptive fields."""

    kind: Literal["population"] = Field(default="population", description="overlapping Gaussian cells, one per value")
    sigma: float = Field(default=1.0, gt=0, le=32, description="standard deviation of a cell, in values")
    width: float = Field(default=1.0, gt=0, le=1000, description="multiplies the variance (the published width sweep)")


class OneHotEncoding(Settings):
    """One column per value. Between whole values the two neighbours share it linearly (ours: the papers have none)."""

    kind: Literal["onehot"] = Field(default="onehot", description="one column per value")


class RampEncoding(Settings):
    """The number itself, one column per factor."""

    kind: Literal["ramp"] = Field(default="ramp", description="the raw number, one column per factor")
    scaled: bool = Field(
        default=False, description="false: 0, 1, … as published (degrees for angles); true: from -1 to 1"
    )


class AngleEncoding(Settings):
    """(cos, sin) of an angle."""

    kind: Literal["angle"] = Field(default="angle", description="cosine and sine of an angle")


AnyEncoding = PopulationEncoding | OneHotEncoding | RampEncoding | AngleEncoding
EncodingSettings = Annotated[AnyEncoding, Field(discriminator="kind")]


class Encoding:
    """Values (..., F) to codes (..., W). `sizes` says how many whole values each factor has; `circle`: the one
    factor is an angle in degrees."""

    def __init__(self, settings: AnyEncoding, sizes: tuple[int, ...], circle: bool = False):
        self.settings, self.sizes, self.circle = settings, sizes, circle
        if isinstance(settings, AngleEncoding) and not circle:
            raise ValueError("angle is a code of angles; for (x, y) use population, onehot or ramp")
        if circle and not isinstance(settings, AngleEncoding | RampEncoding):
            raise ValueError(f"{settings.kind} has a column for every value, and angles have none; use angle or ramp")

    @property
    def widths(self) -> tuple[int, ...]:
        """Columns of each factor."""
        if isinstance(self.settings, RampEncoding):
            return (1,) * len(self.sizes)
        if isinstance(self.settings, AngleEncoding):
            return (2,) * len(self.sizes)
        return self.sizes

    @property
    def width(self) -> int:
        return sum(self.widths)

    @property
    def has_none(self) -> bool:
        """Whether all columns of a factor at 0 mean "no value". In a ramp, 0 is a value."""
        return not isinstance(self.settings, RampEncoding)

    def __call__(self, values: Tensor) -> Tensor:
        parts = [self._one(values[..., factor], size) for factor, size in enumerate(self.sizes)]
        return torch.cat(parts, dim=-1)

    def only(self, values: Tensor, factor: int) -> Tensor:
        """The code (..., W) of one factor's values, with every other factor's columns at 0: of a stripe."""
        if not self.has_none:
            raise ValueError("a ramp has no code for a missing factor (0 is a value); use population or onehot")
        parts = [self._one(values[..., f], size) * (1.0 if f == factor else 0.0) for f, size in enumerate(self.sizes)]
        return torch.cat(parts, dim=-1)

    def _one(self, value: Tensor, size: int) -> Tensor:
        settings = self.settings
        if isinstance(settings, RampEncoding):
            if not settings.scaled:
                return value[..., None]
            return (2.0 * value / (360.0 if self.circle else size - 1) - 1.0)[..., None]
        if isinstance(settings, AngleEncoding):
            angle = value * (math.pi / 180.0)
            return torch.stack([torch.cos(angle), torch.sin(angle)], dim=-1)
        away = torch.arange(size, device=value.device, dtype=value.dtype) - value[..., None]
        if isinstance(settings, OneHotEncoding):
            return (1.0 - away.abs()).clamp(min=0.0)
        return torch.exp(-(away**2) / (2.0 * settings.width * settings.sigma**2))
