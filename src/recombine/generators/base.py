"""What every generator has in common: the backbone, the conditioning, a loss per member and a pure sampler.

Shapes: M members, B batch, T tokens, C channels of a token, K codes, W condition columns, D width.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from recombine.conditioning import ConditionEmbedding, ConditioningSettings, Dropped, Withheld, draw_dropped
from recombine.generators.imputer import Imputer
from recombine.nets.backbone import Backbone, Dimensions
from recombine.nets.layers import SeedStream
from recombine.randomness import Draws
from recombine.worlds.base import Factor

# A word of every family's settings, beside its `guidance`.
Guided = Annotated[
    Literal["together", "each"],
    Field(
        description="with guidance, what u is: no factor told (together; needs drop_all); or each: one factor withheld "
        "and the others told, c - u summed over the factors (needs dropout, and a pass for each factor)"
    ),
]


@dataclass(frozen=True)
class TokenShape:
    """What a generator must know of the tokenizer."""

    grid: tuple[int, int]
    channels: int
    codes: int | None

    @property
    def tokens(self) -> int:
        return self.grid[0] * self.grid[1]


class Generator(nn.Module, ABC):
    """M models of one family. Subclasses say what is predicted, how it is scored and how it is drawn."""

    takes: str  # "latents": x is (M, B, T, C) float; "ids": x is (M, B, T) int64
    # How names of parameters begin that belong to additions with losses of their own. Their gradients are clipped
    # apart, or they would change the steps of a generator that feels nothing else of them.
    additions: tuple[str, ...] = ("jepa.", "imputer.")
    undecayed: tuple[str, ...] = ()  # how names of parameters begin whose matrices take no weight decay

    def __init__(
        self,
        shape: TokenShape,
        conditioning: ConditioningSettings,
        factors: Sequence[Factor],
        dimensions: Dimensions,
        seeds: SeedStream,
        outputs: int,
    ):
        super().__init__()
        self.shape = shape
        self.conditioning = conditioning
        self.factors = len(factors)
        self.seeds = seeds.seeds
        self.dtype = torch.float32  # of activations; parameters stay in float32
        self.condition = ConditionEmbedding(conditioning, factors, dimensions.width, seeds)
        self.backbone = Backbone(dimensions, shape.grid, outputs, seeds)
        self.imputer: Imputer | None = None
        if conditioning.missing == "imputed" and conditioning.dropout > 0:
            codes = shape.codes if self.takes == "ids" else None
            self.imputer = Imputer(shape.tokens, shape.channels, codes, conditioning.kind, factors, self.seeds)

    def withhold(self, x: Tensor, cond: Tensor, draws: Draws) -> tuple[Dropped | None, Tensor | float]:
        """The factors withheld from each sample of a training batch, with what stands in their place; and what is added
        to the loss of each member, (M,), to learn that.

        What `drop_all` withholds is always null: it makes the unconditional model that guidance needs, and there
        nothing is missing.
        """
        drawn = draw_dropped(self.conditioning, self.condition.names, x.shape[1], draws)
        if drawn is None:
            return None, 0.0
        each, together = drawn
        if self.conditioning.missing == "unknown":
            return each | together, 0.0
        null, filled = together.expand_as(each), each & ~together
        if self.imputer is None:
            return Withheld(null, filled, self.condition.zeros(cond)), 0.0
        guesses = self.imputer(x)
        known = ~(each | together)
        return Withheld(null, filled, self.imputer.filling(guesses)), self.imputer.loss(guesses, cond, known)

    def untold(self, cond: Tensor, guidance: float, guided: Guided) -> list[Tensor]:
        """What guidance withholds, a mask (M, B, F) for each pass; none where guidance is off."""
        if guidance == 0.0:
            return []
        shape = (*cond.shape[:2], self.factors)
        if guided == "together":
            return [torch.ones(shape, dtype=torch.bool, device=cond.device)]
        factor = torch.arange(self.factors, device=cond.device)
        return [(factor == f).expand(shape) for f in range(self.factors)]

    @abstractmethod
    def loss(self, x: Tensor, cond: Tensor, draws: Draws) -> Tensor:
        """Loss of each member, (M,), on tokens x and conditions (M, B, W). Members are summed by the loop, never
        averaged."""

    def monitors(self, x: Tensor, cond: Tensor, draws: Draws) -> dict[str, Tensor]:
        """Numbers by name, (M,) each, about fresh tokens x and their conditions: a likelihood, where there is one."""
        return {}

    def sampling_monitors(self, cond: Tensor, draws: Draws, guidance: float) -> dict[str, Tensor]:
        """Numbers by name, (M,) each, about a drawing with this guidance."""
        return {}

    def trailing(self) -> dict[str, Tensor]:
        """Buffers that trail behind weights, by the weights' names: a teacher's. The loop moves them at every step."""
        return {}

    def momentum(self, share: Tensor) -> Tensor:
        """How much of them stays as it is at a step, on the device; `share` of the run is done."""
        raise NotImplementedError

    @abstractmethod
    def sample(self, cond: Tensor, draws: Draws, guidance: float = 0.0) -> Tensor:
        """Tokens for conditions (M, B, W): a pure function of weights, conditions and draws. `guidance` 0 is off."""


def guided(predict: Callable[[Tensor | None], Tensor], guidance: float, untold: Sequence[Tensor]) -> Tensor:
    """c + w sum_u (c - u) on every channel of a prediction: c knows all factors, u all but those that its mask in
    `untold` withholds. `predict` takes the mask.

    With one mask that withholds all this is the usual guidance. With one mask per factor it pushes towards each factor
    by itself. For logarithms of probabilities that is, by Bayes' rule, p(x | all factors) times p(factor | x, the other
    factors)^w for each factor. Usual guidance has p(all factors | x)^w instead, the combination as a whole, of which a
    model that never saw it knows nothing.
    """
    return pushed(predict(None), [predict(mask) for mask in untold], guidance)


def pushed(told: Tensor, untold: Sequence[Tensor], guidance: float) -> Tensor:
    """c + w sum_u (c - u) of predictions c and u."""
    away = told
    for one in untold:
        away = away + guidance * (told - one)
    return away
