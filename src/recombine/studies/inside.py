"""What is measured inside the members of an arm at every evaluation: see monitors.ABOUT for each number in words.

Everything is measured on fresh images, with the averaged weights that are judged. Whether a layer knows a factor is
asked with a condition that does not tell it: each image is shown with the condition of some trained composition drawn
by lot, so that what a probe reads must come from the tokens.

Shapes: M members, N images, T tokens, D width, W condition columns.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recombine.anatomy import features as measure
from recombine.conditioning import condition
from recombine.generators import Generator, MaskedGenerator
from recombine.randomness import Draws, seeds_tensor
from recombine.studies.spec import Arm
from recombine.studies.stages import SHARED_SEED, FittedTokenizer, Setting, training_data
from recombine.training import Trainer, TrainingData
from recombine.worlds import Images, make_images

FIT_IMAGES = 1024  # in all, of trained compositions: what linear probes are fitted on
TEST_IMAGES = 256  # in all, per level
AT_ONCE = 128  # images per member in one pass

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Specimen:
    """Images of one kind, as a generator sees them."""

    data: TrainingData
    labels: Tensor  # (N, F)

    def __len__(self) -> int:
        return len(self.labels)

    def tokens(self) -> Tensor:
        """(N, T) or (N, T, C); of a VAE a draw from its posterior, as in training: one for all members and steps."""
        if self.data.spread is None:
            return self.data.x
        draws = Draws(seeds_tensor([SHARED_SEED], self.data.x.device), "monitors of a posterior")
        return self.data.x + self.data.spread * draws.normal(*self.data.x.shape)[0]


class Inside:
    """The images that an arm's members are looked at with, made once, and the looking."""

    def __init__(self, setting: Setting, arm: Arm, entry: FittedTokenizer, takes: str):
        self.setting, self.arm = setting, arm

        def specimen(compositions: list[tuple[int, ...]], total: int, purpose: str) -> Specimen:
            each = max(1, total // len(compositions))
            images: Images = make_images(
                setting.world, compositions, each, SHARED_SEED, f"monitors {purpose}", setting.device
            )
            data = training_data(setting.world, entry.tokenizer, arm.conditioning, images, takes)
            return Specimen(data, images.labels)

        self.fit = specimen(list(setting.split.train), FIT_IMAGES, "fit")
        levels = sorted(set(setting.split.levels.values()))
        self.test = {
            level: specimen(list(setting.split.at_level(level)), TEST_IMAGES, f"level {level}") for level in levels
        }
        labels = torch.tensor(setting.split.train, device=setting.device)
        self.trained_conditions = condition(
            setting.world, arm.conditioning.kind, labels, setting.world.canonical(labels)
        )

    @torch.no_grad()
    def look(self, trainer: Trainer) -> Rows:
        """The rows of one evaluation, without the study's and the arm's name."""
        with trainer.averaged():
            found = list(self._all(trainer))
        return [
            {
                "member": member,
                "seed": seed,
                "step": trainer.steps_done,
                "monitor": name,
                "layer": layer,
                "level": level,
                "value": value if math.isfinite(value) else None,  # a member that diverged
            }
            for name, layer, level, values in found
            for member, (seed, value) in enumerate(zip(self.setting.study.seeds, values.tolist(), strict=True))
        ]

    def _all(self, trainer: Trainer) -> Iterator[tuple[str, int | None, int | None, Tensor]]:
        """(monitor, layer, level, values (M,))."""
        generator = trainer.generator
        for level, specimen in self.test.items():
            draws = Draws(trainer.seeds, f"monitors {level}", trainer.step)
            for name, values in generator.monitors(*self._batch(specimen, trainer), draws).items():
                yield name, None, level, values
        cond = self._members(self.trained_conditions.repeat(AT_ONCE // len(self.trained_conditions) + 1, 1), trainer)
        draws = Draws(trainer.seeds, "monitors of sampling", trainer.step)
        for name, values in generator.sampling_monitors(cond, draws, self.arm.generator.guidance).items():
            yield name, None, None, values
        if not isinstance(generator, MaskedGenerator) or not generator.masks:
            return
        yield from self._features(generator, trainer)
        yield from self._probes(generator, trainer)
        if generator.jepa is not None:
            draws = Draws(trainer.seeds, "monitors of jepa", trainer.step)
            x, cond = self._batch(self.test[0], trainer)
            hidden, *pairs = generator.jepa_view(x, cond, draws)
            for layer, prediction, target in zip(generator.jepa.layers, *pairs, strict=True):
                yield "jepa_loss", layer, None, generator.jepa.error(prediction, target, hidden)
                yield "jepa_over_mean", layer, None, measure.against_position_mean(prediction, target, hidden)

    def _features(
        self, generator: MaskedGenerator, trainer: Trainer
    ) -> Iterator[tuple[str, int | None, int | None, Tensor]]:
        """Of fresh images of trained compositions, truly told and all shown: do they differ from image to image?

        Rank and spread are taken over all tokens less the mean of their position: positions differ in every model, and
        would hide that images do not.
        """
        x, cond = self._batch(self.test[0], trainer)
        layers = range(len(generator.backbone.blocks))
        parts = list(zip(x.split(AT_ONCE, 1), cond.split(AT_ONCE, 1), strict=True))
        for layer in layers:  # one at a time: all layers of all tokens would fill a small GPU
            state = torch.cat([generator(*part, None, (layer,))[0].float() for part in parts], dim=1)  # (M, N, T, D)
            tokens = measure.centred(state).flatten(1, 2)
            yield "rank_me", layer, None, measure.rank_me(tokens)
            yield "spread", layer, None, measure.spread(tokens)
            yield "least_spread", layer, None, measure.least_spread(tokens)
            yield "mean_cosine", layer, None, measure.mean_cosine(state.mean(2))

    def _probes(
        self, generator: MaskedGenerator, trainer: Trainer
    ) -> Iterator[tuple[str, int | None, int | None, Tensor]]:
        """What a linear probe, fitted on trained compositions, reads of every factor at every layer and level."""
        factors = self.setting.world.factors
        classes = [len(factor.values) for factor in factors]
        fit = self._pooled(generator, trainer, self.fit, "fit")
        for level, specimen in self.test.items():
            test = self._pooled(generator, trainer, specimen, f"level {level}")
            for layer, (known, unknown) in enumerate(zip(fit, test, strict=True)):
                right = measure.linear_probe(known, self.fit.labels, unknown, specimen.labels, classes)  # (M, F, N)
                for f, factor in enumerate(factors):
                    yield f"linear_{factor.name}", layer, level, right[:, f].double().mean(-1)

    def _pooled(self, generator: MaskedGenerator, trainer: Trainer, specimen: Specimen, name: str) -> list[Tensor]:
        """Mean over tokens of every layer's states, (M, N, D) each, under conditions drawn by lot."""
        draws = Draws(trainer.seeds, f"monitors of probes, {name}", 0)  # the same at every step: curves compare
        x, _ = self._batch(specimen, trainer)
        cond = self.trained_conditions[draws.integers(len(self.trained_conditions), len(specimen))]  # (M, N, W)
        layers = range(len(generator.backbone.blocks))
        parts = [
            [state.float().mean(2) for state in generator(*part, None, layers)]
            for part in zip(x.split(AT_ONCE, 1), cond.split(AT_ONCE, 1), strict=True)
        ]
        return [torch.cat([part[layer] for part in parts], dim=1) for layer in layers]

    def _batch(self, specimen: Specimen, trainer: Trainer) -> tuple[Tensor, Tensor]:
        """The same images for every member: tokens (M, N, ...) and conditions (M, N, W)."""
        return self._members(specimen.tokens(), trainer), self._members(specimen.data.cond, trainer)

    def _members(self, x: Tensor, trainer: Trainer) -> Tensor:
        return x.expand(len(trainer.seeds), *x.shape)


def has_monitors(generator: Generator) -> bool:
    """Whether there is anything to measure inside a generator."""
    return isinstance(generator, MaskedGenerator) or type(generator).monitors is not Generator.monitors
