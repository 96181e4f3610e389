"""The search behind the demo: which small setting shows a difference between MaskGIT and DiT in minutes on a CPU?

    python benchmarks/demo_search.py SETTINGS.json RESULTS.txt

SETTINGS.json is a list of settings, each a dictionary with the keys of `Trial`. Each is trained with seeds that the
demo does not use, so that nothing is tuned on what it reports, and judged by re-rendering alone: a sample counts if
the values read from it fall in the classes asked for and the defect is at most that of 99 % of the tokenizer's
reconstructions. (The calibrated judge of a study is stricter about ranges and also asks the probe.)
The results are in docs/demo-search.md.
"""

import json
import sys
import time
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from recombine.conditioning import ConditioningSettings, condition
from recombine.generators import TokenShape, build_generator
from recombine.generators.dit import DiTSettings
from recombine.generators.maskgit import MaskGITSettings
from recombine.judges.rerender import read
from recombine.nets.backbone import Dimensions
from recombine.randomness import Draws
from recombine.splits import HammingSplit, Split, make_split
from recombine.tokenizers import Tokenizer, VQVAESettings, fit_tokenizer
from recombine.training import Trainer, TrainingData, TrainingSettings
from recombine.worlds import Shapes2D, Shapes2DSettings, make_images

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SEEDS = range(100, 108)
SLACK = 1.5  # ranges of the classes widened by this share
SAMPLES = 64  # per composition


@dataclass(frozen=True)
class Trial:
    """One setting."""

    kind: str
    image_size: int = 12
    factor: int = 4
    codes: int = 64
    tokenizer_depth: int = 2
    tokenizer_steps: int = 2000
    roaming: float = 1.0
    conditioning: str = "quantized"
    depth: int = 4
    width: int = 64
    heads: int = 4
    rate: float = 4e-3
    batch: int = 64
    schedule: str = "constant"
    weight_decay: float = 0.01
    images: int = 2000
    evaluations: tuple[int, ...] = (1000, 2000)


@cache
def tokenizer_of(
    image_size: int, factor: int, codes: int, depth: int, steps: int, roaming: float
) -> tuple[Shapes2D, Split, Tokenizer, float]:
    """World, split, tokenizer and the defect that 99 % of its reconstructions stay under."""
    world = Shapes2D(Shapes2DSettings(image_size=image_size, roaming=roaming))
    split = make_split(HammingSplit(), [(factor.name, len(factor.values)) for factor in world.factors])
    images = make_images(world, split.compositions, 1000, 0, "tokenizer", DEVICE).images
    settings = VQVAESettings(factor=factor, codes=codes, channels=8, depth=depth, steps=steps)
    tokenizer, _ = fit_tokenizer(settings, images, 0)
    fresh = make_images(world, split.compositions, 128, 0, "check", DEVICE).images
    rebuilt = tokenizer.decode(tokenizer.encode(fresh).mean)
    limit = max(float(read(world, fresh).error.quantile(0.995)), float(read(world, rebuilt).error.quantile(0.99)))
    return world, split, tokenizer, limit


def run(trial: Trial) -> tuple[list[tuple[int, list[Tensor]]], float]:
    """Per evaluation the shares right at each level, (M,) each; and milliseconds per step of all members."""
    world, split, tokenizer, limit = tokenizer_of(
        trial.image_size, trial.factor, trial.codes, trial.tokenizer_depth, trial.tokenizer_steps, trial.roaming
    )
    conditioning = ConditioningSettings(kind=trial.conditioning)
    settings = DiTSettings(sampling_steps=25) if trial.kind == "dit" else MaskGITSettings(sampling_steps=8)
    shape = TokenShape(tokenizer.grid, tokenizer.channels, tokenizer.codes)
    dimensions = Dimensions(trial.depth, trial.width, trial.heads)
    generator = build_generator(settings, shape, conditioning, world.factors, dimensions, list(SEEDS)).to(DEVICE)
    images = make_images(world, split.train, trial.images, 0, "training", DEVICE)
    tokens = tokenizer.encode(images.images)
    told = condition(world, conditioning.kind, images.labels, images.values)
    x = tokens.ids if generator.takes == "ids" else tokens.mean
    training = TrainingSettings(
        size="xs",
        rate=trial.rate,
        batch=trial.batch,
        steps=trial.evaluations[-1],
        schedule=trial.schedule,
        weight_decay=trial.weight_decay,
        precision="float32",
    )
    trainer = Trainer(generator, TrainingData(x, None, told), training)
    labels = torch.tensor(split.compositions, device=DEVICE).repeat_interleave(SAMPLES, 0)
    asked = condition(world, conditioning.kind, labels, world.canonical(labels))
    curve, seconds = [], 0.0
    for stop in trial.evaluations:
        started = time.perf_counter()
        trainer.run(stop - trainer.steps_done)
        trainer.take_mean_loss(1)  # waits for the device
        seconds += time.perf_counter() - started
        with trainer.averaged():
            drawn = generator.sample(asked.expand(len(SEEDS), -1, -1), Draws(trainer.seeds, "evaluation", trainer.step))
        latents = tokenizer.embed(drawn) if generator.takes == "ids" else drawn
        reading = read(world, tokenizer.decode(latents.flatten(0, 1)))
        named = (world.classify(reading.values, SLACK) == labels.repeat(len(SEEDS), 1)).all(1)
        right = (named & (reading.error <= limit)).float().view(len(SEEDS), -1, SAMPLES).mean(-1)  # (M, K)
        places = [[i for i, c in enumerate(split.compositions) if split.level(c) == level] for level in range(3)]
        curve.append((stop, [right[:, place].mean(1) for place in places]))
    return curve, 1000 * seconds / trainer.steps_done


def main(settings: Path, results: Path) -> None:
    lines = []
    for words in json.loads(settings.read_text()):
        trial = Trial(**{key: tuple(value) if isinstance(value, list) else value for key, value in words.items()})
        curve, milliseconds = run(trial)
        changed = {f.name: getattr(trial, f.name) for f in fields(Trial) if getattr(trial, f.name) != f.default}
        points = [
            f"{step}: " + "/".join(f"{100 * level.mean():.0f}" for level in levels)
            + f" (sd {100 * levels[1].std():.0f}, {100 * levels[2].std():.0f})"
            for step, levels in curve
        ]  # fmt: skip
        lines.append(f"{json.dumps(changed)} | {'  '.join(points)} | {milliseconds:.1f} ms per step")
        print(lines[-1], flush=True)
        results.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
