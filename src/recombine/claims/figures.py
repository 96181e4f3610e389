"""One figure per claim: the published curves, ours over seeds, and where they end, side by side.

Only level-2 is drawn. A colour is an arm; its name stands in that colour at the right, so no legend is needed.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from recombine.claims.published import BY_EYE, published_curves
from recombine.claims.tables import NAMED, Measure, fifth
from recombine.claims.verdicts import Finding, Shown, Verdict, Word
from recombine.files import write_atomic
from recombine.judges.statistics import interval
from recombine.report.figures import LINES

COLOURS = dict(zip(("blue", "pink", "red", "violet", "ochre"), LINES, strict=True)) | {
    "grey": "#6b7280",
    "green": "#1a7f37",
}
CHIPS: dict[Word, str] = {
    "reproduced": "#1a7f37",
    "partly": "#b26a00",
    "not reproduced": "#c62828",
    "untested": "#6b7280",
}
INK, QUIET, GRID = "#222222", "#5b6270", "#e3e5ea"
WIDE, HIGH = 12.4, 4.6  # inches
LEADING = 0.042  # how far lines are apart below a title, as a share of the figure
HIDDEN = 0.02  # a curve that stays this near to another would hide it
WHAT = "Share of level-2 pictures that are right and valid (published: right, by the authors' probe)"
LONGEST = 100_000  # published steps shown; one panel goes on to 386,000 at 0 %


def draw(verdict: Verdict, path: Path) -> Path:
    """Write a claim's figure as a PNG. Needs a finding; the same tables give the same picture."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found = verdict.finding
    if found is None:
        raise ValueError(f"{verdict.id} has no finding to draw")
    if found.study.is_plane:
        from recombine.claims.planes.figures import draw_plane

        return draw_plane(verdict, path)
    curves = [one for one in found.shown if one.curve is not None]
    names = [one.label for one in found.shown] + [found.extras_title]
    with matplotlib.rc_context({"font.family": "DejaVu Sans", "figure.facecolor": "white"}):
        figure = Figure(figsize=(WIDE, HIGH), dpi=150)
        FigureCanvasAgg(figure)
        bottom, tall = 0.135, 0.575
        if curves:
            here = max(one.arm.steps for one in found.shown)
            _published(figure.add_axes((0.05, bottom, 0.27, tall)), curves, here)
        begin = 0.37 if curves else 0.05
        _ours(figure.add_axes((begin, bottom, 0.64 - begin, tall)), found, bare=bool(curves))
        names_end = 0.675 + 0.0078 * max(map(len, names))  # room for the longest name
        _ends(figure.add_axes((names_end, bottom, 0.98 - names_end, tall)), found)
        heading(figure, verdict, WHAT)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    write_atomic(path, buffer.getvalue())
    return path


def heading(figure: Any, verdict: Verdict, what: str) -> None:
    """The claim, the verdict on it as a coloured chip, and what is shown."""
    name = f"{verdict.id}  {verdict.claim.title}"
    titled(figure, name, verdict.verdict, CHIPS[verdict.verdict], verdict.claim.statement, what)


def titled(figure: Any, title: str, word: str, colour: str, statement: str, what: str) -> None:
    """A title with a word beside it as a coloured chip, and below a line and one or more lines of what is shown."""
    bold = {"fontsize": 15, "fontweight": "bold", "color": "#111"}
    name = figure.text(0.05, 0.925, title, **bold)
    box = {"boxstyle": "round,pad=0.35,rounding_size=0.5", "facecolor": colour, "edgecolor": "none"}
    ends = name.get_window_extent(figure.canvas.get_renderer()).transformed(figure.transFigure.inverted())
    place = {"va": "baseline", "fontsize": 10.5, "fontweight": "bold", "color": "white", "bbox": box}
    figure.text(ends.x1 + 0.02, 0.93, word, **place)
    figure.text(0.05, 0.862, statement, fontsize=10.5, color=INK)
    for i, line in enumerate(what.split("\n")):
        figure.text(0.05, 0.812 - LEADING * i, line, fontsize=9, color=QUIET)


