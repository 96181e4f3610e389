"""An arm's learning curves composition by composition, and how much of an early height is lost by the end.

"Early" is the moment at which the *other* seeds' mean is highest: a seed's own highest point is partly chance, and
counting from it would find a fall in any noisy curve. "Late" is the mean of the last fifth of the evaluations, as in
the claims. Shapes: E evaluations, S seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from recombine.claims.tables import Arm, StudyTable, over_time
from recombine.claims.verdicts import Untested
from recombine.report.words import join


@dataclass(frozen=True)
class FactorWords:
    """A factor of the study's world: its column of results and the words of its values, if they are known."""

    place: int  # its digit in a composition
    name: str
    values: tuple[str, ...]

    @property
    def column(self) -> str:
        return f"factor_{self.name}"

    def value(self, code: str) -> str:
        """The value that a composition asks for, in words."""
        digit = code[self.place]
        return self.values[int(digit)] if digit.isdigit() and int(digit) < len(self.values) else digit


def in_words(code: str, factors: Sequence[FactorWords]) -> str:
    """A composition with its words, where they are known: "101 (triangle, red, small)"."""
    known = all(factor.values for factor in factors)
    return f"{code} ({', '.join(factor.value(code) for factor in factors)})" if known else code


def factors_of(study: StudyTable) -> list[FactorWords]:
    """The factors in the order of a composition's digits; raises Untested where the table does not tell them apart."""
    columns = [name.removeprefix("factor_") for name in study.finished.rows[0] if name.startswith("factor_")]
    if not columns:
        raise Untested(f"the table of {study.name} does not tell the factors apart")
    words = {str(one.get("name")): one.get("values") or [] for one in study.finished.part("world").get("factors") or []}
    names = list(words) if set(words) == set(columns) else columns
    return [FactorWords(i, name, tuple(map(str, words.get(name, ())))) for i, name in enumerate(names)]


@dataclass(frozen=True)
class Cells:
    """The curves of an arm's seeds, for every composition and column."""

    arm: Arm
    seeds: tuple[int, ...]
    steps: np.ndarray  # (E,), ascending
    levels: Mapping[str, int]  # {composition: its level}
    _shares: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)

    @cached_property
    def _rows(self) -> dict[tuple[str, int, int], Mapping[str, float]]:
        rows = (row for row in self.arm.study.finished.rows if row["arm"] == self.arm.name)
        return {(row["composition"], row["step"], row["seed"]): row for row in rows}

    def share(self, code: str, column: str) -> np.ndarray:
        """(E, S)."""
        if (code, column) not in self._shares:
            rows = self._rows
            found = [[rows[code, int(step), seed][column] for seed in self.seeds] for step in self.steps]
            self._shares[code, column] = np.array(found)
        return self._shares[code, column]

    def mean(self, codes: Sequence[str], column: str) -> np.ndarray:
        """Mean over compositions, (E, S)."""
        return np.mean([self.share(code, column) for code in codes], axis=0)

    def at(self, *levels: int) -> list[str]:
        return [code for code, level in self.levels.items() if level in levels]

    @property
    def held_out(self) -> list[str]:
        return [code for code, level in self.levels.items() if level > 0]


def cells(arm: Arm, seeds: Sequence[int], until: int | None = None) -> Cells:
    """The curves of these seeds, from the evaluations up to the step `until`."""
    curve = arm.curve()
    steps = curve.steps if until is None else curve.steps[curve.steps <= until]
    return Cells(arm, tuple(seeds), steps if len(steps) else curve.steps[:1], arm.study.finished.levels_of[arm.name])


def peaks(values: np.ndarray) -> np.ndarray:
    """For each seed the evaluation at which the mean of the other seeds is highest, the first where several are: (E, S)
    to (S,)."""
    others = values.sum(axis=1, keepdims=True) - values
    return np.round(others, 9).argmax(axis=0)


def early(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Curves (E, S) at each seed's own evaluation (S,)."""
    return values[at, np.arange(values.shape[1])]


def late(values: np.ndarray) -> np.ndarray:
    """Curves (E, S) over the last fifth, (S,)."""
    return over_time(values, "last fifth")


def parted(valid: np.ndarray, right: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A fall of the right and valid share, from `at` to the last fifth, in two parts (S,) that add up to it: what
    fewer valid pictures take, and what fewer right ones among the valid take.

    With v the share valid and r that of the valid ones that are right, v r - v' r' = (v - v') (r + r') / 2 +
    (r - r') (v + v') / 2. Where no picture is valid r is not known, and taken not to have changed.
    """
    before, after = early(valid, at), late(valid)
    shares = []
    for whole, share in ((before, early(right, at)), (after, late(right))):
        shares.append(np.divide(share, whole, out=np.full_like(share, np.nan), where=whole > 0))
    was, now = (np.where(np.isnan(a), np.nan_to_num(b), a) for a, b in (shares, shares[::-1]))
    return (before - after) * (was + now) / 2, (was - now) * (before + after) / 2


def inward(code: str, factor: FactorWords, levels: Mapping[str, int]) -> list[str]:
    """The compositions nearer to training that exchanging this factor's value gives."""
    i = factor.place
    near = [other for other in levels if other[:i] == code[:i] and other[i + 1 :] == code[i + 1 :]]
    return [other for other in near if levels[other] < levels[code]]


def towards(code: str, factor: FactorWords, levels: Mapping[str, int]) -> str:
    """Where exchanging a factor leads, in words: "towards 100"."""
    near = inward(code, factor, levels)
    return f"towards {join(near, 'or')}" if near else "away from training"
