"""GIVT: continuous tokens predicted as mixtures of Gaussians, masked or causal (Tschannen et al. 2024).

Shapes: M members, B batch, T tokens, C channels of a token, W condition columns, D width.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from recombine.conditioning import ConditioningSettings, Dropped
from recombine.generators.base import Guided, TokenShape
from recombine.generators.masked import Masked, MaskedLatents
from recombine.generators.masking import cosine_ratio, draw_mask, hide, reveal
from recombine.generators.mixture import Mixture, mixture_outputs
from recombine.nets.backbone import Dimensions
from recombine.nets.layers import Linear, SeedStream, normal_parameter
from recombine.randomness import Draws
from recombine.settings import Settings
from recombine.worlds.base import Factor


class GIVTSettings(Settings):
    """Masked or causal prediction of mixtures of Gaussians."""

    needs = {word: ("style", "masked") for word in ("ratio", "choice_temperature")}

    kind: Literal["givt"] = Field(default="givt", description="continuous tokens predicted as mixtures of Gaussians")
    style: Literal["masked", "causal"] = Field(
        default="masked", description="hidden tokens from those shown, or each token from those before it"
    )
    components: int = Field(default=16, ge=1, le=1024, description="Gaussians in the mixture of a token")
    parting: float = Field(
        default=0.1,
        ge=0,
        description="how far apart the learned factors start by which components that begin equal learn differently; "
        "0 (as published) has none and leaves the parting to rounding errors",
    )
    scale_floor: float = Field(
        default=1e-3,
        gt=0,
        lt=1,
        description="least scale of a Gaussian, in units of the latents: without one the loss of (nearly) constant "
        "tokens falls without bound; the original has 1e-6",
    )
    ratio: Literal["cosine", "published"] = Field(
        default="cosine",
        description="masked only: share hidden, cos(pi u / 2) of u ~ U(0, 1) as in maskgit or of u ~ U(0, 0.7)",
    )
    sampling_steps: int = Field(
        default=12,
        ge=1,
        le=1000,
        description="masked only: iterations of the decoder; causal takes one step per token",
    )
    choice_temperature: float = Field(
        default=35.0,
        ge=0,
        description="masked only: noise in the choice of positions, falling to 0; log-densities span more than the "
        "log-probabilities of maskgit",
    )
    temperature: float = Field(default=1.0, ge=0, description="factor on the scales of what is drawn; published: 0.95")
    guidance: float = Field(default=0.0, ge=0, description="extra weight w in p_c^(1 + w) p_u^(-w); 0 is off")
    guided: Guided = "together"


class GIVT(MaskedLatents):
    def __init__(
        self,
        settings: GIVTSettings,
        shape: TokenShape,
        conditioning: ConditioningSettings,
        factors: Sequence[Factor],
        dimensions: Dimensions,
        seeds: SeedStream,
    ):
        outputs = mixture_outputs(settings.components, shape.channels)
        super().__init__(shape, conditioning, factors, dimensions, seeds, outputs)
        self.settings = settings
        self.masks = settings.style == "masked"
        self.inputs = Linear(shape.channels, dimensions.width, seeds)
        # What stands where no token is known: in place of a hidden one (masked), before the first one (causal). std
        # 0.3: about what `inputs` gives for latents of unit variance.
        self.blank = normal_parameter((dimensions.width,), 0.3, seeds)
        # The head starts at 0: equal weights, mean 0 and scale 1 exactly. But equal components get equal gradients, and
        # then it is rounding that tells them apart: on each machine, and with each number of members, in another way.
        # These factors on means and scales change nothing at the start, and let the seed decide.
        self.gain: nn.Parameter | None = None
        if settings.components > 1 and settings.parting > 0:
            self.gain = normal_parameter((settings.components, 2, shape.channels), settings.parting, seeds)

    def predict(self, x: Tensor, unknown: Tensor | None, cond: Tensor, dropped: Dropped | None = None) -> Mixture:
        """The mixture of every token of x (M, B, T, C).

        Masked: from the tokens that are not `unknown` (M, B, T). Causal: `unknown` is None, from those before it.
        """
        embedded = self.embed(x, unknown)
        if unknown is None:
            start = self.blank[:, None, None].to(self.dtype).expand(-1, embedded.shape[1], -1, -1)
            embedded = torch.cat([start, embedded[:, :, :-1]], dim=2)  # shifted right: no token sees itself
        return self.mixture(self.backbone(embedded, self.told(cond, dropped, None), causal=unknown is None))

    def mixture(self, outputs: Tensor) -> Mixture:
        return Mixture.of_outputs(outputs, self.settings.components, self.settings.scale_floor, self.gain)

    def mask(self, batch: int, draws: Draws) -> Masked:
        if self.settings.ratio == "cosine":
            return Masked(draw_mask(draws, batch, self.shape.tokens))
        return Masked(hide(draws, cosine_ratio(0.7 * draws.uniform(batch, 1)), self.shape.tokens))

    def score(self, outputs: Tensor, x: Tensor, masked: Masked, draws: Draws) -> Tensor:
        """Negative log-likelihood in nats per token; it may well be negative."""
        return mean_of_counted(-self.mixture(outputs).log_density(x), masked.hidden)

    def loss(self, x: Tensor, cond: Tensor, draws: Draws) -> Tensor:
        if self.settings.style == "masked":
            return super().loss(x, cond, draws)
        dropped, guessing = self.withhold(x, cond, draws)
        return mean_of_counted(-self.predict(x, None, cond, dropped).log_density(x), None) + guessing

    @torch.no_grad()
    def monitors(self, x: Tensor, cond: Tensor, draws: Draws) -> dict[str, Tensor]:
        """For each member (M,), on tokens it was not trained on: negative log-likelihood in nats per token with all
        factors told, and the share of the scales that lie at the floor (a model that memorises constants shows it
        here)."""
        hidden = self.mask(x.shape[1], draws).hidden if self.settings.style == "masked" else None
        mixture = self.predict(x, hidden, cond)
        return {
            "held_out_nll": mean_of_counted(-mixture.log_density(x), hidden),
            "scales_at_floor": mean_of_counted(mixture.at_floor(self.settings.scale_floor), hidden),
        }

    def sampling_monitors(self, cond: Tensor, draws: Draws, guidance: float) -> dict[str, Tensor]:
        return {"guidance_refused": self.sample_counted(cond, draws, guidance)[1]} if guidance > 0 else {}

    def sample(self, cond: Tensor, draws: Draws, guidance: float = 0.0) -> Tensor:
        return self.sample_counted(cond, draws, guidance)[0]

    @torch.no_grad()
    def sample_counted(self, cond: Tensor, draws: Draws, guidance: float = 0.0) -> tuple[Tensor, Tensor]:
        """Tokens (M, B, T, C), and the share of draws, channel by channel, where guidance was refused: (M,)."""
        if self.settings.style == "causal":
            return self._sample_causal(cond, draws, guidance)
        return self._sample_masked(cond, draws, guidance)

    def _sample_masked(self, cond: Tensor, draws: Draws, guidance: float) -> tuple[Tensor, Tensor]:
        """As MaskGIT; confidence is the log-density of what was drawn, in the conditional mixture as it was learned."""
        refused, drawn = [], []
        withheld = self.untold(cond, guidance, self.settings.guided)

        def draw(x: Tensor, unknown: Tensor) -> tuple[Tensor, Tensor]:
            told = self.predict(x, unknown, cond)
            untold = [self.predict(x, unknown, cond, mask) for mask in withheld]
            tokens, no = told.draw(draws, self.settings.temperature, untold, guidance)
            refused.append((no & unknown[..., None]).float().mean(dim=(1, 2, 3)))
            drawn.append(unknown.float().mean(dim=(1, 2)))
            return tokens, told.log_density(tokens)

        unknown = torch.ones(*cond.shape[:2], self.shape.tokens, dtype=torch.bool, device=cond.device)
        start = torch.zeros(*unknown.shape, self.shape.channels, device=cond.device)
        x = reveal(draw, start, unknown, draws, self.settings.sampling_steps, self.settings.choice_temperature)
        return x, torch.stack(refused).sum(0) / torch.stack(drawn).sum(0)

    def _sample_causal(self, cond: Tensor, draws: Draws, guidance: float) -> tuple[Tensor, Tensor]:
        """Token by token, each computed once: the cache holds what attention needs of the earlier ones."""
        # What is told, and the cache, of every pass: all factors told comes first.
        withheld = self.untold(cond, guidance, self.settings.guided)
        passes = [
            (self.condition(cond.to(self.dtype), dropped), self.backbone.new_cache()) for dropped in (None, *withheld)
        ]
        embedded = self.blank[:, None, None].to(self.dtype).expand(-1, cond.shape[1], -1, -1)  # (M, B, 1, D)
        tokens, refused = [], []
        for place in range(self.shape.tokens):
            told, *untold = (self.mixture(self.backbone.next_token(embedded, c, place, cache)) for c, cache in passes)
            token, no = told.draw(draws, self.settings.temperature, untold, guidance)
            tokens.append(token)
            refused.append(no.float().mean(dim=(1, 2, 3)))
            embedded = self.inputs(token.to(self.dtype))
        return torch.cat(tokens, dim=2), torch.stack(refused).mean(0)


def mean_of_counted(values: Tensor, counted: Tensor | None) -> Tensor:
    """(M,) of values (M, B, T): mean over each example's counted tokens (None: all), then over the batch.

    So a lightly masked image counts as much as a heavily masked one, as in MaskGIT here; the original averages over the
    masked tokens of the whole batch at once.
    """
    if counted is None:
        return values.mean(dim=(1, 2))
    return ((values * counted).sum(-1) / counted.sum(-1)).mean(-1)
