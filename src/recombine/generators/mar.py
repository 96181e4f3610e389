"""MAR: masked tokens are predicted by a small diffusion model each, given the backbone's vector (Li et al. 2024).

Like MaskGIT in what is hidden and revealed, but tokens are continuous: the backbone gives a vector z per token and a
small MLP, the head, turns noise into that token given z. Tokens revealed in one step are independent given z.

Kept from the paper: the mask ratio, one per batch; a head with adaLN, cosine noise and epsilon prediction, scored at
several times per token, on masked tokens only; random order; guidance on the head's prediction, linear in the share
revealed. Changed, so that every rung of the ladder has the same backbone: hidden tokens stay in place as a learned
vector (the paper drops them from an encoder, adds buffer tokens and puts mask tokens back in a decoder), and the
condition comes in by adaLN. And the reverse steps have the posterior's variance; the paper's learned one is an option.

Shapes: M members, B batch, T tokens, C channels of a token, D width, R tokens handed to the head per image.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from recombine.conditioning import ConditioningSettings
from recombine.generators.base import Guided, TokenShape, pushed
from recombine.generators.dit import flow_pair, sample_flow
from recombine.generators.gaussian import Variance, cosine_kept, ddpm_pair, noise_loss, respaced, sample_ddpm
from recombine.generators.masked import Masked, MaskedLatents
from recombine.nets.backbone import Dimensions
from recombine.nets.layers import Linear, SeedStream, normal_parameter
from recombine.nets.token_head import TokenHead
from recombine.randomness import Draws
from recombine.settings import Settings
from recombine.worlds.base import Factor


class MARSettings(Settings):
    """Masked prediction of continuous tokens with a diffusion head."""

    needs = {word: ("head", "diffusion") for word in ("noise_levels", "variance", "temperature")}

    kind: Literal["mar"] = Field(
        default="mar", description="masked prediction of latents, each token drawn by a small diffusion head"
    )
    head: Literal["diffusion", "flow"] = Field(
        default="diffusion", description="what the head learns: noise on a cosine schedule, or a flow's velocity"
    )
    head_depth: int = Field(default=3, ge=1, le=64, description="residual blocks of the head")
    head_width: int | None = Field(default=None, ge=1, le=8192, description="width of the head; null: the backbone's")
    repeats: int = Field(
        default=4, ge=1, le=1024, description="times and noises drawn per masked token and step, on average"
    )
    noise_levels: int = Field(
        default=1000, ge=10, le=100_000, description="diffusion head only: steps of the noising chain"
    )
    variance: Variance = Field(
        default="posterior",
        description="diffusion head only: noise added by a reverse step, fixed by the chain or learned",
    )
    head_steps: int = Field(default=100, ge=1, le=1000, description="sampling steps of the head; 25 suit a flow head")
    temperature: float = Field(
        default=1.0, ge=0, description="diffusion head only: multiplies the noise added at each reverse step"
    )
    sampling_steps: int = Field(default=16, ge=1, le=1000, description="iterations of the decoder")
    ratio_mean: float = Field(default=1.0, ge=0, le=1, description="of the normal that the mask ratio is drawn from")
    ratio_std: float = Field(default=0.25, gt=0, description="its spread, before it is cut to [ratio_floor, 1]")
    ratio_floor: float = Field(default=0.7, ge=0, lt=1, description="least share of tokens masked while training")
    guidance: float = Field(
        default=0.0, ge=0, description="extra weight w in c + w (share revealed) (c - u) on the head; 0 is off"
    )
    guided: Guided = "together"

    @model_validator(mode="after")
    def _fits_together(self) -> "MARSettings":
        low, high = map(_normal_cdf, _ratio_range(self))
        if high - low < 1e-3:
            raise ValueError("ratio_mean and ratio_std leave nothing between ratio_floor and 1: raise one of them")
        return self


class MAR(MaskedLatents):
    undecayed = ("head.",)
    kept: Tensor  # diffusion head only: see cosine_kept

    def __init__(
        self,
        settings: MARSettings,
        shape: TokenShape,
        conditioning: ConditioningSettings,
        factors: Sequence[Factor],
        dimensions: Dimensions,
        seeds: SeedStream,
    ):
        width = dimensions.width
        super().__init__(shape, conditioning, factors, dimensions, seeds, outputs=width)
        self.settings = settings
        self.inputs = Linear(shape.channels, width, seeds)
        self.blank = normal_parameter((width,), 0.3, seeds)  # as MaskGIT's: the scale of an embedded token
        outputs = shape.channels * (2 if settings.variance == "learned" else 1)
        self.head = TokenHead(shape.channels, width, settings.head_depth, settings.head_width or width, seeds, outputs)
        self.scored = math.ceil(settings.repeats * mean_ratio(settings) * shape.tokens)  # R
        if settings.head == "diffusion":
            kept = cosine_kept(settings.noise_levels)
            self.chain = respaced(kept, settings.head_steps, least=1e-4)
            self.register_buffer("kept", kept, persistent=False)

    def vectors(self, x: Tensor, hidden: Tensor, cond: Tensor, dropped: Tensor | None = None) -> Tensor:
        """What the backbone says of each token, (M, B, T, D), of tokens x of which `hidden` (M, B, T) are not shown."""
        return self.backbone(self.embed(x, hidden), self.told(cond, dropped, None)).to(self.dtype)

    def mask(self, batch: int, draws: Draws) -> Masked:
        count = torch.ceil(draw_ratio(draws, self.settings) * self.shape.tokens).clamp(min=1)[..., None]  # (M, 1, 1)
        order = draws.uniform(batch, self.shape.tokens).argsort(-1)
        return Masked(order.argsort(-1) < count, order)

    def score(self, outputs: Tensor, x: Tensor, masked: Masked, draws: Draws) -> Tensor:
        """The head's error on masked tokens only, whose number changes from step to step while shapes may not: R places
        go round the masked tokens, so that each is scored `repeats` times on average, with its own time and noise."""
        assert masked.order is not None
        z = outputs.to(self.dtype)
        count = masked.hidden.sum(-1, keepdim=True)
        places = torch.arange(self.scored, device=x.device) % count
        chosen = masked.order.gather(-1, places)  # (M, B, R)
        noisy, t, target = self.noised(rows(x, chosen), draws)
        prediction = self.head(noisy, t[..., None], rows(z, chosen))
        if self.settings.head == "flow":
            return (prediction - target).square().mean(dim=(1, 2, 3))
        return noise_loss(prediction, target, self.kept, t)

    def noised(self, x: Tensor, draws: Draws) -> tuple[Tensor, Tensor, Tensor]:
        """Noisy tokens, their times (M, N) and the head's targets, of tokens x (M, N, 1, C)."""
        noise = draws.normal(*x.shape[1:])
        if self.settings.head == "flow":
            t = draws.uniform(x.shape[1])
            noisy, target = flow_pair(x, noise, t)
            return noisy, t, target
        index = draws.integers(self.settings.noise_levels, x.shape[1])
        noisy, target = ddpm_pair(x, noise, self.kept[index])
        return noisy, (index + 1) / self.settings.noise_levels, target

    @torch.no_grad()
    def sample(self, cond: Tensor, draws: Draws, guidance: float = 0.0) -> Tensor:
        """Random order. The head runs on the tokens of the step alone: how many they are is known beforehand."""
        members, batch = cond.shape[:2]
        tokens = self.shape.tokens
        withheld = self.untold(cond, guidance, self.settings.guided)
        order = draws.uniform(batch, tokens).argsort(-1)
        place = order.argsort(-1)
        x = torch.zeros(members, batch, tokens, self.shape.channels, device=cond.device)
        done = 0
        for count in reveal_counts(tokens, self.settings.sampling_steps):
            now = order[..., done : done + count]
            told = rows(self.vectors(x, place >= done, cond), now)
            weight = guidance * done / tokens
            masks = withheld if weight > 0 else []
            untold = [rows(self.vectors(x, place >= done, cond, mask), now) for mask in masks]
            drawn = self.draw(told, untold, weight, draws).view(members, batch, count, -1)
            x = x.scatter(2, now[..., None].expand_as(drawn), drawn)
            done += count
        return x

    def draw(self, told: Tensor, untold: Sequence[Tensor], weight: float, draws: Draws) -> Tensor:
        """Tokens (M, N, 1, C) given vectors (M, N, 1, D); under guidance all of them see the same noisy token."""

        def predict(x: Tensor, t: Tensor) -> Tensor:
            t = t[:, :1, None]  # the same for all tokens
            prediction = self.head(x, t, told)
            others = [self.head(x, t, vector)[..., : self.shape.channels] for vector in untold]
            mean, v = prediction[..., : self.shape.channels], prediction[..., self.shape.channels :]
            # Every channel but v: how much noise is added stays as it is with all factors told.
            return torch.cat([pushed(mean, others, weight), v], dim=-1)

        shape = (told.shape[1], 1, self.shape.channels)
        if self.settings.head == "flow":
            return sample_flow(predict, draws, shape, self.settings.head_steps)
        return sample_ddpm(predict, draws, shape, self.kept, self.chain, self.settings.temperature)


