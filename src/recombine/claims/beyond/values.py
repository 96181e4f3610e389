"""B5: how many values each factor has (studies coverage-values-N).

Level-2, the farthest level of the papers' split, with most values per factor minus with fewest, and up to how many
values an arm draws more than half. The worlds differ, so seeds pair by name only.

A larger world has values that the smaller ones lack, and these may be harder to draw whatever their number. So beside
the answer stands the same over the level-2 combinations that all the worlds have. It was added when coverage-values-3
and -4 had been seen, is corrected apart, and decides nothing.
"""

from collections.abc import Mapping, Sequence

from recombine.claims.asking import lacking
from recombine.claims.beyond import numbers
from recombine.claims.beyond.entries import SHARED, Found, Gains, Over, Question
from recombine.claims.beyond.numbers import Turned, chip, compare, far, listing, mean_text, over_codes
from recombine.claims.tables import FAR, Arm, Measure, StudyTable
from recombine.claims.testing import COMPOSES, column_there
from recombine.claims.verdicts import Untested
from recombine.report.words import join

BY_VALUES = ("coverage-values-2", "coverage-values-3", "coverage-values-4")
WITH = "{} with {:g}".format
FEW = 4  # combinations that are named one by one


def judge_values(studies: Mapping[str, StudyTable], measure: Measure) -> Found:
    given = sorted((studies[name] for name in BY_VALUES if name in studies), key=_values_of)
    for study in given:
        column_there(study, measure)
    if len(given) < 2:
        raise Untested(f"only the study {given[0].name} was given, and two are needed to compare")
    arms: dict[str, Arm] = {}
    groups: dict[str, dict[float, Arm]] = {}
    for study in given:
        for label, arm in zip(numbers.label_all(study.arms), study.arms, strict=True):
            groups.setdefault(label, {})[_values_of(study)] = arm
            arms[WITH(label, _values_of(study))] = arm
    turned = Turned({label: group for label, group in groups.items() if len(group) > 1}, WITH)
    dull = numbers.unlearned(arms, measure.column)
    pairs = turned.ends(lambda arm: far(arm, measure), dull)
    contrasts = compare(pairs, f"the studies {join([study.name for study in given])}")
    word, tone = chip(contrasts, "it matters", "no difference", "higher", "lower")
    lines = turned.lines(lambda arm: far(arm, measure))
    ticks = tuple(str(_values_of(study)) for study in given)
    texts = [numbers.over_half(line, "values per factor") for line in lines]
    answer = f"At level-2 {join(texts)}; with {ticks[-1]} values instead of {ticks[0]} it is {listing(contrasts)}"
    curves = numbers.far_curves(arms, measure)
    return Found(
        studies=tuple(given),
        answer=f"{answer}.",
        word=word,
        tone=tone,
        contrasts=contrasts,
        measure="level-2 with most values per factor minus that with fewest, mean over families",
        arms={label: arm.name for label, arm in arms.items()},
        panels=(
            Over("Level-2", "values per factor", ticks, lines),
            Gains(f"{ticks[-1]} minus {ticks[0]} values", contrasts),
        ),
        notes=_alike(given, turned, dull, measure),
        limits=(
            *numbers.left_out(dull),
            *_uneven(given),
            *lacking(BY_VALUES, studies),
            *numbers.still_moving(curves),
        ),
    )


def _alike(given: Sequence[StudyTable], turned: Turned, dull: Mapping[str, str], measure: Measure) -> tuple[str, ...]:
    """The same comparisons over the level-2 combinations that all worlds have; none where these are all there are."""
    named = [_far_by_name(study) for study in given]
    shared = set(named[0]).intersection(*named)
    if not shared or all(set(own) == shared for own in named):
        return ()
    codes = {study.name: {own[name] for name in shared} for study, own in zip(given, named, strict=True)}
    pairs = turned.ends(
        lambda arm: numbers.numbers(over_codes(arm, codes[arm.study.name], measure.column), measure), dull
    )
    few, many = turned.ticks[0], turned.ticks[-1]
    drawn = [
        f"{label} draws {mean_text(b)} with {few} and {mean_text(a)} with {many}" for label, (a, b) in pairs.items()
    ]
    which = "one combination is" if len(shared) == 1 else f"{len(shared)} combinations are"
    in_words = [" ".join(name) for name in named[0] if name in shared] if len(shared) <= FEW else []
    found = compare(pairs, f"the studies {join([study.name for study in given])}")
    return (
        f"Of level-2, {which} in all these worlds{': ' if in_words else ''}{join(in_words)}. Of these alone "
        f"{join(drawn)}; that is {listing(found)} (corrected among themselves; looked at when studies had been seen).",
    )


def _far_by_name(study: StudyTable) -> dict[tuple[str, ...], str]:
    """{the values of a level-2 combination in words: its code}."""
    factors = study.finished.part("world").get("factors") or []
    codes = [code for code, level in study.finished.levels.items() if level == FAR]
    if not factors:
        return {(code,): code for code in codes}
    return {tuple(factor["values"][int(at)] for factor, at in zip(factors, code, strict=True)): code for code in codes}


def _counts(study: StudyTable) -> list[int]:
    """How many values each factor has."""
    codes = list(study.finished.levels)
    return [len({text[f] for text in codes}) for f in range(len(codes[0]))]


def _uneven(studies: Sequence[StudyTable]) -> list[str]:
    """That some factor has fewer values than is said, where one has."""
    if all(len(set(_counts(study))) == 1 for study in studies):
        return []
    worlds = [" x ".join(map(str, _counts(study))) for study in studies]
    return [f"Not every factor has as many values as is said: the worlds are {join(worlds)}."]


def _values_of(study: StudyTable) -> int:
    """Values per factor, the most where they differ."""
    return max(_counts(study))


B5 = Question(
    id="B5",
    claim="C1",
    title="How many values",
    question="With more values per factor, does a model draw more of the combinations it never saw?",
    compares="Level-2 with most values per factor minus that with fewest",
    studies=BY_VALUES,
    judge=judge_values,
    thresholds=(*SHARED, COMPOSES),
)
