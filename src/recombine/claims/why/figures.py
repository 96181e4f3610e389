"""One figure per explanation, of up to four panels: curves over training, a row of dots per number, a grid of losses.

A colour is one kind of curve in a panel; its name stands in that colour.
"""

import io
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from recombine.claims.figures import (
    COLOURS,
    GRID,
    HIGH,
    INK,
    LEADING,
    QUIET,
    WIDE,
    band,
    bare,
    diamond,
    hides,
    over_steps,
    row,
    seed_dots,
    titled,
)
from recombine.claims.verdicts import Extra
from recombine.claims.why.answers import Answer, Dots, Explained, Grid, Lines, NotKnown, Panel, Word
from recombine.files import write_atomic
from recombine.judges.statistics import interval
from recombine.report.words import points

CHIPS: dict[Word, str] = {
    "explained": "#1a7f37",
    "partly explained": "#b26a00",
    "not explained": "#c62828",
    "cannot tell": "#b26a00",
    "untested": "#6b7280",
}
LETTER = 0.006  # width of a letter of a row's name, as a share of the figure
LEFT, RIGHT, GAP, BOTTOM, TALL = 0.05, 0.975, 0.05, 0.135, 0.545
LINE = 176  # letters that fit on a line above the panels


def draw_answer(answer: Answer, path: Path) -> Path:
    """Write an explanation's figure as a PNG. Needs a finding; the same tables give the same picture."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found = answer.finding
    if found is None:
        raise ValueError(f"{answer.id} has no finding to draw")
    names = [_names(panel) for panel in found.panels]
    room = RIGHT - LEFT - GAP * (len(names) - 1) - sum(names)
    said = _rivals(found)
    tall = TALL - LEADING * said.count("\n")
    with matplotlib.rc_context({"font.family": "DejaVu Sans", "figure.facecolor": "white"}):
        figure = Figure(figsize=(WIDE, HIGH), dpi=150)
        FigureCanvasAgg(figure)
        begin = LEFT
        for panel, name in zip(found.panels, names, strict=True):
            wide = room / len(names)
            axes = figure.add_axes((begin + name, BOTTOM, wide, tall))
            axes.set_title(panel.title, fontsize=10, loc="left", color=INK, pad=22)
            _draw(axes, panel)
            begin += name + wide + GAP
        title = f"{answer.id}  {answer.explanation.title}"
        titled(figure, title, answer.word, CHIPS[answer.word], answer.explanation.question, said)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    write_atomic(path, buffer.getvalue())
    return path


def _rivals(found: Explained) -> str:
    """What is said of each rival, on as many lines as they need; a line ends between two rivals."""
    said = "; ".join(f"{one.rival}: {one.word}".replace(" ", "\u00a0") for one in found.outcomes)
    return textwrap.fill(f"{said[0].upper()}{said[1:]}.", LINE)


def _names(panel: Panel) -> float:
    """Room for the longest name beside a panel, as a share of the figure."""
    rows = [one.label for one in panel.rows] if isinstance(panel, Dots) else list(getattr(panel, "rows", ()))
    return LETTER * max(map(len, rows), default=0)


def _draw(axes: Any, panel: Panel) -> None:
    if isinstance(panel, Lines):
        _lines(axes, panel)
    elif isinstance(panel, Dots):
        _dots(axes, panel)
    else:
        _grid(axes, panel)


def _lines(axes: Any, panel: Lines) -> None:
    """Means with their intervals; or every seed, thin, with the mean of all."""
    drawn: list[np.ndarray] = []
    for one in panel.lines:
        colour, own = COLOURS[one.colour], one.values.mean(axis=1)
        if panel.every_seed:
            axes.plot(one.steps, 100 * one.values, color=colour, linewidth=0.9, alpha=0.55)
            axes.plot([], [], color=colour, label="each seed")
            mean = {"color": INK, "linewidth": 2, "linestyle": (0, (4, 2)), "label": "mean, dashed"}
            axes.plot(one.steps, 100 * own, **mean)
        else:
            band(axes, one.steps, one.values, colour, one.label, dashed=hides(own, drawn))
        drawn.append(own)
    over_steps(axes, max(float(one.steps[-1]) for one in panel.lines))
    if not panel.named:
        return
    place = {"loc": "lower left", "bbox_to_anchor": (-0.02, 0.985), "ncols": 3, "borderpad": 0, "frameon": False}
    names = {"fontsize": 8.5, "labelcolor": "linecolor", "handlelength": 0, "handletextpad": 0, "columnspacing": 1.2}
    axes.legend(**place, **names)


def _dots(axes: Any, panel: Dots) -> None:
    """A dot per seed, the mean with its interval; the first row on top."""
    spread = 0.03 * len(panel.rows)
    ticks, texts = _ticks(panel)
    for place, one in enumerate(panel.rows):
        if isinstance(one, NotKnown):
            _not_known(axes, place, spread, one, ticks[-1])
            continue
        published = None if one.published is None else one.published / ticks[-1]
        row(axes, place, spread, np.array(one.values) / ticks[-1], COLOURS[one.colour], published)
    axes.set_yticks(range(len(panel.rows)), [one.label for one in panel.rows])
    axes.set_ylim(len(panel.rows) - 0.4, -0.6)
    axes.set_xlim(0, 100)
    axes.set_xticks([100 * tick / ticks[-1] for tick in ticks], texts)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    bare(axes)
    axes.tick_params(axis="y", pad=8)
    for label, one in zip(axes.get_yticklabels(), panel.rows, strict=True):
        label.set_color(COLOURS[one.colour])
        label.set_fontsize(9)
    if any(isinstance(one, NotKnown) and one.span for one in panel.rows):
        above = {"transform": axes.transAxes, "va": "bottom", "fontsize": 8.5, "color": COLOURS["grey"]}
        axes.text(0, 1.02, "grey bar: where the mean can lie", **above)
    below = [panel.axis, f"◇ {panel.diamond}" if panel.diamond else ""]
    axes.set_xlabel("\n".join(filter(None, below)), fontsize=8.5, color=QUIET, labelpad=3)


def _ticks(panel: Dots) -> tuple[list[float], list[str]]:
    """Ticks in the rows' own unit, the last at the end of the axis, and what they read. Steps go to the last that is
    shown, not to the end of training: rises are early."""
    if panel.unit == "%":
        return [0.0, 0.5, 1.0], ["0 %", "50 %", "100 %"]
    if panel.unit == "of 1":
        return [0.0, 0.25, 0.5, 0.75, 1.0], ["0", "0.25", "0.5", "0.75", "1"]
    from matplotlib.ticker import MaxNLocator

    last = max(1.0, *map(_farthest, panel.rows))
    ticks = [float(tick) for tick in MaxNLocator(4, steps=[1, 2, 5, 10], integer=True).tick_values(0, last)]
    return ticks, [f"{tick / 1000:g}k" if tick >= 1000 else f"{tick:g}" for tick in ticks]


def _farthest(one: Extra) -> float:
    """How far a row reaches: its seeds, and the interval of their mean."""
    if isinstance(one, NotKnown):
        return max([*one.values, *(one.span or ())], default=0.0)
    return max([*one.values, interval(one.values).high or 0.0])


def _not_known(axes: Any, place: float, spread: float, one: NotKnown, top: float) -> None:
    """The seeds that are known, where the mean can be, and in words why not more is known."""
    if one.values:
        seed_dots(axes, place, spread, np.array(one.values) / top, COLOURS[one.colour])
    if one.span:
        low, high = (100 * min(max(end / top, 0), 1) for end in one.span)
        style = {"color": COLOURS["grey"], "linewidth": 2.4, "alpha": 0.6, "solid_capstyle": "butt"}
        axes.plot([low, high], [place, place], clip_on=False, **style)
    if one.published is not None:
        diamond(axes, one.published / top, place)  # on the line: the words are below it
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}  # no grid line runs through the words
    said = {"fontsize": 7.5, "color": COLOURS["grey"], "linespacing": 1.1, "bbox": box, "zorder": 1}
    below = bool(one.span)
    axes.text(1, place + spread * below, textwrap.fill(one.why, 36), va="top" if below else "center", **said)


def _grid(axes: Any, panel: Grid) -> None:
    """Differences as coloured cells with their points; red is a loss."""
    axes.imshow(panel.values, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    for (i, j), value in np.ndenumerate(panel.values):
        colour = "white" if abs(value) > 0.6 else INK
        axes.text(j, i, points(float(value)), ha="center", va="center", fontsize=10, color=colour)
    axes.set_xticks(range(len(panel.columns)), panel.columns)
    axes.set_yticks(range(len(panel.rows)), panel.rows)
    bare(axes)
    axes.spines["bottom"].set_visible(False)
    axes.set_xlabel("change in points", fontsize=9, color=QUIET, labelpad=3)
