"""Statistics over members: the seed is the unit, never the image.

A thousand images of one trained model say how good that model is, not how good its arm is; so every function here takes
one number per member, and the spread between members is the only spread that counts.

The primary p-value is the paired t-test's. The exact sign-flip test needs no normality, but with n members it can never
go under 2 / 2^n (0.25 with three), so no number of images could ever show a difference between two arms of three seeds;
it is given beside the t-test as `p_signflip` for the reader who doubts the normality. Whether either is believed after
many comparisons is decided by Holm's correction.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy import stats

from recombine.errors import UserError

Rows = Iterable[Mapping[str, Any]]
"""The rows of results.parquet: a list of dictionaries, or the pyarrow Table itself."""

MOST_SIGN_FLIPS = 12
"""Up to so many members all 2^n sign flips are listed; with more, the t-test's normality is not in doubt."""

ROUNDING = 1e-12
"""Differences that agree to this are taken as exactly equal: averages of shares differ in the last bit."""


@dataclass(frozen=True)
class Interval:
    """A mean over n members with its confidence interval. With one member the ends are None: it has no spread."""

    mean: float
    low: float | None
    high: float | None
    n: int

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.mean:.3f} (one member: no interval)"
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Difference:
    """The mean of a - b over members paired by seed. With one pair the ends and p-values are None."""

    mean: float
    low: float | None
    high: float | None
    p: float | None  # paired t-test, two-sided
    p_signflip: float | None  # exact sign-flip test, two-sided; None above MOST_SIGN_FLIPS members
    n: int


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests (Schuirmann 1987): is |a - b| smaller than the margin? p is the larger of the two."""

    mean: float
    low: float | None  # the interval at 1 - 2 alpha: equivalent exactly if it lies within the margin
    high: float | None
    margin: float
    p: float | None
    equivalent: bool
    n: int


@dataclass(frozen=True)
class Comparison:
    """Two arms at one level and step, paired by seed. p_corrected is Holm's over the comparisons made together."""

    arm_a: str
    arm_b: str
    level: int
    step: int
    difference: Difference
    p_corrected: float | None


@dataclass(frozen=True)
class Summary:
    """One arm at one level and step: the mean over members of a column, averaged over the level's compositions."""

    arm: str
    level: int
    step: int
    interval: Interval


def _spread(values: np.ndarray) -> float:
    """Standard error of the mean over members; exactly 0 where they agree up to rounding."""
    if np.ptp(values) <= ROUNDING:
        return 0.0
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def _finite(values: Sequence[float] | np.ndarray, what: str) -> np.ndarray:
    """One finite number per member, (members,), or the sentence that says what is wrong."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0 or not np.isfinite(array).all():
        raise UserError(f"Statistics need one finite number per member for {what}; got {array.tolist()}.")
    return array


def interval(values: Sequence[float] | np.ndarray, share: bool = False, confidence: float = 0.95) -> Interval:
    """Mean of `values` (members,) with Student's t interval.

    For a `share` the ends are clipped to [0, 1], where the truth must lie: this can only tighten the interval and
    changes its coverage by nothing. If all members agree the interval has no width, which says that no spread was
    seen, not that there is none.
    """
    array = _finite(values, "an interval")
    n, mean = len(array), float(array.mean())
    if n == 1:
        return Interval(mean, None, None, 1)
    reach = float(stats.t.ppf(0.5 + confidence / 2, n - 1)) * _spread(array)
    low, high = mean - reach, mean + reach
    if share:
        low, high = max(low, 0.0), min(high, 1.0)
    return Interval(mean, low, high, n)


def _pairs(a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray) -> np.ndarray:
    """The differences a - b, (members,)."""
    first, second = _finite(a, "the first arm"), _finite(b, "the second arm")
    if len(first) != len(second):
        raise UserError(f"Arms are paired by seed, but one has {len(first)} members and the other {len(second)}.")
    return first - second


def _signflip(differences: np.ndarray) -> float | None:
    """Share of all 2^n sign patterns whose mean is at least as far from 0 as the one seen."""
    n = len(differences)
    if n > MOST_SIGN_FLIPS:
        return None
    signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)[None]) & 1)  # (2^n, n)
    totals = np.abs(signs @ differences)
    return float((totals >= abs(differences.sum()) - 1e-12).mean())


def paired(a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray, confidence: float = 0.95) -> Difference:
    """Mean difference a - b of members paired by seed, with its t interval and p-values.

    Differences that are all equal have no spread, so t is 0/0 or infinite: all zero gives p = 1 (nothing differs). All
    the same other number gives the sign-flip test's 2 / 2^n: shares of a few samples tie by chance, and two seeds that
    happen to agree must not pass for certainty.
    """
    differences = _pairs(a, b)
    n, mean = len(differences), float(differences.mean())
    if n == 1:
        return Difference(mean, None, None, None, None, 1)
    error = _spread(differences)
    if error == 0.0:
        p = 1.0 if abs(mean) <= ROUNDING else 2.0 ** (1 - n)
    else:
        p = float(2 * stats.t.sf(abs(mean) / error, n - 1))
    reach = float(stats.t.ppf(0.5 + confidence / 2, n - 1)) * error
    return Difference(mean, mean - reach, mean + reach, p, _signflip(differences), n)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjusted p-values (Holm 1979), in the order given. None (no test was possible) stays None."""
    tested = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, i) in enumerate(tested):
        highest = max(highest, min(1.0, (len(tested) - rank) * p))  # never smaller than that of a smaller p
        adjusted[i] = highest
    return adjusted


