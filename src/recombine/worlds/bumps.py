"""One Gaussian bump on an N x N image, at (x, y): the world of the forced-rendering study.

x is the column and y the row of the bump's centre, in pixels: centre (3, 5) peaks exactly in column 3 of row 5. A bump
near the border is cut. y points down.

Shapes: B images, P = N pixels a side. Values are (x, y).
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from recombine.settings import Settings
from recombine.worlds.base import Factor, World

FACTORS = ("x", "y")


class BumpsSettings(Settings):
    """The image of one bump."""

    kind: Literal["bumps"] = Field(default="bumps", description="one Gaussian bump at (x, y)")
    image_size: int = Field(default=28, ge=8, le=128, description="pixels a side, and values of x and of y")
    sigma: float = Field(default=1.0, gt=0, le=16, description="standard deviation of the bump, in pixels")
    polarity: Literal["dark", "bright"] = Field(
        default="dark", description="dark: from 1 (background) down to 0; bright: from 0 up to 1"
    )
    form: Literal["bump", "stripes"] = Field(
        default="bump",
        description="bump: the product of a stripe at x and one at y; stripes: their mean, so that each is seen",
    )
    centres: Literal["integer", "continuous"] = Field(
        default="integer",
        description="of training images; continuous: anywhere within half a pixel of a trained whole (x, y)",
    )


class Bumps(World):
    """The renderer. A composition is a pair of whole numbers (x, y); N x N of them make the plane."""

    name = "bumps"
    value_names = FACTORS
    channels = 1

    def __init__(self, settings: BumpsSettings):
        self.settings = settings
        self.image_size = settings.image_size
        self.jitters = 2 if settings.centres == "continuous" else 0
        names = tuple(str(value) for value in range(settings.image_size))
        self.factors = tuple(Factor(name, names, 1) for name in FACTORS)

    @property
    def background(self) -> float:
        """What a blank image holds."""
        return 1.0 if self.settings.polarity == "dark" else 0.0

    def draw(self, labels: Tensor, uniforms: Tensor) -> Tensor:
        values = self.canonical(labels)
        return values + uniforms.to(values) - 0.5 if self.jitters else values

    def canonical(self, labels: Tensor) -> Tensor:
        return labels.float()

    def profile(self, centre: Tensor) -> Tensor:
        """The stripe at `centre` (B,), along the axis it depends on, (B, P): exp(-(j - c)^2 / (2 sigma^2))."""
        pixel = torch.arange(self.image_size, device=centre.device, dtype=centre.dtype)
        return torch.exp(-((pixel - centre[:, None]) ** 2) / (2.0 * self.settings.sigma**2))

    def ink(self, x: Tensor, y: Tensor) -> Tensor:
        """How much is drawn, before the polarity, (B, P, P) with rows y and columns x."""
        column, row = self.profile(x)[:, None, :], self.profile(y)[:, :, None]
        return row * column if self.settings.form == "bump" else (row + column) / 2.0

    def _coloured(self, ink: Tensor) -> Tensor:
        return 1.0 - ink if self.settings.polarity == "dark" else ink

    def render(self, values: Tensor) -> Tensor:
        """(B, 1, P, P) in [0, 1]."""
        return self._coloured(self.ink(values[:, 0], values[:, 1]))[:, None]

    def stripe(self, values: Tensor, factor: int) -> Tensor:
        """Images (B, 1, P, P) of one factor alone: a full vertical stripe at x (factor 0), a horizontal one at y (1).

        The curated data of the study; the published formula is not known, this one is ours. It is the bump without the
        other factor, so a stripe is as dark as a bump.
        """
        line = self.profile(values[:, factor])
        flat = torch.ones_like(line)
        return self._coloured(line[:, None, :] * flat[:, :, None] if factor == 0 else line[:, :, None] * flat[:, None])[
            :, None
        ]

    def describe(self, values: Tensor) -> list[Tensor]:
        scaled = 2.0 * values / (self.image_size - 1) - 1.0
        return [scaled[:, :1], scaled[:, 1:]]

    def classify(self, values: Tensor, slack: float = 0.0) -> Tensor:
        """The whole (x, y) within half a pixel, -1 off the image; ties go up."""
        whole = torch.floor(values + 0.5)
        near = (values - whole).abs() <= 0.5 * (1.0 + slack)
        return torch.where(near & (whole >= 0) & (whole < self.image_size), whole, -1.0).long()
