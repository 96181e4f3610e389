"""The imputer: a small head that guesses the factors of a training image, to stand in where its labels are missing.

With incomplete labels a generator that is told a null learns to fill in the missing factor from the others, and where
factors go together in the training data it learns that they must. The guess takes that lesson away: it comes from the
image, so the generator is always told every factor, as it is when it draws. The head sees the clean tokens, whatever
the generator's own loss hides or blurs of them. That is fair: the image is there while training, only its label is not.
No withheld label reaches the head or the generator; when it draws, everything is told and the head is not used.

Shapes: M members, B batch, T tokens, F factors, K classes of a factor, W condition columns.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recombine.conditioning import column_groups, columns
from recombine.nets.layers import Linear, SeedStream, Table
from recombine.worlds.base import Factor

FEATURES, HIDDEN = 16, 128  # of a token, of the layer between
_PURPOSE = 1  # of its stream of seeds: with one of its own, all other weights start as they do without it


class Imputer(nn.Module):
    """Clean tokens to a guess of every factor: embedded token by token, laid side by side, Linear-GELU-Linear. It runs
    in float32."""

    def __init__(
        self, tokens: int, channels: int, codes: int | None, kind: str, factors: Sequence[Factor], seeds: Sequence[int]
    ):
        """With `codes` it reads ids, without them latents of `channels`; `kind` is that of the conditioning."""
        super().__init__()
        stream = SeedStream(seeds, _PURPOSE)
        self.widths = columns(factors, kind)
        self.outputs = [width or len(factor.values) for width, factor in zip(self.widths, factors, strict=True)]
        # std 1: what a linear map of latents of unit variance gives, about.
        self.inputs = Linear(channels, FEATURES, stream) if codes is None else Table(codes, FEATURES, stream, std=1.0)
        self.layers = nn.Sequential(
            Linear(tokens * FEATURES, HIDDEN, stream), nn.GELU(), Linear(HIDDEN, sum(self.outputs), stream)
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        """By factor: scores of its classes (M, B, K), or its description (M, B, width)."""
        return list(self.layers(self.inputs(x).flatten(2)).split(self.outputs, dim=-1))

    def filling(self, guesses: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """What is told for the factors withheld; the generator's loss does not teach the head."""
        pairs = zip(guesses, self.widths, strict=True)
        return tuple(guess.detach() if width else torch.softmax(guess.detach(), dim=-1) for guess, width in pairs)

    def loss(self, guesses: Sequence[Tensor], cond: Tensor, known: Tensor) -> Tensor:
        """Of each member, (M,): mean error of the guesses at the `known` factors (M, B, F) of conditions (M, B, W).

        Cross-entropy of a class, mean squared error of a description.
        """
        errors = []
        for f, (guess, group) in enumerate(zip(guesses, column_groups(self.widths), strict=True)):
            truth = torch.where(known[..., f : f + 1], cond[..., group], 0.0)  # what is withheld is not even read
            if self.widths[f]:
                errors.append((guess - truth).square().mean(-1))
            else:
                entropy = F.cross_entropy(guess.flatten(0, 1), truth.flatten().long(), reduction="none")
                errors.append(entropy.view(guess.shape[:2]))
        counted = torch.stack(errors, dim=-1) * known
        return counted.sum(dim=(1, 2)) / known.sum(dim=(1, 2)).clamp(min=1)
