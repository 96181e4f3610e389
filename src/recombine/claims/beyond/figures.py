"""One figure per entry, of up to three panels: shares over what was turned, rows of arms, curves, and the differences.

A colour is a family. Differences have none, so that they are not read as one: dark where they are clear, else grey,
with what is said of each at the end of its row.
"""

import io
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from recombine.claims.beyond.entries import Contrast, Curves, Entry, Found, Gains, Over, Panel, Rows, Tone
from recombine.claims.figures import COLOURS, GRID, HIGH, INK, QUIET, WIDE, band, bare, over_steps, row, titled
from recombine.files import write_atomic
from recombine.judges.statistics import interval

CHIPS: dict[Tone, str] = {"clear": "#1a7f37", "none": "#6b7280", "open": "#b26a00"}
PALE = "#8d94a1"  # lighter than the grey of a family
LEGEND = "dark: clear, grey: not"
LETTER = 0.0056  # width of a letter of a row's name at 9 points, as a share of the figure
SMALLER, BETWEEN = 0.0052, 0.009  # the same of a family's name at 8 points, and the room between two of these
LINE = 11  # points from one line of families' names to the next
TITLE, TITLE_LINE = 0.0063, 14  # width of a letter of a panel's title, and points from one of its lines to the next
LEAST = 10  # points shown on both sides of 0, so that noise does not fill a panel
LEFT, RIGHT, GAP, BOTTOM, TALL = 0.05, 0.975, 0.035, 0.135, 0.54
FULL, CROWDED = 3, 36  # rows that fill a panel; letters of ticks that do
ABOVE = 0.25  # of a row's height, from its mean up to its seeds
HIGH_ROWS = 8  # up to so many rows each has room for two lines


def draw_entry(entry: Entry, path: Path) -> Path:
    """Write an entry's figure as a PNG. Needs a finding; the same tables give the same picture."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found = entry.found
    if found is None:
        raise ValueError(f"{entry.id} has no answer to draw")
    with matplotlib.rc_context({"font.family": "DejaVu Sans", "figure.facecolor": "white"}):
        figure = Figure(figsize=(WIDE, HIGH), dpi=150)
        FigureCanvasAgg(figure)
        panels = _panels(entry, found)
        names = [_room(panel) for panel in panels]
        ends = [_end_room(panel) for panel in panels]
        free = RIGHT - LEFT - sum(names) - sum(ends) - GAP * (len(names) - 1)
        begin, wide = LEFT, free / len(names)
        columns = [_columns(panel, wide) for panel in panels]
        lines = max(-(-len(_families(panel)) // n) for panel, n in zip(panels, columns, strict=True))
        more = max(lines - 1, 0) * LINE  # what a second line of families' names takes from the panels, in points
        pad = 25 + more if lines else 8
        titles = [textwrap.wrap(panel.title, max(int((wide + room) / TITLE), 1)) for panel, room in zip(panels, names)]
        more += (max(map(len, titles)) - 1) * TITLE_LINE  # and a second line of titles, which grow upwards
        most = TALL - more / 72 / HIGH
        for panel, title, room, end, n in zip(panels, titles, names, ends, columns, strict=True):
            tall = most * _filled(panel)
            axes = figure.add_axes((begin + room, BOTTOM + most - tall, wide, tall))
            axes.set_title("\n".join(title), fontsize=10, loc="left", color=INK, pad=pad)
            _draw(axes, panel, {one.label: one for one in entry.named})
            if _families(panel):
                _names(axes, n)
            begin += room + wide + end + GAP
        titled(figure, f"{entry.id}  {entry.asked.title}", entry.word, CHIPS[found.tone], entry.asked.question,
               f"{entry.asked.compares}; {seeds_text(found)}")  # fmt: skip
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    write_atomic(path, buffer.getvalue())
    return path


def _panels(entry: Entry, found: Found) -> tuple[Panel, ...]:
    """The finding's, and after shares over what was turned the same by the probe alone: where few pictures are valid,
    a difference shows there. A comparison that only the probe can make has a row too."""
    made = {one.label for one in found.contrasts}
    more = tuple(one.label for one in entry.named if one.label not in made)
    panels = [replace(one, named_only=more) if isinstance(one, Gains) else one for one in found.panels]
    first, *others = panels
    named = entry.by_probe.panels[0] if entry.by_probe else None
    if isinstance(first, Over) and isinstance(named, Over):
        right = replace(first, title=f"{first.title}, right and valid")
        same = [line.label for line in named.lines] == [line.label for line in first.lines]  # then named once
        return (right, replace(named, title=f"{first.title}, by the probe alone", names=not same), *others)
    return tuple(panels)


def seeds_text(found: Found) -> str:
    """ "8 seeds", or "8 to 16 seeds" where comparisons have different numbers of them."""
    counts = [len(one.values) for one in found.contrasts]
    low, high = min(counts), max(counts)
    return f"{high} seeds" if low == high else f"{low} to {high} seeds"


def _labels(panel: Panel) -> list[str]:
    if isinstance(panel, Rows):
        return [one.label for one in panel.rows]
    return [*(one.label for one in panel.contrasts), *panel.named_only] if isinstance(panel, Gains) else []


def _room(panel: Panel) -> float:
    """Room for the names of a panel's rows, or for its percentages, as a share of the figure."""
    return LETTER * max(map(len, _labels(panel)), default=0) + 0.012


