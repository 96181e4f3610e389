"""DiT: zero at the start, exact on Gaussian data in both forms, guidance on every channel."""

import math

import pytest
import torch

from recombine.conditioning import ConditioningSettings
from recombine.generators.base import guided
from recombine.generators.dit import flow_pair, sample_flow
from recombine.generators.gaussian import ddpm_pair, linear_kept, respaced, sample_ddpm
from recombine.nets.backbone import Backbone, Dimensions
from recombine.nets.layers import SeedStream
from recombine.randomness import Draws, seeds_tensor
from small import SHAPE, data, generator

MEAN, STD = 1.5, 0.4  # of the Gaussian whose best prediction is known in closed form


def draws(purpose: str = "test") -> Draws:
    return Draws(seeds_tensor([0]), purpose)


@pytest.mark.parametrize("name", ["dit-flow", "dit-ddpm"])
def test_output_is_exactly_zero_at_the_start(name):
    x, cond = data(name).batch(draws(), 4)
    assert generator(name, [0]).predict(x, torch.rand(1, 4), cond).abs().max() == 0


def test_blocks_are_the_identity_at_the_start():
    backbone = Backbone(Dimensions(3, 32, 2), (3, 3), 4, SeedStream([0, 1]))
    x, c = draws().normal(2, 9, 32).expand(2, -1, -1, -1), torch.randn(2, 2, 32)
    shown = x + backbone.positions
    states = backbone.states(x, c, (0, 1, 2))
    assert len(states) == 3 and all(torch.equal(state, shown) for state in states)
    assert (backbone(x, c) == 0).all()


def test_flow_sampler_with_the_true_velocity_draws_the_gaussian():
    """E[x - noise | x_t] for x ~ N(mean, std^2), noise ~ N(0, 1), x_t = t x + (1 - t) noise."""

    def velocity(x, t):
        t = t[..., None, None]
        variance = t**2 * STD**2 + (1 - t) ** 2
        gain = (t * STD**2 - (1 - t)) / variance
        return MEAN + gain * (x - t * MEAN)

    x = sample_flow(velocity, draws(), (4000, 2, 1), 100)
    assert x.mean().item() == pytest.approx(MEAN, abs=0.02)
    assert x.std().item() == pytest.approx(STD, rel=0.03)


# Few steps narrow the spread (the posterior variance is that of a point mass at the predicted clean value); many do
# not.
@pytest.mark.parametrize(("steps", "tolerance"), [(50, 0.2), (250, 0.05), (1000, 0.03)])
def test_ddpm_sampler_with_the_true_noise_draws_the_gaussian(steps, tolerance):
    kept = linear_kept(1000)

    def noise(x, t):
        a = kept[(t * 1000).round().long() - 1][..., None, None]
        return (1 - a).sqrt() * (x - a.sqrt() * MEAN) / (a * STD**2 + 1 - a)

    x = sample_ddpm(noise, draws(), (2000, 2, 1), kept, respaced(kept, steps))
    assert x.mean().item() == pytest.approx(MEAN, abs=0.03)
    assert x.std().item() == pytest.approx(STD, rel=tolerance)


@pytest.mark.parametrize("levels", [500, 1000])
def test_the_noising_chain_ends_in_noise_and_keeps_unit_variance(levels):
    kept = linear_kept(levels)
    assert kept[0] > 0.999 and kept[-1] < 1e-4 and (kept.diff() < 0).all()
    x, noise = draws("a").normal(4000, 1, 1), draws("b").normal(4000, 1, 1)
    noisy, target = ddpm_pair(x, noise, kept[torch.full((1, 4000), levels // 3)])
    assert noisy.std().item() == pytest.approx(1, abs=0.03) and torch.equal(target, noise)


def test_flow_path_runs_from_noise_to_data():
    x, noise = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4)
    start, velocity = flow_pair(x, noise, torch.zeros(1, 2))
    end, _ = flow_pair(x, noise, torch.ones(1, 2))
    assert torch.equal(start, noise) and torch.equal(end, x)
    torch.testing.assert_close(start + velocity, x)


def test_guidance_is_linear_on_every_channel_and_zero_is_off():
    told, untold = torch.randn(1, 2, 9, 4), torch.randn(1, 2, 9, 4)
    calls = []

    def predict(dropped):
        calls.append(dropped)
        return told if dropped is None else untold

    model, cond = generator("dit-flow", [0]), torch.zeros(1, 2, 3)
    nothing, everything = (model.untold(cond, guidance, "together") for guidance in (0.0, 1.5))
    assert torch.equal(guided(predict, 0.0, nothing), told) and calls == [None]
    out = guided(predict, 1.5, everything)
    torch.testing.assert_close(out, told + 1.5 * (told - untold))
    assert ((out - told).abs() > 0).all(), "some channel was left without guidance"
    assert calls[-1].all() and calls[-1].shape == (1, 2, 3)


@pytest.mark.parametrize("name", ["dit-flow", "dit-ddpm"])
def test_guidance_changes_samples_on_all_channels(name):
    model = generator(name, [0], ConditioningSettings(drop_all=0.1))
    with torch.no_grad():
        for p in model.parameters():
            p += 0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0))
    cond = torch.zeros(1, 4, 3)
    plain, pushed = (model.sample(cond, draws(), guidance) for guidance in (0.0, 2.0))
    assert ((plain - pushed).abs().amax(dim=(0, 1, 2)) > 1e-4).all() and plain.shape[-1] == SHAPE.channels


def test_sampling_is_a_pure_function_of_model_condition_and_seed():
    model, cond = generator("dit-flow", [0]), torch.zeros(1, 4, 3)
    assert torch.equal(model.sample(cond, draws()), model.sample(cond, draws()))
    assert not torch.equal(model.sample(cond, draws()), model.sample(cond, draws("other")))
    assert math.isfinite(model.sample(cond, draws()).sum().item())
