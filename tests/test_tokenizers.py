"""Tokenizers: invertible where they claim to be, of unit scale, reproducible, and alive codebooks."""

import json
import math

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from safetensors.torch import load, save

from recombine.errors import UserError
from recombine.randomness import Draws, seeds_tensor
from recombine.tokenizers import (
    PixelsSettings,
    Tokenizer,
    TokenizerSettings,
    VAESettings,
    VQVAESettings,
    build_tokenizer,
    check_fits,
    fit_tokenizer,
)
from recombine.tokenizers.vae import gaussian_kl
from recombine.tokenizers.vqvae import VQVAE, straight_through

SIZE = 16
PIXELS = PixelsSettings(patch=4)
VAE = VAESettings(width=32, depth=1, steps=300, batch=16)
VQ = VQVAESettings(codes=32, channels=8, width=32, depth=1, steps=300, batch=16)
ALL = (PIXELS, VAE, VQ)


def discs(count: int, seed: int, size: int = SIZE) -> torch.Tensor:
    """Reddish and bluish discs of any place and size on white, (count, 3, size, size)."""
    u = Draws(seeds_tensor([seed]), "test discs").uniform(count, 6)[0]
    middles = (torch.arange(size) + 0.5) / size
    x, y = (0.3 + 0.4 * u[:, i, None, None] for i in (0, 1))
    radius = 0.15 + 0.15 * u[:, 2, None, None]
    gap = radius - ((middles[None, None, :] - x).square() + (middles[None, :, None] - y).square()).sqrt()
    inside = (gap * size + 0.5).clamp(0.0, 1.0)[:, None]
    base = torch.tensor([[0.9, 0.1, 0.1], [0.1, 0.1, 0.9]])[torch.arange(count) % 2]
    return 1.0 - inside * (0.95 - base + 0.1 * u[:, 3:])[:, :, None, None]


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return discs(1500, 0)


@pytest.fixture(scope="module")
def fitted(images: torch.Tensor) -> dict[str, tuple[Tokenizer, dict]]:
    return {settings.kind: fit_tokenizer(settings, images, seed=3) for settings in ALL}


KINDS = pytest.mark.parametrize("kind", ["pixels", "vae", "vqvae"])


def test_pixels_are_an_exact_inverse(fitted):
    fresh = discs(1100, 1)  # more than one chunk
    tokenizer, log = fitted["pixels"]
    tokens = tokenizer.encode(fresh)
    assert tokens.mean.shape == (1100, 16, 48) and tokens.std is None and tokens.ids is None
    assert (tokenizer.decode(tokens.mean) - fresh).abs().max() < 1e-6
    assert log["absolute_error"] < 1e-6


def test_a_pixel_token_is_its_patch(fitted, images):
    """Tokens run row by row, and one patch touches one token only."""
    tokenizer, _ = fitted["pixels"]
    changed = images[:1].clone()
    changed[:, :, 4:8, 8:12] = 0.25  # second row of patches, third column
    moved = (tokenizer.encode(changed).mean != tokenizer.encode(images[:1]).mean).any(-1)[0]
    assert moved.nonzero().flatten().tolist() == [1 * 4 + 2]


@KINDS
def test_tokens_of_the_fitted_images_have_mean_0_and_deviation_1(kind, fitted, images):
    """As generators draw them: a VAE's with its posterior noise."""
    tokenizer, log = fitted[kind]
    tokens = tokenizer.encode(images)
    drawn = tokens.mean
    if tokens.std is not None:
        drawn = drawn + tokens.std * Draws(seeds_tensor([0]), "test").normal(*drawn.shape)[0]
    assert drawn.std().item() == pytest.approx(1.0, abs=0.02)
    assert drawn.mean((0, 1)).abs().max() < 0.02  # of every channel
    assert tokenizer.scale.item() != 1.0 and log["scale"] == tokenizer.scale.item()


