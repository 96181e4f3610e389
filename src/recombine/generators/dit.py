"""DiT: all tokens are denoised together (Peebles and Xie 2023), as flow matching or as DDPM with epsilon prediction."""

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from recombine.conditioning import ConditioningSettings, Dropped
from recombine.generators.base import Generator, Guided, TokenShape, pushed
from recombine.generators.gaussian import (
    Predict,
    Variance,
    ddpm_pair,
    linear_kept,
    noise_loss,
    respaced,
    sample_ddpm,
)
from recombine.nets.backbone import Dimensions, TimeEmbedding
from recombine.nets.layers import Linear, SeedStream
from recombine.randomness import Draws
from recombine.settings import Settings
from recombine.worlds.base import Factor


class DiTSettings(Settings):
    """Diffusion of all tokens at once."""

    needs = {word: ("objective", "ddpm") for word in ("noise_levels", "betas", "variance")}

    kind: Literal["dit"] = Field(default="dit", description="diffusion transformer: all tokens are denoised together")
    objective: Literal["flow", "ddpm"] = Field(default="flow", description="flow matching (velocity) or DDPM (noise)")
    sampling_steps: int = Field(
        default=50, ge=1, le=1000, description="Euler steps (flow) or respaced ancestral steps (ddpm)"
    )
    noise_levels: int = Field(default=1000, ge=2, le=100_000, description="ddpm only: steps of the noising chain")
    betas: Literal["scaled", "literal"] = Field(
        default="scaled",
        description="ddpm only: noise of the chain's steps; literal: 1e-4 to 0.02 at any noise_levels, which at 500 "
        "leaves 0.64 % of the signal's variance; scaled: times 1000 / noise_levels",
    )
    variance: Variance = Field(
        default="posterior", description="ddpm only: noise added by a reverse step, fixed by the chain or learned"
    )
    guidance: float = Field(default=0.0, ge=0, description="extra weight w in c + w (c - u); 0 is off")
    guided: Guided = "together"


class DiT(Generator):
    takes = "latents"
    kept: Tensor  # ddpm only: see linear_kept

    def __init__(
        self,
        settings: DiTSettings,
        shape: TokenShape,
        conditioning: ConditioningSettings,
        factors: Sequence[Factor],
        dimensions: Dimensions,
        seeds: SeedStream,
    ):
        outputs = shape.channels * (2 if settings.variance == "learned" else 1)
        super().__init__(shape, conditioning, factors, dimensions, seeds, outputs)
        self.settings = settings
        self.inputs = Linear(shape.channels, dimensions.width, seeds)
        self.time = TimeEmbedding(dimensions.width, seeds)
        if settings.objective == "ddpm":
            kept = linear_kept(settings.noise_levels, settings.betas)
            self.chain = respaced(kept, settings.sampling_steps)
            self.register_buffer("kept", kept, persistent=False)

    def predict(self, x: Tensor, t: Tensor, cond: Tensor, dropped: Dropped | None = None) -> Tensor:
        """Velocity or noise, (M, B, T, C), of noisy tokens x at time t (M, B) in [0, 1]; with v, (M, B, T, 2C)."""
        c = self.condition(cond.to(self.dtype), dropped) + self.time(t, self.dtype)
        return self.backbone(self.inputs(x.to(self.dtype)), c)

    def loss(self, x: Tensor, cond: Tensor, draws: Draws) -> Tensor:
        batch = x.shape[1]
        noise = draws.normal(*x.shape[1:])
        if self.settings.objective == "flow":
            t = draws.uniform(batch)
            noisy, target = flow_pair(x, noise, t)
            dropped, guessing = self.withhold(x, cond, draws)
            prediction = self.predict(noisy, t, cond, dropped)
            return (prediction - target).square().mean(dim=(1, 2, 3)) + guessing
        index = draws.integers(self.settings.noise_levels, batch)
        noisy, target = ddpm_pair(x, noise, self.kept[index])
        t = (index + 1) / self.settings.noise_levels
        dropped, guessing = self.withhold(x, cond, draws)
        return noise_loss(self.predict(noisy, t, cond, dropped), target, self.kept, t) + guessing

    @torch.no_grad()
    def sample(self, cond: Tensor, draws: Draws, guidance: float = 0.0) -> Tensor:
        untold = self.untold(cond, guidance, self.settings.guided)

        def predict(x: Tensor, t: Tensor) -> Tensor:
            prediction = self.predict(x, t, cond)
            mean, v = prediction[..., : self.shape.channels], prediction[..., self.shape.channels :]
            others = [self.predict(x, t, cond, mask)[..., : self.shape.channels] for mask in untold]
            # Every channel but v: how much noise is added stays as it is with all factors told.
            return torch.cat([pushed(mean, others, guidance), v], dim=-1)

        shape = (cond.shape[1], self.shape.tokens, self.shape.channels)
        if self.settings.objective == "flow":
            return sample_flow(predict, draws, shape, self.settings.sampling_steps)
        return sample_ddpm(predict, draws, shape, self.kept, self.chain)


def flow_pair(x: Tensor, noise: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """Linear path with data at t = 1 and noise at t = 0 (Ma et al. 2024): x_t = t x + (1 - t) noise, velocity x -
    noise."""
    t = t[..., None, None]
    return t * x + (1 - t) * noise, x - noise


def sample_flow(predict: Predict, draws: Draws, shape: tuple[int, int, int], steps: int) -> Tensor:
    """Euler steps along the velocity from noise (t = 0) to data (t = 1)."""
    x = draws.normal(*shape)
    for k in range(steps):
        t = torch.full(x.shape[:2], k / steps, device=x.device)
        x = x + predict(x, t) / steps
    return x
