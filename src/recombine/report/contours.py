"""Figures of a forced-rendering study: the error over the plane, the error by depth in the hole, and pictures.

Drawn on bare Figures, not pyplot: no global state, and no display is asked for.
"""

import base64
import io
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.report.rendering_reading import ArmNumbers, FinishedRendering

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ARMS = 12  # of a study that are drawn; a scaling study has many more
LEVELS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # error relative to a blank image
SHOWN_DEPTHS = 4  # columns of held-out pictures, from the rim to the deepest
DPI = 110


def _figure(wide: float, high: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(wide, high), layout="constrained")


def contour_figure(arms: dict[str, ArmNumbers]) -> "Figure":
    """For each arm a map of the error over (x, y), relative to a blank image, mean over members; the hole outlined."""
    from matplotlib.colors import BoundaryNorm

    planes = [arm for arm in arms.values() if arm.is_plane][:MOST_ARMS]
    columns = min(4, len(planes))
    rows = -(-len(planes) // columns)
    figure = _figure(3.1 * columns + 0.9, 3.2 * rows + 0.3)
    axes = figure.subplots(rows, columns, squeeze=False)
    norm = BoundaryNorm(LEVELS, 256, extend="both")
    drawn: Any = None
    for axis in axes.flat[len(planes) :]:
        axis.set_axis_off()
    for axis, arm in zip(axes.flat, planes, strict=False):
        side = arm.side
        error = np.clip(arm.map("relative").reshape(side, side), LEVELS[0] / 2, LEVELS[-1] * 2)
        drawn = axis.contourf(error, levels=LEVELS, norm=norm, cmap="magma_r", extend="both")
        _outline(axis, arm.trained.reshape(side, side))
        axis.set_aspect("equal")
        axis.set_xlim(-0.5, side - 0.5)
        axis.set_ylim(side - 0.5, -0.5)  # y points down, as in the images
        axis.set_xlabel("x")
        axis.set_ylabel("y")
        held = ~arm.trained
        axis.set_title(f"{arm.name}\nheld out {arm.members('relative', held).mean():.3g} of blank", fontsize=10)
    if drawn is not None:
        bar = figure.colorbar(drawn, ax=axes, shrink=0.85, ticks=LEVELS)
        bar.set_label("squared error, relative to a blank image")
        bar.ax.set_yticklabels([f"{level:g}" for level in LEVELS])
    return figure


def _outline(axis: Any, trained: np.ndarray) -> None:
    """The border between trained and held-out cells, along the edges of the cells."""
    from matplotlib.collections import LineCollection

    lines = [[(x + 0.5, y - 0.5), (x + 0.5, y + 0.5)] for y, x in np.argwhere(trained[:, 1:] != trained[:, :-1])]
    lines += [[(x - 0.5, y + 0.5), (x + 0.5, y + 0.5)] for y, x in np.argwhere(trained[1:] != trained[:-1])]
    axis.add_collection(LineCollection(lines, colors="#1a86c8", linewidths=1.8))


def _unlike(axes: np.ndarray) -> np.ndarray:
    """Axes on which no two of many lines look alike: from the eleventh on, colours come again with other strokes."""
    from cycler import cycler  # comes with matplotlib
    from matplotlib import colormaps

    strokes = cycler(linestyle=["-", "--", ":"], marker=["o", "s", "^"])
    for axis in axes:
        axis.set_prop_cycle(strokes * cycler(color=colormaps["tab10"](range(10))))
    return axes


BY_DEPTH = {  # what is drawn by depth, with what is written beside it
    "relative": "error / blank",
    "dissimilarity": "dissimilarity / blank",
    "position_error": "position error",
    "joint_probe_only": "found within 1",
}
OVER_BLANK = ("relative", "dissimilarity")  # of these a blank image has 1


def depth_figure(arms: dict[str, ArmNumbers]) -> "Figure":
    """Error and dissimilarity relative to blank, position error and share found within 1, by depth inside the hole. An
    arm has a row of four panels: its seeds thin, their mean thick, the means of all other arms grey."""
    shown = list(arms.values())[:MOST_ARMS]
    figure = _figure(11.0, 1.45 * len(shown) + 0.4)
    axes = figure.subplots(len(shown), len(BY_DEPTH), squeeze=False, sharex="all", sharey="col")
    degrees = not all(arm.is_plane for arm in shown)
    for column, (word, label) in enumerate(BY_DEPTH.items()):
        lines = [np.array([arm.members(word, arm.depth == depth) for depth in arm.depths]) for arm in shown]
        for row, own in enumerate(shown):  # lines[row] is (depths, M)
            axis = axes[row, column]
            for other, others in zip(shown, lines, strict=True):
                if other is not own:
                    axis.plot(other.depths, others.mean(1), color="0.82", linewidth=0.9, zorder=1)
            axis.plot(own.depths, lines[row], color="#1a86c8", linewidth=0.6, alpha=0.5, zorder=2)
            axis.plot(own.depths, lines[row].mean(1), color="#0b5e94", linewidth=2, zorder=3)
            if word in OVER_BLANK:
                axis.axhline(1.0, color="0.4", linewidth=1, linestyle="--")
            unit = (" (degrees)" if degrees else " (px)") if word == "position_error" else ""
            axis.set_ylabel(f"{label}{unit}", fontsize=8)
            axis.tick_params(which="both", labelsize=8)
            axis.grid(alpha=0.3)
        _heights(axes[0, column], word, np.concatenate([line.ravel() for line in lines]))
    for row, own in enumerate(shown):
        axes[row, 0].set_title(own.name, fontsize=9.5, loc="left")
    axes[0, 0].xaxis.get_major_locator().set_params(integer=True)
    where = "degrees from the edge of the gap" if degrees else "depth inside the hole, in pixels (the rim is 0)"
    figure.supxlabel(f"{where}; dashed: a blank image", fontsize=9)
    return figure


def _heights(axis: Any, word: str, values: np.ndarray) -> None:
    """The scale of a column of panels: of ratios to a blank image logarithmic, with 1 in sight."""
    values = values[np.isfinite(values)]
    if word in OVER_BLANK:
        values = values[values > 0]
        axis.set_yscale("log")
        axis.set_ylim(values.min(initial=0.3) / 1.5, values.max(initial=2.0) * 1.5)
        return
    high = 1.0 if word == "joint_probe_only" else values.max(initial=1.0)
    axis.set_ylim(-0.05 * high, 1.05 * high)


def shown_cells(arm: ArmNumbers) -> list[int]:
    """A few cells to look at: two trained ones, then held-out ones from the rim of the hole to its middle."""
    places = np.arange(len(arm.cells))
    middle = arm.cells[~arm.trained].mean(0)
    seen, unseen = places[arm.trained], places[~arm.trained]
    far = np.abs(arm.cells[seen] - middle).max(1)
    chosen = [int(seen[np.argmax(far)]), int(seen[np.argmin(far)])]
    for depth in np.unique(np.linspace(0, len(arm.depths) - 1, SHOWN_DEPTHS).round().astype(int)):
        there = unseen[arm.depth[unseen] == arm.depths[depth]]
        # Off the diagonals of the hole, where x and y would not be told apart by eye.
        away = np.abs(arm.cells[there] - middle)
        chosen.append(int(there[np.argmin(away[:, 0] * 2 + away[:, -1])]))
    return chosen


def picture_figure(study: FinishedRendering) -> "Figure":
    """What the first member of each arm draws at a few cells, under what it should be: arms that should draw the same
    share that line."""
    lines: list[tuple[str, str, ArmNumbers, list[int]]] = []  # key of the pictures, label, arm, cells
    names = [name for name in study.arms if name in study.pictures][:MOST_ARMS]
    for name in names:
        arm, cells = study.arms[name], shown_cells(study.arms[name])
        real = f"{name}.real"
        before = lines[-1] if lines else None
        if before is None or before[3] != cells or not np.array_equal(study.pictures[f"{before[2].name}.real"], study.pictures[real]):  # fmt: skip  # noqa: E501
            lines.append((real, "truth", arm, cells))
        lines.append((name, name, arm, cells))
    columns = max(len(cells) for *_, cells in lines)
    figure = _figure(1.45 * columns + 1.6, 1.4 * len(lines) + 0.4 * sum(label == "truth" for _, label, *_ in lines))
    axes = figure.subplots(len(lines), columns, squeeze=False)
    for row, (key, label, arm, cells) in zip(axes, lines, strict=True):
        row[0].set_ylabel(label, fontsize=9, rotation=0, ha="right", va="center")
        for axis, cell in zip(row, cells, strict=False):
            axis.imshow(study.pictures[key][cell], cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            if label == "truth":
                deep = f"depth {arm.depth[cell]:.3g}" if arm.is_plane else f"{arm.depth[cell]:.1f}° into the gap"
                axis.set_title(f"{arm.place(cell)}\n{'trained' if arm.trained[cell] else deep}", fontsize=8)
        for number, axis in enumerate(row):
            axis.set_xticks([])
            axis.set_yticks([])
            axis.set_visible(number < len(cells))
    return figure


def curve_figure(study: FinishedRendering, rows: dict[str, np.ndarray]) -> "Figure":
    """Error relative to blank against steps, trained and held out, mean over members."""
    figure = _figure(11.0, 3.6)
    axes = _unlike(figure.subplots(1, 2, sharey=True))
    for name in list(study.arms)[:MOST_ARMS]:
        mine = rows["arm"] == name
        steps = np.unique(rows["step"][mine])
        for axis, level in zip(axes, (0, 1), strict=True):
            there = mine & (rows["level"] == level)
            means = [
                rows["mse"][there & (rows["step"] == step)].mean()
                / rows["blank"][there & (rows["step"] == step)].mean()
                for step in steps
            ]
            axis.plot(steps, means, markersize=3, label=name)
    for axis, title in zip(axes, ("trained", "held out"), strict=True):
        axis.axhline(1.0, color="0.4", linewidth=1, linestyle="--")
        axis.set_yscale("log")
        axis.set_xlabel("steps")
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("squared error, relative to blank")
    axes[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    return figure


def png_uri(drawn: bytes) -> str:
    """A PNG file as an address that holds the picture itself."""
    return "data:image/png;base64," + base64.b64encode(drawn).decode("ascii")


def png_bytes(figure: "Figure") -> bytes:
    sink = io.BytesIO()
    figure.savefig(sink, dpi=DPI, format="png")
    return sink.getvalue()
