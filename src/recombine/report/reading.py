"""A study folder as the report sees it: whatever is there, and a plain list of what is not."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recombine.studies.facts import cannot_be_read, read_facts
from recombine.studies.monitors import read_monitors
from recombine.studies.pictures import NAME as PICTURES
from recombine.studies.pictures import read_pictures
from recombine.studies.quality_table import read_quality

FEW_ARMS = 4
"""Up to so many arms a sentence names each; with more it names two and counts the others."""


@dataclass(frozen=True)
class Finished:
    """The files of one study, finished or not. A property is empty where no file says anything about it."""

    folder: Path
    facts: dict[str, Any]
    table: pa.Table | None
    pictures: dict[str, np.ndarray]
    monitors: list[dict[str, Any]] = field(default_factory=list)  # the rows of monitors.parquet
    quality: list[dict[str, Any]] = field(default_factory=list)  # the rows of quality.parquet

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of every whole evaluation: one where all members of the arm were judged on all its compositions."""
        found = self.table.to_pylist() if self.table is not None else []
        found = [row for row in found if row["joint"] is not None and math.isfinite(row["joint"])]
        wanted: dict[str, tuple[set[int], set[str]]] = {}
        evaluations: dict[tuple[str, int], int] = {}
        for row in found:
            members, codes = wanted.setdefault(row["arm"], (set(), set()))
            members.add(row["member"])
            codes.add(row["composition"])
            key = (row["arm"], row["step"])
            evaluations[key] = evaluations.get(key, 0) + 1
        whole = {key for key, n in evaluations.items() if n == len(wanted[key[0]][0]) * len(wanted[key[0]][1])}
        return [row for row in found if (row["arm"], row["step"]) in whole]

    @property
    def name(self) -> str:
        return str(self.facts.get("name") or self.folder.resolve().name)

    @property
    def question(self) -> str:
        return str(self.facts.get("question") or "")

    @property
    def limits(self) -> str:
        """What the study's author says it cannot show."""
        return str(self.facts.get("limits") or "")

    @cached_property
    def arms(self) -> list[str]:
        """Arms in the order of the study file, then any that only the table knows."""
        return list(
            dict.fromkeys([*self.part("study", "arms"), *self.part("arms"), *(row["arm"] for row in self.rows)])
        )

    @cached_property
    def measured(self) -> list[str]:
        """The arms that have results."""
        there = {row["arm"] for row in self.rows}
        return [arm for arm in self.arms if arm in there]

    @cached_property
    def levels(self) -> dict[str, int]:
        """Level of every composition in the study's split, compositions in lexicographic order."""
        found = {row["composition"]: row["level"] for row in self.rows}
        found |= {str(code): int(level) for code, level in self.part("split", "levels").items()}
        return dict(sorted(found.items()))

    @cached_property
    def levels_of(self) -> dict[str, dict[str, int]]:
        """The same as each measured arm counts them: one may be trained on fewer compositions than the split has."""
        found: dict[str, dict[str, int]] = {arm: {} for arm in self.measured}
        for row in self.rows:
            found[row["arm"]][row["composition"]] = row["level"]
        return found

    @cached_property
    def agreed_levels(self) -> dict[str, int]:
        """The compositions of which all measured arms say the same level, with it: what pictures of several arms may
        be headed by."""
        own = list(self.levels_of.values())
        found = {
            code: {levels[code] for levels in own if code in levels} or {self.levels[code]} for code in self.levels
        }
        return {code: levels.pop() for code, levels in found.items() if len(levels) == 1}

    @cached_property
    def own_trainings(self) -> bool:
        """Whether some measured arm counts levels otherwise than the study's split: it is trained on others."""
        return any(self.levels[code] != level for own in self.levels_of.values() for code, level in own.items())

    @cached_property
    def disputed(self) -> list[str]:
        """The compositions of which arms say different levels: the farthest of any arm first, then those that most
        arms are not trained on."""

        def key(code: str) -> tuple[int, int]:
            own = [levels[code] for levels in self.levels_of.values() if code in levels]
            return -max(own), -sum(level > 0 for level in own)

        return sorted((code for code in self.levels if code not in self.agreed_levels), key=key)

    def trained_on(self, code: str) -> list[str]:
        """The measured arms that are trained on a composition."""
        return [arm for arm, levels in self.levels_of.items() if levels.get(code) == 0]

    @cached_property
    def level_numbers(self) -> list[int]:
        """Every level that the split or an arm has, in order."""
        own = (levels.values() for levels in self.levels_of.values())
        return sorted({*self.levels.values(), *(level for some in own for level in some)})

    @cached_property
    def last_steps(self) -> dict[str, int]:
        last: dict[str, int] = {}
        for row in self.rows:
            last[row["arm"]] = max(row["step"], last.get(row["arm"], 0))
        return last

    def steps_wanted(self, arm: str) -> int | None:
        """How many steps the arm's own settings ask for; None when they do not say."""
        steps = self.part("arms", arm, "settings", "training").get("steps")
        return steps if isinstance(steps, int) else None

    @cached_property
    def members(self) -> dict[str, int]:
        """How many members each measured arm has."""
        seen: dict[str, set[int]] = {}
        for row in self.rows:
            seen.setdefault(row["arm"], set()).add(row["member"])
        return {arm: len(who) for arm, who in seen.items()}

    def part(self, *keys: str) -> dict[str, Any]:
        """A nested dictionary of study.json, empty when any key on the way is absent."""
        found: Any = self.facts
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def describe(self, code: str) -> str:
        """A composition in words ("circle, blue, small"), or its code when the factors are not known."""
        factors = self.part("world").get("factors") or []
        if len(factors) != len(code):
            return code
        try:
            return ", ".join(str(factor["values"][int(digit)]) for factor, digit in zip(factors, code, strict=True))
        except (IndexError, KeyError, ValueError, TypeError):
            return code

    def picture_set(self, name: str) -> np.ndarray | None:
        """Pictures (K, n, 3, P, P), only if they match the compositions known."""
        found = self.pictures.get(name)
        if found is None or found.ndim != 5 or len(found) != len(self.levels):
            return None
        return found

    @cached_property
    def missing(self) -> list[str]:
        """What a whole study would have and this one has not, a sentence each."""
        notes = []
        if not self.facts.get("finished"):
            notes.append("The study has not finished: what follows is of the arms that are.")
        if self.table is None:
            notes.append("results.parquet is not there: no arm has been judged yet.")
        elif self.table.num_rows > len(self.rows):
            notes.append("Some evaluations lack a seed or a composition; they are left out.")
        silent = [arm for arm in self.arms if arm not in self.measured]
        if self.table is not None and silent:
            notes.append(f"No results yet for {some(silent)}.")
        notes += self._behind()
        single = [arm for arm in self.measured if self.members[arm] == 1]
        if single:
            notes.append(f"Only one seed of {some(single)}: no interval can be given, and another seed may differ.")
        elif len(set(self.members.values())) > 1:
            fewest_first = sorted(self.measured, key=lambda arm: self.members[arm])
            notes.append(
                "The arms have different numbers of seeds: "
                f"{some([f'{arm} {self.members[arm]}' for arm in fewest_first], 'others more or as many')}."
            )
        if not self.pictures:
            notes.append(f"{PICTURES} is not there: no pictures can be shown.")
        else:
            blind = [arm for arm in self.measured if self.picture_set(arm) is None]
            if blind:
                notes.append(f"No pictures of {some(blind)}.")
        return notes

    def _behind(self) -> list[str]:
        """Which arms have not reached the end of their training. Lengths that differ by design are not missing."""
        notes = []
        wanted = {arm: self.steps_wanted(arm) for arm in self.measured}
        behind = [(self.last_steps[arm] / steps, arm, steps) for arm, steps in wanted.items() if steps]
        behind = sorted((one for one in behind if one[0] < 1), key=lambda one: one[0])  # the farthest behind first
        if behind:
            steps = [f"{arm} at step {self.last_steps[arm]:,} of {steps:,}" for _, arm, steps in behind]
            notes.append(f"Not trained to the end yet: {some(steps)}.")
        unknown = {arm: self.last_steps[arm] for arm, steps in wanted.items() if not steps}
        if len(set(unknown.values())) > 1:
            fewest_first = sorted(unknown, key=lambda arm: unknown[arm])
            steps = [f"{arm} {unknown[arm]:,}" for arm in fewest_first]
            notes.append(f"The arms stand at different steps: {some(steps, 'others further or as far')}.")
        return notes