def equivalent(
    a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray, margin: float, alpha: float = 0.05
) -> Equivalence:
    """Are a and b, paired by seed, equal within `margin`? A large p of `paired` never shows that; this does."""
    if not margin > 0:
        raise UserError(f"The margin of an equivalence test must be greater than 0; got {margin}.")
    differences = _pairs(a, b)
    n, mean = len(differences), float(differences.mean())
    if n == 1:
        return Equivalence(mean, None, None, margin, None, False, 1)
    error = _spread(differences)
    if error == 0.0:
        p = 0.0 if abs(mean) < margin else 1.0
    else:
        p = float(stats.t.sf((margin - abs(mean)) / error, n - 1))  # the nearer end decides
    reach = float(stats.t.ppf(1 - alpha, n - 1)) * error
    return Equivalence(mean, mean - reach, mean + reach, margin, p, p < alpha, n)


def _rows(table: Any) -> list[Mapping[str, Any]]:
    """The rows of a pyarrow Table, or of any iterable of dictionaries."""
    rows: list[Mapping[str, Any]] = list(table.to_pylist() if hasattr(table, "to_pylist") else table)
    if not rows:
        raise UserError("The results table is empty; run the study before summarizing it.")
    return rows


def member_means(table: Any, column: str = "joint") -> dict[tuple[str, int, int], dict[int, float]]:
    """{(arm, level, step): {seed: mean of `column` over the level's compositions}}, arms in the table's order.

    Every member must have been judged on the same compositions; an average over others would not be comparable.
    """
    cells: dict[tuple[str, int, int], dict[int, dict[str, float]]] = {}
    for row in _rows(table):
        if column not in row:
            raise UserError(f"The results table has no column {column!r}; it has {', '.join(sorted(row))}.")
        key = (str(row["arm"]), int(row["level"]), int(row["step"]))
        values = cells.setdefault(key, {}).setdefault(int(row["seed"]), {})
        if row["composition"] in values:
            raise UserError(f"The results table has composition {row['composition']} of {key} and one seed twice.")
        values[row["composition"]] = float(row[column])
    for (arm, level, step), members in cells.items():
        if len({frozenset(values) for values in members.values()}) > 1:
            raise UserError(
                f"Members of arm {arm} were judged on different compositions at level {level}, step {step}."
            )
    return {
        key: {seed: sum(values.values()) / len(values) for seed, values in members.items()}
        for key, members in cells.items()
    }


def _last_steps(means: Mapping[tuple[str, int, int], Any]) -> dict[str, int]:
    """The last evaluated step of each arm."""
    last: dict[str, int] = {}
    for arm, _, step in means:
        last[arm] = max(last.get(arm, step), step)
    return last


def summarize(table: Any, column: str = "joint", every_step: bool = False) -> list[Summary]:
    """Per arm and level the interval over members of `column` (a share), at the arm's last step or at `every_step`.

    Arms keep the table's order; levels and steps ascend.
    """
    means = member_means(table, column)
    last = _last_steps(means)
    order = {arm: i for i, arm in enumerate(dict.fromkeys(arm for arm, _, _ in means))}
    return [
        Summary(arm, level, step, interval(list(means[arm, level, step].values()), share=True))
        for arm, level, step in sorted(means, key=lambda key: (order[key[0]], key[1], key[2]))
        if every_step or step == last[arm]
    ]


def compare_arms(table: Any, level: int, column: str = "joint") -> list[Comparison]:
    """All pairs of arms at their last steps, paired by seed, Holm-corrected over the pairs.

    Seeds that only one arm of a pair has are left out (`difference.n` says how many were used); a pair that shares no
    seed is an error, since unpaired arms are another test.
    """
    means = member_means(table, column)
    last = _last_steps(means)
    arms = [arm for arm in last if (arm, level, last[arm]) in means]
    if not arms:
        raise UserError(f"The results table has no compositions of level {level}.")
    found = []
    for arm_a, arm_b in combinations(arms, 2):
        a, b = means[arm_a, level, last[arm_a]], means[arm_b, level, last[arm_b]]
        seeds = sorted(a.keys() & b.keys())
        if not seeds:
            raise UserError(f"Arms {arm_a} and {arm_b} have no seed in common, so they cannot be compared in pairs.")
        found.append((arm_a, arm_b, paired([a[s] for s in seeds], [b[s] for s in seeds])))
    corrected = holm([difference.p for _, _, difference in found])
    return [
        Comparison(arm_a, arm_b, level, max(last[arm_a], last[arm_b]), difference, p)
        for (arm_a, arm_b, difference), p in zip(found, corrected, strict=True)
    ]
