"""study.json, read once every shape in it is what its readers count on.

A file that was edited by hand, or half lost, is told apart here, in one sentence, and not by whatever reads it later.
"""

import json
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from recombine.errors import UserError
from recombine.studies.base import PLANE_WORDING, WORDING, study_hash
from recombine.studies.store import CLAIM


class _Part(BaseModel):
    """A part of study.json: the shapes of what is read from it. What else it says is not looked at."""

    model_config = ConfigDict(strict=True)


class _Factor(_Part):
    name: str
    values: list[Any]


class _World(_Part):
    factors: list[_Factor] | None = None


class _Split(_Part):
    levels: dict[str, int] = {}


class _Judge(_Part):
    threshold: float | None = None
    refused: dict[str, float] = {}


class _Ceiling(_Part):
    joint: float | None = None
    valid: float | None = None
    joint_probe_only: float | None = None


class _Tokenizer(_Part):
    ceiling: dict[str, _Ceiling] = {}


class _Conditioning(_Part):
    dropout: float = 0
    drop_all: float = 0
    spread: float = 0
    withheld: list[str] | None = None


class _Training(_Part):
    size: str | None = None
    steps: int | None = None
    batch: int | None = None
    dependence: float = 0


class _Jepa(_Part):
    layers: list[int] | None = None


class _Settings(_Part):
    generator: dict[str, Any] | None = None
    conditioning: _Conditioning | None = None
    training: _Training | None = None
    jepa: _Jepa | None = None

    @model_validator(mode="after")
    def _layers_are_there(self) -> Self:
        if self.jepa is None:
            return self
        from recombine.generators.jepa import JepaSettings, layers_of
        from recombine.nets.backbone import SIZES

        try:
            layers = None if self.jepa.layers is None else tuple(self.jepa.layers)
            layers_of(JepaSettings(layers=layers), SIZES[str(self.training and self.training.size)].depth)
        except (KeyError, ValueError) as error:
            raise ValueError("should have a training.size that is known and the jepa.layers of one so large") from error
        return self


class _Asked(_Part):
    seeds: list[int] = []
    arms: dict[str, _Settings] = {}


class _Made(_Part):
    settings: _Settings | None = None
    parameters: int | None = None


class _Facts(_Part):
    """study.json, of either kind of study and of any version that has written one."""

    kind: str | None = None
    name: str = ""
    question: str = ""
    limits: str = ""
    command: str | None = None
    finished: str | None = None
    study: _Asked | None = None
    seconds: dict[str, float | None] = {}
    versions: dict[str, Any] = {}
    hardware: dict[str, Any] = {}
    world: _World | None = None
    split: _Split | None = None
    judge: _Judge | None = None
    tokenizers: dict[str, _Tokenizer] = {}
    arms: dict[str, _Made] = {}


def _first_mistake(error: ValidationError) -> str:
    """The first shape that is wrong, as "its split.levels.011 should be a valid integer"."""
    first = error.errors()[0]
    says = "is missing" if first["type"] == "missing" else first["msg"]
    says = says.removeprefix("Value error, ").removeprefix("Input ").partition(" or instance of")[0]
    return f"its {'.'.join(map(str, first['loc']))} {says}"


def cannot_be_read(path: Path, reason: object) -> UserError:
    return UserError(f"{path} cannot be read ({reason}): run the study again to write it anew.")


def read_facts(folder: Path) -> dict[str, Any]:
    """study.json, once every shape in it is what its readers count on.

    Raises UserError where the folder holds no study, or one that has not finished an arm, has lost a file, or whose
    settings were changed by hand.
    """
    path, table = folder / "study.json", folder / "results.parquet"
    if not path.is_file() and not table.is_file():
        if any((folder / name).exists() for name in (CLAIM, "store")):
            raise _no_arm_yet(folder)
        if any(folder.glob("*/study.json")):
            raise UserError(f"{folder} holds folders of studies, and is none itself; give {folder}/* or one of them.")
        raise UserError(f"{folder} holds no study (no study.json, no results.parquet): run `recombine run` first.")
    if not path.is_file():
        raise _lost(path)
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(facts, dict):
            raise ValueError("not an object")
        _Facts.model_validate(facts)
    except ValidationError as error:
        raise cannot_be_read(path, _first_mistake(error)) from error
    except (ValueError, OSError, RecursionError) as error:
        raise cannot_be_read(path, error) from error
    if not facts.get("study"):
        raise UserError(f"{path} does not describe a study; give a folder that `recombine run` wrote.")
    if facts.get("finished") and not table.is_file():
        raise _lost(table)
    asked = facts["study"]
    if not facts.get("finished") and facts.get("arms") == {}:
        raise _no_arm_yet(folder)
    wording = PLANE_WORDING if asked.get("kind") == "rendering" else WORDING
    made = {name: arm.get("settings") for name, arm in facts.get("arms", {}).items()}
    wanted = asked.get("arms")
    if not facts.get("finished") and isinstance(wanted, dict):  # the arms that are finished so far
        wanted = {name: wanted.get(name, "not asked for") for name in made}
    same = made == wanted and facts.get("name") == asked.get("name", facts.get("name"))
    if "hash" in facts and (study_hash(asked, wording) != facts["hash"] or not same):
        raise UserError(f"{path} was changed after it was made (its hash differs): run the study again, or restore it.")
    return facts


def _no_arm_yet(folder: Path) -> UserError:
    return UserError(
        f"the study in {folder} has not finished an arm yet; if it is not at work, give the command that made it "
        "again: it goes on, or says why it cannot."
    )


def _lost(path: Path) -> UserError:
    return UserError(f"{path.parent} holds no {path.name}: run the study again to write it anew.")
