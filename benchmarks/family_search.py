"""The search for settings: with which does a family draw the compositions it was trained on, and what of the others?

    python benchmarks/family_search.py TRIALS.json RESULTS.txt

TRIALS.json is a list of trials. A trial has words of a study file (world, split, tokenizer, conditioning, generator,
training), each laid over DEFAULTS, and of its own:

    evaluations  steps at which its samples are judged; the last ends the training
    sampling     list of changed words of the generator, such as {"temperature": 0.9}: every one is drawn and judged at
                 the last evaluation, from the same trained weights, since training is the dear part
    dimensions   [depth, width, heads] of a backbone that no size has
    judge        "study": the judge a study with this tokenizer would have; "rerender": re-rendering alone, as in
                 docs/demo-search.md

All members of a trial are trained at once, with seeds that the studies of the library do not use, so that nothing is
tuned on what they report. Tokenizers, probe and judge are made as in a study, once for all trials that share them. A
trial is written to RESULTS.txt when it is finished: a time limit loses no more than the one at work.
"""

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recombine.conditioning import condition
from recombine.errors import UserError
from recombine.generators import Generator, build_generator, check_generator
from recombine.generators.givt import GIVT
from recombine.judges import Judge, Verdicts
from recombine.judges.rerender import paintable, read
from recombine.nets.backbone import SIZES, Dimensions
from recombine.randomness import Draws
from recombine.studies.arms import DATA_SEED, draw_images
from recombine.studies.spec import Arm, Study, make_study
from recombine.studies.stages import (
    FittedTokenizer,
    Setting,
    calibrate_judge,
    fit_tokenizers,
    open_setting,
    ready,
    token_shape,
    train_probe,
    training_data,
)
from recombine.studies.store import Store
from recombine.tokenizers import Tokenizer
from recombine.training import Trainer
from recombine.worlds import World, make_images

DEFAULTS: dict[str, dict[str, Any]] = {  # those of the study ladder-xs; float32, which is what a CPU trains in
    "world": {"kind": "shapes2d", "image_size": 12},
    "split": {"kind": "hamming"},
    "tokenizer": {"kind": "vqvae", "factor": 4, "codes": 64, "channels": 8, "steps": 2000},
    "conditioning": {"kind": "full"},
    "generator": {},
    "training": {"size": "xs", "steps": 1500, "batch": 64, "schedule": "cosine", "precision": "float32"},
}
OWN_WORDS = {"evaluations", "sampling", "dimensions", "judge"}
# Words of generators that change how a trained model is drawn from and nothing else.
SAMPLING_WORDS = {"sampling_steps", "head_steps", "choice_temperature", "temperature", "order", "roll", "guidance"}
SAMPLES = 64  # per composition and member
SLACK = 1.5  # judge "rerender": ranges of the classes widened by this share


@dataclass(frozen=True)
class Trial:
    """One setting, complete and checked."""

    words: Mapping[str, Any]  # as written in the file
    study: Study  # of one arm
    evaluations: tuple[int, ...]
    sampling: tuple[tuple[Mapping[str, Any], Any], ...]  # (changed words, settings of the generator), unchanged first
    dimensions: Dimensions
    judge: str

    @property
    def arm(self) -> Arm:
        return self.study.arms["trial"]


def read_trial(words: Mapping[str, Any], seeds: Sequence[int], steps: int | None) -> Trial:
    """The trial that these words describe; UserError or ValueError if they make no sense. `steps` cuts it short."""
    unknown = set(words) - set(DEFAULTS) - OWN_WORDS
    if unknown:
        raise UserError(
            f"A trial has no word {sorted(unknown)[0]!r}: use {', '.join([*DEFAULTS, *sorted(OWN_WORDS)])}."
        )
    parts = {part: _laid_over(words.get(part, {}), default) for part, default in DEFAULTS.items()}
    evaluations = tuple(words.get("evaluations", ())) or (parts["training"]["steps"],)
    if steps is not None:
        evaluations = tuple(stop for stop in evaluations if stop < steps) + (steps,)
    parts["training"]["steps"] = evaluations[-1]
    if list(evaluations) != sorted(set(evaluations)):
        raise UserError(f"evaluations must rise: {list(evaluations)} do not.")
    study = make_study(
        {"name": "search", "question": "Does it draw?", "seeds": list(seeds), "arms": {"trial": {}}, **parts}
    )
    arm = study.arms["trial"]
    dimensions = Dimensions(*words["dimensions"]) if "dimensions" in words else SIZES[arm.training.size]
    judge = words.get("judge", "study")
    if judge not in ("study", "rerender"):
        raise UserError(f"There is no judge {judge!r}: use study or rerender.")
    variants = [{}, *words.get("sampling", ())]
    return Trial(words, study, evaluations, tuple((v, _varied(arm, v)) for v in variants), dimensions, judge)


