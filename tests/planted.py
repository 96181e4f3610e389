"""Studies with planted numbers, for tests of the claims (nothing here is a result).

The settings are those of real study files, so that what the claims look for is what a study writes; the curves are
made to order: `Plan` says where an arm ends, when and how sharply it rises, and whether it falls again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recombine.studies.results import write_results
from recombine.studies.spec import Study, load_study, make_study

CODES = ("000", "001", "010", "011", "100", "101", "110", "111")
LEVELS = {code: max(0, code.count("1") - 1) for code in CODES}


@dataclass(frozen=True)
class Plan:
    """An arm's curves. Times are shares of the training; all seeds share a part of their spread, as pairs do."""

    far: float = 0.5  # level-2 at the end
    trained: float = 0.97
    near: float = 0.8  # level-1
    spread: float = 0.03  # standard deviation over seeds of the end
    middle: float = 0.3  # when half of the end is reached
    width: float = 0.05  # how long the rise takes
    peak: float | None = None  # height before a fall to `far`, reached at half of the training
    climb: float = 0.0  # by how much level-2 still rises over the last two fifths
    probe: float | None = None  # level-2 by the probe alone, flat; None: a little more than by the judge

    def at(self, level: int, times: np.ndarray, lean: float) -> np.ndarray:
        """Shares (E,) at the given times."""
        end = (self.trained, self.near, self.far)[min(level, 2)]
        end = float(np.clip(end + lean * self.spread, 0, 1))
        curve = end * np.clip((times - self.middle) / self.width + 0.5, 0, 1)
        if level == 2 and self.peak is not None:
            up = np.clip(times / 0.5, 0, 1) * self.peak
            curve = np.where(times <= 0.5, up, self.peak + (end - self.peak) * np.clip((times - 0.5) / 0.25, 0, 1))
        if level == 2 and self.climb:
            curve = curve - self.climb * np.clip((1 - times) / 0.4, 0, 1)
        return np.clip(curve, 0, 1)


def plant(
    folder: Path,
    study: Study,
    plans: Mapping[str, Plan],
    *,
    seeds: Sequence[int] = tuple(range(8)),
    evaluations: int = 20,
    asked: Sequence[int] | None = None,
    steps: Mapping[str, int] | None = None,
    samples: int = 128,
    shuffle: int | None = None,
) -> Path:
    """Write the folder of a finished study whose arms are those of `plans`, by name.

    `asked` are the seeds its file asks for, if not those it has; `steps` where arms stand, if not at their end;
    `shuffle` puts the rows in another order.
    """
    rows: list[dict[str, Any]] = []
    for name, plan in plans.items():
        last = (steps or {}).get(name, study.arms[name].training.steps)
        times = np.arange(1, evaluations + 1) / evaluations
        for member, seed in enumerate(seeds):
            both = np.random.default_rng([seed, 7]).normal()
            own = np.random.default_rng([seed, *name.encode()]).normal()
            lean = 0.6 * both + 0.8 * own
            for code in CODES:
                curve = plan.at(LEVELS[code], times, lean)
                for time, share in zip(times, curve, strict=True):
                    probe = min(1.0, share + 0.02)
                    if LEVELS[code] == 2 and plan.probe is not None:
                        probe = plan.probe
                    row = {"study": study.name, "arm": name, "member": member, "seed": seed, "step": round(last * time)}
                    row |= {"composition": code, "level": LEVELS[code], "n": samples, "joint": float(share)}
                    row |= {"valid": float(share), "joint_probe_only": float(probe)}
                    rows.append(row)
    if shuffle is not None:
        rows = [rows[i] for i in np.random.default_rng(shuffle).permutation(len(rows))]
    folder.mkdir(parents=True, exist_ok=True)
    write_results(folder, rows)
    resolved = study.resolved()
    resolved["seeds"] = list(asked if asked is not None else seeds)
    resolved["arms"] = {name: resolved["arms"][name] for name in plans}
    ceiling = {code: {"joint": 0.99, "valid": 1.0, "joint_probe_only": 0.99} for code in CODES}
    facts = {
        "name": study.name,
        "question": study.question,
        "limits": study.limits,
        "study": resolved,
        "command": f"recombine run {study.name} --out results/{study.name}",
        "versions": {"python": "3.11.9", "torch": "2.13.0", "recombine": "0.1.0", "code": "0123456789ab"},
        "hardware": {"device": "cuda", "gpu": "an invented GPU", "gpu_memory_gib": 80.0, "cores": 8},
        "started": "2026-01-01T10:00:00+00:00",
        "finished": "2026-01-01T12:00:00+00:00",
        "seconds": {"total": 7200.0},
        "world": {"name": "shapes2d", "image_size": 28, "factors": []},
        "split": {"train": [code for code in CODES if LEVELS[code] == 0], "levels": LEVELS},
        "tokenizers": {"tokens": {"ceiling": ceiling}},
        "arms": {name: {"settings": resolved["arms"][name], "tokenizer": "tokens"} for name in plans},
    }
    (folder / "study.json").write_text(json.dumps(facts), encoding="utf-8")
    return folder


