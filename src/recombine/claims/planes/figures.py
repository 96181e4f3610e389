"""One figure for each claim on rendering: what it is about (by depth in the hole, by layer, over the plane) at the
left, and the numbers it is judged by, seed by seed, at the right.

Drawn from the study's own files: `results.parquet`, `measures.parquet`, `maps.safetensors` and its pictures. A panel
whose file is not there is left out.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recombine.anatomy.kernels import FAMILIES
from recombine.anatomy.measures import PICTURE
from recombine.anatomy.scaling import BETWEEN, MORE_THAN
from recombine.claims.figures import GRID, HIGH, INK, QUIET, WIDE, bare, heading
from recombine.claims.planes.parts import is_fitted
from recombine.claims.planes.table import PlaneTable
from recombine.claims.verdicts import Finding, Verdict
from recombine.files import write_atomic
from recombine.judges.statistics import interval
from recombine.report import scaling
from recombine.report.figures import LINES
from recombine.report.plane_figures import MODEL_COLOURS, by_depth, cosine_foot, outline
from recombine.report.rendering_inside import Measures, memory_pictures, read_inside
from recombine.report.rendering_reading import FinishedRendering, read_rendering
from recombine.report.words import percent

PLACES = ((0.055, 0.25), (0.365, 0.25))  # left edge and width of the two panels beside the rows
BOTTOM, TALL = 0.15, 0.56
STEP = 0.05  # an axis of cosines that does not begin at 0 begins at a multiple of it
UNFITTED = "#aab0bb"  # an arm that has not fitted what it was trained on tells nothing
PUBLISHED = {
    ("F1", "CNN"): 0.291,
    ("F2", "memory"): 0.844,
    ("F2", "truth"): 0.048,
    ("F5", "regularised"): 1.0,
    ("F5", "unregularised"): 0.037,
    ("F9", "coordinate"): 1.0,
}
"""Published numbers of rows, where they are of the same measure."""

WHAT = {
    "F2": "Cosine of what is drawn in the hole with its memory (trained outputs that share x or y) and with the truth",
    "F3": "How well model kernels describe the kernel of each hidden layer, over pairs of trained cells",
    "F4": "The surface that each layer draws over the plane: its local area, and the directions of x and y",
    "F6": "Share of bumps that are found within 1 pixel of their place, and how many images are needed",
    "F8": "Cosine of what is drawn in the gap with its memory (the cross-fade of both edges) and with the true picture",
}
IN_PLACE = "Share of bumps that are found within 1 pixel of their place, and squared error over that of a blank image"


@dataclass(frozen=True)
class Row:
    """One line of the numbers at the right: a value per seed."""

    label: str
    values: np.ndarray
    colour: str
    published: float | None = None
    unit: str = ""  # rows of another unit have an axis of their own


def draw_plane(verdict: Verdict, path: Path) -> Path:
    """Write the figure of a claim on rendering as a PNG; the same files give the same picture."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found = verdict.finding
    if found is None:
        raise ValueError(f"{verdict.id} has no finding to draw")
    study, table, inside = (
        read_rendering(found.study.folder),
        PlaneTable.of(found.study),
        read_inside(found.study.folder),
    )
    assert inside is not None  # a finding was made from it
    with matplotlib.rc_context({"font.family": "DejaVu Sans", "figure.facecolor": "white"}):
        figure = Figure(figsize=(WIDE, HIGH), dpi=150)
        FigureCanvasAgg(figure)
        heading(figure, verdict, WHAT.get(verdict.id, IN_PLACE))
        if verdict.id in ("F2", "F8"):
            rows = _superposition(figure, verdict.id, found, study, table, inside)
        elif verdict.id == "F3":
            rows = _kernels(figure, found, study, table, inside)
        elif verdict.id == "F4":
            rows = _manifold(figure, found, table)
        else:
            rows = _in_place(figure, verdict.id, found, study, table)
        names_end = 0.665 + 0.0075 * max(len(row.label) for row in rows)  # room for the longest name
        groups = {row.unit: [other for other in rows if other.unit == row.unit] for row in rows}  # an axis for each
        tall = TALL / len(groups) - 0.1 * (len(groups) > 1)
        for i, (unit, group) in enumerate(groups.items()):
            bottom = BOTTOM + TALL - tall - i * (tall + 0.2)
            axes = figure.add_axes((names_end, bottom, 0.98 - names_end, tall))
            _rows(axes, group, verdict, unit, titled=i == 0)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    write_atomic(path, buffer.getvalue())
    return path