def test_pixel_scale_does_not_forget_the_images(images):
    """Half the contrast, twice the scale: it is measured, not a constant."""
    once = fit_tokenizer(PIXELS, images, 0)[0].scale
    half = fit_tokenizer(PIXELS, images * 0.5, 0)[0].scale
    assert half.item() == pytest.approx(2.0 * once.item(), rel=1e-4)


@KINDS
def test_reconstruction_is_close_and_inside_0_1(kind, fitted):
    tokenizer, log = fitted[kind]
    fresh = discs(200, 2)
    decoded = tokenizer.decode(tokenizer.encode(fresh).mean)
    assert decoded.shape == fresh.shape and decoded.min() >= 0.0 and decoded.max() <= 1.0
    best_constant = (fresh - fresh.mean(0)).abs().mean()  # error of always drawing the mean image
    assert (decoded - fresh).abs().mean() < 0.3 * best_constant
    wild = tokenizer.decode(5.0 * Draws(seeds_tensor([0]), "test").normal(8, tokenizer.tokens, tokenizer.channels)[0])
    assert wild.min() >= 0.0 and wild.max() <= 1.0
    json.dumps(log)


@KINDS
def test_an_image_alone_is_encoded_as_in_a_batch(kind, fitted):
    tokenizer, _ = fitted[kind]
    fresh = discs(40, 4)
    together = tokenizer.encode(fresh)
    for i in (0, 17, 39):
        alone = tokenizer.encode(fresh[i : i + 1])
        torch.testing.assert_close(alone.mean[0], together.mean[i], rtol=1e-4, atol=1e-5)
        if alone.ids is not None:
            assert torch.equal(alone.ids[0], together.ids[i])
    torch.testing.assert_close(
        tokenizer.decode(together.mean[:1])[0], tokenizer.decode(together.mean)[0], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("settings", ALL, ids=lambda settings: settings.kind)
def test_fitting_twice_gives_the_same_bits(settings, images):
    if settings.kind != "pixels":
        settings = settings.model_copy(update={"steps": 25})
    torch.manual_seed(1)
    first = fit_tokenizer(settings, images[:200], seed=5)[0].state_dict()
    torch.manual_seed(2)  # the global generator must not matter
    again = fit_tokenizer(settings, images[:200], seed=5)[0].state_dict()
    other = fit_tokenizer(settings, images[:200], seed=6)[0].state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    if settings.kind != "pixels":
        assert not all(torch.equal(first[name], other[name]) for name in first)


@KINDS
def test_safetensors_keep_every_bit(kind, fitted):
    tokenizer, _ = fitted[kind]
    settings = {s.kind: s for s in ALL}[kind]
    copy = build_tokenizer(settings, SIZE, 3)
    copy.load_state_dict(load(save(tokenizer.state_dict())))
    fresh = discs(10, 6)
    ours, theirs = tokenizer.encode(fresh), copy.encode(fresh)
    assert torch.equal(ours.mean, theirs.mean)
    assert torch.equal(tokenizer.decode(ours.mean), copy.decode(theirs.mean))


# VQ-VAE ---------------------------------------------------------------------------------------------------------------


def test_ids_embed_to_the_tokens_and_decode_takes_tokens_as_they_are(fitted):
    tokenizer, _ = fitted["vqvae"]
    tokens = tokenizer.encode(discs(50, 7))
    assert tokens.ids.dtype == torch.int64 and tokens.ids.min() >= 0 and tokens.ids.max() < tokenizer.codes
    assert torch.equal(tokenizer.embed(tokens.ids), tokens.mean)
    assert torch.equal(tokenizer.decode(tokenizer.embed(tokens.ids)), tokenizer.decode(tokens.mean))
    assert tokenizer.embed(tokens.ids.view(5, 10, -1)).shape == (5, 10, tokenizer.tokens, tokenizer.channels)
    # A small step off the codes changes the picture: nothing was snapped back.
    assert not torch.equal(tokenizer.decode(tokens.mean + 1e-2), tokenizer.decode(tokens.mean))


def test_ids_are_the_nearest_codes(fitted):
    tokenizer, _ = fitted["vqvae"]
    fresh = discs(20, 8)
    outputs = tokenizer.encoder(fresh).flatten(2).transpose(1, 2).reshape(-1, tokenizer.channels)
    distances = torch.cdist(outputs.double(), tokenizer.codebook.double())
    chosen = distances.gather(1, tokenizer.encode(fresh).ids.view(-1, 1))[:, 0]
    torch.testing.assert_close(chosen, distances.amin(1), rtol=1e-4, atol=1e-4)


def test_straight_through_has_the_value_of_one_and_the_gradient_of_the_other():
    outputs = torch.tensor([0.3, -1.0], requires_grad=True)
    chosen = torch.tensor([0.5, -2.0], requires_grad=True)
    result = straight_through(outputs, chosen)
    (result * torch.tensor([2.0, 3.0])).sum().backward()
    torch.testing.assert_close(result.detach(), chosen.detach())
    assert outputs.grad.tolist() == [2.0, 3.0] and chosen.grad is None


def _active(tokenizer: VQVAE, images: torch.Tensor) -> float:
    return tokenizer.measure(images)["active_share"]


@pytest.mark.parametrize("revive_below, revived", [(0.1, True), (0.0, False)])
def test_revival_brings_dead_codes_back(revive_below, revived, images):
    """All codes but one lie at one far point, where no output comes: one code is alive."""
    settings = VQ.model_copy(update={"revive_below": revive_below, "decay": 0.8})
    tokenizer, _ = fit_tokenizer(settings.model_copy(update={"steps": 1}), images, 0)
    tokenizer.codebook[1:] = 100.0
    tokenizer.usage.fill_(1.0 / settings.codes)
    tokenizer.sums.copy_(tokenizer.codebook / settings.codes)
    assert _active(tokenizer, images) == 1 / settings.codes
    for step in range(1, 60):
        tokenizer.loss(images[:64], Draws(seeds_tensor([0]), "test", torch.tensor(step)), progress=step / 100)
    assert (_active(tokenizer, images) > 0.5) == revived


def test_revival_leaves_live_codes_alone_and_stops_in_the_last_third(images):
    tokenizer, _ = fit_tokenizer(VQ.model_copy(update={"steps": 1, "decay": 0.999999}), images, 0)
    tokenizer.usage.fill_(1.0 / VQ.codes)
    tokenizer.usage[3] = 1e-6
    tokenizer.codebook[3] = 100.0
    tokenizer.sums.copy_(tokenizer.codebook * tokenizer.usage[:, None])
    before = tokenizer.codebook.clone()
    tokenizer.loss(images[:64], Draws(seeds_tensor([0]), "test"), progress=0.7)
    torch.testing.assert_close(tokenizer.codebook, before, rtol=1e-3, atol=1e-3)
    tokenizer.loss(images[:64], Draws(seeds_tensor([0]), "test"), progress=0.6)
    others = [i for i in range(VQ.codes) if i != 3]
    torch.testing.assert_close(tokenizer.codebook[others], before[others], rtol=1e-3, atol=1e-3)
    assert tokenizer.codebook[3].abs().max() < 50.0


def test_codes_go_to_the_mean_of_what_chose_them(images):
    """With decay 0 one step is one step of Lloyd's algorithm."""
    tokenizer, _ = fit_tokenizer(VQ.model_copy(update={"steps": 1, "decay": 0.0}), images, 0)
    flat = Draws(seeds_tensor([0]), "test").normal(200, VQ.channels)[0]
    ids = torch.arange(200) % 7
    tokenizer.follow(flat, ids)
    for code in range(7):
        torch.testing.assert_close(tokenizer.codebook[code], flat[ids == code].mean(0), rtol=1e-4, atol=1e-5)


def test_the_log_tells_how_the_codes_are_used(fitted, images):
    tokenizer, log = fitted["vqvae"]
    share = torch.bincount(tokenizer.encode(images).ids.flatten(), minlength=VQ.codes) / (len(images) * 16)
    entropy = -sum(p * math.log(p) for p in share.tolist() if p > 0)
    assert log["perplexity"] == pytest.approx(math.exp(entropy), rel=1e-4)
    assert log["active_share"] == (share > 0).float().mean().item() > 0.5
    assert 1.0 < log["perplexity"] <= VQ.codes


# VAE ------------------------------------------------------------------------------------------------------------------


def test_kl_is_that_of_torch_distributions():
    mean, log_variance = torch.randn(2, 50, generator=torch.Generator().manual_seed(0))
    posterior = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    expected = torch.distributions.kl_divergence(posterior, torch.distributions.Normal(0.0, 1.0))
    torch.testing.assert_close(gaussian_kl(mean, log_variance), expected)
    assert gaussian_kl(torch.zeros(()), torch.zeros(())) == 0.0


def test_vae_posterior_is_in_the_units_of_the_tokens(fitted, images):
    tokenizer, _ = fitted["vae"]
    tokens = tokenizer.encode(images[:20])
    assert tokens.std.shape == tokens.mean.shape and tokens.std.min() > 0.0
    _, log_variance = tokenizer.moments(images[:20])
    torch.testing.assert_close(tokens.std, (0.5 * log_variance).exp() * tokenizer.scale, rtol=1e-4, atol=1e-5)


def test_beta_and_the_stated_reduction(fitted, images):
    """Both terms are sums over an image divided by its pixel values; a large beta lets the posterior be the prior."""
    tokenizer, _ = fitted["vae"]
    batch = images[:8]
    terms = tokenizer.loss(batch, Draws(seeds_tensor([0]), "test"), 0.5)
    mean, log_variance = tokenizer.moments(batch)
    assert terms["kl_per_pixel_value"].item() == pytest.approx(
        gaussian_kl(mean, log_variance).sum().item() / (8 * 3 * SIZE * SIZE), rel=1e-5
    )
    expected = terms["squared_error"] + VAE.beta * terms["kl_per_pixel_value"]
    assert terms["loss"].item() == pytest.approx(expected.item(), rel=1e-6)
    _, log = fit_tokenizer(VAE.model_copy(update={"beta": 10.0, "steps": 60}), images[:200], 0)
    assert log["kl_per_pixel_value"] < 0.1 * terms["kl_per_pixel_value"].item()


# Settings -------------------------------------------------------------------------------------------------------------


def test_sizes_that_do_not_divide_are_named():
    check_fits(VQVAESettings(factor=4), 28)
    with pytest.raises(ValueError, match="image size 30 is not a multiple of factor 4 of the vqvae"):
        check_fits(VQVAESettings(factor=4), 30)
    with pytest.raises(ValueError, match="patch 5 of the pixels"):
        build_tokenizer(PixelsSettings(patch=5), 16, 3)


def test_settings_are_chosen_by_kind_and_unknown_words_refused():
    adapter = TypeAdapter(TokenizerSettings)
    assert adapter.validate_python({"kind": "vqvae", "codes": 64}) == VQVAESettings(codes=64)
    for wrong in ({"kind": "pixels", "sees": "all"}, {"kind": "vae", "codes": 64}, {"kind": "vqvae", "codes": 1}):
        with pytest.raises(ValidationError):
            adapter.validate_python(wrong)


def test_what_cannot_be_done_is_said(fitted, images):
    with pytest.raises(UserError, match="has no codes"):
        fitted["vae"][0].embed(torch.zeros(1, 16, dtype=torch.int64))
    with pytest.raises(UserError, match="alike"):
        fit_tokenizer(PIXELS, torch.ones_like(images[:4]), 0)


def test_other_sizes_and_a_batch_smaller_than_the_codebook(images):
    """28x28 gives 7x7 tokens; 2 images have fewer tokens than there are codes."""
    tokenizer, _ = fit_tokenizer(VQVAESettings(codes=256, width=16, steps=3, batch=2), discs(8, 9, size=28), 0)
    assert tokenizer.grid == (7, 7) and tokenizer.tokens == 49 and tokenizer.codes == 256
    assert tokenizer.encode(discs(3, 9, size=28)).mean.shape == (3, 49, 16)
