"""What the claims read from a finished study: one number per member, from whole evaluations only.

The main number of a member is the mean of a column over the last fifth of its arm's evaluations, and over the
compositions of a level. A fifth of E evaluations is E // 5 of them, at least one: read so, the published curves give
the published numbers (tests/test_claims_published.py). Shapes: E evaluations, S seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from recombine.errors import UserError
from recombine.judges.statistics import Interval, interval, member_means
from recombine.report.reading import Finished, read_study

FAR = 2
"""The level that the claims are about: two factors away from everything trained."""

NAMED = "joint_probe_only"
"""The column of what the probe names right, valid or not, as the papers count."""

When = Literal["last fifth", "end", "peak"]


@dataclass(frozen=True)
class Measure:
    """Which share, and when: `joint` counts pictures that are right and valid; a peak is each member's own."""

    column: str = "joint"
    when: When = "last fifth"
    until: int | None = None  # evaluations after this step are left out


@dataclass(frozen=True)
class Curve:
    """The learning curves of an arm's members at one level."""

    steps: np.ndarray  # (E,), ascending
    seeds: tuple[int, ...]  # (S,), ascending
    values: np.ndarray  # (E, S), shares

    def at(self, when: When, seeds: Sequence[int], until: int | None = None) -> np.ndarray:
        """One number for each of `seeds`, from the evaluations up to the step `until` (the first one at least)."""
        columns = [self.seeds.index(seed) for seed in seeds]
        kept = len(self.steps) if until is None else max(1, int((self.steps <= until).sum()))
        return over_time(self.values[:kept], when)[columns]


