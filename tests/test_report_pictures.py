"""Pictures of the report: written as PNG, made to fit, and the summary figure."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fake_study import TWELVE
from recombine.report import summary_figure
from recombine.report.figures import HIGH, WIDE, accuracy_of, coarsen, encode_sets, png, shrink
from recombine.report.reading import read_study


def decode_png(data: bytes) -> np.ndarray:
    """A reader for the three filters our writer uses, (3, H, W)."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body = 8, b""
    width = height = 0
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        name, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(name + content)
        if name == b"IHDR":
            width, height = struct.unpack(">II", content[:8])
        body += content if name == b"IDAT" else b""
        at += 12 + length
    lines = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + 3 * width)
    rows = lines[:, 1:].reshape(height, width, 3).astype(np.int64)
    assert len(set(lines[:, 0])) == 1
    rows = {0: lambda r: r, 1: lambda r: r.cumsum(1), 2: lambda r: r.cumsum(0)}[int(lines[0, 0])](rows) % 256
    return rows.astype(np.uint8).transpose(2, 0, 1)


@pytest.mark.parametrize("kind", ["noise", "rows", "columns", "flat"])
def test_png_gives_the_picture_back(kind: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (3, 12, 9)).astype(np.uint8)
    picture = {
        "noise": noise,
        "rows": noise[:, :, :1] + 0 * noise,
        "columns": noise[:, :1] + 0 * noise,
        "flat": 0 * noise + 7,
    }[kind]
    assert (decode_png(png(picture)) == picture).all()


def test_pictures_are_made_to_fit() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3, 128, 128)).astype(np.uint8)
    small = shrink(noise, 56)
    assert small.shape[-1] == 32 and abs(small.mean() - noise.mean()) < 1
    ramp = np.arange(256, dtype=np.uint8)
    assert abs(coarsen(ramp, 5).astype(int) - ramp).max() <= 5 and coarsen(ramp, 5)[[0, -1]].tolist() == [0, 255]
    sets = encode_sets({"real": noise, "dit": noise}, 8, 300_000)
    assert sum(len(uri) for rows in sets.values() for row in rows for uri in row) <= 300_000
    assert [len(rows) for rows in sets.values()] == [8, 8] and len(sets["dit"][0]) >= 1


def test_summary_figure(three_arms: Path, tmp_path: Path) -> None:
    path = summary_figure(three_arms, tmp_path / "new" / "figure.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    (width,) = struct.unpack(">I", path.read_bytes()[16:20])
    assert width >= 1600 and [p.name for p in path.parent.iterdir()] == ["figure.png"]


def test_summary_figure_is_higher_with_many_arms(three_arms: Path, twelve_arms: Path, tmp_path: Path) -> None:
    """As wide, and each row of pictures keeps at least 60 of its 150 pixels an inch."""
    both = (three_arms, twelve_arms)
    few, more = (summary_figure(one, tmp_path / f"{i}.png").read_bytes()[16:24] for i, one in enumerate(both))
    (wide, high), (same, higher) = struct.unpack(">II", few), struct.unpack(">II", more)
    assert (wide, high) == (round(150 * WIDE), round(150 * HIGH)) and same == wide
    assert higher - high >= 60 * (len(TWELVE) + 1 - 7)


@pytest.mark.parametrize("arms", [3, 12])
def test_names_in_the_summary_figure_do_not_overlap(arms: int, three_arms: Path, twelve_arms: Path) -> None:
    figure = Figure(figsize=(WIDE, HIGH))
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0.2, 0.17, 0.3, 0.64))
    draw = accuracy_of(arms)
    draw(axes, read_study(twelve_arms if arms == 12 else three_arms))
    canvas.draw()
    labels = axes.get_yticklabels() if arms == 12 else axes.get_xticklabels()
    boxes = [label.get_window_extent() for label in labels]
    assert len(boxes) == arms and not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
