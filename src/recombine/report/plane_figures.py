"""Pictures of the (x, y) plane: maps of a number over it, kernels, superpositions, and examples needed against size.

Each function writes one PNG. Maps are (N, N) with rows y and columns x, y pointing down as in the images; the hole's
border is drawn in red. Colours and manner are those of `figures`.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recombine.errors import UserError
from recombine.files import write_atomic
from recombine.report.figures import LINES

HOLE = "#d81e0a"
MODEL_COLOURS = {
    "factorized": LINES[0],
    "binary_factorized": "#56c1ff",
    "conjunction": LINES[3],
    "product": LINES[4],
    "radial": LINES[1],
}


def new_figure(width: float, height: float) -> Any:
    """A figure in inches that needs no screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Any, path: Path) -> Path:
    """Write a figure as a PNG, whole or not at all."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_atomic(Path(path), buffer.getvalue())
    return Path(path)


def _style() -> Any:
    import matplotlib

    return matplotlib.rc_context({"font.family": "DejaVu Sans", "font.size": 9, "axes.edgecolor": "#888"})


def outline(axes: Any, trained: np.ndarray, colour: str = HOLE) -> None:
    """Draw the border between trained and held-out cells of a mask (N, N) as lines between cells."""
    for y, x in zip(*np.nonzero(trained[:, 1:] != trained[:, :-1]), strict=True):
        axes.plot([x + 0.5, x + 0.5], [y - 0.5, y + 0.5], color=colour, linewidth=1.4, solid_capstyle="projecting")
    for y, x in zip(*np.nonzero(trained[1:] != trained[:-1]), strict=True):
        axes.plot([x - 0.5, x + 0.5], [y + 0.5, y + 0.5], color=colour, linewidth=1.4, solid_capstyle="projecting")


def _plane(axes: Any, size: int, labels: bool = True) -> None:
    """Axes of a map: first, middle and last value."""
    ticks = [0, size // 2, size - 1]
    axes.set_xticks(ticks)
    axes.set_yticks(ticks)
    axes.tick_params(length=2, labelsize=7.5, color="#888")
    if labels:
        axes.set_xlabel("x", labelpad=1)
        axes.set_ylabel("y", labelpad=1)


def _clean(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(color="#e3e5ea", linewidth=0.8)
    axes.set_axisbelow(True)


def _heading(figure: Any, title: str, note: str) -> None:
    """The title, and below it what is shown, both at the left; inches, so that they look alike at every size."""
    height = figure.get_size_inches()[1]
    figure.text(0.02, 1 - 0.30 / height, title, fontsize=12, fontweight="bold", color="#111")
    figure.text(0.02, 1 - 0.41 / height, note, fontsize=8.5, color="#555", va="top", linespacing=1.35)


def plane_maps(
    path: Path,
    maps: Mapping[str, np.ndarray],
    trained: np.ndarray,
    title: str,
    note: str,
    unit: str,
    contours: Sequence[float] = (),
    limits: tuple[float, float] | None = None,
    colours: str = "viridis",
) -> Path:
    """One map (N, N) per name on one colour scale: log volume by layer, error by arm, factorization by cell.

    `limits` are the ends of the scale (the 2nd and 98th percentile of all maps unless given, so that one odd cell does
    not wash out the rest); `contours` are values to draw lines at. A cell without a value is grey.
    """
    if not maps:
        raise UserError("There is no map to draw; give at least one.")
    for name, values in maps.items():
        if values.shape != trained.shape:
            raise UserError(f"Map {name} has shape {values.shape} and the support {trained.shape}; they must match.")
    every = np.concatenate([values[np.isfinite(values)] for values in maps.values()])
    low, high = limits if limits is not None else np.percentile(every, [2, 98]) if len(every) else (0.0, 1.0)
    columns = min(len(maps), 5)
    rows = -(-len(maps) // columns)
    side = 1.95
    width, height = max(0.6 + columns * (side + 0.35) + 0.9, 4.2), 0.75 + rows * (side + 0.62)
    import matplotlib

    palette = matplotlib.colormaps[colours].with_extremes(bad="#d8dae0")
    with _style():
        figure = new_figure(width, height)
        shown = None
        for i, (name, values) in enumerate(maps.items()):
            row, column = divmod(i, columns)
            left, top = 0.5 + column * (side + 0.35), height - 0.95 - row * (side + 0.62)
            axes = figure.add_axes((left / width, (top - side) / height, side / width, side / height))
            shown = axes.imshow(values, cmap=palette, vmin=low, vmax=high, interpolation="nearest")
            if len(contours) and np.isfinite(values).all():
                axes.contour(values, levels=sorted(contours), colors="white", linewidths=0.8)
            outline(axes, trained)
            _plane(axes, len(values), labels=column == 0 and row == rows - 1)
            axes.set_title(name, fontsize=9.5, loc="left", pad=4)
        right = 0.5 + columns * (side + 0.35) - 0.15
        bar = figure.add_axes((right / width, (height - 0.95 - side) / height, 0.12 / width, side / height))
        figure.colorbar(shown, cax=bar, extend="both" if limits is None else "neither")
        bar.set_ylabel(unit, fontsize=8.5)
        bar.tick_params(labelsize=7.5, length=2)
        _heading(figure, title, note)
        return save(figure, path)


def volume_maps(path: Path, logs: Mapping[str, np.ndarray], trained: np.ndarray, title: str) -> Path:
    """log10 of the volume element over the plane, one map per layer (a member, or the mean of members)."""
    named = {}
    for name, values in logs.items():
        inside, outside = (round(float(np.nanmean(values[where])), 2) + 0.0 for where in (trained, ~trained))
        named[f"{name}\ntrained {inside:.2f}, held out {outside:.2f}".replace("-", "\u2212")] = values
    note = "log10 of the volume element at every (x, y); red: the border of the hole; below each name the means"
    return plane_maps(path, named, trained, title, note, "log10 volume")


def manifold_views(
    path: Path, layers: Mapping[str, np.ndarray], cells: np.ndarray, trained: np.ndarray, title: str
) -> Path:
    """The activations (C, D) of each layer on their two strongest directions, coloured by x and by y; a ring: held out.

    The directions are those of the trained cells (so the hole cannot turn the picture). Two of many directions are
    shown: the share of the variance they hold stands below the name.
    """
    with _style():
        count = len(layers)
        width, height = 0.5 + 2.3 * max(count, 2), 5.6
        figure = new_figure(width, height)
        for i, (name, features) in enumerate(layers.items()):
            centred = features - features[trained].mean(0)
            _, sizes, directions = np.linalg.svd(centred[trained], full_matrices=False)
            held = float((sizes[:2] ** 2).sum() / max((sizes**2).sum(), 1e-300))
            places = centred @ directions[:2].T
            for row, factor in enumerate(("x", "y")):
                left, bottom = 0.25 + 2.3 * i, 2.5 - 2.35 * row + 0.1
                axes = figure.add_axes((left / width, bottom / height, 2.05 / width, 2.05 / height))
                value = cells[:, row]
                scale = {"cmap": "viridis", "vmin": value.min(), "vmax": value.max()}
                axes.scatter(*places[trained].T, c=value[trained], s=9, linewidths=0, **scale)
                axes.scatter(*places[~trained].T, c=value[~trained], s=13, linewidths=0.5, edgecolors=HOLE, **scale)
                axes.set_xticks([])
                axes.set_yticks([])
                if row == 0:
                    axes.set_title(f"{name}\n{100 * held:.0f} % of the variance", fontsize=9.5, loc="left", pad=4)
                if i == 0:
                    axes.set_ylabel(f"coloured by {factor}", fontsize=9)
        _heading(figure, title, "each dot one (x, y); red rim: held out")
        return save(figure, path)


def kernel_panels(
    path: Path,
    kernels: Mapping[str, np.ndarray],
    scores: Mapping[str, Mapping[str, np.ndarray]],
    trained: np.ndarray,
    cell: tuple[int, int],
    title: str,
    note: str = "",
) -> Path:
    """Per layer: what is like one cell (a row of its kernel as a map), and how well each model kernel fits.

    `kernels` are maps (N, N) of k(cell, .) for the cell (x, y), each with a colour scale of its own, since layers may
    differ tenfold; `scores` {layer: {family: R^2 per member (M,)}}, drawn as the mean with each member as a dot. Layers
    go from left to right. `note` is added below the title.
    """
    names = list(kernels)
    count = len(names)
    side, gap = 1.75, 0.95  # the gap holds a colour scale
    width, height = max(0.75 + count * (side + gap), 8.0 if note else 6.6), 5.9 if note else 5.7
    top = height - (1.25 if note else 1.05)  # of the maps
    with _style():
        figure = new_figure(width, height)
        for i, name in enumerate(names):
            left = 0.75 + i * (side + gap)
            axes = figure.add_axes((left / width, (top - side) / height, side / width, side / height))
            most = float(np.nan_to_num(np.abs(kernels[name])).max()) or 1.0
            shown = axes.imshow(kernels[name], cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest")
            scale = figure.add_axes(((left + side + 0.08) / width, (top - side) / height, 0.09 / width, side / height))
            figure.colorbar(shown, cax=scale, ticks=[-most, 0, most])
            scale.set_yticks([-most, 0, most], [f"\u2212{most:.2g}", "0", f"{most:.2g}"], fontsize=7.5)
            scale.tick_params(length=2)
            axes.plot(*cell, marker="o", markersize=4, markerfacecolor="none", markeredgecolor="#111")
            outline(axes, trained, "#333")
            _plane(axes, len(trained), labels=i == 0)
            axes.set_title(name, fontsize=9.5, loc="left", pad=4)
        axes = figure.add_axes((0.75 / width, 0.75 / height, (width - 1.0) / width, 1.75 / height))
        families = list(dict.fromkeys(family for found in scores.values() for family in found))
        for f, family in enumerate(families):
            shift = (f - (len(families) - 1) / 2) * 0.8 / len(families)
            colour = MODEL_COLOURS.get(family, LINES[f % len(LINES)])
            for i, name in enumerate(names):
                values = np.atleast_1d(scores[name].get(family, np.array([np.nan])))
                dots = np.clip(values, -0.05, 1)  # a fit worse than the mean is drawn at the foot
                axes.bar(i + shift, np.nanmean(dots), 0.72 / len(families), color=colour, alpha=0.45, linewidth=0)
                label = family.replace("_", " ") if i == 0 else None
                axes.plot(np.full(len(dots), i + shift), dots, "o", color=colour, markersize=3, label=label)
        axes.set_xticks(range(count), names)
        axes.set_xlim(-0.6, count - 0.4)
        axes.set_ylim(-0.06, 1.03)
        axes.set_ylabel("R² of the fit")
        _clean(axes)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=len(families), frameon=False, fontsize=8.5)
        above = f"the kernel between ({cell[0]}, {cell[1]}) and every cell (1: a trained cell with itself, on average)"
        _heading(figure, title, f"above: {above}; below: model kernels" + (f"\n{note}" if note else ""))
        return save(figure, path)


def superposition_pictures(
    path: Path,
    outputs: Mapping[str, np.ndarray],
    truths: np.ndarray,
    cells: Sequence[tuple[float, ...]],
    depths: Sequence[float],
    title: str,
    shares: Mapping[str, Sequence[float]] | None = None,
    value_range: tuple[float, float] = (0.0, 1.0),
) -> Path:
    """One row per source (true picture first, then `outputs`, such as the memory and each arm), one column per cell.

    `outputs` {source: (K, N, N)} for the K cells shown; `shares` {source: (K,)} are written below their pictures.
    """
    rows = {"true image": truths, **outputs}
    side, gap = 1.15, 0.12
    extra = 0.17 if shares else 0.0
    names = 0.3 + 0.078 * max(map(len, rows))  # inches for the longest name
    width = max(names + 0.2 + len(cells) * (side + gap), 6.2)
    height = 1.25 + len(rows) * (side + gap + extra)
    with _style():
        figure = new_figure(width, height)
        for r, (source, pictures) in enumerate(rows.items()):
            if pictures.shape != truths.shape or len(truths) != len(cells):
                raise UserError(
                    f"{source} has shape {pictures.shape}; {len(cells)} pictures like the true ones needed."
                )
            bottom = height - 1.05 - (r + 1) * side - r * (gap + extra)
            middle = (bottom + side / 2) / height
            figure.text(names / width, middle, source, ha="right", va="center", fontsize=9.5, color="#222")
            for c, cell in enumerate(cells):
                left = names + 0.12 + c * (side + gap)
                axes = figure.add_axes((left / width, bottom / height, side / width, side / height))
                axes.imshow(pictures[c], cmap="gray", vmin=value_range[0], vmax=value_range[1], interpolation="nearest")
                axes.set_xticks([])
                axes.set_yticks([])
                if r == 0:
                    place = ", ".join(f"{value:.4g}" for value in cell)
                    axes.set_title(f"({place})\ndepth {depths[c]:.3g}", fontsize=8.5, pad=3, color="#333")
                if shares is not None and source in shares:
                    value = float(shares[source][c])
                    text = "none" if np.isnan(value) else f"share {value:.2f}"
                    axes.set_xlabel(text, fontsize=8, labelpad=2, color="#333")
        note = "held-out cells by depth inside the hole"
        _heading(figure, title, note + ("; share: 1 is a superposition, 0 the true image" if shares else ""))
        return save(figure, path)


def by_depth(depth: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The depths there are, and the mean of scores (M, K) over the held-out cells of each, (depths, M)."""
    near = depth.round(3)  # of angles, equal depths from either edge differ in their last digit
    levels = np.unique(near)
    return levels, np.stack([np.nanmean(scores[:, near == level], axis=1) for level in levels])