def study_of(name: str, arms: Mapping[str, Any], steps: int = 60_000, size: str = "s") -> Study:
    """A study with these arms, in the words of a study file, on what the library's studies share."""
    return make_study(
        {
            "name": name,
            "question": "Is it so?",
            "world": {"kind": "shapes2d", "image_size": 28},
            "split": {"kind": "hamming", "needs_level": 2},
            "tokenizer": {"kind": "vqvae", "factor": 4, "codes": 256, "channels": 16},
            "conditioning": "quantized",
            "generator": "maskgit",
            "training": {"size": size, "steps": steps, "batch": 128},
            "judging": {"samples": 128, "evaluations": 20},
            "arms": dict(arms),
        }
    )


def library(name: str) -> Study:
    """A study of the library."""
    return load_study(name)


OBJECTIVES = study_of(
    "objectives",
    {
        "maskgit": {"generator": "maskgit"},
        "maskgit-jepa": {"generator": "maskgit", "jepa": {}},
        "givt": {"generator": "givt"},
        "mar": {"generator": "mar"},
        "dit-vq": {"generator": "dit"},
        "dit-vae": {"generator": "dit", "tokenizer": {"kind": "vae", "factor": 4, "channels": 16}},
    },
)
DISCRETE = study_of(
    "discrete",
    {
        "maskgit": {"generator": "maskgit"},
        "autoregressive": {"generator": "autoregressive"},
        "discrete-diffusion": {"generator": "discrete_diffusion"},
    },
)
TOKENIZERS = study_of(
    "tokenizers",
    {
        "vq": {"generator": "dit"},
        "vae": {"generator": "dit", "tokenizer": {"kind": "vae", "factor": 4, "channels": 16}},
        "vq-train": {"generator": "dit", "tokenizer": {"kind": "vqvae", "factor": 4, "codes": 256, "sees": "train"}},
        "vae-train": {"generator": "dit", "tokenizer": {"kind": "vae", "factor": 4, "channels": 16, "sees": "train"}},
        "pixels": {"generator": "dit", "tokenizer": {"kind": "pixels", "patch": 4}},
    },
)
CONDITIONING = study_of(
    "conditioning",
    {
        "full": {"generator": "dit", "conditioning": {"kind": "full"}},
        "full-dropout": {"generator": "dit", "conditioning": {"kind": "full", "dropout": 0.1}},
        "full-mislabelled": {"generator": "dit", "conditioning": {"kind": "full", "dropout": 0.1, "missing": "zero"}},
        "quantized": {"generator": "dit", "conditioning": {"kind": "quantized"}},
        "quantized-dropout": {"generator": "dit", "conditioning": {"kind": "quantized", "dropout": 0.1}},
    },
)
JEPA = study_of(
    "jepa",
    {
        "maskgit": None,
        "jepa": {"jepa": {}},
        "jepa-strong": {"jepa": {"weight": 3}},
        "layer-6": {"jepa": {"layers": [6]}},
        "layer-8": {"jepa": {"layers": [8]}},
        "layers-6-8-10": {"jepa": {"layers": [6, 8, 10]}},
        "layers-7-8-9-11": {"jepa": {"layers": [7, 8, 9, 11]}},
        "same-cost": {"jepa": {"reaches": "predictor"}},
    },
    size="b",
)

# Plans under which each claim is reproduced, as published.
REPRODUCED: dict[str, dict[str, Plan]] = {
    "objectives": {
        "maskgit": Plan(far=0.02, spread=0.01),
        "maskgit-jepa": Plan(far=0.42),
        "givt": Plan(far=0.73, middle=0.2),
        "mar": Plan(far=0.81, middle=0.4),
        "dit-vq": Plan(far=0.86, width=0.06, middle=0.45),
    },
    "tokenizers": {
        "vq": Plan(far=0.88, width=0.06, middle=0.4),
        "vae": Plan(far=0.89, width=0.6, middle=0.3),
        "vq-train": Plan(far=0.01, spread=0.005),
        "vae-train": Plan(far=0.2),
        "pixels": Plan(far=0.7),
    },
    "conditioning": {
        "full": Plan(far=0.98, spread=0.01, near=0.99),
        "full-dropout": Plan(far=0.03, spread=0.01, peak=0.8),
        "full-mislabelled": Plan(far=0.01, spread=0.005),
        "quantized": Plan(far=0.64),
        "quantized-dropout": Plan(far=0.02, spread=0.01, peak=0.3),
    },
    "jepa": {
        "maskgit": Plan(far=0.02, spread=0.01),
        "jepa": Plan(far=0.44, peak=0.67),
        "jepa-strong": Plan(far=0.1),
        "layer-6": Plan(far=0.2),
        "layer-8": Plan(far=0.18),
        "layers-6-8-10": Plan(far=0.35),
        "layers-7-8-9-11": Plan(far=0.30),
        "same-cost": Plan(far=0.02, spread=0.01),
    },
}
STUDIES = {"objectives": OBJECTIVES, "tokenizers": TOKENIZERS, "conditioning": CONDITIONING, "jepa": JEPA}


def plant_all(folder: Path) -> list[Path]:
    """A folder per study, such that C1 to C5 are reproduced."""
    return [plant(folder / name, STUDIES[name], plans) for name, plans in REPRODUCED.items()]
