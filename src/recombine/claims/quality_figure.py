"""The figure of a study's quality: a panel per metric, a row per arm, a dot per level; a dashed line at real images."""

import io
from pathlib import Path
from typing import Any

from recombine.claims.figures import GRID, INK, QUIET, bare
from recombine.claims.quality import SHOWN, Quality
from recombine.files import write_atomic
from recombine.report.figures import LINES
from recombine.report.words import level_name
from recombine.studies.quality_table import ABOUT

WIDE, LEAST, ROW = 12.4, 1.75, 0.42  # inches: of the figure, of what is no row, of a row
GAP = 0.055  # between panels, as a share of the figure: their outermost ticks do not touch
APART = 0.2  # between the levels of a row
LETTER = 0.0064  # width of a letter of an arm's name, as a share of the figure


def draw_quality(quality: Quality, path: Path) -> Path:
    """Write the figure as a PNG; the same tables give the same picture."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"font.family": "DejaVu Sans", "figure.facecolor": "white"}):
        high = LEAST + ROW * len(quality.arms)
        figure = Figure(figsize=(WIDE, high), dpi=150)
        canvas = FigureCanvasAgg(figure)
        begin = 0.03 + LETTER * max(map(len, quality.arms))
        wide = (0.975 + GAP - begin) / len(SHOWN)
        bottom, tall = 0.4 / high, ROW * len(quality.arms) / high
        for place, metric in enumerate(SHOWN):
            axes = figure.add_axes((begin + place * wide, bottom, wide - GAP, tall))
            _panel(axes, quality, metric, named=place == 0)
        bold: dict[str, Any] = {"fontsize": 15, "fontweight": "bold", "color": "#111"}
        figure.text(0.02, 1 - 0.38 / high, f"Quality of the pictures: {quality.study.name}", **bold)
        what = (
            "End of training, mean and 95 % interval over seeds; dashed: as many fresh images of trained combinations."
        )
        line = figure.text(0.02, 1 - 0.68 / high, what, fontsize=9.5, color=QUIET)
        for level in quality.levels:
            ends = line.get_window_extent(canvas.get_renderer()).transformed(figure.transFigure.inverted())
            style: dict[str, Any] = {"fontsize": 9.5, "fontweight": "bold", "color": LINES[level % len(LINES)]}
            line = figure.text(ends.x1 + 0.015, 1 - 0.68 / high, level_name(level), **style)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    write_atomic(path, buffer.getvalue())
    return path


def _panel(axes: Any, quality: Quality, metric: str, named: bool) -> None:
    """One metric: a line per arm and level from low to high, a dot at the mean."""
    about = ABOUT[metric]
    scale = 100 if about.share else 1
    for row, arm in enumerate(quality.arms):
        for place, level in enumerate(quality.levels):
            found = quality.of(metric, level, arm)
            if found is None:
                continue
            at = row + APART * (place - (len(quality.levels) - 1) / 2)
            colour = LINES[level % len(LINES)]
            if found.low is not None and found.high is not None:
                axes.plot([scale * found.low, scale * found.high], [at, at], color=colour, linewidth=2, alpha=0.55)
            axes.plot(scale * found.mean, at, "o", color=colour, markersize=5, clip_on=False, zorder=4)
    fresh = quality.real.get((metric, quality.levels[0]))  # nearly the same at every level, but for copies
    if fresh is not None:
        axes.axvline(scale * fresh, color=INK, linewidth=1, linestyle=(0, (4, 2)), zorder=1)
    axes.set_title(about.title, fontsize=10, loc="left", color=INK, pad=6)
    axes.set_ylim(len(quality.arms) - 0.5, -0.5)
    axes.set_yticks(range(len(quality.arms)), quality.arms if named else [""] * len(quality.arms))
    if metric in ("precision", "recall"):
        axes.set_xlim(0, 100)
        axes.set_xticks((0, 50, 100))
    else:
        axes.set_xlim(0, max(axes.get_xlim()[1], 3 if about.share else 0.02))
        axes.locator_params(axis="x", nbins=4)
    if about.share:
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} %")
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    bare(axes)
    axes.tick_params(axis="y", labelsize=9.5, labelcolor=INK)
