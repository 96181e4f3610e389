"""Which studies and arms a claim looks at: the one place to change when a study file is written anew.

Studies go by their name, arms by what they are (family, tokenizer, conditioning), never by their title. Where several
arms fit, the one is taken that differs least from the arm it is compared with, and of these the first in the file.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recombine.claims.tables import FAR, Arm, Curve, StudyTable

STUDIES = {
    "C1": ("objectives-long", "objectives", "discrete", "as_published", "loud"),
    "C2": ("tokenizers", "objectives-long", "objectives", "as_published"),
    "C3": ("conditioning",),
    "C4": ("objectives-long", "objectives", "jepa", "as_published", "loud"),
    "C5": ("jepa-layers", "jepa"),
    "E1": ("peak", "early", "objectives-long", "objectives", "spread", "discrete", "jepa", "as_published", "loud"),
    "E2": ("conditioning",),
    "E3": ("emergence", "tokenizers", "objectives-long", "objectives", "as_published", "early"),
}
"""The studies that can answer each claim or explanation, the best first: it gives the verdict, the others stand
beside."""

CONTROLS = ("discrete", "coverage-values-2")
"""Studies whose categorical models count against C1 if they compose."""

WORLDS = ("dependent", "coverage", "coverage-values-3", "coverage-values-4")
"""Studies of other worlds or splits, in which a categorical model that composes counts against C1's general wording."""

SEARCHES = ("jepa-confirm", "jepa-layers")
"""Studies whose JEPA arms are asides of C4: other settings that were tried. Not the search itself, `jepa`: the best of
many tries counts where fresh seeds confirm it."""

MISLABELLED = ("mislabelled",)
"""Studies that follow the variant of dropout that tells class 0, beside the one that C3 is judged from."""

WITHHELD = ("withheld",)
"""Studies whose dropout touches some factors only: which factor must be withheld for one to be lost (E2)?"""

CATEGORICAL = ("maskgit", "autoregressive", "discrete_diffusion")
"""Families whose output is a distribution over codes."""

CONTINUOUS = {"GIVT": "givt", "MAR": "mar", "DiT": "dit"}
"""The published continuous rungs above MaskGIT, in their order."""

PUBLISHED_DEPTH = 12


def _none(value: Any) -> bool:
    return not value


Wanted = Mapping[str, Any]
TOLD: Wanted = {"conditioning.dropout": _none, "conditioning.drop_all": _none, "generator.guidance": _none}
"""Nothing is withheld in training, and drawing is not guided."""

MASKGIT: Wanted = {**TOLD, "generator.kind": "maskgit", "generator.targets": "hard", "jepa": _none}
JEPA: Wanted = {
    **TOLD,
    "generator.kind": "maskgit",
    "jepa": bool,
    "jepa.reaches": "trunk",
    "jepa.targets": lambda targets: targets != "random",
}


def jepa_control(arm: Arm) -> bool:
    """Whether a JEPA arm is a control: targets without meaning, or a loss that the trunk does not feel."""
    return arm.setting("jepa.targets") == "random" or arm.setting("jepa.reaches") == "predictor"


def family(kind: str) -> Wanted:
    """A rung of the ladder on quantized tokens."""
    return {**TOLD, "generator.kind": kind, "tokenizer.kind": "vqvae", "tokenizer.sees": "all", "jepa": _none}


def on(kind: str, tokenizer: str, sees: str = "all") -> Wanted:
    """A generator on one kind of tokens. Pixels have no tokenizer to fit, so it sees nothing."""
    seen: Wanted = {} if tokenizer == "pixels" else {"tokenizer.sees": sees}
    return {**TOLD, "generator.kind": kind, "tokenizer.kind": tokenizer, **seen}


def told(kind: str, dropout: float, missing: str = "unknown") -> Wanted:
    """DiT with one kind of conditioning."""
    wanted = {"generator.kind": "dit", "generator.guidance": _none, "conditioning.drop_all": _none}
    wanted |= {"conditioning.kind": kind, "conditioning.dropout": lambda value: abs((value or 0) - dropout) < 1e-9}
    return wanted | ({"conditioning.missing": missing} if dropout else {})


