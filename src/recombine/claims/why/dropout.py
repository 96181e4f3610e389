"""E2: why does withholding factors in training take some compositions to zero late?

First it is found which held-out compositions clearly fall from an early height under dropout, and which factor they
lose. Then arms are compared that differ in what dropout may touch: nothing, every factor, only the one that is lost,
only others; and in what is told in its place, a learned null or zeros (class 0 of a class, the middle of a value's
range).
"""

from collections.abc import Mapping

import numpy as np

from recombine.claims import lookup, testing
from recombine.claims.conditioning import FOLLOWED
from recombine.claims.tables import Arm, Measure, StudyTable
from recombine.claims.testing import MATTERS, as_interval, loss_text
from recombine.claims.verdicts import Extra, Untested
from recombine.claims.why.answers import (
    MOST,
    Dots,
    Explained,
    Explanation,
    Grid,
    Line,
    Lines,
    Outcome,
    Said,
    above_zero,
    by_test,
    reverse,
)
from recombine.claims.why.cells import FactorWords, cells, early, factors_of, in_words, late, peaks, towards
from recombine.claims.why.dropout_arms import Arms, Ends, Loss, fall_of, find_arms, losses
from recombine.judges.statistics import interval, paired
from recombine.report.words import join, percent, percents, points

INFERRED, WRONG, LONG = "the factor is inferred", "wrong labels", "long training"
RIVALS = {
    INFERRED: "A factor that is sometimes withheld is learned to be inferred from the others and the noisy picture, "
    "and this overrules what is told: withholding the lost factor alone is enough to lose it, withholding only others "
    "is not.",
    WRONG: "Telling zeros for a withheld factor (class 0 of a class, the middle of a value's range; a later commit of "
    "the authors' code tells zeros, to whole batches, and which code made the figures is not known) teaches wrong "
    "labels: with a learned null in its place less than half is lost.",
    LONG: "Training for long loses it: without any dropout the same compositions fall more than half as far.",
}
BRIEFLY = {INFERRED: "inference of the withheld factor", WRONG: "wrong labels", LONG: "long training alone"}
NOTHING, ALL, FAULTY = "none withheld", "all withheld", "told as zeros"
COLOURS = {NOTHING: "blue", ALL: "violet", FAULTY: "grey"}
MORE_COLOURS = ("red", "green", "ochre", "pink")  # arms that withhold some factors
Heard = tuple[Said, str]
"""A word on a rival and its numbers."""


def judge(study: StudyTable, others: Mapping[str, StudyTable], measure: Measure) -> Explained:
    testing.column_there(study, measure)
    factors = factors_of(study)
    kinds = [arms for kind in ("full", "quantized") if (arms := find_arms(study, others, kind, factors)) is not None]
    if not kinds:
        raise Untested(f"the study {study.name} has no arm with dropout beside the same without")
    kinds.sort(key=lambda arms: not arms.partial)  # first the kind that is also followed with some factors withheld
    subjects = [(arms, arms.dropped) for arms in kinds]
    subjects += [(arms, arms.faulty) for arms in kinds if arms.faulty is not None]
    tried = []
    for arms, subject in subjects:
        if not testing.learned(subject, measure, arms.seeds):
            tried.append(testing.not_learned(subject.name, subject, measure, arms.seeds))
            continue
        loss = losses(subject, arms.seeds, measure.column, factors)
        if loss.lost:
            return _explained(study, arms, subject, loss, factors, kinds)
        tried.append(f"{subject.name} loses no held-out composition by step {subject.steps:,}")
    short = any(arms.dropped.steps < FOLLOWED.value for arms in kinds)
    more = f"; the published loss is looked for up to step {FOLLOWED.value:,.0f}" if short else ""
    raise Untested(f"nothing is lost late that could be explained: {join(tried)}{more}")


