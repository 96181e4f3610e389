"""The entries as the section "Beyond the papers" of RESULTS.md, the line on top that leads to it, and in a terminal."""

from collections.abc import Sequence
from pathlib import Path

from recombine.claims.asking import without_own
from recombine.claims.beyond.entries import Entry
from recombine.claims.ledger import FIGURES
from recombine.claims.why.sections import slug, source
from recombine.progress import console
from recombine.report.words import join

TITLE = "Beyond the papers"
HEAD = (
    "Questions that no paper asks, each answered by comparisons that were fixed in the code before the runs: paired by "
    "seed, Holm-corrected within an entry, with 95 % intervals "
    "([how](docs/claims.md#beyond-the-papers))."
)


def _title(entry: Entry) -> str:
    return f"{entry.id}. {entry.asked.title}: {entry.word}"


def beyond_pointer(entries: Sequence[Entry]) -> list[str]:
    """A line below the ledger that leads to the entries."""
    links = [f"[{one.asked.title}](#{slug(_title(one))})" for one in entries if one.found is not None]
    return [f"{TITLE}: {join(links)}."] if links else []


def beyond_sections(entries: Sequence[Entry], home: Path) -> list[str]:
    """The entries that have an answer, one short section each; of the others a line."""
    if not entries:
        return []
    parts = [f"## {TITLE}", HEAD]
    for entry in entries:
        found = entry.found
        if found is None:
            continue
        limits = list(entry.limits)
        for study in found.studies:
            limits = without_own(limits, study)
        arms = ", ".join(f"`{name}`" for name in dict.fromkeys(found.arms.values()))
        section = [
            f"### {_title(entry)}",
            f"{entry.asked.question} {found.answer}",
            f"![{entry.asked.title}](results/{FIGURES}/{entry.id}.png)",
            " ".join(found.notes),
            f"**Limits.** {' '.join(limits)}" if limits else "",
            f"From {join([source(study, home) for study in found.studies])}: {arms}.",
        ]
        parts += [paragraph for paragraph in section if paragraph]
    waiting = [f"- {entry.id}, {entry.asked.title}: {entry.why}" for entry in entries if entry.found is None]
    return parts + (["Not answered yet:\n\n" + "\n".join(waiting)] if waiting else [])


def print_beyond(entries: Sequence[Entry]) -> None:
    """The entries in the terminal: each question with its answer; nothing where there is none."""
    from rich.table import Table

    if not entries:
        return
    table = Table(title=f"{TITLE}: questions that no paper asks", title_justify="left", expand=True)
    table.add_column("")
    table.add_column("question", overflow="fold", ratio=2)
    table.add_column("in short", overflow="fold", ratio=1)
    table.add_column("answer", overflow="fold", ratio=5)
    for entry in entries:
        table.add_row(entry.id, entry.asked.question, entry.word, entry.text)
    console().print(table)