def _end_room(panel: Panel) -> float:
    """Room for what is said at the ends of a panel's rows, as a share of the figure."""
    said = [line for words in _ends(panel) for line in words.split("\n")] if isinstance(panel, Gains) else []
    return LETTER * max(map(len, said), default=0)


def _ends(panel: Gains) -> list[str]:
    """What is said at the ends of the rows: the longest on two lines, where rows are high enough for these."""
    between = "\n" if len(_labels(panel)) <= HIGH_ROWS else " "
    said = [one.word.replace("neither ", f"neither{between}") for one in panel.contrasts]
    return said + [f"not{between}compared"] * len(panel.named_only)


def _filled(panel: Panel) -> float:
    """A panel of differences with one row or two is not as tall as the others: it would be empty."""
    return min(len(_labels(panel)), FULL) / FULL if isinstance(panel, Gains) else 1.0


def _families(panel: Panel) -> list[str]:
    """The names that stand above a panel, in their colours."""
    if isinstance(panel, Curves):
        return list(panel.lines)
    return [line.label for line in panel.lines] if isinstance(panel, Over) and panel.names else []


def _columns(panel: Panel, wide: float) -> int:
    """In how many columns the families' names stay above their own panel; a legend fills each downwards."""
    names = _families(panel)
    for n in range(len(names), 1, -1):
        longest = [max(map(len, own)) for own in np.array_split(names, n)]
        if SMALLER * sum(longest) + BETWEEN * (n - 1) <= wide:
            return n
    return 1


def _draw(axes: Any, panel: Panel, named: Mapping[str, Contrast]) -> None:
    """`named`: each comparison by the probe alone."""
    if isinstance(panel, Over):
        _over(axes, panel)
    elif isinstance(panel, Curves):
        _curves(axes, panel)
    elif isinstance(panel, Rows):
        _rows(axes, panel)
    else:
        _gains(axes, panel, named)


def _over(axes: Any, panel: Over) -> None:
    """Means with their intervals over the ticks; families stand a little apart so that intervals can be seen."""
    apart = 0.12
    for i, line in enumerate(panel.lines):
        places, means, lows, highs = [], [], [], []
        for tick, shares in line.values.items():
            own = interval(list(shares), share=True)
            places.append(panel.ticks.index(tick) + apart * (i - (len(panel.lines) - 1) / 2))
            means.append(100 * own.mean)
            lows.append(100 * (own.mean if own.low is None else own.low))
            highs.append(100 * (own.mean if own.high is None else own.high))
        colour = COLOURS[line.colour]
        axes.vlines(places, lows, highs, color=colour, linewidth=2, alpha=0.5)
        axes.plot(places, means, "o-", color=colour, linewidth=1.6, markersize=5.5, label=line.label, clip_on=False)
    axes.set_xlim(-0.5, len(panel.ticks) - 0.5)
    axes.set_ylim(0, 100)
    axes.set_yticks(range(0, 101, 25), [f"{v} %" for v in range(0, 101, 25)])
    axes.set_xticks(range(len(panel.ticks)), panel.ticks)
    axes.set_xlabel(panel.axis, fontsize=9, color=QUIET, labelpad=3)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    bare(axes)
    if len(panel.ticks) * max(map(len, panel.ticks)) > CROWDED:
        axes.tick_params(axis="x", labelsize=8)


