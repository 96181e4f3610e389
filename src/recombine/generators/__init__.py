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
from recombine.generators.jepa import Jepa, JepaSettings, layers_of
from recombine.generators.mar import MAR, MARSettings
from recombine.generators.masked import MaskedGenerator
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

__all__ = [
    "Generator",
    "GeneratorSettings",
    "JepaSettings",
    "MaskedGenerator",
    "TokenShape",
    "build_generator",
    "check_generator",
    "check_jepa",
]


def build_generator(
    settings: AnyGeneratorSettings,
    shape: TokenShape,
    conditioning: ConditioningSettings,
    factors: Sequence[Factor],
    dimensions: Dimensions,
    seeds: Sequence[int],
    jepa: JepaSettings | None = None,
) -> Generator:
    """M = len(seeds) models of the family that `settings` names, with fresh weights."""
    family = _FAMILIES[type(settings)]
    stream = SeedStream(seeds)
    built: Generator = family(settings, shape, conditioning, factors, dimensions, stream)
    if jepa is not None:  # built last, so that the weights of the generator itself start as they would without it
        check_jepa(jepa, settings, dimensions.depth)
        assert isinstance(built, MaskedGenerator)
        built.jepa = Jepa(jepa, built, dimensions, stream)
    return built


def hides_tokens(family: type[Generator]) -> bool:
    """Whether a family predicts hidden tokens."""
    return issubclass(family, MaskedGenerator)


def check_jepa(jepa: JepaSettings, settings: AnyGeneratorSettings, depth: int) -> None:
    """Raise ValueError where a JEPA cannot be added to a generator with a backbone of `depth` blocks."""
    if not hides_tokens(_FAMILIES[type(settings)]) or getattr(settings, "style", "masked") != "masked":
        masked = [words.model_fields["kind"].default for words, family in _FAMILIES.items() if hides_tokens(family)]
        kind = settings.kind + (" in its causal style" if settings.kind == "givt" else "")
        raise ValueError(
            f"jepa predicts hidden tokens, and {kind} hides none: write jepa: null in this arm, or use one of "
            f"{', '.join(masked)}"
        )
    layers_of(jepa, depth)


def check_generator(settings: AnyGeneratorSettings, codes: int | None, conditioning: ConditioningSettings) -> None:
    """Raise ValueError where a generator cannot work with its tokenizer or its conditioning."""
    if _FAMILIES[type(settings)].takes == "ids" and codes is None:
        raise ValueError(f"{settings.kind} predicts codes, so its tokenizer must have a codebook: use tokenizer vqvae")
    if conditioning.missing != "unknown" and conditioning.dropout == 0:
        raise ValueError(
            f"missing {conditioning.missing} says what is told for a factor withheld by dropout, and dropout is 0: set "
            "dropout (0.1, say), or leave missing out"
        )
    if conditioning.withheld is not None and conditioning.dropout == 0:
        raise ValueError("withheld names factors for dropout, and dropout is 0: set dropout (0.1, say)")
    if settings.guidance > 0 and settings.guided == "together" and conditioning.drop_all == 0:
        raise ValueError("guidance needs a model trained with all factors withheld at times: set drop_all (0.1, say)")
    if settings.guidance > 0 and settings.guided == "each":
        if conditioning.dropout == 0:
            raise ValueError(
                "guided each needs a model trained with single factors withheld at times: set dropout (0.1, say)"
            )
        if conditioning.missing != "unknown":
            raise ValueError(
                f"guided each needs a model that is told when a factor is unknown, and missing {conditioning.missing} "
                "never tells it: use missing unknown"
            )
