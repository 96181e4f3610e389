"""Studies with planted numbers for every composition and factor, for tests of the explanations (nothing here is a
result). What `planted.plant` writes is kept, settings and all; only the shares are made anew.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from planted import LEVELS, Plan, plant, study_of
from recombine.studies.results import read_results, write_results
from recombine.studies.spec import Study

FACTORS = ("shape", "colour", "size")
Shares = dict[str, float]
Draw = Callable[[str, float, int], Shares]
"""(composition, time as a share of the training, seed) to shares: "valid" and factors, 1 where not named; "named" and
"joint" follow from them where not given."""

WITHHELD = study_of(
    "withheld",
    {
        f"{name}-withheld": {
            "generator": "dit",
            "conditioning": {"kind": "quantized", "dropout": 0.1, "withheld": [name]},
        }
        for name in FACTORS
    },
)


def ramp(time: float, begin: float, end: float) -> float:
    """0 before `begin`, 1 after `end`, a straight line between."""
    return float(np.clip((time - begin) / (end - begin), 0, 1))


def lean(seed: int, what: str) -> float:
    """A number of this seed's own, about -1 to 1."""
    return float(np.random.default_rng([seed, *what.encode()]).uniform(-1, 1))


def plant_cells(folder: Path, study: Study, arms: Mapping[str, Draw], **more: Any) -> Path:
    """Write the folder of a finished study whose arms draw as told."""
    plant(folder, study, dict.fromkeys(arms, Plan()), **more)
    rows = read_results(folder).to_pylist()
    last = {name: max(row["step"] for row in rows if row["arm"] == name) for name in arms}
    for row in rows:
        drawn = arms[row["arm"]](row["composition"], row["step"] / last[row["arm"]], row["seed"])
        wobble = 0.01 * lean(row["seed"], f"{row['arm']}{row['step']}{row['composition']}")
        shares = {f"factor_{name}": drawn.get(name, 1.0) for name in FACTORS}
        named = drawn.get("named", min(shares.values()))
        valid = drawn.get("valid", 1.0)
        shares |= {"valid": valid, "joint_probe_only": named, "joint": drawn.get("joint", min(named, valid))}
        row |= {column: float(np.clip(share + wobble, 0, 1)) for column, share in shares.items()}
    write_results(folder, rows)
    return folder


def learned(code: str, time: float, seed: int) -> Shares:
    """Everything right and valid from early on."""
    return {"valid": ramp(time, 0, 0.2)}


def far(code: str) -> bool:
    return LEVELS[code] == 2
