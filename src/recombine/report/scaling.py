"""The scaling part of a forced-rendering study: examples needed against the size of the image, and the fitted exponent.

Arms are grouped by what they have in common but for image size, support and number of images: with stripes and without.
Examples are all training images, stripes included. The score is the share right and valid of the held-out pairs off the
rim (depth 1 and more), the same as in claim F6; why not of the whole hole, and not in place alone, and when that was
chosen, is told in `recombine.anatomy.scaling`. A study that varies fewer than three sizes or three numbers of images,
or whose holes are all rim, has no such part.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.anatomy.scaling import (
    AT_MOST,
    BETWEEN,
    FEWEST_SIZES,
    MORE_THAN,
    Exponent,
    Needed,
    fit_exponent,
    needed_table,
)
from recombine.report.figures import LINES
from recombine.report.rendering_reading import ArmNumbers, FinishedRendering
from recombine.report.words import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REACH = 0.6  # of the score; the predecessor's 60 % accuracy
SCORE = "joint"  # right and valid
OFF_RIM = 1.0  # the depth from which on a held-out pair counts: no trained bump lies within the pixel that is allowed
WHAT = "of held-out bumps off the rim right and valid"
WHO = {"bumps alone": "bumps alone", "with stripes": "bumps with stripes"}
MARKS = {BETWEEN: "o", MORE_THAN: "^", AT_MOST: "v"}
NOTES = {
    BETWEEN: "bar: a seed's need lies between two tried numbers; dot: read off",
    MORE_THAN: "triangle up: not reached with so many",
    AT_MOST: "triangle down: reached with the fewest tried",
}

Scores = dict[int, dict[float, np.ndarray]]  # by size, then by number of images: one score per seed, (S,)


def score_of(arm: ArmNumbers) -> np.ndarray | None:
    """One score per seed, (S,); None where the arm has no plane, or its hole no pair off the rim."""
    inner = arm.depth >= OFF_RIM
    return arm.members(SCORE, inner) if arm.is_plane and inner.any() else None


def scores_of(study: FinishedRendering) -> dict[str, Scores]:
    """The scores by group; empty where the study is none of scaling."""
    groups: dict[str, Scores] = {}
    for name, arm in study.arms.items():
        settings: dict[str, Any] = study.facts["arms"][name]["settings"]
        images, score = settings["data"]["images"], score_of(arm)
        if images is None or score is None:
            continue
        group = "with stripes" if settings["data"]["stripes"] else "bumps alone"
        size = int(settings["world"]["image_size"])
        groups.setdefault(group, {}).setdefault(size, {})[float(images)] = score

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


def _seeds_text(found: Exponent) -> str:
    """ "8 seeds, 20 % of their needs outside the numbers tried": above the most, or not above the fewest."""
    seeds = f"{found.seeds} seed{'' if found.seeds == 1 else 's'}"
    if not found.outside:
        return f"{seeds}, each need known between two tried numbers"
    return f"{seeds}, {percent(found.outside)} of their needs outside the numbers tried"


def seen_text(found: Exponent) -> str:
    """What a fit rests on: "4 of 5 sizes, 8 seeds, 20 % of their needs outside the numbers tried". A size counts where
    at least half of the seeds have a need between two tried numbers. Where these leave the exponent open, the range in
    which all fit alike is told too."""
    alike = f", any from {found.least:.2f} to {found.most:.2f} fits as well" if found.most - found.least > 0.005 else ""
    return f"{found.sizes} of {found.asked} sizes, {_seeds_text(found)}{alike}"


def reached_text(who: str, found: Exponent) -> str:
    """Where some reach the score: "bumps alone reach it at no size up to 4,096 images (0 of 5 sizes by half of the
    seeds; 8 seeds, 100 % of their needs outside the numbers tried)". With the fewest images tried is reached too."""
    beyond = found.needed.low[found.needed.known == MORE_THAN]
    up_to = f" up to {beyond.max():,.0f} images" if len(beyond) else ""
    where = "no size" if not found.reached else f"{found.reached} of {found.asked} sizes"
    count = f"{found.reached} of {found.asked} sizes by half of the seeds"
    if found.sizes < found.reached:
        count += f", between two tried numbers at {found.sizes}"
    return f"{who} reach it at {where}{up_to} ({count}; {_seeds_text(found)})"


def sentences(study: FinishedRendering) -> list[str]:
    """What the fits say; empty where the study is none of scaling."""
    lines = []
    for group, scores in scores_of(study).items():
        _, _, found = fits(scores)
        if np.isnan(found.exponent):
            lines.append(
                f"{group}: the goal is {percent(REACH)} {WHAT}, and {reached_text(WHO[group], found)}. There is no "
                f"exponent, which needs {FEWEST_SIZES} sizes with needs between two tried numbers."
            )
        else:
            ends = f"95 % interval {found.low:.2f} to {found.high:.2f}; " if found.seeds > 1 else ""
            lines.append(
                f"{group}: the number of images needed to draw {percent(REACH)} {WHAT} grows as N to the power "
                f"{found.exponent:.2f} ({ends}{seen_text(found)})."
            )
    return lines


