"""All questions beyond the papers, put to the studies given. One whose study is not given is not asked."""

from collections.abc import Mapping, Sequence
from typing import Any

from recombine.claims.asking import BY_PROBE, doubts, own_limits, sentence
from recombine.claims.beyond.bridge import B8
from recombine.claims.beyond.categories import B12
from recombine.claims.beyond.data import B2, B4
from recombine.claims.beyond.entries import Entry, Found, Question
from recombine.claims.beyond.jepa import B7
from recombine.claims.beyond.jepa_published import B10
from recombine.claims.beyond.loud import B9
from recombine.claims.beyond.tokens import B6
from recombine.claims.beyond.told import B1, B3
from recombine.claims.beyond.values import B5
from recombine.claims.beyond.which import B13
from recombine.claims.beyond.withheld import B11
from recombine.claims.tables import NAMED, Measure, StudyTable
from recombine.claims.verdicts import Untested
from recombine.report.reading import some

QUESTIONS: tuple[Question, ...] = (B1, B2, B3, B4, B5, B6, B7, B8, B9, B10, B11, B12, B13)


def look_beyond(studies: Mapping[str, StudyTable], questions: Sequence[Question] = QUESTIONS) -> list[Entry]:
    """An entry for every question that has a study here."""
    return [ask_beyond(one, studies) for one in questions if any(name in studies for name in one.studies)]


def ask_beyond(one: Question, studies: Mapping[str, StudyTable]) -> Entry:
    try:
        found = one.judge(studies, Measure())
    except Untested as reason:
        named = None if one.own_count else _by_probe(one, studies)[0]
        return Entry(one, None, sentence(str(reason)), by_probe=named)
    limits = [note for study in found.studies for note in study.incomplete]
    limits += found.limits
    named = None
    if not found.studies[0].is_plane:  # there every cell is judged once, at the end and by one measure
        if not one.own_count:
            named, why = _by_probe(one, studies)
            limits += [f"{BY_PROBE}, there is no answer: {why}."] if why else []
            limits += _at_peaks(one, found, studies)
        few = [text for study in found.studies for text in doubts(study, study.finished.measured)]
        limits += list(dict.fromkeys(few))
    said = [text for study in found.studies if study.name in one.studies for text in own_limits(study)]
    return Entry(one, found, limits=(*limits, *dict.fromkeys(said)), by_probe=named)


def _by_probe(one: Question, studies: Mapping[str, StudyTable]) -> tuple[Found | None, str]:
    """What is found by the probe alone, or why nothing is."""
    try:
        return one.judge(studies, Measure(NAMED)), ""
    except Untested as reason:
        return None, str(reason)


def _at_peaks(asked: Question, found: Found, studies: Mapping[str, StudyTable]) -> list[str]:
    """Where it would be said otherwise of a comparison at each seed's peak, that it would."""
    words = "Judged at each seed's peak"
    try:
        other = asked.judge(studies, Measure(when="peak"))
    except Untested as reason:
        return [f"{words}, there is no answer: {reason}."]
    now = {contrast.label: contrast.word for contrast in found.contrasts}
    changed = [
        f"{one.label} ({one.text.split(' (')[0]}: {one.word} in place of {now.get(one.label, 'none')})"
        for one in other.contrasts
        if one.word != now.get(one.label)
    ]
    return [f"{words}, the word would change for {some(changed)}."] if changed else []


def with_beyond(objects: Sequence[dict[str, Any]], entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The objects of `recombine claims --json`, each claim with the entries that continue it under "beyond"."""
    return [
        one | {"beyond": [entry.to_json() for entry in entries if entry.asked.claim == one["id"]]} for one in objects
    ]


def read_from() -> set[str]:
    """The studies that an entry may be read from."""
    return {name for one in QUESTIONS for name in (*one.studies, *one.beside)}