def _panel(figure: Any, place: int, title: str) -> Any:
    left, wide = PLACES[place]
    axes = figure.add_axes((left, BOTTOM, wide, TALL))
    axes.set_title(title, fontsize=10, loc="left", color=INK, pad=8)
    return axes


def _plain(axes: Any, xlabel: str) -> None:
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_xlabel(xlabel, fontsize=9, color=QUIET, labelpad=3)
    bare(axes)


def _colours(labels: Sequence[str]) -> dict[str, str]:
    return {label: LINES[i % len(LINES)] for i, label in enumerate(labels)}


def _in_place(figure: Any, claim: str, found: Finding, study: FinishedRendering, table: PlaneTable) -> list[Row]:
    """Shares in place and errors by depth, or examples needed against size beside; and the shares at the right."""
    colours = _colours(list(found.arms))
    dull = {label for label, name in found.arms.items() if not is_fitted(table, name, sorted(table.seeds(name)))}
    colours |= dict.fromkeys(dull, UNFITTED)
    unit = "depth inside the hole, in pixels"
    axes = _panel(figure, 0, "In place, by depth")
    for label, name in found.arms.items():
        _line(axes, study.arms[name].depths, _at_depths(study, name, "joint_probe_only"), colours[label])
    axes.set_ylim(-0.03, 1.03)
    axes.set_yticks((0, 0.25, 0.5, 0.75, 1), ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.xaxis.get_major_locator().set_params(integer=True)
    _plain(axes, unit)
    groups = scaling.scores_of(read_rendering(found.beside[0].folder)) if found.beside else {}
    if groups:
        _needed(_panel(figure, 1, f"Images needed for {percent(scaling.REACH)} off the rim"), groups)
    else:
        axes = _panel(figure, 1, "Error over a blank image's, by depth")
        for label, name in found.arms.items():
            _line(axes, study.arms[name].depths, _at_depths(study, name, "relative"), colours[label])
        axes.axhline(1.0, color=QUIET, linewidth=1, linestyle=(0, (4, 2)))
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0.08), max(high, 2.0))
        _log_ticks(axes, [0.0001, 0.001, 0.01, 0.1, 0.3, 1, 3, 10, 30, 100])
        axes.xaxis.get_major_locator().set_params(integer=True)
        _plain(axes, unit)
    return [
        Row(
            f"{label} (not fitted)" if label in dull else label,
            _seeds(table, name, "hit", "held_out"),
            colours[label],
            PUBLISHED.get((claim, label)),
        )
        for label, name in found.arms.items()
    ]


def _at_depths(study: FinishedRendering, name: str, word: str) -> np.ndarray:
    """(depths, M)."""
    arm = study.arms[name]
    return np.array([arm.members(word, arm.depth == depth) for depth in arm.depths])


def _line(axes: Any, x: Sequence[float], lines: np.ndarray, colour: str, label: str | None = None) -> None:
    """Seeds (X, M) thin, their mean thick."""
    axes.plot(x, lines, color=colour, linewidth=0.6, alpha=0.35)
    dots = "o-" if len(x) <= 25 else "-"
    axes.plot(x, np.nanmean(lines, axis=1), dots, color=colour, linewidth=2, markersize=4, label=label)


def _log_ticks(axes: Any, ticks: Sequence[float]) -> None:
    """Those of the ticks that lie on a logarithmic y axis, as plain numbers."""
    low, high = axes.get_ylim()
    shown = [tick for tick in ticks if low <= tick <= high]
    axes.set_yticks(shown, [f"{tick:,g}" for tick in shown])
    axes.minorticks_off()


