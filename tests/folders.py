"""Folders of studies, as tests list and change them."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recombine.studies.pictures import write_pictures


def folders_of(home: Path) -> list[Path]:
    """Everything in the results/ of a place."""
    return sorted((home / "results").iterdir())


@contextmanager
def facts_of(folder: Path) -> Iterator[dict[str, Any]]:
    """The facts in a study's study.json, written again when changed."""
    path = folder / "study.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    yield facts
    path.write_text(json.dumps(facts), encoding="utf-8")


def put_pictures(folder: Path, pictures: Mapping[str, np.ndarray]) -> None:
    """The pictures of a study, as it leaves them."""
    write_pictures(folder, {name: torch.from_numpy(values.copy()) for name, values in pictures.items()})