def _published(axes: Any, shown: list[Shown], here: float) -> None:
    """The curves as they were published. Those steps that ours have too are shaded: ours are often far fewer."""
    axes.set_title("As published: named right", fontsize=10, loc="left", color=INK, pad=8)
    longest = 0.0
    for one in shown:
        steps, values = published_curves()[str(one.curve)]
        keep = steps <= LONGEST
        longest = max(longest, float(steps[keep].max()))
        by_eye = one.curve in BY_EYE
        style: dict[str, Any] = {"linestyle": (0, (4, 2)), "marker": "o", "markersize": 3.5} if by_eye else {}
        axes.plot(steps[keep], 100 * values[keep], color=COLOURS[one.colour], linewidth=1.5, clip_on=False, **style)
    over_steps(axes, longest)
    if here < longest:
        _shaded(axes, 0, here, f"{here / 1000:g}k steps, as many as here")
    notes = ["dashed: read from pixels"] if any(one.curve in BY_EYE for one in shown) else []
    notes += (
        [f"cut at {LONGEST // 1000}k"]
        if any(published_curves()[str(one.curve)][0].max() > LONGEST for one in shown)
        else []
    )
    if notes:
        place = {"transform": axes.transAxes, "ha": "right", "va": "bottom", "fontsize": 8, "color": QUIET}
        axes.text(1, 1.01, ", ".join(notes), **place)


def _ours(axes: Any, found: Finding, bare: bool) -> None:
    """Mean over seeds with its 95 % interval. The last fifth, from which the main number comes, is shaded where all
    arms are equally long."""
    longest = 0.0
    drawn: list[np.ndarray] = []
    for one in found.shown:
        curve = one.arm.curve()
        mean = curve.values.mean(axis=1)
        band(axes, curve.steps, curve.values, COLOURS[one.colour], dashed=hides(mean, drawn))
        drawn.append(mean)
        longest = max(longest, float(curve.steps[-1]))
    over_steps(axes, longest)
    if len({one.arm.steps for one in found.shown}) == 1:
        steps = found.shown[0].arm.curve().steps
        _shaded(axes, float(steps[-fifth(len(steps))]), longest, "the last fifth")
    seeds = found.ours.n
    axes.set_title(
        f"Here: right and valid, mean and 95 % interval of {seeds} seeds", fontsize=10, loc="left", color=INK, pad=8
    )
    if bare:
        axes.set_yticklabels([])


def _shaded(axes: Any, begin: float, end: float, what: str) -> None:
    """Some of the steps on a light ground; what they are stands below the panel, where no curve runs through it."""
    axes.axvspan(begin, end, color="#f1f2f5", zorder=0, linewidth=0)
    axes.set_xlabel(f"{axes.get_xlabel()}\nshaded: {what}", linespacing=1.3)


def hides(mean: np.ndarray, drawn: Sequence[np.ndarray]) -> bool:
    """Whether a mean curve (E,) would lie over one that is drawn already, all the way."""
    return any(len(mean) == len(other) and np.abs(mean - other).max() < HIDDEN for other in drawn)


def band(
    axes: Any, steps: np.ndarray, values: np.ndarray, colour: str, label: str | None = None, dashed: bool = False
) -> None:
    """The mean of curves (E, S) over seeds, with its 95 % interval; dashed where it would hide another."""
    mean, n = values.mean(axis=1), values.shape[1]
    reach = stats.t.ppf(0.975, n - 1) * values.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else 0 * mean
    low, high = np.clip(mean - reach, 0, 1), np.clip(mean + reach, 0, 1)
    axes.fill_between(steps, 100 * low, 100 * high, color=colour, alpha=0.16, linewidth=0)
    style: dict[str, Any] = {"linestyle": (0, (4, 4))} if dashed else {}
    axes.plot(steps, 100 * mean, color=colour, linewidth=2, clip_on=False, label=label, **style)


def over_steps(axes: Any, longest: float) -> None:
    """Shares from 0 to 100 % over training steps."""
    axes.set_xlim(0, longest)
    axes.set_ylim(0, 100)
    axes.set_yticks(range(0, 101, 25), [f"{v} %" for v in range(0, 101, 25)])
    axes.locator_params(axis="x", nbins=5)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value else "0")
    axes.set_xlabel("training steps", fontsize=9, color=QUIET, labelpad=3)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    bare(axes)


def bare(axes: Any) -> None:
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#b9bec8")
    axes.tick_params(length=0, labelsize=9, labelcolor=QUIET)


