"""How long a study will take on this machine, and how much GPU memory: from a few steps of each of its parts.

Each tokenizer and each arm is built as it will be and run for a moment; what it takes is scaled to the whole. Nothing
is kept. What other work the machine does meanwhile, now or later, no forecast knows.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from recombine.judges import Judge, build_probe
from recombine.studies.arms import evaluate, make_trainer
from recombine.studies.inside import Inside, has_monitors
from recombine.studies.spec import Arm, Study
from recombine.studies.stages import (
    SHARED_SEED,
    TOKENIZER_IMAGES,
    FittedTokenizer,
    Setting,
    open_setting,
    seen_compositions,
)
from recombine.studies.store import Store
from recombine.tokenizers import TokenizerSettings, fit_tokenizer
from recombine.worlds import make_images

PROBE_AND_JUDGE = 8.0  # seconds; they depend little on the study
MOMENT = 0.5  # seconds of steps that are timed


@dataclass(frozen=True)
class Forecast:
    """Seconds of each part by name, and the most GPU memory in use at once, in bytes."""

    seconds: dict[str, float]
    memory: int | None

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def forecast(study: Study, device: torch.device) -> Forecast:
    """What `run_study` will take from nothing."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with TemporaryDirectory() as folder:
        setting = open_setting(study, Store(Path(folder)), device)
        seconds = {"probe and judge": PROBE_AND_JUDGE}
        judge = Judge(setting.world, build_probe(setting.world, device).eval(), 0.05, 0.1)
        fitted: list[FittedTokenizer] = []
        for name, arm in study.arms.items():
            entry = next((one for one in fitted if one.settings == arm.tokenizer), None)
            if entry is None:
                entry, took = _tokenizer(setting, arm.tokenizer)
                fitted.append(entry)
                seconds[f"tokenizer {arm.tokenizer.kind}{f'-{len(fitted)}' if len(fitted) > 1 else ''}"] = took
            seconds[f"arm {name}"] = _arm(setting, arm, entry, judge)
    memory = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    return Forecast(seconds, memory)


def _timed(what: Callable[[], object], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    begun = time.perf_counter()
    what()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begun


def _tokenizer(setting: Setting, settings: TokenizerSettings) -> tuple[FittedTokenizer, float]:
    """A tokenizer fitted for a moment, and the seconds of fitting it in full."""
    compositions = seen_compositions(setting, settings)
    each = max(TOKENIZER_IMAGES // len(compositions), 50)
    images = make_images(setting.world, compositions, each, SHARED_SEED, "tokenizer", setting.device).images
    steps = getattr(settings, "steps", 0)
    if not steps:
        tokenizer, log = fit_tokenizer(settings, images, SHARED_SEED)
        return FittedTokenizer("", settings, {}, tokenizer, log), log["seconds"]
    few, more = (settings.model_copy(update={"steps": count}) for count in (4, 24))
    fit_tokenizer(few, images, SHARED_SEED)  # the first steps of all are slower
    short = fit_tokenizer(few, images, SHARED_SEED)[1]["seconds"]
    tokenizer, log = fit_tokenizer(more, images, SHARED_SEED)
    per_step = max(log["seconds"] - short, 0.0) / 20
    return FittedTokenizer("", settings, {}, tokenizer, log), short + per_step * steps


def _arm(setting: Setting, arm: Arm, entry: FittedTokenizer, judge: Judge) -> float:
    """Seconds of training and judging all members of an arm."""
    device = setting.device
    trainer = make_trainer(setting, arm, entry)
    trainer.run(5)
    first = _timed(lambda: trainer.run(2), device) / 2
    count = min(max(2, round(MOMENT / max(first, 1e-4))), 200)
    step = _timed(lambda: trainer.run(count), device) / count
    # On a CPU a few samples of each composition are timed and scaled up; a GPU must see them all to be filled.
    judging = setting.study.judging
    samples = judging.samples if device.type == "cuda" else min(judging.samples, 8)
    few = replace(
        setting, study=setting.study.model_copy(update={"judging": judging.model_copy(update={"samples": samples})})
    )
    evaluate(few, arm, entry, judge, trainer)
    evaluation = _timed(lambda: evaluate(few, arm, entry, judge, trainer), device) * judging.samples / samples
    if has_monitors(trainer.generator):
        inside = Inside(setting, arm, entry, trainer.generator.takes)
        evaluation += _timed(lambda: inside.look(trainer), device)
    return step * arm.training.steps + evaluation * judging.evaluations
