"""What the model is told about an image: the one definition of conditioning, used by every generator.

A condition is a (..., W) tensor of numbers with one group of columns per factor: a class index (quantized, and always
for factors that are nothing but a class) or the factor's continuous description (full). Each group is embedded by
itself and the embeddings are summed; the sum is added to the time embedding and drives adaLN. A dropped factor is
replaced by a learned null vector of its own, never by class 0. Dropping happens only where a `dropped` mask is handed
in: training does, sampling does not.

Shapes: M members, B batch, F factors, W columns, D width.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from recombine.nets.layers import Linear, SeedStream, Table, normal_parameter
from recombine.randomness import Draws
from recombine.settings import Settings
from recombine.worlds.base import Factor, World


class ConditioningSettings(Settings):
    """What the model is told, and how often a part of it is withheld while training."""

    kind: Literal["full", "quantized"] = Field(
        default="quantized", description="full: continuous values; quantized: class indices only"
    )
    dropout: float = Field(
        default=0.0, ge=0, lt=1, description="chance that a factor is withheld, each by itself, per sample"
    )
    drop_all: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="chance that all factors of a sample are withheld at once (guidance needs it)",
    )

    @property
    def has_null(self) -> bool:
        """Whether the null vectors are ever trained; only then do they exist."""
        return self.dropout > 0 or self.drop_all > 0


def columns(factors: Sequence[Factor], kind: str) -> list[int]:
    """How many columns of a condition each factor takes; 0 stands for one column that holds a class index."""
    return [factor.width if kind == "full" else 0 for factor in factors]


def condition(world: World, kind: str, labels: Tensor, values: Tensor) -> Tensor:
    """The (B, W) condition of images with these labels (B, F) and values (B, V)."""
    described = world.describe(values)
    groups = [
        described[f] if width else labels[:, f : f + 1].to(torch.float32)
        for f, width in enumerate(columns(world.factors, kind))
    ]
    return torch.cat(groups, dim=1)


def draw_dropped(settings: ConditioningSettings, factors: int, batch: int, draws: Draws) -> Tensor | None:
    """Which factors are withheld, (M, B, F) bool: each with chance `dropout`, and all together with chance
    `drop_all`."""
    if not settings.has_null:
        return None
    each = draws.uniform(batch, factors) < settings.dropout
    together = draws.uniform(batch, 1) < settings.drop_all
    return each | together


class ConditionEmbedding(nn.Module):
    """Sum over factors of an embedded class index or an embedded description: (M, B, W) to (M, B, D)."""

    def __init__(self, settings: ConditioningSettings, factors: Sequence[Factor], width: int, seeds: SeedStream):
        super().__init__()
        self.widths = columns(factors, settings.kind)
        self.tables = nn.ModuleDict()
        self.networks = nn.ModuleDict()
        self.nulls = nn.ParameterDict()
        for factor, described in zip(factors, self.widths, strict=True):
            if described:
                self.networks[factor.name] = nn.Sequential(
                    Linear(described, width, seeds), nn.GELU(), Linear(width, width, seeds)
                )
            else:
                self.tables[factor.name] = Table(len(factor.values), width, seeds)
            if settings.has_null:
                self.nulls[factor.name] = normal_parameter((width,), 0.02, seeds)
        self.names = [factor.name for factor in factors]

    def forward(self, cond: Tensor, dropped: Tensor | None = None) -> Tensor:
        """`dropped` (M, B, F) marks withheld factors; without it everything is told."""
        if dropped is not None and not self.nulls:
            raise ValueError("this model was trained without dropped factors, so it has no null to put in their place")
        total: Tensor | None = None
        at = 0
        for f, (name, described) in enumerate(zip(self.names, self.widths, strict=True)):
            if described:
                embedded = self.networks[name](cond[..., at : at + described])
            else:
                embedded = self.tables[name](cond[..., at].long())
            at += described or 1
            if dropped is not None:
                null = self.nulls[name][:, None]  # (M, 1, D)
                embedded = torch.where(dropped[..., f : f + 1], null.to(embedded.dtype), embedded)
            total = embedded if total is None else total + embedded
        assert total is not None
        return total.to(cond.dtype)  # tables are float32, and would lift the whole backbone to it