def matching(study: StudyTable, wanted: Wanted) -> list[Arm]:
    """The arms judged at level 2 whose settings are as wanted: equal, or such that the given function says yes."""
    return [arm for arm in study.arms if study.curve(arm.name, FAR, "joint") is not None and _fits(arm, wanted)]


def _fits(arm: Arm, wanted: Wanted) -> bool:
    for path, asked in wanted.items():
        value = arm.setting(path)
        if not (asked(value) if callable(asked) else value == asked):
            return False
    return True


def nearest(arms: Sequence[Arm], to: Arm | None, changed: Sequence[str]) -> Arm | None:
    """The arm with the fewest other settings than `to`, sections `changed` aside; the first where several tie."""
    if to is None or not arms:
        return arms[0] if arms else None
    return min(arms, key=lambda arm: len(differences(arm, to, changed)))


def differences(a: Arm, b: Arm, changed: Sequence[str]) -> list[str]:
    """The dotted settings in which two arms differ, the sections or settings `changed` left out."""
    first, second = _flat(a.settings), _flat(b.settings)
    found = [path for path in {**first, **second} if first.get(path) != second.get(path)]
    return [path for path in found if not any(path == word or path.startswith(f"{word}.") for word in changed)]


def same_run(a: Arm, b: Arm) -> bool:
    """Whether two arms are one run: the same settings, seeds and judge, and numbers. A study may take over an arm of
    another, or share a store with it, and then has no second finding."""
    if a.study is b.study:
        return a.name == b.name
    one, two = a.study.finished, b.study.finished
    alike = all(one.part("study", word) == two.part("study", word) for word in ("world", "split", "judging"))
    limits = [own.part("judge").get("threshold") for own in (one, two)]
    if differences(a, b, ()) or not alike or limits[0] != limits[1]:
        return False
    return all(_same_curve(*(arm.study.curve(arm.name, level, "joint") for arm in (a, b))) for level in (0, FAR))


def goes_on(a: Arm, b: Arm) -> bool:
    """Whether `a` is the run `b`, trained on for longer: the same settings but the number of steps, and the same
    numbers at the steps that both were judged at."""
    if a.steps <= b.steps or differences(a, b, ("training.steps",)):
        return False
    for level in (0, FAR):
        one, two = (arm.study.curve(arm.name, level, "joint") for arm in (a, b))
        if one is None or two is None or one.seeds != two.seeds:
            return False
        both = np.intersect1d(one.steps, two.steps)
        if not both.size or not np.array_equal(
            one.values[np.isin(one.steps, both)], two.values[np.isin(two.steps, both)]
        ):
            return False
    return True


def _same_curve(one: Curve | None, two: Curve | None) -> bool:
    if one is None or two is None:
        return False
    return one.seeds == two.seeds and np.array_equal(one.steps, two.steps) and np.array_equal(one.values, two.values)


def _flat(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word, value in settings.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{word}.")
        else:
            found[before + word] = value
    return found


def depth_of(arm: Arm) -> int:
    """How many blocks the arm's backbone has."""
    from recombine.nets.backbone import SIZES

    return SIZES[str(arm.setting("training.size"))].depth


def layers_of(arm: Arm) -> tuple[int, ...]:
    """The blocks whose states the arm's JEPA predicts, by number."""
    from recombine.generators.jepa import JepaSettings
    from recombine.generators.jepa import layers_of as by_depth

    chosen = arm.setting("jepa.layers")
    return by_depth(JepaSettings(layers=None if chosen is None else tuple(chosen)), depth_of(arm))


def published_layers(arm: Arm) -> tuple[int, ...]:
    """The published {7, 9, 11} of 12 at the depth of this arm's backbone."""
    from recombine.generators.jepa import JepaSettings
    from recombine.generators.jepa import layers_of as by_depth

    return by_depth(JepaSettings(), depth_of(arm))


def as_published_jepa(arm: Arm) -> bool:
    """Whether a JEPA arm has what is known of the published loss: those layers, weight 0.6, an averaged teacher."""
    known = arm.setting("jepa.weight") == 0.6 and arm.setting("jepa.targets") == "ema"
    return known and layers_of(arm) == published_layers(arm)