def fifth(evaluations: int) -> int:
    """How many evaluations are a fifth of them."""
    return max(1, evaluations // 5)


def over_time(values: np.ndarray, when: When) -> np.ndarray:
    """Curves (E, ...) to one number each (...)."""
    if when == "end":
        return values[-1]
    if when == "peak":
        return values.max(axis=0)
    return values[-fifth(len(values)) :].mean(axis=0)


class StudyTable:
    """One study's folder: its facts and its members' numbers."""

    def __init__(self, finished: Finished):
        self.finished = finished
        self.name = finished.name
        self.folder = finished.folder
        self._means: dict[str, dict[tuple[str, int, int], dict[int, float]]] = {}
        self._curves: dict[tuple[str, int, str], Curve | None] = {}

    @property
    def is_plane(self) -> bool:
        """Whether it is a study of decoders (`kind: rendering`), judged over the plane; `planes.table` reads these."""
        return self.finished.facts.get("kind") == "rendering"

    @cached_property
    def arms(self) -> "list[Arm]":
        """The arms that have results, in the order of the study file, with their settings in full."""
        asked, made = self.finished.part("study", "arms"), self.finished.part("arms")
        found = []
        for name in self.finished.measured:
            settings = asked.get(name) or (made.get(name) or {}).get("settings") or {}
            found.append(Arm(self, name, settings if isinstance(settings, dict) else {}))
        return found

    @property
    def columns(self) -> set[str]:
        return set(self.finished.rows[0]) if self.finished.rows else set()

    def curve(self, arm: str, level: int, column: str) -> Curve | None:
        """Curves of an arm's members; None where the arm was not judged at that level."""
        if (arm, level, column) not in self._curves:
            if column not in self._means:
                self._means[column] = member_means(self.finished.rows, column)
            points = {step: row for (a, k, step), row in self._means[column].items() if a == arm and k == level}
            steps = sorted(points)
            seeds = tuple(sorted(set().union(*points.values()))) if points else ()
            values = np.array([[points[step][seed] for seed in seeds] for step in steps])
            self._curves[arm, level, column] = Curve(np.array(steps), seeds, values) if points else None
        return self._curves[arm, level, column]

    @cached_property
    def incomplete(self) -> list[str]:
        """What the study's file asks for and the table does not have, a sentence each."""
        notes = []
        if not self.finished.facts.get("finished"):
            notes.append(f"The study {self.name} has not finished.")
        if self.finished.table is not None and self.finished.table.num_rows > len(self.finished.rows):
            notes.append(f"Some evaluations of {self.name} lack a seed or a composition and are left out.")
        seeds = (self.finished.facts.get("study") or {}).get("seeds") or []
        for name in self.finished.arms:
            if name not in self.finished.measured:
                notes.append(f"Arm {name} of {self.name} has no results.")
                continue
            there, wanted = self.finished.members[name], self.finished.steps_wanted(name)
            if there < len(seeds):
                notes.append(f"Arm {name} of {self.name} has {there} of the {len(seeds)} seeds its file asks for.")
            if wanted and self.finished.last_steps[name] < wanted:
                last = self.finished.last_steps[name]
                notes.append(f"Arm {name} of {self.name} stands at step {last:,} of the {wanted:,} its file asks for.")
        return notes


@dataclass(frozen=True)
class Arm:
    """One arm of a study with all its settings."""

    study: StudyTable
    name: str
    settings: Mapping[str, Any]

    def setting(self, path: str) -> Any:
        """A setting by its dotted path ("tokenizer.kind"); None where there is none."""
        found: Any = self.settings
        for word in path.split("."):
            found = found.get(word) if isinstance(found, Mapping) else None
        return found

    def curve(self, column: str = "joint", level: int = FAR) -> Curve:
        """Raises UserError where the arm was not judged there; `lookup` only returns arms that were, at level 2."""
        found = self.study.curve(self.name, level, column)
        if found is None:
            raise UserError(f"Arm {self.name} of {self.study.name} has no composition of level {level}.")
        return found

    @property
    def seeds(self) -> tuple[int, ...]:
        return self.curve().seeds

    @property
    def steps(self) -> int:
        """The last step that was judged."""
        return int(self.curve().steps[-1])

    def values(self, measure: Measure, seeds: Sequence[int], level: int = FAR) -> np.ndarray:
        """One number for each of `seeds`, (S,)."""
        return self.curve(measure.column, level).at(measure.when, seeds, measure.until)

    def share(self, measure: Measure, seeds: Sequence[int], level: int = FAR) -> Interval:
        return interval(self.values(measure, seeds, level), share=True)

    def rise(self, measure: Measure, seeds: Sequence[int]) -> Interval | None:
        """How much the last fifth lies above the fifth before it; None where there is no fifth before."""
        curve = self.curve(measure.column)
        n = fifth(len(curve.steps))
        if len(curve.steps) < 2 * n:
            return None
        columns = [curve.seeds.index(seed) for seed in seeds]
        late, before = curve.values[-n:, columns], curve.values[-2 * n : -n, columns]
        return interval(late.mean(axis=0) - before.mean(axis=0))

    def peak(self, measure: Measure) -> tuple[int, float]:
        """The step and height of the highest point of the mean curve over all members."""
        curve = self.curve(measure.column)
        mean = curve.values.mean(axis=1)
        return int(curve.steps[mean.argmax()]), float(mean.max())

    def by_composition(self, measure: Measure) -> dict[str, float]:
        """{composition: mean over the last fifth of the evaluations and all members}."""
        steps = set(self.curve().steps[-fifth(len(self.curve().steps)) :].tolist())
        found: dict[str, list[float]] = {}
        for row in self.study.finished.rows:
            if row["arm"] == self.name and row["step"] in steps:
                found.setdefault(row["composition"], []).append(row[measure.column])
        return {code: float(np.mean(values)) for code, values in sorted(found.items())}

    @property
    def ceiling(self) -> float | None:
        """Share of real level-2 images that the arm's tokenizer alone reproduces rightly; None where not measured."""
        return self.ceiling_at(FAR)

    def ceiling_at(self, level: int, column: str = "joint") -> float | None:
        """The same of another level, or by another count."""
        name = self.study.finished.part("arms", self.name).get("tokenizer")
        entries = self.study.finished.part("tokenizers", str(name), "ceiling")
        levels = self.study.finished.levels_of.get(self.name, {})
        there = [entry.get(column) for code, entry in entries.items() if levels.get(code) == level]
        known = [float(value) for value in there if value is not None]
        return sum(known) / len(known) if known else None


def common_seeds(arms: Sequence[Arm]) -> list[int]:
    """The seeds that every arm has, ascending."""
    return sorted(set.intersection(*(set(arm.seeds) for arm in arms)))


def _by_region(folder: Path, table: pa.Table) -> pa.Table:
    """The table of a study of decoders with its cells averaged into two compositions, trained and held out.

    Such a table has a row for every cell of the plane, hundreds of thousands; claims read what was measured of the
    cells (`planes.table`), and from this table only how far the study has come.
    """
    keys, means = ["study", "arm", "member", "seed", "step", "level"], ["joint", "valid", "joint_probe_only"]
    try:
        found = table.group_by(keys, use_threads=False).aggregate([("n", "sum"), *((word, "mean") for word in means)])
    except (KeyError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"{folder / 'results.parquet'} cannot be read ({reason}): run the study again to write it anew."
        ) from error
    found = found.rename_columns([name.removesuffix("_sum").removesuffix("_mean") for name in found.column_names])
    names = ["trained" if level == 0 else "held out" for level in found.column("level").to_pylist()]
    return found.append_column("composition", pa.array(names))


def open_study(folder: Path) -> StudyTable:
    """The study in `folder`; refused with one sentence where it is none."""
    if not folder.is_dir():
        there = "is a file" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {there}; give folders of finished studies (`recombine run STUDY --out DIR`).")
    finished = read_study(folder)
    if finished.facts.get("kind") == "rendering" and finished.table is not None:
        finished = replace(finished, table=_by_region(folder, finished.table))
    if not finished.rows:
        raise UserError(f"{folder / 'results.parquet'} has no whole evaluation; let the study run to its first one.")
    return StudyTable(finished)
