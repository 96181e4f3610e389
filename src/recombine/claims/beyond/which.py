"""B13: which combinations are trained (study which-four-s; where that is not given, which-four). All arms train on
equally many combinations, and in all of them every value of every factor is seen. Does it matter which these are?

A combination of three factors has three pairs of values (shape and colour, shape and size, colour and size). A pair was
seen together where some trained combination has both of its values. A family's *covering* arm has seen every pair of
every combination; the others have not. Each comparison is the share of right pictures of the covering arm minus that of
another arm of the same family, over the combinations that neither of the two is trained on, so that both are asked for
the same. Beside it, not tested, stands what each arm draws of all that it is not trained on.

The comparisons were fixed before which-four was run. What is told beside them came afterwards, and so did that a second
arm which has seen every pair is not compared (the library's studies have none). That which-four-s is asked first was
fixed before it was run, when which-four and the arms called papers had been seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from recombine.claims.asking import asked_first
from recombine.claims.beyond import numbers
from recombine.claims.beyond.entries import SHARED, Contrast, Found, Gains, Numbers, Question, Row, Rows
from recombine.claims.beyond.numbers import Family, chip, colours, compare, lead, listing, mean_text, over_codes, values
from recombine.claims.tables import Arm, Measure, StudyTable
from recombine.claims.testing import COMPOSES, column_there
from recombine.claims.verdicts import Untested
from recombine.report.words import join, points
from recombine.splits import pairs_seen, parse_code

WHICH = ("which-four-s", "which-four")  # the same question, the larger models first
SETTING = "training.compositions"
MORE = (
    "Arms differ in more than the pairs that were seen: in how far what they are asked for is from training, how many "
    "trained combinations are near it, and how often a value was seen."
)
CALLED = "{} {}".format  # "DiT covering"


def judge_which(studies: Mapping[str, StudyTable], measure: Measure) -> Found:
    """The first study that is given answers; what another says stands beside."""
    first, *others = (studies[name] for name in WHICH if name in studies)
    found, _ = _judge(first, measure)
    beside = []
    for study in others:
        try:
            same, gains = _judge(study, measure)
            beside.append(f"The same of the study {study.name}: {same.word}. {gains}.")
        except Untested as reason:
            beside.append(f"The study {study.name} cannot be asked the same: {reason}.")
    return replace(
        found,
        studies=(first, *others),
        notes=(*found.notes, *beside),
        limits=(*found.limits, *asked_first(WHICH, first.name, studies)),
    )


def _judge(study: StudyTable, measure: Measure) -> tuple[Found, str]:
    """What one study says, and its comparisons in a few words."""
    column_there(study, measure)
    families = {label: _by_name(group) for label, group in numbers.families(study, SETTING).items()}
    families = {label: own for label, own in families.items() if _fewest_pairs(own[next(iter(own))]) == _most(study)}
    if not families:
        raise Untested(f"the study {study.name} has no arm that saw every two values together beside one that did not")
    arms = {CALLED(label, name): arm for label, own in families.items() for name, arm in own.items()}
    dull = numbers.unlearned(arms, measure.column)
    pairs, compared = {}, {}
    for label, own in families.items():
        first, *others = own
        for other in others:
            name, one, two = CALLED(label, other), own[first], own[other]
            both = _held_out(one) & _held_out(two)
            if both and _fewest_pairs(two) < _most(study) and not {CALLED(label, first), name} & set(dull):
                pairs[name] = _share(one, both, measure), _share(two, both, measure)
                compared[other] = f"{other} over {join(sorted(both))} ({_how_far(one, both)} and {_how_far(two, both)})"
    contrasts = compare(pairs, f"the study {study.name}", floor=COMPOSES.value)
    word, tone = chip(contrasts, "it matters", "no difference", "higher", "lower")
    drawn = {label: _share(arm, _held_out(arm), measure) for label, arm in arms.items()}
    told = _told(families, drawn)
    hue = colours({label: next(iter(own.values())) for label, own in families.items()})
    rows = [
        Row(CALLED(label, name), hue[label], values(drawn[CALLED(label, name)]))
        for label, own in families.items()
        for name in own
    ]
    curves = {label: over_codes(arm, _held_out(arm), measure.column) for label, arm in arms.items()}
    first_family = next(iter(families.values()))
    every = next(iter(first_family)).capitalize()
    some = next(iter(arms.values()))
    count = len(_trained(some))
    names = {label: {CALLED(label, name) for name in own} for label, own in families.items()}
    gains = join([f"{label} {_span([one for one in contrasts if one.label in own])}" for label, own in names.items()])
    found = Found(
        studies=(study,),
        answer=f"{lead(tone)}. {every} shows every two values together. Over what neither it nor another arm is "
        f"trained on, what it draws is, minus what the other does, {listing(contrasts)}. Of all that an arm is not "
        f"trained on it draws: {told}.",
        word=word,
        tone=tone,
        contrasts=contrasts,
        in_brief=f"Models are trained on {count} of {count + len(_held_out(some))} combinations. With {count} that "
        f"show every two values together, minus what is drawn with {count} others, over what neither is trained on: "
        f"{gains}.",
        measure="share of the combinations that neither is trained on, where every two values were seen together minus "
        "where others were, mean over the comparisons",
        arms={label: arm.name for label, arm in arms.items()},
        panels=(Rows("Of what it is not trained on", tuple(rows)), Gains(f"{every}, minus the other", contrasts)),
        notes=(
            _what_was_seen(first_family, _most(study)),
            f"Compared with {next(iter(first_family))}, in brackets how many factors away training is, there and here: "
            f"{'; '.join(compared.values())}.",
        ),
        limits=(*numbers.left_out(dull), MORE, *numbers.still_moving(curves)),
    )
    return found, gains


def _by_name(group: Family) -> dict[str, Arm]:
    """The arms of a family by what they are called without their family, "papers" for maskgit-papers; the one first
    whose held-out combinations have most of their pairs seen, counting the least of them."""
    ordered = sorted(group, key=lambda arm: -_fewest_pairs(arm))
    return {arm.name.removeprefix(f"{arm.setting('generator.kind')}-"): arm for arm in ordered}


def _trained(arm: Arm) -> list[str]:
    return [code for code, level in arm.study.finished.levels_of[arm.name].items() if level == 0]


def _held_out(arm: Arm) -> set[str]:
    return {code for code, level in arm.study.finished.levels_of[arm.name].items() if level > 0}


def _pairs_of(arm: Arm) -> list[int]:
    """How many pairs of each combination that the arm is not trained on it has seen together."""
    train = [parse_code(code) for code in _trained(arm)]
    return [pairs_seen(parse_code(code), train) for code in sorted(_held_out(arm))]


def _fewest_pairs(arm: Arm) -> int:
    return min(_pairs_of(arm), default=0)


def _most(study: StudyTable) -> int:
    """How many pairs a combination has."""
    factors = len(next(iter(study.finished.levels)))
    return factors * (factors - 1) // 2


def _how_far(arm: Arm, codes: set[str]) -> str:
    """How many factors combinations are away from what an arm is trained on."""
    levels = arm.study.finished.levels_of[arm.name]
    return join([str(level) for level in sorted({levels[code] for code in codes})], "or")


def _span(contrasts: Sequence[Contrast]) -> str:
    """ "+15 to +79 points (higher in 4 of 4)"."""
    if not contrasts:
        return "not compared"
    means = sorted(one.test.mean for one in contrasts)
    higher = sum(one.word == "higher" for one in contrasts)
    return f"{points(means[0])} to {points(means[-1])} points (higher in {higher} of {len(contrasts)})"


def _told(families: Mapping[str, Mapping[str, Arm]], drawn: Mapping[str, Numbers]) -> str:
    """ "DiT covering 90 %, papers 50 %; MaskGIT covering ..."."""
    each = {
        label: [f"{name} {mean_text(drawn[CALLED(label, name)])}" for name in own] for label, own in families.items()
    }
    return "; ".join(f"{label} {', '.join(own)}" for label, own in each.items())


def _share(arm: Arm, codes: set[str], measure: Measure) -> Numbers:
    return numbers.numbers(over_codes(arm, codes, measure.column), measure)


def _what_was_seen(arms: Mapping[str, Arm], most: int) -> str:
    """What the arms are trained on, and how many pairs they have seen of what they are not trained on."""
    texts = []
    for name, arm in arms.items():
        ends = [str(n) for n in sorted({min(_pairs_of(arm), default=0), max(_pairs_of(arm), default=0)})]
        texts.append(f"{name}: {', '.join(_trained(arm))} ({' to '.join(ends)})")
    seen = f"Trained (in brackets, how many of the {most} pairs of a held-out combination were seen together)"
    return f"{seen}: {'; '.join(texts)}."


B13 = Question(
    id="B13",
    claim="C1",
    title="Which combinations are trained",
    question="If equally many combinations are trained and every value is among them, does it matter which?",
    compares="Of what neither is trained on: with every two values seen together, minus with others",
    studies=WHICH,
    judge=judge_which,
    drawn=True,
    thresholds=(*SHARED, COMPOSES),
)
