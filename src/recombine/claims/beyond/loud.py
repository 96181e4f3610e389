"""B9: the ladder of objectives where every model is told its factors loudly (study loud, beside objectives).

Level-2 in loud minus level-2 in objectives, for every family that both have: arms that differ in `conditioning.spread`
alone. Beside it, as notes that are corrected apart and decide nothing: the ladder's own step, the mean of GIVT, MAR and
DiT on VQ tokens minus MaskGIT, and what JEPA adds to MaskGIT, in each study and from one to the other.

Fixed before loud was run, but after objectives, and after the study spread had shown what its arm maskgit does: by
right and valid, level-2 of MaskGIT is lower there by 6 points. What the other families do at this size was not known;
at size xs a search had shown DiT to lose some of it too. That two arms below *matters* are not called alike was added
when it had been run.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from recombine.claims import lookup
from recombine.claims.beyond import numbers
from recombine.claims.beyond.entries import Found, Gains, Numbers, Question
from recombine.claims.beyond.numbers import Turned, chip, compare, far, lead, listing, with_word
from recombine.claims.tables import Arm, Measure, StudyTable
from recombine.claims.testing import MATTERS, column_there
from recombine.claims.verdicts import Untested
from recombine.report.words import join

LOUD, OBJECTIVES = "loud", "objectives"
SPREAD = "conditioning.spread"
WITH = "{} with {:g}".format
Families = Mapping[str, Mapping[float, Arm]]
SAME = ("world", "split", "judging")


def judge_loud(studies: Mapping[str, StudyTable], measure: Measure) -> Found:
    if OBJECTIVES not in studies:
        raise Untested(f"the study {OBJECTIVES}, which {LOUD} is compared with, was not given")
    loud, base = studies[LOUD], studies[OBJECTIVES]
    for study in (loud, base):
        column_there(study, measure)
    turned = in_both(loud, base)
    if not turned.families:
        raise Untested(f"the studies {LOUD} and {OBJECTIVES} have no arms that differ in {SPREAD} alone")
    arms = turned.arms
    dull = numbers.unlearned(arms, measure.column)
    pairs = turned.ends(lambda arm: far(arm, measure), dull)
    contrasts = compare(pairs, f"the studies {LOUD} and {OBJECTIVES}", floor=MATTERS.value)
    word, tone = chip(contrasts, "it matters", "no difference", "higher", "lower")
    low, high = turned.ticks[0], turned.ticks[-1]
    return Found(
        studies=(loud, base),
        answer=f"{lead(tone)}: with vectors that begin with {high} in place of {low}, level-2 is {listing(contrasts)}.",
        word=word,
        tone=tone,
        contrasts=contrasts,
        measure="level-2 with loud vectors minus that with equal ones, mean over families",
        arms={label: arm.name for label, arm in arms.items()},
        panels=(
            turned.over("Level-2", "size of the vectors before training", lambda arm: far(arm, measure)),
            Gains(f"{high} minus {low}", contrasts),
        ),
        more=_steps(turned, [one.label for one in contrasts], measure),
        limits=(
            *numbers.left_out(dull),
            *_alone(loud, base, arms),
            *_unlike(loud, base),
            *numbers.still_moving(numbers.far_curves(arms, measure)),
        ),
    )


def in_both(loud: StudyTable, base: StudyTable) -> Turned:
    """The families of both studies; a family is an arm of each that differ in nothing but a larger spread in loud."""
    pairs = []
    for arm in loud.arms:
        quiet = next((one for one in base.arms if not lookup.differences(arm, one, (SPREAD,))), None)
        if quiet is not None and _spread(quiet) < _spread(arm):
            pairs.append((quiet, arm))
    names = numbers.label_all([arm for _, arm in pairs])
    return Turned.of({name: list(pair) for name, pair in zip(names, pairs, strict=True)}, _spread, WITH)


def _spread(arm: Arm) -> float:
    return float(arm.setting(SPREAD))


def _steps(turned: Turned, kept: Sequence[str], measure: Measure) -> tuple[str, ...]:
    """The ladder's step and JEPA's gain with either size, and by how much they change: that one is clear and the other
    is not would not say that they differ. Only families that are compared above take part."""
    families = {label: turned.families[label] for label in kept}
    plain = _that_fit(families, lookup.family("maskgit"))
    rungs = [one for kind in lookup.CONTINUOUS.values() for one in _that_fit(families, lookup.family(kind))]
    jepa = _that_fit(families, lookup.JEPA)
    sides = {}
    if plain and rungs:
        mean = " (their mean)" if len(rungs) > 1 else ""
        sides[f"The ladder's step, {join(rungs)}{mean} minus {join(plain)},"] = rungs
    if plain and jepa:
        sides["JEPA's gain"] = jepa
    pairs: dict[str, tuple[Numbers, Numbers]] = {}
    for name, upper in sides.items():
        low, high = (_gap(_at(families, upper, end), _at(families, plain, end), measure) for end in (min, max))
        none = dict.fromkeys({*low, *high}, 0.0)
        pairs |= {f"{name} low": (low, none), f"{name} high": (high, none), f"{name} change": (high, low)}
    if not pairs:
        return ()
    try:
        found = {one.label: with_word(one) for one in compare(pairs, f"the study {LOUD}")}
    except Untested:  # families that share enough seeds with themselves, and too few with each other
        return ()
    texts = [
        f"{name} is {found[f'{name} low']} with {turned.ticks[0]} and {found[f'{name} high']} with {turned.ticks[-1]}; "
        f"from one to the other it changes by {found[f'{name} change']}."
        for name in sides
    ]
    return (*texts, "These are corrected together, apart from the comparisons above.")


def _that_fit(families: Families, wanted: lookup.Wanted) -> list[str]:
    """The families whose arms are as wanted."""
    first = {label: next(iter(group.values())) for label, group in families.items()}
    return [label for label, arm in first.items() if arm in lookup.matching(arm.study, wanted)]


def _at(families: Families, labels: Sequence[str], end: Callable[[Iterable[float]], float]) -> list[Arm]:
    """The arms of some families with the smallest or the largest vectors."""
    return [families[label][end(families[label])] for label in labels]


def _gap(upper: Sequence[Arm], plain: Sequence[Arm], measure: Measure) -> Numbers:
    """The mean of some arms minus that of others, over the seeds that all have."""
    sides = [[far(arm, measure) for arm in side] for side in (upper, plain)]
    seeds = sorted(set.intersection(*(set(own) for side in sides for own in side)))
    first, second = (np.mean([[own[seed] for seed in seeds] for own in side], axis=0) for side in sides)
    return dict(zip(seeds, (first - second).tolist(), strict=True))


def _alone(loud: StudyTable, base: StudyTable, arms: Mapping[str, Arm]) -> list[str]:
    """That an arm of one study has none in the other to be compared with."""
    known = {(arm.study.name, arm.name) for arm in arms.values()}
    left = [
        f"{arm.name} of {study.name}"
        for study in (loud, base)
        for arm in study.arms
        if (study.name, arm.name) not in known
    ]
    return (
        [f"Not compared, since the other study has no arm that differs in {SPREAD} alone: {join(left)}."]
        if left
        else []
    )


def _unlike(loud: StudyTable, base: StudyTable) -> list[str]:
    """In what the two studies differ beside their arms. The judge is fitted anew by each, so its limit is looked at."""
    words = [word for word in SAME if loud.finished.part("study", word) != base.finished.part("study", word)]
    one, two = (study.finished.part("judge").get("threshold") for study in (loud, base))
    if one is not None and two is not None and not np.isclose(one, two):
        words.append("the judge's limit")
    return [f"The studies {LOUD} and {OBJECTIVES} also differ in {join(words)}."] if words else []


B9 = Question(
    id="B9",
    claim="C1",
    title="The ladder, told loudly",
    question="Does what the models of each objective can draw depend on how loudly they are told their factors?",
    compares="Level-2 of each family with vectors that begin with 1, minus that with 0.2",
    studies=(LOUD,),
    beside=(OBJECTIVES,),
    judge=judge_loud,
)
