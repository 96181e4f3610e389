"""The ledger for people: as a table in the terminal, and as RESULTS.md with its figures.

Everything in RESULTS.md follows from the studies' folders: the same tables give the same text, to the byte.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recombine.claims import tokenizer_ceilings
from recombine.claims.asked_figure import can_be_asked, draw_asked
from recombine.claims.asking import without_own
from recombine.claims.beyond import questions, sections
from recombine.claims.beyond.entries import Entry
from recombine.claims.brief import MODELS, brief_lines, what_counts, what_is_asked
from recombine.claims.ledger import ASKED, CLAIMS, DRAWN, FIGURES, QUALITY, make_ledger, open_studies, with_pictures
from recombine.claims.planes.judges import SCALING
from recombine.claims.quality import figure_name, qualities, qualities_beside, quality_pointer, quality_sections
from recombine.claims.tables import StudyTable
from recombine.claims.verdicts import WORDS, Verdict, Word
from recombine.claims.why.answers import Answer, Said
from recombine.claims.why.explanations import EXPLANATIONS, explain
from recombine.claims.why.sections import (
    RUNS,
    anchor,
    folded,
    mark,
    pictures_line,
    pointer,
    relative,
    run_anchor,
    source,
    why_sections,
)
from recombine.errors import UserError
from recombine.files import cannot_write, write_atomic
from recombine.progress import console, duration
from recombine.report.drawn import draw_pictures
from recombine.report.words import join

MARKS: dict[Word, str] = {"reproduced": "●", "partly": "◐", "not reproduced": "○", "untested": "·"}
SAID: dict[Said, str] = {"supported": "●", "contradicted": "○", "cannot tell": "◐"}
STATES = {"held": "holds", "in part": "in part", "failed": "does not hold", "open": "cannot tell"}
NARROW = 110  # columns of a terminal below which statements would run down in slivers
SLIM = 78  # below which numbers with both ends do not fit on a line either
PAPERS = {"C": ("objectives study", "arXiv 2510.03075"), "F": ("forced-rendering study", "arXiv 2501.18797")}


def published_text(verdict: Verdict) -> str:
    """The published number of the claim's measure, in points, or with its unit."""
    claim = verdict.claim
    return "" if claim.value is None else f"{claim.text(claim.value)}{_unit(verdict)}"


def _unit(verdict: Verdict) -> str:
    """What follows a number that is not in points."""
    return "" if verdict.claim.unit == "points" else verdict.claim.unit_text


def ours_text(verdict: Verdict) -> str:
    """Our number with its interval, in points, or with its unit; none where it was measured and nothing is judged by
    it: `--json` has it."""
    if verdict.finding is None:
        return ""
    return (
        "not judged"
        if verdict.verdict == "untested"
        else f"{verdict.claim.with_ends(verdict.finding.ours)}{_unit(verdict)}"
    )


def by_probe_text(verdict: Verdict) -> str:
    """The same as the papers count: what the probe names right, valid or not."""
    if verdict.by_probe is None or verdict.verdict == "untested":
        return ""
    return f"{verdict.claim.with_ends(verdict.by_probe)}{_unit(verdict)}"


