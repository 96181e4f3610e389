"""Finished arms of other studies, taken over into a store: what a results folder already has is not trained again.

A folder that was kept or published has no store and no weights, but its tables hold all that the store keeps of an arm.
Only arms that are the same in everything are taken: settings, seeds, tokenizers, judge, precision, and the versions of
the code that `RECIPES` counts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from pydantic import ValidationError
from torch import Tensor

from recombine.errors import UserError
from recombine.files import load_tensors
from recombine.progress import say
from recombine.studies.arms import arm_recipe, setting_of
from recombine.studies.facts import cannot_be_read, read_facts
from recombine.studies.monitors import read_monitors
from recombine.studies.pictures import NAME as PICTURES
from recombine.studies.quality_table import read_quality
from recombine.studies.results import read_results
from recombine.studies.spec import Arm, Study
from recombine.studies.stages import RECIPES, Setting, judge_recipe, open_setting, tokenizer_recipe
from recombine.studies.store import Store

Recipe = dict[str, Any]


def take_over(setting: Setting, folders: Sequence[Path], tell: Callable[[str], None] = say) -> None:
    """Put every arm that `setting`'s study asks for and one of these studies has finished into the store."""
    wanted = {
        setting.store.key("arm", recipe): name for name, recipe in _recipes(setting, lambda _: setting.device).items()
    }
    for given in folders:
        any_equal = any_taken = False
        for folder in _studies_in(given):
            facts, taken = read_facts(folder), []
            for name, recipe in _recipes_of(folder, facts, setting.store).items():
                mine = wanted.get(setting.store.key("arm", recipe))
                if mine is None:
                    continue
                any_equal = True
                if not setting.store.has("arm", recipe):
                    setting.store.save("arm", recipe, _pictures(folder, name), _tables(folder, name, facts))
                    taken.append(mine)
            if taken:
                any_taken = True
                tell(f"from {folder}: {', '.join(taken)}")
        if not any_taken:
            none = (
                "none of its arms equals one of this study in settings, seeds, tokenizers, judge and precision (which "
                "is not the same on a CPU and a GPU)"
            )
            tell(f"from {given}: {'all that it could give is in the store already' if any_equal else none}")


def in_store(setting: Setting) -> list[str]:
    """The arms of the study that the store has already, as they are trained in this setting."""
    recipes = _recipes(setting, lambda _: setting.device)
    return [name for name, recipe in recipes.items() if setting.store.has("arm", recipe)]


def as_trained(setting: Setting, tell: Callable[[str], None] = say) -> Setting:
    """On a machine without a GPU, the setting in which the arms are those of a GPU, if the store has all of them, with
    their tokenizers and judge, and they differ from what would be trained here (by the precision that `auto` takes).
    Not some of them: arms of one study are compared with each other."""
    gpu = torch.device("cuda")
    here, there = _recipes(setting, lambda _: setting.device), _recipes(setting, lambda _: gpu)
    has = setting.store.has
    lacks = [name for name, recipe in there.items() if not has("arm", recipe)]
    if here == there or all(has("arm", recipe) for recipe in here.values()) or len(lacks) == len(there):
        return setting
    parts = [(kind, recipe[kind]) for recipe in there.values() for kind in ("tokenizer", "judge")]
    if lacks or not all(has(*part) for part in parts):
        what = f"the arm{'' if len(lacks) == 1 else 's'} {', '.join(lacks)}" if lacks else "their tokenizers or judge"
        tell(f"the store has arms that a GPU has trained, but lacks {what}: all are trained here, and none is taken")
        return setting
    tell("the store has all arms as a GPU has trained them: the study is put together from these")
    return replace(setting, trained_on=gpu)


def _studies_in(folder: Path) -> list[Path]:
    """The folder itself, or where it holds folders of studies, those of them whose arms can be reused."""
    if not folder.is_dir():
        is_what = "is a file" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {is_what}; give --reuse the folder of a study, or of several.")
    inside = sorted(path.parent for path in folder.glob("*/study.json"))
    if (folder / "study.json").exists() or not inside:
        return [folder]
    return [one for one in inside if not _why_not(one, read_facts(one))]


