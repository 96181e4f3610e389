"""The cosine noise schedule (Nichol and Dhariwal 2021) and ancestral sampling over a chosen part of its chain.

Shapes: M members, B batch, T tokens, C channels of a token.
"""

import math

import torch
from torch import Tensor

from recombine.generators.dit import Predict
from recombine.randomness import Draws


def cosine_kept(levels: int) -> Tensor:
    """The share of signal variance left after each step of the chain (Nichol and Dhariwal 2021, eq. 17)."""
    share = torch.arange(levels + 1, dtype=torch.float64) / levels
    left = torch.cos((share + 0.008) / 1.008 * (math.pi / 2)).square()
    betas = (1 - left[1:] / left[:-1]).clamp(max=0.999)
    return torch.cumprod(1 - betas, dim=0).float()


def cosine_chain(kept: Tensor, steps: int, least: float = 1e-4) -> list[int]:
    """Evenly spaced levels for a sampler, the noisiest first, from the last that keeps `least` of the signal.

    The few levels beyond are noise all the same, but there 1 / sqrt(kept) makes of a small error of the prediction a
    clean value up to 20 000 times as far off. A sampler that starts at the very last level draws values in the
    thousands from a model that is sound at all other levels.
    """
    noisiest = int((kept >= least).sum()) - 1
    return torch.linspace(noisiest, 0, min(steps, noisiest + 1)).round().long().tolist() if steps > 1 else [noisiest]


def sample_cosine(
    predict: Predict, draws: Draws, shape: tuple[int, int, int], kept: Tensor, chain: list[int], temperature: float
) -> Tensor:
    """Ancestral sampling over the levels of `chain`; each step adds `temperature` times the posterior's noise."""
    x = draws.normal(*shape)
    for index, before in zip(chain, [*chain[1:], None], strict=True):
        now = kept[index]
        t = torch.full(x.shape[:2], (index + 1) / len(kept), device=x.device)
        noise = predict(x, t)
        clean = (x - (1 - now).sqrt() * noise) / now.sqrt()
        if before is None:
            return clean
        then = kept[before]
        step = now / then  # signal kept by this one step
        mean = (then.sqrt() * (1 - step) * clean + step.sqrt() * (1 - then) * x) / (1 - now)
        x = mean + temperature * ((1 - then) / (1 - now) * (1 - step)).sqrt() * draws.normal(*shape)
    raise ValueError("the chain has no levels")
