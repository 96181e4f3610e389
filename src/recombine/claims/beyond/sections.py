"""The entries as the section "Beyond the papers" of RESULTS.md, the line on top that leads to it, and in a terminal."""

from collections.abc import Sequence
from pathlib import Path

from recombine.claims.asking import without_own
from recombine.claims.beyond.entries import Entry
from recombine.claims.beyond.numbers import listing
from recombine.claims.ledger import FIGURES
from recombine.claims.testing import MATTERS
from recombine.claims.why.sections import anchor, folded, mark, pictures_line, source
from recombine.progress import console
from recombine.report.reading import some
from recombine.report.words import join

TITLE = "Beyond the papers"
HEAD = (
    "Questions that no paper asks, each answered by comparisons that were fixed in the code before the runs (B12's "
    "came after its run, and so did [a few rules](docs/claims.md#what-was-not-fixed-beforehand)): paired by seed, with "
    "95 % intervals of each by itself; the words (higher, lower, not clear) go by p-values that are Holm-corrected "
    "within an entry ([how](docs/claims.md#beyond-the-papers))."
)


def title(entry: Entry) -> str:
    """The heading of an entry's section."""
    return f"{entry.id}. {entry.asked.title}: {entry.word}"


def beyond_pointer(entries: Sequence[Entry]) -> list[str]:
    """A line below the ledger that leads to the entries."""
    links = [f"[{one.asked.title}](#{anchor(one.id)}) ({one.word})" for one in entries if one.found is not None]
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
            mark(anchor(entry.id)),
            f"### {title(entry)}",
            f"{entry.asked.question} {found.answer}",
            by_probe(entry),
            f"![{entry.asked.title}](results/{FIGURES}/{entry.id}.png)",
            pictures_line(entry.id) if entry.pictured is not None else "",
            " ".join(found.notes),
            *folded(found.more),
            *in_full_by_probe(entry),
            f"**Limits.** {' '.join(limits)}" if limits else "",
            f"From {join([source(study, home) for study in found.studies])}: {arms}.",
        ]
        parts += [paragraph for paragraph in section if paragraph]
    waiting = [
        " ".join(
            filter(None, (f"- {entry.id}{mark(anchor(entry.id))}, {entry.asked.title}: {entry.why}", by_probe(entry)))
        )
        for entry in entries
        if entry.found is None
    ]
    return parts + (["Not answered yet:\n\n" + "\n".join(waiting)] if waiting else [])


def by_probe(entry: Entry) -> str:
    """What is clear by the probe alone, a sentence: where few pictures are valid, that is where a difference shows."""
    if not entry.named:
        return ""
    clear = [one for one in entry.named if one.word in ("higher", "lower")]
    rest = len(entry.named) - len(clear)
    if not clear:
        none = "none of them is" if rest > 1 else "it is not"
        return f"By the probe alone, valid or not, {none} clearly other.{_by_it_only(entry)}"
    close = all(one.word == "alike" for one in entry.named if one not in clear)
    what = f"within {100 * MATTERS.value:.0f} points" if close else "no clear difference"
    others = f"; {what} in the other{'' if rest == 1 else f' {rest}'} comparison{'' if rest == 1 else 's'}"
    others = others if rest else ""
    return f"By the probe alone, valid or not: {listing(clear)}{others}.{_by_it_only(entry)}"


def _by_it_only(entry: Entry) -> str:
    """Which of several comparisons are made by the probe alone, since too little is valid for the others' count."""
    made = {one.label for one in entry.found.contrasts} if entry.found else set()
    only = [one.label for one in entry.named if one.label not in made]
    return f" Compared by it only: {some(only)}." if made and only else ""


def in_full_by_probe(entry: Entry) -> list[str]:
    """The whole answer by the probe alone, with the notes beside it: there for who looks."""
    found = entry.by_probe
    if found is None:
        return []
    return folded((found.answer, *found.notes, *found.more), "The whole answer by the probe alone")


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
        table.add_row(entry.id, entry.asked.question, entry.word, " ".join(filter(None, (entry.text, by_probe(entry)))))
    console().print(table)