def draw_needed(axes: Any, groups: Mapping[str, Scores]) -> None:
    """Images needed against size on logarithmic axes, seeds side by side: a bar between the two tried numbers that a
    need lies between, with a dot at what is read off between them, an open triangle up where it is more than the most
    images tried, and down where at most the fewest. The line is fitted to the bars alone, and drawn only where there is
    an exponent."""
    from matplotlib.lines import Line2D

    handles, sizes, tried, kinds = [], set[int](), set[float](), set[int]()
    for place, (group, scores) in enumerate(groups.items()):
        at, needed, found = fits(scores)
        sizes |= set(at)
        tried |= {count for by_count in scores.values() for count in by_count}
        kinds |= set(needed.known.ravel().tolist())
        x, colour = np.array(at, dtype=np.float64), LINES[place]
        # Seeds a little apart, and each group on its own side of the size.
        apart = 0.006 * (np.arange(found.seeds) - (found.seeds - 1) / 2) + 0.056 * (place - (len(groups) - 1) / 2)
        places = np.exp(np.log(x)[None] + apart[:, None])  # (S, Z)
        draw_brackets(axes, places, needed, colour)
        for known, mark in MARKS.items():
            some = needed.known == known
            face = colour if known == BETWEEN else "none"
            axes.plot(places[some], needed.examples[some], mark, color=colour, markerfacecolor=face, markersize=3)
        fitted = not np.isnan(found.exponent)
        if fitted:
            axes.plot(x, found.constant * x**found.exponent, color=colour, linewidth=1.8)
        power = f"$N^{{{found.exponent:.2f}}}$"
        words = power if fitted else f"no exponent, {found.reached} of {found.asked} sizes reached"
        handles.append(Line2D([], [], color=colour, linewidth=1.8 if fitted else 0, label=f"{group}: {words}"))
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain_ticks(axes.xaxis, sorted(sizes))
    plain_ticks(axes.yaxis, sorted(tried))
    axes.set_xlim(min(sizes) / 1.08, max(sizes) * 1.08)
    axes.set_ylim(min(tried) / 1.5, max(tried) * 1.5)
    axes.set_xlabel("image size N")
    # Above the axes, where a key cannot be taken for numbers; its words have the colours.
    key = axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), fontsize=8, frameon=False)
    for text, handle in zip(key.get_texts(), handles, strict=True):
        text.set_color(handle.get_color())
    note = "\n".join(words for known, words in NOTES.items() if known in kinds)
    axes.annotate(
        note,
        (0, 0),
        (0, -34),
        "axes fraction",
        "offset points",
        fontsize=7,
        color="0.4",
        va="top",
        annotation_clip=False,
    )


def draw_brackets(axes: Any, places: np.ndarray, needed: Needed, colour: str) -> None:
    """A thin bar at each place (S, Z) over the bracket of the need, where it lies between two tried numbers."""
    some = needed.known == BETWEEN
    axes.vlines(places[some], needed.low[some], needed.high[some], color=colour, linewidth=0.9, alpha=0.45)


def plain_ticks(axis: Any, values: list[Any]) -> None:
    """These values as plain numbers on a logarithmic axis, every second one where there are many, and no others: those
    between powers of ten run into each other on a short range."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    shown = values[:: 1 + len(values) // 9]
    axis.set_major_locator(FixedLocator(shown))
    axis.set_major_formatter(FixedFormatter([f"{value:,.0f}" for value in shown]))
    axis.set_minor_locator(NullLocator())


def scaling_figure(study: FinishedRendering) -> "Figure":
    """The score against the number of images, a line for each size; and the number needed against the size."""
    from matplotlib.figure import Figure

    groups = scores_of(study)
    figure = Figure(figsize=(4.6 * (len(groups) + 1), 4.3), layout="constrained")
    axes = figure.subplots(1, len(groups) + 1)
    for axis, (group, scores) in zip(axes, groups.items(), strict=False):
        for shade, (size, by_count) in enumerate(sorted(scores.items())):
            counts = sorted(by_count)
            means = [by_count[count].mean() for count in counts]
            grey = str(0.75 - 0.7 * shade / len(scores))
            axis.plot(counts, means, marker="o", markersize=3, color=grey, label=f"{size}")
        axis.axhline(REACH, color="0.5", linewidth=1, linestyle="--")
        axis.set_xscale("log")
        plain_ticks(axis.xaxis, sorted({count for by_count in scores.values() for count in by_count}))
        axis.tick_params(labelsize=8)
        axis.set_ylim(-0.03, 1.03)
        axis.set_xlabel("training images")
        axis.set_ylabel("held out, off the rim: right and valid")
        axis.set_title(f"{group}, by image size", fontsize=10, loc="left", pad=24)
        axis.legend(
            loc="lower left", bbox_to_anchor=(0, 1), ncols=len(scores), fontsize=8, frameon=False, columnspacing=0.9,
            handlelength=1.2, borderaxespad=0.2,
        )  # fmt: skip
    axes[-1].tick_params(labelsize=8)
    axes[-1].set_ylabel(f"images needed for {percent(REACH)}")
    draw_needed(axes[-1], groups)
    return figure
