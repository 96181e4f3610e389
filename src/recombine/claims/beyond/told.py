"""B1 and B3: how loudly a model is told its factors, and what it is told where a label is missing.

B1 (study spread): level-2 with vectors that begin small, or large, minus level-2 with equal ones, for every family that
has both. Equal is the default of `conditioning.spread`: as large as the time that is added to them.

B3 (study remedies): level-2 of each remedy minus that of saying "unknown", at the same share of missing labels. The
model that is told everything is the ceiling to look up to. It is compared with one arm only, the same model guided:
guidance may help any model, whether labels are missing or not, so its gain there is told beside its gain as a remedy.
That comparison is corrected with the others, but is no remedy: it does not decide whether one helps.
"""

from collections.abc import Mapping

import numpy as np

from recombine.claims.beyond import numbers
from recombine.claims.beyond.entries import Found, Gains, Question, Row, Rows
from recombine.claims.beyond.numbers import Turned, chip, compare, far, lead, listing, mean_text, values
from recombine.claims.tables import Arm, Measure, StudyTable
from recombine.claims.testing import column_there, share_text
from recombine.claims.verdicts import Untested
from recombine.conditioning import ConditioningSettings
from recombine.judges.statistics import interval
from recombine.report.words import join

SPREAD, REMEDIES = "spread", "remedies"
EQUAL = float(ConditioningSettings().spread)
UNKNOWN, TOLD = "unknown", "told everything"
INSTEAD = {"imputed": "a guess from the image", "zero": "class 0 told", "zeros": "zeros told"}


def judge_spread(studies: Mapping[str, StudyTable], measure: Measure) -> Found:
    study = studies[SPREAD]
    column_there(study, measure)
    groups = numbers.families(study, "conditioning.spread")
    turned = Turned.of(groups, lambda arm: float(arm.setting("conditioning.spread")), _sized, base=EQUAL)
    if not turned.families:
        raise Untested(f"the study {study.name} has no family with equal and other vectors")
    arms = turned.arms
    dull = numbers.unlearned(arms, measure.column)
    pairs = {
        _sized(label, size): (far(arm, measure), far(group[EQUAL], measure))
        for label, group in turned.families.items()
        for size, arm in group.items()
        if size != EQUAL and not {_sized(label, size), _sized(label, EQUAL)} & set(dull)
    }
    contrasts = compare(pairs, f"the study {study.name}")
    word, tone = chip(contrasts, "it matters", "no difference", "higher", "lower")
    small = {_sized(label, size) for label in turned.families for size in turned.tried if size < EQUAL}
    main = [one for one in contrasts if one.label in small] or list(contrasts)
    by_size = {size: [one for one in contrasts if one.label.endswith(_sized("", size))] for size in turned.tried}
    told = sorted(by_size, key=lambda size: not any(one.word in ("higher", "lower") for one in by_size[size]))
    texts = []
    for size in told:  # what is clear first
        end = _sized("", size)
        if by_size[size]:
            ones = end.removeprefix(", ").replace(" (", " ones (")
            texts.append(f"with {ones} level-2 is {listing(by_size[size], end)}")
    return Found(
        studies=(study,),
        answer=f"{lead(tone)}: against vectors that begin as large as the time ({EQUAL:g}), {'; '.join(texts)}.",
        word=word,
        tone=tone,
        contrasts=contrasts,
        ours_of=tuple(one.label for one in main),
        measure="level-2 with small vectors minus that with equal ones, mean over families",
        arms={label: arm.name for label, arm in arms.items()},
        panels=(
            turned.over("Level-2", "size of the vectors before training", lambda arm: far(arm, measure)),
            Gains(f"Minus equal vectors ({EQUAL:g})", contrasts),
        ),
        limits=(*numbers.left_out(dull), *numbers.still_moving(numbers.far_curves(arms, measure))),
    )


def _sized(family: str, size: float) -> str:
    kind = "small" if size < EQUAL else "large" if size > EQUAL else "equal"
    return f"{family}, {kind} ({size:g})"


