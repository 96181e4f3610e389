"""Autoregressive codes, held against exact probabilities where all images of codes can be listed."""

import itertools
import math

import pytest
import torch

from recombine.generators.autoregressive import AutoregressiveSettings
from recombine.generators.masking import draw_categories
from small import SHAPE, data, draws
from small_discrete import COUNTS, PAIRS, TINY, build, opinionated, shaken, shares, taught, variation

ALL = torch.tensor(list(itertools.product(range(3), repeat=3)))  # the 27 images of codes of TINY


def chi_square(seen, expected, n):
    return (n * (seen - expected) ** 2 / expected).sum().item()


def test_a_code_is_predicted_from_those_before_it_alone():
    model = shaken(AutoregressiveSettings())
    x, cond = data("maskgit").batch(draws(), 8)
    plain = model.logits(x, cond)
    for place in range(SHAPE.tokens):
        other = x.clone()
        other[..., place] = (x[..., place] + 3) % SHAPE.codes
        moved = (model.logits(other, cond) - plain).abs().amax(dim=(0, 1, 3))
        assert moved[: place + 1].max() < 1e-5  # itself included
        assert (moved[place + 1 :] > 1e-4).all()


def test_the_likelihoods_of_all_images_sum_to_one():
    model = shaken(AutoregressiveSettings(), TINY, by=0.3)
    for cond in (torch.zeros(1, 27, 3), torch.ones(1, 27, 3)):
        likelihood = model.log_likelihood(ALL[None], cond).exp()
        assert likelihood.sum().item() == pytest.approx(1, abs=1e-5)
        assert likelihood.max() > 2 * likelihood.min()  # not merely uniform


def test_the_loss_is_the_likelihood_in_nats_per_token():
    model = shaken(AutoregressiveSettings(), drop_all=0.0)
    x, cond = data("maskgit").batch(draws(), 8)
    expected = -model.log_likelihood(x, cond).mean(-1) / SHAPE.tokens
    torch.testing.assert_close(model.loss(x, cond, draws()), expected)
    fresh = build(AutoregressiveSettings())
    assert fresh.loss(x, cond, draws()).item() == pytest.approx(math.log(SHAPE.codes), abs=1e-5)


@pytest.mark.parametrize(("guidance", "temperature"), [(0.0, 1.0), (1.5, 1.0), (0.0, 0.5), (2.0, 0.7)])
def test_samples_occur_as_often_as_the_model_says(guidance, temperature):
    """All 27 images: chi-square with 26 degrees of freedom is above 55 once in a thousand."""
    n = 20_000
    model = opinionated(AutoregressiveSettings(temperature=temperature))
    cond = torch.zeros(1, 27, 3)
    told, untold = model.logits(ALL[None], cond), model.logits(ALL[None], cond, torch.ones(1, 27, 3) > 0)
    logits = (told + guidance * (told - untold)) / temperature
    exact = torch.log_softmax(logits, -1).gather(-1, ALL[None, ..., None]).sum(dim=(-1, -2)).exp()[0]
    seen = shares(model.sample(torch.zeros(1, n, 3), draws(), guidance), 3)
    assert exact.sum().item() == pytest.approx(1, abs=1e-5)
    assert chi_square(seen, exact, n) < 55
    plain = model.log_likelihood(ALL[None], cond).exp()[0]
    if guidance or temperature != 1:  # and the options do change what is drawn
        assert chi_square(seen, plain, n) > 200


@pytest.mark.parametrize("guidance", [0.0, 1.0])
def test_the_cached_sampler_draws_what_the_whole_network_would(guidance):
    model = shaken(AutoregressiveSettings(), seeds=(0, 1))
    cond = draws().integers(2, 32, 3).float().expand(2, -1, -1)
    again, nothing = draws(1, members=2), torch.ones(2, 32, 3) > 0
    ids = torch.zeros(2, 32, SHAPE.tokens, dtype=torch.int64)
    for place in range(SHAPE.tokens):
        told = model.logits(ids, cond)
        logits = told + guidance * (told - model.logits(ids, cond, nothing))
        ids[..., place] = draw_categories(torch.log_softmax(logits[:, :, place : place + 1], -1), again)[..., 0]
    assert torch.equal(model.sample(cond, draws(1, members=2), guidance), ids)


def test_an_autoregressive_model_learns_a_joint_distribution():
    """Within 0.05 in total variation, in closed form."""
    model = taught(AutoregressiveSettings())
    learned = model.log_likelihood(PAIRS[None], torch.zeros(1, 16, 3)).exp()[0].detach()
    assert variation(learned, COUNTS.flatten() / 100) < 0.05
