"""What every claim's test uses: thresholds that all share, tests paired by seed, and their sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from recombine.claims.lookup import differences
from recombine.claims.published import at_step, published_curves
from recombine.claims.tables import FAR, Arm, Measure, StudyTable, common_seeds
from recombine.claims.verdicts import Part, Threshold, Untested
from recombine.judges.statistics import Difference, Interval, holm, paired
from recombine.report.words import join, p_value, percent, points, span

CLEAR = Threshold(
    "clear",
    0.05,
    "a difference is clear when its p-value, paired by seed and Holm-corrected within the claim, is below",
)
FEWEST_SEEDS = Threshold(
    "fewest seeds",
    6,
    "with fewer, even the exact sign-flip test cannot reach 5 % (2 of 32 patterns), so nothing is judged",
)
LEARNED = Threshold(
    "learned",
    0.70,
    "an arm that draws less of the trained compositions tells nothing about new ones; the published models end at 74 % "
    "or more",
)
MATTERS = Threshold(
    "matters", 0.05, "a smaller difference of shares is not counted as an effect, however clear; ours, not the papers'"
)
RISING = Threshold(
    "still rising",
    0.02,
    "a curve is not flat when its last fifth clearly lies so much above the fifth before; at that rate a run twice as "
    "long would end 10 points higher",
)
COMPOSES = Threshold(
    "composes",
    0.50,
    "more right than wrong; every published continuous model ends above (73 to 100 %, quantized DiT 64 %)",
)
FAILS = Threshold("fails", 0.15, "the highest level-2 share that the published MaskGIT has at any evaluation is 14 %")
SHARED = (CLEAR, FEWEST_SEEDS, LEARNED, RISING)


def agreed_seeds(study: StudyTable, arms: Sequence[Arm]) -> list[int]:
    """The seeds that all arms have; raises Untested where they are too few to judge."""
    seeds = common_seeds(arms)
    if len(seeds) < FEWEST_SEEDS.value:
        raise Untested(
            f"the arms of the study {study.name} share {len(seeds)} seed{'' if len(seeds) == 1 else 's'}, and fewer "
            f"than {FEWEST_SEEDS.value:.0f} are not judged"
        )
    return seeds


def need(found: Mapping[str, Arm | None], study: StudyTable) -> dict[str, Arm]:
    """The arms, all there; raises Untested with the names of those that are not."""
    absent = [label for label, arm in found.items() if arm is None]
    if absent:
        raise Untested(f"the study {study.name} has no arm for {join(absent)}")
    return {label: arm for label, arm in found.items() if arm is not None}


def column_there(study: StudyTable, measure: Measure) -> None:
    if measure.column not in study.columns:
        raise Untested(f"the table of {study.name} has no column {measure.column}")


def pair(a: Arm, b: Arm, measure: Measure, seeds: Sequence[int], level: int = FAR) -> Difference:
    """a - b over the seeds."""
    return paired(a.values(measure, seeds, level), b.values(measure, seeds, level))


def corrected(tests: Mapping[str, Difference]) -> dict[str, float]:
    """Holm's p-values of the tests made together; 1 where no test was possible."""
    found = holm([one.p for one in tests.values()])
    return {name: 1.0 if p is None else p for name, p in zip(tests, found, strict=True)}


def is_clear(test: Difference, p: float) -> bool:
    """Whether a is clearly greater than b."""
    return test.mean > 0 and p < CLEAR.value


def learned(arm: Arm, measure: Measure, seeds: Sequence[int]) -> bool:
    return trained_share(arm, measure, seeds) >= LEARNED.value


def trained_share(arm: Arm, measure: Measure, seeds: Sequence[int]) -> float:
    """Mean share of the trained compositions drawn right, in the last fifth whatever the measure's moment."""
    return arm.share(Measure(measure.column), seeds, level=0).mean


def not_learned(label: str, arm: Arm, measure: Measure, seeds: Sequence[int]) -> str:
    share = percent(trained_share(arm, measure, seeds))
    return f"{label} draws only {share} of the trained compositions, so it cannot tell"


def rising(arm: Arm, measure: Measure, seeds: Sequence[int]) -> float | None:
    """By how much the curve still rises at its end, as a share; None where it is flat or falls."""
    rise = arm.rise(measure, seeds)
    if rise is None or rise.low is None:
        return None
    return rise.mean if rise.mean >= RISING.value and rise.low > 0 else None


def flat_limit(arms: Mapping[str, Arm], measure: Measure, seeds: Sequence[int], meaning: str) -> Part:
    """A limit that holds where none of the arms still rises; `meaning` says what a rise would put in doubt."""
    risen = {label: rising(arm, measure, seeds) for label, arm in arms.items()}
    texts = [f"{label} ({points(rise)} points in the last fifth)" for label, rise in risen.items() if rise is not None]
    short = [label for label, arm in arms.items() if arm.rise(measure, seeds) is None]
    if texts:
        return Part("flat at the end", "failed", f"Still rising at the end: {join(texts)}; {meaning}.", "limit")
    if short:
        sentence = (
            f"Whether {join(short)} still {'rises' if len(short) == 1 else 'rise'} cannot be told from one evaluation."
        )
        return Part("flat at the end", "open", sentence, "limit")
    return Part("flat at the end", "held", "", "limit")


