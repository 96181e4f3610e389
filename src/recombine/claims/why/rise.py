"""E3: what differs between VAE and VQ tokens in how level-2 emerges?

The width of a rise is that of C2 (`tokenizer.width`: 0 is a jump, 0.75 a straight line from the start). A mean of jumps
that come at different steps looks gradual, so the width of the mean curve is compared with the mean of the seeds' own
widths. When something has risen is the step at which a seed's curve first reaches half of its own end; by how much
level-2 comes after something else is the *lag*, as a share of the way to level-2's own half: 0 is together, 0.5 is
twice as late.

Two rules were added after `objectives` was seen, where 0 of 8 seeds compose on both tokens and the probe names most
level-2 pictures right at the first evaluation; the study early, which they are for, had not been run.

- *The probe's naming.* Where too few seeds compose on both tokens, right and valid, what is followed is how pictures
  that the probe names right come up, valid or not. The answer says so, and a study that can answer with right and valid
  pictures goes before one that cannot (`explanations.ask_why`).
- *What had begun.* A seed that has 20 % of its own end at the first evaluation began to rise before anything was
  measured; its width is not known, only bounds of it (`rise_bounds`). A rival is supported or contradicted where the
  test says the same with the bounds that speak most for and most against it. The same holds of half steps. Where fewer
  than *fewest seeds* have less than 80 % of their end at the first evaluation, on both tokens, nothing can be seen.

Two more were added for the study emergence before it was run, when GIVT on VQ tokens had been seen (the arm givt of
`objectives-long`: 6 of 8 seeds compose) and GIVT on VAE tokens had not.

- *GIVT in place of DiT*, which composes on neither tokens here: where a study has no DiT on both (`rise_seeds`). The
  answer says whose it is.
- *Seeds below half.* Where too few seeds compose on both tokens, those are taken that end with *rises* right and valid,
  before the probe's naming is. In none of the studies that had been run are there enough of them.
"""

from collections.abc import Mapping

import numpy as np

from recombine.claims import lookup, testing
from recombine.claims.tables import FAR, Arm, Curve, Measure, StudyTable, over_time
from recombine.claims.testing import COMPOSES, possible
from recombine.claims.tokenizer import VAE, VQ, WIDER, width_text, widths
from recombine.claims.verdicts import Threshold
from recombine.claims.why.answers import (
    Explained,
    Explanation,
    NothingToExplain,
    Outcome,
    Said,
    above_zero,
)
from recombine.claims.why.rise_beside import (
    NEAR,
    TRAINED,
    VALID,
    begun,
    by_the_probe,
    near,
    panels,
    range_text,
    signed,
    spread_of_halves,
)
from recombine.claims.why.rise_bounds import (
    Bounds,
    difference,
    half_steps,
    lags,
    mean_width,
    own_widths,
    still_to_come,
    width_between,
)
from recombine.claims.why.rise_seeds import COUNTED, RISES, Followed, followed, generator_on_both, rising_note
from recombine.judges.statistics import Interval, equivalent, paired
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
WITH: Mapping[str, tuple[str | None, int]] = {TRAINED: (None, 0), NEAR: (None, 1), VALID: ("valid", FAR)}
"""What level-2's rise is compared with: the column (None: the one that is judged) and the level."""


def judge(study: StudyTable, others: Mapping[str, StudyTable], measure: Measure) -> Explained:
    """Asks seeds below half, and then the probe's naming, where too few compose right and valid."""
    testing.column_there(study, measure)
    generator, arms = generator_on_both(study)
    seeds = testing.agreed_seeds(study, list(arms.values()))
    by = followed(study, measure, generator, arms, seeds)
    curves = {label: chosen(arm.curve(by.column), by.seeds) for label, arm in arms.items()}
    _visible(study, arms, curves, by)
    own = {label: own_widths(curve) for label, curve in curves.items()}
    finest = {label: widths(curve, by.seeds)[1] for label, curve in curves.items()}
    halves = {label: _halves(arm, by) for label, arm in arms.items()}
    outcomes = (
        _sharpness(own, finest),
        _spread(own, curves),
        _after(TOGETHER, TRAINED, arms, halves, by.end),
        _after(WRONG_FIRST, VALID, arms, halves, by.end),
    )
    notes = (
        by_the_probe(by, arms),
        rising_note(by, seeds),
        begun(own, curves),
        near(halves),
        spread_of_halves(halves, curves),
        "The published curves are one run each: no mean made them gradual.",
    )
    answer = _answer({one.rival: one.word for one in outcomes}, own)
    return Explained(
        study=study,
        answer=f"{by.whose}: {answer[0].lower()}{answer[1:]}",
        outcomes=outcomes,
        ours=possible(difference(own[VAE], own[VQ])),
        arms={label: arm.name for label, arm in arms.items()},
        panels=panels(curves, own, halves, by),
        notes=tuple(note for note in notes if note),
        limits=_limits(arms, by),
        counted=COUNTED if by.by_naming else "",
    )


