"""The families: what is predicted, how it is scored, how it is drawn."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from recombine.conditioning import ConditioningSettings
from recombine.generators.autoregressive import Autoregressive, AutoregressiveSettings
from recombine.generators.base import Generator, TokenShape
from recombine.generators.discrete_diffusion import DiscreteDiffusion, DiscreteDiffusionSettings
from recombine.generators.dit import DiT, DiTSettings
from recombine.generators.givt import GIVT, GIVTSettings
from recombine.generators.mar import MAR, MARSettings
from recombine.generators.maskgit import MaskGIT, MaskGITSettings
from recombine.generators.regression import Regression, RegressionSettings
from recombine.nets.backbone import Dimensions
from recombine.nets.layers import SeedStream
from recombine.worlds.base import Factor

AnyGeneratorSettings = (
    DiTSettings
    | MARSettings
    | GIVTSettings
    | RegressionSettings
    | MaskGITSettings
    | AutoregressiveSettings
    | DiscreteDiffusionSettings
)
GeneratorSettings = Annotated[AnyGeneratorSettings, Field(discriminator="kind")]

_FAMILIES: dict[type[AnyGeneratorSettings], Any] = {
    DiTSettings: DiT,
    MARSettings: MAR,
    GIVTSettings: GIVT,
    RegressionSettings: Regression,
    MaskGITSettings: MaskGIT,
    AutoregressiveSettings: Autoregressive,
    DiscreteDiffusionSettings: DiscreteDiffusion,
}

__all__ = ["Generator", "GeneratorSettings", "TokenShape", "build_generator", "check_generator"]


def build_generator(
    settings: AnyGeneratorSettings,
    shape: TokenShape,
    conditioning: ConditioningSettings,
    factors: Sequence[Factor],
    dimensions: Dimensions,
    seeds: Sequence[int],
) -> Generator:
    """M = len(seeds) models of the family that `settings` names, with fresh weights."""
    family = _FAMILIES[type(settings)]
    built: Generator = family(settings, shape, conditioning, factors, dimensions, SeedStream(seeds))
    return built


def check_generator(settings: AnyGeneratorSettings, codes: int | None, conditioning: ConditioningSettings) -> None:
    """Raise ValueError where a generator cannot work with its tokenizer or its conditioning."""
    if _FAMILIES[type(settings)].takes == "ids" and codes is None:
        raise ValueError(f"{settings.kind} predicts codes, so its tokenizer must have a codebook: use tokenizer vqvae")
    if settings.guidance > 0 and conditioning.drop_all == 0:
        raise ValueError("guidance needs a model trained with all factors withheld at times: set drop_all (0.1, say)")
