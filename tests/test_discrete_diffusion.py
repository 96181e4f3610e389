"""Absorbing discrete diffusion: its masks, its bound and its sampler, held against exact probabilities."""

import math

import pytest
import torch
from torch.nn import functional as F

from recombine.generators.base import TokenShape
from recombine.generators.discrete_diffusion import (
    SMALLEST_TIME,
    DiscreteDiffusionSettings,
    draw_times,
    sample_ancestral,
)
from small import SHAPE, data, draws
from small_discrete import COUNTS, PAIRS, build, opinionated, shaken, shares, taught, variation, watched

# The loss


def test_times_are_spread_evenly_and_each_is_uniform():
    t = torch.cat([draw_times(draws(step, members=2), 8) for step in range(2000)])  # (4000, 8)
    gaps = t.sort(-1).values.diff()
    torch.testing.assert_close(gaps, torch.full_like(gaps, (1 - SMALLEST_TIME) / 8), rtol=1e-3, atol=1e-5)
    assert t.min() >= SMALLEST_TIME and t.max() <= 1
    for quantile in (0.1, 0.5, 0.9):  # of every image by itself; three standard errors are 0.024
        assert ((t < quantile).float().mean(0) - quantile).abs().max() < 0.03
    both = draw_times(draws(0, members=2), 8)
    assert not torch.equal(both[0], both[1])  # each member has times of its own


def test_each_token_is_masked_with_probability_t_and_nothing_else_changes(monkeypatch):
    model = build(DiscreteDiffusionSettings())
    seen = watched(monkeypatch, model, lambda ids: torch.zeros(*ids.shape, SHAPE.codes))
    x, cond = data("maskgit").batch(draws(), 20_000)
    model.loss(x, cond, draws(1))
    ids, t = seen[0], draw_times(draws(1), 20_000)
    masked = ids == model.mask_id
    assert torch.equal(ids[~masked], x[~masked])
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (t >= low) & (t < low + 0.25)
        share = masked[inside].float()
        assert share.mean().item() == pytest.approx(low + 0.125, abs=0.008)
        assert (share.mean(0) - share.mean()).abs().max() < 0.02  # all positions alike
    middle = masked[(t - 0.5).abs() < 0.02].float().sum(-1)  # tokens are masked independently: binomial counts
    assert middle.var().item() == pytest.approx(SHAPE.tokens / 4, rel=0.15)


def test_a_masked_token_never_reaches_the_logits(monkeypatch):
    model = shaken(DiscreteDiffusionSettings())
    seen = watched(monkeypatch, model)
    x, cond = data("maskgit").batch(draws(), 16)
    model.loss(x, cond, draws())
    masked = seen[0] == model.mask_id
    model.loss(torch.where(masked, (x + 3) % SHAPE.codes, x), cond, draws())
    assert masked.any() and torch.equal(seen[0], seen[1])


def mean_loss(model, x, steps=60):
    """Mean and standard error of the loss over draws, for tokens x (B, T)."""
    cond = torch.zeros(1, len(x), 3)
    losses = torch.stack([model.loss(x[None], cond, draws(step))[0] for step in range(steps)])
    return losses.mean().item(), (losses.std() / math.sqrt(steps)).item()


@pytest.mark.parametrize("skewed", [False, True])
@torch.no_grad()
def test_the_loss_of_a_constant_prediction_is_its_cross_entropy(skewed):
    """A fresh model says all codes are alike, the best there is for uniform data: the loss is log K a token. With
    another constant it is the cross-entropy. The weight 1 / t must undo the masked share t exactly."""
    model = build(DiscreteDiffusionSettings())
    if skewed:
        model.backbone.head.bias.copy_(torch.arange(8) * 0.5)
    x = draws(99).integers(SHAPE.codes, 512, SHAPE.tokens)[0]
    expected = -torch.log_softmax(model.backbone.head.bias[0, 0], -1)[x].mean().item()
    mean, error = mean_loss(model, x)
    assert error < 0.02 * expected and abs(mean - expected) < 3 * error
    if not skewed:
        assert expected == pytest.approx(math.log(8), abs=1e-6)


def copies(ids):
    """The perfect prediction where all tokens of an image are one and the same uniform code, of 5."""
    known = torch.where(ids < 5, ids, -1).amax(-1, keepdim=True).expand(ids.shape)
    return torch.where((known >= 0)[..., None], 60.0 * F.one_hot(known.clamp(min=0), 5), 0.0)


def test_the_bound_is_tight_for_a_perfect_model(monkeypatch):
    """T copies of one uniform code: -log p(x) is log 5. Only when all T are masked does a token cost anything, and then
    log 5: T log 5 t^T / t, which is log 5 over all t."""
    model = build(DiscreteDiffusionSettings(), shape=TokenShape((1, 3), 4, 5))
    watched(monkeypatch, model, copies)
    x = draws().integers(5, 512, 1)[0].expand(-1, 3)
    mean, error = mean_loss(model, x)
    assert error < 0.02 and abs(3 * mean - math.log(5)) < 3 * 3 * error


