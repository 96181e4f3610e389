"""E3: what differs between VAE and VQ tokens in how level-2 emerges?

The width of a rise is that of C2 (`tokenizer.width`: 0 is a jump, 0.75 a straight line from the start). A mean of jumps
that come at different steps looks gradual, so the width of the mean curve is compared with the mean of the seeds' own
widths. When something has risen is the step at which a seed's curve first reaches half of its own end; by how much
level-2 comes after something else is the *lag*, as a share of the way to level-2's own half: 0 is together, 0.5 is
twice as late.
"""

from collections.abc import Mapping

import numpy as np

from recombine.claims import lookup, testing
from recombine.claims.tables import FAR, Arm, Curve, Measure, StudyTable, over_time
from recombine.claims.testing import COMPOSES, as_interval
from recombine.claims.tokenizer import COLOURS, VAE, VQ, WIDER, crossing, find, risen, width, width_text, widths
from recombine.claims.verdicts import Extra, Threshold, Untested
from recombine.claims.why.answers import Dots, Explained, Explanation, Line, Lines, Outcome, Said, above_zero
from recombine.judges.statistics import Interval, equivalent, interval, paired
from recombine.report.words import join, p_value

LAG = Threshold(
    "lag",
    0.2,
    "level-2 comes after something where it takes clearly at least so much more of its own way, together with it where "
    "the lag is shown to be smaller; ours",
)
DRAWS = 1000  # of the bootstrap
SHARPNESS, SPREAD = "each seed rises more gradually", "seeds rise at different steps"
TOGETHER, WRONG_FIRST = "the whole model starts to work", "valid pictures come first"
RIVALS = {
    SHARPNESS: "VAE tokens make every single seed's rise gradual: the seeds' own widths are clearly greater than with "
    "VQ.",
    SPREAD: "Seeds jump at steps of their own, and only their mean looks gradual: with some tokens the mean curve is "
    "clearly wider than its seeds.",
    TOGETHER: "The rise is that of the whole model: with both tokens level-2 comes together with the trained "
    "compositions.",
    WRONG_FIRST: "Composing is learned by itself: with both tokens level-2 pictures are valid first, of another "
    "composition, and right only later.",
}
TRAINED, NEAR, VALID = "trained", "level-1", "valid level-2"
WITH: Mapping[str, tuple[str | None, int]] = {TRAINED: (None, 0), NEAR: (None, 1), VALID: ("valid", FAR)}
"""What level-2's rise is compared with: the column (None: the one that is judged) and the level."""


def judge(study: StudyTable, others: Mapping[str, StudyTable], measure: Measure) -> Explained:
    testing.column_there(study, measure)
    arms = find(study)
    seeds = testing.agreed_seeds(study, list(arms.values()))
    up = risen(arms, measure.column, seeds)
    if len(up) < testing.FEWEST_SEEDS.value:
        raise Untested(
            f"in the study {study.name} {len(up)} of {len(seeds)} seeds compose on both tokens, too few to see how "
            "level-2 rises"
        )
    curves = {label: chosen(arm.curve(measure.column), up) for label, arm in arms.items()}
    found = {label: widths(curve, up) for label, curve in curves.items()}
    own = {label: values for label, (values, _) in found.items()}
    finest = {label: seen for label, (_, seen) in found.items()}
    halves = {label: _halves(arm, measure.column, up) for label, arm in arms.items()}
    outcomes = (
        _sharpness(own, finest),
        _spread(own, curves),
        _after(TOGETHER, TRAINED, arms, halves),
        _after(WRONG_FIRST, VALID, arms, halves),
    )
    notes = (
        _near(halves),
        _spread_of_halves(halves),
        "The published curves are one run each: no mean made them gradual.",
    )
    return Explained(
        study=study,
        answer=_answer({one.rival: one.word for one in outcomes}, own),
        outcomes=outcomes,
        ours=as_interval(paired(own[VAE], own[VQ])),
        arms={label: arm.name for label, arm in arms.items()},
        panels=_panels(arms, curves, own, halves),
        notes=tuple(note for note in notes if note),
    )


def chosen(curve: Curve, seeds: list[int]) -> Curve:
    """The curve of these seeds alone."""
    return Curve(curve.steps, tuple(seeds), curve.values[:, [curve.seeds.index(seed) for seed in seeds]])


def half_steps(curve: Curve) -> np.ndarray:
    """The step at which each seed first reaches half of its own end, (S,)."""
    ends = over_time(curve.values, "last fifth")
    return np.array([crossing(curve.steps, values, end / 2) for values, end in zip(curve.values.T, ends, strict=True)])


