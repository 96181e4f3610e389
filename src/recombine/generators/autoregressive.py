"""Autoregressive: each code is predicted from those before it, in rows from the top left.

The discrete control without masks. It has an exact likelihood, no choice of order and no parallel draws, so what
MaskGIT loses to its decoder can be told from what it loses to categories. The input at a place is the code before it
(a learned vector at the first place) with the position of the code to be predicted.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from recombine.conditioning import ConditioningSettings, Dropped
from recombine.generators.base import Generator, Guided, TokenShape, pushed
from recombine.generators.masking import draw_categories
from recombine.nets.backbone import Dimensions
from recombine.nets.layers import SeedStream, Table, normal_parameter
from recombine.randomness import Draws
from recombine.settings import Settings
from recombine.worlds.base import Factor


class AutoregressiveSettings(Settings):
    """Prediction of the next category. There are no sampling steps to choose: it takes one for each token."""

    kind: Literal["autoregressive"] = Field(
        default="autoregressive",
        description="each code is predicted from those before it, row by row; needs tokenizer vqvae",
    )
    temperature: float = Field(
        default=1.0, gt=0, description="the logits are divided by it when codes are drawn; below 1 is sharper"
    )
    guidance: float = Field(default=0.0, ge=0, description="extra weight w in c + w (c - u) on the logits; 0 is off")
    guided: Guided = "together"


class Autoregressive(Generator):
    takes = "ids"

    def __init__(
        self,
        settings: AutoregressiveSettings,
        shape: TokenShape,
        conditioning: ConditioningSettings,
        factors: Sequence[Factor],
        dimensions: Dimensions,
        seeds: SeedStream,
    ):
        assert shape.codes is not None, "an autoregressive model needs a tokenizer with a codebook"
        super().__init__(shape, conditioning, factors, dimensions, seeds, outputs=shape.codes)
        self.settings = settings
        self.inputs = Table(shape.codes, dimensions.width, seeds, std=0.3)  # as MaskGIT
        self.start = normal_parameter((dimensions.width,), 0.3, seeds)  # (M, D): stands before the first code

    def logits(self, ids: Tensor, cond: Tensor, dropped: Dropped | None = None) -> Tensor:
        """Scores of the codes, (M, B, T, K); those at a place depend on the codes before it alone."""
        before = torch.cat([self._first(ids.shape[1]), self.inputs(ids[..., :-1])], dim=2)
        c = self.condition(cond.to(self.dtype), dropped)
        return self.backbone(before.to(self.dtype), c, causal=True).float()

    def log_likelihood(self, x: Tensor, cond: Tensor, dropped: Dropped | None = None) -> Tensor:
        """Exact log-probability of whole images of codes, (M, B), in nats."""
        logits = self.logits(x, cond, dropped)
        return -F.cross_entropy(logits.flatten(0, 2), x.flatten(), reduction="none").view(x.shape).sum(-1)

    def loss(self, x: Tensor, cond: Tensor, draws: Draws) -> Tensor:
        """Nats per token."""
        dropped, guessing = self.withhold(x, cond, draws)
        return -self.log_likelihood(x, cond, dropped).mean(-1) / self.shape.tokens + guessing

    @torch.no_grad()
    def monitors(self, x: Tensor, cond: Tensor, draws: Draws) -> dict[str, Tensor]:
        """Negative log-likelihood of fresh images, all factors told, in nats per token."""
        return {"held_out_nll": -self.log_likelihood(x, cond).mean(-1) / self.shape.tokens}

    @torch.no_grad()
    def sample(self, cond: Tensor, draws: Draws, guidance: float = 0.0) -> Tensor:
        # What is told, and what attention remembers of the codes so far, of every pass: all factors told comes first.
        untold = self.untold(cond, guidance, self.settings.guided)
        passes = [
            (self.condition(cond.to(self.dtype), dropped), self.backbone.new_cache()) for dropped in (None, *untold)
        ]
        embedded, drawn = self._first(cond.shape[1]), []
        for place in range(self.shape.tokens):
            before = embedded.to(self.dtype)
            told, *others = (self.backbone.next_token(before, c, place, cache).float() for c, cache in passes)
            logits = pushed(told, others, guidance) / self.settings.temperature
            drawn.append(draw_categories(torch.log_softmax(logits, dim=-1), draws))  # (M, B, 1)
            embedded = self.inputs(drawn[-1])
        return torch.cat(drawn, dim=-1)

    def _first(self, batch: int) -> Tensor:
        return self.start[:, None, None].expand(-1, batch, 1, -1)
