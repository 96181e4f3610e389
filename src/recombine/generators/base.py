"""What every generator has in common: the backbone, the conditioning, a loss per member and a pure sampler.

Shapes: M members, B batch, T tokens, C channels of a token, K codes, W condition columns, D width.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from recombine.conditioning import ConditionEmbedding, ConditioningSettings, draw_dropped
from recombine.nets.backbone import Backbone, Dimensions
from recombine.nets.layers import SeedStream
from recombine.randomness import Draws
from recombine.worlds.base import Factor


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

    def dropped(self, batch: int, draws: Draws) -> Tensor | None:
        """The factors withheld from each sample of a training batch."""
        return draw_dropped(self.conditioning, self.factors, batch, draws)

    @abstractmethod
    def loss(self, x: Tensor, cond: Tensor, draws: Draws) -> Tensor:
        """Loss of each member, (M,), on tokens x and conditions (M, B, W). Members are summed by the loop, never
        averaged."""

    @abstractmethod
    def sample(self, cond: Tensor, draws: Draws, guidance: float = 0.0) -> Tensor:
        """Tokens for conditions (M, B, W): a pure function of weights, conditions and draws. `guidance` 0 is off."""


def guided(predict: Callable[[Tensor | None], Tensor], guidance: float, cond: Tensor, factors: int) -> Tensor:
    """c + w (c - u) on every channel of a prediction: c knows all factors, u none. `predict` takes the dropped mask."""
    told = predict(None)
    if guidance == 0.0:
        return told
    nothing = torch.ones(*cond.shape[:2], factors, dtype=torch.bool, device=cond.device)
    return told + guidance * (told - predict(nothing))
