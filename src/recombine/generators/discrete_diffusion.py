"""Absorbing discrete diffusion in the form of MDLM (Sahoo et al. 2024): a masked model trained on a true bound.

Time runs from data (t = 0) to all masked (t = 1). With the log-linear schedule a token is still itself at time t with
probability alpha_t = 1 - t, each by itself. The continuous-time bound on -log p(x) is then the integral over t of the
cross-entropy of the masked tokens times 1 / t. Against MaskGIT this changes the law of the masks, the weight of an
image in the loss and the decoder, in which chance, never confidence, says which token comes next.

Two facts are built in and not learned: known tokens are copied, and the mask is never predicted (it has no logit).
The network is not told t by default: the masked share is in its input, and the best prediction of a masked token
depends on the known tokens alone, whatever t hid the others.

Shapes: M members, B batch, T tokens, K codes.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from recombine.conditioning import ConditioningSettings, Dropped
from recombine.generators.base import Guided, TokenShape, guided
from recombine.generators.masked import Masked, MaskedCodes
from recombine.generators.masking import draw_categories
from recombine.nets.backbone import Dimensions, TimeEmbedding
from recombine.nets.layers import SeedStream, Table
from recombine.randomness import Draws
from recombine.settings import Settings
from recombine.worlds.base import Factor

# The weight 1 / t needs a floor. Leaving out t below it changes the bound by at most this share of a token's entropy.
SMALLEST_TIME = 1e-3

# (tokens (M, B, T) with masks, time (M, B)) -> scores (M, B, T, K)
Predict = Callable[[Tensor, Tensor], Tensor]


class DiscreteDiffusionSettings(Settings):
    """Diffusion by masking, with the weights of the likelihood bound."""

    kind: Literal["discrete_diffusion"] = Field(
        default="discrete_diffusion",
        description="absorbing discrete diffusion (MDLM): masked codes, revealed at random; needs tokenizer vqvae",
    )
    time_conditioning: bool = Field(
        default=False, description="whether the network is told the time, though it can count the masks"
    )
    # As many passes through the network as DiT. Tokens revealed at one step are drawn independently, and two tokens
    # meet in a step with chance 1 / steps, however many tokens there are.
    sampling_steps: int = Field(default=50, ge=1, le=1000, description="ancestral steps from all masked to data")
    guidance: float = Field(default=0.0, ge=0, description="extra weight w in c + w (c - u) on the logits; 0 is off")
    guided: Guided = "together"


class DiscreteDiffusion(MaskedCodes):
    def __init__(
        self,
        settings: DiscreteDiffusionSettings,
        shape: TokenShape,
        conditioning: ConditioningSettings,
        factors: Sequence[Factor],
        dimensions: Dimensions,
        seeds: SeedStream,
    ):
        assert shape.codes is not None, "discrete diffusion needs a tokenizer with a codebook"
        super().__init__(shape, conditioning, factors, dimensions, seeds, outputs=shape.codes)
        self.settings = settings
        self.mask_id = shape.codes  # one row past the codes
        self.inputs = Table(shape.codes + 1, dimensions.width, seeds, std=0.3)  # as MaskGIT
        self.time = TimeEmbedding(dimensions.width, seeds) if settings.time_conditioning else None

    def logits(self, ids: Tensor, t: Tensor, cond: Tensor, dropped: Tensor | None = None) -> Tensor:
        """Scores of the codes, (M, B, T, K), for tokens (M, B, T) of which some are the mask, at time t (M, B)."""
        return self.backbone(self.embed(ids, None), self.told(cond, dropped, Masked(ids == self.mask_id, time=t)))

    def mask(self, batch: int, draws: Draws) -> Masked:
        t = draw_times(draws, batch)
        return Masked(draws.uniform(batch, self.shape.tokens) < t[..., None], time=t)

    def told(self, cond: Tensor, dropped: Dropped | None, masked: Masked | None) -> Tensor:
        c = super().told(cond, dropped, masked)
        if self.time is None:
            return c
        if masked is None:  # all tokens shown: the time of clean data
            t = torch.zeros(cond.shape[:2], device=cond.device)
        else:
            t = masked.time if masked.time is not None else masked.hidden.float().mean(-1)
        return c + self.time(t, self.dtype)

    def score(self, outputs: Tensor, x: Tensor, masked: Masked, draws: Draws) -> Tensor:
        """An unbiased estimate of the bound on -log p(x), in nats per token."""
        assert masked.time is not None
        entropy = F.cross_entropy(outputs.flatten(0, 2), x.flatten(), reduction="none").view(x.shape)
        return (entropy * masked.hidden / masked.time[..., None]).mean(dim=(1, 2))

    @torch.no_grad()
    def monitors(self, x: Tensor, cond: Tensor, draws: Draws) -> dict[str, Tensor]:
        """An estimate of the bound on the negative log-likelihood of fresh images, all factors told, in nats per
        token."""
        masked = self.mask(x.shape[1], draws)
        outputs = self.backbone(self.embed(x, masked.hidden), self.told(cond, None, masked))
        return {"held_out_nll": self.score(outputs, x, masked, draws)}

    @torch.no_grad()
    def sample(self, cond: Tensor, draws: Draws, guidance: float = 0.0) -> Tensor:
        untold = self.untold(cond, guidance, self.settings.guided)

        def predict(ids: Tensor, t: Tensor) -> Tensor:
            return guided(lambda dropped: self.logits(ids, t, cond, dropped), guidance, untold)

        start = torch.full((*cond.shape[:2], self.shape.tokens), self.mask_id, device=cond.device)
        return sample_ancestral(predict, start, self.mask_id, draws, self.settings.sampling_steps)


def draw_times(draws: Draws, batch: int) -> Tensor:
    """Times (M, B): one uniform per member, moved on by 1 / B from image to image (as Kingma et al. 2021).

    Each is uniform on [SMALLEST_TIME, 1] by itself, so the loss stays unbiased; together they are spread evenly, so no
    batch is all lightly or all heavily masked and the loss varies less.
    """
    first = draws.uniform(1)  # (M, 1)
    share = (first + torch.arange(batch, device=first.device) / batch) % 1
    return SMALLEST_TIME + (1 - SMALLEST_TIME) * share


def sample_ancestral(predict: Predict, ids: Tensor, mask_id: int, draws: Draws, steps: int) -> Tensor:
    """Fill the masked tokens of ids (M, B, T) in `steps` even steps; tokens known at the start never change.

    From time t to s = t - 1 / steps each masked token is revealed with probability (t - s) / t, by itself, and drawn
    from the prediction; the last step, at t = 1 / steps, reveals all that are left.
    """
    for left in range(steps, 0, -1):
        t = torch.full(ids.shape[:2], left / steps, device=ids.device)
        drawn = draw_categories(torch.log_softmax(predict(ids, t), dim=-1), draws)
        revealed = (ids == mask_id) & (draws.uniform(*ids.shape[1:]) < 1 / left)  # (t - s) / t = 1 / left
        ids = torch.where(revealed, drawn, ids)
    return ids