def _why_not(folder: Path, facts: dict[str, Any]) -> str:
    """Why the arms of a study cannot be reused; empty where they can."""
    if facts.get("kind") is not None:
        return f"{folder} is a study of decoders, whose arms cannot be reused"
    if facts.get("recipes") != RECIPES:
        lacks = f"{folder / 'study.json'} has no `recipes`, or other ones"
        return f"{folder} was made by code that gives other results ({lacks})"
    return ""


def _recipes_of(folder: Path, facts: dict[str, Any], store: Store) -> dict[str, Recipe]:
    """The recipes of a study's finished arms; refused where they cannot be known."""
    path = folder / "study.json"
    if why := _why_not(folder, facts):
        raise UserError(f"{why}; leave it out of --reuse.")
    try:
        study = Study.model_validate(facts["study"])
    except ValidationError as error:
        raise cannot_be_read(path, error.errors()[0]["msg"]) from error
    if study.hash != facts.get("hash"):
        raise UserError(
            f"{path} was changed after it was made, or by code with other settings (its hash differs); "
            "leave it out of --reuse."
        )
    made = facts["arms"]
    setting = open_setting(study, store, torch.device("cpu"))
    return _recipes(setting, lambda name: torch.device(made[name]["hardware"]["device"]), list(made))


def _recipes(
    setting: Setting, device_of: Callable[[str], torch.device], names: Sequence[str] | None = None
) -> dict[str, Recipe]:
    """The recipe of every arm of a study (or of those of these names), seeds and all."""
    arms = setting.study.arms
    tokenizers: list[Recipe] = []
    for arm in arms.values():
        if (one := tokenizer_recipe(setting, arm.tokenizer)) not in tokenizers:
            tokenizers.append(one)
    judge = judge_recipe(setting, tokenizers)

    def of(name: str, arm: Arm) -> Recipe:
        own = replace(setting_of(setting, arm), device=device_of(name))
        recipe = arm_recipe(own, arm, tokenizer_recipe(setting, arm.tokenizer), judge)
        return recipe | {"seeds": list(setting.study.seeds)}

    return {name: of(name, arms[name]) for name in (arms if names is None else names)}


def _tables(folder: Path, name: str, facts: dict[str, Any]) -> dict[str, Any]:
    """What the store keeps of an arm beside its pictures."""
    made = facts["arms"][name]
    tables = {"rows": read_results(folder), "monitors": read_monitors(folder), "quality": read_quality(folder)}
    found = {key: list(_rows(table, name)) for key, table in tables.items()}
    steps, seeds = made["settings"]["training"]["steps"], facts["study"]["seeds"]
    if {row["seed"] for row in found["rows"] if row["step"] == steps} != set(seeds):
        raise UserError(
            f"{folder / 'results.parquet'} lacks rows of the arm {name} at its end (was the folder copied while it was "
            "written?); copy it again, or leave it out of --reuse."
        )
    kept = {key: made[key] for key in ("spent", "parameters", "code", "torch", "hardware") if key in made}
    return {
        **found,
        **({} if "spent" in made else {"seconds": made["seconds"]}),
        **kept,
        "seeds": seeds,
        "taken_from": facts["name"],
    }


def _rows(table: pa.Table, arm: str) -> Iterator[dict[str, Any]]:
    """The rows of an arm without the names that the store does not know, in the order they were written."""
    for row in table.to_pylist():
        if row["arm"] == arm:
            yield {key: value for key, value in row.items() if key not in ("study", "arm")}


def _pictures(folder: Path, name: str) -> dict[str, Tensor]:
    path = folder / PICTURES
    tensors = load_tensors(path, "cpu", f"leave {folder} out of --reuse")
    try:
        kept = {word: tensors[f"{name}.{word}"] for word in ("valid", "right", "joint")}
        return {f"pictures.{word}": tensor for word, tensor in ({"images": tensors[name]} | kept).items()}
    except KeyError as error:
        raise UserError(f"{path} lacks the pictures of {name}; leave {folder} out of --reuse.") from error
