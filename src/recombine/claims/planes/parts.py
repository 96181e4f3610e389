"""What the functions of F1 to F9 are made of: thresholds, and parts of a verdict about one arm, or one against another.

The seed is the unit: means have 95 % intervals over seeds, comparisons are paired by seed, p-values of one claim are
Holm-corrected together. An arm that does not fit what it was trained on says nothing about the hole. What the
published study gives no threshold for has one of ours, with its reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recombine.claims.planes.table import PlaneTable, setting
from recombine.claims.testing import CLEAR, FEWEST_SEEDS, MATTERS
from recombine.claims.verdicts import Part, Threshold, Untested
from recombine.judges.statistics import Difference, Interval, interval, paired
from recombine.report.words import p_value, percent

FITTED = Threshold(
    "fitted",
    0.10,
    "squared error over that of a blank, on trained cells, of an arm that counts as fitted; the published CNN has "
    "0.015, the published MLP setting 0.8",
)
AS_BLANK = Threshold(
    "as blank", 0.50, "the same on held-out cells, of an arm that fails there; the published CNN has 0.85"
)
MISSES = Threshold("misses", 0.50, "an arm fails that has fewer held-out bumps in place; the published CNN has 29 %")
REPAIRED = Threshold("repaired", 0.90, "share of held-out bumps in place that counts as cured; published cures: 100 %")
SUPERPOSED = Threshold(
    "superposed", 0.50, "share of the memory in an output deep in the hole: more memory than truth; ours"
)
EXPLAINS = Threshold(
    "explains", 0.05, "by so much more R² must one family of kernels describe a layer than any other; ours"
)
SHRINKS = Threshold("shrinks", -0.30, "log10 of the volume outside less inside: half the volume; published -0.87")
ENTANGLES = Threshold(
    "entangles", 0.05, "rise of the mean absolute cosine of the two tangents from the code to the output; ours"
)
REACH = Threshold(
    "reach", 0.60, "share of held-out bumps in place for which examples are counted; the predecessor's 60 % accuracy"
)
SAME_POWER = Threshold(
    "same power",
    0.25,
    "an exponent is called cubic or linear when its interval comes so near 3 or 1: reading examples off a few training "
    "sets has an error that seeds share, which the interval does not show; ours",
)
SHARED = (CLEAR, FEWEST_SEEDS, FITTED)
CUBIC, LINEAR = 3.0, 1.0


@dataclass(frozen=True)
class Answer:
    """What a claim's function found: its parts, our number, the arms by what they stand for, and notes beside."""

    parts: tuple[Part, ...]
    ours: Interval
    arms: Mapping[str, str]
    notes: tuple[str, ...] = ()


def is_nothing(value: Any) -> bool:
    return not value


BUMPS = {"world.kind": "bumps", "data.stripes": is_nothing}
CNN = {**BUMPS, "decoder.kind": "cnn"}
STANDARD = {"CNN": "cnn", "MLP": "mlp", "transformer": "transformer"}


def plain_arm(table: PlaneTable, bump_code: bool = False) -> str:
    """The CNN without stripes: on the narrowest bump code, or where there is none and none is asked for, the first."""
    coded = table.matching({**CNN, "encoding.kind": "population"})
    found = coded or ([] if bump_code else table.matching(CNN))
    if not found:
        raise Untested(f"the study {table.name} has no CNN{' on a bump code' if bump_code else ''} without stripes")
    return min(found, key=lambda name: float(setting(table.arms[name], "encoding.width") or 1))


def agreed_seeds(table: PlaneTable, arms: Sequence[str]) -> list[int]:
    seeds = sorted(set.intersection(*(table.seeds(arm) for arm in arms)))
    if len(seeds) < FEWEST_SEEDS.value:
        raise Untested(
            f"the arms of the study {table.name} share {len(seeds)} seeds, and fewer than "
            f"{FEWEST_SEEDS.value:.0f} are not judged"
        )
    return seeds


def share_text(found: Interval) -> str:
    return percent(found.mean) if found.low is None else f"{percent(found.mean)} ({ends_text(found, 100)})"


