"""Putting one question to the studies that can answer it: what claims and explanations share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from recombine.claims.tables import Measure, StudyTable
from recombine.claims.verdicts import Untested
from recombine.report.words import join

Found = TypeVar("Found")

BY_PROBE = "Judged by the probe alone (valid or not)"


def put(
    names: Sequence[str],
    judge: Callable[[StudyTable, Mapping[str, StudyTable], Measure], Found],
    studies: Mapping[str, StudyTable],
) -> tuple[list[Found], str]:
    """What `judge` finds in those of the studies `names` that are given, in that order; and, where it finds nothing,
    why, as a sentence."""
    found: list[Found] = []
    reasons = []
    for name in names:
        if name not in studies:
            continue
        try:
            found.append(judge(studies[name], studies, Measure()))
        except Untested as reason:
            reasons.append(str(reason))
    absent = f"no result of the study {join(list(names), 'or')} was given"
    shrunk = [name for name in names if f"{name}-shrunk" in studies]
    if shrunk:
        absent += f" ({shrunk[0]}-shrunk is a smoke test, from which nothing is judged)"
    return found, "" if found else _sentence("; ".join(reasons) or absent)


def few_samples(study: StudyTable, arms: Iterable[str]) -> list[str]:
    """A sentence where compositions of these arms were judged on few pictures."""
    names = set(arms)
    fewest = min(row["n"] for row in study.finished.rows if row["arm"] in names)
    return [f"Each composition was judged on {fewest} pictures per evaluation only."] if fewest < 128 else []


def own_limits(study: StudyTable) -> list[str]:
    """What the study's author says that it cannot show."""
    return [f"The study's own limits: {study.finished.limits}"] if study.finished.limits else []


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