def _explained(
    study: StudyTable, arms: Arms, subject: Arm, loss: Loss, factors: list[FactorWords], kinds: list[Arms]
) -> Explained:
    ends = Ends(arms, subject, loss)
    only, without = _some_withheld(arms, loss, ends)
    tests = {"plain": paired(fall_of(cells(arms.plain, arms.seeds), loss.lost, loss.column), MOST.value * loss.fall)}
    tests |= {"only": ends.against_half(only)} if only is not None else {}
    tests |= {"without": ends.against_half(without)} if without is not None else {}
    tests |= {"null": ends.against_half(arms.dropped, arms.faulty)} if arms.faulty is not None else {}
    p = testing.corrected(tests)
    words = {name: by_test(test, p[name]) for name, test in tests.items()}
    said = {
        INFERRED: _inferred(ends, words, only, without),
        WRONG: _wrong(ends, words),
        LONG: _long(ends, words),
    }
    shown = _labelled(arms)
    beside = {arm.study.name: arm.study for arm in shown.values() if arm.study is not study}
    notes = [
        _where(loss),
        _by_kind(kinds, factors),
        _each_alone(arms, loss),
        _other_kind(subject, kinds, factors, loss.column),
        testing.also_differ(NOTHING, shown, ("conditioning",)),
    ]
    return Explained(
        study=study,
        answer=_answer(loss, {rival: word for rival, (word, _) in said.items()}, factors),
        outcomes=tuple(Outcome(rival, *said[rival]) for rival in RIVALS),
        ours=as_interval(above_zero(loss.fall)),
        arms={
            label: arm.name if arm.study is study else f"{arm.name} ({arm.study.name})" for label, arm in shown.items()
        },
        panels=_panels(loss, shown, arms, factors),
        notes=tuple(note for note in notes if note),
        beside=tuple(beside.values()),
    )


def _some_withheld(arms: Arms, loss: Loss, ends: Ends) -> tuple[Arm | None, Arm | None]:
    """The arm that withholds the lost factor alone, and of those that withhold only others the one that loses most."""
    if loss.factor is None:
        return None, None
    name = loss.factor.name
    only = next((arm for names, arm in arms.partial if names == {name}), None)
    without = [arm for names, arm in arms.partial if name not in names]
    return only, min(without, key=lambda arm: float(ends.share(arm).mean()), default=None)


def _inferred(ends: Ends, words: Mapping[str, Said], only: Arm | None, without: Arm | None) -> Heard:
    arms, loss = ends.arms, ends.loss
    if loss.factor is None:
        gone = join([f"{name} {loss_text(test, loss.p[name])}" for name, test in loss.by_factor.items()])
        kept = all(test.high is not None and test.high < MATTERS.value for test in loss.by_factor.values())
        return "contradicted" if kept else "cannot tell", f"No factor is clearly lost ({gone})."
    name = loss.factor.name
    if ends.subject is arms.faulty:  # nothing is lost by withholding as such
        word: Said = "contradicted" if words["null"] == "contradicted" else "cannot tell"
        return word, f"Withheld with a learned null, {name} is right in {ends.text(arms.dropped)} there at the end."
    texts = [f"with every factor withheld at times {name} ends right in {ends.text(ends.subject)}"]
    texts.append(f"with none in {ends.text(arms.plain)}")
    texts += [f"with {name} alone in {ends.text(only)}"] if only is not None else []
    rest = [(names, arm) for names, arm in arms.partial if name not in names]
    texts += [f"with {join(sorted(names))} only in {ends.text(arm)}" for names, arm in rest]
    numbers = f"In the lost compositions, {', '.join(texts)}"
    if ends.nothing:
        return "cannot tell", f"{numbers}: no clear loss against the arm without dropout."
    if words.get("only") == "contradicted" or words.get("without") == "supported":
        return "contradicted", f"{numbers}."
    if words.get("only") == "supported" and words.get("without") == "contradicted":
        return "supported", f"{numbers}."
    absent = [f"{name} alone"] if only is None else []
    absent += [f"others than {name} only"] if without is None else []
    more = f"; no arm that can be paired withholds {join(absent, 'or')}" if absent else ""
    return "cannot tell", f"{numbers}{more}."


def _wrong(ends: Ends, words: Mapping[str, Said]) -> Heard:
    arms, loss = ends.arms, ends.loss
    if arms.faulty is None:
        return "contradicted", "It is lost with a learned null, without any wrong label."
    numbers = f"{loss.what.capitalize()} in the lost compositions at the end: {ends.text(arms.faulty)} where zeros are "
    numbers += f"told, {ends.text(arms.dropped)} with a learned null."
    return reverse(words["null"]), numbers


