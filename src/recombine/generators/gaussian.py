"""Gaussian noising chains: noise schedules, the loss on the noise, and ancestral sampling (Ho et al. 2020).

A chain is the table `kept`, (levels,): the share of the signal's variance that is left after each of its steps. Level
number i goes to the network as time t = (i + 1) / levels. The network predicts the noise, C channels. A prediction of
2C channels carries in its second half v, which says how much noise a reverse step adds (Nichol and Dhariwal 2021): see
learned_log_variance.

Shapes: M members, B batch, T tokens, C channels of a token.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from recombine.randomness import Draws

# (noisy tokens (M, B, T, C), time (M, B)) -> prediction (M, B, T, C), or (M, B, T, 2C) with v
Predict = Callable[[Tensor, Tensor], Tensor]
Variance = Literal["posterior", "learned"]


def linear_kept(levels: int, betas: Literal["scaled", "literal"] = "scaled") -> Tensor:
    """Linear betas, 1e-4 to 0.02 (Ho et al. 2020).

    Scaled: at other lengths than 1000 they are multiplied by 1000 / levels, so that every chain ends at the same noise.
    Literal: they are not, so a shorter chain ends before the signal is gone. At 500 levels 0.64 % of its variance are
    left, 8 % of its amplitude, where a sampler starts from pure noise all the same.
    """
    scale = 1000 / levels if betas == "scaled" else 1.0
    steps = torch.linspace(1e-4, 0.02, levels, dtype=torch.float64) * scale
    return torch.cumprod(1 - steps.clamp(max=0.999), dim=0).float()


def cosine_kept(levels: int) -> Tensor:
    """The cosine schedule (Nichol and Dhariwal 2021, eq. 17)."""
    share = torch.arange(levels + 1, dtype=torch.float64) / levels
    left = torch.cos((share + 0.008) / 1.008 * (math.pi / 2)).square()
    betas = (1 - left[1:] / left[:-1]).clamp(max=0.999)
    return torch.cumprod(1 - betas, dim=0).float()


def respaced(kept: Tensor, steps: int, least: float = 0.0) -> list[int]:
    """Evenly spaced levels for a sampler, the noisiest first, from the last that keeps `least` of the signal.

    A cosine chain needs 1e-4. The few levels beyond are noise all the same, but there 1 / sqrt(kept) makes of a small
    error of the prediction a clean value up to 20 000 times as far off. A sampler that starts at the very last level
    draws values in the thousands from a model that is sound at all other levels.
    """
    noisiest = int((kept >= least).sum()) - 1
    return torch.linspace(noisiest, 0, min(steps, noisiest + 1)).round().long().tolist() if steps > 1 else [noisiest]


def ddpm_pair(x: Tensor, noise: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    """x_t = sqrt(kept) x + sqrt(1 - kept) noise; the target is the noise. `kept` (M, B) is that of each sample."""
    kept = kept[..., None, None]
    return kept.sqrt() * x + (1 - kept).sqrt() * noise, noise


def step_variances(now: Tensor, then: Tensor) -> tuple[Tensor, Tensor]:
    """The two ends of what a reverse step may add as noise, from a level that keeps `now` to one that keeps `then`.

    The posterior's, of q(x_s | x_t, x_0), is right if the clean value is known for sure; beta, the noise of the forward
    step, if the data are Gaussian of unit variance. Both follow from the two levels alone, so on a respaced chain they
    are those of its longer steps.
    """
    beta = 1 - now / then
    return (1 - then) / (1 - now) * beta, beta


def learned_log_variance(v: Tensor, posterior: Tensor, beta: Tensor) -> Tensor:
    """Between the ends in log space: v = -1 is the posterior's variance, v = 1 is beta. Nothing keeps v in between."""
    return torch.lerp(posterior.log(), beta.log(), (v + 1) / 2)


def noise_loss(prediction: Tensor, noise: Tensor, kept: Tensor, t: Tensor) -> Tensor:
    """Loss of each member, (M,): the mean squared error of the noise; with v, also the variational bound.

    The bound teaches v alone. It comes in by its gradient only, not by its value: the number returned is the squared
    error, so that losses of arms with and without v can be compared. As in DiT's code the bound is that of one step of
    the chain, in bits per number, with weight 1 at every length of the chain. (Nichol and Dhariwal weigh the sum over
    all steps by 0.001, which is the same at 1000 levels.)
    """
    channels = noise.shape[-1]
    error = prediction[..., :channels] - noise
    loss = error.square().mean(dim=(1, 2, 3))
    if prediction.shape[-1] == channels:
        return loss
    bound = variance_bound(prediction[..., channels:], error, kept, t).mean(dim=(1, 2, 3))
    return loss + (bound - bound.detach())


def variance_bound(v: Tensor, error: Tensor, kept: Tensor, t: Tensor) -> Tensor:
    """One step's term of the variational bound in bits, (M, B, T, C), given the error of the predicted noise, which is
    held fixed.

    It is the divergence of the model's reverse step from q(x_s | x_t, x_0), two Gaussians. The very first level has no
    such posterior: there it is minus the log density of the clean value. (DiT takes the probability of an 8-bit pixel,
    which means nothing on latents; a density may be over 1, so this term may be negative.)
    """
    index = (t * len(kept)).round().long() - 1
    before = torch.cat([torch.ones_like(kept[:1]), kept[:-1]])
    posterior, beta = step_variances(kept, before)
    # The first step's posterior has no spread. Its range begins where the second's does, as in Nichol and Dhariwal.
    posterior = torch.cat([posterior[1:2], posterior[1:]])
    # (true mean - model's mean)^2 = gain * (error of the noise)^2; at the first level that of the clean value.
    gain = beta.square() / ((1 - beta) * (1 - kept))
    posterior, beta, gain = (table[index][..., None, None] for table in (posterior, beta, gain))
    log_variance = learned_log_variance(v, posterior, beta)
    distance = gain * error.detach().square() * torch.exp(-log_variance)
    log_ratio = log_variance - posterior.log()
    divergence = 0.5 * (log_ratio + torch.exp(-log_ratio) - 1 + distance)
    surprise = 0.5 * (math.log(2 * math.pi) + log_variance + distance)
    return torch.where((index == 0)[..., None, None], surprise, divergence) / math.log(2)


def sample_ddpm(
    predict: Predict,
    draws: Draws,
    shape: tuple[int, int, int],
    kept: Tensor,
    chain: list[int],
    temperature: float = 1.0,
) -> Tensor:
    """Ancestral sampling over the levels of `chain`, the noisiest first. The mean of a step is that of q(x_s | x_t,
    x_0) with x_0 from the predicted noise; its noise, times `temperature`, is the posterior's or the learned one."""
    x = draws.normal(*shape)
    for index, before in zip(chain, [*chain[1:], None], strict=True):
        now = kept[index]
        t = torch.full(x.shape[:2], (index + 1) / len(kept), device=x.device)
        prediction = predict(x, t)
        noise, v = prediction[..., : shape[-1]], prediction[..., shape[-1] :]
        clean = (x - (1 - now).sqrt() * noise) / now.sqrt()
        if before is None:
            return clean
        then = kept[before]
        step = now / then  # signal kept by this one step
        mean = (then.sqrt() * (1 - step) * clean + step.sqrt() * (1 - then) * x) / (1 - now)
        posterior, beta = step_variances(now, then)
        variance = posterior if v.shape[-1] == 0 else learned_log_variance(v, posterior, beta).exp()
        x = mean + temperature * variance.sqrt() * draws.normal(*shape)
    raise ValueError("the chain has no levels")
