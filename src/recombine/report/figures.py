"""Pictures: small PNGs for the page, and the one figure that sums a study up.

Shapes: K compositions, n pictures of each, P pixels a side.
"""

import base64
import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from recombine.files import write_atomic
from recombine.report.reading import FEW_ARMS, Finished, read_study
from recombine.report.words import cells, join, level_name

# Line colours that keep 3:1 against white, beside the lighter colours of the papers that fill areas.
LINES = ("#1a86c8", "#d9488f", "#d81e0a", "#7a4fd0", "#8a6a12")
FRAMES = {"ok": "#1a7f37", "invalid": "#b26a00", "wrong": "#c62828"}
MARKS = {"ok": "✓", "invalid": "!", "wrong": "✗"}
TRAINED = "trained on it"  # in the place of pictures, where a composition is new to some arms only
NAMES = 26  # letters of an arm's name that have room beside a dot; longer ones are written smaller
WIDE, HIGH = 12.4, 4.9  # inches of the summary figure
ROWS, ROW = 7, 0.42  # rows of pictures that have room in it, and inches that each further one adds
FILLS = ("#56c1ff", "#ff95ca", "#ed220d", "#a98bea", "#d9b44a")


def png(picture: np.ndarray) -> bytes:
    """A (3, H, W) uint8 picture as a PNG file; the row filter that packs best is used throughout."""
    _, height, width = picture.shape
    rows = np.ascontiguousarray(picture.transpose(1, 2, 0)).astype(np.int16)  # (H, W, 3)
    left = np.zeros_like(rows)
    left[:, 1:] = rows[:, :-1]
    above = np.zeros_like(rows)
    above[1:] = rows[:-1]
    packed = []
    for kind, guess in ((0, 0), (1, left), (2, above)):
        body = ((rows - guess) & 0xFF).astype(np.uint8).reshape(height, width * 3)
        lines = np.concatenate([np.full((height, 1), kind, np.uint8), body], axis=1)
        packed.append(zlib.compress(lines.tobytes(), 9))

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", min(packed, key=len)) + chunk(b"IEND", b"")


def data_uri(picture: np.ndarray) -> str:
    """A (3, H, W) uint8 picture as an address that holds the picture itself, so that a page needs no other file."""
    return "data:image/png;base64," + base64.b64encode(png(picture)).decode("ascii")