def some(names: list[str], others: str = "others") -> str:
    """All names if they are few; else the first two, which should be the worst, and how many `others` there are."""
    if len(names) > FEW_ARMS:
        names = [*names[:2], f"{len(names) - 2} {others}"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _read_table(path: Path) -> pa.Table | None:
    """The table of results, None where it has no row; ValueError where its columns do not hold what is read."""
    table = pq.read_table(path)
    keys = {"arm": pa.types.is_string, "composition": pa.types.is_string}
    keys |= dict.fromkeys(("member", "seed", "step", "level"), pa.types.is_integer)
    lacking = {*keys, "joint"} - set(table.column_names)
    if lacking:
        raise ValueError(f"no column {', '.join(sorted(lacking))}")
    if not table.num_rows:
        return None
    for name, fits in keys.items():
        column = table.column(name)
        if not fits(column.type) or column.null_count:
            holds = "nothing in some rows" if column.null_count else f"values of type {column.type}"
            raise ValueError(f"its column {name} has {holds}")
    for name in {"joint", "valid", "joint_probe_only"} & set(table.column_names):
        kind = table.schema.field(name).type
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
            raise ValueError(f"its column {name} has values of type {kind}")
    if not np.isfinite(table.column("joint").cast(pa.float64()).to_numpy()).any():
        raise ValueError("its column joint has no number")
    return table


def read_study(folder: Path) -> Finished:
    """Read what `folder` holds. Raises UserError when it is no study at all or when a file of it cannot be read."""
    facts = read_facts(folder)
    path = folder / "results.parquet"
    try:
        table = _read_table(path) if path.is_file() else None
    except (ValueError, OSError, pa.ArrowException) as error:
        raise cannot_be_read(path, error) from error
    beside = (read(folder).to_pylist() for read in (read_monitors, read_quality))
    return Finished(folder, facts, table, read_pictures(folder), *beside)
