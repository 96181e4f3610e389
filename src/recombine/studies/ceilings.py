"""What the tokenizers of a study can write at all, over several seeds: a file of its own, `recombine ceiling STUDY`.

Real images of every composition are encoded, decoded and judged. A study does that with the one tokenizer of each kind
that its arms share; here each is fitted with several seeds, so that what differs between two fits alike is in the
intervals. The images they are fitted on and the judge are the study's own, the same for all seeds.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from recombine import files, provenance
from recombine.errors import UserError
from recombine.judges import Judge
from recombine.judges.statistics import Interval, interval
from recombine.studies import stages
from recombine.studies.memory import study_must_fit
from recombine.studies.sharing import share_out
from recombine.studies.spec import Study
from recombine.studies.store import Store
from recombine.worlds import make_images

FOLDER = "ceilings"  # where such files are kept beside studies
PICTURES = 4  # of each composition, to look at
MOST = 6  # held-out compositions to look at
WORDS = ("joint", "valid", "joint_probe_only")


class Ceiling(BaseModel):
    """One kind of tokenizer: shares over the images of a composition, one number per seed."""

    model_config = ConfigDict(strict=True, extra="ignore")
    kind: str
    sees: str | None = None  # of pixels there is nothing to fit
    shares: dict[str, dict[str, list[float]]]  # {composition: {word: (S,)}}

    def over(self, codes: Sequence[str], word: str) -> Interval:
        """The mean over compositions, per seed, and its interval over the seeds."""
        own = [self.shares[code][word] for code in codes]
        return interval([sum(shares) / len(own) for shares in zip(*own, strict=True)], share=True)


class Ceilings(BaseModel):
    """The file."""

    model_config = ConfigDict(strict=True, extra="ignore")
    name: str  # of the study
    command: str
    seeds: list[int]
    images: int  # of each composition
    levels: dict[str, int]
    tokenizers: dict[str, Ceiling]
    versions: dict[str, Any] = {}
    hardware: dict[str, Any] = {}

    def codes(self, level: int) -> list[str]:
        return [code for code, own in self.levels.items() if own == level]


@dataclass(frozen=True)
class Redrawn:
    """Held-out compositions as each tokenizer gives them back: K compositions, n pictures of each, P pixels a side."""

    compositions: list[tuple[int, str]]  # level and words
    real: np.ndarray  # (K, n, C, P, P) uint8
    rebuilt: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]  # the pictures; named right and counted, (K, n)


@study_must_fit
def measure(study: Study, path: Path, store: Path, device: torch.device, seeds: int) -> tuple[Ceilings, Redrawn]:
    """Fit, judge, and write the file `path`; gives pictures of the first seed beside. What the store has is not made
    again, and processes with one store share out the work."""
    started, clock = datetime.now(UTC), time.perf_counter()
    setting = stages.open_setting(study, Store(store), device)
    fitted, (probe, _) = stages.fit_tokenizers_and_probe(setting)
    judge, _, _ = stages.calibrate_judge(setting, probe, fitted)
    kinds = stages.named_tokenizers(study)
    wanted = {
        f"{name}, seed {seed}": (name, seed)
        for name, settings in kinds.items()
        for seed in range(seeds if settings.kind != "pixels" else 1)
    }

    def fit(label: str, wait: bool) -> stages.FittedTokenizer:
        name, seed = wanted[label]
        return stages.fit_one(setting, label, kinds[name], wait, stages.SHARED_SEED + seed)

    made = share_out(wanted, fit)
    ceilings = stages.measure_ceilings(setting, judge, made)
    facts = {
        **provenance.opening(study, device, started, finished=True),
        "seconds": time.perf_counter() - clock,
        "seeds": [stages.SHARED_SEED + seed for seed in range(seeds)],
        "images": stages.CEILING_IMAGES,
        "levels": {stages.code(c): level for c, level in setting.split.levels.items()},
        "tokenizers": {
            name: {
                **settings.model_dump(mode="json"),
                "shares": {
                    code: {
                        word: [ceilings[label][code][word] for label, (own, _) in wanted.items() if own == name]
                        for word in WORDS
                    }
                    for code in map(stages.code, setting.split.compositions)
                },
            }
            for name, settings in kinds.items()
        },
    }
    files.save_json_atomic(path, facts)
    return read(path), _redrawn(setting, judge, {name: made[f"{name}, seed 0"] for name in kinds})


def _redrawn(setting: stages.Setting, judge: Judge, fitted: Mapping[str, stages.FittedTokenizer]) -> Redrawn:
    held = [c for c, level in setting.split.levels.items() if level > 0][:MOST]
    real = make_images(setting.world, held, PICTURES, stages.SHARED_SEED, "pictures", setting.device)

    def grid(tensor: Tensor) -> np.ndarray:
        return tensor.view(len(held), PICTURES, *tensor.shape[1:]).cpu().numpy()

    def pixels(images: Tensor) -> np.ndarray:
        return grid((images * 255).round().to(torch.uint8))

    rows = {}
    for name, entry in fitted.items():
        again = entry.tokenizer.decode(entry.tokenizer.encode(real.images).mean)
        verdicts = judge.judge(again, real.labels)
        saw = {"train": ", saw trained", "all": ", saw all"}.get(getattr(entry.settings, "sees", ""), "")
        rows[f"{name}{saw}"] = (pixels(again), grid(verdicts.joint_probe_only), grid(verdicts.joint))
    words = [", ".join(f.values[i] for f, i in zip(setting.world.factors, c, strict=True)) for c in held]
    return Redrawn(list(zip([setting.split.levels[c] for c in held], words, strict=True)), pixels(real.images), rows)


def read(path: Path) -> Ceilings:
    """The file that `measure` wrote."""
    again = "give `recombine ceiling STUDY` again"
    try:
        return Ceilings.model_validate(files.load_json(path, again))
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(
            f"{path} cannot be read (its {'.'.join(map(str, first['loc']))}: {first['msg']}); {again}."
        ) from error


def is_ceilings(folder: Path) -> bool:
    """Whether this is the folder of such files: `results/*` names it beside the studies."""
    return (
        folder.name == FOLDER and folder.is_dir() and all(path.suffix in (".json", ".png") for path in folder.iterdir())
    )