def number_text(found: Interval) -> str:
    return f"{found.mean:.2f}" if found.low is None else f"{found.mean:.2f} ({ends_text(found, 1)})"


def ends_text(found: Interval, scale: float) -> str:
    digits = 0 if scale == 100 else 2
    return f"{scale * (found.low or 0):.{digits}f} to {scale * (found.high or 0):.{digits}f}"


def hits(table: PlaneTable, arm: str, seeds: Sequence[int], region: str = "held_out") -> Interval:
    return interval(table.values(arm, "hit", region, seeds), share=True)


def relative_error(table: PlaneTable, arm: str, seeds: Sequence[int], region: str = "held_out") -> float:
    return float(table.values(arm, "relative", region, seeds).mean())


def is_fitted(table: PlaneTable, arm: str, seeds: Sequence[int]) -> bool:
    return relative_error(table, arm, seeds, "trained") <= FITTED.value


def unfitted_text(label: str, table: PlaneTable, arm: str, seeds: Sequence[int]) -> str:
    error = relative_error(table, arm, seeds, "trained")
    return f"{label} has not fitted what it was trained on ({error:.2f} of a blank's error), so it tells nothing."


def is_clear(test: Difference, p: float | None) -> bool:
    """Whether a is clearly greater than b."""
    return test.mean > 0 and p is not None and p < CLEAR.value


def as_interval(test: Difference) -> Interval:
    return Interval(test.mean, test.low, test.high, test.n)


def fails_part(label: str, table: PlaneTable, arm: str, seeds: Sequence[int]) -> Part:
    """Does an arm fit inside and fail outside?"""
    name = f"{label} fails outside"
    if not is_fitted(table, arm, seeds):
        return Part(name, "open", unfitted_text(label, table, arm, seeds))
    hit, error = hits(table, arm, seeds), relative_error(table, arm, seeds)
    sentence = (
        f"{label} puts {share_text(hit)} of held-out bumps in place, with {error:.2f} of a blank's error (inside: "
        f"{percent(hits(table, arm, seeds, 'trained').mean)}, {relative_error(table, arm, seeds, 'trained'):.3f})"
    )
    misses = (hit.high if hit.high is not None else hit.mean) < MISSES.value
    blank = error >= AS_BLANK.value
    if misses and blank:
        return Part(name, "held", f"{sentence}.")
    if misses or blank:
        return Part(name, "in part", f"{sentence}: it fails by one of the two measures only.")
    return Part(name, "failed", f"{sentence}: it does not fail.")


def cures_part(label: str, table: PlaneTable, arm: str, base: str, seeds: Sequence[int], of: str) -> Part:
    """Does an arm put held-out bumps in place, clearly more than the arm it is compared with?"""
    name = f"{label} repairs"
    if not is_fitted(table, arm, seeds):
        return Part(name, "open", unfitted_text(label, table, arm, seeds))
    hit = hits(table, arm, seeds)
    test = paired(table.values(arm, "hit", "held_out", seeds), table.values(base, "hit", "held_out", seeds))
    p = 1.0 if test.p is None else test.p
    sentence = (
        f"{label} puts {share_text(hit)} of held-out bumps in place against "
        f"{share_text(hits(table, base, seeds))} of {of} ({100 * test.mean:+.0f} points, {p_value(p)}; "
        f"{relative_error(table, arm, seeds):.2f} against "
        f"{relative_error(table, base, seeds):.2f} of a blank's error)"
    )
    if not (is_clear(test, p) and test.mean >= MATTERS.value):
        return Part(name, "failed", f"{sentence}: no clear gain.")
    if hit.mean >= REPAIRED.value and relative_error(table, arm, seeds) < AS_BLANK.value:
        return Part(name, "held", f"{sentence}.")
    return Part(name, "in part", f"{sentence}: clearly better, but not cured.")


def gain_over(table: PlaneTable, arm: str, base: str, seeds: Sequence[int]) -> Interval:
    return as_interval(
        paired(table.values(arm, "hit", "held_out", seeds), table.values(base, "hit", "held_out", seeds))
    )
