"""The decoders of the forced-rendering study, each with a member axis."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from recombine.nets.decoders.base import Decoder
from recombine.nets.decoders.cnn import CNN, CNNSettings
from recombine.nets.decoders.coordinate import Coordinate, CoordinateSettings
from recombine.nets.decoders.lowrank import LowRank, LowRankSettings
from recombine.nets.decoders.mlp import MLP, MLPSettings
from recombine.nets.decoders.rotator import Rotator, RotatorSettings
from recombine.nets.decoders.transformer import Transformer, TransformerSettings
from recombine.nets.layers import SeedStream

AnyDecoder = CNNSettings | MLPSettings | TransformerSettings | CoordinateSettings | LowRankSettings | RotatorSettings
DecoderSettings = Annotated[AnyDecoder, Field(discriminator="kind")]

_DECODERS: dict[type[AnyDecoder], Any] = {
    CNNSettings: CNN,
    MLPSettings: MLP,
    TransformerSettings: Transformer,
    CoordinateSettings: Coordinate,
    LowRankSettings: LowRank,
    RotatorSettings: Rotator,
}

__all__ = ["AnyDecoder", "Decoder", "DecoderSettings", "LowRank", "build_decoder", "check_decoder"]


def check_decoder(settings: AnyDecoder, code_widths: tuple[int, ...], image_size: int) -> None:
    """ValueError where the code does not fit the decoder, or the image does not."""
    _DECODERS[type(settings)].check(settings, code_widths, image_size)


def build_decoder(settings: AnyDecoder, code_widths: tuple[int, ...], image_size: int, seeds: Sequence[int]) -> Decoder:
    """M = len(seeds) decoders with fresh weights; ValueError where the code does not fit."""
    check_decoder(settings, code_widths, image_size)
    decoder: Decoder = _DECODERS[type(settings)](settings, code_widths, image_size, SeedStream(seeds))
    return decoder
