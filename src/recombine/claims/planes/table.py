"""What the claims on rendering read: the tidy table of everything measured over the plane, and the arms' settings.

The table is `measures.parquet` in a study's folder, one row per (study, arm, seed, layer, measure, region) with a
`value`, as `recombine.anatomy.measures` defines it, taken at the end of training. Beside those measures it holds the
judge's (`judges.plane.summarise`) under the layer "picture", for the regions trained, held_out and deep:

    hit        share of cells whose bump is found within 1 pixel in each factor
    relative   mean squared error over that of a blank picture: 1 is as bad as drawing nothing
    mse, ...   as they are; only hit and relative are asked for

and under the layer "truth" the measure log_volume of the true pictures (the same for every seed). Arms go by their
settings, never by their titles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from recombine.anatomy.measures import NAME, PICTURE, read_measures
from recombine.claims.tables import StudyTable
from recombine.claims.verdicts import Untested

Settings = Mapping[str, Any]


def setting(settings: Settings, path: str) -> Any:
    """A setting by its dotted path ("decoder.kind"); None where there is none."""
    found: Any = settings
    for word in path.split("."):
        found = found.get(word) if isinstance(found, Mapping) else None
    return found


def flat(settings: Settings, before: str = "") -> dict[str, Any]:
    """Settings by their dotted paths."""
    found: dict[str, Any] = {}
    for word, value in settings.items():
        found |= flat(value, f"{before}{word}.") if isinstance(value, Mapping) else {before + word: value}
    return found


@dataclass(frozen=True)
class PlaneTable:
    """One study: its rows, and the settings of its arms in the order of its file."""

    name: str
    arms: Mapping[str, Settings]
    rows: Sequence[Mapping[str, Any]]

    @staticmethod
    def of(study: StudyTable) -> "PlaneTable":
        """The table in a study's folder; raises Untested where it has none."""
        rows = read_measures(Path(study.folder))
        if rows is None:
            raise Untested(f"the study {study.name} has no {NAME}")
        return PlaneTable(study.name, study.finished.part("study", "arms"), rows)

    def by_seed(self, arm: str, measure: str, region: str, layer: str = PICTURE) -> dict[int, float]:
        """{seed: value}; empty where it was not measured."""
        return self._by_key.get((arm, layer, measure, region), {})

    @cached_property
    def _by_key(self) -> dict[tuple[str, str, str, str], dict[int, float]]:
        found: dict[tuple[str, str, str, str], dict[int, float]] = {}
        for row in self.rows:
            if row["value"] is not None:
                key = (row["arm"], row["layer"], row["measure"], row["region"])
                found.setdefault(key, {})[int(row["seed"])] = float(row["value"])
        return found

    def values(self, arm: str, measure: str, region: str, seeds: Sequence[int], layer: str = PICTURE) -> np.ndarray:
        """One finite number for each of `seeds`, (S,); raises Untested where one is missing."""
        found = self.by_seed(arm, measure, region, layer)
        missing = [seed for seed in seeds if not np.isfinite(found.get(seed, np.nan))]
        if missing:
            where = f"{measure} of {layer}, {region}"
            raise Untested(f"arm {arm} of {self.name} has no {where} for {len(missing)} of {len(seeds)} seeds")
        return np.array([found[seed] for seed in seeds])

    def seeds(self, arm: str) -> set[int]:
        return set(self.by_seed(arm, "hit", "held_out"))

    def layers(self, arm: str) -> list[str]:
        """The hidden layers that were measured, from first to last."""
        names = {row["layer"] for row in self.rows if row["arm"] == arm and str(row["layer"]).startswith("layer ")}
        return sorted(names, key=lambda name: int(name.split()[1]))

    def matching(self, wanted: Settings) -> list[str]:
        """The arms that were judged and whose settings are as wanted: equal, or such that a function says yes."""

        def fits(settings: Settings) -> bool:
            found = {path: setting(settings, path) for path in wanted}
            return all(ask(found[path]) if callable(ask) else found[path] == ask for path, ask in wanted.items())

        return [name for name, settings in self.arms.items() if self.seeds(name) and fits(settings)]

    def differences(self, a: str, b: str, changed: Sequence[str] = ()) -> list[str]:
        """The dotted settings in which two arms differ, the sections or settings `changed` left out."""
        first, second = flat(self.arms[a]), flat(self.arms[b])
        found = [path for path in {**first, **second} if first.get(path) != second.get(path)]
        return [path for path in found if not any(path == word or path.startswith(f"{word}.") for word in changed)]

    def nearest(self, wanted: Settings, to: str | None, changed: Sequence[str]) -> str | None:
        """The arm as wanted that differs least from the arm `to`; the first where several tie; None where none fits."""
        found = self.matching(wanted)
        if not found or to is None:
            return found[0] if found else None
        return min(found, key=lambda name: len(self.differences(name, to, changed)))
