"""Which compositions are trained on, and how far from them every other one lies.

The level of a composition is its Hamming distance to the nearest trained one: 0 is trained, 1 differs from something
trained in one factor, 2 in two, and so on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from scipy.stats import entropy

from recombine.errors import UserError
from recombine.randomness import Draws, seeds_tensor
from recombine.settings import Settings

FEWER_SEED = 0  # of the order in which an arm with fewer compositions takes them
FITTED = 1e-12  # shares of factor values may be this far from what is asked

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


def pairs_seen(composition: Composition, train: Iterable[Composition]) -> int:
    """How many pairs of its values (every two factors) some trained composition has together: all of a trained one."""
    places = list(combinations(range(len(composition)), 2))
    together = {(i, j, one[i], one[j]) for one in train for i, j in places}
    return sum((i, j, composition[i], composition[j]) in together for i, j in places)


class _Kind(Settings):
    needs_level: int = Field(
        default=1, ge=1, le=1000, description="refuse the split if no composition lies this far from training"
    )


class HammingSplit(_Kind):
    """Train the all-zero composition and those that differ from it in at most `distance` factors (the papers'
    split)."""

    kind: Literal["hamming"] = Field(
        default="hamming", description="the all-zero composition and those near it are trained: the papers' split"
    )
    distance: int = Field(
        default=1, ge=1, le=1000, description="how many factors of a trained composition may differ from zero"
    )


class BoxSplit(_Kind):
    """Each factor's values fall in a common part (the first `common`) and a rare one; a composition is trained when at
    most `rare` of its factors take rare values, so an axis-aligned box (an orthotope) is held out in the far corner."""

    kind: Literal["box"] = Field(
        default="box",
        description="a box in the far corner is held out, where too many factors take rare values at once",
    )
    common: tuple[Annotated[int, Field(le=1000)], ...] = Field(
        description="per factor, how many of its first values are common"
    )
    rare: int | None = Field(
        default=None,
        ge=0,
        le=1000,
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
    n: int = Field(ge=1, le=1_000_000, description="how many compositions are trained")
    k: int = Field(
        default=1, ge=1, le=1_000_000, description="every factor value is in at least this many trained compositions"
    )
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
        train = _listed(settings.train, counts, "split listed")
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


def _cover_order(compositions: Sequence[Composition], counts: Sequence[int], k: int, seed: int) -> list[Composition]:
    """The compositions in an order drawn by `seed`, but those first that show every factor value `k` times soonest.

    Its beginnings are nested: more compositions are always the same and some others. A value that is in fewer than `k`
    of them is asked for no further.
    """
    order = Draws(seeds_tensor([seed]), "random split").uniform(len(compositions))[0].argsort().tolist()
    left = [compositions[i] for i in order]
    short = [[min(k, sum(c[f] == v for c in left)) for v in range(count)] for f, count in enumerate(counts)]
    chosen: list[Composition] = []
    while any(times > 0 for factor in short for times in factor):
        # The composition that helps the most short values; ties fall to the random order.
        best = max(left, key=lambda c: sum(short[f][v] > 0 for f, v in enumerate(c)))
        left.remove(best)
        chosen.append(best)
        for factor, value in enumerate(best):
            short[factor][value] -= 1
    return chosen + left


def _shows_all(compositions: Sequence[Composition], counts: Sequence[int], k: int) -> bool:
    """Whether every factor value is in at least `k` of the compositions."""
    return all(
        sum(c[f] == value for c in compositions) >= k for f, count in enumerate(counts) for value in range(count)
    )


def _random(settings: RandomSplit, counts: tuple[int, ...], everything: list[Composition]) -> list[Composition]:
    """First cover: take compositions in random order that add to a value still short of k. Then fill up to n."""
    possible = min(len(everything) // count for count in counts)
    if settings.k > possible:
        raise UserError(
            f"split random: k = {settings.k}, but a factor value is in only {possible} compositions; lower k."
        )
    if settings.n > len(everything):
        raise UserError(f"split random: n = {settings.n}, but the world has only {len(everything)} compositions.")
    order = _cover_order(everything, counts, settings.k, settings.seed)
    if not _shows_all(order[: settings.n], counts, settings.k):
        needed = next(n for n in range(1, len(order) + 1) if _shows_all(order[:n], counts, settings.k))
        raise UserError(
            f"split random: n = {settings.n} compositions cannot show every factor value {settings.k} times; "
            f"use n >= {needed}."
        )
    return order[: settings.n]


def _listed(codes: Sequence[str], counts: tuple[int, ...], where: str) -> list[Composition]:
    train = [parse_code(text) for text in codes]
    for text, composition in zip(codes, train, strict=True):
        fits = len(composition) == len(counts) and all(v < n for v, n in zip(composition, counts, strict=False))
        if not fits:
            raise UserError(
                f"{where}: '{text}' is no composition of this world, whose factors have {list(counts)} values."
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


def fewer(split: Split, compositions: int | Sequence[str] | None) -> Split:
    """The split that trains on so many of the compositions this one does (None: on all of them), with its own levels;
    or on exactly those that are listed, be they in this one or not.

    So many are the first of one fixed order, so that fewer are always among more, and every factor value is among them.
    """
    if compositions is None:
        return split
    if not isinstance(compositions, int):
        return _exactly(split, compositions)
    order = _cover_order(split.train, split.counts, 1, FEWER_SEED)
    if compositions > len(order):
        raise UserError(
            f"training.compositions is {compositions}, but the split trains only {len(order)}: lower it, or leave "
            "it out."
        )
    least = next(n for n in range(1, len(order) + 1) if _shows_all(order[:n], split.counts, 1))
    if compositions < least:
        raise UserError(
            f"training.compositions is {compositions}, but the split needs {least} to show every factor value: "
            "raise it."
        )
    return Split(split.counts, tuple(sorted(order[:compositions])))


def _exactly(split: Split, codes: Sequence[str]) -> Split:
    train = _listed(codes, split.counts, "training.compositions")
    if not _shows_all(train, split.counts, 1):
        raise UserError(
            "training.compositions lacks a value of some factor: a model cannot recombine a value it has not seen; "
            "list a composition with it."
        )
    found = Split(split.counts, tuple(sorted(set(train))))
    if found.deepest == 0:
        raise UserError("training.compositions lists every composition: nothing is held out. List fewer.")
    return found


def agreement(composition: Composition, counts: Sequence[int]) -> float:
    """How far the factors agree, summed over pairs of them: 1 less the distance of their places in their ranges."""
    places = [value / max(count - 1, 1) for value, count in zip(composition, counts, strict=True)]
    return sum(1.0 - abs(a - b) for a, b in combinations(places, 2))


def composition_weights(split: Split, dependence: float = 0.0) -> np.ndarray:
    """The share of each trained composition (K,), in the order of `split.train`; equal at dependence 0.

    Weights w(c) = exp(dependence * agreement(c)) * (a number for each factor value), the numbers such that every factor
    value keeps the share that it has at dependence 0. Of all weights with these shares and as much mean agreement they
    are the nearest to equal ones (an I-projection: Csiszar 1975), found by fitting the shares of one factor after the
    other (Deming and Stephan 1940). So nothing but the dependence of the factors changes, and their multi-information
    grows with it. Of two factors with two values each, all four combinations trained, the correlation is
    tanh(dependence / 2). The definition is ours.
    """
    train = np.array(split.train)  # (K, F)
    tilt = np.array([agreement(c, split.counts) for c in split.train])
    weights = np.exp(dependence * (tilt - tilt.max()))
    weights /= weights.sum()
    places = [train[:, f, None] == np.arange(count)[None] for f, count in enumerate(split.counts)]  # (K, values) each
    shares = [place.mean(0) for place in places]
    for _ in range(100_000):
        for place, share in zip(places, shares, strict=True):
            weights = weights * (place @ (share / (weights @ place)))
        if (
            max(float(np.abs(weights @ place - share).max()) for place, share in zip(places, shares, strict=True))
            < FITTED
        ):
            break
    return weights


def multi_information(split: Split, weights: np.ndarray) -> float:
    """How far from independent the factors are under these weights, in bits: the sum of the factors' entropies less the
    entropy of the composition (Watanabe 1960). 0: independent."""
    train = np.array(split.train)
    own = [np.bincount(train[:, f], weights, count) for f, count in enumerate(split.counts)]
    return float(sum(entropy(share, base=2) for share in own) - entropy(weights, base=2))


def images_each(split: Split, per_composition: int, dependence: float = 0.0) -> list[int]:
    """Training images of each composition, `per_composition` on average: by their weights, rounded so that the sum is
    exact (largest remainders first)."""
    exact = composition_weights(split, dependence) * per_composition * len(split.train)
    counts = np.floor(exact + 1e-6).astype(int)
    rest = per_composition * len(split.train) - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:rest]] += 1
    return counts.tolist()


def check_weights(split: Split, per_composition: int, dependence: float) -> None:
    """UserError where dependence cannot be had, or leaves a composition without an image."""
    if dependence == 0.0:
        return
    weights = composition_weights(split, dependence)
    if np.abs(weights - 1.0 / len(weights)).max() < 1e-9:
        raise UserError(
            "training.dependence does nothing here: among the trained compositions only equal weights give every "
            "factor value its share; train more compositions (split: box, say), or leave it out."
        )
    if min(images_each(split, per_composition, dependence)) == 0:
        raise UserError(
            f"training.dependence {dependence:g} leaves a trained composition without a single image: lower it, or "
            "raise training.images."
        )
