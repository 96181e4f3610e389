"""Putting one question to the studies that can answer it: what claims and explanations share."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from shlex import quote
from typing import TypeVar

from recombine.claims.lookup import same_run
from recombine.claims.tables import Arm, Measure, StudyTable
from recombine.claims.verdicts import Untested
from recombine.report.words import join
from recombine.studies.diverged import diverged_seeds

Found = TypeVar("Found")

UNFINISHED = "-unfinished"  # ends what a study is called that has not finished
BY_PROBE = "Judged by the probe alone (valid or not)"


def put(
    names: Sequence[str],
    judge: Callable[[StudyTable, Mapping[str, StudyTable], Measure], Found],
    studies: Mapping[str, StudyTable],
) -> tuple[list[Found], list[Untested]]:
    """What `judge` finds in those of the studies `names` that are given, in that order; and why the others of these
    cannot answer."""
    found: list[Found] = []
    reasons: list[Untested] = []
    for name in names:
        if name not in studies:
            continue
        try:
            found.append(judge(studies[name], studies, Measure()))
        except Untested as reason:
            reasons.append(reason)
    return found, reasons


def no_answer(names: Sequence[str], reasons: Sequence[Untested], studies: Mapping[str, StudyTable]) -> str:
    """Why none of the studies `names` answers, as a sentence."""
    absent = f"no result of the study {join(list(names), 'or')} was given"
    for kind, why in (("-shrunk", "{0}-shrunk is a smoke test"), (UNFINISHED, "{0} has not finished")):
        if there := [name for name in names if f"{name}{kind}" in studies]:
            absent += f" ({why.format(there[0])}, and nothing is judged from it)"
    return sentence("; ".join(map(str, reasons)) or absent)


def asked_first(names: Sequence[str], answered: str, studies: Mapping[str, StudyTable]) -> list[str]:
    """Where the study that answered could not tell: that studies which are better placed to were not given."""
    return lacking(names[: names.index(answered)], studies, ", which would be asked first,")


def lacking(names: Sequence[str], studies: Mapping[str, StudyTable], aside: str = "") -> list[str]:
    """Which of the studies `names` were not given, or have not finished, in a sentence."""
    absent = [name for name in names if name not in studies]
    if not absent:
        return []
    what = "results" if not any(f"{name}{UNFINISHED}" in studies for name in absent) else "finished results"
    who = f"The studies {join(absent)}{aside} have" if len(absent) > 1 else f"The study {absent[0]}{aside} has"
    return [f"{who} no {what} here."]


def unfinished(studies: Mapping[str, StudyTable]) -> list[str]:
    """The studies that have not finished, a sentence each."""
    return [
        f"{study.name} has not finished, and nothing is judged from it; `recombine report {quote(str(study.folder))}` "
        "draws what is there."
        for name, study in studies.items()
        if name.endswith(UNFINISHED)
    ]


def of_no_claim(studies: Mapping[str, StudyTable], read: Collection[str]) -> str:
    """Where none of the studies is one that claims are judged from, that they go by name."""
    if any(name.removesuffix(UNFINISHED) in read for name in studies):
        return ""
    return (
        f"No claim is judged from {join([study.name for study in studies.values()])}: claims go by the names of the "
        "studies that come with Recombine (docs/claims.md), and `recombine report` shows what another one found."
    )


def told_once(found: Sequence[Found], arms: Callable[[Found], Sequence[Arm]]) -> list[Found]:
    """What was found, less what rests on the very runs of something before it: a study that took its arms over from
    another says nothing new of them. `arms` gives the arms that something rests on."""
    kept: list[Found] = []
    for one in found:
        if not any(_same_runs(arms(one), arms(other)) for other in kept):
            kept.append(one)
    return kept


def _same_runs(one: Sequence[Arm], two: Sequence[Arm]) -> bool:
    """Whether all of the first are among the second."""
    return len(one) > 0 and all(any(same_run(a, b) for b in two) for a in one)


def arms_named(study: StudyTable, names: Iterable[str]) -> list[Arm]:
    """The arms of a study by their names; none of those that it has not."""
    known = {arm.name: arm for arm in study.arms}
    return [known[name] for name in names if name in known]


def few_samples(study: StudyTable, arms: Iterable[str]) -> list[str]:
    """A sentence where compositions of these arms were judged on few pictures."""
    names = set(arms)
    fewest = min(row["n"] for row in study.finished.rows if row["arm"] in names)
    return [f"Each composition was judged on {fewest} pictures per evaluation only."] if fewest < 128 else []


def doubts(study: StudyTable, arms: Iterable[str]) -> list[str]:
    """What the rows of these arms give reason to doubt, a sentence each: few pictures, and members that diverged. Their
    seeds were asked for, so they stay, and their black pictures count as wrong."""
    names = list(dict.fromkeys(arms))
    notes = few_samples(study, names)
    for name in names:
        last = study.finished.last_steps.get(name)
        seeds = diverged_seeds(row for row in study.finished.rows if row["arm"] == name and row["step"] == last)
        if seeds:
            who = f"Seed{'s' if len(seeds) > 1 else ''} {join(list(map(str, seeds)))} of {name}"
            notes.append(f"{who} diverged, and what {'they draw' if len(seeds) > 1 else 'it draws'} counts as wrong.")
    return notes


def own_limits(study: StudyTable) -> list[str]:
    """What the study's author says that it cannot show."""
    return [f"The study's own limits: {study.finished.limits}"] if study.finished.limits else []


def without_own(limits: Iterable[str], study: StudyTable) -> list[str]:
    """The limits less the study's own: a page with many answers from one study says those once."""
    return [limit for limit in limits if limit not in own_limits(study)]


def sentence(text: str) -> str:
    """A reason with a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}."
