"""Which compositions are trained on, and how far from them every other one lies.

The level of a composition is its Hamming distance to the nearest trained one: 0 is trained, 1 differs from something
trained in one factor, 2 in two, and so on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Annotated, Literal

import torch
from pydantic import Field

from recombine.errors import UserError
from recombine.randomness import Draws, seeds_tensor
from recombine.settings import Settings

Composition = tuple[int, ...]

# One character a factor keeps the strings of the published figures ("011"); past 36 values a factor would need two.
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def code(composition: Sequence[int]) -> str:
    """The composition as a string in factor order, one character a factor: (0, 1, 1) is "011", value 10 is "a"."""
    return "".join(_DIGITS[value] for value in composition)


def parse_code(text: str) -> Composition:
    """The composition that `code` writes as `text`."""
    try:
        return tuple(_DIGITS.index(character) for character in text)
    except ValueError:
        raise UserError(
            f"'{text}' is not a composition: write one digit (0-9, then a-z) per factor, such as '011'."
        ) from None


@dataclass(frozen=True)
class Split:
    """The trained compositions among all of them. Build one with `make_split`, which refuses impossible ones."""

    counts: tuple[int, ...]  # values per factor
    train: tuple[Composition, ...]

    @cached_property
    def compositions(self) -> tuple[Composition, ...]:
        """All compositions, in lexicographic order."""
        return tuple(product(*(range(count) for count in self.counts)))

    @cached_property
    def levels(self) -> dict[Composition, int]:
        """The level of every composition."""
        trained = torch.tensor(self.train)  # (K, F)
        everything = torch.tensor(self.compositions)  # (N, F)
        distance = (everything[:, None] != trained[None]).sum(-1).amin(1)
        return dict(zip(self.compositions, distance.tolist(), strict=True))

    def level(self, composition: Composition) -> int:
        return self.levels[composition]

    def at_level(self, level: int) -> tuple[Composition, ...]:
        """The compositions of one level, in lexicographic order."""
        return tuple(c for c in self.compositions if self.levels[c] == level)

    @property
    def deepest(self) -> int:
        """The greatest level there is."""
        return max(self.levels.values())


class _Kind(Settings):
    needs_level: int = Field(
        default=1, ge=1, description="refuse the split if no composition lies this far from training"
    )


class HammingSplit(_Kind):
    """Train the all-zero composition and those that differ from it in at most `distance` factors (the papers'
    split)."""

    kind: Literal["hamming"] = Field(
        default="hamming", description="the all-zero composition and those near it are trained: the papers' split"
    )
    distance: int = Field(default=1, ge=1, description="how many factors of a trained composition may differ from zero")


class BoxSplit(_Kind):
    """Each factor's values fall in a common part (the first `common`) and a rare one; a composition is trained when at
    most `rare` of its factors take rare values, so an axis-aligned box (an orthotope) is held out in the far corner."""

    kind: Literal["box"] = Field(
        default="box",
        description="a box in the far corner is held out, where too many factors take rare values at once",
    )
    common: tuple[int, ...] = Field(description="per factor, how many of its first values are common")
    rare: int | None = Field(
        default=None,
        ge=0,
        description="rare values a trained composition may have; null: as many as there are factors, less one",
    )


class DiagonalSplit(_Kind):
    """Train a band around the main diagonal: all factors near the same relative position in their range."""

    kind: Literal["diagonal"] = Field(
        default="diagonal",
        description="a band around the main diagonal is trained: all factors at about the same place in their range",
    )
    width: float = Field(default=0.0, ge=0, le=1, description="allowed spread of the relative positions, 0 to 1")


class RandomSplit(_Kind):
    """Train `n` compositions drawn at random so that every factor value is seen in at least `k` of them."""

    kind: Literal["random"] = Field(
        default="random", description="compositions drawn at random are trained, with every factor value among them"
    )
    n: int = Field(ge=1, description="how many compositions are trained")
    k: int = Field(default=1, ge=1, description="every factor value is in at least this many trained compositions")
    seed: int = Field(default=0, ge=0, lt=2**31, description="which draw")


class ListedSplit(_Kind):
    """Train exactly the compositions written down, such as ["000", "011"]."""

    kind: Literal["listed"] = Field(default="listed", description="exactly the compositions written down are trained")
    train: tuple[str, ...] = Field(description="the trained compositions, one digit a factor: ['000', '011']")


SplitSettings = Annotated[
    HammingSplit | BoxSplit | DiagonalSplit | RandomSplit | ListedSplit, Field(discriminator="kind")
]


def make_split(settings: SplitSettings, factors: Sequence[tuple[str, int]]) -> Split:
    """The split of a world whose factors are (name, number of values); refuses one that could answer nothing."""
    names = [name for name, _ in factors]
    counts = tuple(count for _, count in factors)
    everything = list(product(*(range(count) for count in counts)))
    if isinstance(settings, HammingSplit):
        train = [c for c in everything if sum(value != 0 for value in c) <= settings.distance]
    elif isinstance(settings, BoxSplit):
        train = _box(settings, counts, everything)
    elif isinstance(settings, DiagonalSplit):
        train = [c for c in everything if _spread(c, counts) <= settings.width + 1e-9]
    elif isinstance(settings, RandomSplit):
        train = _random(settings, counts, everything)
    else:
        train = _listed(settings, counts)
    split = Split(counts, tuple(sorted(set(train))))
    _refuse_impossible(split, names, settings.needs_level)
    return split


def _box(settings: BoxSplit, counts: tuple[int, ...], everything: list[Composition]) -> list[Composition]:
    if len(settings.common) != len(counts):
        raise UserError(
            f"split box: 'common' has {len(settings.common)} numbers but the world has {len(counts)} factors."
        )
    for have, count in zip(settings.common, counts, strict=True):
        if not 1 <= have <= count:
            raise UserError(
                f"split box: a 'common' of {have} does not fit a factor with {count} values; use 1 to {count}."
            )
    rare = len(counts) - 1 if settings.rare is None else settings.rare

    def rare_values(c: Composition) -> int:
        return sum(value >= have for value, have in zip(c, settings.common, strict=True))

    return [c for c in everything if rare_values(c) <= rare]


def _spread(composition: Composition, counts: tuple[int, ...]) -> float:
    """Distance between the extreme relative positions (value / last value) of a composition's factors."""
    places = [value / max(count - 1, 1) for value, count in zip(composition, counts, strict=True)]
    return max(places) - min(places)


