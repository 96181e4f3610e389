"""A small VAE (Kingma and Welling 2014): each token is a Gaussian with diagonal covariance."""

from typing import Literal

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from recombine.nets.convs import Decoder, Encoder
from recombine.randomness import Draws
from recombine.settings import Settings
from recombine.tokenizers.base import Tokenizer, Tokens, to_grid, to_tokens

LOG_VARIANCES = (-20.0, 10.0)  # clamp; wide enough that a trained posterior stays inside


class VAESettings(Settings):
    """Size, loss and training of a VAE."""

    kind: Literal["vae"] = Field(
        default="vae", description="a small convolutional VAE: a token is a few continuous numbers"
    )
    factor: int = Field(4, ge=1, le=64, description="pixels a side that one token stands for")
    channels: int = Field(8, ge=1, le=512, description="numbers per token")
    width: int = Field(64, ge=8, le=1024, description="channels of the convolutions")
    depth: int = Field(2, ge=0, le=16, description="residual blocks in the encoder, and in the decoder")
    beta: float = Field(
        3e-4,
        ge=0.0,
        le=100.0,
        description="weight of the KL divergence. Both terms of the loss are sums over one image (squared error; nats) "
        "divided by its 3*P*P pixel values, so beta is 2 s^2 where s is the pixel noise that the decoder is granted",
    )
    steps: int = Field(2500, ge=1, le=10_000_000, description="training steps")
    batch: int = Field(16, ge=1, le=65536, description="images per step")
    rate: float = Field(1e-2, gt=0.0, le=1.0, description="peak learning rate of AdamW")
    sees: Literal["all", "train"] = Field("all", description="fitted on every composition, or on the trained ones only")


class VAE(Tokenizer):
    kind = "vae"

    def __init__(self, settings: VAESettings, image_size: int, colours: int):
        super().__init__(image_size, settings.factor, settings.channels)
        self.beta = settings.beta
        self.encoder = Encoder(colours, settings.factor, settings.width, settings.depth, 2 * settings.channels)
        self.decoder = Decoder(colours, settings.factor, settings.width, settings.depth, settings.channels)

    def moments(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of the posterior, both (N, T, C)."""
        mean, log_variance = to_tokens(self.encoder(images)).chunk(2, dim=-1)
        return mean, log_variance.clamp(*LOG_VARIANCES)

    def analyse(self, images: Tensor) -> Tokens:
        mean, log_variance = self.moments(images)
        return Tokens(mean, (0.5 * log_variance).exp(), None)

    def synthesise(self, raw: Tensor) -> Tensor:
        return self.decoder(to_grid(raw, self.grid))

    def loss(self, images: Tensor, draws: Draws, progress: float) -> dict[str, Tensor]:
        mean, log_variance = self.moments(images)
        raw = mean + (0.5 * log_variance).exp() * draws.normal(*mean.shape)[0]
        squared_error = F.mse_loss(self.synthesise(raw), images)
        divergence = gaussian_kl(mean, log_variance).sum() / images.numel()
        return {
            "loss": squared_error + self.beta * divergence,
            "squared_error": squared_error,
            "kl_per_pixel_value": divergence,
        }


def gaussian_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL( N(mean, variance) || N(0, 1) ) in nats, element by element."""
    return 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance)