def _ends(axes: Any, found: Finding) -> None:
    """Where each arm ends: a dot per seed, the mean with its interval, and what was published."""
    names: list[tuple[float, str, str]] = []
    # The same height, however many rows, up to as many as have room for it.
    place, spread = 0.0, 0.03 * min(len(found.shown) + len(found.extras) + bool(found.extras), 5)
    for one in found.shown:
        values, probed = one.arm.values(Measure(), one.arm.seeds), NAMED in one.arm.study.columns
        row(axes, place, spread, values, COLOURS[one.colour], one.published, below=2.7 if probed else 1.7)
        if probed:
            mean = float(one.arm.values(Measure(NAMED), one.arm.seeds).mean())
            hollow = {"markerfacecolor": "white", "markeredgecolor": COLOURS[one.colour], "markeredgewidth": 1.4}
            # Below the line: on it, the mean would hide a ring at the same share.
            axes.plot(100 * mean, place + 1.3 * spread, "o", markersize=6, clip_on=False, zorder=4, **hollow)
        names.append((place, one.label, COLOURS[one.colour]))
        place += 1
    if found.extras:
        axes.axhline(place - 0.1, color=GRID, linewidth=0.8)
        over = {"transform": axes.get_yaxis_transform(), "fontsize": 8.5, "color": QUIET, "va": "center"}
        axes.text(-0.04, place + 0.3, found.extras_title, ha="right", **over)
        place += 1
    for extra in found.extras:
        row(axes, place, spread, np.array(extra.values), COLOURS[extra.colour], extra.published)
        names.append((place, extra.label, COLOURS[extra.colour]))
        place += 1
    axes.set_yticks([where for where, _, _ in names], [name for _, name, _ in names])
    axes.set_ylim(place - 0.4, -0.6)  # the first on top
    axes.set_xlim(0, 100)
    axes.set_xticks(range(0, 101, 50), [f"{v} %" for v in range(0, 101, 50)])
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    bare(axes)
    axes.tick_params(axis="y", pad=8)
    for label, (_, _, colour) in zip(axes.get_yticklabels(), names, strict=True):
        label.set_color(colour)
        label.set_fontsize(10)
        label.set_fontweight("bold")
    axes.set_title("Mean of the last fifth", fontsize=10, loc="left", color=INK, pad=8)
    key = {"fontsize": 8.5, "color": QUIET, "labelpad": 3, "loc": "right"}
    axes.set_xlabel(key_of(found), multialignment="right", linespacing=1.3, **key)


def key_of(found: Finding) -> str:
    """What the marks at the right are, of those that are drawn."""
    published = [one.published for one in found.shown] + [extra.published for extra in found.extras]
    probed = any(NAMED in one.arm.study.columns for one in found.shown)
    others = [f"◇ {found.diamond}"] * any(one is not None for one in published) + ["○ here, by a probe alone"] * probed
    return "\n".join(filter(None, ("● mean with interval, small dots: seeds", "   ".join(others))))


def seed_dots(axes: Any, place: float, spread: float, values: np.ndarray, colour: str) -> None:
    """A dot per seed above a row's line, a little apart in height so that equal ones can be seen."""
    heights = place - spread * (0.9 + np.linspace(0, 1, len(values)))
    axes.plot(100 * values, heights, "o", color=colour, alpha=0.45, markersize=3.2, clip_on=False, markeredgewidth=0)


def row(
    axes: Any,
    place: float,
    spread: float,
    values: np.ndarray,
    colour: str,
    published: float | None,
    below: float = 1.7,
) -> None:
    """Seeds above the line, the mean on it, the published number `below` it, in spreads."""
    seed_dots(axes, place, spread, values, colour)
    mean = interval(values, share=True)
    if mean.low is not None and mean.high is not None:
        axes.plot([100 * mean.low, 100 * mean.high], [place, place], color=colour, linewidth=2.4, clip_on=False)
    axes.plot(100 * mean.mean, place, "o", color=colour, markersize=7, markeredgecolor="white", clip_on=False, zorder=5)
    if published is not None:
        diamond(axes, published, place + below * spread)


def diamond(axes: Any, value: float, height: float) -> None:
    style = {"markerfacecolor": "white", "markeredgecolor": INK, "markersize": 5.5, "markeredgewidth": 1.2}
    axes.plot(100 * value, height, "D", clip_on=False, zorder=4, **style)
