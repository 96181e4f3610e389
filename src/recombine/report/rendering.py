"""The page of a forced-rendering study: one HTML file with its figures inside, and its table in the terminal."""

from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from recombine.files import write_atomic
from recombine.judges.statistics import Interval
from recombine.progress import console
from recombine.report import contours, scaling
from recombine.report.reading import some
from recombine.report.rendering_inside import (
    SHAPE,
    SUPERPOSED,
    draw_inside,
    read_inside,
    shape_lines,
    superposition_lines,
)
from recombine.report.rendering_reading import ArmNumbers, FinishedRendering, read_rendering
from recombine.report.sample_figures import sample_figure, sampled_arms
from recombine.studies.diverged import diverged_sentence
from recombine.studies.results import read_results
from recombine.worlds.supports import connected, no_additive

DEEP = 2  # depth from which on the published CNN is worse than a blank image
FITTED = 0.1  # trained cells must be drawn this well (relative to blank) before a failure on others means anything


def write_rendering(folder: Path) -> Path:
    """Write `folder`/report.html, whole or not at all, and the figures beside it; returns its path."""
    study = read_rendering(folder)
    here = package_files("recombine.report")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((here / "rendering.html.j2").read_text(encoding="utf-8"))
    figures = {name: contours.png_bytes(figure) for name, figure in draw_figures(study).items()}
    for name, drawn in figures.items():
        write_atomic(study.folder / "figures" / f"{name}.png", drawn)
    measured = read_inside(study.folder)
    inside = {} if measured is None else draw_inside(study, measured)
    figures |= {name: path.read_bytes() for name, path in inside.items()}
    page = template.render(
        css=Markup((here / "report.css").read_text(encoding="utf-8")),
        name=study.name,
        question=study.facts["question"],
        limits=study.facts["limits"],
        diverged=diverged(study),
        missing=missing(study),
        answer=scaling.sentences(study) or answer(study),
        columns=COLUMNS,
        lines=table_lines(study),
        figures={name: contours.png_uri(drawn) for name, drawn in figures.items()},
        hidden=max(0, len(study.arms) - contours.MOST_ARMS),
        superposed=[] if measured is None else superposition_lines(study, measured),
        superposed_columns=("arm", "where", *SUPERPOSED.values()),
        shapes={} if measured is None else {name: shape_lines(name, measured) for name in study.arms},
        labels={name: arm.label for name, arm in study.arms.items()},
        not_measured=[] if measured is None else not_measured(study),
        shape_columns=tuple(SHAPE.values()),
        settings=yaml.safe_dump(study.facts["study"], sort_keys=False, allow_unicode=True),
        facts=study.facts,
    )
    path = study.folder / "report.html"
    write_atomic(path, page)
    return path


def draw_figures(study: FinishedRendering) -> dict[str, Any]:
    """The study's figures by name."""
    table = read_results(study.folder)
    rows = {word: table.column(word).to_numpy() for word in ("arm", "step", "level", "mse", "blank")}
    rows["arm"] = np.array([study.arms[name].label if name in study.arms else name for name in rows["arm"]])
    named = study.labelled
    figures: dict[str, Any] = {}
    if any(arm.is_plane for arm in study.arms.values()):
        figures["contours"] = contours.contour_figure(named.arms)
    figures["depth"] = contours.depth_figure(named.arms)
    if named.pictures:  # committed tables are without them
        figures["pictures"] = contours.picture_figure(named)
    if sampled_arms(named):
        figures["samples"] = sample_figure(named)
    if len(set(rows["step"].tolist())) > 1:
        figures["curves"] = contours.curve_figure(named, rows)
    if scaling.scores_of(study):
        figures["scaling"] = scaling.scaling_figure(study)
    return figures


COLUMNS = (
    "arm",
    "trained: error",
    "held out: error",
    "held out: relative to blank",
    "deep: relative to blank",
    "held out: similarity",
    "held out: dissimilarity relative to blank",
    "held out: position error",
    "held out: found within 1",
    "deep: found within 1",
    "held out: right and valid",
)

_SHORT = (  # what fits a terminal
    "arm",
    "trained: error",
    "held out: error",
    "held out: relative to blank",
    "held out: found within 1",
    "held out: right and valid",
)


