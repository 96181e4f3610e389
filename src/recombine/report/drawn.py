"""What the models draw: a row per arm, a block of pictures per held-out composition, framed by what the judge said.

A share hides how pictures fail. A probe names a mosaic of two colours, or a lopsided triangle, as readily as a whole
one; here both can be seen. The pictures are the first that were drawn, never chosen. They are of one seed, so below
each block stands how often that seed, and all seeds, draw the composition right and valid.

Places and sizes are in inches. Shapes: P pixels a side.
"""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recombine.errors import UserError
from recombine.files import write_atomic
from recombine.report.figures import MARKS, TRAINED, headed, verdict
from recombine.report.reading import Finished, read_study
from recombine.report.words import percent
from recombine.studies.pictures import NAME as PICTURES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 4  # pictures of each composition
BLOCKS = 6  # held-out compositions at most: more would be too small to see
TILE, STEP, GAP = 0.56, 0.62, 0.2  # a picture's side, from one to the next, between blocks
TOP, ROW = 1.56, 0.87  # where the first row begins, and from one row to the next
KEY = 0.28  # from one line of the key to the next
INK, QUIET = "#222222", "#5b6270"
REAL = "real images"


class Frame(NamedTuple):
    """How a verdict looks; told apart by line and mark as well as by colour (Okabe and Ito's, for every eye)."""

    colour: str
    line: Any  # matplotlib's word or dashes
    words: str


FRAMES = {
    "ok": Frame("#007a59", "-", "right and valid"),
    "invalid": Frame(
        "#c77700",
        (0, (2.2, 1.2)),
        "named right by the probe, but refused by the judge: lopsided, blurred, or between two sizes or colours",
    ),
    "wrong": Frame("#111111", (0, (0.8, 1.0)), "named wrong"),
}


