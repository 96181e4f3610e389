"""MaskGIT: masked tokens are predicted as categories and revealed in order of confidence (Chang et al. 2022)."""

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from recombine.conditioning import ConditioningSettings
from recombine.generators.base import Generator, TokenShape, guided
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
        def logits(ids: Tensor) -> Tensor:
            return guided(lambda dropped: self.logits(ids, cond, dropped), guidance, cond, self.factors)

        start = torch.full((*cond.shape[:2], self.shape.tokens), self.mask_id, device=cond.device)
        return decode(
            logits, start, self.mask_id, draws, self.settings.sampling_steps, self.settings.choice_temperature
        )


def mask_ratio(u: Tensor) -> Tensor:
    """The cosine law: ratio = cos(pi u / 2) of u ~ U(0, 1), mean 2 / pi. (Its density is what Muse calls "arccos".)"""
    return torch.cos(u * (math.pi / 2))


def draw_mask(draws: Draws, batch: int, tokens: int) -> Tensor:
    """(M, B, T) bool: exactly ceil(ratio * T) tokens hidden, at least one, at positions chosen at random."""
    hidden = torch.ceil(mask_ratio(draws.uniform(batch, 1)) * tokens).clamp(min=1)
    rank = draws.uniform(batch, tokens).argsort(-1).argsort(-1)
    return rank < hidden


def decode(
    logits: Callable[[Tensor], Tensor], ids: Tensor, mask_id: int, draws: Draws, steps: int, choice_temperature: float
) -> Tensor:
    """Fill the masked tokens of ids (M, B, T) in `steps` iterations; tokens that are known at the start never change.

    Iteration k, r = (k + 1) / steps: draw every unknown token at temperature 1; hide again the floor(N0 cos(pi r / 2))
    of least confidence (log-probability + choice_temperature (1 - r) Gumbel noise), at least 1 and at most all unknown
    but one. The last iteration's draw is the answer.
    """
    unknown_at_start = (ids == mask_id).sum(-1, keepdim=True)  # N0, (M, B, 1)
    sampled = ids
    for k in range(steps):
        ratio = (k + 1) / steps
        unknown = ids == mask_id
        log_probability = torch.log_softmax(logits(ids), dim=-1)
        drawn = draw_categories(log_probability, draws)
        sampled = torch.where(unknown, drawn, ids)
        if k == steps - 1:
            break
        noise = draws.uniform(*ids.shape[1:]) + 2.0**-25  # never 0
        gumbel = -torch.log(-torch.log(noise))
        confidence = log_probability.gather(-1, sampled.clamp(max=mask_id - 1)[..., None])[..., 0]
        confidence = confidence + choice_temperature * (1 - ratio) * gumbel
        confidence = confidence.masked_fill(~unknown, math.inf)
        share = min(max(math.cos(math.pi / 2 * ratio), 1e-6), 1.0)
        count = torch.floor(unknown_at_start * share).long()
        count = torch.minimum(count.clamp(min=1), unknown.sum(-1, keepdim=True) - 1).clamp(min=0)
        threshold = confidence.sort(-1).values.gather(-1, count)
        ids = torch.where(confidence < threshold, mask_id, sampled)
    return sampled


def draw_categories(log_probability: Tensor, draws: Draws) -> Tensor:
    """One category per position of (M, B, T, K) by inverting the cumulative distribution: (M, B, T) int64."""
    cumulative = log_probability.exp().cumsum(-1)
    level = draws.uniform(*log_probability.shape[1:-1])[..., None] * cumulative[..., -1:]
    return (cumulative <= level).sum(-1).clamp(max=log_probability.shape[-1] - 1)
