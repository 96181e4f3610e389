"""What the tokenizers of a study can write at all, over several seeds: a file of its own, `recombine ceiling STUDY`.

Real images of every composition are encoded, decoded and judged. A study does that with the one tokenizer of each kind
that its arms share; here each is fitted with several seeds, so that what differs between two fits alike is in the
intervals. The images they are fitted on and the judge are the study's own, the same for all seeds.
"""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from recombine import files, provenance
from recombine.errors import UserError
from recombine.judges.statistics import Interval, interval
from recombine.studies import stages
from recombine.studies.memory import study_must_fit
from recombine.studies.sharing import share_out
from recombine.studies.spec import Study
from recombine.studies.store import Store

FOLDER = "ceilings"  # where such files are kept beside studies
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


@study_must_fit
def measure(study: Study, path: Path, store: Path, device: torch.device, seeds: int) -> Ceilings:
    """Fit, judge, and write the file `path`; what the store has is not made again, and processes with one store share
    out the work."""
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

    ceilings = stages.measure_ceilings(setting, judge, share_out(wanted, fit))
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
    return read(path)


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
    return folder.name == FOLDER and folder.is_dir() and all(path.suffix == ".json" for path in folder.iterdir())


def lines(found: Ceilings) -> list[list[str]]:
    """A line per tokenizer, and under it what the probe alone would have said."""
    from recombine.report.words import percent, span

    def text(cell: Interval) -> str:
        known = cell.low is not None and cell.high is not None and cell.low != cell.high
        ends = f" ({span(cell.low, cell.high)})" if known and cell.low is not None and cell.high is not None else ""
        return (percent(cell.mean) + ends).replace("\u00a0%)", ")")  # narrow

    rows = []
    for name, one in found.tokenizers.items():
        for label, word in ((name, "joint"), ("  probe alone", "joint_probe_only")):
            cells = [text(one.over(found.codes(level), word)) for level in sorted(set(found.levels.values()))]
            seen = {"all": "all", "train": "trained"}.get(one.sees or "", "–")
            rows.append([label, seen if word == "joint" else "", *cells])
    return rows
