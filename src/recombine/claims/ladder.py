"""C1, the ladder of objectives: do models with a continuous output compose where one with a categorical output fails?

The claim has two halves. Each continuous rung (GIVT, MAR, DiT) must compose: draw more than half of level-2 right, and
clearly more than MaskGIT on the same quantized tokens. And MaskGIT must not: below what the published one reached at
its best, on a curve that has stopped rising. A categorical model of another kind that does compose (autoregressive,
discrete diffusion, MaskGIT with other targets) contradicts the general wording, so it keeps the verdict at "partly".
So does one that composes in another world, where other combinations are trained (a rule that was added when the study
dependent had been seen; the verdict was "partly" before it too).
"""

from collections.abc import Mapping

import numpy as np

from recombine.claims import lookup, testing
from recombine.claims.refused import refused
from recombine.claims.tables import Arm, Measure, StudyTable
from recombine.claims.testing import COMPOSES, FAILS, gain_text, share_text
from recombine.claims.verdicts import Claim, Finding, Part, Shown, Untested
from recombine.judges.statistics import Difference, Interval, interval
from recombine.report.words import join, percent

BASE = "MaskGIT"
PUBLISHED = {"MaskGIT": 0.007, "GIVT": 0.735, "MAR": 0.816, "DiT": 0.862}
"""Level-2, mean of the last fifth, one run each."""
CURVES = {"MaskGIT": "maskgit", "GIVT": "givt", "MAR": "mar", "DiT": "dit_vq"}
COLOURS = {"MaskGIT": "red", "GIVT": "violet", "MAR": "ochre", "DiT": "blue"}
NOT_THE_OBJECTIVE = ("generator",)
GAIN = float(np.mean([PUBLISHED[label] for label in lookup.CONTINUOUS]) - PUBLISHED[BASE])


def judge(study: StudyTable, others: Mapping[str, StudyTable], measure: Measure) -> Finding:
    testing.column_there(study, measure)
    base = lookup.nearest(lookup.matching(study, {**lookup.family("maskgit"), **lookup.MASKGIT}), None, ())
    arms = testing.need({BASE: base}, study)
    for label, kind in lookup.CONTINUOUS.items():
        found = lookup.nearest(lookup.matching(study, lookup.family(kind)), base, NOT_THE_OBJECTIVE)
        arms |= {label: found} if found is not None else {}
    if len(arms) == 1:
        raise Untested(f"the study {study.name} has no continuous model on quantized tokens")
    seeds = testing.agreed_seeds(study, list(arms.values()))
    tests = {label: testing.pair(arm, arms[BASE], measure, seeds) for label, arm in arms.items() if label != BASE}
    p = testing.corrected(tests)
    parts = [_categorical_fails(arms[BASE], measure, seeds)]
    parts += [_rung(label, arms, tests, p, measure, seeds) for label in lookup.CONTINUOUS]
    doubt = "with more training the categorical model may yet compose"
    parts.append(testing.flat_limit({BASE: arms[BASE]}, measure, seeds, doubt))
    parts.append(_controls(study, others, arms[BASE], measure))
    parts.append(_elsewhere(others, measure))
    parts.append(testing.whole_limit(study))
    rungs = [arms[label].values(measure, seeds) for label in tests]
    gain = testing.possible(interval(np.mean(rungs, axis=0) - arms[BASE].values(measure, seeds)))
    order = sorted(arms, key=lambda label: -float(arms[label].values(measure, seeds).mean()))
    notes = [
        refused(arms, measure, seeds),
        f"From highest to lowest: {', '.join(order)} (published: DiT, MAR, GIVT, MaskGIT).",
        testing.unsettled({label: arm for label, arm in arms.items() if label != BASE}, measure, seeds),
        testing.also_differ(BASE, arms, NOT_THE_OBJECTIVE),
        testing.ceilings(arms),
    ]
    return Finding(
        study=study,
        parts=tuple(parts),
        ours=gain,
        arms={label: arm.name for label, arm in arms.items()},
        limits=testing.published_then(arms, CURVES),
        notes=tuple(note for note in notes if note),
        shown=tuple(Shown(label, arms[label], COLOURS[label], CURVES[label], PUBLISHED[label]) for label in arms),
        lacking=tuple(label for label in lookup.CONTINUOUS if label not in arms),
    )


def _rung(
    label: str,
    arms: Mapping[str, Arm],
    tests: Mapping[str, Difference],
    p: Mapping[str, float],
    measure: Measure,
    seeds: list[int],
) -> Part:
    """Does one continuous family compose, and clearly better than MaskGIT?"""
    name = f"{label} composes"
    if label not in arms:
        return Part(name, "open", f"There is no arm for {label}.")
    if not testing.learned(arms[label], measure, seeds):
        return Part(name, "open", f"{testing.not_learned(label, arms[label], measure, seeds)}.")
    share = arms[label].share(measure, seeds)
    better = testing.is_clear(tests[label], p[label])
    numbers = f"{label} draws {share_text(share)}, {gain_text(tests[label], p[label])} over {BASE}"
    if not better:
        return Part(name, "failed", f"{numbers}: not clearly more.")
    if share.mean < COMPOSES.value:
        return Part(name, "in part", f"{numbers}: clearly more, but less than half.")
    unsure = share.low is not None and share.low < COMPOSES.value
    return Part(
        name, "held", f"{numbers}{': on average more than half, which lies within its interval' if unsure else ''}."
    )


