"""The figure of generators in a study of decoders: several samples of a few cells, and their mean.

A decoder has one picture of a cell. A generator that fails may do so in two ways that a mean cannot tell apart: it may
draw several memories in one picture, or one of them at a time.
"""

from typing import TYPE_CHECKING

import numpy as np

from recombine.report.contours import shown_cells
from recombine.report.rendering_reading import FinishedRendering

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 3  # samples of each cell


def sampled_arms(study: FinishedRendering) -> list[str]:
    """The arms that drew more than one picture of a cell."""
    drawn = {name: study.pictures.get(f"{name}.samples") for name in study.arms}
    return [name for name, samples in drawn.items() if samples is not None and samples.shape[1] > 1]


def sample_figure(study: FinishedRendering) -> "Figure":
    """For each generator a block of rows: the true pictures, samples of the first member, and the mean of all of its
    samples of that cell."""
    from matplotlib.figure import Figure

    lines: list[tuple[str, str, np.ndarray]] = []  # arm, label, pictures by cell
    for name in sampled_arms(study):
        cells, samples = shown_cells(study.arms[name]), study.pictures[f"{name}.samples"]
        lines.append((name, f"{name}: truth", study.pictures[f"{name}.real"][cells]))
        lines += [(name, f"sample {k + 1}", samples[cells, k]) for k in range(min(SHOWN, samples.shape[1]))]
        lines.append((name, f"mean of {samples.shape[1]}", samples[cells].mean(1)))
    columns = max(len(pictures) for *_, pictures in lines)
    figure = Figure(figsize=(1.2 * columns + 1.6, 1.15 * len(lines) + 0.5), layout="constrained")
    axes = figure.subplots(len(lines), columns, squeeze=False)
    for row, (name, label, pictures) in zip(axes, lines, strict=True):
        arm, cells = study.arms[name], shown_cells(study.arms[name])
        row[0].set_ylabel(label, fontsize=8, rotation=0, ha="right", va="center")
        for axis, picture, cell in zip(row, pictures, cells, strict=False):
            axis.imshow(picture, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            if label.endswith("truth"):
                place = ", ".join(f"{value:g}" for value in arm.cells[cell])
                where = "trained" if arm.trained[cell] else f"depth {arm.depth[cell]:.3g}"
                axis.set_title(f"({place})\n{where}", fontsize=8)
        for number, axis in enumerate(row):
            axis.set_xticks([])
            axis.set_yticks([])
            axis.set_visible(number < len(pictures))
    return figure