def excess(curve: Curve, own: np.ndarray) -> Interval:
    """By how much the mean curve is wider than its seeds' own widths (S,) are on average, with the bootstrap's
    interval: seeds drawn again with replacement. At 97.5 %, so that those of two kinds of tokens hold together at 95 %.
    Draws have fewer different seeds than there are, so it errs towards too little."""
    n = len(own)
    draws = np.random.default_rng(0).integers(0, n, (DRAWS, n))
    found = [width(curve.steps, curve.values[:, kept].mean(axis=1))[0] - own[kept].mean() for kept in draws]
    low, high = np.quantile(found, [0.0125, 0.9875])
    return Interval(_mean_width(curve) - float(own.mean()), float(low), float(high), n)


def _mean_width(curve: Curve) -> float:
    return width(curve.steps, curve.values.mean(axis=1))[0]


def _halves(arm: Arm, column: str, seeds: list[int]) -> dict[str, np.ndarray]:
    """Half steps (S,) of level-2, and of what its rise is compared with, where that rises too."""
    found = {"level-2": half_steps(chosen(arm.curve(column), seeds))}
    for label, (other, level) in WITH.items():
        curve = arm.study.curve(arm.name, level, other or column)
        if curve is not None and over_time(chosen(curve, seeds).values, "last fifth").min() >= COMPOSES.value:
            found[label] = half_steps(chosen(curve, seeds))
    return found


def _sharpness(own: Mapping[str, np.ndarray], finest: Mapping[str, float]) -> Outcome:
    test = paired(own[VAE], own[VQ])
    spans = {label: interval(values, share=True) for label, values in own.items()}
    p = 1.0 if test.p is None else test.p
    sentence = (
        f"The seeds' own rises have width {width_text(spans[VAE])} with VAE and {width_text(spans[VQ])} with VQ tokens "
        f"({_signed(test.mean)}, {p_value(p)}; 0 is a jump, 0.75 a straight line)"
    )
    if all(spans[label].mean <= finest[label] for label in own):
        finer = max(finest.values())
        return Outcome(SHARPNESS, "cannot tell", f"{sentence}; the evaluations cannot show less than {finer:.2f}.")
    if testing.is_clear(test, p) and test.mean >= WIDER.value:
        return Outcome(SHARPNESS, "supported", f"{sentence}.")
    alike = equivalent(own[VAE], own[VQ], WIDER.value, testing.CLEAR.value).equivalent
    turned = test.mean < 0 and p < testing.CLEAR.value
    return Outcome(SHARPNESS, "contradicted" if alike or turned else "cannot tell", f"{sentence}.")


def _spread(own: Mapping[str, np.ndarray], curves: Mapping[str, Curve]) -> Outcome:
    means = {label: _mean_width(curve) for label, curve in curves.items()}
    more = {label: excess(curve, own[label]) for label, curve in curves.items()}
    texts = [
        f"{means[label]:.2f} with {label} where the seeds' own are {own[label].mean():.2f}, {_range(more[label])}"
        for label in curves
    ]
    word: Said = "cannot tell"
    if any(one.low is not None and one.low > 0 and one.mean >= WIDER.value for one in more.values()):
        word = "supported"
    elif all(one.high is not None and one.high < WIDER.value for one in more.values()):
        word = "contradicted"
    return Outcome(SPREAD, word, f"The mean curve has width {join(texts)}.")


def lags(halves: Mapping[str, np.ndarray], label: str) -> np.ndarray:
    """By how much level-2 comes after something, as a share of the way to its own half, (S,)."""
    return (halves["level-2"] - halves[label]) / halves["level-2"]