# Sampling


@pytest.mark.parametrize("steps", [1, 4, 16])
def test_tokens_that_must_agree_differ_only_when_they_are_revealed_together(steps):
    """A token is revealed at any of n steps alike, so two meet with chance 1 / n, and then differ with chance 4 / 5."""
    n, seen = 20_000, []

    def predict(ids, t):
        seen.append((ids < 5).float().mean().item())
        torch.testing.assert_close(t, torch.full((1, n), 1 - (len(seen) - 1) / steps))
        return copies(ids)

    out = sample_ancestral(predict, torch.full((1, n, 2), 5), 5, draws(), steps)
    assert (out < 5).all()
    differ = (out[..., 0] != out[..., 1]).float().mean().item()
    assert differ == pytest.approx(0.8 / steps, abs=4 * math.sqrt(0.8 / steps / n))
    for k, share in enumerate(seen):
        assert share == pytest.approx(k / steps, abs=0.015)


@pytest.mark.parametrize("steps", [1, 3, 12, 40])
def test_ancestral_sampling_with_an_oracle_returns_the_data_and_known_tokens_never_change(steps):
    truth = draws().integers(8, 32, 16)
    known = draws(1).uniform(32, 16) < 0.4
    wrong = (truth + 1) % 8  # known tokens are kept even where the model would say something else
    start = torch.where(known, wrong, 8)
    seen = []

    def predict(ids, _t):
        seen.append(ids)
        return 60.0 * F.one_hot(truth, 8)

    out = sample_ancestral(predict, start, 8, draws(2), steps)
    assert torch.equal(out, torch.where(known, wrong, truth))
    for before, after in zip(seen, [*seen[1:], out], strict=True):
        assert torch.equal(after[before < 8], before[before < 8])


def test_guidance_of_discrete_diffusion_acts_on_the_logits():
    """In one step tokens are independent, so each place must show softmax(c + w (c - u))."""
    n, model = 20_000, opinionated(DiscreteDiffusionSettings(sampling_steps=1))
    cond, masks, t = torch.zeros(1, 1, 3), torch.full((1, 1, 3), 3), torch.ones(1, 1)
    told, untold = model.logits(masks, t, cond), model.logits(masks, t, cond, torch.ones(1, 1, 3) > 0)
    exact = torch.softmax(told + 2.0 * (told - untold), -1)[0, 0]
    drawn = model.sample(cond.expand(1, n, 3), draws(), 2.0)
    seen = F.one_hot(drawn, 3).float().mean(dim=(0, 1))
    assert (seen - exact).abs().max() < 0.015
    assert (torch.softmax(told, -1)[0, 0] - exact).abs().max() > 0.05


def test_the_network_is_told_the_time_only_if_asked():
    x, cond = data("maskgit").batch(draws(), 4)
    early, late = torch.full((1, 4), 0.1), torch.full((1, 4), 0.9)
    for asked in (False, True):
        model = shaken(DiscreteDiffusionSettings(time_conditioning=asked))
        assert torch.equal(model.logits(x, early, cond), model.logits(x, late, cond)) != asked


# What it learns


@torch.no_grad()
def one_by_one(model):
    """What a model of PAIR draws when tokens never meet in a step, exactly: both orders alike, one after the other."""
    total, t, cond = torch.zeros(16), torch.ones(1, 16), torch.zeros(1, 16, 3)
    for first, second in ((0, 1), (1, 0)):
        ids = torch.full((1, 16, 2), model.mask_id)
        likelihood = 0.5
        for place in (first, second):
            probability = torch.softmax(model.logits(ids, t, cond)[0, :, place], -1)
            likelihood = likelihood * probability.gather(-1, PAIRS[:, place : place + 1])[:, 0]
            ids[0, :, place] = PAIRS[:, place]
        total += likelihood
    return total


def test_discrete_diffusion_learns_a_joint_distribution():
    """Within 0.06 in total variation, in closed form. In n steps the tokens meet with chance 1 / n, and then are drawn
    independently: the samples are that mixture, and in one step nothing but the product of the marginals."""
    model, truth, n = taught(DiscreteDiffusionSettings()), COUNTS / 100, 20_000
    product = (truth.sum(1, keepdim=True) * truth.sum(0, keepdim=True)).flatten()
    learned = one_by_one(model)
    assert variation(product, truth.flatten()) > 0.4
    assert variation(learned, truth.flatten()) < 0.06
    for steps in (1, 4):
        model.settings = DiscreteDiffusionSettings(sampling_steps=steps)
        seen = shares(model.sample(torch.zeros(1, n, 3), draws()), 4)
        assert variation(seen, (1 - 1 / steps) * learned + product / steps) < 0.05