def _needed(axes: Any, groups: Mapping[str, scaling.Scores]) -> None:
    """Examples needed against size with the fitted line. A seed that reaches it has a bar between the two tried numbers
    that its need lies between, and a dot at what is read off between them."""
    sizes: list[int] = []
    missed, hollow = False, {"markerfacecolor": "none", "markersize": 4}
    for colour, (group, scores) in zip(LINES, groups.items(), strict=False):
        sizes, needed, fit = scaling.fits(scores)
        apart = np.exp(0.008 * (np.arange(fit.seeds) - (fit.seeds - 1) / 2))
        places = np.array(sizes, dtype=np.float64) * apart[:, None]  # (S, Z), seeds side by side
        there, beyond = needed.known == BETWEEN, needed.known == MORE_THAN
        scaling.draw_brackets(axes, places, needed, colour)
        axes.plot(places[there], needed.examples[there], "o", color=colour, markersize=2.6)
        axes.plot(places[beyond], needed.examples[beyond], "^", color=colour, **hollow)
        missed |= bool(beyond.any())
        power = f"$N^{{{fit.exponent:.2f}}}$"
        words = f"{fit.reached} of {fit.asked} sizes reach it" if np.isnan(fit.exponent) else power
        axes.plot([], [], color=colour, linewidth=1.8, label=f"{group}: {words}")
        if not np.isnan(fit.exponent):
            axes.plot(sizes, fit.constant * np.array(sizes, float) ** fit.exponent, color=colour, linewidth=1.8)
    if missed:
        axes.plot([], [], "^", color=QUIET, label="a seed that needs more than was tried", **hollow)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    tried = {count for scores in groups.values() for counts in scores.values() for count in counts}
    axes.set_ylim(top=(4.4 if missed else 2.2) * axes.get_ylim()[1])  # room for the legend
    _log_ticks(axes, sorted(tried))
    _plain(axes, "image size N")
    axes.legend(fontsize=8.5, frameon=False, loc="upper left")


