"""Building and fitting a tokenizer: one plain loop for all kinds."""

import math
import time
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from recombine.allocator import keep_memory
from recombine.nets.convs import initialise
from recombine.out_of_memory import in_batches, must_fit
from recombine.progress import track
from recombine.randomness import Draws, seeds_tensor
from recombine.tokenizers.base import CHUNK, Tokenizer, exact
from recombine.tokenizers.pixels import Pixels, PixelsSettings
from recombine.tokenizers.vae import VAE, VAESettings
from recombine.tokenizers.vqvae import VQVAE, VQVAESettings

TokenizerSettings = Annotated[PixelsSettings | VAESettings | VQVAESettings, Field(discriminator="kind")]

WARM_UP = 0.05  # share of the steps
WEIGHT_DECAY = 1e-4
CLIP = 1.0
BETAS = (0.9, 0.95)


def check_fits(settings: TokenizerSettings, image_size: int) -> None:
    """ValueError with a plain sentence if images of this size do not divide into tokens."""
    name, factor = ("patch", settings.patch) if isinstance(settings, PixelsSettings) else ("factor", settings.factor)
    if image_size % factor:
        raise ValueError(
            f"The image size {image_size} is not a multiple of {name} {factor} of the {settings.kind} tokenizer: "
            f"choose a {name} that divides {image_size}."
        )


def build_tokenizer(settings: TokenizerSettings, image_size: int, channels: int = 3) -> Tokenizer:
    """An unfitted tokenizer for images (N, channels, image_size, image_size)."""
    check_fits(settings, image_size)
    match settings:
        case PixelsSettings():
            return Pixels(settings, image_size, channels)
        case VAESettings():
            return VAE(settings, image_size, channels)
        case VQVAESettings():
            return VQVAE(settings, image_size, channels)


def fit_tokenizer(settings: TokenizerSettings, images: Tensor, seed: int) -> tuple[Tokenizer, dict[str, Any]]:
    """A tokenizer fitted to these images (N, 3, P, P), on their device, and a log that can be written as JSON.

    Everything random follows from the seed: fitting twice on a CPU gives the same bits.
    """
    started = time.perf_counter()
    tokenizer = build_tokenizer(settings, images.shape[-1], images.shape[1])
    initialise(tokenizer, seed)
    tokenizer.to(images.device)
    log: dict[str, Any] = {}
    if not isinstance(settings, PixelsSettings):
        fix = "take a smaller tokenizer.batch, tokenizer.width or world.image_size"
        with must_fit(f"training the {settings.kind} tokenizer", fix):
            log |= _train(tokenizer, settings, images, seed)
    tokenizer.eval().requires_grad_(False)
    tokenizer.set_scale(images)
    log |= _reconstruction(tokenizer, images) | tokenizer.measure(images)
    log |= {"scale": tokenizer.scale.item(), "seconds": time.perf_counter() - started}
    return tokenizer, log


def _train(tokenizer: Tokenizer, settings: VAESettings | VQVAESettings, images: Tensor, seed: int) -> dict[str, Any]:
    """AdamW with warm-up and cosine decay to zero. Returns the losses averaged over the last tenth of the steps."""
    if images.device.type == "cpu":
        keep_memory()
    steps, batch = settings.steps, min(settings.batch, len(images))
    parameters = list(tokenizer.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=settings.rate, betas=BETAS, weight_decay=WEIGHT_DECAY, fused=True)
    seeds = seeds_tensor([seed], images.device)
    clock = torch.zeros((), dtype=torch.int64, device=images.device)  # the step, where Draws wants it
    losses: list[dict[str, Tensor]] = []
    tokenizer.train()
    with track(steps, f"tokenizer {settings.kind}") as advance, exact(images.device):
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = settings.rate * _schedule(step / steps)
            draws = Draws(seeds, "tokenizer", clock)
            chosen = draws.integers(len(images), batch)[0]
            loss = tokenizer.loss(images[chosen], draws, step / steps)
            optimizer.zero_grad(set_to_none=True)
            loss["loss"].backward()
            torch.nn.utils.clip_grad_norm_(parameters, CLIP)
            optimizer.step()
            clock += 1
            if step >= 0.9 * steps:
                losses.append({name: value.detach() for name, value in loss.items()})
            advance()
    return {name: torch.stack([loss[name] for loss in losses]).mean().item() for name in losses[0]} if losses else {}


def _schedule(progress: float) -> float:
    """The learning rate as a share of its peak, `progress` in [0, 1)."""
    return min(1.0, (progress + 1e-3) / WARM_UP) * 0.5 * (1.0 + math.cos(math.pi * progress))


@torch.no_grad()
def _reconstruction(tokenizer: Tokenizer, images: Tensor) -> dict[str, float]:
    """Errors of decode(encode(images)): over all pixel values, and of the image that the 99th of 100 is like."""

    def errors(chunk: Tensor) -> Tensor:
        return (tokenizer.decode(tokenizer.encode(chunk).mean) - chunk).abs().mean((1, 2, 3))

    per_image = torch.cat(in_batches(errors, images, CHUNK))
    return {
        "absolute_error": per_image.mean().item(),
        "absolute_error_99th": per_image.sort().values[int(0.99 * (len(per_image) - 1))].item(),
    }