def cosine_foot(values: Iterable[np.ndarray]) -> float:
    """Where an axis of cosines begins: a little below 0, lower where there are lower ones, higher where all are high
    (pictures of a whole digit are all alike)."""
    known = np.concatenate([some[np.isfinite(some)] for some in values])
    least = float(known.min()) if len(known) else 0.0
    return least - 0.05 if least > 0.5 or least < 0 else -0.08


def superposition_panels(
    path: Path, arms: Mapping[str, tuple[np.ndarray, Mapping[str, np.ndarray]]], title: str, unit: str = "cells"
) -> Path:
    """For each arm a panel: scores (M, K) of held-out cells against their depth (K,), seeds thin and their mean thick.

    `arms` {name: (depth, {score: values})}; all have the same scores.
    """
    columns = min(len(arms), 4)
    rows = -(-len(arms) // columns)
    wide, high = 2.3, 1.75
    width, height = max(0.78 + columns * (wide + 0.3), 5.6), 1.3 + rows * (high + 0.55)
    low = cosine_foot(lines for _, values in arms.values() for lines in values.values())
    with _style():
        figure = new_figure(width, height)
        for i, (name, (depth, values)) in enumerate(arms.items()):
            row, column = divmod(i, columns)
            left, bottom = 0.68 + column * (wide + 0.3), height - 1.0 - high - row * (high + 0.55)
            axes = figure.add_axes((left / width, bottom / height, wide / width, high / height))
            for colour, (label, scores) in zip(LINES, values.items(), strict=False):
                levels, lines = by_depth(depth, scores)
                dots = "o-" if len(levels) <= 25 else "-"
                axes.plot(levels, lines, color=colour, linewidth=0.5, alpha=0.35)
                axes.plot(levels, lines.mean(1), dots, color=colour, linewidth=1.8, markersize=3, label=label)
            axes.set_ylim(low, 1.02)
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.set_title(name, fontsize=9.5, loc="left", pad=4)
            _clean(axes)
            axes.tick_params(labelsize=7.5, length=2)
            if column:
                axes.set_yticklabels([])
            else:
                axes.set_ylabel("cosine of the output")
            if row == rows - 1 or i + columns >= len(arms):
                axes.set_xlabel(f"depth inside the hole, in {unit}")
            if i == 0:
                handles, labels = axes.get_legend_handles_labels()
        place = {"loc": "lower left", "bbox_to_anchor": (0.5 / width, 0.0), "frameon": False, "fontsize": 8.5}
        figure.legend(handles, [f"with {label}" for label in labels], ncols=len(labels), **place)
        members = len(next(iter(next(iter(arms.values()))[1].values())))
        note = f"mean over cells; thin: each of {members} seeds, thick: their mean" if members > 1 else "one seed"
        _heading(figure, title, note)
        return save(figure, path)
