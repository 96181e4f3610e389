"""A digit turned by an angle: the second world of the forced-rendering study, with one factor and a gap in it.

The digit is a glyph of DejaVu Sans, the font that matplotlib ships, so nothing is downloaded; or a real one from
MNIST's IDX files, whose path the user gives. It is turned counterclockwise by linear interpolation, with 0 where
nothing comes from. Ink is 1, background 0.

Shapes: B images, P pixels a side.
"""

import gzip
import math
import zlib
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional as F

from recombine.errors import UserError
from recombine.settings import Settings
from recombine.worlds.base import Factor, World

IMAGES_MAGIC, LABELS_MAGIC = 2051, 2049  # of the IDX format: bytes in three dimensions, and in one
FINER = 8  # a glyph is drawn that many times larger and then averaged, so that its edges are smooth
TALL = 20 / 28  # a glyph's larger side, as MNIST's digits: 20 of 28 pixels


class DigitsSettings(Settings):
    """A digit and its angles."""

    kind: Literal["digits"] = Field(default="digits", description="one digit, turned by an angle")
    image_size: int = Field(default=28, ge=8, le=128, description="pixels a side; MNIST's digits have 28")
    digit: int = Field(default=4, ge=0, le=9, description="which digit")
    angles: int = Field(default=360, ge=8, le=3600, description="how many angles make the circle, evenly spread")
    source: Literal["glyph", "mnist"] = Field(
        default="glyph", description="glyph: drawn from matplotlib's font; mnist: read from IDX files"
    )
    images_path: str = Field(default="", max_length=500, description="MNIST's images, an IDX file, perhaps gzipped")
    labels_path: str = Field(default="", max_length=500, description="MNIST's labels, likewise")
    index: int = Field(default=0, ge=0, le=100_000, description="the how manieth of that digit in the file, from 0")
    needs = {
        "images_path": ("source", "mnist"),
        "labels_path": ("source", "mnist"),
        "index": ("source", "mnist"),
    }

    @model_validator(mode="after")
    def _paths(self) -> "DigitsSettings":
        if self.source == "mnist":
            for word in ("images_path", "labels_path"):
                if not getattr(self, word):
                    raise ValueError(f"source mnist needs {word}: the path of an IDX file")
                place = Path(getattr(self, word))
                if not place.is_file():
                    what = f"{place} is a folder" if place.is_dir() else f"there is no file {place}"
                    raise ValueError(
                        f"{word}: {what}; give the path of MNIST's IDX file, or leave source out for a glyph of a font"
                    )
            if self.image_size != 28:
                raise ValueError(f"MNIST's digits have 28 pixels a side, not {self.image_size}: leave image_size out")
        return self


class Digits(World):
    """The renderer: angles in degrees to images. Its one factor is the angle, with as many values as there are."""

    name = "digits"
    value_names = ("angle",)
    channels = 1
    jitters = 0
    background = 0.0

    def __init__(self, settings: DigitsSettings):
        self.settings = settings
        self.image_size = settings.image_size
        self.factors = (Factor("angle", tuple(f"{angle:g}°" for angle in self.angles()[:, 0].tolist()), 2),)
        if settings.source == "mnist":
            self.upright = read_digit(settings.images_path, settings.labels_path, settings.digit, settings.index)
        else:
            self.upright = glyph(settings.digit, settings.image_size)

    def angles(self) -> Tensor:
        """All angles of the circle in degrees, (C, 1)."""
        return (torch.arange(self.settings.angles) * (360.0 / self.settings.angles))[:, None]

    def draw(self, labels: Tensor, uniforms: Tensor) -> Tensor:
        return self.canonical(labels)

    def canonical(self, labels: Tensor) -> Tensor:
        return labels.float() * (360.0 / self.settings.angles)

    def describe(self, values: Tensor) -> list[Tensor]:
        angle = values * (math.pi / 180.0)
        return [torch.cat([torch.cos(angle), torch.sin(angle)], dim=1)]

    def classify(self, values: Tensor, slack: float = 0.0) -> Tensor:
        """The nearest of the angles."""
        return torch.round(values * (self.settings.angles / 360.0)).long() % self.settings.angles

    def render(self, values: Tensor) -> Tensor:
        """(B, 1, P, P) for angles (B, 1) in degrees."""
        angle = values[:, 0] * (math.pi / 180.0)
        cosine, sine, zero = torch.cos(angle), torch.sin(angle), torch.zeros_like(angle)
        # Where each pixel comes from: a turn of the picture is the opposite turn of its grid (rows point down).
        turn = torch.stack([torch.stack([cosine, -sine, zero], 1), torch.stack([sine, cosine, zero], 1)], 1)
        shape = (len(angle), 1, self.image_size, self.image_size)
        # Corners of the grid at pixel centres, so that the picture turns about the middle of its pixels.
        grid = F.affine_grid(turn, list(shape), align_corners=True)
        source = self.upright.to(values).expand(shape)
        return F.grid_sample(source, grid, mode="bilinear", padding_mode="zeros", align_corners=True)


def glyph(digit: int, size: int) -> Tensor:
    """The digit upright, (P, P) in [0, 1]: its outline filled on a fine grid, then averaged over each pixel."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.path import Path as Outline
    from matplotlib.textpath import TextPath

    path = TextPath((0, 0), str(digit), size=100, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    box = path.get_extents()
    scale = TALL * size / max(box.width, box.height)
    middle = np.array([box.x0 + box.width / 2, box.y0 + box.height / 2])
    fine = (np.arange(size * FINER) + 0.5) / FINER - size / 2
    across, down = np.meshgrid(fine, fine)
    points = np.stack([across.ravel(), -down.ravel()], 1) / scale + middle  # outlines point up
    # A hole in a digit is a ring that turns the other way: inside means inside an odd number of rings.
    inside = np.zeros(len(points), dtype=bool)
    for ring in path.to_polygons():
        inside ^= Outline(ring).contains_points(points)
    fine_image = inside.reshape(size, FINER, size, FINER).mean((1, 3))
    return torch.from_numpy(fine_image).float()


def read_idx(path: str, magic: int) -> np.ndarray:
    """The bytes of an IDX file (LeCun's format for MNIST), plain or gzipped, as an array."""
    place = Path(path)
    try:
        data = place.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except FileNotFoundError as error:
        raise UserError(f"there is no file {path}; give the path of an IDX file of MNIST.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path} ({error}); give an IDX file of MNIST, plain or gzipped.") from error
    found = int.from_bytes(data[:4], "big")
    dimensions = 3 if magic == IMAGES_MAGIC else 1
    shape = tuple(int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(dimensions))
    if found != magic or len(data) != 4 + 4 * dimensions + math.prod(shape):
        what = "images" if dimensions == 3 else "labels"
        raise UserError(f"{path} is not a whole IDX file of {what}; give the one that MNIST is published as.")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def read_digit(images: str, labels: str, digit: int, index: int) -> Tensor:
    """The digit number `index` of its kind in MNIST's files, (28, 28) in [0, 1]."""
    pictures, kinds = read_idx(images, IMAGES_MAGIC), read_idx(labels, LABELS_MAGIC)
    if len(pictures) != len(kinds):
        raise UserError(f"{images} holds {len(pictures)} images and {labels} {len(kinds)} labels; give a pair.")
    places = np.flatnonzero(kinds == digit)
    if index >= len(places):
        raise UserError(f"{labels} holds {len(places)} digits {digit}; index must be less, not {index}.")
    return torch.from_numpy(pictures[places[index]].astype(np.float32) / 255.0)