def _after(rival: str, label: str, arms: Mapping[str, Arm], halves: Mapping[str, Mapping[str, np.ndarray]]) -> Outcome:
    """Does level-2 rise together with something, or after it? The rival TOGETHER says the one, WRONG_FIRST the other;
    both say it of both tokens, so that one that clearly does otherwise contradicts them."""
    if any(label not in one for one in halves.values()):
        return Outcome(rival, "cannot tell", f"Not every seed ends with half of {label} drawn.")
    found = {name: lags(one, label) for name, one in halves.items()}
    tests = {name: above_zero(values) for name, values in found.items()}
    p = testing.corrected(tests)
    seen = {}
    for name, values in found.items():
        gap = float(np.diff(np.concatenate([[0.0], arms[name].curve().steps])).max())
        fine = gap / float(halves[name]["level-2"].mean()) <= LAG.value
        if testing.is_clear(tests[name], p[name]) and tests[name].mean >= LAG.value:
            seen[name] = "after"
        elif fine and equivalent(values, 0 * values, LAG.value, testing.CLEAR.value).equivalent:
            seen[name] = "together"
        else:
            seen[name] = "open"
    wanted, other = ("together", "after") if rival == TOGETHER else ("after", "together")
    word: Said = "cannot tell"
    if other in seen.values():
        word = "contradicted"
    elif all(one == wanted for one in seen.values()):
        word = "supported"
    texts = [f"{_range(interval(values))} with {name}" for name, values in found.items()]
    what = "trained compositions" if label == TRAINED else "the validity of level-2 pictures"
    return Outcome(rival, word, f"Level-2 lags behind {what} by {join(texts)} (0 is together, 0.5 twice as late).")


def _near(halves: Mapping[str, Mapping[str, np.ndarray]]) -> str:
    texts = [f"{_range(interval(lags(one, NEAR)))} with {name}" for name, one in halves.items() if NEAR in one]
    return f"Level-2 lags behind level-1 by {join(texts)}." if texts else ""


def _spread_of_halves(halves: Mapping[str, Mapping[str, np.ndarray]]) -> str:
    """When seeds reach half of their end, and whether that varies more with one kind of tokens: paired distances from
    the median, each as a share of it."""
    steps = {name: one["level-2"] for name, one in halves.items()}
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


def _range(found: Interval) -> str:
    if found.low is None or found.high is None:
        return _signed(found.mean)
    return f"{_signed(found.mean)} ({_signed(found.low)} to {_signed(found.high)})"


def _signed(value: float) -> str:
    text = f"{value:+.2f}"
    return text.replace("-", "\u2212") if float(text) else "0"


def _answer(words: Mapping[str, Said], own: Mapping[str, np.ndarray]) -> str:
    numbers = f"{own[VAE].mean():.2f} against {own[VQ].mean():.2f}"
    first = {
        "supported": f"Each single seed rises more gradually on VAE tokens (width {numbers})",
        "contradicted": f"Single seeds do not rise more gradually on VAE tokens (width {numbers})",
        "cannot tell": f"Whether single seeds rise more gradually on VAE tokens cannot be told (width {numbers})",
    }[words[SHARPNESS]]
    mean = {
        "supported": "; a mean over seeds hides jumps at different steps",
        "contradicted": "; the means over seeds show them as they are",
        "cannot tell": "",
    }[words[SPREAD]]
    order = "When level-2 comes cannot be told."
    if words[TOGETHER] == "supported":
        order = "Level-2 comes when the whole model starts to work."
    elif words[WRONG_FIRST] == "supported":
        order = "On both, level-2 pictures are valid before they are right."
    elif words[TOGETHER] == "contradicted":
        order = "Level-2 comes clearly after the trained compositions."
    return f"{first}{mean}. {order}"


def _panels(
    arms: Mapping[str, Arm],
    curves: Mapping[str, Curve],
    own: Mapping[str, np.ndarray],
    halves: Mapping[str, Mapping[str, np.ndarray]],
) -> tuple[Lines, Lines, Dots]:
    """Half steps are shown as shares of the training."""
    lines = {
        label: Lines(f"Every seed on {label} tokens", (Line(label, COLOURS[label], curve.steps, curve.values),), True)
        for label, curve in curves.items()
    }
    rows = [
        Extra(f"width, {label}", tuple(own[label]), COLOURS[label], _mean_width(curve))
        for label, curve in curves.items()
    ]
    rows += [
        Extra(f"half of {what}, {label}", tuple(halves[label][what] / arms[label].steps), COLOURS[label])
        for what in (TRAINED, VALID, "level-2")
        for label in curves
        if what in halves[label]
    ]
    return lines[VAE], lines[VQ], Dots("Width, and when half is reached", tuple(rows), "width of the mean curve")


EXPLANATION = Explanation(
    id="E3",
    claim="C2",
    title="How level-2 emerges",
    question="What differs between VAE and VQ tokens in how level-2 emerges: is it gradual, or abrupt?",
    rivals=RIVALS,
    measure="width of the rise of level-2, VAE less VQ tokens (from 0, a jump, to 1)",
    studies=lookup.STUDIES["E3"],
    judge=judge,
    thresholds=(testing.CLEAR, testing.FEWEST_SEEDS, COMPOSES, WIDER, LAG),
)
