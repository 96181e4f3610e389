"""B13: pairs of values seen together (studies coverage and coverage-xs). Of combinations that lie equally far from
training, do models draw those more often of which more pairs of values were seen together?

A combination of three factors has three pairs of values (shape and colour, shape and size, colour and size). A pair was
seen together where some trained combination has both of its values. The papers' split lets distance and pairs go
together: all its level-1 combinations have two of three pairs, all its level-2 ones none.

Within an arm: over its level-1 combinations, the slope of the share drawn right on the number of pairs seen, per seed.
From one arm of a family to its next with more trained: over the combinations that neither is trained on, the slope of
what each gains on the number of its pairs that are new; here every combination is compared with itself. Both are points
per pair. An arm that draws hardly any of its level-1 combinations is left out, since nothing can matter there.

Written when the arms dit-4, dit-12, dit-20 and maskgit-4 of coverage had been seen, and dit-4 of coverage-xs: what it
says of DiT in coverage is a description, and its test are maskgit-12 and -20 there and dit-8 and -13 in coverage-xs.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from recombine.claims.asking import asked_first
from recombine.claims.beyond import numbers
from recombine.claims.beyond.data import COVERAGE, WITH, trained_count
from recombine.claims.beyond.entries import SHARED, Contrast, Found, Gains, Line, Numbers, Over, Question, together
from recombine.claims.beyond.numbers import Turned, chip, compare, lead, listing, mean_text, over_codes
from recombine.claims.tables import Arm, Measure, StudyTable
from recombine.claims.testing import MATTERS, column_there
from recombine.claims.verdicts import Untested
from recombine.report.words import join
from recombine.splits import pairs_seen, parse_code

NEAR = 1  # the level within which numbers of pairs are compared
COLOURS = ("blue", "violet", "green", "red", "ochre", "grey")  # of the arms, in their order
SEEN_BEFORE = "coverage"  # the study some of whose arms had been seen
Shares = Mapping[str, Numbers]
"""{combination: {seed: share}}."""


def judge_pairs(studies: Mapping[str, StudyTable], measure: Measure) -> Found:
    study = next(studies[name] for name in COVERAGE if name in studies)
    column_there(study, measure)
    turned = Turned.of(numbers.families(study, "training.compositions"), trained_count, WITH)
    dull = numbers.unlearned(turned.arms, measure.column)
    arms = {label: arm for label, arm in turned.arms.items() if label not in dull}
    pairs = {label: _pairs_of(arm) for label, arm in arms.items()}
    shares = {label: _shares(arm, pairs[label], measure) for label, arm in arms.items()}
    drawn = {label: own for label, own in shares.items() if _mean(_near(arms[label], own)) >= MATTERS.value}
    within = {label: _near(arms[label], own) for label, own in drawn.items()}
    within = {label: own for label, own in within.items() if len({pairs[label][code] for code in own}) > 1}
    slopes = {label: per_pair(own, pairs[label]) for label, own in within.items()}
    steps = _steps(turned, drawn, pairs)
    if not slopes and not steps:
        raise Untested(
            f"in the study {study.name} no arm draws combinations of one level of which different numbers of pairs "
            "were seen"
        )
    contrasts = compare(
        {label: (own, dict.fromkeys(own, 0.0)) for label, own in (slopes | steps).items()}, f"the study {study.name}"
    )
    word, tone = chip(contrasts, "pairs matter", "no difference", "higher", "lower")
    groups = {label: _by_pairs(own, pairs[label]) for label, own in within.items()}
    most = _most_pairs(study)
    texts = [_group_text(label, own, most) for label, own in groups.items()]
    levels = f"Of the combinations of level-{NEAR}, {'; '.join(texts)}. " if texts else ""
    answer = f"{lead(tone)}. {levels}Per further pair the share is {listing(contrasts)}"
    hardly = [label for label in shares if label not in drawn]
    return Found(
        studies=(study,),
        answer=f"{answer}.",
        word=word,
        tone=tone,
        contrasts=contrasts,
        ours=together(contrasts),
        in_brief=f"{levels}Per further pair: {_spans(contrasts)}.",
        measure="share of right pictures per further pair of values that was seen together, mean over the comparisons",
        arms={label: arm.name for label, arm in turned.arms.items()},
        panels=(
            *((_panel(groups, list(turned.arms), most),) if groups else ()),
            Gains("Per further pair seen together", contrasts),
        ),
        limits=(
            *numbers.left_out(dull),
            *([f"Left out, since hardly any level-{NEAR} combination is drawn: {join(hardly)}."] if hardly else []),
            "Within an arm, combinations differ in more than their pairs; from arm to arm each is compared with "
            "itself, but more is trained besides the new pairs.",
            *([_SEEN] if study.name == SEEN_BEFORE else []),
            *asked_first(COVERAGE, study.name, studies),
        ),
    )


_SEEN = (
    "What is compared was written when the arms dit-4, dit-12, dit-20 and maskgit-4 had been seen, so that it "
    "describes DiT here, and tests MaskGIT."
)


def per_pair(shares: Shares, pairs: Mapping[str, int]) -> dict[int, float]:
    """{seed: slope of the share on the number of pairs}, by least squares over the combinations."""
    codes = sorted(shares)
    x = np.array([pairs[code] for code in codes], float)
    x -= x.mean()
    seeds = sorted(set.intersection(*(set(shares[code]) for code in codes)))
    return {seed: float(x @ [shares[code][seed] for code in codes] / (x @ x)) for seed in seeds}


def _steps(turned: Turned, drawn: Mapping[str, Shares], pairs: Mapping[str, Mapping[str, int]]) -> dict[str, Numbers]:
    """{"DiT, 12 to 20": slope of the gain on the pairs that are new}, for every arm and its family's next."""
    found: dict[str, Numbers] = {}
    for label, group in turned.families.items():
        kept = [at for at in group if turned.called(label, at) in drawn]
        for few, many in pairwise(kept):
            one, two = turned.called(label, few), turned.called(label, many)
            both = sorted(set(drawn[one]) & set(drawn[two]))
            new = {code: pairs[two][code] - pairs[one][code] for code in both}
            if len(set(new.values())) > 1:
                gains = {code: {s: drawn[two][code][s] - v for s, v in drawn[one][code].items()} for code in both}
                found[f"{label}, {few:g} to {many:g}"] = per_pair(gains, new)
    return found


