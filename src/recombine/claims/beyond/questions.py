"""All questions beyond the papers, put to the studies given. One whose study is not given is not asked."""

from collections.abc import Mapping, Sequence
from typing import Any

from recombine.claims.asking import BY_PROBE, doubts, own_limits, sentence
from recombine.claims.beyond.bridge import B8
from recombine.claims.beyond.data import B2, B4, B5
from recombine.claims.beyond.entries import Entry, Found, Question
from recombine.claims.beyond.jepa import B7
from recombine.claims.beyond.tokens import B6
from recombine.claims.beyond.told import B1, B3
from recombine.claims.tables import NAMED, Measure, StudyTable
from recombine.claims.verdicts import Untested
from recombine.report.reading import some

QUESTIONS: tuple[Question, ...] = (B1, B2, B3, B4, B5, B6, B7, B8)

OTHERWISE = {
    BY_PROBE: Measure(NAMED),
    "Judged at each seed's peak": Measure(when="peak"),
}
"""Other measures that the comparisons are made by again; it is said where that changes a word."""


def look_beyond(studies: Mapping[str, StudyTable], questions: Sequence[Question] = QUESTIONS) -> list[Entry]:
    """An entry for every question that has a study here."""
    return [ask_beyond(one, studies) for one in questions if any(name in studies for name in one.studies)]


def ask_beyond(one: Question, studies: Mapping[str, StudyTable]) -> Entry:
    try:
        found = one.judge(studies, Measure())
    except Untested as reason:
        return Entry(one, None, sentence(str(reason)))
    limits = [note for study in found.studies for note in study.incomplete]
    limits += found.limits
    main = found.studies[0]
    if not main.is_plane:  # there every cell is judged once, at the end and by one measure
        limits += _otherwise(one, found, studies)
        few = [text for study in found.studies for text in doubts(study, study.finished.measured)]
        limits += list(dict.fromkeys(few))
    said = [text for study in found.studies if study.name in one.studies for text in own_limits(study)]
    return Entry(one, found, limits=(*limits, *dict.fromkeys(said)))


def _otherwise(one: Question, found: Found, studies: Mapping[str, StudyTable]) -> list[str]:
    """Where another measure would say otherwise of a comparison, that it would."""
    now = {contrast.label: contrast.word for contrast in found.contrasts}
    notes = []
    for words, measure in OTHERWISE.items():
        try:
            other = one.judge(studies, measure)
        except Untested as reason:
            notes.append(f"{words}, there is no answer: {reason}.")
            continue
        changed = [
            f"{contrast.label} ({contrast.word}, {contrast.text.split(' (')[0]})"
            for contrast in other.contrasts
            if contrast.word != now.get(contrast.label)
        ]
        if changed:
            notes.append(f"{words}, it would be said otherwise of {some(changed)}.")
    return notes


def with_beyond(objects: Sequence[dict[str, Any]], entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The objects of `recombine claims --json`, each claim with the entries that continue it under "beyond"."""
    return [
        one | {"beyond": [entry.to_json() for entry in entries if entry.asked.claim == one["id"]]} for one in objects
    ]


def read_from() -> set[str]:
    """The studies that an entry may be read from."""
    return {name for one in QUESTIONS for name in (*one.studies, *one.beside)}
