"""Folders of studies, as tests list and change them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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
