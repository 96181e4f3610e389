"""Worlds: images with known factors, drawn from numbers."""

from recombine.settings import Settings
from recombine.worlds.base import Composition, Factor, Images, World, make_images
from recombine.worlds.bumps import Bumps, BumpsSettings
from recombine.worlds.digits import Digits, DigitsSettings
from recombine.worlds.shapes2d import Shapes2D, Shapes2DSettings

# Of studies of generators: one settings class now; with a second this becomes Annotated[A | B, ...]. Bumps and digits
# are the worlds of studies of decoders (kind: rendering).
WorldSettings = Shapes2DSettings

# For listings: kind -> (settings class, one line about it).
WORLDS: dict[str, tuple[type[Settings], str]] = {
    "shapes2d": (Shapes2DSettings, "one coloured shape on white: shape x colour x size, position free"),
    "bumps": (BumpsSettings, "one Gaussian bump at (x, y), for studies of kind rendering"),
    "digits": (DigitsSettings, "one digit turned by an angle, for studies of kind rendering"),
}


def build_world(settings: Settings) -> World:
    """The world these settings describe."""
    if isinstance(settings, BumpsSettings):
        return Bumps(settings)
    if isinstance(settings, DigitsSettings):
        return Digits(settings)
    assert isinstance(settings, Shapes2DSettings)
    return Shapes2D(settings)


__all__ = [
    "WORLDS",
    "Composition",
    "Factor",
    "Images",
    "Shapes2D",
    "Shapes2DSettings",
    "World",
    "WorldSettings",
    "build_world",
    "make_images",
]
