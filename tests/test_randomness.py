"""The random numbers are a pure function of (seed, purpose, step), independent between members, and of the right
law."""

import torch
from scipy import stats

from recombine.randomness import Draws, seeds_tensor


def draws(seeds=(0, 1, 2), purpose="test", step=0) -> Draws:
    return Draws(seeds_tensor(seeds), purpose, step)


def test_same_key_same_numbers_and_any_other_key_other_numbers():
    numbers = draws().uniform(100)
    assert torch.equal(numbers, draws().uniform(100))
    for other in (draws(step=1), draws(purpose="other"), draws(seeds=(3, 4, 5))):
        assert not torch.equal(numbers, other.uniform(100))
    source = draws()
    assert not torch.equal(source.uniform(100), source.uniform(100))


def test_a_member_draws_what_its_seed_alone_draws():
    together, alone = draws(seeds=(5, 6, 7)), draws(seeds=(6,))
    for call in (lambda d: d.uniform(10, 3), lambda d: d.normal(7), lambda d: d.integers(9, 4)):
        assert torch.equal(call(together)[1], call(alone)[0])


def test_step_on_the_device_is_the_step_on_the_host():
    assert torch.equal(draws(step=7).normal(50), draws(step=torch.tensor(7)).normal(50))


def test_uniform_normal_and_integers_follow_their_laws():
    source = draws(seeds=range(4))
    uniform = source.uniform(50_000).flatten().numpy()
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3
    assert uniform.min() >= 0 and uniform.max() < 1
    assert stats.kstest(source.normal(50_001).flatten().numpy(), "norm").pvalue > 1e-3
    counts = torch.bincount(source.integers(10, 50_000).flatten(), minlength=10)
    assert len(counts) == 10 and stats.chisquare(counts.numpy()).pvalue > 1e-3


def test_neighbouring_seeds_steps_and_positions_are_uncorrelated():
    rows = torch.cat([draws(seeds=range(8), step=step).normal(20_000) for step in range(4)])
    correlation = torch.corrcoef(rows) - torch.eye(len(rows))
    assert correlation.abs().max() < 0.04  # 5.6 standard errors
    lagged = torch.corrcoef(torch.stack([rows[0, :-1], rows[0, 1:]]))[0, 1]
    assert lagged.abs() < 0.04
