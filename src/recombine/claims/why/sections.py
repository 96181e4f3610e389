"""The explanations in RESULTS.md: the section "Why", and the line on top that leads to it."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import get_args

from recombine.claims.asking import without_own
from recombine.claims.ledger import DRAWN, FIGURES
from recombine.claims.tables import StudyTable
from recombine.claims.why.answers import Answer, Outcome, Said
from recombine.report.words import join

RUNS = "How the studies were run"
"""The section that says what each study's author says it cannot show: once, for all that is read from it."""


def slug(title: str) -> str:
    """The address that a heading gets where Markdown is shown: small letters, spaces as hyphens, no marks."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")


def anchor(name: str) -> str:
    """The address of a claim, an explanation or an entry: its id alone. That of its heading would change with the
    verdict in it, and links from elsewhere would lead nowhere."""
    return name.lower()


def mark(address: str) -> str:
    """What makes a place of the page the one that an address leads to."""
    return f'<a id="{address}"></a>'


def relative(folder: Path, home: Path) -> str:
    return Path(os.path.relpath(folder.resolve(), home.resolve())).as_posix()


def source(study: StudyTable, home: Path) -> str:
    """A study by name with links: to its folder, and to where its own limits are said."""
    limits = f" ([its limits](#{run_anchor(study.name)}))" if study.finished.limits else ""
    return f"[{study.name}]({relative(study.folder, home)}){limits}"


def run_anchor(name: str) -> str:
    """The address of what is said of a study below `RUNS`."""
    return f"run-{name}"


def folded(texts: Iterable[str], title: str = "More numbers", between: str = " ") -> list[str]:
    """Numbers beside those that an answer rests on: there for who looks, out of the way of who reads on."""
    lines = list(texts)
    return [f"<details><summary>{title}</summary>\n\n{between.join(lines)}\n\n</details>"] if lines else []


def pictures_line(name: str) -> str:
    """The figure of what the models draw, beside the claim or entry of that id."""
    return f"![What the models draw of held-out combinations](results/{FIGURES}/{name}{DRAWN}.png)"


def _title(answer: Answer) -> str:
    return f"{answer.id}. {answer.explanation.title}: {answer.word}"


def pointer(answers: Sequence[Answer]) -> list[str]:
    """A line below the ledger that leads to the explanations."""
    links = [f"[{one.explanation.title}](#{anchor(one.id)})" for one in answers if one.finding is not None]
    return [f"Why, where no paper says: {join(links)}."] if links else []


def why_sections(answers: Sequence[Answer], home: Path) -> list[str]:
    """The explanations that have an answer, a section each."""
    known = [(answer, answer.finding) for answer in answers if answer.finding is not None]
    if not known:
        return []
    parts = []
    for answer, found in known:
        said = {one.rival: one for one in found.outcomes}
        rivals = [
            f"- **{name}: {said[name].word}.** *{prediction}* {said[name].sentence}"
            for name, prediction in answer.explanation.rivals.items()
        ]
        arms = ", ".join(f"{label} is `{name}`" for label, name in found.arms.items())
        places = [source(study, home) for study in (found.study, *found.beside)]
        section = [
            mark(anchor(answer.id)),
            f"### {_title(answer)}",
            f"{answer.explanation.question} **{found.answer}** ({found.ours.n} seeds.)",
            f"![{answer.explanation.title}](results/{FIGURES}/{answer.id}.png)",
            _weighed(found.outcomes),
            *folded([*_digits(found.study), "", *rivals], "The explanations one by one", "\n"),
            f"**Otherwise elsewhere.** {' '.join(answer.elsewhere)}" if answer.elsewhere else "",
            *folded(text for text in answer.evidence if text not in answer.elsewhere),
            *([f"**Limits.** {' '.join(limits)}"] if (limits := without_own(answer.limits, found.study)) else []),
            f"From {join(places)}: {arms}.",
        ]
        parts += [paragraph for paragraph in section if paragraph]
    head = (
        "Explanations that no paper gives. Of each question, rival explanations with what they predict are put to the "
        "tables; a rival is supported or contradicted where the seeds clearly say so "
        "([how](docs/claims.md#why-the-explanations)). Rivals need not exclude each other."
    )
    return ["## Why", head, *parts]


def _weighed(outcomes: Sequence[Outcome]) -> str:
    """Which rivals are supported, which contradicted, and of which it cannot be told."""
    groups = []
    for word in get_args(Said):
        own = [one.rival for one in outcomes if one.word == word]
        groups += [f"{word}: {', '.join(own)}"] if own else []
    text = "; ".join(groups)
    return f"{text[0].upper()}{text[1:]}."


def _digits(study: StudyTable) -> list[str]:
    """What the digits of a composition stand for."""
    texts = []
    for factor in study.finished.part("world").get("factors") or []:
        values = [f"{i} {value}" for i, value in enumerate(factor["values"])]
        texts.append(f"{factor['name']} ({', '.join(values)})")
    return [f"The digits of a composition are {join(texts)}."] if texts else []