def _random(settings: RandomSplit, counts: tuple[int, ...], everything: list[Composition]) -> list[Composition]:
    """First cover: take compositions in random order that add to a value still short of k. Then fill up to n."""
    order = Draws(seeds_tensor([settings.seed]), "random split").uniform(len(everything))[0].argsort().tolist()
    shuffled = [everything[i] for i in order]
    possible = min(len(everything) // count for count in counts)
    if settings.k > possible:
        raise UserError(
            f"split random: k = {settings.k}, but a factor value is in only {possible} compositions; lower k."
        )
    seen = [[0] * count for count in counts]
    train: list[Composition] = []
    while any(times < settings.k for factor in seen for times in factor):
        # The composition that helps the most short values; ties fall to the random order.
        best = max(
            (c for c in shuffled if c not in train), key=lambda c: sum(seen[f][v] < settings.k for f, v in enumerate(c))
        )
        train.append(best)
        for factor, value in enumerate(best):
            seen[factor][value] += 1
    if len(train) > settings.n:
        raise UserError(
            f"split random: n = {settings.n} compositions cannot show every factor value {settings.k} times; "
            f"use n >= {len(train)}."
        )
    if settings.n > len(everything):
        raise UserError(f"split random: n = {settings.n}, but the world has only {len(everything)} compositions.")
    train += [c for c in shuffled if c not in train][: settings.n - len(train)]
    return train


def _listed(settings: ListedSplit, counts: tuple[int, ...]) -> list[Composition]:
    train = [parse_code(text) for text in settings.train]
    for text, composition in zip(settings.train, train, strict=True):
        fits = len(composition) == len(counts) and all(v < n for v, n in zip(composition, counts, strict=False))
        if not fits:
            raise UserError(
                f"split listed: '{text}' is no composition of this world, whose factors have {list(counts)} values."
            )
    return train


def _refuse_impossible(split: Split, names: Sequence[str], needs_level: int) -> None:
    if not split.train:
        raise UserError("the split trains nothing: no composition is in its training set.")
    for factor, (name, count) in enumerate(zip(names, split.counts, strict=True)):
        missing = sorted(set(range(count)) - {c[factor] for c in split.train})
        if missing:
            raise UserError(
                f"the split never trains {name} = {missing[0]}: a model cannot recombine a value it has not seen; "
                "add a composition with it."
            )
    if split.deepest == 0:
        raise UserError("the split trains every composition: nothing is held out, so there is nothing to test.")
    if split.deepest < needs_level:
        raise UserError(
            f"the split has no level-{needs_level} composition (the farthest is level {split.deepest}): "
            "train fewer, or lower needs_level."
        )
