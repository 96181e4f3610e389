"""What the model is told about an image: the one definition of conditioning, used by every generator.

A condition is a (..., W) tensor of numbers with one group of columns per factor: a class index (quantized, and always
for factors that are nothing but a class) or the factor's continuous description (full). Each group is embedded by
itself and the embeddings are summed; the sum is added to the time embedding and drives adaLN. A dropped factor is
replaced by a learned null vector of its own, never by class 0 (unless `missing` asks for something else in its place:
see `Withheld`). Dropping happens only where a `dropped` mask is handed in: training does; sampling does for guidance
alone.

Shapes: M members, B batch, F factors, W columns, K classes of a factor, D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

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
        description="chance that all factors of a sample are withheld at once, and nulls told (guidance needs it)",
    )
    missing: Literal["unknown", "imputed", "zero"] = Field(
        default="unknown",
        description="what is told for a factor withheld by dropout: that it is unknown (a learned null); a guess, by a "
        "head that sees the image and learns from the factors told; or class 0 (zeros for values), a mislabelling",
    )
    withheld: Annotated[tuple[str, ...], Field(min_length=1)] | None = Field(
        default=None, description="names of the factors that dropout may withhold; null: all of them"
    )
    # With 0.2 three factors together begin as large as the time that is added to them (0.35 and 0.38 at size s). With
    # the 0.02 of the published DiT they are a tenth of it, and for thousands of steps a model may hear only some of
    # them (the study spread).
    spread: float = Field(
        default=0.2,
        gt=0,
        description="standard deviation of the learned vectors of a factor's classes (and null) before training; of "
        "those of its values, where one number is 1 or -1 and the others 0",
    )

    @property
    def has_null(self) -> bool:
        """Whether the null vectors are ever trained; only then do they exist."""
        return self.drop_all > 0 or (self.dropout > 0 and self.missing == "unknown")

    @property
    def withholds(self) -> bool:
        """Whether training ever withholds a factor."""
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


def column_groups(widths: Sequence[int]) -> list[slice]:
    """Where the columns of each factor stand in a condition."""
    ends = [0]
    for width in widths:
        ends.append(ends[-1] + (width or 1))
    return [slice(*pair) for pair in pairwise(ends)]


def draw_dropped(
    settings: ConditioningSettings, factors: Sequence[str], batch: int, draws: Draws
) -> tuple[Tensor, Tensor] | None:
    """Which of the named factors are withheld: each with chance `dropout`, (M, B, F) bool; and the samples, (M, B, 1)
    bool, of which all are, with chance `drop_all`."""
    if not settings.withholds:
        return None
    each = draws.uniform(batch, len(factors)) < settings.dropout
    for f, name in enumerate(factors):
        if settings.withheld is not None and name not in settings.withheld:
            each[..., f].fill_(False)
    together = draws.uniform(batch, 1) < settings.drop_all
    return each, together


@dataclass(frozen=True)
class Withheld:
    """What is withheld from a training batch where not only nulls stand in its place. No factor is marked twice."""

    null: Tensor  # (M, B, F) bool: factors for which the null is told
    filled: Tensor  # (M, B, F) bool: factors for which `filling` is told
    filling: tuple[Tensor, ...]  # by factor: a distribution over its classes (M, B, K), or a description (M, B, width)


# A mask alone, (M, B, F) bool: nulls are told for all that it marks.
Dropped = Tensor | Withheld


def _network(described: int, width: int, spread: float, seeds: SeedStream) -> nn.Sequential:
    """M networks from a description (M, B, described) to (M, B, D), whose vectors begin with this spread where one
    number of the description is 1 or -1 and the others are 0: as far apart as the vectors of classes."""
    first, last = Linear(described, width, seeds), Linear(width, width, seeds)
    network = nn.Sequential(first, nn.GELU(), last)
    one = torch.eye(described)
    with torch.no_grad():
        vectors = network(torch.cat([one, -one]).expand(len(seeds.seeds), -1, -1))  # (M, 2 described, D)
        deviation = (vectors - vectors.mean(1, keepdim=True)).square().mean((1, 2)).sqrt()
        last.weight.mul_((spread / deviation)[:, None, None])
    return network


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
                self.networks[factor.name] = _network(described, width, settings.spread, seeds)
            else:
                self.tables[factor.name] = Table(len(factor.values), width, seeds, settings.spread)
            if settings.has_null:
                self.nulls[factor.name] = normal_parameter((width,), settings.spread, seeds)
        self.names = [factor.name for factor in factors]

    def forward(self, cond: Tensor, dropped: Dropped | None = None) -> Tensor:
        """`dropped` marks the factors of each sample that are withheld; without it everything is told."""
        if isinstance(dropped, Tensor) and not self.nulls:
            raise ValueError("this model was trained without dropped factors, so it has no null to put in their place")
        null = dropped.null if isinstance(dropped, Withheld) else dropped
        total: Tensor | None = None
        for f, (name, group) in enumerate(zip(self.names, column_groups(self.widths), strict=True)):
            embedded = self._embed(f, cond[..., group], dropped if isinstance(dropped, Withheld) else None)
            if null is not None and self.nulls:
                vector = self.nulls[name][:, None]  # (M, 1, D)
                embedded = torch.where(null[..., f : f + 1], vector.to(embedded.dtype), embedded)
            total = embedded if total is None else total + embedded
        assert total is not None
        return total.to(cond.dtype)  # tables are float32, and would lift the whole backbone to it

    def _embed(self, f: int, told: Tensor, withheld: Withheld | None) -> Tensor:
        """Factor number f alone, (M, B, D), from its columns (M, B, 1 or width) or what was filled in for them."""
        name = self.names[f]
        if withheld is not None:
            filled, filling = withheld.filled[..., f : f + 1], withheld.filling[f]
        if self.widths[f]:
            return self.networks[name](told if withheld is None else torch.where(filled, filling.to(told.dtype), told))
        table = self.tables[name]
        if withheld is None:
            return table(told[..., 0].long())
        told = told.masked_fill(filled, 0)  # whatever stands there is not read
        # A distribution is told as the mean of its classes' embeddings: one that is sure is told as the class itself.
        return torch.where(filled, torch.bmm(filling, self._rows(name)), table(told[..., 0].long()))

    def _rows(self, name: str) -> Tensor:
        """The embeddings of a factor's classes, (M, K, D)."""
        table = self.tables[name]
        assert isinstance(table, Table)
        return table.weight

    def zeros(self, cond: Tensor) -> tuple[Tensor, ...]:
        """A filling for `Withheld` that tells every factor as class 0, or as zeros where it is described."""
        filling = []
        for name, width in zip(self.names, self.widths, strict=True):
            zeros = cond.new_zeros(*cond.shape[:2], width or self._rows(name).shape[1])
            if not width:
                zeros[..., 0] = 1  # a distribution that is sure of class 0
            filling.append(zeros)
        return tuple(filling)
