"""One coloured shape on white: shape x colour x size, with continuous colour and size and a free position.

The paper's Shapes2D (circle or triangle, red or blue, large or small) is the default. Every shape of one size has the
same area, so that size never tells the shape; every composition has the same range of positions, so that the place
tells nothing. Lengths are shares of the image's side; `size` is the radius of the disc of the shape's area. y points
down.

Shapes: B images, F = 3 factors, V = 7 values, P pixels a side.
"""

import math
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from recombine.settings import Settings
from recombine.worlds.base import Factor, World

SHAPES = ("circle", "triangle", "square", "cross", "ring", "diamond")
COLOURS = {
    "red": (0.9, 0.1, 0.1),
    "blue": (0.1, 0.1, 0.9),
    "green": (0.1, 0.9, 0.1),
    "yellow": (0.9, 0.9, 0.1),
    "magenta": (0.9, 0.1, 0.9),
    "cyan": (0.1, 0.9, 0.9),
    "black": (0.1, 0.1, 0.1),
    "orange": (0.9, 0.5, 0.1),
    "grey": (0.5, 0.5, 0.5),
    "violet": (0.5, 0.1, 0.9),
}
COLOUR_JITTER = 0.05  # each channel moves this much both ways
LARGE, SMALL = 0.234, 0.144  # 2.6 : 1.6, the paper's ratio
SIZE_JITTER = 0.08  # share of the size, both ways; less where many sizes are packed between LARGE and SMALL
SIZE_GAP = 0.25  # pixels that must lie between the radii of neighbouring sizes, or no judge could tell them apart
# Pixels a side from which that many shapes are told apart when small.
SMALLEST_IMAGE = {2: 8, 3: 12, 4: 12, 5: 12, 6: 16}

# Half-lengths of the shapes of unit size, all of area pi.
_TRIANGLE = math.sqrt(math.pi / math.sqrt(3.0))  # half the side of the equilateral triangle
_SQUARE = math.sqrt(math.pi) / 2.0
_CROSS = math.sqrt(9.0 * math.pi / 5.0) / 2.0  # half an arm's length; an arm is three times as long as wide
_RING = 2.0 / math.sqrt(3.0)  # outer radius; the hole has half of it
_WIDEST = max(_TRIANGLE, _SQUARE, _CROSS, _RING)  # no shape of the catalogue reaches further from its middle


def _size_classes(count: int) -> tuple[list[float], float]:
    """Middles of the size classes, large to small in equal ratios, and the share by which each may vary."""
    ratio = (SMALL / LARGE) ** (1.0 / (count - 1))
    return [LARGE * ratio**i for i in range(count)], min(SIZE_JITTER, -math.log(ratio) / 4.0)


def _size_gap(count: int, image_size: int) -> float:
    """Pixels between the ranges of the two smallest sizes (the narrowest gap, since sizes are in equal ratios)."""
    middles, jitter = _size_classes(count)
    return image_size * (middles[-2] * (1.0 - jitter) - middles[-1] * (1.0 + jitter))


class Shapes2DSettings(Settings):
    """How many values each factor has, and how many pixels an image has a side."""

    kind: Literal["shapes2d"] = Field(
        default="shapes2d", description="one coloured shape on white: shape x colour x size, position free"
    )
    image_size: int = Field(default=28, ge=8, le=1024, description="pixels a side of an image")
    shapes: int = Field(default=2, ge=2, le=len(SHAPES), description=f"how many, the first of {', '.join(SHAPES)}")
    colours: int = Field(default=2, ge=2, le=len(COLOURS), description=f"how many, the first of {', '.join(COLOURS)}")
    sizes: int = Field(default=2, ge=2, le=36, description="how many, from large to small in equal ratios")
    roaming: float = Field(
        default=1.0, gt=0.0, le=1.0, description="how far the free position goes, as a share of what fits"
    )

    @model_validator(mode="after")
    def _distinguishable(self) -> "Shapes2DSettings":
        if self.image_size < SMALLEST_IMAGE[self.shapes]:
            raise ValueError(
                f"{self.shapes} shapes cannot be told apart in {self.image_size} pixels when small: "
                f"use image_size {SMALLEST_IMAGE[self.shapes]} or more, or fewer shapes"
            )
        if _size_gap(self.sizes, self.image_size) < SIZE_GAP:
            most = max(n for n in range(2, self.sizes) if n == 2 or _size_gap(n, self.image_size) >= SIZE_GAP)
            raise ValueError(
                f"{self.sizes} sizes cannot be told apart in {self.image_size} pixels: "
                f"use at most {most} sizes or larger images"
            )
        return self


