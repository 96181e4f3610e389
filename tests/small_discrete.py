"""Small models of codes that the tests of the discrete controls share.

Some have few enough images of codes to list them all, so that they can be held against exact probabilities.
"""

import itertools
from collections.abc import Callable, Sequence

import pytest
import torch

from recombine.conditioning import ConditioningSettings
from recombine.generators.autoregressive import Autoregressive, AutoregressiveSettings
from recombine.generators.base import TokenShape
from recombine.generators.discrete_diffusion import DiscreteDiffusion, DiscreteDiffusionSettings
from recombine.generators.maskgit import MaskGIT, MaskGITSettings
from recombine.nets.backbone import Dimensions
from recombine.nets.layers import SeedStream
from recombine.randomness import Draws, seeds_tensor
from recombine.training import Trainer, TrainingData, TrainingSettings
from small import FACTORS, SHAPE, shake

Control = Autoregressive | DiscreteDiffusion | MaskGIT
ControlSettings = AutoregressiveSettings | DiscreteDiffusionSettings | MaskGITSettings
FAMILIES = {"autoregressive": Autoregressive, "discrete_diffusion": DiscreteDiffusion, "maskgit": MaskGIT}
TINY = TokenShape(grid=(1, 3), channels=4, codes=3)
# What is to be learned: how often each pair of four codes occurs among 100 training images.
PAIR = TokenShape(grid=(1, 2), channels=4, codes=4)
PAIRS = torch.tensor(list(itertools.product(range(4), repeat=2)))
COUNTS = torch.tensor([[2, 20, 2, 0], [0, 2, 14, 8], [16, 0, 2, 6], [4, 8, 0, 16]])  # first code down, second across


def codebook(codes: int = 16, channels: int = 4) -> torch.Tensor:
    return Draws(seeds_tensor([5]), "codebook").normal(codes, channels)[0]


def build(
    settings: ControlSettings, seeds: Sequence[int] = (0,), shape: TokenShape = SHAPE, drop_all: float = 0.1
) -> Control:
    family = FAMILIES[settings.kind]
    conditioning = ConditioningSettings(drop_all=drop_all)
    model = family(settings, shape, conditioning, FACTORS, Dimensions(2, 32, 2), SeedStream(seeds))
    if family is MaskGIT:
        model.use_codebook(codebook(shape.codes, shape.channels))
    return model


def shaken(settings: ControlSettings, shape: TokenShape = SHAPE, by: float = 0.1, **more: object) -> Control:
    return shake(build(settings, shape=shape, **more), by)


def opinionated(settings: ControlSettings) -> Control:
    """A shaken model of TINY to which the condition matters, and in which no image is rare."""
    model = shaken(settings, TINY, by=0.12)
    with torch.no_grad():
        for p in model.condition.parameters():
            p *= 20
        for p in model.backbone.head.parameters():
            p *= 0.2
    return model


def taught(settings: ControlSettings) -> Control:
    """A model of PAIR that was trained on COUNTS."""
    model = build(settings, shape=PAIR, drop_all=0.0)
    x = PAIRS.repeat_interleave(COUNTS.flatten(), dim=0)
    training = TrainingSettings(size="xs", steps=400, batch=128, warmup=20, rate=4e-3, schedule="cosine")
    Trainer(model, TrainingData(x, None, torch.zeros(len(x), 3)), training).run(400)
    return model


def watched(
    monkeypatch: pytest.MonkeyPatch, model: Control, answer: Callable[[torch.Tensor], torch.Tensor] | None = None
) -> list[torch.Tensor]:
    """Records the codes that the network is shown; `answer` of them stands in for its outputs."""
    seen, embed, run = [], model.inputs.forward, model.backbone.forward

    def look(ids: torch.Tensor) -> torch.Tensor:
        seen.append(ids)
        return embed(ids)

    monkeypatch.setattr(model.inputs, "forward", look)
    monkeypatch.setattr(model.backbone, "forward", lambda x, c: run(x, c) if answer is None else answer(seen[-1]))
    return seen


def shares(ids: torch.Tensor, codes: int) -> torch.Tensor:
    """How often each of all images of codes was drawn: ids (1, B, T) to (codes^T,)."""
    place = codes ** torch.arange(ids.shape[-1]).flip(0)
    return torch.bincount((ids[0] * place).sum(-1), minlength=codes ** ids.shape[-1]) / ids.shape[1]


def variation(p: torch.Tensor, q: torch.Tensor) -> float:
    """Total variation distance of two distributions."""
    return 0.5 * (p - q).abs().sum().item()
