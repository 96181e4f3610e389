"""MaskGIT: masked tokens are predicted as categories and revealed in order of confidence (Chang et al. 2022)."""

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from recombine.conditioning import ConditioningSettings
from recombine.generators.base import Generator, TokenShape, guided
from recombine.generators.masking import draw_categories, draw_mask, reveal
from recombine.nets.backbone import Dimensions
from recombine.nets.layers import SeedStream, Table
from recombine.randomness import Draws
from recombine.settings import Settings
from recombine.worlds.base import Factor


class MaskGITSettings(Settings):
    """Masked prediction of categories."""

    kind: Literal["maskgit"] = Field(
        default="maskgit",
        description="masked prediction of codes, revealed in order of confidence; needs tokenizer vqvae",
    )
    loss_on: Literal["masked", "all"] = Field(default="masked", description="tokens that the loss counts")
    smoothing: float = Field(default=0.0, ge=0, lt=1, description="label smoothing; the original uses 0.1")
    sampling_steps: int = Field(default=12, ge=1, description="iterations of the decoder")
    choice_temperature: float = Field(default=4.5, ge=0, description="noise in the choice of positions, falling to 0")
    guidance: float = Field(default=0.0, ge=0, description="extra weight w in c + w (c - u) on the logits; 0 is off")


class MaskGIT(Generator):
    takes = "ids"

    def __init__(
        self,
        settings: MaskGITSettings,
        shape: TokenShape,
        conditioning: ConditioningSettings,
        factors: Sequence[Factor],
        dimensions: Dimensions,
        seeds: SeedStream,
    ):
        assert shape.codes is not None, "MaskGIT needs a tokenizer with a codebook"
        super().__init__(shape, conditioning, factors, dimensions, seeds, outputs=shape.codes)
        self.settings = settings
        self.mask_id = shape.codes  # one row past the codes
        # std 0.3: about what a linear map of unit-variance latents gives a continuous generator, beside positions of
        # 0.7
        self.inputs = Table(shape.codes + 1, dimensions.width, seeds, std=0.3)

    def logits(self, ids: Tensor, cond: Tensor, dropped: Tensor | None = None) -> Tensor:
        """Scores of the codes, (M, B, T, K), for tokens (M, B, T) of which some are the mask."""
        c = self.condition(cond.to(self.dtype), dropped)
        return self.backbone(self.inputs(ids).to(self.dtype), c).float()

    def loss(self, x: Tensor, cond: Tensor, draws: Draws) -> Tensor:
        masked = draw_mask(draws, x.shape[1], x.shape[2])
        logits = self.logits(x.masked_fill(masked, self.mask_id), cond, self.dropped(x.shape[1], draws))
        entropy = F.cross_entropy(
            logits.flatten(0, 2), x.flatten(), reduction="none", label_smoothing=self.settings.smoothing
        ).view(x.shape)
        counted = torch.ones_like(masked) if self.settings.loss_on == "all" else masked
        # Mean per example first, then over the batch: a lightly masked image counts as much as a heavily masked one.
        return ((entropy * counted).sum(-1) / counted.sum(-1)).mean(-1)

    @torch.no_grad()
    def sample(self, cond: Tensor, draws: Draws, guidance: float = 0.0) -> Tensor:
        def draw(ids: Tensor, unknown: Tensor, _revealed: float) -> tuple[Tensor, Tensor]:
            hidden = ids.masked_fill(unknown, self.mask_id)
            logits = guided(lambda dropped: self.logits(hidden, cond, dropped), guidance, cond, self.factors)
            log_probability = torch.log_softmax(logits, dim=-1)
            drawn = draw_categories(log_probability, draws)
            return drawn, log_probability.gather(-1, drawn[..., None])[..., 0]

        unknown = torch.ones(*cond.shape[:2], self.shape.tokens, dtype=torch.bool, device=cond.device)
        start = torch.full(unknown.shape, self.mask_id, device=cond.device)
        return reveal(draw, start, unknown, draws, self.settings.sampling_steps, self.settings.choice_temperature)