def _signed_distance(shape: str, x: Tensor, y: Tensor) -> Tensor:
    """Distance to the outline of the shape of unit size around the origin, negative inside; same shape as x and y."""
    if shape == "circle":
        return _length(x, y) - 1.0
    if shape == "ring":
        return (_length(x, y) - 0.75 * _RING).abs() - 0.25 * _RING
    if shape == "square":
        return _box(x, y, _SQUARE, _SQUARE)
    if shape == "diamond":
        turn = math.sqrt(0.5)
        return _box(turn * (x - y), turn * (x + y), _SQUARE, _SQUARE)
    if shape == "cross":
        return torch.minimum(_box(x, y, _CROSS, _CROSS / 3.0), _box(x, y, _CROSS / 3.0, _CROSS))
    if shape == "triangle":
        return _triangle(x, y)
    raise ValueError(f"no shape {shape}")


def _length(x: Tensor, y: Tensor) -> Tensor:
    """Euclidean length whose gradient at the origin is 0, not undefined."""
    return torch.sqrt(x * x + y * y + 1e-12)


def _box(x: Tensor, y: Tensor, half_width: float, half_height: float) -> Tensor:
    """Signed distance of an upright rectangle around the origin."""
    over_x, over_y = x.abs() - half_width, y.abs() - half_height
    return _length(over_x.clamp(min=0.0), over_y.clamp(min=0.0)) + torch.maximum(over_x, over_y).clamp(max=0.0)


def _triangle(x: Tensor, y: Tensor) -> Tensor:
    """Signed distance of the equilateral triangle that stands on its side, its bounding box around the origin.

    It is symmetric in x, so only the base and the right side are measured.
    """
    tall = math.sqrt(3.0) * _TRIANGLE  # full height
    right = x.abs()
    down = y + tall / 2.0  # 0 at the tip, `tall` at the base
    to_base = _length((right - _TRIANGLE).clamp(min=0.0), down - tall)
    along = ((right * 0.5 + down * math.sqrt(0.75)) / (2.0 * _TRIANGLE)).clamp(0.0, 1.0)  # 0 tip, 1 corner
    to_side = _length(right - along * _TRIANGLE, down - along * tall)
    inside = (down < tall) & (right * math.sqrt(3.0) < down)
    return torch.minimum(to_base, to_side) * torch.where(inside, -1.0, 1.0)