def _long(ends: Ends, words: Mapping[str, Said]) -> Heard:
    arms, loss = ends.arms, ends.loss
    falls = fall_of(cells(arms.plain, arms.seeds), loss.lost, loss.column)
    numbers = (
        f"From their early height to the end the same compositions lose {_points(falls)} points without dropout and "
        f"{_points(loss.fall)} with it (less than 0: they rise)"
    )
    if arms.plain.steps < ends.subject.steps and words["plain"] != "supported":
        return "cannot tell", f"{numbers}, but they were followed to step {arms.plain.steps:,} only."
    return words["plain"], f"{numbers}."


def _points(falls: np.ndarray) -> str:
    """A fall without its sign: "88 (80 to 96)"."""
    found = interval(falls)
    mean, low, high = (
        "" if end is None else points(end).removeprefix("+") for end in (found.mean, found.low, found.high)
    )
    return f"{mean} ({low} to {high})" if low else mean


def _where(loss: Loss) -> str:
    """Which compositions lose what, and where exchanging the lost factor leads."""
    texts = []
    for code in loss.lost:
        values = loss.own.share(code, loss.watched)
        before = early(values, peaks(loss.own.share(code, loss.column)))
        leads = f", {towards(code, loss.factor, loss.own.levels)}" if loss.factor else ""
        texts.append(f"{code} {percent(float(before.mean()))} to {percent(float(late(values).mean()))}{leads}")
    never = [code for code in loss.own.held_out if code not in loss.lost and _never_had(loss, code)]
    kept = [code for code in loss.own.held_out if code not in (*loss.lost, *never)]
    trained = float(late(loss.own.mean(loss.own.at(0), loss.watched)).mean())
    return (
        f"In {loss.own.arm.name}, {loss.what} from a composition's peak to the end: {'; '.join(texts)}"
        + (f"; not clearly lost: {join(kept)}" if kept else "")
        + (f"; hardly drawn at any time, so nothing to lose: {_falling(loss, never)}" if never else "")
        + f"; trained compositions end at {percent(trained)}."
    )


def _never_had(loss: Loss, code: str) -> bool:
    """Whether a composition was at no time drawn by a share that matters."""
    return float(loss.own.share(code, loss.column).mean(1).max()) < MATTERS.value


def _falling(loss: Loss, codes: list[str]) -> str:
    """Compositions with their lost factor from its own peak to the end: a picture that is wrong for another reason may
    lose it too."""
    texts = []
    for code in codes:
        values = loss.own.share(code, loss.watched)
        ends = early(values, peaks(values)).mean(), late(values).mean()
        texts.append(f"{code} ({loss.what} {percent(float(ends[0]))} to {percent(float(ends[1]))})")
    return join(texts)


def _by_kind(kinds: list[Arms], factors: list[FactorWords]) -> str:
    """Which factors both kinds of dropout have at the end: zeros may spare what the null loses, and lose others."""
    texts = []
    for arms in kinds:
        for words, arm in (("a learned null", arms.dropped), ("zeros", arms.faulty)):
            if arms.faulty is not None and arm is not None:
                own = cells(arm, arms.seeds)
                ends = {code: [late(own.share(code, one.column)).mean() for one in factors] for code in own.held_out}
                shares = [f"{code} {percents(found)}" for code, found in ends.items()]
                texts.append(f"{arms.kind} conditioning and {words} {', '.join(shares)}")
    names = " / ".join(one.name for one in factors)
    return f"Which factor is lost ({names} named right at the end): {'; '.join(texts)}." if texts else ""


def _each_alone(arms: Arms, loss: Loss) -> str:
    """How far arms that withhold some factors fall in the compositions that are lost, beside the one that does."""
    falls = {f"{join(sorted(names))} withheld": cells(arm, arms.seeds) for names, arm in arms.partial}
    texts = [f"{_points(fall_of(own, loss.lost, loss.column))} with {label}" for label, own in falls.items()]
    return (
        f"From their early height to the end, {join(list(loss.lost))} lose {_points(loss.fall)} points of right "
        f"pictures in {loss.own.arm.name}, {join(texts)} (less than 0: they rise)."
        if texts
        else ""
    )


