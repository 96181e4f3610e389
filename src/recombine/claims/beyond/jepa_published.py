"""B10: does JEPA help where MaskGIT fails as the published one does (study jepa-published)?

The study goes from our MaskGIT towards the published one, each step on top of those before it. At each step the arm
with JEPA minus its own control, the same arm without the loss; all steps are Holm-corrected together. "None helps" is
said where every step is compared, and above the floor: two arms below *matters* are alike whatever the loss does.

Fixed before the run, but for that last rule: it was added when one step only could be compared, at the floor. It can
only take "none helps" away. What the study jepa had shown by then, on other seeds, stands in the study's file: nothing
by right and valid, and by the probe alone a gain with the loss of the first step.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from recombine.claims import lookup
from recombine.claims.beyond import numbers
from recombine.claims.beyond.entries import Found, Gains, Line, Over, Question
from recombine.claims.beyond.jepa import own_control, what_varied
from recombine.claims.beyond.numbers import chip, compare, far, lead, mean_text, values, with_word
from recombine.claims.tables import Arm, Measure, StudyTable
from recombine.claims.testing import MATTERS, column_there
from recombine.claims.verdicts import Untested
from recombine.report.words import join

PUBLISHED = "jepa-published"
PLAIN, WITH = "MaskGIT", "MaskGIT + JEPA"


def judge_published(studies: Mapping[str, StudyTable], measure: Measure) -> Found:
    study = studies[PUBLISHED]
    column_there(study, measure)
    tried = lookup.matching(study, lookup.JEPA)
    steps = {control.name: (control, arm) for arm in tried if (control := own_control(arm)) is not None}
    if not steps:
        raise Untested(f"the study {study.name} has no JEPA arm beside its own control")
    arms = {name: arm for label, pair in steps.items() for name, arm in zip(_names(label), pair, strict=True)}
    dull = numbers.unlearned(arms, measure.column)
    pairs = {
        label: (far(arm, measure), far(control, measure))
        for label, (control, arm) in steps.items()
        if not set(_names(label)) & set(dull)
    }
    contrasts = compare(pairs, f"the study {study.name}", floor=MATTERS.value)
    helping = sum(one.word == "higher" for one in contrasts)
    word, tone = chip(contrasts, f"helps in {helping} of {len(contrasts)}", "none helps", "higher")
    first = lead(tone)
    if tone == "none" and (len(contrasts) < len(steps) or any(one.word == "neither composes" for one in contrasts)):
        word, tone, first = "cannot tell", "open", "It cannot be told"
    gains = {one.label: with_word(one) for one in contrasts}
    texts = [
        f"{label} {mean_text(far(control, measure))}, {gains.get(label, 'not compared')}"
        for label, (control, _) in steps.items()
    ]
    shares = [{label: values(far(pair[i], measure)) for label, pair in steps.items()} for i in (0, 1)]
    alone = [arm.name for arm in tried if own_control(arm) is None]
    return Found(
        studies=(study,),
        answer=f"{first}: level-2 without JEPA, and what JEPA adds, are step by step {'; '.join(texts)}.",
        word=word,
        tone=tone,
        contrasts=contrasts,
        measure="level-2 with JEPA minus that without, mean over the steps",
        arms={label: arm.name for label, arm in arms.items()},
        panels=(
            Over(
                "Level-2",
                "each step keeps those before it",
                tuple(steps),
                (Line(PLAIN, "red", shares[0]), Line(WITH, "pink", shares[1])),
            ),
            Gains("With JEPA minus without", contrasts),
        ),
        notes=_changes([control for control, _ in steps.values()]),
        limits=(
            *numbers.left_out(dull),
            *([f"Not counted, since no arm differs from it in the JEPA loss alone: {join(alone)}."] if alone else []),
            *numbers.still_moving(numbers.far_curves(arms, measure)),
        ),
    )


def _names(step: str) -> tuple[str, str]:
    return step, f"{step} with JEPA"


def _changes(controls: Sequence[Arm]) -> tuple[str, ...]:
    """What each step changes against the one before it, from the settings."""
    texts = [f"{arm.name} in {join(sorted(what_varied([before, arm])))}" for before, arm in pairwise(controls)]
    return (f"Each step differs from the one before it: {'; '.join(texts)}.",) if texts else ()


B10 = Question(
    id="B10",
    claim="C4",
    title="JEPA where MaskGIT fails as published",
    question="On the way from our MaskGIT to the published one, does the JEPA loss help at any step?",
    compares="Level-2 with JEPA at each step, minus that of the same arm without",
    studies=(PUBLISHED,),
    judge=judge_published,
)