class Shapes2D(World):
    """The renderer. Values are (shape, r, g, b, size, x, y); labels are (shape, colour, size), size 0 the largest."""

    name = "shapes2d"
    value_names = ("shape", "r", "g", "b", "size", "x", "y")
    channels = 3
    jitters = 6  # r, g, b, size, x, y

    def __init__(self, settings: Shapes2DSettings):
        self.settings = settings
        self.image_size = settings.image_size
        self.shape_names = SHAPES[: settings.shapes]
        self.colours = tuple(COLOURS.values())[: settings.colours]
        self.sizes, self.size_jitter = _size_classes(settings.sizes)
        self.factors = (
            Factor("shape", self.shape_names, 0),
            Factor("colour", tuple(COLOURS)[: settings.colours], 3),
            Factor("size", _size_names(settings.sizes), 1),
        )
        # So near to the image's middle stays the shape's: the widest, at the largest size, lies inside with its ramp.
        self.reach = settings.roaming * (0.5 - _WIDEST * LARGE * (1.0 + SIZE_JITTER) - 0.5 / settings.image_size)

    def draw(self, labels: Tensor, uniforms: Tensor) -> Tensor:
        values = self.canonical(labels)  # (B, 7)
        sway = 2.0 * uniforms.to(values) - 1.0  # (B, 6) in [-1, 1)
        colour = values[:, 1:4] + COLOUR_JITTER * sway[:, 0:3]
        size = values[:, 4:5] * (1.0 + self.size_jitter * sway[:, 3:4])
        place = values[:, 5:7] + self.reach * sway[:, 4:6]
        return torch.cat([values[:, :1], colour, size, place], dim=1)

    def canonical(self, labels: Tensor) -> Tensor:
        middle = torch.full((len(labels), 2), 0.5, device=labels.device)
        colour = torch.tensor(self.colours, device=labels.device)[labels[:, 1]]
        size = torch.tensor(self.sizes, device=labels.device)[labels[:, 2]]
        return torch.cat([labels[:, :1].float(), colour, size[:, None], middle], dim=1)

    def coverage(self, shape: int, pose: Tensor) -> Tensor:
        """Share of each pixel that the shape covers, (B, P, P), for pose (B, 3) = (size, x, y).

        The signed distance in pixels, through a ramp one pixel wide.
        """
        side = self.image_size
        middles = (torch.arange(side, device=pose.device, dtype=pose.dtype) + 0.5) / side
        size, x, y = (part[:, None, None] for part in pose.unbind(1))
        across, down = torch.broadcast_tensors((middles[None, None, :] - x) / size, (middles[None, :, None] - y) / size)
        return (0.5 - _signed_distance(self.shape_names[shape], across, down) * size * side).clamp(0.0, 1.0)

    def render(self, values: Tensor) -> Tensor:
        pose, chosen = values[:, 4:7], values[:, 0].round()
        covered = torch.zeros((), device=values.device, dtype=values.dtype)
        for shape in range(len(self.shape_names)):  # every shape is drawn and one kept: nothing is asked of the host
            covered = torch.where((chosen == shape)[:, None, None], self.coverage(shape, pose), covered)
        return 1.0 - covered[:, None] * (1.0 - values[:, 1:4, None, None])  # (B, 3, P, P) on white

    def describe(self, values: Tensor) -> list[Tensor]:
        smallest, largest = self.sizes[-1] * (1.0 - self.size_jitter), self.sizes[0] * (1.0 + self.size_jitter)
        size = (values[:, 4:5] - smallest) / (largest - smallest)
        return [values[:, :0], 2.0 * values[:, 1:4] - 1.0, 2.0 * size - 1.0]

    def classify(self, values: Tensor, slack: float = 0.0) -> Tensor:
        wider = 1.0 + slack + 1e-4  # a hair for rounding
        shape = values[:, 0].round().long()
        shape = torch.where((shape >= 0) & (shape < len(self.shape_names)), shape, -1)
        middles = torch.tensor(self.colours, device=values.device)
        off = (values[:, None, 1:4] - middles[None]).abs().amax(2) / COLOUR_JITTER  # (B, colours) in half-ranges
        sizes = torch.tensor(self.sizes, device=values.device)
        strays = (values[:, 4:5] / sizes[None] - 1.0).abs() / self.size_jitter  # (B, sizes)
        labels = [shape]
        for distance in (off, strays):
            least, nearest = distance.min(1)
            labels.append(torch.where(least <= wider, nearest, -1))
        return torch.stack(labels, 1)

    def placed(self, values: Tensor, slack: float = 0.0) -> Tensor:
        """Whether the free position lies in its range, (B,); `slack` widens the range by that many pixels.

        Pixels, not a share: a range may be as narrow as one likes, and what blurs a position does not depend on it.
        """
        return (values[:, 5:7] - 0.5).abs().amax(1) <= self.reach + slack / self.image_size + 1e-4


def _size_names(count: int) -> tuple[str, ...]:
    if count == 2:
        return ("large", "small")
    if count == 3:
        return ("large", "middle", "small")
    return tuple(f"size {i + 1}" for i in range(count))
