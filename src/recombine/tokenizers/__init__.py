"""Tokenizers: images to tokens of unit scale and back."""

from recombine.tokenizers.base import Tokenizer, Tokens
from recombine.tokenizers.fitting import TokenizerSettings, build_tokenizer, check_fits, fit_tokenizer
from recombine.tokenizers.pixels import Pixels, PixelsSettings
from recombine.tokenizers.vae import VAE, VAESettings
from recombine.tokenizers.vqvae import VQVAE, VQVAESettings

__all__ = [
    "VAE",
    "VQVAE",
    "Pixels",
    "PixelsSettings",
    "Tokenizer",
    "TokenizerSettings",
    "Tokens",
    "VAESettings",
    "VQVAESettings",
    "build_tokenizer",
    "check_fits",
    "fit_tokenizer",
]