def shrink(pictures: np.ndarray, at_most: int) -> np.ndarray:
    """Pictures (..., P, P) with at most about `at_most` pixels a side, by averaging whole blocks."""
    pixels = pictures.shape[-1]
    block = next((b for b in range(1, pixels + 1) if pixels % b == 0 and pixels // b <= at_most), 1)
    if block == 1:
        return pictures
    size = pixels // block
    blocks = pictures.reshape(*pictures.shape[:-2], size, block, size, block)
    return blocks.mean(axis=(-3, -1)).round().astype(np.uint8)


def coarsen(pictures: np.ndarray, bits: int) -> np.ndarray:
    """Keep the upper `bits` of each channel (the eye hardly sees it at this size, and the file packs far better)."""
    if bits >= 8:
        return pictures
    top = (1 << bits) - 1
    return ((pictures.astype(np.uint16) * top + 127) // 255 * 255 // top).astype(np.uint8)


def encode_sets(sets: dict[str, np.ndarray], count: int, budget: int) -> dict[str, list[list[str]]]:
    """Each set's (K, n, 3, P, P) pictures as data addresses [K][<= count]; coarser, then fewer, to fit `budget`."""
    small = {name: shrink(pictures, 56) for name, pictures in sets.items()}
    encoded: dict[str, list[list[str]]] = {}
    for bits, number in ((8, count), (6, count), (5, count), (5, count // 2), (5, count // 4), (4, 1)):
        keep = max(1, number)
        encoded = {
            name: [[data_uri(p) for p in coarsen(row[:keep], bits)] for row in pictures]
            for name, pictures in small.items()
        }
        if sum(len(uri) for rows in encoded.values() for row in rows for uri in row) <= budget:
            break
    return encoded


def _tile(axes: Any, picture: np.ndarray, colour: str, mark: str = "") -> None:
    """One picture with a coloured frame, and the verdict in its corner."""
    axes.imshow(picture.transpose(1, 2, 0), interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_edgecolor(colour)
        spine.set_linewidth(1.8)
    if mark:
        box = {"boxstyle": "square,pad=0.12", "facecolor": colour, "edgecolor": "none"}
        place = {"transform": axes.transAxes, "ha": "right", "va": "bottom", "fontsize": 6.5}
        axes.text(
            0.975, 0.03, f" {mark} " if mark == "!" else mark, color="white", fontweight="bold", bbox=box, **place
        )


def _bare(axes: Any, levels: int) -> None:
    """No frame, no tick marks, and the levels named below."""
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)
    tall = axes.get_position().height * axes.figure.get_figheight()  # inches: the names stay as far below
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.0512 * HIGH / tall), frameon=False, fontsize=9, ncols=levels
    )


def _named(study: Finished) -> dict[int, str]:
    """The arm whose mark names a level in the legend: the first that has it, since not every arm has every level."""
    found: dict[int, str] = {}
    for arm in study.measured:
        for level in study.levels_of[arm].values():
            found.setdefault(level, arm)
    return found


def _accuracy_dots(axes: Any, study: Finished) -> None:
    """The same for many arms: one line per arm down the page, so that their names have room; a dot per level."""
    shown = cells(study, "joint")
    levels, named = study.level_numbers, _named(study)
    for a, arm in enumerate(study.measured):
        for i, level in enumerate(levels):
            cell = shown.get((arm, level))
            if cell is None:
                continue
            place = a + (i - (len(levels) - 1) / 2) * 0.7 / len(levels)
            if cell.low is not None and cell.high is not None:
                ends = [100 * cell.low, 100 * cell.high]
                axes.plot(ends, [place, place], color=LINES[min(level, 4)], linewidth=1.6, alpha=0.6)
            style = {"color": FILLS[min(level, 4)], "markeredgecolor": LINES[min(level, 4)], "markersize": 5}
            label = level_name(level) if arm == named[level] else None
            axes.plot(100 * cell.mean, place, "o", label=label, clip_on=False, **style)
    size = min(9.5, 9.5 * NAMES / max(map(len, study.measured)))
    axes.set_yticks(range(len(study.measured)), study.measured, fontsize=size)
    axes.set_ylim(len(study.measured) - 0.4, -0.6)  # the first arm on top
    axes.set_xlim(0, 100)
    axes.set_xticks(range(0, 101, 25), [f"{v} %" for v in range(0, 101, 25)], fontsize=9)
    axes.grid(axis="x", color="#e3e5ea", linewidth=0.8)
    _bare(axes, len(levels))
    axes.tick_params(axis="y", pad=9)  # a dot at 0 % does not touch the name


def _accuracy_axes(axes: Any, study: Finished) -> None:
    """Accuracy per level with its interval; one group of bars per arm."""
    shown = cells(study, "joint")
    levels, named = study.level_numbers, _named(study)
    width = 0.8 / len(levels)
    for a, arm in enumerate(study.measured):
        for i, level in enumerate(levels):
            cell = shown.get((arm, level))
            if cell is None:
                continue
            place = a + (i - (len(levels) - 1) / 2) * width
            style = {"color": FILLS[min(level, 4)], "edgecolor": LINES[min(level, 4)], "linewidth": 0.8}
            label = level_name(level) if arm == named[level] else None
            axes.bar(place, 100 * cell.mean, width * 0.9, label=label, **style)
            top = 100 * cell.mean
            if cell.low is not None and cell.high is not None:
                top = 100 * cell.high
                axes.plot([place, place], [100 * cell.low, top], color="#222", linewidth=1.4, solid_capstyle="butt")
            number = f"{100 * cell.mean:.0f}"
            axes.text(place, top + 1.5, number, ha="center", va="bottom", fontsize=9, color="#222")
    room = len(study.measured) * max(map(len, study.measured), default=0)  # as wide as the longest name, all of them
    axes.set_xticks(range(len(study.measured)), study.measured, fontsize=11 if room <= 48 else 9)
    axes.set_ylim(0, 112)
    axes.set_yticks(range(0, 101, 25), [f"{v} %" for v in range(0, 101, 25)], fontsize=9)
    axes.grid(axis="y", color="#e3e5ea", linewidth=0.8)
    _bare(axes, len(levels))


def accuracy_of(arms: int) -> Callable[[Any, Finished], None]:
    """What draws the accuracy of so many arms: bars while their names fit below, else dots."""
    return _accuracy_dots if arms > FEW_ARMS else _accuracy_axes


def verdict(right: int, counted: int) -> str:
    """The three verdicts a generated picture can get: ok (it counted), invalid (right by the probe alone) or wrong."""
    return "ok" if counted else "invalid" if right else "wrong"


def headed(study: Finished, code: str) -> tuple[str, str]:
    """What stands above pictures of a composition, and its colour: the level that it has for all arms, or the levels
    that it has for some."""
    level = study.agreed_levels.get(code)
    if level is not None:
        return f"{level_name(level)}\n{study.describe(code)}", LINES[min(level, 4)]
    own = sorted(
        {levels[code] for levels in study.levels_of.values() if code in levels}, key=lambda one: (one == 0, one)
    )
    return f"{join([level_name(one) for one in own], 'or')}\n{study.describe(code)}", "#333"


def _samples(figure: Any, study: Finished, sources: list[tuple[str, str]]) -> None:
    """Rows of pictures per source, a block of columns per level: the first composition of each. Where no composition
    has one level beyond training for all arms, two that are new to some, and their pictures are of these arms."""
    levels = study.agreed_levels
    chosen = [min(c for c, k in levels.items() if k == level) for level in sorted(set(levels.values()))]
    if not any(levels.values()):
        chosen += study.disputed[:2]
    order = list(study.levels)
    tiles = 3 if len(chosen) <= 3 else 2
    size = 10.5 if max(len(label) for _, label in sources) <= 14 else 8.5  # longer names would reach into the bars
    high = figure.get_figheight()
    usual = HIGH / high  # times a share of the usual height: the same inches, however high
    x0, x1, y0, y1 = 0.545, 0.995, 0.11 * usual, 1 - 0.19 * usual
    block, height = (x1 - x0) / len(chosen), (y1 - y0) / len(sources)
    side = min(block / tiles * 0.92, height * 0.92 * high / WIDE)  # a share of the figure's width
    tall = side * WIDE / high
    height = min(height, tall * 1.1)
    y1 = (y0 + y1 + height * len(sources)) / 2 if height * len(sources) < 0.8 * (y1 - y0) else y1
    for j, code in enumerate(chosen):
        k = order.index(code)
        heading, colour = headed(study, code)
        bold = {"fontsize": 9.5, "color": colour, "fontweight": "bold"}
        figure.text(x0 + j * block, y1 + 0.02 * usual, heading, **bold)
        for i, (source, label) in enumerate(sources):
            bottom = y1 - i * height - tall
            if j == 0:
                figure.text(x0 - 0.01, bottom + tall / 2, label, ha="right", va="center", fontsize=size, color="#222")
            if code not in levels and source in study.trained_on(code):
                figure.text(x0 + j * block, bottom + tall / 2, TRAINED, va="center", fontsize=8.5, color="#555")
                continue
            pictures = study.pictures[source]
            right, counted = study.pictures.get(f"{source}.right"), study.pictures.get(f"{source}.joint")
            for t in range(min(tiles, pictures.shape[1])):
                kind = verdict(right[k, t], counted[k, t]) if right is not None and counted is not None else ""
                axes = figure.add_axes((x0 + j * block + t * side * 1.04, bottom, side, tall))
                _tile(axes, pictures[k, t], FRAMES.get(kind, "#b9bec8"), MARKS.get(kind, ""))
    key = "✓ right and valid     ! right by the probe alone     ✗ wrong"
    below = y1 - len(sources) * height - 0.06 * usual
    figure.text(x0, below, f"{key}     (first seed, not selected)", fontsize=8.5, color="#555")


def summary_figure(folder: Path, path: Path) -> Path:
    """Write a PNG with the accuracy per arm and level on the left and sample pictures on the right."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    study = read_study(Path(folder))
    sources = [(name, name) for name in study.measured if study.picture_set(name) is not None]
    if study.picture_set("real") is not None:
        sources.insert(0, ("real", "real images"))
    many = len(study.measured) > FEW_ARMS
    with matplotlib.rc_context({"font.family": "DejaVu Sans", "figure.facecolor": "white"}):
        high = HIGH + ROW * max(0, len(study.measured) + 1 - ROWS)  # one row is of real images
        usual = HIGH / high  # margins keep their inches
        figure = Figure(figsize=(WIDE, high), dpi=150)
        FigureCanvasAgg(figure)
        longest = min(max(map(len, study.measured), default=0), NAMES)
        edge = max(0.125, (0.3 + 0.079 * longest) / WIDE) if many else 0.05  # names of arms stand left of the axes
        wide = (0.405 if many else 0.43) - edge if sources else 0.97 - edge
        left = figure.add_axes((edge, 0.17 * usual, wide, 1 - 0.36 * usual))
        accuracy_of(len(study.measured))(left, study)
        counts = sorted(set(study.members.values()))
        seeds = f"{counts[0]}–{counts[-1]} seeds" if len(counts) > 1 else f"{counts[0] if counts else 0} seeds"
        title = (
            f"Pictures that are valid and right in every factor\nmean and 95 % interval over {seeds}, last evaluation"
        )
        left.set_title(title if counts != [1] else title.splitlines()[0], fontsize=10, loc="left", color="#333", pad=10)
        figure.text(0.05, 1 - 0.06 * usual, study.name, fontsize=15, fontweight="bold", color="#111")
        if sources:
            _samples(figure, study, sources)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
    write_atomic(Path(path), buffer.getvalue())
    return Path(path)
