"""The pictures of a study, in `pictures.safetensors.gz` in its folder: bytes under the names of arms, and what was
judged of them. Most of a picture is background, so that compressed they take a quarter of the room.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from recombine import files
from recombine.studies.facts import cannot_be_read

if TYPE_CHECKING:  # pages are written without torch, which takes seconds to import
    import numpy as np
    from torch import Tensor

NAME = "pictures.safetensors.gz"


def write_pictures(folder: Path, pictures: Mapping[str, "Tensor"]) -> None:
    files.save_tensors_atomic(folder / NAME, pictures)


def read_pictures(folder: Path) -> "dict[str, np.ndarray]":
    """What `write_pictures` wrote, as arrays; nothing where there is none."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    path = folder / NAME
    try:
        return load(files.unpacked(path)) if path.is_file() else {}
    except (ValueError, KeyError, OSError, SafetensorError) as error:
        raise cannot_be_read(path, error) from error
