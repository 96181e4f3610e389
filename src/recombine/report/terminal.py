"""The result of a study in the terminal: the table of arms and levels, the answer in words, and what cannot be told."""

from pathlib import Path

from recombine.judges.statistics import Interval
from recombine.progress import console
from recombine.report import words
from recombine.report.reading import Finished, read_study

AGREE = "agree"  # short for what the page says, so that many arms fit a terminal of 80 columns


def print_summary(folder: Path) -> None:
    """Print what the report says first, for people who are still at the prompt."""
    from rich.table import Table

    study = read_study(Path(folder))
    levels = study.level_numbers
    table = Table(title=f"{study.name}: share drawn right and valid, mean and 95 % interval over seeds")
    table.add_column("arm", overflow="fold")
    for level in levels:
        table.add_column(words.level_name(level), justify="right")
    lines = table_lines(study, levels)
    for line in lines:
        table.add_row(*line)
    if any(f"({AGREE})" in cell for line in lines for cell in line[1:]):
        table.caption = f"{AGREE}: all seeds gave the same number"
    console().print()
    console().print(table)
    if words.lengths(study):
        console().print(words.lengths(study))
    for sentence in words.diverged(study):
        console().print(sentence)
    console().print(_plain(words.answer(study)))
    if study.limits:
        console().print(study.limits)


def table_lines(study: Finished, levels: list[int]) -> list[list[str]]:
    """One line per arm, and under it what the probe alone would have said."""
    joint, probe = words.cells(study, "joint"), words.cells(study, "joint_probe_only")
    lines = []
    for arm in study.measured:
        lines.append([arm, *(_cell(joint.get((arm, level))) for level in levels)])
        lines.append(["  probe alone", *(_cell(probe.get((arm, level))) for level in levels)])
    ceilings = {name: study.part("tokenizers", name, "ceiling") for name in study.part("tokenizers")}
    for name, ceiling in ceilings.items():
        means = [words.level_mean(ceiling, study.levels, level, "joint") for level in levels]
        lines.append([f"ceiling of {name}", *(_plain(words.percent(m)) if m is not None else "" for m in means)])
    return lines


def _cell(cell: Interval | None) -> str:
    if cell is None:
        return ""
    if cell.low is None or cell.high is None:
        return f"{_plain(words.percent(cell.mean))} (one seed)"
    if cell.low == cell.high:
        return f"{_plain(words.percent(cell.mean))} ({AGREE})"
    return _plain(f"{words.percent(cell.mean)} ({words.span(cell.low, cell.high)})").replace(" %)", ")")  # narrow


def _plain(text: str) -> str:
    return text.replace("\u00a0", " ")