def shown_compositions(study: Finished) -> list[str]:
    """The held-out compositions, level by level; where they are many, the first of each level. Where none has one level
    beyond training for all arms, those that are new to some."""
    agreed = study.agreed_levels
    levels = sorted({level for level in agreed.values() if level > 0})
    if not levels:
        return study.disputed[:BLOCKS]
    each = {level: [code for code, own in agreed.items() if own == level] for level in levels}
    count = sum(map(len, each.values()))
    most = count if count <= BLOCKS else max(1, BLOCKS // len(levels))
    return [code for level in levels for code in each[level][:most]][:BLOCKS]


def drawn_arms(study: Finished) -> list[str]:
    """The arms that have pictures, in the study's order."""
    return [arm for arm in study.measured if study.picture_set(arm) is not None]


def can_be_drawn(study: Finished) -> bool:
    """Whether there is a picture of a held-out composition to show."""
    return bool(shown_compositions(study) and drawn_arms(study))


def drawn_figure(folder: Path, path: Path) -> Path:
    """Write a PNG of what each arm of a finished study draws of the held-out compositions."""
    return draw_pictures(read_study(Path(folder)), Path(path))


def draw_pictures(study: Finished, path: Path) -> Path:
    """The same of a study that was read. The same files give the same picture."""
    buffer = io.BytesIO()
    pictures_figure(study).savefig(buffer, format="png", metadata={"Software": None})
    write_atomic(path, buffer.getvalue())
    return path


def pictures_figure(study: Finished) -> "Figure":
    """The figure itself: one axis in inches over all of it, y downwards."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not can_be_drawn(study):
        raise UserError(
            f"{study.folder} has no pictures of held-out compositions; give the folder of a finished study, with the "
            f"{PICTURES} that `recombine run` wrote."
        )
    codes, arms = shown_compositions(study), drawn_arms(study)
    rows = [*(["real"] if study.picture_set("real") is not None else []), *arms]
    shown = min(SHOWN, *(study.pictures[name].shape[1] for name in rows))
    block = max(shown * STEP, 0.088 * max(len(study.describe(code)) for code in codes)) + GAP  # room for its name
    left = 0.46 + 0.105 * max(map(len, [*arms, REAL]))  # room for the longest name
    wide = max(left + len(codes) * block, 8.5)  # the words above and below need so much
    with matplotlib.rc_context({"font.family": "DejaVu Sans", "figure.facecolor": "white"}):
        figure = Figure(dpi=150)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.axis("off")
        _heading(axes, study, codes, shown, left, block)
        y = TOP
        for name in rows:
            style: dict[str, Any] = {"fontweight": "bold"} if name in arms else {"color": QUIET}
            label = name if name in arms else REAL
            axes.text(left - 0.16, y + TILE / 2, label, ha="right", va="center", fontsize=10.5, **style)
            _row(axes, study, name, codes, shown, left, y, block)
            y += ROW if name in arms else ROW - 0.2  # no shares below real images
        key(axes, min(left, wide - 7.6), y + 0.1)
        high = y + 0.42 + KEY * (len(FRAMES) - 1)
        figure.set_size_inches(wide, high)
        axes.set(xlim=(0, wide), ylim=(high, 0), aspect="equal")
    return figure


def _heading(axes: Any, study: Finished, codes: list[str], shown: int, left: float, block: float) -> None:
    """What is shown, and the composition above each block."""
    axes.text(0.3, 0.42, "What the models draw", fontsize=15, fontweight="bold", color="#111")
    seed, seeds = first_seed(study), len({row["seed"] for row in study.rows})
    who = "" if set(codes) <= set(study.agreed_levels) else "the arm was "
    left_out = sum(len(study.trained_on(code)) < len(study.measured) for code in study.levels) - len(codes)
    said = f"The first {shown} pictures by seed {seed} at the last evaluation, not chosen, of combinations {who}never "
    said += f"trained on{f' ({left_out} more not shown)' if left_out else ''}.\n"
    said += "Below them: the share that is right and valid of all pictures judged then, by that seed"
    said += " and by all seeds." if seeds > 1 else "."
    axes.text(0.3, 0.58, said, fontsize=9, color=QUIET, va="top", linespacing=1.5)
    for j, code in enumerate(codes):
        words, colour = headed(study, code)
        style = {"fontsize": 9.5, "fontweight": "bold", "color": colour, "linespacing": 1.35}
        axes.text(left + j * block, TOP - 0.12, words, **style)


def _row(
    axes: Any, study: Finished, name: str, codes: list[str], shown: int, left: float, y: float, block: float
) -> None:
    """The pictures of one arm, or real ones, and the shares below."""
    order = list(study.levels)
    right, counted = study.pictures.get(f"{name}.right"), study.pictures.get(f"{name}.joint")
    for j, code in enumerate(codes):
        k, x = order.index(code), left + j * block
        if code not in study.agreed_levels and name in study.trained_on(code):
            axes.text(x, y + TILE / 2, TRAINED, color=QUIET, fontsize=9, va="center")
            continue
        for t in range(shown):
            kind = verdict(right[k, t], counted[k, t]) if right is not None and counted is not None else ""
            tile(axes, study.pictures[name][k, t], x + t * STEP, y, kind)
        shares = shares_of(study, name, code)
        if shares is not None:
            text = f"seed {first_seed(study)}: {percent(shares[0])}"
            text += "" if shares[1] is None else f", all seeds: {percent(shares[1])}"
            axes.text(x, y + TILE + 0.06, text, fontsize=7.5, color=QUIET, va="top")


def tile(axes: Any, picture: np.ndarray, x: float, y: float, kind: str) -> None:
    """One picture (3, P, P) with its frame, and the verdict's mark in the corner; no verdict, a thin grey frame."""
    from matplotlib.patches import Rectangle

    axes.imshow(picture.transpose(1, 2, 0), interpolation="nearest", extent=(x, x + TILE, y + TILE, y), zorder=1)
    look = FRAMES.get(kind, Frame("#c4c8d0", "-", ""))
    width = 1.7 if kind else 0.8
    frame = {"fill": False, "edgecolor": look.colour, "linestyle": look.line, "linewidth": width, "zorder": 2}
    axes.add_patch(Rectangle((x, y), TILE, TILE, **frame))
    if kind:
        _mark(axes, x, y, kind)


def _mark(axes: Any, x: float, y: float, kind: str) -> None:
    """The verdict's mark on its own ground, in the upper right corner, where the world's shapes seldom reach."""
    from matplotlib.patches import Rectangle

    side = 0.13
    place = (x + TILE - side, y)
    axes.add_patch(Rectangle(place, side, side, facecolor=FRAMES[kind].colour, edgecolor="none", zorder=3))
    style = {"fontsize": 6, "fontweight": "bold", "color": "white", "ha": "center", "va": "center_baseline"}
    axes.text(x + TILE - side / 2, y + side / 2, MARKS[kind], zorder=4, **style)


def key(axes: Any, x: float, y: float) -> None:
    """The three verdicts in words, one below the other."""
    from matplotlib.patches import Rectangle

    for kind, look in FRAMES.items():
        small = 0.22
        frame = {"fill": False, "edgecolor": look.colour, "linestyle": look.line, "linewidth": 1.7}
        axes.add_patch(Rectangle((x, y - small / 2), small, small, **frame))
        style = {"ha": "center", "va": "center_baseline", "fontsize": 8, "fontweight": "bold"}
        axes.text(x + small / 2, y, MARKS[kind], color=look.colour, **style)
        axes.text(x + small + 0.09, y, look.words, fontsize=9, color=INK, va="center")
        y += KEY


def first_member(study: Finished) -> int:
    """The member whose pictures a study keeps: its first."""
    return min(int(row["member"]) for row in study.rows)


def first_seed(study: Finished) -> int:
    """That member's seed."""
    member = first_member(study)
    return next(int(row["seed"]) for row in study.rows if row["member"] == member)


def shares_of(study: Finished, arm: str, code: str) -> tuple[float, float | None] | None:
    """How often a composition is drawn right and valid at the arm's last evaluation, by the first seed and by all
    (None where there is one seed only); None of what was not judged."""
    rows = [row for row in study.rows if row["arm"] == arm and row["composition"] == code]
    last = {row["member"]: row["joint"] for row in rows if row["step"] == study.last_steps[arm]}
    first = first_member(study)
    if first not in last:
        return None
    return last[first], float(np.mean(list(last.values()))) if len(last) > 1 else None