def _categorical_fails(base: Arm, measure: Measure, seeds: list[int]) -> Part:
    """Does MaskGIT stay as low as published, having learned what it was trained on?"""
    name = f"{BASE} does not compose"
    if not testing.learned(base, measure, seeds):
        return Part(name, "open", f"{testing.not_learned(BASE, base, measure, seeds)} whether it fails.", "limit")
    share = base.share(measure, seeds)
    sentence = f"{BASE} draws {share_text(share)} of level-2 right and valid"
    if share.high is not None and share.high <= FAILS.value:
        return Part(name, "held", f"{sentence}.", "limit")
    return Part(
        name, "failed", f"{sentence}, not clearly below the {percent(FAILS.value)} that count as failing.", "limit"
    )


def _controls(study: StudyTable, others: Mapping[str, StudyTable], base: Arm, measure: Measure) -> Part:
    """Is there a categorical model that composes all the same? A run that several studies have is told once."""
    told = [base]
    composing: list[str] = []
    failing: list[str] = []
    dull: list[str] = []
    tables = [study, *(others[name] for name in lookup.CONTROLS if name in others)]
    for table in tables:
        for arm in lookup.matching(table, {**lookup.TOLD, "generator.kind": lambda kind: kind in lookup.CATEGORICAL}):
            if arm.setting("jepa") or measure.column not in table.columns:
                continue
            if any(lookup.same_run(arm, one) or lookup.goes_on(one, arm) for one in told):
                continue
            told.append(arm)
            if len(arm.seeds) < testing.FEWEST_SEEDS.value:
                continue
            share = arm.share(measure, arm.seeds)
            if not testing.learned(arm, measure, arm.seeds):
                dull.append(f"{arm.name} ({table.name}) {percent(share.mean)}")
                continue
            text = f"{arm.name} ({table.name}) {share_text(share)}"
            (composing if _composes(share) else failing).append(text)
    name = "every other categorical model fails"
    beside = f" Other arms with a categorical output do not compose either: {join(failing)}." if failing else ""
    beside += f" Not judged, since they draw too few of the trained: {join(dull)}." if dull else ""
    if composing:
        sentence = f"Against the general wording, categorical models that do compose: {join(composing)}.{beside}"
        return Part(name, "failed", sentence, "limit")
    return Part(name, "held", beside.strip(), "limit")


def _composes(share: Interval) -> bool:
    return share.mean >= COMPOSES.value and share.low is not None and share.low > FAILS.value


def _elsewhere(others: Mapping[str, StudyTable], measure: Measure) -> Part:
    """Is there a categorical model that composes in another world? One that does not is no surprise: the claim expects
    it. Training data whose factors depend on each other are a question of their own (B2)."""
    name = "categorical models fail in other worlds too"
    wanted = {**lookup.TOLD, "generator.kind": lambda kind: kind in lookup.CATEGORICAL, "jepa": lambda jepa: not jepa}
    found = []
    for table in (others[name] for name in lookup.WORLDS if name in others):
        for arm in lookup.matching(table, wanted) if measure.column in table.columns else ():
            if arm.setting("training.dependence") or len(arm.seeds) < testing.FEWEST_SEEDS.value:
                continue
            share, levels = arm.share(measure, arm.seeds), table.finished.levels_of[arm.name].values()
            if _composes(share) and testing.learned(arm, measure, arm.seeds):
                trained = f"{sum(level == 0 for level in levels)} of {len(levels)} combinations trained"
                found.append(f"{arm.name} of the study {table.name} ({trained}) {share_text(share)}")
    if not found:
        return Part(name, "held", "", "limit")
    apart = "with a tokenizer, images and a judge of its own"
    return Part(name, "failed", f"In another world, {apart}, a categorical model composes: {join(found)}.", "limit")


CLAIM = Claim(
    id="C1",
    title="The ladder of objectives",
    statement="A continuous output distribution composes, a categorical one does not.",
    published="Level-2, mean of the last fifth of the evaluations: MaskGIT 0.7 %, GIVT 73.5 %, MAR 81.6 %, DiT on VQ "
    "tokens 86.2 %",
    value=round(GAIN, 4),
    measure="level-2 of the continuous models (their mean) minus MaskGIT's",
    trust="read from a vector figure; one run each",
    studies=lookup.STUDIES["C1"],
    judge=judge,
    thresholds=(*testing.SHARED, COMPOSES, FAILS),
    drawn=True,
)