def _laid_over(words: str | Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    """The default with these words changed; a word of another kind starts from that kind's own defaults."""
    words = {"kind": words} if isinstance(words, str) else words
    return {**default, **words} if words.get("kind", default.get("kind")) == default.get("kind") else dict(words)


def _varied(arm: Arm, words: Mapping[str, Any]) -> Any:
    """The arm's generator settings with these sampling words changed."""
    trained = set(words) - SAMPLING_WORDS
    if trained:
        raise UserError(f"{sorted(trained)[0]!r} changes the training: make it a trial of its own.")
    settings = type(arm.generator).model_validate({**arm.generator.model_dump(), **words})
    check_generator(settings, getattr(arm.tokenizer, "codes", None), arm.conditioning)
    return settings


class Rerender(Judge):
    """The judge of docs/demo-search.md: no probe, and no defect worse than 99 % of reconstructions have."""

    def __init__(self, world: World, tokenizer: Tokenizer, setting: Setting):
        self.world = paintable(world)
        fresh = make_images(world, setting.split.compositions, 128, 0, "check", setting.device).images
        rebuilt = tokenizer.decode(tokenizer.encode(fresh).mean)
        errors = read(self.world, fresh).error.quantile(0.995), read(self.world, rebuilt).error.quantile(0.99)
        self.threshold = float(max(errors))

    @torch.no_grad()
    def judge(self, images: Tensor, labels: Tensor) -> Verdicts:
        reading = read(self.world, images)
        right = self.world.classify(reading.values, SLACK) == labels
        valid = reading.error <= self.threshold
        return Verdicts(right, torch.ones_like(valid), valid, valid, valid & right.all(1), right.all(1))


class Search:
    """What the trials share: the device, and everything made before the generators."""

    def __init__(self, folder: Path):
        self.store = Store(folder)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.shared = cache(self._shared)  # by study without its generator and training

    def _shared(self, key: str, judge: str) -> tuple[Setting, FittedTokenizer, Judge]:
        setting = open_setting(Study.model_validate_json(key), self.store, self.device)
        fitted = fit_tokenizers(setting)
        entry = next(iter(fitted.values()))
        if judge == "rerender":
            return setting, entry, Rerender(setting.world, entry.tokenizer, setting)
        probe, _ = train_probe(setting)
        return setting, entry, calibrate_judge(setting, probe, fitted)[0]

    def prepare(self, trial: Trial) -> tuple[Setting, FittedTokenizer, Judge]:
        """World, split, tokenizer and judge of a trial."""
        words = trial.study.resolved()
        # Any generator and training will do here: none of the three depends on them.
        words["arms"] = {"trial": {"tokenizer": words["arms"]["trial"]["tokenizer"], "generator": {"kind": "dit"}}}
        return self.shared(json.dumps(words, sort_keys=True), trial.judge)

    def run(self, trial: Trial) -> list[str]:
        """Train all members; one line for each way of sampling, the first of them with all evaluations."""
        setting, entry, judge = self.prepare(trial)
        arm, seeds = trial.arm, trial.study.seeds

        def build(settings: Any) -> Generator:
            shape = token_shape(entry.tokenizer)
            built = build_generator(
                settings, shape, arm.conditioning, setting.world.factors, trial.dimensions, list(seeds)
            )
            return ready(built, entry.tokenizer, self.device)

        generator = build(arm.generator)
        images = make_images(
            setting.world, setting.split.train, arm.training.images, DATA_SEED, "training", self.device
        )
        data = training_data(setting.world, entry.tokenizer, arm.conditioning, images, generator.takes)
        trainer = Trainer(generator, data, arm.training)
        points: list[list[str]] = [[] for _ in trial.sampling]
        seconds = 0.0
        for stop in trial.evaluations:
            started, before = time.perf_counter(), trainer.steps_done
            trainer.run(stop - before)
            loss = statistics.mean(trainer.take_mean_loss(stop - before))  # waits for the device
            seconds += time.perf_counter() - started
            for place, (_, settings) in enumerate(trial.sampling):
                if place > 0 and stop < trial.evaluations[-1]:
                    continue
                # A model of its own for each: some settings are read when it is built.
                drawing = build(settings)
                load_average(drawing, trainer)
                point = f"{stop}: {evaluate(setting, trial, entry, judge, trainer, drawing, settings.guidance)}"
                points[place].append(point + (f", loss {loss:.3g}{monitors(drawing, trainer)}" if place == 0 else ""))
        timing = f"{1000 * seconds / trainer.steps_done:.1f} ms per step"
        own = json.dumps(
            {word: value for word, value in trial.words.items() if word not in ("sampling", "evaluations")}
        )
        return [
            f"{own} | {json.dumps(changed) if changed else 'as trained'} | {'; '.join(told)} | {timing}"
            for (changed, _), told in zip(trial.sampling, points, strict=True)
        ]


@torch.no_grad()
def load_average(generator: Generator, trainer: Trainer) -> None:
    """Give a generator the averaged weights of the one in training."""
    weights, trained = (dict(model.named_parameters()) for model in (generator, trainer.generator))
    if list(weights) != list(trained):
        raise UserError("The settings for sampling make another network than those for training.")
    with trainer.averaged():
        for name, weight in weights.items():
            weight.copy_(trained[name])
    generator.dtype = trainer.generator.dtype


def evaluate(
    setting: Setting,
    trial: Trial,
    entry: FittedTokenizer,
    judge: Judge,
    trainer: Trainer,
    generator: Generator,
    guidance: float,
) -> str:
    """Percent right and valid at each level, mean and standard deviation over members; and for trained compositions
    what is valid whatever it shows, named right whatever it looks like, and how far apart the pictures of a composition
    are, as a share of real ones' distance: a sampler may be right because it always draws the same. For the farthest
    level, which factors are named right."""
    compositions = setting.split.compositions
    labels = torch.tensor(compositions, device=setting.device).repeat_interleave(SAMPLES, 0)
    cond = condition(setting.world, trial.arm.conditioning.kind, labels, setting.world.canonical(labels))
    members = len(trainer.seeds)
    started = time.perf_counter()
    images = draw_images(generator, entry, cond, trainer, guidance)
    float(images.sum())  # waits for the device
    seconds = time.perf_counter() - started
    verdicts = judge.judge(images.flatten(0, 1), labels.repeat(members, 1))

    def percent(of: Tensor, level: int) -> tuple[float, float]:
        places = [place for place, c in enumerate(compositions) if setting.split.level(c) == level]
        each = 100 * of.float().view(members, len(compositions), SAMPLES)[:, places].mean((1, 2)).cpu()
        return float(each.mean()), float(each.std()) if members > 1 else math.nan

    levels = [percent(verdicts.joint, level) for level in range(setting.split.deepest + 1)]
    right = " / ".join(f"{mean:.0f}" for mean, _ in levels)
    spread = ", ".join(f"{deviation:.0f}" for _, deviation in levels)
    valid, named = percent(verdicts.valid, 0)[0], percent(verdicts.joint_probe_only, 0)[0]
    fresh = make_images(setting.world, compositions, SAMPLES, 0, "check", setting.device).images
    trained = [place for place, c in enumerate(compositions) if setting.split.level(c) == 0]

    def apart(pictures: Tensor) -> float:
        """Mean distance of two pictures of one trained composition; `pictures` (K * n, 3, P, P)."""
        each = pictures.view(len(compositions), SAMPLES, -1)[trained]
        return float(torch.cdist(each, each).sum((1, 2)).mean()) / (SAMPLES * (SAMPLES - 1))

    diverse = statistics.mean(apart(own) for own in images) / apart(fresh)
    told = f"trained: valid {valid:.0f}, named {named:.0f}, diverse {diverse:.2f}"
    factors = ", ".join(
        f"{factor.name} {percent(verdicts.right[:, place], setting.split.deepest)[0]:.0f}"
        for place, factor in enumerate(setting.world.factors)
    )
    return f"{right} (sd {spread}; {told}; farthest: named {factors}), sampled in {seconds:.2f} s"


def monitors(generator: Generator, trainer: Trainer) -> str:
    """What GIVT says of itself, on 512 training images: how far its densities have collapsed."""
    if not isinstance(generator, GIVT):
        return ""
    draws = Draws(trainer.seeds, "monitors", trainer.step)
    told = generator.monitors(*trainer.data.batch(draws, 512), draws)
    return f", NLL {float(told['held_out_nll'].mean()):.1f}, at floor {float(told['scales_at_floor'].mean()):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trials", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--members", type=int, default=8, help="seeds per trial")
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--steps", type=int, help="cut every trial short, to see that it runs")
    parser.add_argument("--store", type=Path, help="folder that keeps tokenizers, probes and judges for the next time")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.members)
    try:
        trials = [read_trial(words, seeds, options.steps) for words in json.loads(options.trials.read_text())]
    except (UserError, ValueError) as error:
        raise SystemExit(str(error)) from None
    with tempfile.TemporaryDirectory() as folder, options.results.open("a") as results:
        search = Search(options.store or Path(folder))
        for trial in trials:
            try:
                lines = search.run(trial)
            except UserError as error:  # a judge that is not fit, say: the next trial may have a better one
                lines = [f"{json.dumps(trial.words)} | {error}"]
            for line in lines:
                print(line, flush=True)
                print(line, file=results, flush=True)


if __name__ == "__main__":
    main()
