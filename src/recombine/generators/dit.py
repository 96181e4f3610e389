"""DiT: all tokens are denoised together (Peebles and Xie 2023), as flow matching or as DDPM with epsilon prediction."""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from recombine.conditioning import ConditioningSettings
from recombine.generators.base import Generator, TokenShape, guided
from recombine.nets.backbone import Dimensions, TimeEmbedding
from recombine.nets.layers import Linear, SeedStream
from recombine.randomness import Draws
from recombine.settings import Settings
from recombine.worlds.base import Factor

Predict = Callable[[Tensor, Tensor], Tensor]  # (noisy tokens (M, B, T, C), time (M, B)) -> prediction (M, B, T, C)


class DiTSettings(Settings):
    """Diffusion of all tokens at once."""

    kind: Literal["dit"] = Field(default="dit", description="diffusion transformer: all tokens are denoised together")
    objective: Literal["flow", "ddpm"] = Field(default="flow", description="flow matching (velocity) or DDPM (noise)")
    sampling_steps: int = Field(
        default=50, ge=1, le=1000, description="Euler steps (flow) or respaced ancestral steps (ddpm)"
    )
    noise_levels: int = Field(default=1000, ge=2, description="ddpm only: steps of the noising chain")
    guidance: float = Field(default=0.0, ge=0, description="extra weight w in c + w (c - u); 0 is off")


class DiT(Generator):
    takes = "latents"
    kept: Tensor  # ddpm only: see ddpm_kept

    def __init__(
        self,
        settings: DiTSettings,
        shape: TokenShape,
        conditioning: ConditioningSettings,
        factors: Sequence[Factor],
        dimensions: Dimensions,
        seeds: SeedStream,
    ):
        super().__init__(shape, conditioning, factors, dimensions, seeds, outputs=shape.channels)
        self.settings = settings
        self.inputs = Linear(shape.channels, dimensions.width, seeds)
        self.time = TimeEmbedding(dimensions.width, seeds)
        if settings.objective == "ddpm":
            self.register_buffer("kept", ddpm_kept(settings.noise_levels), persistent=False)

    def predict(self, x: Tensor, t: Tensor, cond: Tensor, dropped: Tensor | None = None) -> Tensor:
        """Velocity or noise, (M, B, T, C), of noisy tokens x at time t (M, B) in [0, 1]."""
        c = self.condition(cond.to(self.dtype), dropped) + self.time(t, self.dtype)
        return self.backbone(self.inputs(x.to(self.dtype)), c)

    def loss(self, x: Tensor, cond: Tensor, draws: Draws) -> Tensor:
        batch = x.shape[1]
        noise = draws.normal(*x.shape[1:])
        if self.settings.objective == "flow":
            t = draws.uniform(batch)
            noisy, target = flow_pair(x, noise, t)
        else:
            index = draws.integers(self.settings.noise_levels, batch)
            noisy, target = ddpm_pair(x, noise, self.kept[index])
            t = (index + 1) / self.settings.noise_levels
        prediction = self.predict(noisy, t, cond, self.dropped(batch, draws))
        return (prediction - target).square().mean(dim=(1, 2, 3))

    @torch.no_grad()
    def sample(self, cond: Tensor, draws: Draws, guidance: float = 0.0) -> Tensor:
        def predict(x: Tensor, t: Tensor) -> Tensor:
            return guided(lambda dropped: self.predict(x, t, cond, dropped), guidance, cond, self.factors)

        shape = (cond.shape[1], self.shape.tokens, self.shape.channels)
        if self.settings.objective == "flow":
            return sample_flow(predict, draws, shape, self.settings.sampling_steps)
        return sample_ddpm(predict, draws, shape, self.kept, self.settings.sampling_steps)


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


def ddpm_kept(levels: int) -> Tensor:
    """The share of signal variance left after each step of the chain, with linear betas 1e-4 to 0.02 (Ho et al. 2020).

    At other chain lengths than 1000 the betas are scaled by 1000 / levels, so that the chain ends at the same noise.
    """
    betas = torch.linspace(1e-4, 0.02, levels, dtype=torch.float64) * (1000 / levels)
    return torch.cumprod(1 - betas.clamp(max=0.999), dim=0).float()


def ddpm_pair(x: Tensor, noise: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    """x_t = sqrt(kept) x + sqrt(1 - kept) noise; the target is the noise."""
    kept = kept[..., None, None]
    return kept.sqrt() * x + (1 - kept).sqrt() * noise, noise


def sample_ddpm(predict: Predict, draws: Draws, shape: tuple[int, int, int], kept: Tensor, steps: int) -> Tensor:
    """Ancestral sampling on an evenly respaced chain; the mean is that of q(x_s | x_t, x_0) with x_0 from the noise
    estimate."""
    levels = len(kept)
    steps = min(steps, levels)
    # Evenly spaced levels, the noisiest first; -1 stands for clean data, of which everything is kept.
    chain = torch.linspace(levels - 1, 0, steps).round().long().tolist() if steps > 1 else [levels - 1]
    x = draws.normal(*shape)
    for index, before in zip(chain, [*chain[1:], -1], strict=True):
        now = kept[index]
        then = kept[before] if before >= 0 else torch.ones_like(now)
        t = torch.full(x.shape[:2], (index + 1) / levels, device=x.device)
        noise = predict(x, t)
        clean = (x - (1 - now).sqrt() * noise) / now.sqrt()
        step = now / then  # signal kept by this one step
        mean = (then.sqrt() * (1 - step) * clean + step.sqrt() * (1 - then) * x) / (1 - now)
        variance = (1 - then) / (1 - now) * (1 - step)
        x = mean + variance.sqrt() * draws.normal(*shape) if before >= 0 else mean
    return x
