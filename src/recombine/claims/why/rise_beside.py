"""What stands beside E3: whose answer it is, which rises had begun, when half is reached, and the panels."""

from collections.abc import Mapping

import numpy as np

from recombine.claims import testing
from recombine.claims.tables import NAMED, Arm, Curve, Measure
from recombine.claims.testing import share_text
from recombine.claims.tokenizer import COLOURS, VAE, VQ
from recombine.claims.verdicts import Extra
from recombine.claims.why.answers import Dots, Line, Lines, NotKnown
from recombine.claims.why.rise_bounds import Bounds, lags, mean_width
from recombine.claims.why.rise_seeds import Followed
from recombine.judges.statistics import Interval, interval, paired
from recombine.report.words import join, p_value

TRAINED, NEAR, VALID = "trained", "level-1", "valid level-2"
"""What level-2's rise is compared with."""


def by_the_probe(followed: Followed, arms: Mapping[str, Arm]) -> str:
    """That the answer is the probe's, and how much of it is right and valid; empty where it is not."""
    if not followed.by_naming:
        return ""
    texts = []
    for label, arm in arms.items():
        real, named = (arm.values(Measure(column), followed.seeds) for column in ("joint", NAMED))
        texts.append(f"{share_text(interval(real / named, share=True))} with {label}")
    return (
        f"Only {followed.few}, so what is followed is what the probe names right, valid or not; of that, {join(texts)} "
        "are right and valid at the end."
    )


def begun(own: Mapping[str, Bounds], curves: Mapping[str, Curve]) -> str:
    """Of how many seeds the width is not known."""
    if not any(one.unknown for one in own.values()):
        return ""
    texts = [
        f"{one.unknown} of {len(one.least)} seeds with {label} (step {int(curves[label].steps[0]):,})"
        for label, one in own.items()
    ]
    return (
        f"At the first evaluation the rise has begun (20 % of its end) in {join(texts)}: the width of their rises is "
        "not known, and they are counted with the least and with the most that it can be."
    )


def near(halves: Mapping[str, Mapping[str, Bounds]]) -> str:
    there = {name: one for name, one in halves.items() if NEAR in one and not one["level-2"].unknown}
    texts = [f"{range_text(lags(one, NEAR).interval())} with {name}" for name, one in there.items()]
    return f"Level-2 lags behind level-1 by {join(texts)}." if texts else ""


def spread_of_halves(halves: Mapping[str, Mapping[str, Bounds]], curves: Mapping[str, Curve]) -> str:
    """When seeds reach half of their end, and whether that varies more with one kind of tokens: paired distances from
    the median, each as a share of it."""
    found = {name: one["level-2"] for name, one in halves.items()}
    if any(one.unknown for one in found.values()):
        missed = [
            f"{one.unknown} of {len(one.least)} seeds with {name} (step {int(curves[name].steps[0]):,})"
            for name, one in found.items()
        ]
        return f"Half of level-2's end is reached by the first evaluation in {join(missed)}; when, is not known there."
    steps = {name: one.least for name, one in found.items()}
    away = {name: np.abs(values / np.median(values) - 1) for name, values in steps.items()}
    test = paired(away[VAE], away[VQ])
    texts = [f"{values.mean():,.0f} ± {values.std(ddof=1):,.0f} with {name}" for name, values in steps.items()]
    p = 1.0 if test.p is None else test.p
    varies = (
        f"varies more between seeds with {VAE if test.mean > 0 else VQ}" if p < testing.CLEAR.value else "varies alike"
    )
    return (
        f"Half of level-2's end is reached at step {join(texts)} (mean and standard deviation); it {varies} "
        f"({p_value(p)})."
    )


def panels(
    curves: Mapping[str, Curve],
    own: Mapping[str, Bounds],
    halves: Mapping[str, Mapping[str, Bounds]],
    followed: Followed,
) -> tuple[Lines, Lines, Dots, Dots]:
    """Every seed's curve; when half is reached and how wide the rises are, apart, as the one is in steps and the other
    is not."""
    before = "Named right" if followed.by_naming else "Every seed"
    lines = {
        label: Lines(
            f"{before}, {followed.generator} on {label}",
            (Line(label, COLOURS[label], curve.steps, curve.values),),
            True,
        )
        for label, curve in curves.items()
    }
    first = {label: int(curve.steps[0]) for label, curve in curves.items()}
    when = tuple(
        _row(f"{what}, {label}", halves[label].get(what), f"there by step {first[label]:,}", label, end=followed.end)
        for what in (TRAINED, VALID, "level-2")
        for label in curves
    )
    wide = tuple(
        _row(label, own[label], f"begun by step {first[label]:,}", label, _known_width(curve))
        for label, curve in curves.items()
    )
    diamond = "width of the mean curve" if any(row.published is not None for row in wide) else ""
    return (
        lines[VAE],
        lines[VQ],
        Dots("When half of the end is reached", when, "", "steps", "training steps"),
        Dots("Width of the rise", wide, diamond, "of 1", "0 a jump, 0.75 a straight line"),
    )


def _known_width(curve: Curve) -> float | None:
    """The width of the mean curve, where its rise had not begun."""
    least, most = mean_width(curve)
    return least if least == most else None


def _row(
    name: str, found: Bounds | None, missed: str, label: str, diamond: float | None = None, end: str = ""
) -> Extra:
    """A dot is a seed whose number is known. The mean of those alone would leave the earliest out, so there is none
    where some are not. Nothing is found of what does not `end` high enough in every seed (`rise._halves`)."""
    if found is None:
        return NotKnown(name, (), COLOURS[label], why=f"not known: some end below {end}")
    values = tuple(found.least[found.known])
    if not found.unknown:
        return Extra(name, values, COLOURS[label], diamond)
    why = f"not known{f' of {found.unknown}' if values else ''}: {missed}"
    mean = found.interval()
    span = None if mean.low is None or mean.high is None else (mean.low, mean.high)
    return NotKnown(name, values, COLOURS[label], diamond, why, span)


def range_text(found: Interval) -> str:
    if found.low is None or found.high is None:
        return signed(found.mean)
    return f"{signed(found.mean)} ({signed(found.low)} to {signed(found.high)})"


def signed(value: float) -> str:
    text = f"{value:+.2f}"
    return text.replace("-", "\u2212") if float(text) else "0"
