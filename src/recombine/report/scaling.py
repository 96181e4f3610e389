"""The scaling part of a forced-rendering study: examples needed against the size of the image, and the fitted exponent.

Arms are grouped by what they have in common but for image size, support and number of images: with stripes and without.
Examples are all training images, stripes included; the score is the share of held-out pairs found within 1 pixel, the
same as in claim F6. A study that varies fewer than three sizes or three numbers of images has no such part.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.anatomy.scaling import EXACT, FEWEST_SIZES, Exponent, Needed, fit_exponent, needed_table
from recombine.report.rendering_reading import FinishedRendering

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REACH = 0.6  # of the score; the predecessor's 60 % accuracy
SCORE = "joint_probe_only"

Scores = dict[int, dict[float, np.ndarray]]  # by size, then by number of images: one score per seed, (S,)


def scores_of(study: FinishedRendering) -> dict[str, Scores]:
    """The scores by group; empty where the study is none of scaling."""
    groups: dict[str, Scores] = {}
    for name, arm in study.arms.items():
        settings: dict[str, Any] = study.facts["arms"][name]["settings"]
        images = settings["data"]["images"]
        if images is None or not arm.is_plane:
            continue
        group = "with stripes" if settings["data"]["stripes"] else "bumps alone"
        size = int(settings["world"]["image_size"])
        groups.setdefault(group, {}).setdefault(size, {})[float(images)] = arm.members(SCORE, ~arm.trained)

    def whole(sizes: Scores) -> bool:
        counts = {len(by_count) for by_count in sizes.values()}
        return len(sizes) >= FEWEST_SIZES and len(counts) == 1 and min(counts) >= FEWEST_SIZES

    return {group: sizes for group, sizes in groups.items() if whole(sizes)}


def fits(scores: Scores) -> tuple[list[int], Needed, Exponent]:
    """Sizes, examples needed at each, and the exponent."""
    sizes = sorted(scores)
    examples = np.array([sorted(scores[size]) for size in sizes])  # (Z, K)
    values = np.array([[scores[size][count] for count in sorted(scores[size])] for size in sizes])  # (Z, K, S)
    needed = needed_table(values.transpose(2, 0, 1), examples, REACH)
    return sizes, needed, fit_exponent(sizes, needed)


def sentences(study: FinishedRendering) -> list[str]:
    """What the fits say; empty where the study is none of scaling."""
    lines = []
    for group, scores in scores_of(study).items():
        sizes, _, found = fits(scores)
        if np.isnan(found.exponent):
            lines.append(
                f"{group}: at {found.sizes} of {len(sizes)} sizes half of the seeds come to put {REACH:.0%} of the "
                "held-out pairs in place within the numbers of images tried, which is too few for an exponent."
            )
        else:
            ends = f"95 % interval {found.low:.2f} to {found.high:.2f}; " if found.seeds > 1 else ""
            lines.append(
                f"{group}: the number of images needed to put {REACH:.0%} of the held-out pairs in place grows as N to "
                f"the power {found.exponent:.2f} ({ends}{len(sizes)} sizes, seeds: {found.seeds})."
            )
    return lines


def scaling_figure(study: FinishedRendering) -> "Figure":
    """The score against the number of images, a line for each size; and the number needed against the size."""
    from matplotlib.figure import Figure

    groups = scores_of(study)
    figure = Figure(figsize=(4.6 * (len(groups) + 1), 3.9), layout="constrained")
    axes = figure.subplots(1, len(groups) + 1)
    right = axes[-1]
    drawn = False
    for place, (axis, (group, scores)) in enumerate(zip(axes, groups.items(), strict=False)):
        for shade, (size, by_count) in enumerate(sorted(scores.items())):
            counts = sorted(by_count)
            means = [by_count[count].mean() for count in counts]
            grey = str(0.75 - 0.7 * shade / len(scores))
            axis.plot(counts, means, marker="o", markersize=3, color=grey, label=f"N = {size}")
        axis.axhline(REACH, color="0.5", linewidth=1, linestyle="--")
        axis.set_xscale("log")
        axis.set_ylim(-0.03, 1.03)
        axis.set_xlabel("training images")
        axis.set_ylabel("held out: found within 1 pixel")
        axis.set_title(group, fontsize=10)
        axis.legend(fontsize=8, frameon=False)
        sizes, needed, found = fits(scores)
        for column, size in enumerate(sizes):
            there = needed.examples[needed.known[:, column] == EXACT, column]
            right.plot([size] * len(there), there, "o", color=f"C{place}", alpha=0.4, markersize=4)
            drawn |= len(there) > 0
        label = group if np.isnan(found.exponent) else f"{group}: N^{found.exponent:.1f}"
        right.plot([], [], "o", color=f"C{place}", label=label)
        right.set_xticks(sizes, [str(size) for size in sizes])
    if drawn:
        right.set_xscale("log")
        right.set_yscale("log")
        right.set_xticks(sizes, [str(size) for size in sizes])
        right.minorticks_off()
    right.set_xlabel("image size N")
    right.set_ylabel(f"images needed for {REACH:.0%}")
    right.legend(fontsize=8, frameon=False)
    return figure