def _other_kind(subject: Arm, kinds: list[Arms], factors: list[FactorWords], column: str) -> str:
    """What the other kind of conditioning loses."""
    texts = []
    for arms in kinds:
        if subject is arms.dropped or subject is arms.faulty:
            continue
        if not testing.learned(arms.dropped, Measure(column), arms.seeds):
            continue
        other = losses(arms.dropped, arms.seeds, column, factors)
        what = (
            f"{join(list(other.lost))} fall{'s' if len(other.lost) == 1 else ''}"
            if other.lost
            else "no held-out composition clearly falls"
        )
        by = f", by {other.factor.name}" if other.factor else ""
        texts.append(f"with {arms.kind} conditioning and dropout {what}{by}")
    return f"Beside it, {'; '.join(texts)}." if texts else ""


def _answer(loss: Loss, words: Mapping[str, Said], factors: list[FactorWords]) -> str:
    what = f"{loss.factor.name} falls back" if loss.factor else "right pictures are lost"
    first = f"In {join([in_words(code, factors) for code in loss.lost])} {what}"
    reasons = []
    if words[INFERRED] == "supported" and loss.factor is not None:
        reasons.append(
            "because a factor that is sometimes withheld is learned to be inferred: withholding "
            f"{loss.factor.name} alone is enough, withholding only others is not"
        )
    if words[WRONG] == "supported":
        reasons.append("because zeros are told for a withheld factor: a learned null loses less than half of it")
    if words[LONG] == "supported":
        reasons.append("because training is long: without dropout they fall too")
    if reasons:
        return f"{first} {'; and '.join(reasons)}."
    out = [BRIEFLY[rival] for rival, word in words.items() if word == "contradicted"]
    if len(out) == len(words):
        return f"{first}; none of the three reasons holds."
    ruled = f" It is not {join(out, 'or')}." if out else ""
    return f"{first}; why, the arms cannot tell.{ruled}"


def _labelled(arms: Arms) -> dict[str, Arm]:
    """The arms of the figure by label."""
    found = {NOTHING: arms.plain, ALL: arms.dropped} | ({FAULTY: arms.faulty} if arms.faulty is not None else {})
    return found | {f"{', '.join(sorted(names))} withheld": arm for names, arm in arms.partial}


def _panels(loss: Loss, shown: Mapping[str, Arm], arms: Arms, factors: list[FactorWords]) -> tuple[Grid, Lines, Dots]:
    some = [label for label in shown if label not in COLOURS]
    colours = COLOURS | {label: MORE_COLOURS[i % len(MORE_COLOURS)] for i, label in enumerate(some)}
    columns = {one.name: one.column for one in factors}
    columns["right, valid" if loss.column == "joint" else "all"] = loss.column
    held = loss.own.held_out
    never = [code for code in held if _never_had(loss, code)]  # no height to fall from: each factor from its own peak
    falls = [
        [fall_of(loss.own, (code,), one, one if code in never else loss.column).mean() for one in columns.values()]
        for code in held
    ]
    steps = {label: cells(arm, arms.seeds).steps for label, arm in shown.items()}
    curves = {label: cells(arm, arms.seeds).mean(loss.lost, loss.watched) for label, arm in shown.items()}
    return (
        Grid(f"{loss.own.arm.name}: from the peak to the end", tuple(held), tuple(columns), -np.array(falls)),
        Lines(
            f"{loss.what.capitalize()} in {join(list(loss.lost))}",
            tuple(Line(label, colours[label], steps[label], curves[label]) for label in shown),
            named=False,
        ),
        Dots("The same at the end", tuple(Extra(label, tuple(late(curves[label])), colours[label]) for label in shown)),
    )


EXPLANATION = Explanation(
    id="E2",
    claim="C3",
    title="What dropout loses late",
    question="Why does withholding factors in training take some new combinations to zero late?",
    rivals=RIVALS,
    measure="right and valid in the compositions that are lost, at their early height minus at the end",
    studies=lookup.STUDIES["E2"],
    judge=judge,
    beside=(*lookup.MISLABELLED, *lookup.WITHHELD),
    thresholds=(testing.CLEAR, testing.FEWEST_SEEDS, testing.LEARNED, MATTERS, MOST, FOLLOWED),
)