def _limits(arms: Mapping[str, Arm], by: Followed) -> tuple[str, ...]:
    """That the generator is not the published one, and that a width of what still rises is one so far."""
    other = f"The generator is {by.generator}: the published curves, and C2, are of DiT."
    unsettled = testing.unsettled(arms, Measure(by.column), by.seeds)
    so_far = f"{unsettled} A width is a share of the end of the run, whatever would come after it."
    return (*([other] if by.generator != "DiT" else []), *([so_far] if unsettled else []))


def _visible(study: StudyTable, arms: Mapping[str, Arm], curves: Mapping[str, Curve], by: Followed) -> None:
    """Raises where the first evaluation comes too late to see a rise."""
    to_come = np.logical_and.reduce([still_to_come(curve) for curve in curves.values()])
    if to_come.sum() < testing.FEWEST_SEEDS.value:
        first = max(int(curve.steps[0]) for curve in curves.values())
        raise NothingToExplain(
            f"with {by.generator} in the study {study.name} {by.before}{(~to_come).sum()} of {len(to_come)} seeds have "
            "most of their level-2 (80 % of their end, on one of the tokens at least) at the first evaluation already, "
            f"step {first:,}, so how level-2 rises cannot be seen",
            arms=list(arms.values()),
        )


def chosen(curve: Curve, seeds: list[int]) -> Curve:
    """The curve of these seeds alone."""
    return Curve(curve.steps, tuple(seeds), curve.values[:, [curve.seeds.index(seed) for seed in seeds]])


def excess(curve: Curve) -> Interval:
    """By how much the mean curve is wider than its seeds' own widths are on average, with the bootstrap's interval:
    seeds drawn again with replacement. At 97.5 %, so that those of two kinds of tokens hold together at 95 %. Draws
    have fewer different seeds than there are, so it errs towards too little. Where a rise had begun, the ends hold
    whatever its width is."""
    own = own_widths(curve)
    n = len(own.least)
    draws = np.random.default_rng(0).integers(0, n, (DRAWS, n))
    means = np.array([width_between(curve.steps, curve.values[:, kept].mean(axis=1)) for kept in draws])
    least, most = means[:, 0] - own.most[draws].mean(axis=1), means[:, 1] - own.least[draws].mean(axis=1)
    low, high = np.quantile(least, 0.0125), np.quantile(most, 0.9875)
    return Interval(sum(mean_width(curve)) / 2 - own.middle, float(low), float(high), n)


def _halves(arm: Arm, by: Followed) -> dict[str, Bounds]:
    """Half steps of level-2, and of what its rise is compared with, where that rises too."""
    found = {"level-2": half_steps(chosen(arm.curve(by.column), by.seeds))}
    for label, (other, level) in WITH.items():
        curve = arm.study.curve(arm.name, level, other or by.column)
        if curve is not None and over_time(chosen(curve, by.seeds).values, "last fifth").min() >= by.least:
            found[label] = half_steps(chosen(curve, by.seeds))
    return found


def _sharpness(own: Mapping[str, Bounds], finest: Mapping[str, float]) -> Outcome:
    found = difference(own[VAE], own[VQ])
    spans = {label: one.interval(share=True) for label, one in own.items()}
    p = paired(own[VAE].least, own[VQ].least).p
    known = not any(one.unknown for one in own.values())
    bounds = "the ranges hold whatever the widths are that are not known"
    tested = p_value(1.0 if p is None else p) if known else bounds
    sentence = (
        f"The seeds' own rises have width {width_text(spans[VAE])} with VAE and {width_text(spans[VQ])} with VQ tokens "
        f"({signed(found.mean)}, {tested}; 0 is a jump, 0.75 a straight line)"
    )
    if all(own[label].least.mean() <= finest[label] for label in own):
        finer = max(finest.values())
        return Outcome(SHARPNESS, "cannot tell", f"{sentence}; the evaluations cannot show less than {finer:.2f}.")
    words = {_wider(own[VAE].least, own[VQ].most), _wider(own[VAE].most, own[VQ].least)}
    return Outcome(SHARPNESS, words.pop() if len(words) == 1 else "cannot tell", f"{sentence}.")