def table_lines(study: FinishedRendering) -> list[list[str]]:
    """One line per arm, in the order of COLUMNS. Where all seeds diverged there is no number: that of a black picture
    would look like one that was drawn."""
    lines = []
    for arm in study.arms.values():
        held = ~arm.trained
        deep = arm.depth >= DEEP
        deep = deep if deep.any() else held
        if arm.lost:
            lines.append([arm.label, *["diverged"] * (len(COLUMNS) - 1)])
            continue
        lines.append(
            [
                arm.label,
                number(arm.mean("mse", arm.trained)),
                number(arm.mean("mse", held)),
                number(arm.mean("relative", held)),
                number(arm.mean("relative", deep)),
                number(arm.mean("ssim", held)),
                "–" if arm.blank_ssim is None else number(arm.mean("dissimilarity", held)),
                number(arm.mean("position_error", held)),
                percent(arm.mean("joint_probe_only", held)),
                percent(arm.mean("joint_probe_only", deep)),
                percent(arm.mean("joint", held)),
            ]
        )
    return lines


def number(cell: Interval) -> str:
    """3.42e-03 (3.30e-03 to 3.54e-03), or plainly where it is not small."""
    show = "{:.2e}" if 0 < abs(cell.mean) < 0.01 else "{:.3g}"
    if cell.low is None or cell.high is None:
        return show.format(cell.mean)
    low = "0" if cell.low == 0 else show.format(cell.low)
    return f"{show.format(cell.mean)} ({low} to {show.format(cell.high)})"


def percent(cell: Interval) -> str:
    if cell.low is None or cell.high is None:
        return f"{cell.mean:.0%}"
    return f"{cell.mean:.0%} ({cell.low:.0%} to {cell.high:.0%})"


def answer(study: FinishedRendering) -> list[str]:
    """One sentence for each arm: whether it draws what it never saw. `diverged` says what there is to say of an arm
    that has no member left."""
    return [_sentence(arm) for arm in study.arms.values() if not arm.lost]


def missing(study: FinishedRendering) -> list[str]:
    """What a whole study would have and this one has not, a sentence each."""
    if study.facts.get("finished"):
        return []
    lacking = [name for name in study.facts["study"]["arms"] if name not in study.arms]
    lacks = f"No results yet for {some(lacking)}." if lacking else "Its arms have not been measured inside."
    return ["The study has not finished.", lacks]


def diverged(study: FinishedRendering) -> list[str]:
    """One sentence for each arm with members that diverged."""
    return [f"{diverged_sentence(arm.name, arm.diverged)}." for arm in study.arms.values() if arm.diverged]


def not_measured(study: FinishedRendering) -> list[str]:
    """One sentence for each arm whose support leaves a measure out."""
    planes = [arm for arm in study.arms.values() if arm.is_plane]
    parts = [arm for arm in planes if not connected(torch.from_numpy(arm.cells), torch.from_numpy(arm.trained))]
    return [no_additive(arm.name) for arm in parts]


def _sentence(arm: ArmNumbers) -> str:
    held = ~arm.trained
    fitted = float(arm.members("relative", arm.trained).mean())
    error, hit = float(arm.members("relative", held).mean()), float(arm.members("joint_probe_only", held).mean())
    right = float(arm.members("joint", held).mean())
    if fitted > FITTED:
        return (
            f"{arm.name} does not draw even what it was trained on (error {fitted:.2g} of a blank image's), so nothing "
            "follows from its failure elsewhere."
        )
    if right >= 0.95:
        word = "draws what it never saw"
    elif right <= 0.5:
        word = "does not draw what it never saw"
    else:
        word = "draws a part of what it never saw"
    return (
        f"{arm.name} {word}: {right:.0%} right and valid, {hit:.0%} in the right place, error {error:.2g} of a blank "
        f"image's (trained: {fitted:.2g})."
    )


def print_rendering(folder: Path) -> None:
    """The table and the answer, for people who are still at the prompt."""
    from rich.table import Table

    study = read_rendering(folder)
    table = Table(title=f"{study.name}: means over seeds (intervals are in the report)")
    short = ("arm", "error trained", "error held out", "relative to blank", "found within 1", "right and valid")
    for column in short:
        table.add_column(column, justify="left" if column == "arm" else "right", overflow="fold")
    places = [COLUMNS.index(word) for word in COLUMNS if word in _SHORT]
    for line in table_lines(study):
        table.add_row(line[0], *(line[place].partition(" (")[0] for place in places[1:]))
    console().print()
    console().print(table)
    for sentence in [*diverged(study), *(scaling.sentences(study) or answer(study))]:
        console().print(sentence)
    if study.facts["limits"]:
        console().print(study.facts["limits"])
