"""Masked regression: masked tokens are predicted as plain numbers, with squared error. A control.

Continuous as MAR and GIVT are, but not stochastic: the best it can predict is the mean of a token given what is shown,
and a token once revealed is that mean. Where it does as well as they do, being continuous was what mattered; where it
does worse, drawing was. The masks are those of MaskGIT, the order of revealing is random.

Shapes: M members, B batch, T tokens, C channels of a token.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from recombine.conditioning import ConditioningSettings
from recombine.generators.base import Guided, TokenShape, guided
from recombine.generators.masked import Masked, MaskedLatents
from recombine.generators.masking import draw_mask, reveal
from recombine.nets.backbone import Dimensions
from recombine.nets.layers import Linear, SeedStream, normal_parameter
from recombine.randomness import Draws
from recombine.settings import Settings
from recombine.worlds.base import Factor


class RegressionSettings(Settings):
    """Masked prediction of continuous tokens without randomness."""

    kind: Literal["regression"] = Field(
        default="regression", description="masked prediction of latents by squared error: continuous, not stochastic"
    )
    sampling_steps: int = Field(default=12, ge=1, le=1000, description="iterations of the decoder, in random order")
    guidance: float = Field(default=0.0, ge=0, description="extra weight w in c + w (c - u) on the tokens; 0 is off")
    guided: Guided = "together"


class Regression(MaskedLatents):
    def __init__(
        self,
        settings: RegressionSettings,
        shape: TokenShape,
        conditioning: ConditioningSettings,
        factors: Sequence[Factor],
        dimensions: Dimensions,
        seeds: SeedStream,
    ):
        super().__init__(shape, conditioning, factors, dimensions, seeds, outputs=shape.channels)
        self.settings = settings
        self.inputs = Linear(shape.channels, dimensions.width, seeds)
        self.blank = normal_parameter((dimensions.width,), 0.3, seeds)  # as MaskGIT's: the scale of an embedded token

    def predict(self, x: Tensor, hidden: Tensor, cond: Tensor, dropped: Tensor | None = None) -> Tensor:
        """The mean of each token, (M, B, T, C), given those of x that are not `hidden` (M, B, T)."""
        return self.backbone(self.embed(x, hidden), self.told(cond, dropped, None))

    def mask(self, batch: int, draws: Draws) -> Masked:
        return Masked(draw_mask(draws, batch, self.shape.tokens))

    def score(self, outputs: Tensor, x: Tensor, masked: Masked, draws: Draws) -> Tensor:
        error = (outputs - x).square().mean(-1)  # (M, B, T)
        # Mean per example first, then over the batch, as MaskGIT's.
        return ((error * masked.hidden).sum(-1) / masked.hidden.sum(-1)).mean(-1)

    @torch.no_grad()
    def sample(self, cond: Tensor, draws: Draws, guidance: float = 0.0) -> Tensor:
        """Chance decides the order alone."""
        unknown = torch.ones(*cond.shape[:2], self.shape.tokens, dtype=torch.bool, device=cond.device)
        order = draws.uniform(*unknown.shape[1:])
        untold = self.untold(cond, guidance, self.settings.guided)

        def draw(x: Tensor, unknown: Tensor) -> tuple[Tensor, Tensor]:
            told = guided(lambda dropped: self.predict(x, unknown, cond, dropped), guidance, untold)
            return told, order

        start = torch.zeros(*unknown.shape, self.shape.channels, device=cond.device)
        return reveal(draw, start, unknown, draws, self.settings.sampling_steps)
