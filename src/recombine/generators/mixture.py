"""Mixtures of diagonal Gaussians over whole token vectors: density, draw, and guidance in closed form.

Shapes: M members, B batch, T tokens, K components, C channels of a token.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recombine.generators.masking import draw_categories
from recombine.randomness import Draws

# A guided Gaussian is refused where it would be over 10 times wider than the conditional one: close to no precision at
# all, one such draw is so far out that it spoils every token drawn after it.
LEAST_PRECISION = 0.01


def mixture_outputs(components: int, channels: int) -> int:
    """How many numbers per token a network must give for a mixture: K logits, K (mean, scale) pairs of C channels."""
    return components * (1 + 2 * channels)


@dataclass(frozen=True)
class Mixture:
    """One mixture per token. A component is a Gaussian over the whole vector with a scale for each channel."""

    log_weight: Tensor  # (M, B, T, K), normalised
    mean: Tensor  # (M, B, T, K, C)
    log_scale: Tensor  # (M, B, T, K, C)

    @classmethod
    def of_outputs(cls, outputs: Tensor, components: int, floor: float, gain: Tensor | None = None) -> "Mixture":
        """Network outputs (M, B, T, K + 2 K C) read as a mixture, in float32; zeros are the standard normal.

        The scale is squareplus(x) = (x + sqrt(x^2 + 4)) / 2, not less than `floor`. It is computed by its logarithm,
        asinh(x / 2), because for small scales the sum above is a difference of large numbers. `gain` (M, K, 2, C)
        multiplies means and x by 1 + gain.
        """
        outputs = outputs.float()
        pairs = outputs[..., components:].unflatten(-1, (components, 2, -1))  # (M, B, T, K, 2, C)
        if gain is not None:
            pairs = pairs * (1 + gain)[:, None, None]
        mean, raw = pairs.unbind(-2)
        log_weight = torch.log_softmax(outputs[..., :components], dim=-1)
        return cls(log_weight, mean, torch.asinh(raw / 2).clamp(min=math.log(floor)))

    def log_density(self, x: Tensor) -> Tensor:
        """log p(x) of tokens x (M, B, T, C), in nats per token: (M, B, T). Channels are summed as logarithms."""
        z = (x[..., None, :] - self.mean) * torch.exp(-self.log_scale)
        each = -0.5 * z.square() - self.log_scale - 0.5 * math.log(2 * math.pi)
        return torch.logsumexp(each.sum(-1) + self.log_weight, dim=-1)

    def at_floor(self, floor: float) -> Tensor:
        """(M, B, T): share of the K C scales of each token that lie at the floor."""
        return (self.log_scale <= math.log(floor)).float().mean(dim=(-2, -1))

    def draw(
        self, draws: Draws, temperature: float = 1.0, untold: "Sequence[Mixture]" = (), guidance: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Tokens (M, B, T, C), and the channels where guidance was refused (M, B, T, C, bool).

        The component is drawn from this mixture. With guidance, its Gaussian is set against the component of the same
        number in each of `untold` (Tschannen et al. 2024 take them as aligned). `temperature` multiplies the scales, of
        all mixtures alike, so it comes last.
        """
        component = draw_categories(self.log_weight, draws)
        mean, log_scale = self.pick(component)
        refused = torch.zeros_like(mean, dtype=torch.bool)
        if untold:
            mean, log_scale, refused = guide(mean, log_scale, [one.pick(component) for one in untold], guidance)
        return mean + temperature * log_scale.exp() * draws.normal(*mean.shape[1:]), refused

    def pick(self, component: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log scale (M, B, T, C) of the components with these numbers (M, B, T)."""
        index = component[..., None, None].expand(*component.shape, 1, self.mean.shape[-1])
        return self.mean.gather(-2, index)[..., 0, :], self.log_scale.gather(-2, index)[..., 0, :]


def guide(
    mean: Tensor, log_scale: Tensor, untold: Sequence[tuple[Tensor, Tensor]], guidance: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and log scale of the density proportional to p_c^(1 + n w) times p_u^(-w) for each of n `untold` (mean, log
    scale), channel by channel; and where there is none.

    All are Gaussians, so it is one too, with precision (1 + n w) / s_c^2 - w sum_u 1 / s_u^2, wherever that is
    positive. Where it is not (or is less than LEAST_PRECISION / s_c^2) the conditional Gaussian is kept: the third
    answer marks these channels.
    """
    gain = 1 + len(untold) * guidance
    precision, weighted = torch.full_like(mean, gain), gain * mean  # both times s_c^2
    for other_mean, other_log_scale in untold:
        ratio = torch.exp(2 * (log_scale - other_log_scale))  # s_c^2 / s_u^2
        precision = precision - guidance * ratio
        weighted = weighted - guidance * ratio * other_mean
    refused = precision < LEAST_PRECISION
    precision = torch.where(refused, 1.0, precision)
    guided_log_scale = log_scale - 0.5 * torch.log(precision)
    return torch.where(refused, mean, weighted / precision), torch.where(refused, log_scale, guided_log_scale), refused
