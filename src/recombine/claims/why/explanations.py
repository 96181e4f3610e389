"""Three explanations that no paper gives, each put to the studies given: the table "Why" below the ledger."""

from collections.abc import Mapping, Sequence
from typing import Any

from recombine.claims.asking import (
    BY_PROBE,
    arms_named,
    asked_first,
    doubts,
    no_answer,
    own_limits,
    put,
    sentence,
    told_once,
)
from recombine.claims.tables import NAMED, Measure, StudyTable
from recombine.claims.verdicts import Untested, Verdict
from recombine.claims.why import dropout, peak, rise
from recombine.claims.why.answers import Answer, Explained, Explanation, NothingToExplain

EXPLANATIONS: tuple[Explanation, ...] = (
    peak.EXPLANATION,
    dropout.EXPLANATION,
    rise.EXPLANATION,
)


def explain(studies: Mapping[str, StudyTable], explanations: Sequence[Explanation] = EXPLANATIONS) -> list[Answer]:
    """The answer to every explanation's question."""
    return [ask_why(one, studies) for one in explanations]


def ask_why(one: Explanation, studies: Mapping[str, StudyTable]) -> Answer:
    """One answer: that of the best study that can give it, with what the others say beside it; also that there is
    nothing to explain in them. A study that answers with what is right and valid is better than any that can only
    answer with what the probe names right."""
    found, reasons = put(one.studies, one.judge, studies)
    found = told_once(found, lambda other: arms_named(other.study, other.arms.values()))
    reasons = told_once(reasons, lambda reason: reason.arms if isinstance(reason, NothingToExplain) else ())
    if not found:
        return Answer(one, None, (no_answer(one.studies, reasons, studies),))
    best = [other for other in found if not other.counted] or found
    first = next((other for other in best if other.word != "cannot tell"), best[0])
    evidence = [*first.notes, *(_same_on(other) for other in found if other is not first)]
    evidence += [sentence(str(reason)) for reason in reasons if isinstance(reason, NothingToExplain)]
    elsewhere = [_same_on(other) for other in found if other is not first and _contradicts(other, first)]
    limits = [*([one.caveat] if one.caveat else []), *first.limits]
    limits += asked_first(one.studies, first.study.name, studies) if first.word == "cannot tell" else []
    limits += [note for study in (first.study, *first.beside) for note in study.incomplete]
    limits += _otherwise(one, first, studies)
    limits += doubts(first.study, first.arms.values())
    limits += own_limits(first.study)
    return Answer(one, first, tuple(evidence), tuple(limits), tuple(elsewhere))


def _contradicts(other: Explained, first: Explained) -> bool:
    """Whether a rival that one study supports is contradicted by the other."""
    said = {outcome.rival: outcome.word for outcome in first.outcomes}
    clear = {"supported", "contradicted"}
    return any({one.word, said.get(one.rival)} == clear for one in other.outcomes)


def _same_on(other: Explained) -> str:
    said = "; ".join(f"{one.rival}: {one.word}" for one in other.outcomes)
    counted = f", {other.counted}" if other.counted else ""
    return f"The same test on the study {other.study.name} ({other.ours.n} seeds{counted}): {other.answer} ({said}.)"


def _otherwise(one: Explanation, first: Explained, studies: Mapping[str, StudyTable]) -> list[str]:
    """Where the probe alone would say something else of a rival, that it would."""
    try:
        other = one.judge(first.study, studies, Measure(NAMED))
    except Untested as reason:
        return [f"{BY_PROBE}, there is no answer: {reason}."]
    words = {outcome.rival: outcome.word for outcome in first.outcomes}
    changed = [f"{now.rival}: {now.word}" for now in other.outcomes if now.word != words[now.rival]]
    return [f"{BY_PROBE}, the word would change for {'; '.join(changed)}."] if changed else []


def with_why(verdicts: Sequence[Verdict], answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """The objects of `recombine claims --json`: the claims, each with its explanations under "why"."""
    return [
        one.to_json() | {"why": [answer.to_json() for answer in answers if answer.explanation.claim == one.id]}
        for one in verdicts
    ]
