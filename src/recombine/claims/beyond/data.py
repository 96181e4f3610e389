"""B2 and B4: what the training data must be like. Factors that depend on each other, and the number of compositions.

B2 (study dependent): level-2, and the trained compositions that are *rare* at the strongest dependence, with the
strongest dependence minus with none. Whether an arm has learned is asked of the trained compositions that are not rare.

B4 (study coverage; where that is not given, coverage-xs): the compositions that no arm is trained on, the same for
all, with most compositions trained minus with fewest; and from how many on an arm draws more than half of them
(*composes*). Levels are counted from what an arm itself is trained on, so an arm's farthest level is another with more
compositions: it is drawn beside and not tested.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from recombine.claims.asking import asked_first
from recombine.claims.beyond import numbers
from recombine.claims.beyond.entries import SHARED, Found, Gains, Numbers, Over, Question
from recombine.claims.beyond.numbers import Turned, chip, compare, far, lead, listing, mean_text, over_codes
from recombine.claims.tables import Arm, Measure, StudyTable
from recombine.claims.testing import COMPOSES, column_there
from recombine.claims.verdicts import Threshold, Untested
from recombine.report.words import join, percents
from recombine.splits import Split, composition_weights, parse_code
from recombine.splits import code as code_of

DEPENDENT = "dependent"
COVERAGE = ("coverage", "coverage-xs")  # the same question, the larger models first
AT, WITH = "{} at {:g}".format, "{} with {:g}".format  # what an arm is called: its family, and the value there

RARE = Threshold(
    "rare",
    0.25,
    "a trained composition is rare that is seen less often than this, in units of an even share, at the strongest "
    "dependence of the study; 6 of the 20 in the library's; ours",
)


# B2


def judge_dependent(studies: Mapping[str, StudyTable], measure: Measure) -> Found:
    study = studies[DEPENDENT]
    column_there(study, measure)
    groups = _by(study, "training.dependence")
    turned = Turned.of(groups, lambda arm: float(arm.setting("training.dependence") or 0), AT, base=0.0)
    if not turned.families:
        raise Untested(f"the study {study.name} has no family with and without dependence")
    arms, strongest = turned.arms, turned.tried[-1]
    first = next(iter(turned.families.values()))[0.0]
    rare, common = rare_and_common(study.finished.levels_of[first.name], strongest)
    dull = numbers.unlearned(arms, measure.column, common)

    def far_share(arm: Arm) -> Numbers:
        return far(arm, measure)

    def rare_share(arm: Arm) -> Numbers:
        return numbers.numbers(over_codes(arm, rare, measure.column), measure)

    pairs = turned.ends(far_share, dull)
    if rare:
        pairs |= {f"{label}, rare": pair for label, pair in turned.ends(rare_share, dull).items()}
    contrasts = compare(pairs, f"the study {study.name}")
    apart = [one for one in contrasts if not one.label.endswith(", rare")]
    seldom = [one for one in contrasts if one.label.endswith(", rare")]
    word, tone = chip(contrasts, "dependence costs", "no loss", "lower")
    answer = f"{lead(tone)}: at the strongest dependence ({strongest:g}) against none, level-2 is {listing(apart)}"
    if seldom:
        answer += f"; the {len(rare)} rarest trained compositions are {listing(seldom, ', rare')}"
    from_to = [
        f"from {mean_text(without)} to {mean_text(strong)} for {one.label}"
        for one in apart
        for strong, without in (pairs[one.label],)
    ]
    levels = study.finished.levels_of[first.name].values()
    brief = (
        f"In a world of {len(levels)} combinations, {sum(level == 0 for level in levels)} of them trained, right and "
        f"valid pictures of level-2 go, from no dependence to the strongest, {join(from_to)} ({first.steps:,} steps)."
    )
    axis = "strength of the dependence"
    return Found(
        studies=(study,),
        answer=f"{answer}. Level-2 goes {join(from_to)}.",
        word=word,
        tone=tone,
        contrasts=contrasts,
        ours_of=tuple(one.label for one in apart),
        in_brief=brief,
        measure="level-2 at the strongest dependence minus that without, mean over families",
        arms={label: arm.name for label, arm in arms.items()},
        panels=(
            turned.over("Level-2", axis, far_share),
            *((turned.over(f"{len(rare)} rarest trained", axis, rare_share),) if rare else ()),
            Gains("Strongest minus none", contrasts),
        ),
        limits=(*numbers.left_out(dull), *numbers.still_moving(numbers.far_curves(arms, measure))),
    )


def rare_and_common(levels: Mapping[str, int], dependence: float) -> tuple[set[str], set[str]]:
    """The trained compositions that are rare at this dependence, and the others. `levels` are of all compositions."""
    places = [parse_code(text) for text in levels]
    counts = tuple(1 + max(place[f] for place in places) for f in range(len(places[0])))
    train = tuple(sorted(parse_code(text) for text, level in levels.items() if level == 0))
    share = composition_weights(Split(counts, train), dependence)
    often = {
        code_of(c): float(weight) * len(train) / float(share.sum()) for c, weight in zip(train, share, strict=True)
    }
    rare = {text for text, times in often.items() if times < RARE.value}
    return rare, set(often) - rare


def _by(study: StudyTable, setting: str) -> dict[str, list[Arm]]:
    """Families, or Untested where there is none."""
    found = numbers.families(study, setting)
    if not found:
        raise Untested(f"the study {study.name} has no arms that differ in {setting} alone")
    return found


# B4


def judge_coverage(studies: Mapping[str, StudyTable], measure: Measure) -> Found:
    study = next(studies[name] for name in COVERAGE if name in studies)
    column_there(study, measure)
    levels = study.finished.levels_of
    turned = Turned.of(_by(study, "training.compositions"), _trained_count, WITH)
    arms, ticks = turned.arms, turned.ticks
    untrained = [{text for text, level in levels[arm.name].items() if level > 0} for arm in arms.values()]
    shared = set.intersection(*untrained)
    if not shared:
        raise Untested(f"the study {study.name} has no composition that no arm is trained on")
    dull = numbers.unlearned(arms, measure.column)
    curves = {label: over_codes(arm, shared, measure.column) for label, arm in arms.items()}
    found = {arms[label].name: numbers.numbers(curve, measure) for label, curve in curves.items()}
    contrasts = compare(turned.ends(lambda arm: found[arm.name], dull), f"the study {study.name}")
    word, tone = chip(contrasts, "it matters", "no difference", "higher", "lower")
    axis = "compositions trained"
    same = turned.over(f"The {len(shared)} that no arm trains on", axis, lambda arm: found[arm.name])
    farthest = turned.over("Farthest level of each arm", axis, lambda arm: far(arm, measure, _farthest(arm)))
    deepest = {n: {_farthest(group[n]) for group in turned.families.values() if n in group} for n in turned.tried}
    which = {f"{n:g}": "/".join(map(str, sorted(own))) for n, own in deepest.items()}
    depths = ", ".join(f"{level} with {tick}" for tick, level in which.items())
    farthest = _called(farthest, {tick: f"{tick}\nlevel-{level}" for tick, level in which.items()})
    world = len(levels[next(iter(arms.values())).name])
    texts = [numbers.over_half(line, f"of {world} trained") for line in same.lines]
    drawn = [f"{line.label} {percents(float(np.mean(own)) for own in line.values.values())}" for line in same.lines]
    answer = (
        f"Of the {len(shared)} compositions that no arm is trained on, {join(texts)}; with {ticks[-1]} trained instead "
        f"of {ticks[0]} the share is {listing(contrasts)}"
    )
    return Found(
        studies=(study,),
        answer=f"{answer}.",
        word=word,
        tone=tone,
        contrasts=contrasts,
        measure="share of the compositions that no arm is trained on, with most compositions trained minus with "
        "fewest, mean over families",
        arms={label: arm.name for label, arm in arms.items()},
        in_brief=f"Of the {len(shared)} of {world} combinations that no model is trained on it draws, with "
        f"{join(list(ticks))} trained: {join(drawn)}.",
        panels=(same, farthest, Gains(f"{ticks[-1]} minus {ticks[0]} trained", contrasts)),
        limits=(
            *numbers.left_out(dull),
            f"An arm's farthest level, drawn beside, is level {depths} trained.",
            *asked_first(COVERAGE, study.name, studies),
            *numbers.still_moving(curves),
        ),
    )


def _called(panel: Over, names: Mapping[str, str]) -> Over:
    """The same panel with other words for its ticks."""
    lines = [replace(line, values={names[tick]: own for tick, own in line.values.items()}) for line in panel.lines]
    return replace(panel, ticks=tuple(names[tick] for tick in panel.ticks), lines=tuple(lines))


def _trained_count(arm: Arm) -> int:
    """How many compositions it is trained on."""
    return sum(level == 0 for level in arm.study.finished.levels_of[arm.name].values())


def _farthest(arm: Arm) -> int:
    """An arm's farthest level."""
    return max(arm.study.finished.levels_of[arm.name].values())


B2 = Question(
    id="B2",
    claim="C1",
    title="Factors that depend on each other",
    question="If factors go together in the training data, does a model lose what it never, or rarely, saw together?",
    compares="Level-2, and rare trained compositions, at the strongest dependence minus without",
    studies=(DEPENDENT,),
    judge=judge_dependent,
    thresholds=(*SHARED, RARE),
)

B4 = Question(
    id="B4",
    claim="C1",
    title="How many compositions",
    question="Of how many combinations must a model see examples before it can draw the others?",
    compares="The compositions that no arm is trained on, with most compositions trained minus with fewest",
    studies=COVERAGE,
    judge=judge_coverage,
    thresholds=(*SHARED, COMPOSES),
)