def unsettled(arms: Mapping[str, Arm], measure: Measure, seeds: Sequence[int]) -> str:
    """A sentence that names the arms whose curves are not flat where that limits nothing; empty where all are."""
    texts = []
    for label, arm in arms.items():
        rise = arm.rise(measure, seeds)
        if rise is None or rise.low is None or rise.high is None or abs(rise.mean) < RISING.value:
            continue
        if rise.low > 0 or rise.high < 0:
            texts.append(f"{label} ({points(rise.mean)} points)")
    return (
        f"The last fifth of the evaluations clearly differs from the fifth before it: {join(texts)}." if texts else ""
    )


def whole_limit(study: StudyTable) -> Part:
    """A limit that holds where the study has all seeds and steps that its file asks for."""
    if study.incomplete:
        return Part("complete", "failed", " ".join(study.incomplete), "limit")
    return Part("complete", "held", "", "limit")


def also_differ(base: str, arms: Mapping[str, Arm], changed: Sequence[str]) -> str:
    """A sentence on settings that differ from those of the arm `base` beside what is compared; empty where none do."""
    texts = []
    for label, arm in arms.items():
        others = differences(arm, arms[base], changed)
        if label != base and others:
            shown = others if len(others) <= 3 else [*others[:2], f"{len(others) - 2} other settings"]
            texts.append(f"{label} in {join(shown)}")
    return f"Beside what is compared, these differ from {base}: {'; '.join(texts)}." if texts else ""


def published_then(arms: Mapping[str, Arm], curves: Mapping[str, str]) -> tuple[str, ...]:
    """A limit: what the published runs had after as many steps as ours; none where no run is longer than ours. A step
    is not the same work in both: batches and models differ."""
    longer = {
        label: arm.steps
        for label, arm in arms.items()
        if label in curves and published_curves()[curves[label]][0][-1] > arm.steps
    }
    if not longer:
        return ()
    same = len(set(longer.values())) == 1
    texts = []
    for label, step in longer.items():
        share = at_step(curves[label], step)
        first, values = (column[0] for column in published_curves()[curves[label]])
        known = f"not known (its first point: {percent(values)} at {first:,.0f})" if share is None else percent(share)
        texts.append(f"{label} {known}" + ("" if same else f" at {step:,}"))
    for label in curves:
        if label in arms and label not in longer:
            steps, values = published_curves()[curves[label]]
            texts.append(f"{label} {percent(values[-1])} at its end, {int(steps[-1]):,}")
    ends = sorted({int(published_curves()[curves[label]][0][-1]) for label in longer})
    length = f"{ends[0]:,}" if len(ends) == 1 else f"{ends[0]:,} to {ends[-1]:,}"
    ours = f"{next(iter(longer.values())):,}; " if same else ""
    whose = f"runs of {join(list(longer))} are"
    if all(label in longer for label in arms if label in curves):
        whose = "runs are"
    elif len(longer) == 1:
        whose = f"run of {next(iter(longer))} is"
    return (
        f"The published {whose} longer ({length} steps). At as many steps as here ({ours}a step need not be the "
        f"same work) the published have, interpolated and counted by a probe alone: {', '.join(texts)}.",
    )


def ceilings(arms: Mapping[str, Arm]) -> str:
    """A sentence on tokenizers that cannot reproduce level-2 images themselves; empty where all can."""
    low = {label: arm.ceiling for label, arm in arms.items()}
    texts = [f"{percent(top)} for {label}" for label, top in low.items() if top is not None and top < 0.9]
    return f"The tokenizer itself reproduces only {join(texts)} of real level-2 images rightly." if texts else ""


def share_text(share: Interval) -> str:
    """ "61 % (50–72 %)"."""
    if share.low is None or share.high is None:
        return percent(share.mean)
    return f"{percent(share.mean)} ({span(share.low, share.high)})"


def gain_text(test: Difference, p: float | None = None) -> str:
    """ "+58 points (46 to 70, p < 0.001)"."""
    low, high = as_interval(test).low, as_interval(test).high
    ends = "" if low is None or high is None else f"{points(low)} to {points(high)}"
    inside = ", ".join(text for text in (ends, "" if p is None else p_value(p)) if text)
    return f"{points(test.mean)} points ({inside})" if inside else f"{points(test.mean)} points"


def loss_text(test: Difference, p: float | None = None) -> str:
    """The same read the other way round, b - a."""
    low, high = (None if end is None else -end for end in (test.high, test.low))
    return gain_text(replace(test, mean=-test.mean, low=low, high=high), p)


def as_interval(test: Difference) -> Interval:
    """A difference of two shares with its interval, whose ends are clipped to what is possible, -1 to 1."""
    return possible(Interval(test.mean, test.low, test.high, test.n))


def possible(found: Interval) -> Interval:
    """The interval of a difference of two shares less what no difference can be."""
    low, high = (None if end is None else min(1.0, max(-1.0, end)) for end in (found.low, found.high))
    return Interval(found.mean, low, high, found.n)