def judge_remedies(studies: Mapping[str, StudyTable], measure: Measure) -> Found:
    """Remedies minus unknown; and, where both arms are there, guided minus told everything (see the file's top)."""
    study = studies[REMEDIES]
    column_there(study, measure)
    plain = {_rate(arm): arm for arm in study.arms if _remedy(arm) == UNKNOWN and _rate(arm) > 0}
    complete = next((arm for arm in study.arms if _remedy(arm) == UNKNOWN and _rate(arm) == 0), None)
    control = next((arm for arm in study.arms if arm.setting("generator.guidance") and _rate(arm) == 0), None)
    tried = {_missing(arm): arm for arm in study.arms if _remedy(arm) != UNKNOWN and _rate(arm) in plain}
    if not tried:
        raise Untested(f"the study {study.name} has no remedy beside an arm that is told {UNKNOWN}")
    arms = {**{_missing(arm): arm for arm in plain.values()}, **tried}
    named = {TOLD: complete} if complete is not None else {}
    guided = {_missing(control): control} if control is not None else {}
    dull = numbers.unlearned({**(named if guided else {}), **guided, **arms}, measure.column)
    pairs = {
        label: (far(arm, measure), far(plain[_rate(arm)], measure))
        for label, arm in tried.items()
        if not {label, _missing(plain[_rate(arm)])} & set(dull)
    }
    if not pairs:
        raise Untested(
            f"the study {study.name} has no remedy and {UNKNOWN} that both learned what they were trained on"
        )
    if complete is not None and not {TOLD, *guided} & set(dull):
        pairs |= {label: (far(arm, measure), far(complete, measure)) for label, arm in guided.items()}
    contrasts = compare(pairs, f"the study {study.name}")
    remedies = [one for one in contrasts if one.label in tried]
    word, tone = chip(remedies, "a remedy helps", "none helps", "higher")
    guesses = {label for label, arm in tried.items() if _remedy(arm) == INSTEAD["imputed"]}
    main = [one for one in remedies if one.label in guesses] or remedies
    texts = []
    for rate, arm in plain.items():
        own = [one for one in remedies if _rate(tried[one.label]) == rate]
        share = mean_text(far(arm, measure))
        if own:
            texts.append(f"with {_share(arm)} missing (unknown: {share}) level-2 is {listing(own, f', {_share(arm)}')}")
    answer = f"{lead(tone)}: against telling that a factor is unknown, {'; '.join(texts)}"
    ceiling = None if complete is None else interval(values(far(complete, measure)), share=True)
    if ceiling is not None:
        answer += f"; a model that is told everything draws {share_text(ceiling)}"
    arms = {**guided, **arms}
    without = [one for one in contrasts if one.label in guided]
    if without:
        beside = [f"{one.text} for {one.label}" for one in remedies if tried[one.label].setting("generator.guidance")]
        answer += f", and against it level-2 is {listing(without)}" + (f", beside {join(beside)}" if beside else "")
    curves = numbers.far_curves(arms, measure)
    hues = {UNKNOWN: "grey", INSTEAD["imputed"]: "blue", INSTEAD["zero"]: "red", INSTEAD["zeros"]: "red"}
    rows = [Row(label, hues.get(_remedy(arm), "violet"), values(far(arm, measure))) for label, arm in _ordered(arms)]
    return Found(
        studies=(study,),
        answer=f"{answer}.",
        word=word,
        tone=tone,
        contrasts=contrasts,
        ours_of=tuple(one.label for one in main),
        measure="level-2 with a guess of the missing factor minus that with unknown, mean over the shares missing",
        arms={label: arm.name for label, arm in {**named, **arms}.items()},
        panels=(
            Rows(
                "Level-2, by share of labels that lack a factor",
                tuple(rows),
                None if ceiling is None else ceiling.mean,
                TOLD,
            ),
            Gains(f"Minus unknown (0\u00a0%: minus {TOLD})" if without else "Minus unknown", contrasts),
        ),
        limits=(*numbers.left_out(dull), *map(_needs, guided.values()), *numbers.still_moving(curves)),
    )


def _needs(control: Arm) -> str:
    """In what the guided model that lacks no label differs from the one that is told everything, beside guidance."""
    withheld = 100 * float(control.setting("conditioning.drop_all") or 0)
    return (
        f"Where no label lacks a factor, the model is {_remedy(control)}, which needs training with nothing told at "
        f"all ({withheld:.0f}\u00a0% of the labels); the model that is {TOLD} is trained without that."
    )


def _rate(arm: Arm) -> float:
    """Share of labels that lack a factor."""
    return float(arm.setting("conditioning.dropout") or 0)


def _share(arm: Arm) -> str:
    return f"{100 * _rate(arm):.0f}\u00a0%"


def _remedy(arm: Arm) -> str:
    """What is done about a missing factor: told in its place, or steered by when drawing."""
    if arm.setting("generator.guidance"):
        return "guided by each factor" if arm.setting("generator.guided") == "each" else "guided by all together"
    if arm.setting("conditioning.drop_all"):
        return "all factors missing at times"
    missing = str(arm.setting("conditioning.missing"))
    if missing == "zero" and arm.setting("conditioning.kind") == "full":
        missing = "zeros"  # values have no class 0
    return INSTEAD.get(missing, missing) if _rate(arm) else UNKNOWN


def _missing(arm: Arm) -> str:
    return f"{_remedy(arm)}, {_share(arm)}"


def _ordered(arms: Mapping[str, Arm]) -> list[tuple[str, Arm]]:
    """By share missing, unknown first."""
    order = list(arms)
    key = [(_rate(arms[label]), _remedy(arms[label]) != UNKNOWN, order.index(label)) for label in order]
    return [(order[i], arms[order[i]]) for i in np.lexsort(np.array(key).T[::-1])]


B1 = Question(
    id="B1",
    claim="C1",
    title="How loudly factors are told",
    question="Does it decide what a model can draw how large the vectors of its factors are before training?",
    compares="Level-2 with vectors that begin small or large, minus that with equal ones",
    studies=(SPREAD,),
    judge=judge_spread,
)

B3 = Question(
    id="B3",
    claim="C3",
    title="Missing labels",
    question="Where a factor is missing from some labels, is there something better to tell than that it is unknown?",
    compares="Level-2 with each remedy, minus that with unknown at the same share of missing labels",
    studies=(REMEDIES,),
    judge=judge_remedies,
)
