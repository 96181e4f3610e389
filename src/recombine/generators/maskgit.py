"""MaskGIT: masked tokens are predicted as categories and revealed in order of confidence (Chang et al. 2022).

Two options are controls. Soft targets tell the loss which codes are alike, as a squared error would. Halton order
(Besnier et al. 2025) changes the decoder alone: which tokens come next no longer depends on what was drawn.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from recombine.conditioning import ConditioningSettings
from recombine.generators.base import Guided, TokenShape, guided
from recombine.generators.halton import halton_rank
from recombine.generators.masked import Masked, MaskedCodes
from recombine.generators.masking import MaskLaw, draw_categories, draw_mask, reveal
from recombine.nets.backbone import Dimensions
from recombine.nets.layers import SeedStream, Table
from recombine.randomness import Draws
from recombine.settings import Settings
from recombine.worlds.base import Factor


class MaskGITSettings(Settings):
    """Masked prediction of categories."""

    needs = {
        "softness": ("targets", "soft"),
        "choice_temperature": ("order", "confidence"),
        "roll": ("order", "halton"),
    }

    kind: Literal["maskgit"] = Field(
        default="maskgit",
        description="masked prediction of codes, revealed in order of confidence; needs tokenizer vqvae",
    )
    mask_law: MaskLaw = Field(
        default="cosine",
        description="how the hidden share falls, in training and in decoding: cos(pi r / 2), or arccos(r) / (pi / 2)",
    )
    loss_on: Literal["masked", "all"] = Field(default="masked", description="tokens that the loss counts")
    smoothing: float = Field(default=0.0, ge=0, lt=1, description="label smoothing; the original uses 0.1")
    targets: Literal["hard", "soft"] = Field(
        default="hard", description="what is predicted: the code, or a distribution over codes that are close to it"
    )
    # 0.33 leaves the true code 0.9 to 0.95 of the mass on Gaussian codebooks of 64 to 1024 codes in 4 to 16 channels:
    # about what smoothing 0.1 leaves it, but the rest goes to neighbours.
    softness: float = Field(
        default=0.33,
        gt=0,
        description="soft targets only: width of the target, in mean distances from a code to its nearest",
    )
    sampling_steps: int = Field(default=12, ge=1, le=1000, description="iterations of the decoder")
    order: Literal["confidence", "halton"] = Field(
        default="confidence", description="which tokens are revealed first: the surest, or spread by a fixed sequence"
    )
    choice_temperature: float = Field(
        default=4.5, ge=0, description="order confidence only: noise in the choice of positions, falling to 0"
    )
    roll: bool = Field(
        default=False, description="order halton only: each image begins at a random place of the sequence"
    )
    guidance: float = Field(default=0.0, ge=0, description="extra weight w in c + w (c - u) on the logits; 0 is off")
    guided: Guided = "together"


class MaskGIT(MaskedCodes):
    softened: Tensor | None  # soft targets only, (K, K): row i is the target of code i; see use_codebook
    rank: Tensor  # order halton only, (T,): when each token's turn comes

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
        self.register_buffer("softened", None, persistent=False)
        if settings.order == "halton":
            self.register_buffer("rank", halton_rank(shape.grid), persistent=False)

    def use_codebook(self, codebook: Tensor) -> None:
        """Tell where the codes lie, (K, C), in any unit. Soft targets need it before the first loss; hard ones do
        not."""
        if len(codebook) != self.mask_id:
            raise ValueError(f"the codebook has {len(codebook)} codes, the model {self.mask_id}")
        if self.settings.targets == "soft":
            device = next(self.parameters()).device
            self.softened = soft_targets(codebook, self.settings.softness).to(device)

    def logits(self, ids: Tensor, cond: Tensor, dropped: Tensor | None = None) -> Tensor:
        """Scores of the codes, (M, B, T, K), for tokens (M, B, T) of which some are the mask."""
        return self.backbone(self.embed(ids, None), self.told(cond, dropped, None))

    def mask(self, batch: int, draws: Draws) -> Masked:
        return Masked(draw_mask(draws, batch, self.shape.tokens, self.settings.mask_law))

    def score(self, outputs: Tensor, x: Tensor, masked: Masked, draws: Draws) -> Tensor:
        target = x.flatten()
        if self.settings.targets == "soft":
            if self.softened is None:
                raise ValueError("soft targets follow from the codebook: call use_codebook before training")
            target = self.softened[target]
        entropy = F.cross_entropy(
            outputs.flatten(0, 2), target, reduction="none", label_smoothing=self.settings.smoothing
        ).view(x.shape)
        counted = torch.ones_like(masked.hidden) if self.settings.loss_on == "all" else masked.hidden
        # Mean per example first, then over the batch: a lightly masked image counts as much as a heavily masked one.
        return ((entropy * counted).sum(-1) / counted.sum(-1)).mean(-1)

    @torch.no_grad()
    def sample(self, cond: Tensor, draws: Draws, guidance: float = 0.0) -> Tensor:
        unknown = torch.ones(*cond.shape[:2], self.shape.tokens, dtype=torch.bool, device=cond.device)
        turn, choice_temperature = None, self.settings.choice_temperature
        if self.settings.order == "halton":
            turn, choice_temperature = self._turn(unknown, draws), 0.0
        untold = self.untold(cond, guidance, self.settings.guided)

        def draw(ids: Tensor, unknown: Tensor) -> tuple[Tensor, Tensor]:
            hidden = ids.masked_fill(unknown, self.mask_id)
            logits = guided(lambda dropped: self.logits(hidden, cond, dropped), guidance, untold)
            log_probability = torch.log_softmax(logits, dim=-1)
            drawn = draw_categories(log_probability, draws)
            confidence = log_probability.gather(-1, drawn[..., None])[..., 0] if turn is None else -turn
            return drawn, confidence

        start = torch.full(unknown.shape, self.mask_id, device=cond.device)
        steps, law = self.settings.sampling_steps, self.settings.mask_law
        return reveal(draw, start, unknown, draws, steps, choice_temperature, law)

    def _turn(self, unknown: Tensor, draws: Draws) -> Tensor:
        """When each token's turn comes in Halton order, (M, B, T) float."""
        turn = self.rank.expand(unknown.shape)
        if self.settings.roll:
            turn = (turn + draws.integers(self.shape.tokens, unknown.shape[1], 1)) % self.shape.tokens
        return turn.float()


def soft_targets(codebook: Tensor, softness: float) -> Tensor:
    """(K, K) float32, row i proportional to exp(-|e_i - e_j|^2 / (2 s^2)): s is `softness` times the mean distance from
    a code to its nearest other, so that the same softness means the same for every codebook."""
    codes = codebook.detach().cpu().double()  # exact: some distances are tiny beside the norms
    distance = torch.cdist(codes, codes, compute_mode="donot_use_mm_for_euclid_dist")
    others = distance + torch.diag(torch.full((len(codes),), torch.inf, dtype=torch.float64))
    width = softness * others.min(-1).values.mean().clamp(min=1e-12)
    return torch.softmax(-0.5 * (distance / width).square(), dim=-1).float()
