"""What tokenizers make of real images, for people: as a table, and as pictures with a row per tokenizer and a block per
held-out composition, framed by the verdict. Places and sizes are in inches.
"""

import io
from pathlib import Path
from typing import Any

from recombine.files import write_atomic
from recombine.report.drawn import FRAMES, INK, QUIET, STEP, TILE, key, tile
from recombine.report.figures import LINES, verdict
from recombine.report.words import level_name, share
from recombine.studies.ceilings import Ceilings, Redrawn

TOP, ROW, GAP = 1.3, 0.72, 0.24


def table_lines(found: Ceilings) -> list[list[str]]:
    """A line per tokenizer, with what it saw, and under it what the probe alone would have said."""
    rows = []
    for name, one in found.tokenizers.items():
        for label, word in ((name, "joint"), ("  probe alone", "joint_probe_only")):
            shares = [share(one.over(found.codes(level), word)) for level in sorted(set(found.levels.values()))]
            cells = [text.replace("\u00a0%)", ")") for text in shares]  # narrow
            saw = {"all": "all", "train": "trained"}.get(one.sees or "", "–")
            rows.append([label, saw if word == "joint" else "", *cells])
    return rows


def draw_redrawn(redrawn: Redrawn, path: Path) -> None:
    """Write a PNG of held-out compositions as each tokenizer gives them back."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    real, rebuilt, names = redrawn.real, redrawn.rebuilt, redrawn.compositions
    shown = real.shape[1]
    block = max(shown * STEP, 0.088 * max(len(words) for _, words in names)) + GAP
    left = 0.46 + 0.1 * max(map(len, [*rebuilt, "real images"]))
    wide, bottom = max(left + len(names) * block, 8.5), TOP + ROW * (1 + len(rebuilt))
    high = bottom + 0.42 + 0.28 * (len(FRAMES) - 1)
    with matplotlib.rc_context({"font.family": "DejaVu Sans", "figure.facecolor": "white"}):
        figure = Figure(dpi=150, figsize=(wide, high))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.axis("off")
        axes.text(0.3, 0.42, "What tokenizers make of combinations", fontsize=15, fontweight="bold", color="#111")
        axes.text(0.3, 0.66, "Real images, encoded and decoded again: the first of each.", fontsize=9, color=QUIET)
        for j, (level, words) in enumerate(names):
            style: dict[str, Any] = {"fontsize": 9.5, "fontweight": "bold", "linespacing": 1.35}
            x = left + j * block
            axes.text(x, TOP - 0.12, f"{level_name(level)}\n{words}", color=LINES[min(level, 4)], **style)
            for t in range(shown):
                tile(axes, real[j, t], x + t * STEP, TOP, "")
        axes.text(left - 0.16, TOP + TILE / 2, "real images", ha="right", va="center", fontsize=10.5, color=QUIET)
        for i, (name, (pictures, right, counted)) in enumerate(rebuilt.items()):
            y = TOP + ROW * (i + 1)
            axes.text(left - 0.16, y + TILE / 2, name, ha="right", va="center", fontsize=10.5, color=INK)
            for j in range(len(names)):
                for t in range(shown):
                    tile(axes, pictures[j, t], left + j * block + t * STEP, y, verdict(right[j, t], counted[j, t]))
        key(axes, min(left, wide - 7.6), bottom + 0.1)
        axes.set(xlim=(0, wide), ylim=(high, 0), aspect="equal")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    write_atomic(path, buffer.getvalue())
