"""How long a study will take on this machine, and how much memory: from a few steps of each of its parts.

Each tokenizer and each arm is built as it will be and run for a moment; what it takes is scaled to the whole. Nothing
is kept. What other work the machine does meanwhile, now or later, no forecast knows.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from recombine.judges import Judge, build_probe
from recombine.judges.probe import initialise
from recombine.out_of_memory import in_batches
from recombine.peak_memory import begin_peak, peak_memory
from recombine.progress import track
from recombine.randomness import seeds_tensor
from recombine.studies.arms import evaluate, make_quality, make_trainer, measures_quality, setting_of
from recombine.studies.inside import Inside, has_monitors
from recombine.studies.memory import Seeds, study_must_fit, timed_in_parts
from recombine.studies.rendering import RenderingArm
from recombine.studies.spec import AnyStudy, Arm, RenderingStudy
from recombine.studies.stages import (
    SHARED_SEED,
    TOKENIZER_IMAGES,
    FittedTokenizer,
    Setting,
    open_setting,
    seen_compositions,
)
from recombine.studies.store import Store
from recombine.tokenizers import Tokenizer, TokenizerSettings, fit_tokenizer
from recombine.training import Trainer
from recombine.worlds import make_images

PROBE_AND_JUDGE = 8.0  # seconds; they depend little on the study
MOMENT = 0.5  # seconds of steps that are timed
SLOW = 1.0  # seconds of a step from which it is timed once: what the first steps cost more does not matter there


@dataclass(frozen=True)
class Forecast:
    """Seconds of each part by name, and the most memory in use at once, in bytes (`peak_memory`); None where members
    were timed alone, or no system tells."""

    seconds: dict[str, float]
    memory: int | None

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


@study_must_fit
def forecast(
    study: AnyStudy, device: torch.device, kept: Collection[str] = (), reused: Collection[str] = ()
) -> Forecast:
    """What `run_study` will take. Of a study of generators without the arms `kept`, which a store has together with the
    judge, whose recipe has all tokenizers; and without `reused`, of which finished studies have the tables alone."""
    begin_peak(device)
    if isinstance(study, RenderingStudy):
        return _rendering(study, device)
    with TemporaryDirectory() as folder:
        setting = open_setting(study, Store(Path(folder)), device)
        seconds = {} if kept else {"probe and judge": PROBE_AND_JUDGE}
        probe = build_probe(setting.world, device).eval().requires_grad_(False)
        initialise(probe, seeds_tensor([SHARED_SEED], device))  # its features must be numbers, if not meaningful ones
        judge = Judge(setting.world, probe, 0.05, 0.1)
        fitted: list[FittedTokenizer] = []
        timed: dict[str, tuple[float, int]] = {}
        judged: dict[str, float] = {}
        left = {name: arm for name, arm in study.arms.items() if name not in kept}
        with track(len(left), "timing a few steps") as advance:
            for name, arm in left.items():
                entry = next((one for one in fitted if one.settings == arm.tokenizer), None)
                if entry is None:
                    entry, took = _tokenizer(setting, arm.tokenizer)
                    same = 1 + sum(one.settings.kind == arm.tokenizer.kind for one in fitted)
                    fitted.append(entry)
                    if not kept:
                        seconds[f"tokenizer {arm.tokenizer.kind}{f'-{same}' if same > 1 else ''}"] = took
                if name in reused:
                    advance(note=name)
                    continue
                kind = _kind_of_work(arm)
                if kind not in timed:
                    timed[kind] = timed_in_parts(name, study.seeds, partial(_arm, setting, arm, entry, judge, judged))
                took, together = timed[kind]
                seconds[named_arm(name, together, study.members)] = took
                advance(note=name)
    alone = study.members > 1 and any(_costs_alone(arm, device) for arm in left.values())
    return Forecast(seconds, None if alone else peak_memory(device))


def _kind_of_work(arm: Arm) -> str:
    """The settings that an arm's time depends on, or may depend on: arms that differ in others alone (a rate, a weight,
    what a loss is counted on) take as long, and one of them is timed."""
    training = arm.training.model_dump(include={"size", "steps", "batch", "images", "compositions", "precision"})
    conditioning = arm.conditioning.model_dump(exclude={"dropout", "spread"})
    generator = arm.generator.model_dump(exclude={"smoothing", "loss_on", "choice_temperature", "temperature"})
    jepa = None if arm.jepa is None else arm.jepa.model_dump(exclude={"weight", "momentum", "momentum_end"})
    return repr((arm.tokenizer, training, conditioning, generator, jepa))


def _costs_alone(arm: Arm, device: torch.device) -> bool:
    """Whether members cost what each costs alone, so that one is timed for all: a CPU is full with one that is not
    tiny. On two cores eight of size s or b would take minutes for a single step."""
    return device.type != "cuda" and arm.training.size != "xs"


def _rendering(study: RenderingStudy, device: torch.device) -> Forecast:
    """The same of a study of decoders: the steps of each arm are timed, one judgement of its plane, and the measures
    taken afterwards."""
    from recombine.studies import bridge

    seconds = {}
    measured: dict[str, float] = {}  # by what is measured: arms that differ in their data alone take the same
    fitted: list[tuple[RenderingArm, Tokenizer]] = []
    for name, arm in study.arms.items():
        plane = arm.plane()
        alike = (arm.world, arm.support, arm.tokenizer, arm.data.stripes > 0)
        tokenizer = next(
            (one for a, one in fitted if (a.world, a.support, a.tokenizer, a.data.stripes > 0) == alike), None
        )
        if arm.tokenizer is not None and tokenizer is None:
            sees = getattr(arm.tokenizer, "sees", "all")
            entry, took = _fitted(arm.tokenizer, bridge.seen_images(arm, plane.to(device), sees == "train"))
            tokenizer = entry.tokenizer
            same = 1 + sum(a.tokenizer is not None and a.tokenizer.kind == arm.tokenizer.kind for a, _ in fitted)
            fitted.append((arm, tokenizer))
            seconds[f"tokenizer {arm.tokenizer.kind}{f'-{same}' if same > 1 else ''}"] = took
        took, together = timed_in_parts(name, study.seeds, partial(_decoders, study, arm, tokenizer, device))
        seconds[named_arm(name, together, study.members)] = took
        if study.measures != "none":
            same_look = str((arm.world, arm.encoding, arm.decoder, arm.support))
            if same_look not in measured:
                measured[same_look] = _measuring(study, name, arm, device)
            seconds[f"measuring {name}"] = measured[same_look]
    return Forecast(seconds, peak_memory(device))


def _decoders(
    study: RenderingStudy, arm: RenderingArm, tokenizer: Tokenizer | None, device: torch.device, seeds: Seeds
) -> float:
    """Seconds of training and judging these members of an arm."""
    from recombine.studies import rendering_run

    plane, code = arm.plane(), arm.code()
    trainer = rendering_run.make_trainer(arm, seeds, plane, code, device, tokenizer)
    plane = plane.to(device)
    step = _step_time(trainer, device)
    # On a CPU few samples of each cell are timed and scaled up; a GPU must see them all to be filled.
    samples = study.judging.samples if device.type == "cuda" or tokenizer is None else 1

    def judging() -> object:
        return rendering_run.judge(rendering_run.draw(trainer, tokenizer, code(plane.cells), samples), plane)

    once = _timed(judging, device) * (1 if tokenizer is None else study.judging.samples / samples)
    return step * arm.training.steps + once * (study.judging.evaluations + 2)


def _measuring(study: RenderingStudy, name: str, arm: RenderingArm, device: torch.device) -> float:
    """Seconds of measuring an arm: untrained decoders' pictures, and the layers of one member for each of all members.
    In place of a generator's samples the true pictures are measured. Where members do not fit together, the tries are
    timed too: the run will make them."""
    from recombine.nets.decoders import build_decoder
    from recombine.studies.bridge_measures import measure_samples
    from recombine.studies.rendering_measures import measurable, measure_inside, measure_outputs, solo, some_of
    from recombine.studies.rendering_run import OpenedArm, judge

    plane, code, inside = arm.plane().to(device), arm.code(), study.measures == "all"
    opened: OpenedArm | None = None
    if arm.decoder is not None:
        opened = OpenedArm(build_decoder(arm.decoder, code.widths, arm.world.image_size, study.seeds), code, plane)

    def pictures(members: range) -> object:
        if opened is not None:
            return measure_outputs(arm, some_of(arm, opened, members), inside)
        samples = plane.images[None, :, None].expand(len(members), -1, study.judging.samples, -1, -1)
        return measure_samples(samples, judge(samples, plane), plane, inside)

    with measurable(name):
        seconds = _timed(lambda: in_batches(pictures, range(study.members), study.members), device)
        if opened is not None and inside and plane.cells.shape[1] > 1:
            one = opened
            seconds += study.members * _timed(lambda: measure_inside(arm, solo(arm, one, 0)), device)
    return seconds


def _step_time(trainer: Trainer, device: torch.device) -> float:
    """Seconds of one step of all members."""
    trainer.run(1)
    first = _timed(lambda: trainer.run(1), device)
    if first > SLOW:
        return first
    trainer.run(3)
    first = _timed(lambda: trainer.run(2), device) / 2
    count = min(max(2, round(MOMENT / max(first, 1e-4))), 200)
    return _timed(lambda: trainer.run(count), device) / count


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
    return _fitted(settings, images)


def _fitted(settings: TokenizerSettings, images: Tensor) -> tuple[FittedTokenizer, float]:
    """The same on images (N, colours, P, P)."""
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


def named_arm(name: str, together: int, members: int) -> str:
    """The part of a forecast that is an arm's training."""
    return f"arm {name}" + (f", {together} member{'s' * (together > 1)} at a time" if together < members else "")