def _wider(vae: np.ndarray, vq: np.ndarray) -> Said:
    """Whether widths (S,) are clearly greater with VAE tokens."""
    test = paired(vae, vq)
    p = 1.0 if test.p is None else test.p
    if testing.is_clear(test, p) and test.mean >= WIDER.value:
        return "supported"
    alike = equivalent(vae, vq, WIDER.value, testing.CLEAR.value).equivalent
    turned = test.mean < 0 and p < testing.CLEAR.value
    return "contradicted" if alike or turned else "cannot tell"


def _spread(own: Mapping[str, Bounds], curves: Mapping[str, Curve]) -> Outcome:
    means = {label: mean_width(curve) for label, curve in curves.items()}
    more = {label: excess(curve) for label, curve in curves.items()}
    surely = {label: least - own[label].most.mean() for label, (least, _) in means.items()}
    texts = [
        f"{sum(means[label]) / 2:.2f} with {label} where the seeds' own are {own[label].middle:.2f}, "
        f"{range_text(more[label])}"
        for label in curves
    ]
    word: Said = "cannot tell"
    if any(one.low is not None and one.low > 0 and surely[label] >= WIDER.value for label, one in more.items()):
        word = "supported"
    elif all(one.high is not None and one.high < WIDER.value for one in more.values()):
        word = "contradicted"
    return Outcome(SPREAD, word, f"The mean curve has width {join(texts)}.")


def _after(
    rival: str, label: str, arms: Mapping[str, Arm], halves: Mapping[str, Mapping[str, Bounds]], end: str
) -> Outcome:
    """Does level-2 rise together with something, or after it? The rival TOGETHER says the one, WRONG_FIRST the other;
    both say it of both tokens, so that one that clearly does otherwise contradicts them. Where half of level-2 was
    there before the first evaluation, what it came after cannot be told."""
    if any(label not in one for one in halves.values()):
        return Outcome(rival, "cannot tell", f"Not every seed ends with {end} of {label} drawn.")
    found = {name: lags(one, label) for name, one in halves.items() if not one["level-2"].unknown}
    tests = {name: above_zero(values.least) for name, values in found.items()}
    p = testing.corrected(tests)
    seen = dict.fromkeys(halves, "open")
    for name, values in found.items():
        gap = float(np.diff(np.concatenate([[0.0], arms[name].curve().steps])).max())
        fine = gap / float(halves[name]["level-2"].least.mean()) <= LAG.value
        ends = (values.least, values.most)
        if testing.is_clear(tests[name], p[name]) and tests[name].mean >= LAG.value:
            seen[name] = "after"
        elif fine and all(equivalent(end, 0 * end, LAG.value, testing.CLEAR.value).equivalent for end in ends):
            seen[name] = "together"
    wanted, other = ("together", "after") if rival == TOGETHER else ("after", "together")
    word: Said = "cannot tell"
    if other in seen.values():
        word = "contradicted"
    elif all(one == wanted for one in seen.values()):
        word = "supported"
    what = "trained compositions" if label == TRAINED else "the validity of level-2 pictures"
    texts = [f"{range_text(values.interval())} with {name}" for name, values in found.items()]
    sentence = f"Level-2 lags behind {what} by {join(texts)} (0 is together, 0.5 twice as late)." if texts else ""
    missed = [name for name in halves if name not in found]
    if missed:
        late = f"With {join(missed)} some seeds have half of their level-2 at the first evaluation already: what it"
        sentence = f"{sentence} {late} came after is not known.".strip()
    return Outcome(rival, word, sentence)


def _answer(words: Mapping[str, Said], own: Mapping[str, Bounds]) -> str:
    numbers = f"{_about(own[VAE])} against {_about(own[VQ])}; 0 is a jump, 0.75 a straight line"
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
        order = "On one of the tokens at least, level-2 comes clearly after the trained compositions."
    return f"{first}{mean}. {order}"


def _about(own: Bounds) -> str:
    """A mean width; between which it lies where some are not known, so that no interval of it is meant."""
    return f"between {own.least.mean():.2f} and {own.most.mean():.2f}" if own.unknown else f"{own.middle:.2f}"


EXPLANATION = Explanation(
    id="E3",
    claim="C2",
    title="How level-2 emerges",
    question="What differs between VAE and VQ tokens in how level-2 emerges: is it gradual, or abrupt?",
    rivals=RIVALS,
    measure="width of the rise of level-2, VAE minus VQ tokens (from 0, a jump, to 1)",
    studies=lookup.STUDIES["E3"],
    judge=judge,
    thresholds=(testing.CLEAR, testing.FEWEST_SEEDS, COMPOSES, RISES, WIDER, LAG),
)
