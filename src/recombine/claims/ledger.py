"""All claims put to all studies given: the ledger."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from recombine.claims import conditioning, jepa, ladder, tokenizer, untested
from recombine.claims.asking import (
    BY_PROBE,
    UNFINISHED,
    arms_named,
    asked_first,
    doubts,
    no_answer,
    own_limits,
    put,
    told_once,
)
from recombine.claims.beyond.questions import QUESTIONS
from recombine.claims.lookup import goes_on
from recombine.claims.planes.claims import CLAIMS as PLANES
from recombine.claims.tables import NAMED, Measure, StudyTable, open_study
from recombine.claims.verdicts import Claim, Finding, Part, Untested, Verdict
from recombine.claims.why.explanations import EXPLANATIONS
from recombine.errors import UserError
from recombine.report.words import join
from recombine.studies.ceilings import is_ceilings

CLAIMS: tuple[Claim, ...] = (
    ladder.CLAIM,
    tokenizer.CLAIM,
    conditioning.CLAIM,
    jepa.GAIN,
    jepa.LAYERS,
    *untested.CLAIMS,
    *PLANES,
)
FIGURES = "figures"  # the folder beside the studies that holds RESULTS.md's own pictures
ASKED = "asked"  # the figure of what is asked and what counts
DRAWN = "-drawn"  # ends the name of a figure of what the models draw
QUALITY = "quality-"  # begins the name of a figure of a study's quality

OTHERWISE = {
    BY_PROBE: Measure(NAMED),
    "Judged at the last evaluation alone": Measure(when="end"),
    "Judged at each seed's peak": Measure(when="peak"),
}
"""Other measures that the verdict is asked of; it is said where they change it."""


def open_studies(folders: Iterable[Path]) -> dict[str, StudyTable]:
    """The studies in these folders by name, in the folders' order; the folder of RESULTS.md's pictures is passed over.
    One that has not finished is called so, and no claim asks for it: which arms are there would decide what is found.

    Raises UserError where a folder is no study, or two hold studies of the same name: which to believe is not ours to
    choose.
    """
    found: dict[str, StudyTable] = {}
    for folder in folders:
        if is_figures(folder) or is_ceilings(folder):
            continue
        table = open_study(folder)
        name = table.name if table.finished.facts.get("finished") else f"{table.name}{UNFINISHED}"
        if name in found:
            if folder.resolve() == found[name].folder.resolve():
                raise UserError(f"{folder} was given twice; give it once.")
            raise UserError(
                f"{found[name].folder} and {folder} both hold a study named {table.name}; give one of them."
            )
        found[name] = table
    if not found:
        raise UserError("no folder of a study was given; give those that `recombine run` wrote, say results/*.")
    return found


def is_figures(folder: Path) -> bool:
    """Whether this is the folder that RESULTS.md keeps its pictures in: `results/*` names it beside the studies."""
    if folder.name != FIGURES or not folder.is_dir():
        return False
    names = {claim.id for claim in CLAIMS} | {one.id for one in EXPLANATIONS} | {one.id for one in QUESTIONS}
    names |= {f"{name}{DRAWN}" for name in with_pictures()}
    names |= {ASKED} | {f"{QUALITY}{name}" for claim in CLAIMS for name in claim.studies}
    return all(path.suffix == ".png" and path.stem in names for path in folder.iterdir())


def with_pictures() -> list[str]:
    """The claims and questions beside which RESULTS.md shows what the models draw, by their ids."""
    return [one.id for one in CLAIMS if one.drawn] + [one.id for one in QUESTIONS if one.drawn]


def make_ledger(studies: Mapping[str, StudyTable], claims: Sequence[Claim] = CLAIMS) -> list[Verdict]:
    """The verdict on every claim."""
    return [ask(claim, studies) for claim in claims]


def ask(claim: Claim, studies: Mapping[str, StudyTable]) -> Verdict:
    """One claim's verdict: that of the best study that can answer, with what the others say beside it."""
    if claim.judge is None:
        return Verdict(claim, "untested", None, (claim.why_untested,))
    found, reasons = put(claim.studies, claim.judge, studies)
    found = told_once(found, lambda one: arms_named(one.study, one.arms.values()))
    if not found:
        return Verdict(claim, "untested", None, (no_answer(claim.studies, reasons, studies),))
    answered = [one for one in found if one.verdict != "untested"]
    first = min(answered or found, key=lambda one: len(one.lacking) > 0)  # the first of those that have all it asks for
    evidence = [part.sentence for part in first.parts if part.sentence and not _limits(part)]
    limits = [part.sentence for part in first.parts if part.sentence and _limits(part)]
    limits += first.limits
    limits += asked_first(claim.studies, first.study.name, studies) if first.verdict == "untested" else []
    beside = [one for one in found if one is not first]
    evidence += [*first.notes, *_beside(claim, first, [one for one in beside if not one.lacking])]
    limits += _beside(claim, first, [one for one in beside if one.lacking])  # one that has all might say otherwise
    other: dict[str, Finding] = {}
    if not first.study.is_plane:  # there one picture of every cell is judged, at the end and by one measure
        other = _otherwise(claim, first, studies)
        limits += _would_be(claim, first, other)
        limits += doubts(first.study, first.arms.values())
    limits += own_limits(first.study)
    named = other.get(BY_PROBE)
    by_probe, word = (named.ours, named.verdict) if named else (None, None)
    return Verdict(claim, first.verdict, first, tuple(evidence), tuple(limits), by_probe, word)


