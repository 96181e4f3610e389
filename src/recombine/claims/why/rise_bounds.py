"""Rises that had begun before anything was measured: their widths and half steps lie between bounds.

Widths and half steps are read from straight lines that begin at 0 in step 0. Where the first evaluation already is at
or above the height that is looked for, that line was not measured: the height was reached in one of the steps from 0
to the first evaluation, no one knows which. Such a seed is not left out, which would take away the earliest; it is
counted with the least and with the most that it can be. Shapes: E evaluations, S seeds.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from recombine.claims.tables import Curve, over_time
from recombine.claims.tokenizer import HIGH, LOW, crossing, width
from recombine.judges.statistics import Interval, interval, paired


@dataclass(frozen=True)
class Bounds:
    """A number for each seed, (S,): known where both ends are the same."""

    least: np.ndarray
    most: np.ndarray

    @property
    def known(self) -> np.ndarray:
        """(S,), bool."""
        return self.least == self.most

    @property
    def unknown(self) -> int:
        """Of how many seeds it is not known."""
        return int((~self.known).sum())

    @property
    def middle(self) -> float:
        """The mean over seeds, of those that are not known the middle."""
        return float((self.least + self.most).mean() / 2)

    def interval(self, share: bool = False) -> Interval:
        """The mean's 95 % interval, whose ends hold whatever the unknown ones are."""
        low, high = interval(self.least, share).low, interval(self.most, share).high
        return Interval(self.middle, low, high, len(self.least))


def difference(a: Bounds, b: Bounds) -> Interval:
    """a - b paired by seed, with ends that hold whatever the unknown ones are."""
    low, high = paired(a.least, b.most).low, paired(a.most, b.least).high
    return Interval(a.middle - b.middle, low, high, len(a.least))


def width_between(steps: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """The least and the most that the width of a curve's rise (E,) can be.

    Where the first evaluation has 20 % of the end, t20 lies between step 0 and it; where it has 80 %, so does t80, and
    nothing is known of the width.
    """
    final = float(over_time(values, "last fifth"))
    if final <= 0 or values[0] < LOW * final:
        found = width(steps, values)[0]
        return found, found
    if values[0] >= HIGH * final:
        return 0.0, 1.0
    return 1 - float(steps[0]) / crossing(steps, values, HIGH * final), 1.0


def own_widths(curve: Curve) -> Bounds:
    """The width of each seed's rise."""
    pairs = [width_between(curve.steps, values) for values in curve.values.T]
    return Bounds(np.array([least for least, _ in pairs]), np.array([most for _, most in pairs]))


def mean_width(curve: Curve) -> tuple[float, float]:
    """The least and the most that the width of the mean curve can be."""
    return width_between(curve.steps, curve.values.mean(axis=1))


def half_steps(curve: Curve) -> Bounds:
    """The step at which each seed first reaches half of its own end."""
    ends = over_time(curve.values, "last fifth")
    steps = [crossing(curve.steps, values, end / 2) for values, end in zip(curve.values.T, ends, strict=True)]
    missed = curve.values[0] >= ends / 2
    return Bounds(np.where(missed, 0.0, steps), np.where(missed, float(curve.steps[0]), steps))


def lags(halves: Mapping[str, Bounds], label: str) -> Bounds:
    """By how much level-2 comes after something, as a share of the way to its own half, which must be known."""
    own, other = halves["level-2"].least, halves[label]
    return Bounds((own - other.most) / own, (own - other.least) / own)


def still_to_come(curve: Curve) -> np.ndarray:
    """Whether a seed's first evaluation lies below 80 % of its own end, (S,): else its rise cannot be seen at all."""
    return np.asarray(curve.values[0] < HIGH * over_time(curve.values, "last fifth"))
