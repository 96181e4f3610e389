"""What the functions of F1 to F9 are made of: thresholds, and parts of a verdict about one arm, or one against another.

The seed is the unit: means have 95 % intervals over seeds, comparisons are paired by seed, p-values of one claim are
Holm-corrected together. An arm that does not fit what it was trained on says nothing about the hole. What the
published study gives no threshold for has one of ours, with its reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recombine.anatomy.superposition import DEEP
from recombine.claims.planes.table import PlaneTable, setting
from recombine.claims.testing import CLEAR, FEWEST_SEEDS, MATTERS, possible, share_text
from recombine.claims.verdicts import Part, Threshold, Untested
from recombine.judges.statistics import Difference, Interval, interval, paired
from recombine.report import scaling
from recombine.report.words import p_value, percent, points

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
SHRINKS = Threshold("shrinks", -0.30, "log10 of the volume outside minus inside: half the volume; published -0.87")
ENTANGLES = Threshold(
    "entangles", 0.05, "rise of the mean absolute cosine of the two tangents from the code to the output; ours"
)
REACH = Threshold(
    "reach",
    scaling.REACH,
    "share of held-out bumps off the rim that are right and valid, for which examples are counted; the predecessor's "
    "60 % accuracy, on our score",
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


MOST_DIGITS = 4  # behind the point, of a number that fewer would hide


def plain(value: float, digits: int = 2) -> str:
    """A number with a real minus, not a hyphen; one that rounds to 0 has no sign."""
    text = f"{value:.{digits}f}"
    return text.replace("-", "\u2212") if float(text) else text.removeprefix("-")


def number_text(found: Interval) -> str:
    """ "0.82 (0.78 to 0.86)", with more digits where two would show no width, or an end as 0 that is not."""
    if found.low is None or found.high is None:
        return plain(found.mean)
    if found.low == found.high:  # no spread was seen, which is not certainty
        return f"{plain(found.mean)} (all seeds)"
    ends, digits = (found.low, found.high), 2

    def hides() -> bool:
        lost = any(end != 0 and not float(f"{end:.{digits}f}") for end in ends)
        return lost or plain(ends[0], digits) == plain(ends[1], digits)

    while digits < MOST_DIGITS and hides():
        digits += 1
    return f"{plain(found.mean, digits)} ({plain(ends[0], digits)} to {plain(ends[1], digits)})"


def beside_limit(value: float, limit: float, digits: int = 2) -> str:
    """A number with so many digits that its rounding stays on its side of a limit: 0.101 beside 0.1, not 0.10."""
    while digits < 6 and value != limit and not (float(f"{value:.{digits}f}") - limit) * (value - limit) > 0:
        digits += 1
    return f"{value:.{digits}f}"


def capital(text: str) -> str:
    """A sentence that begins with a capital letter."""
    return text[:1].upper() + text[1:]


def hits(table: PlaneTable, arm: str, seeds: Sequence[int], region: str = "held_out") -> Interval:
    return interval(table.values(arm, "hit", region, seeds), share=True)


def relative_error(table: PlaneTable, arm: str, seeds: Sequence[int], region: str = "held_out") -> float:
    return float(table.values(arm, "relative", region, seeds).mean())


def is_fitted(table: PlaneTable, arm: str, seeds: Sequence[int]) -> bool:
    return relative_error(table, arm, seeds, "trained") <= FITTED.value


def unfitted_text(label: str, table: PlaneTable, arm: str, seeds: Sequence[int]) -> str:
    """That an arm is not judged, and how many of its seeds are why: one that fails wholly can be the cause alone."""
    errors = table.values(arm, "relative", "trained", seeds)
    dull = sorted(float(error) for error in errors if error > FITTED.value)
    mean, limit = beside_limit(float(errors.mean()), FITTED.value), f"{FITTED.value:g}"
    if len(dull) == len(seeds):
        said = f"has not fitted what it was trained on ({mean} of a blank's error; the limit is {limit})"
        return capital(f"{label} {said}, so it tells nothing.")
    low, high = (beside_limit(error, FITTED.value) for error in (dull[0], dull[-1]))
    who = f"one has not, {low}" if len(dull) == 1 else f"{len(dull)} have not, {low} to {high}"
    fitted = len(seeds) - len(dull)
    have = "has" if fitted == 1 else "have"
    return capital(
        f"{label} is not judged: {fitted} of {len(seeds)} seeds {have} fitted what they were trained on; {who} of a "
        f"blank's error, so that the mean, {mean}, is above the limit of {limit}."
    )


def is_clear(test: Difference, p: float | None) -> bool:
    """Whether a is clearly greater than b."""
    return test.mean > 0 and p is not None and p < CLEAR.value


def as_interval(test: Difference) -> Interval:
    return Interval(test.mean, test.low, test.high, test.n)


def in_place_text(table: PlaneTable, arm: str, seeds: Sequence[int], limit: float) -> str:
    """The share of held-out bumps in place, which is compared with a limit: "29 % (25–33 %)"."""
    hit = hits(table, arm, seeds)
    text = share_text(hit)
    if abs(hit.mean - limit) < 0.005 and hit.mean != limit:  # the rounded share could be on the other side
        text = text.replace(percent(hit.mean), f"{100 * float(beside_limit(hit.mean, limit, 3)):g}\u00a0%", 1)
    return text


def valid_text(table: PlaneTable, arm: str, seeds: Sequence[int]) -> str:
    """The share in place and valid, for a strongest pixel can be in place without a bump; empty where it was not
    measured of all seeds."""
    both = table.by_seed(arm, "joint", "held_out")
    return percent(sum(both[seed] for seed in seeds) / len(seeds)) if set(seeds) <= set(both) else ""


def fails_part(label: str, table: PlaneTable, arm: str, seeds: Sequence[int]) -> Part:
    """Does an arm fit inside and fail outside?"""
    name = f"{label} fails outside"
    if not is_fitted(table, arm, seeds):
        return Part(name, "open", unfitted_text(label, table, arm, seeds))
    hit, error = hits(table, arm, seeds), relative_error(table, arm, seeds)
    there, inside = percent(hits(table, arm, seeds, "trained").mean), relative_error(table, arm, seeds, "trained")
    valid = valid_text(table, arm, seeds)
    sentence = capital(
        f"{label} puts {in_place_text(table, arm, seeds, MISSES.value)} of held-out bumps in place"
        f"{f', {valid} in place and valid' if valid else ''}, with {beside_limit(error, AS_BLANK.value)} of a blank's "
        f"error (inside: {there}, {beside_limit(inside, FITTED.value, 3)})"
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
    error, other = relative_error(table, arm, seeds), relative_error(table, base, seeds)
    shares = [in_place_text(table, arm, seeds, REPAIRED.value), in_place_text(table, base, seeds, MISSES.value)]
    valid = [valid_text(table, one, seeds) for one in (arm, base)]
    both, too = (f", {valid[0]} in place and valid,", f" and {valid[1]}") if all(valid) else ("", "")
    sentence = capital(
        f"{label} puts {shares[0]} of held-out bumps in place{both} against {shares[1]}{too} of {of} "
        f"({points(test.mean)} points in place, "
        f"{p_value(p)}; {beside_limit(error, AS_BLANK.value)} against {other:.2f} of a blank's error)"
    )
    if not (is_clear(test, p) and test.mean >= MATTERS.value):
        return Part(name, "failed", f"{sentence}: no clear gain.")
    if hit.mean >= REPAIRED.value and error < AS_BLANK.value:
        return Part(name, "held", f"{sentence}.")
    return Part(name, "in part", f"{sentence}: clearly better, but not cured.")


def deep_text(table: PlaneTable, arms: Mapping[str, str], seeds: Sequence[int]) -> str:
    """What of the hole is rim, and what arms {label: name} draw deep inside it; empty where that was not measured.

    A cell on the rim (depth 0) is one step from a trained pair, and so is what counts as in place.
    """
    deep = {label: table.by_seed(arm, "hit", "deep") for label, arm in arms.items()}
    if not deep or not all(set(seeds) <= set(found) for found in deep.values()):
        return ""
    texts = []
    for label, arm in arms.items():
        both = table.by_seed(arm, "joint", "deep")
        valid = (
            f", {percent(sum(both[seed] for seed in seeds) / len(seeds))} valid too" if set(seeds) <= set(both) else ""
        )
        texts.append(f"{label} {share_text(hits(table, arm, seeds, 'deep'))}{valid}")
    rim = _rim(table.arms[next(iter(arms.values()))])
    share = f", and the rim is {percent(rim[0] / rim[1])} of the hole ({rim[0]} of {rim[1]} cells)" if rim else ""
    return (
        f"A cell on the rim of the hole is 1 pixel from a trained pair, so that being in place asks for no composing "
        f"there{share}. At least {DEEP} pixels inside the rim, in place: {'; '.join(texts)}."
    )


def _rim(settings: Mapping[str, Any]) -> tuple[int, int] | None:
    """Cells on the rim and in all of an arm's hole; None where its settings cannot be read as today's."""
    from recombine.studies.rendering import RenderingArm

    try:
        depth = RenderingArm.model_validate(settings).plane().depth
    except ValueError:
        return None
    return int((depth == 0).sum()), int((depth >= 0).sum())


def learned_positions(table: PlaneTable, arm: str) -> tuple[str, ...]:
    """What the coordinate network does that differs from `arm` in nothing but that it learns its positions; nothing
    where there is none."""
    found = table.nearest({"decoder.positions": "learned"}, arm, ("decoder.positions",))
    if found is None or found == arm or table.differences(found, arm, ("decoder.positions",)):
        return ()
    seeds = agreed_seeds(table, [found])
    if not is_fitted(table, found, seeds):
        return (unfitted_text("the same network with learned positions", table, found, seeds),)
    valid = valid_text(table, found, seeds)
    return (
        f"It is given the place of every pixel. With learned instead of given positions (`{found}`) it puts "
        f"{share_text(hits(table, found, seeds))} of held-out bumps in place"
        f"{f', {valid} in place and valid' if valid else ''}, with {relative_error(table, found, seeds):.2f} of a "
        "blank's error.",
    )


def gain_over(table: PlaneTable, arm: str, base: str, seeds: Sequence[int]) -> Interval:
    """How many more held-out bumps an arm has in place, a difference of shares."""
    test = paired(table.values(arm, "hit", "held_out", seeds), table.values(base, "hit", "held_out", seeds))
    return possible(as_interval(test))