def _limits(part: Part) -> bool:
    """Whether a part is a limit that was met: it is said apart from the evidence."""
    return part.role == "limit" and part.state != "held"


def _beside(claim: Claim, first: Finding, others: Sequence[Finding]) -> list[str]:
    """What the same test says of the other studies that have the arms for it, and why where it cannot tell."""
    texts = []
    for one in others:
        numbers = f"{claim.text(one.ours.mean)}{claim.unit_text}, {_sample(one, first)}"
        numbers += f"; it has no {join(list(one.lacking), 'or')}" if one.lacking else ""
        open_parts = [part.sentence for part in one.parts if part.state == "open" and part.sentence]
        why = f" {open_parts[0]}" if one.verdict == "untested" and open_parts else ""
        texts.append(f"The same test on the study {one.study.name}: {one.verdict} ({numbers}).{why}")
    return texts


def _sample(one: Finding, first: Finding) -> str:
    """How many seeds a finding has; and where most of its runs are those of the first, cut short or trained on, or all
    have its seeds, that it is no second sample."""
    plain = f"{one.ours.n} seeds"
    if one.study.is_plane:
        return plain
    arms, known = (arms_named(found.study, found.arms.values()) for found in (one, first))
    for words, same in (
        (", trained on to", [arm for arm in arms if any(goes_on(arm, other) for other in known)]),
        (" up to", [arm for arm in arms if any(goes_on(other, arm) for other in known)]),
    ):
        if same and 2 * len(same) >= len(arms):
            names = {arm.name for arm in same}
            others = [label for label, name in one.arms.items() if name not in names]
            but = f", but for {join(others)}" if others else ""
            return f"the same runs{words} step {max(arm.steps for arm in same):,}{but}"
    seeds = [set.intersection(*(set(arm.seeds) for arm in own)) for own in (arms, known)]
    return f"{plain} of the same numbers" if seeds[0] == seeds[1] else plain


def _otherwise(claim: Claim, first: Finding, studies: Mapping[str, StudyTable]) -> dict[str, Finding]:
    """What the same test finds by other measures, where it can be made."""
    assert claim.judge is not None
    found = {}
    for words, measure in OTHERWISE.items():
        try:
            found[words] = claim.judge(first.study, studies, measure)
        except Untested:
            continue
    return found


def _would_be(claim: Claim, first: Finding, others: Mapping[str, Finding]) -> list[str]:
    """Where another measure would change the verdict, that it would."""
    return [
        f"{words}, the verdict would be: {other.verdict} ({claim.text(other.ours.mean)}{claim.unit_text})."
        for words, other in others.items()
        if other.verdict != first.verdict
    ]
