"""Small models and data that several tests share."""

from typing import TypeVar

import torch

from recombine.conditioning import ConditioningSettings
from recombine.generators import Generator, JepaSettings, TokenShape, build_generator
from recombine.generators.autoregressive import AutoregressiveSettings
from recombine.generators.discrete_diffusion import DiscreteDiffusionSettings
from recombine.generators.dit import DiTSettings
from recombine.generators.givt import GIVTSettings
from recombine.generators.mar import MARSettings
from recombine.generators.maskgit import MaskGIT, MaskGITSettings
from recombine.generators.regression import RegressionSettings
from recombine.nets.backbone import Dimensions
from recombine.randomness import Draws, seeds_tensor
from recombine.training import Trainer, TrainingData, TrainingSettings
from recombine.worlds.base import Factor

FACTORS = [
    Factor("shape", ("circle", "triangle"), 0),
    Factor("colour", ("red", "blue"), 3),
    Factor("size", ("large", "small"), 1),
]
SHAPE = TokenShape(grid=(3, 3), channels=4, codes=8)
Model = TypeVar("Model", bound=torch.nn.Module)
GENERATORS = {
    "dit-flow": DiTSettings(objective="flow", sampling_steps=6),
    "dit-ddpm": DiTSettings(objective="ddpm", sampling_steps=6),
    "dit-learned": DiTSettings(
        objective="ddpm", noise_levels=500, betas="literal", variance="learned", sampling_steps=6
    ),
    "mar-learned": MARSettings(variance="learned", head_steps=6, sampling_steps=3),
    "maskgit-arccos": MaskGITSettings(mask_law="arccos", sampling_steps=5),
    "mar": MARSettings(head_steps=6, sampling_steps=3),
    "mar-flow": MARSettings(head="flow", head_steps=6, sampling_steps=3),
    "regression": RegressionSettings(sampling_steps=5),
    "givt-masked": GIVTSettings(style="masked", sampling_steps=5),
    "givt-causal": GIVTSettings(style="causal"),
    "maskgit": MaskGITSettings(sampling_steps=5),
    "maskgit-halton": MaskGITSettings(order="halton", roll=True, sampling_steps=5),
    "maskgit-soft": MaskGITSettings(targets="soft", softness=0.3, sampling_steps=5),
    "autoregressive": AutoregressiveSettings(),
    "discrete-diffusion": DiscreteDiffusionSettings(sampling_steps=5),
    "maskgit-all": MaskGITSettings(loss_on="all", smoothing=0.1, sampling_steps=5),
}


def draws(step: int = 0, members: int = 1) -> Draws:
    return Draws(seeds_tensor(range(members)), "test", step)


def shake(model: Model, by: float = 0.1) -> Model:
    """Moves zero-initialised layers, so that a model really depends on its input."""
    with torch.no_grad():
        for p in model.parameters():
            p += by * torch.randn(p.shape, generator=torch.Generator().manual_seed(0))
    return model


def generator(
    name: str,
    seeds: list[int],
    conditioning: ConditioningSettings | None = None,
    jepa: JepaSettings | None = None,
) -> Generator:
    conditioning = conditioning or ConditioningSettings(dropout=0.1)
    model = build_generator(GENERATORS[name], SHAPE, conditioning, FACTORS, Dimensions(2, 32, 2), seeds, jepa)
    if isinstance(model, MaskGIT):
        model.use_codebook(Draws(seeds_tensor([7]), "codebook").normal(8, 4)[0])
    return model


def takes_latents(name: str) -> bool:
    """Whether the family of that name works on continuous tokens."""
    return generator(name, [0]).takes == "latents"


def data(name: str, images: int = 64) -> TrainingData:
    """Tokens that follow from the condition (plus noise), so that there is something to learn."""
    draws = Draws(seeds_tensor([99]), "test data")
    cond = draws.integers(2, images, 3)[0].float()
    if takes_latents(name):
        pattern = draws.normal(3, SHAPE.tokens, SHAPE.channels)[0]
        x = (
            torch.einsum("nf,ftc->ntc", cond * 2 - 1, pattern) * 0.5
            + 0.3 * draws.normal(images, SHAPE.tokens, SHAPE.channels)[0]
        )
        return TrainingData(x, None, cond)
    index = (cond @ torch.tensor([1.0, 2.0, 4.0])).long()
    ids = (index[:, None] + torch.arange(SHAPE.tokens)) % SHAPE.codes
    return TrainingData(ids, None, cond)


def trainer(name: str, seeds: list[int], jepa: JepaSettings | None = None, **settings: object) -> Trainer:
    chosen = {"size": "xs", "batch": 16, "steps": 50, "warmup": 10, "rate": 3e-3, **settings}
    return Trainer(generator(name, seeds, jepa=jepa), data(name), TrainingSettings(**chosen))