def _arm(
    setting: Setting, arm: Arm, entry: FittedTokenizer, judge: Judge, judged: dict[str, float], seeds: Seeds
) -> float:
    """Seconds of training and judging these members of an arm; `judged` keeps what judging takes by what it depends
    on."""
    if len(seeds) > 1 and _costs_alone(arm, setting.device):
        return len(seeds) * _arm(setting, arm, entry, judge, judged, seeds[:1])
    setting = setting_of(replace(setting, study=setting.study.model_copy(update={"seeds": seeds})), arm)
    trainer = make_trainer(setting, arm, entry)
    step = _step_time(trainer, setting.device)
    kind = repr((len(seeds), arm.training.size, arm.tokenizer, arm.conditioning, arm.generator))
    if kind not in judged:
        judged[kind] = _judging(setting, arm, entry, judge, trainer, slow=step > SLOW)
    return step * arm.training.steps + judged[kind]


def _judging(setting: Setting, arm: Arm, entry: FittedTokenizer, judge: Judge, trainer: Trainer, slow: bool) -> float:
    """Seconds of all evaluations of an arm, with what is measured inside the models and of the pictures' quality.

    On a CPU a few samples of each composition are timed and scaled up; a GPU must see them all to be filled.
    """
    judging, device = setting.study.judging, setting.device
    samples = judging.samples if device.type == "cuda" else min(judging.samples, 4 if slow else 32)
    few = replace(
        setting, study=setting.study.model_copy(update={"judging": judging.model_copy(update={"samples": samples})})
    )
    if not slow:
        evaluate(few, arm, entry, judge, trainer)  # the first is slower
    drawn: list[Tensor] = []
    once = _timed(lambda: drawn.append(evaluate(few, arm, entry, judge, trainer)[2]), device)
    seconds = once * judging.evaluations * judging.samples / samples
    if has_monitors(trainer.generator):
        inside = Inside(setting, arm, entry, trainer.generator.takes)
        seconds += _timed(lambda: inside.look(trainer), device) * judging.evaluations
    if measures_quality(setting, last=True):
        begun = time.perf_counter()
        quality = make_quality(few, arm, entry, judge)
        seconds += time.perf_counter() - begun
        times = judging.evaluations if judging.quality == "every" else 1
        seconds += _timed(lambda: quality.look(drawn[0], 0), device) * times * judging.samples / samples
    return seconds