def rows(x: Tensor, chosen: Tensor) -> Tensor:
    """Tokens number `chosen` (M, B, R) of x (M, B, T, C), as images of one token each: (M, B * R, 1, C)."""
    taken = Chosen.apply(x, chosen) if x.is_cuda and x.requires_grad else _gather(x, chosen)
    return taken.flatten(1, 2)[:, :, None]


def _gather(x: Tensor, chosen: Tensor) -> Tensor:
    return x.gather(2, chosen[..., None].expand(-1, -1, -1, x.shape[-1]))


class Chosen(torch.autograd.Function):
    """A gather whose gradient is a product: (M, B, T, R) ones and zeros times (M, B, R, C). A token is chosen several
    times, and on a GPU a gather's own gradient adds these up in an order that is another from run to run, so that no
    run could be made again to the last digit."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, chosen: Tensor) -> Tensor:
        ctx.save_for_backward(chosen)
        ctx.tokens = x.shape[2]
        return _gather(x, chosen)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (chosen,) = ctx.saved_tensors
        own = chosen[:, :, None] == torch.arange(ctx.tokens, device=chosen.device)[:, None]
        return own.to(grads[0].dtype) @ grads[0], None


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def _ratio_range(settings: MARSettings) -> tuple[float, float]:
    """Where the cuts at ratio_floor and 1 lie in the normal, in standard deviations."""
    low, high = ((edge - settings.ratio_mean) / settings.ratio_std for edge in (settings.ratio_floor, 1.0))
    return low, high


def mean_ratio(settings: MARSettings) -> float:
    """The mean of the truncated normal: 0.867 at the published numbers."""
    low, high = _ratio_range(settings)
    density = [math.exp(-edge * edge / 2) / math.sqrt(2 * math.pi) for edge in (low, high)]
    return settings.ratio_mean + settings.ratio_std * (density[0] - density[1]) / (_normal_cdf(high) - _normal_cdf(low))


def draw_ratio(draws: Draws, settings: MARSettings) -> Tensor:
    """One mask ratio for the whole batch of each member, (M, 1): the truncated normal by inverting its distribution."""
    low, high = map(_normal_cdf, _ratio_range(settings))
    ratio = settings.ratio_mean + settings.ratio_std * torch.special.ndtri(low + (high - low) * draws.uniform(1))
    return ratio.clamp(settings.ratio_floor, 1.0)


def reveal_counts(tokens: int, steps: int) -> list[int]:
    """How many tokens each iteration reveals, as in masking.reveal: floor(T cos(pi r / 2)) stay hidden after the share
    r of the steps, at least one until the last. No more iterations than there are tokens."""
    counts = []
    left = tokens
    for k in range(steps):
        share = math.cos(math.pi / 2 * (k + 1) / steps)
        stay = min(max(math.floor(tokens * share), 1), left - 1) if k < steps - 1 else 0
        counts.append(left - stay)
        left = stay
        if left == 0:
            break
    return counts
