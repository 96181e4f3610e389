"""Worlds: images with known factors, drawn from numbers."""

from recombine.worlds.base import Composition, Factor, Images, World, make_images
from recombine.worlds.shapes2d import Shapes2D, Shapes2DSettings

# One settings class now; with a second world this becomes Annotated[A | B, Field(discriminator="kind")].
WorldSettings = Shapes2DSettings

# For listings: kind -> (settings class, one line about it).
WORLDS: dict[str, tuple[type[Shapes2DSettings], str]] = {
    "shapes2d": (Shapes2DSettings, "one coloured shape on white: shape x colour x size, position free"),
}


def build_world(settings: WorldSettings) -> World:
    """The world these settings describe."""
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
