"""What E2 looks at: the arms that differ in what dropout may touch, and what an arm loses late.

An arm *falls* in a composition from its early height to the end (`cells`). What it *has* of a column at the end is
compared between arms up to the same step, and what it *loses* is counted against the arm without dropout.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from recombine.claims import lookup, testing
from recombine.claims.conditioning import DROPOUT
from recombine.claims.tables import Arm, Measure, StudyTable
from recombine.claims.testing import share_text
from recombine.claims.why.answers import MOST, above_zero, matters
from recombine.claims.why.cells import Cells, FactorWords, cells, early, late, peaks
from recombine.judges.statistics import Difference, interval, paired


@dataclass(frozen=True)
class Loss:
    """Where an arm falls: the compositions, how far each factor falls there, and the factor that is lost most."""

    own: Cells
    column: str  # what falls: right and valid, or named right
    lost: tuple[str, ...]  # compositions
    factor: FactorWords | None
    by_factor: Mapping[str, Difference]  # over those compositions
    p: Mapping[str, float]

    @property
    def watched(self) -> str:
        """The column by which arms are compared: the lost factor's, or what falls where no factor clearly does."""
        return self.factor.column if self.factor else self.column

    @property
    def what(self) -> str:
        """That column in words."""
        return f"{self.factor.name} named right" if self.factor else "right pictures"

    @cached_property
    def fall(self) -> np.ndarray:
        """From early to late, mean over the compositions, (S,)."""
        return fall_of(self.own, self.lost, self.column)


def fall_of(own: Cells, codes: Sequence[str], column: str, by: str | None = None) -> np.ndarray:
    """How far a column falls, mean over compositions, (S,): from the peak of `by` (or itself) in each of them."""
    found = []
    for code in codes:
        values = own.share(code, column)
        found.append(early(values, peaks(own.share(code, by or column))) - late(values))
    return np.mean(found, axis=0)


def losses(arm: Arm, seeds: Sequence[int], column: str, factors: Sequence[FactorWords]) -> Loss:
    """Which held-out compositions of an arm clearly fall by an amount that matters, and by which factor."""
    own = cells(arm, seeds)
    tests = {code: above_zero(fall_of(own, (code,), column)) for code in own.held_out}
    p = testing.corrected(tests)
    lost = tuple(code for code, test in tests.items() if matters(test, p[code]))
    if not lost:
        return Loss(own, column, (), None, {}, {})
    by_factor = {one.name: above_zero(fall_of(own, lost, one.column, column)) for one in factors}
    q = testing.corrected(by_factor)
    gone = [one for one in factors if matters(by_factor[one.name], q[one.name])]
    factor = max(gone, key=lambda one: by_factor[one.name].mean, default=None)
    return Loss(own, column, lost, factor, by_factor, q)


@dataclass(frozen=True)
class Arms:
    """The arms of one kind of conditioning, full or quantized, and the seeds that all of them have."""

    kind: str
    plain: Arm
    dropped: Arm
    faulty: Arm | None  # dropout that tells class 0
    partial: tuple[tuple[frozenset[str], Arm], ...]  # those whose dropout touches some factors only
    seeds: list[int]


def withheld_of(arm: Arm, factors: Sequence[FactorWords]) -> frozenset[str]:
    """The factors that an arm's dropout may touch: all, unless its settings name some."""
    chosen = arm.setting("conditioning.withheld")
    return frozenset(map(str, chosen)) if chosen else frozenset(one.name for one in factors)


def find_arms(
    study: StudyTable, others: Mapping[str, StudyTable], kind: str, factors: Sequence[FactorWords]
) -> Arms | None:
    """None where the arm without dropout, or the one whose dropout touches every factor, is not in the study.

    Arms beside these two are left out where too few seeds are in common, or where they did not learn what they were
    trained on.
    """
    every = frozenset(one.name for one in factors)

    def found(names: Sequence[str], missing: str) -> list[Arm]:
        tables = [study, *(others[name] for name in names if name in others)]
        return [arm for table in tables for arm in lookup.matching(table, lookup.told(kind, DROPOUT, missing))]

    plain = lookup.nearest(lookup.matching(study, lookup.told(kind, 0)), None, ())
    whole = [arm for arm in found((), "unknown") if withheld_of(arm, factors) == every]
    dropped = lookup.nearest(whole, plain, ("conditioning",))
    if plain is None or dropped is None:
        return None
    seeds = testing.agreed_seeds(study, [plain, dropped])
    faulty = lookup.nearest(found(lookup.MISLABELLED, "zero"), dropped, ("conditioning",))
    some = [arm for arm in found(lookup.WITHHELD, "unknown") if withheld_of(arm, factors) != every]
    kept = []
    for arm in [*([] if faulty is None else [faulty]), *some]:
        shared = [seed for seed in seeds if seed in arm.seeds]
        if len(shared) >= testing.FEWEST_SEEDS.value and testing.learned(arm, Measure(), shared):
            seeds = shared
            kept.append(arm)
    partial = tuple((withheld_of(arm, factors), arm) for arm in some if arm in kept)
    return Arms(kind, plain, dropped, faulty if faulty in kept else None, partial, seeds)


@dataclass(frozen=True)
class Ends:
    """What arms have of the watched column at the end, in the compositions that the subject loses."""

    arms: Arms
    subject: Arm  # the arm whose loss is to be explained
    loss: Loss

    def share(self, arm: Arm, until: int | None = None) -> np.ndarray:
        """(S,)."""
        return late(cells(arm, self.arms.seeds, until).mean(self.loss.lost, self.loss.watched))

    def lost(self, arm: Arm, until: int) -> np.ndarray:
        """Against the arm without dropout, (S,)."""
        return self.share(self.arms.plain, until) - self.share(arm, until)

    def against_half(self, arm: Arm, of: Arm | None = None) -> Difference:
        """What an arm loses minus half of what another does, the subject unless one is named."""
        other = of or self.subject
        until = min(arm.steps, other.steps, self.arms.plain.steps)
        return paired(self.lost(arm, until), MOST.value * self.lost(other, until))

    def text(self, arm: Arm) -> str:
        return share_text(interval(self.share(arm), share=True))

    @cached_property
    def nothing(self) -> bool:
        """Whether the subject has clearly lost nothing that the arm without dropout still has."""
        test = above_zero(self.lost(self.subject, min(self.subject.steps, self.arms.plain.steps)))
        return not matters(test, test.p)