def _pairs_of(arm: Arm) -> dict[str, int]:
    """How many pairs of every combination that the arm is not trained on it has seen together."""
    levels = arm.study.finished.levels_of[arm.name]
    train = [parse_code(code) for code, level in levels.items() if level == 0]
    return {code: pairs_seen(parse_code(code), train) for code, level in levels.items() if level > 0}


def _shares(arm: Arm, codes: Mapping[str, int], measure: Measure) -> dict[str, Numbers]:
    return {code: numbers.numbers(over_codes(arm, {code}, measure.column), measure) for code in codes}


def _near(arm: Arm, shares: Shares) -> Shares:
    levels = arm.study.finished.levels_of[arm.name]
    return {code: own for code, own in shares.items() if levels[code] == NEAR}


def _mean(shares: Shares) -> float:
    return float(np.mean([value for own in shares.values() for value in own.values()])) if shares else 0.0


def _by_pairs(shares: Shares, pairs: Mapping[str, int]) -> dict[int, Numbers]:
    """{pairs seen: {seed: mean share of the combinations with so many}}."""
    groups: dict[int, list[Numbers]] = {}
    for code in sorted(shares):
        groups.setdefault(pairs[code], []).append(shares[code])
    return {
        seen: {seed: float(np.mean([one[seed] for one in own])) for seed in own[0]}
        for seen, own in sorted(groups.items())
    }


def _group_text(label: str, groups: Mapping[int, Numbers], most: int) -> str:
    """ "DiT with 12 draws 11 % (9-12 %) where 1 of 3 pairs of values was seen together and 62 % (...) where 2 were"."""
    first, *others = groups
    texts = [f"{mean_text(groups[first])} where {first} of {most} pairs of values {_be(first)} seen together"]
    texts += [f"{mean_text(groups[seen])} where {seen} {_be(seen)}" for seen in others]
    return f"{label} draws {join(texts)}"


def _spans(contrasts: Sequence[Contrast]) -> str:
    """The comparisons one by one, without their words."""
    return ", ".join(f"{one.label} {one.text}" for one in contrasts)


def _be(count: int) -> str:
    return "was" if count == 1 else "were"


def _most_pairs(study: StudyTable) -> int:
    factors = len(next(iter(study.finished.levels)))
    return factors * (factors - 1) // 2


def _panel(groups: Mapping[str, Mapping[int, Numbers]], labels: Sequence[str], most: int) -> Over:
    lines = tuple(
        Line(
            label, COLOURS[labels.index(label) % len(COLOURS)], {str(n): numbers.values(own) for n, own in each.items()}
        )
        for label, each in groups.items()
    )
    return Over(f"Level-{NEAR}", "pairs of values seen together", tuple(str(n) for n in range(most + 1)), lines)


B13 = Question(
    id="B13",
    claim="C1",
    title="Pairs of values seen together",
    question="Of combinations equally far from training, are those drawn more often whose values were seen in pairs?",
    compares="Share of right pictures per further pair of values that was seen together",
    studies=COVERAGE,
    judge=judge_pairs,
    thresholds=SHARED,
)
