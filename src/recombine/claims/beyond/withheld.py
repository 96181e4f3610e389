"""B11: is the factor that is withheld at times in training the one that new combinations lack (study withheld)?

For every arm that withholds one factor alone, and for every factor: how often the probe names it right in the held-out
compositions, all of them, minus the same of the arm that withholds nothing. E2 asks it of one composition and factor,
those that dropout clearly loses late; here every one counts, so nothing is chosen by what was lost.

Written when withheld had been seen. The study withheld-again asks it of fresh seeds; where it is given, it answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from recombine.claims import lookup
from recombine.claims.beyond import numbers
from recombine.claims.beyond.entries import Contrast, Curves, Found, Gains, Line, Over, Question, Tone
from recombine.claims.beyond.numbers import compare, listing, mean_text, over_codes, values
from recombine.claims.tables import Arm, Curve, Measure, StudyTable
from recombine.claims.testing import MATTERS
from recombine.claims.verdicts import Untested
from recombine.claims.why.cells import FactorWords, factors_of
from recombine.claims.why.dropout_arms import withheld_of
from recombine.report.words import join, points

AGAIN, WITHHELD, BASE = "withheld-again", "withheld", "conditioning"
TURNED = ("conditioning.dropout", "conditioning.withheld")
NOTHING = "nothing"
COLOURS = ("red", "blue", "ochre", "green", "violet")
SEEN = (
    "What is compared was written when this study had been seen: that it is so waits for the study withheld-again, "
    "with fresh seeds."
)


def judge_withheld(studies: Mapping[str, StudyTable], measure: Measure) -> Found:
    """The measure is not asked for: a factor is named right or not, whether or not the picture is valid."""
    study = studies[AGAIN if AGAIN in studies else WITHHELD]
    factors = factors_of(study)
    alone, plain = _arms(study, studies, factors)
    arms = {NOTHING: plain, **alone}
    dull = numbers.unlearned({_label(name): arm for name, arm in arms.items()}, "joint")
    if _label(NOTHING) in dull:
        raise Untested(dull[_label(NOTHING)].removesuffix("."))
    kept = {name: arm for name, arm in arms.items() if _label(name) not in dull}
    curves = {(name, one.name): _curve(arm, one) for name, arm in kept.items() for one in factors}
    ends = {key: numbers.numbers(curve, Measure()) for key, curve in curves.items()}
    pairs = {
        _of(name, one.name): (ends[name, one.name], ends[NOTHING, one.name])
        for name in kept
        for one in factors
        if name != NOTHING
    }
    contrasts = compare(pairs, f"the study {study.name}")
    own = [one for one in contrasts if one.label in {_of(name, name) for name in kept}]
    others = [one for one in contrasts if one not in own]
    word, tone = _word(own, others)
    shown = {one.name: colour for one, colour in zip(factors, COLOURS, strict=False)}
    ticks = tuple(kept)
    return Found(
        studies=(study, *([plain.study] if plain.study is not study else [])),
        answer=f"{_lead(word)}: against nothing withheld, how often the withheld factor is named right in new "
        f"combinations is {_listed([_short(one) for one in own])}; of factors that are told it is {_listed(others)}."
        f"{_first_seen(study, studies)}",
        word=word,
        tone=tone,
        contrasts=contrasts,
        ours_of=tuple(one.label for one in own),
        afterwards=study.name == WITHHELD,
        measure="share of new combinations in which the withheld factor is named right, minus that of the same factor "
        "where nothing is withheld, mean over factors",
        arms={_label(name): arm.name for name, arm in arms.items()},
        panels=(
            Over(
                "Named right in new combinations",
                "withheld at times",
                ticks,
                tuple(
                    Line(name, colour, {tick: values(ends[tick, name]) for tick in ticks})
                    for name, colour in shown.items()
                ),
            ),
            Curves("Each where it is withheld", _own_curves(curves, shown)),
            Gains("Minus nothing withheld", contrasts),
        ),
        more=_ends(kept, factors, ends, contrasts),
        limits=(
            *([SEEN] if study.name == WITHHELD else []),
            *numbers.left_out(dull),
            *numbers.still_moving({_of(name, name): curves[name, name] for name in kept if name != NOTHING}),
        ),
    )


def _first_seen(study: StudyTable, studies: Mapping[str, StudyTable]) -> str:
    """What the study says that the comparison was written on, where this one is its test."""
    if study.name == WITHHELD or WITHHELD not in studies:
        return ""
    try:
        first = judge_withheld({name: table for name, table in studies.items() if name != AGAIN}, Measure())
    except Untested:  # the arm that it is compared with was not given
        return ""
    own = [_short(one) for one in first.contrasts if one.label in first.ours_of]
    steps = max(arm.steps for arm in first.studies[0].arms)
    return (
        f" The comparison was written on the study {WITHHELD} (other seeds, {steps:,} steps) and kept before this one "
        f"was run; there it is {_listed(own)}."
    )


def _arms(
    study: StudyTable, studies: Mapping[str, StudyTable], factors: Sequence[FactorWords]
) -> tuple[dict[str, Arm], Arm]:
    """The arms that withhold one factor alone, by its name, and the one that differs from them in withholding none."""
    found: dict[str, Arm] = {}
    for factor in factors:
        own = [arm for arm in study.arms if arm.setting(TURNED[0]) and withheld_of(arm, factors) == {factor.name}]
        found |= {factor.name: own[0]} if own else {}
    if not found:
        raise Untested(f"the study {study.name} has no arm that withholds one factor alone")
    tables = [study, *([studies[BASE]] if BASE in studies else [])]
    told = [arm for table in tables for arm in table.arms if not arm.setting(TURNED[0])]
    plain = next((arm for arm in told if not any(lookup.differences(arm, one, TURNED) for one in found.values())), None)
    if plain is None:
        raise Untested(
            f"the arm that withholds nothing, else like those of {study.name}, was not given ({BASE} has it)"
        )
    return found, plain


def _curve(arm: Arm, factor: FactorWords) -> Curve:
    held_out = {code for code, level in arm.study.finished.levels_of[arm.name].items() if level > 0}
    return over_codes(arm, held_out, factor.column)


def _own_curves(curves: Mapping[tuple[str, str], Curve], shown: Mapping[str, str]) -> dict[str, tuple[str, Curve]]:
    """Every factor in the arm that withholds it; and beside them the mean of all where nothing is withheld."""
    told = [curve for (name, _), curve in curves.items() if name == NOTHING]
    mean = Curve(told[0].steps, told[0].seeds, np.mean([curve.values for curve in told], axis=0))
    own = {name: (colour, curves[name, name]) for name, colour in shown.items() if (name, name) in curves}
    return own | {"nothing withheld, mean": ("grey", mean)}


def _label(name: str) -> str:
    return f"{name} withheld"


def _of(name: str, factor: str) -> str:
    return f"{name} withheld: {factor}"


def _word(own: Sequence[Contrast], others: Sequence[Contrast]) -> tuple[str, Tone]:
    """Whether a withheld factor is lower and no other; and how many of them."""
    lost = sum(one.word == "lower" for one in own)
    if any(one.word == "lower" for one in others):
        return ("others are lower too" if lost else "others are lower"), "clear"
    if lost:
        return f"yes, {lost} of {len(own)} factors", "clear"
    if all(one.word == "alike" for one in (*own, *others)):
        return "none is lower", "none"
    return "cannot tell", "open"


def _lead(word: str) -> str:
    if word.startswith("others"):
        return "Not it alone" if word.endswith("too") else "No, another"
    if word.startswith("yes"):
        return "Yes, where one is lower"
    return "No" if word == "none is lower" else "The seeds cannot tell"


def _short(one: Contrast) -> Contrast:
    """Named by the factor alone."""
    return replace(one, label=one.label.split(": ")[1])


def _listed(contrasts: Sequence[Contrast]) -> str:
    """As `listing`; but where all of many are within *matters*, by how much at most."""
    if len(contrasts) > 3 and all(one.word == "alike" for one in contrasts):
        most = max(contrasts, key=lambda one: max(abs(one.test.low or 0), abs(one.test.high or 0)))
        margin = f"{100 * MATTERS.value:.0f} points"
        return f"within {margin} in all {len(contrasts)} comparisons (the widest: {most.label}, {most.text})"
    return listing(contrasts)


def _ends(
    kept: Mapping[str, Arm],
    factors: Sequence[FactorWords],
    ends: Mapping[tuple[str, str], numbers.Numbers],
    contrasts: Sequence[Contrast],
) -> tuple[str, ...]:
    texts = [
        f"{_label(tick)} {join([f'{one.name} {mean_text(ends[tick, one.name])}' for one in factors])}" for tick in kept
    ]
    lower = [one for one in contrasts if one.word == "lower"]
    spans = [
        f"{one.label} p = {one.p:.2g}, seeds from {points(max(one.values.values()))} to "
        f"{points(min(one.values.values()))} points"
        for one in lower
    ]
    said = (f"By seed: {'; '.join(spans)}.",) if spans else ()
    return (
        f"Named right over the last fifth of the evaluations, in all combinations never trained: {'; '.join(texts)}.",
        *said,
    )


B11 = Question(
    id="B11",
    claim="C3",
    title="What is withheld and what is missing",
    question="When one factor is withheld at times in training, is it this factor that new combinations lack?",
    compares="Each factor named right in held-out combinations, one factor withheld minus none",
    studies=(AGAIN, WITHHELD),
    judge=judge_withheld,
    beside=(BASE,),
    own_count=True,
)
