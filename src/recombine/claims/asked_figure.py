"""The figure on top of RESULTS.md: which combinations are trained and which are asked for, and what counts as right.

Real images, the first of each combination; and of level-2 the first picture that models drew of each verdict, in the
order of the study's arms. They show what the words mean, not how often it happens. Places and sizes are in inches.
"""

import io
from pathlib import Path
from typing import Any

import numpy as np

from recombine.claims.tables import FAR
from recombine.files import write_atomic
from recombine.report.drawn import FRAMES, INK, QUIET, TILE, drawn_arms, tile
from recombine.report.figures import LINES, verdict
from recombine.report.reading import Finished
from recombine.report.words import level_name

MOST = 9  # combinations that have room; a larger world is told in words
BLOCK, GAP = 0.84, 0.34  # from one picture to the next with its words below, between groups
TOP, HIGH = 0.68, 1.84
AWAY = {0: "all that is seen in training", 1: "one factor away", 2: "two factors away"}
NAMES = {"ok": "right and\nvalid", "invalid": "named right,\nnot valid", "wrong": "named\nwrong"}


def can_be_asked(study: Finished) -> bool:
    """Whether there are real images of every combination, few enough to show, and an example of every verdict."""
    real = study.picture_set("real") is not None
    return real and len(study.levels) <= MOST and len(_examples(study)) == len(FRAMES)


def draw_asked(study: Finished, path: Path) -> None:
    """Write the figure as a PNG; the same files give the same picture."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    codes, examples = list(study.levels), _examples(study)
    groups = [[code for code in codes if study.levels[code] == level] for level in sorted(set(study.levels.values()))]
    wide = 0.3 + len(codes) * BLOCK + len(groups) * GAP + 0.2 + len(examples) * BLOCK
    with matplotlib.rc_context({"font.family": "DejaVu Sans", "figure.facecolor": "white"}):
        figure = Figure(dpi=150, figsize=(wide, HIGH))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.axis("off")
        x = 0.3
        for group in groups:
            level = study.levels[group[0]]
            away = AWAY.get(level, f"{level} factors away")
            _head(axes, x, level_name(level), away, LINES[min(level, 4)])
            for code in group:
                tile(axes, study.pictures["real"][codes.index(code), 0], x, TOP, "")
                _words(axes, x, study.describe(code).replace(", ", "\n"))
                x += BLOCK
            x += GAP
        axes.plot([x - 0.1, x - 0.1], [0.2, HIGH - 0.1], color="#d5d8de", linewidth=1)
        x += 0.2
        _head(axes, x, f"{level_name(FAR)} as models draw it", "an example of each verdict", INK)
        for kind, picture in examples.items():
            tile(axes, picture, x, TOP, kind)
            _words(axes, x, NAMES[kind], FRAMES[kind].colour)
            x += BLOCK
        axes.set(xlim=(0, wide), ylim=(HIGH, 0), aspect="equal")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    write_atomic(path, buffer.getvalue())


def _head(axes: Any, x: float, text: str, below: str, colour: str) -> None:
    axes.text(x, 0.36, text, fontsize=10, fontweight="bold", color=colour)
    axes.text(x, 0.54, below, fontsize=7.5, color=QUIET)


def _words(axes: Any, x: float, text: str, colour: str = QUIET) -> None:
    axes.text(x, TOP + TILE + 0.07, text, fontsize=7.5, color=colour, va="top", linespacing=1.25)


def _examples(study: Finished) -> dict[str, np.ndarray]:
    """The first picture (3, P, P) of a level-2 combination with each verdict, arm by arm."""
    found: dict[str, np.ndarray] = {}
    for arm in drawn_arms(study):
        right, counted = study.pictures.get(f"{arm}.right"), study.pictures.get(f"{arm}.joint")
        if right is None or counted is None:
            continue
        for k, level in enumerate(study.levels.values()):
            for t in range(right.shape[1] if level == FAR else 0):
                found.setdefault(verdict(right[k, t], counted[k, t]), study.pictures[arm][k, t])
    return {kind: found[kind] for kind in FRAMES if kind in found}