def print_ledger(verdicts: Sequence[Verdict]) -> None:
    """The ledger in the terminal; what cannot be told is named below it, one line per reason. Where the terminal is too
    narrow for statements, a claim is named by its title, with the unit there, so that numbers stay on one line."""
    from rich.box import HEAVY_HEAD, SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    colours = {"reproduced": "green", "partly": "yellow", "not reproduced": "red", "untested": "bright_black"}
    tested = [one for one in verdicts if one.claim.judge is not None]
    counts = {one.seeds for one in tested if one.finding}
    seeds = f"; {counts.pop()} seeds" if len(counts) == 1 else ""
    narrow, whole = console().width < NARROW, console().width >= SLIM
    title = "In percentage points where no unit is given. C: level-2, last fifth of the evaluations; F: held-out pairs"
    style: dict[str, Any] = {"box": SIMPLE_HEAD, "padding": (0, 1, 0, 0)} if narrow else {"box": HEAVY_HEAD}
    table = Table(title=f"{title}{seeds}", title_justify="left", **style)
    table.add_column("", no_wrap=True)
    table.add_column("claim", overflow="fold", min_width=13)  # the longest word of a title
    table.add_column("published", justify="right", no_wrap=whole)
    table.add_column("here (95 %)", justify="right", no_wrap=whole)
    if not seeds:
        table.add_column("seeds", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for one in tested:
        unit = _unit(one)
        words = f"{one.claim.title}{f' ({unit.strip()})' if unit else ''}" if narrow else one.claim.statement
        numbers = [text.removesuffix(unit if narrow else "") for text in (published_text(one), ours_text(one))]
        numbers += [] if seeds else [str(one.seeds) if one.finding else ""]
        word = Text(f"{MARKS[one.verdict]} {one.verdict}", style=colours[one.verdict])
        table.add_row(one.id, words, *numbers, word)
    console().print(table)
    for verdict in verdicts:
        if verdict.verdict != "untested" and (reasons := _reasons(verdict)):
            console().print(f"{MARKS[verdict.verdict]} {verdict.id}: {reasons}", markup=False)
    for line in untested_lines(verdicts):
        console().print(f"{MARKS['untested']} {line}")


def print_why(answers: Sequence[Answer]) -> None:
    """The explanations in the terminal: each question with its answer, and what is said of its rivals."""
    from rich.table import Table

    table = Table(
        title="Why: explanations that no paper gives, put to the same tables", title_justify="left", expand=True
    )
    table.add_column("")
    table.add_column("question", overflow="fold", ratio=2)
    table.add_column("answer", overflow="fold", ratio=4)
    table.add_column("explanations", overflow="fold", ratio=3)
    for answer in answers:
        if answer.finding is not None:
            said = "\n".join(f"{SAID[one.word]} {one.rival}: {one.word}" for one in answer.finding.outcomes)
            table.add_row(answer.id, answer.explanation.question, answer.text, said)
    if table.row_count:
        console().print(table)
    for line in untested_lines(answers):
        console().print(f"{MARKS['untested']} {line}")


def untested_lines(verdicts: Sequence[Verdict] | Sequence[Answer]) -> list[str]:
    """Claims or explanations that have no test or no answer, grouped by the reason: "C6 and C7: It needs ..."."""
    groups: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.finding is None:
            groups.setdefault(" ".join(verdict.evidence), []).append(verdict.id)
    return [f"{_run_of(ids)}: {reason}" for reason, ids in groups.items()]


def _run_of(ids: list[str]) -> str:
    """ "F1 to F9" for a run of more than two, else all named."""
    numbers = [int(one[1:]) for one in ids]
    if len(ids) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{ids[0]} to {ids[-1]}"
    return join(ids)


def write_page(path: Path, folders: Sequence[Path]) -> tuple[list[Verdict], list[Answer], list[Entry]]:
    """Write RESULTS.md at `path` and its figures in results/figures beside it; returns the ledger, the answers and
    what lies beyond the papers."""
    from recombine.claims.beyond.figures import draw_entry
    from recombine.claims.figures import draw
    from recombine.claims.quality_figure import draw_quality
    from recombine.claims.why.figures import draw_answer

    if path.suffix != ".md" or path.is_dir():
        raise UserError(f"cannot write the results to {path}; give a file whose name ends in .md, say RESULTS.md.")
    studies = open_studies(folders)
    verdicts, answers, entries = make_ledger(studies), explain(studies), questions.look_beyond(studies)
    pictures = path.parent / "results" / FIGURES
    rows: list[Verdict | Answer] = [*verdicts, *answers]
    for one in rows:
        picture = pictures / f"{one.id}.png"
        if one.finding is None:
            _remove(picture)  # of an earlier ledger that could still tell
        elif isinstance(one, Answer):
            draw_answer(one, picture)
        else:
            draw(one, picture)
    pictured = {one.id: one.pictured for one in verdicts} | {one.id: one.pictured for one in entries}
    for name in with_pictures():
        picture, study = pictures / f"{name}{DRAWN}.png", pictured.get(name)
        if study is not None:
            draw_pictures(study.finished, picture)
        else:
            _remove(picture)
    study, picture = _asked(verdicts), pictures / f"{ASKED}.png"
    if study is not None and can_be_asked(study.finished):
        draw_asked(study.finished, picture)
    else:
        _remove(picture)
    measured = qualities(verdicts)
    for name in {name for claim in CLAIMS for name in claim.studies} - {one.study.name for one in measured}:
        _remove(pictures / f"{QUALITY}{name}.png")
    for quality in measured:
        draw_quality(quality, pictures / f"{figure_name(quality)}.png")
    answered = {entry.id: entry for entry in entries if entry.found is not None}
    for question in questions.QUESTIONS:
        picture = pictures / f"{question.id}.png"
        if question.id in answered:
            draw_entry(answered[question.id], picture)
        else:
            _remove(picture)
    tokens = tokenizer_ceilings.folder_of(folders, path.parent)
    write_atomic(path, page_text(verdicts, studies, path.parent, answers, entries, tokens))
    return verdicts, answers, entries


def _remove(picture: Path) -> None:
    try:
        picture.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(picture, error) from error


def page_text(
    verdicts: Sequence[Verdict],
    studies: Mapping[str, StudyTable],
    home: Path,
    answers: Sequence[Answer] | None = None,
    entries: Sequence[Entry] | None = None,
    tokens: Path | None = None,
) -> str:
    """RESULTS.md, for a place in the folder `home`; `answers` and `entries` are those of the same studies, asked for
    if not given, and `tokens` is the folder of ceilings."""
    answers = explain(studies) if answers is None else answers
    entries = questions.look_beyond(studies) if entries is None else entries
    measured = qualities(verdicts)
    ceilings = tokenizer_ceilings.read_ceilings(tokens or tokenizer_ceilings.folder_of([], home))
    parts = [_top(verdicts), *brief_lines(verdicts, entries, tokenizer_ceilings.brief(ceilings)), _ledger(verdicts)]
    parts += [*pointer(answers), *sections.beyond_pointer(entries)]
    beside = qualities_beside(studies, measured)
    parts += quality_pointer([*measured, *beside])
    parts += [_section(verdict, home) for verdict in verdicts if verdict.finding]
    parts += quality_sections(measured, home, beside)
    parts += tokenizer_ceilings.sections(ceilings, home)
    parts += why_sections(answers, home)
    parts += sections.beyond_sections(entries, home)
    parts += _not_tested(verdicts, answers)
    parts.append(_runs(studies, home))
    text = "\n\n".join(parts) + "\n"
    # Away from the code there are no docs to link to: there their names stand alone.
    if (home / "docs").is_dir():
        return text
    return re.sub(r"\[([^]]*)\]\((docs/[^)]*)\)", lambda link: _unlinked(*link.groups()), text)


def _unlinked(words: str, page: str) -> str:
    return page if words == page else f"{words} ({page})"


def _top(verdicts: Sequence[Verdict]) -> str:
    counts = {word: sum(verdict.verdict == word for verdict in verdicts) for word in WORDS}
    said = join([f"{count} {word}" for word, count in counts.items() if count])
    study = _asked(verdicts)
    figure = study is not None and can_be_asked(study.finished)
    picture = f"![What is asked and what counts](results/{FIGURES}/{ASKED}.png)\n\n" if figure else ""
    return (
        "# Results\n\n"
        "<!-- Written by `recombine claims results/* --write RESULTS.md`; a change by hand is lost. -->\n\n"
        f"Of {len(verdicts)} claims of two papers (C: {PAPERS['C'][1]}, F: {PAPERS['F'][1]}): {said}.\n\n"
        f"{picture}"
        f"- **What is asked.** {what_is_asked(study)} Where a study has another world, it is said.\n"
        f"- **Who is asked.** {MODELS}\n"
        f"- **Two counts.** {what_counts(study)}\n"
        "- **Numbers** are, where nothing else is said, shares of level-2 pictures over the last fifth of the "
        "evaluations, with 95 % intervals over seeds. Intervals are each by itself; p-values, and with them *higher*, "
        "*lower* and *clear*, are corrected for the tests that stand together in a section, so that an interval may "
        "leave out 0 and not be clear.\n"
        "- **The claims F** are about decoders that are told x and y and draw one bump there; the pairs (x, y) in a "
        "square were held out. A bump is *in place* where it is found within 1 pixel, at the end of training "
        "([docs/rendering.md](docs/rendering.md)).\n"
        "- **Verdicts** are reached as [docs/claims.md](docs/claims.md) says, by thresholds in the code. Most were "
        "fixed before the runs, as its history shows; those that were not stand in "
        "[a table](docs/claims.md#what-was-not-fixed-beforehand)."
    )


def _asked(verdicts: Sequence[Verdict]) -> StudyTable | None:
    """The study that shows on top what is asked: the first of generators that gives a verdict."""
    found = (one.finding.study for one in verdicts if one.finding)
    return next((study for study in found if not study.is_plane), None)


def _ledger(verdicts: Sequence[Verdict]) -> str:
    """One table per paper."""
    parts = [
        "## The ledger",
        "In percentage points where no unit is given, with 95 % intervals; below a verdict what it rests on. A model "
        "*composes* that draws more than half of level-2.",
    ]
    for letter, (name, paper) in PAPERS.items():
        own = [verdict for verdict in verdicts if verdict.id.startswith(letter)]
        found = [verdict for verdict in own if verdict.finding]
        probed = any(verdict.by_probe for verdict in found)
        heads = [f"{name}, {paper}", "what is compared", "published", *(["here, named right"] if probed else [])]
        heads += ["here, right and valid" if probed else "here", "seeds", "verdict"]
        lines = [f"| {' | '.join(heads)} |", f"|---|---|{'---:|' * (len(heads) - 3)}---|"]
        for verdict in found:
            cells = [f"**[{verdict.id}](#{anchor(verdict.id)})** {verdict.claim.statement}", verdict.claim.measure]
            cells += [published_text(verdict), *([by_probe_text(verdict)] if probed else []), ours_text(verdict)]
            why = f"<br>{reasons}" if (reasons := _reasons(verdict)) else ""
            why += f"<br>by what is named right: {verdict.turned}" if verdict.turned else ""
            lines.append(f"| {' | '.join(cells)} | {verdict.seeds} | {MARKS[verdict.verdict]} {verdict.verdict}{why} |")
        parts += ["\n".join(lines)] if found else []
        waiting = [verdict.id for verdict in own if not verdict.finding]
        if waiting:
            parts.append(f"Not tested of the {name}: {_run_of(waiting)} ([why](#not-tested)).")
    return "\n\n".join(parts)


def _reasons(verdict: Verdict) -> str:
    """What holds of a claim that is not wholly reproduced and what does not, by the names of its parts."""
    found = verdict.finding
    if found is None or verdict.verdict == "reproduced":
        return ""
    told = [part for part in found.parts if part.role == "core" or (part.role != "aside" and part.state == "failed")]
    groups = []
    for state, word in STATES.items():
        names = [part.name for part in told if part.state == state]
        names += [part.name for part in found.weaker] if state == "in part" else []
        groups += [f"{word}: {', '.join(names)}"] if names else []
    return "; ".join(groups)


def _not_tested(verdicts: Sequence[Verdict], answers: Sequence[Answer]) -> list[str]:
    """What the papers say that no study answers yet, and why."""
    lines = []
    for verdict in verdicts:
        if verdict.finding is None:
            numbers = f" ({verdict.claim.measure}: published {value})" if (value := published_text(verdict)) else ""
            name = f"**{verdict.id}**{mark(anchor(verdict.id))}"
            lines.append(f"- {name} {verdict.claim.statement}{numbers} {' '.join(verdict.evidence)}")
    for answer in answers:
        if answer.finding is None:
            name = f"**{answer.id}**{mark(anchor(answer.id))}"
            lines.append(f"- {name} {answer.explanation.question} {answer.text}")
    return ["## Not tested\n\n" + "\n".join(lines)] if lines else []


def heading(verdict: Verdict) -> str:
    return f"{verdict.id}. {verdict.claim.title}: {verdict.verdict}"


def _section(verdict: Verdict, home: Path) -> str:
    found = verdict.finding
    assert found is not None
    trust = f" ({verdict.claim.trust})" if verdict.claim.trust else ""
    arms = ", ".join(f"{label} is `{name}`" for label, name in found.arms.items())
    judged = [part.sentence for part in found.parts]
    lines = [
        mark(anchor(verdict.id)),
        f"## {heading(verdict)}",
        f"*{verdict.claim.statement}* Published: {verdict.claim.published}{trust}.",
        f"![{verdict.claim.title}](results/{FIGURES}/{verdict.id}.png)",
        " ".join(text for text in verdict.evidence if text in judged),
        *folded(text for text in verdict.evidence if text not in judged),
    ]
    if verdict.pictured is not None:
        lines.append(pictures_line(verdict.id))
    limits = without_own(verdict.limits, found.study)
    if limits:
        lines.append(f"**Limits.** {' '.join(limits)}")
    also = f", and {join([source(study, home) for study in found.beside])}" if found.beside else ""
    lines.append(f"From {source(found.study, home)}: {arms}{also}.")
    return "\n\n".join(lines)


def _runs(studies: Mapping[str, StudyTable], home: Path) -> str:
    """How each study was run, and what the author of one that is judged says it cannot show: folded below its name, to
    which links to it lead, and its extent."""
    parts = [f"## {RUNS}", "Each opens to its command and versions and, where it is read from, its own limits."]
    for name in sorted(studies):
        study = studies[name]
        facts = study.finished.facts
        seconds, taken = _own_seconds(study)
        said = [
            f"`{facts.get('command') or 'command not recorded'}`",
            f"code {join(_codes(study))}",
            _machines(study),
            *([duration(seconds) + taken] if seconds is not None else []),
        ]
        used = "" if name in read_from() else " No claim is judged from it."
        missing = f" <b>Incomplete:</b> {' '.join(study.incomplete)}" if study.incomplete else ""
        own = f" *Its limits:* {study.finished.limits}" if name in read_from() and study.finished.limits else ""
        title = f"{mark(run_anchor(name))}<b>{study.name}</b>: {_extent(study)}.{used}{missing}"
        parts += folded([f"[{study.name}]({relative(study.folder, home)}): {', '.join(said)}.{own}"], title)
    return "\n\n".join(parts)


def _machines(study: StudyTable) -> str:
    """What the study was finished on and, where that was another machine, what its arms were trained on."""

    def named(machine: Mapping[str, Any]) -> str:
        return str(machine.get("gpu") or f"{machine.get('cores', '?')} {machine.get('machine', '')} CPU cores")

    here = named(study.finished.part("hardware"))
    torch = f"torch {study.finished.part('versions').get('torch') or 'not recorded'}"
    arms = [
        entry for entry in study.finished.part("arms").values() if isinstance(entry, dict) and entry.get("hardware")
    ]
    there = {named(arm["hardware"]): f" with torch {arm['torch']}" if arm.get("torch") else "" for arm in arms}
    if not there or list(there) == [here]:
        return f"{torch}, {here}"
    trained = join([f"on {machine}{version}" for machine, version in there.items()])
    return f"trained {trained}, put together with {torch} on {here}"


def _own_seconds(study: StudyTable) -> tuple[float | None, str]:
    """What the study took itself, and in words which arms were taken over from others."""
    seconds = study.finished.part("seconds")
    total = seconds.get("total")
    if not isinstance(total, int | float):
        return None, ""
    taken = {
        name: str(arm["taken_from"])
        for name, arm in study.finished.part("arms").items()
        if isinstance(arm, dict) and arm.get("taken_from")
    }
    own = total - sum(float(seconds.get(f"arm {name}") or 0) for name in taken)
    if not taken:
        return own, ""
    others = join(sorted({"an earlier run of it" if one == study.name else one for one in taken.values()}))
    return own, f" without the {len(taken)} arm{'' if len(taken) == 1 else 's'} taken over from {others}"


def _codes(study: StudyTable) -> list[str]:
    """The versions of the code that the study was finished with and that its arms were trained with."""
    arms = [entry.get("code") for entry in study.finished.part("arms").values() if isinstance(entry, dict)]
    known = [str(code) for code in (study.finished.part("versions").get("code"), *arms) if code]
    return list(dict.fromkeys(known)) or ["not recorded"]


def read_from() -> set[str]:
    """The studies that a claim, an explanation or an entry beyond the papers reads."""
    found = {SCALING} | questions.read_from() | {name for claim in CLAIMS for name in claim.studies}
    return found | {name for one in EXPLANATIONS for name in (*one.studies, *one.beside)}


def _extent(study: StudyTable) -> str:
    """Arms, seeds, steps and pictures."""
    members, steps = set(study.finished.members.values()), set(study.finished.last_steps.values())
    samples = {row["n"] for row in study.finished.rows}
    arms = len(study.finished.measured)
    each = "every cell of the plane" if study.is_plane else f"{_span(samples)} pictures per composition and evaluation"
    return f"{arms} arm{'' if arms == 1 else 's'} of {_span(members)} seeds, {_span(steps)} steps, {each}"


def _span(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