def _superposition(
    figure: Any, claim: str, found: Finding, study: FinishedRendering, table: PlaneTable, inside: Measures
) -> list[Row]:
    """Cosines by depth; the deepest cell as it should be, as memory has it and as it is drawn; the cosines by seed."""
    name = next(iter(found.arms.values()))
    arm = study.arms[name]
    words = {"memory": LINES[0], "truth": LINES[1], "control": "#6b7280"}
    labels = {"memory": "memory", "truth": "true picture", "control": "other memories"}
    depth = inside.maps.get(f"{name}.superposition.depth")
    if depth is not None:
        axes = _panel(figure, 0, "Cosine with the output, by depth")
        for word, colour in words.items():
            levels, lines = by_depth(depth, inside.maps[f"{name}.superposition.{word}"])
            _line(axes, levels.tolist(), lines, colour)
        foot, said = begins_at(cosine_foot(inside.maps[f"{name}.superposition.{word}"] for word in words))
        axes.set_ylim(foot, 1.02)
        axes.xaxis.get_major_locator().set_params(integer=True)
        unit = "depth inside the hole, in pixels" if arm.is_plane else "degrees from the edge of the gap"
        _plain(axes, "\n".join(filter(None, (unit, said))))
    if name in study.pictures:
        held = np.flatnonzero(~arm.trained)
        deepest = int(np.argmax(arm.depth[held]))
        if arm.is_plane:
            away = np.square(arm.cells[held] - arm.cells[held].mean(0)).sum(1)
            deepest = int(np.argmin(np.where(arm.depth[held] == arm.depth[held].max(), away, np.inf)))
        memory = memory_pictures(arm, study.pictures[name])[deepest]
        drawn = {
            "true picture": study.pictures[f"{name}.real"][held[deepest]] / 255,
            "memory": memory,
            "drawn": study.pictures[name][held[deepest]] / 255,
        }
        title = f"Deepest: {arm.place(int(held[deepest]))}, first seed"
        figure.text(PLACES[1][0], BOTTOM + TALL + 0.025, title, fontsize=10, color=INK)
        for i, (label, picture) in enumerate(drawn.items()):
            side = 0.082
            axes = figure.add_axes((PLACES[1][0] + i * (side + 0.006), 0.33, side, side * WIDE / HIGH))
            low, high, times = own_scale(picture)
            axes.imshow(picture, cmap="gray", vmin=low, vmax=high, interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            label += "" if times == 1 else f"\ncontrast × {times:.0f}"
            axes.set_xlabel(label, fontsize=9, color=QUIET)
    region = "deep" if claim == "F2" else "held_out"
    return [
        Row(
            labels[word],
            _seeds(table, name, f"superposition_{word}", region),
            colour,
            PUBLISHED.get((claim, word)),
        )
        for word, colour in words.items()
    ]


def begins_at(low: float) -> tuple[float, str]:
    """Where an axis begins that would begin here, and what says so: above 0 at a round number, which is told."""
    if low < STEP:
        return low, ""
    low = STEP * np.floor(low / STEP)
    return low, f"cosine axis begins at {low:g}"


def own_scale(picture: np.ndarray) -> tuple[float, float, float]:
    """What is drawn black and white, and how many times that raises the contrast: 0, 1 and 1 of a picture from 0 to 1
    that has half of it, else its own darkest and brightest, so that a faint picture can be seen."""
    low, high = float(picture.min()), float(picture.max())
    if not 0 < high - low < 0.5:
        return 0.0, 1.0, 1.0
    return low, high, 1 / (high - low)


def _kernels(figure: Any, found: Finding, study: FinishedRendering, table: PlaneTable, inside: Measures) -> list[Row]:
    """R² of every family by layer; the kernel of one cell in the last hidden layer; R² over hidden layers by seed."""
    name = found.arms["CNN"]
    layers = table.layers(name)
    axes = _panel(figure, 0, "R² of model kernels, by layer")
    means: dict[str, np.ndarray] = {}
    for family in FAMILIES:
        lines = np.array([_seeds(table, name, f"kernel_r2_{family}", "trained", layer) for layer in layers])
        means[family] = lines.mean(0)
        _line(axes, range(1, len(layers) + 1), np.clip(lines, -0.05, 1), MODEL_COLOURS[family])
    axes.set_ylim(-0.06, 1.03)
    axes.set_xticks(range(1, len(layers) + 1))
    _plain(axes, "hidden layer")
    kernel, arm = inside.maps.get(f"{name}.kernel.{layers[-1]}"), study.arms[name]
    if kernel is not None:
        axes = _panel(figure, 1, f"What {layers[-1]} finds like the middle of the hole")
        top = float(np.abs(kernel).max()) or 1.0
        axes.imshow(kernel.reshape(arm.side, arm.side), cmap="RdBu_r", vmin=-top, vmax=top, interpolation="nearest")
        outline(axes, arm.trained.reshape(arm.side, arm.side), "#333")
        axes.set_xticks([0, arm.side - 1])
        axes.set_yticks([0, arm.side - 1])
        axes.set_xlabel("x", fontsize=9, color=QUIET)
        axes.set_ylabel("y", fontsize=9, color=QUIET)
    return [Row(family.replace("_", " "), means[family], MODEL_COLOURS[family]) for family in FAMILIES]


def _manifold(figure: Any, found: Finding, table: PlaneTable) -> list[Row]:
    """Volume outside minus inside, and the overlap of the two tangents, by layer; both at the output by seed."""
    name = found.arms["CNN"]
    layers = ["input", *table.layers(name), "output"]
    ticks = ["code", *(layer.removeprefix("layer ") for layer in layers[1:-1]), "out"]

    def shrunk(layer: str) -> np.ndarray:
        both = [_seeds(table, name, "log_volume", region, layer) for region in ("held_out", "trained")]
        return both[0] - both[1]

    axes = _panel(figure, 0, "log10 of volume, outside minus inside")
    _line(axes, range(len(layers)), np.array([shrunk(layer) for layer in layers]), LINES[0])
    true = shrunk("truth") if table.by_seed(name, "log_volume", "held_out", "truth") else None
    if true is not None:
        axes.axhline(true.mean(), color=QUIET, linewidth=1, linestyle=(0, (4, 2)))
        axes.text(0, true.mean(), "true images", fontsize=8, color=QUIET, va="bottom")
    axes.set_xticks(range(len(layers)), ticks)
    _plain(axes, "layer")
    axes = _panel(figure, 1, "Mean |cosine| of the tangents of x and y")
    for region, colour, label in (("held_out", LINES[2], "outside"), ("trained", LINES[3], "inside")):
        lines = np.array([_seeds(table, name, "overlap", region, layer) for layer in layers])
        _line(axes, range(len(layers)), lines, colour, label)
    axes.set_ylim(bottom=-0.01)
    axes.set_xticks(range(len(layers)), ticks)
    axes.legend(fontsize=8.5, frameon=False, loc="upper left")
    _plain(axes, "layer")
    freed = shrunk("output") - (0.0 if true is None else true)
    overlap = _seeds(table, name, "overlap", "held_out", "output")
    less = "" if true is None else ", minus true images"
    return [
        Row("volume", freed, LINES[0], unit=f"log10, outside minus inside{less}"),
        Row("overlap outside", overlap, LINES[2], unit="mean |cosine|"),
    ]


def _seeds(table: PlaneTable, arm: str, measure: str, region: str, layer: str = PICTURE) -> np.ndarray:
    """One number per seed of the arm."""
    return table.values(arm, measure, region, sorted(table.seeds(arm)), layer)


def _rows(axes: Any, rows: Sequence[Row], verdict: Verdict, unit: str = "", titled: bool = True) -> None:
    """A dot per seed, the mean with its interval on the line, and what was published below it."""
    share = verdict.claim.unit in ("points", "share")
    spread = 0.03 * max(len(rows), 2)
    for place, row in enumerate(rows):
        heights = place - spread * (0.9 + np.linspace(0, 1, len(row.values)))
        axes.plot(row.values, heights, "o", color=row.colour, alpha=0.45, markersize=3.2, markeredgewidth=0)
        mean = interval(row.values, share=share)
        if mean.low is not None and mean.high is not None:
            axes.plot([mean.low, mean.high], [place, place], color=row.colour, linewidth=2.4)
        axes.plot(mean.mean, place, "o", color=row.colour, markersize=7, markeredgecolor="white", zorder=5)
        if row.published is not None:
            style = {"markerfacecolor": "white", "markeredgecolor": INK, "markersize": 5.5, "markeredgewidth": 1.2}
            axes.plot(row.published, place + 1.7 * spread, "D", clip_on=False, zorder=4, **style)
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)  # the first on top
    if share:
        axes.set_xlim(-0.02, 1.02)
        axes.set_xticks((0, 0.5, 1), ["0 %", "50 %", "100 %"])
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    bare(axes)
    axes.tick_params(axis="y", pad=8)
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_color(row.colour)
        label.set_fontsize(10)
        label.set_fontweight("bold")
    if unit:
        axes.axvline(0, color="#b9bec8", linewidth=1, zorder=0)  # how far from nothing
        axes.set_xlabel(unit, fontsize=8.5, color=QUIET, labelpad=3)
    if not titled:
        return
    titles = {"F2": "Deep in the hole", "F3": "Mean over hidden layers", "F4": "At the output", "F8": "In the gap"}
    axes.set_title(titles.get(verdict.id, "In place, all of the hole"), fontsize=10, loc="left", color=INK, pad=8)
    below = []
    if verdict.id in ("F2", "F8"):
        foot, said = begins_at(axes.get_xlim()[0])
        axes.set_xlim(left=foot)
        below.append(said)
    if any(row.published is not None for row in rows):
        below.append(f"◇ published{', in another setting' if verdict.id == 'F9' else ''}")
    if any(below):
        axes.set_xlabel("   ".join(filter(None, below)), fontsize=8.5, color=QUIET, labelpad=3)