def _curves(axes: Any, panel: Curves) -> None:
    for label, (colour, curve) in panel.lines.items():
        band(axes, curve.steps, curve.values, COLOURS[colour], label)
    over_steps(axes, max(float(curve.steps[-1]) for _, curve in panel.lines.values()))


def _names(axes: Any, columns: int) -> None:
    """The families' names in their colours, between title and panel."""
    place = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.02), "ncols": columns, "borderpad": 0, "frameon": False}
    words = {"fontsize": 8, "labelcolor": "linecolor", "handlelength": 0, "handletextpad": 0, "columnspacing": 1.0}
    legend = axes.legend(**place, **words)
    for handle in legend.legend_handles:
        handle.set_visible(False)


def _rows(axes: Any, panel: Rows) -> None:
    """A dot per seed, the mean with its interval; the first row on top."""
    spread = 0.03 * max(len(panel.rows), 4)
    for place, one in enumerate(panel.rows):
        row(axes, place, spread, np.array(one.values), COLOURS[one.colour], None)
    if panel.mark is not None:
        axes.axvline(100 * panel.mark, color=INK, linewidth=1.2, linestyle=(0, (4, 2)), zorder=1)
        axes.set_xlabel(f"dashed: {panel.mark_name}", fontsize=8.5, color=QUIET, labelpad=3)
    axes.set_xlim(0, 100)
    axes.set_xticks(range(0, 101, 50), [f"{v} %" for v in range(0, 101, 50)])
    _label_rows(axes, [(one.label, COLOURS[one.colour]) for one in panel.rows])


def _gains(axes: Any, panel: Gains, named: Mapping[str, Contrast]) -> None:
    """Differences in points around 0: seeds as dots, above the mean with its interval; hollow, that by the probe."""
    labels = _labels(panel)
    small = len(labels) > 10
    size = 4.5 if small else 7
    for place, one in enumerate(panel.contrasts):
        colour = shade(one)
        own = [100 * value for value in one.values.values()]
        axes.plot(own, [place - ABOVE] * len(own), "o", color=colour, alpha=0.4, markersize=3, markeredgewidth=0)
        if one.test.low is not None and one.test.high is not None:
            ends = [100 * one.test.low, 100 * one.test.high]
            axes.plot(ends, [place, place], color=colour, linewidth=1.6 if small else 2.4)
        axes.plot(100 * one.test.mean, place, "o", color=colour, markersize=size, markeredgecolor="white", zorder=5)
    for place, label in enumerate(labels):
        if label in named:
            other = named[label]
            hollow = {"markerfacecolor": "white", "markeredgecolor": shade(other), "markeredgewidth": 1.2}
            axes.plot(100 * other.test.mean, place, "o", markersize=size, zorder=4, **hollow)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, -LEAST), max(high, LEAST))
    axes.axvline(0, color=INK, linewidth=0.9, zorder=1)
    hollow_too = any(label in named for label in labels)
    key = f"points   ∙ a seed{'   ○ by a probe alone' if hollow_too else ''}\n{LEGEND}"
    axes.set_xlabel(key, fontsize=8.5, color=QUIET, labelpad=3)
    axes.locator_params(axis="x", nbins=5)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+.0f}".replace("-", "\u2212") if value else "0")
    letters = 7 if small else 9
    shades = [shade(one, QUIET) for one in panel.contrasts] + [QUIET] * len(panel.named_only)
    for place, (words, colour) in enumerate(zip(_ends(panel), shades, strict=True)):
        style = {"va": "center_baseline", "fontsize": letters - 0.5, "linespacing": 1.15}
        axes.text(1.02, place, words, color=colour, transform=axes.get_yaxis_transform(), **style)
    _label_rows(axes, list(zip(labels, shades, strict=True)), letters)


def shade(one: Contrast, other: str = PALE) -> str:
    """Dark where a difference is clear, else `other`: words a darker grey than marks, to be read."""
    return INK if one.word in ("higher", "lower") else other


def _label_rows(axes: Any, names: list[tuple[str, str]], size: float = 9) -> None:
    axes.set_yticks(range(len(names)), [name for name, _ in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    bare(axes)
    axes.tick_params(axis="y", pad=8)
    for label, (_, colour) in zip(axes.get_yticklabels(), names, strict=True):
        label.set_color(colour)
        label.set_fontsize(size)
