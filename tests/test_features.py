"""Measures of features against closed forms: rank, spread, cosine, the linear probe, and the trivial prediction."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from recombine.anatomy import against_position_mean, least_spread, linear_probe, mean_cosine, rank_me, spread

SUMMARIES = [rank_me, spread, least_spread, mean_cosine]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def with_singular_values(values: list[float], n: int, d: int, seed: int = 0) -> Tensor:
    """A (1, N, D) matrix with exactly these singular values in random directions."""
    left = torch.linalg.qr(random(n, len(values), seed=seed).double()).Q
    right = torch.linalg.qr(random(d, len(values), seed=seed + 1).double()).Q
    return (left * torch.tensor(values).double() @ right.T)[None]


# --- rank, spread, cosine -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(50, 12), (12, 50)])  # both Gram matrices
@pytest.mark.parametrize("values", [[3.0], [2.0, 2.0], [0.7] * 5, [4.0, 2.0, 1.0], [1.0, 1e-3]])
def test_rank_me_is_the_exponential_of_the_entropy_of_singular_values(values: list[float], n: int, d: int) -> None:
    share = torch.tensor(values).double() / sum(values)
    expected = torch.exp(-(share * share.log()).sum())
    assert rank_me(with_singular_values(values, n, d)).item() == pytest.approx(expected.item(), rel=1e-4)


def test_rank_me_of_isotropic_constant_and_zero_features() -> None:
    assert rank_me(random(1, 20_000, 16)).item() == pytest.approx(16, rel=0.01)
    assert rank_me(random(1, 1, 16).expand(1, 100, 16)).item() == pytest.approx(1, abs=1e-4)
    assert rank_me(torch.zeros(1, 100, 16)).item() == 1
    # Not centred, as in the paper: a large common mean is one strong dimension.
    assert rank_me(random(1, 500, 16) + 1000).item() < 1.3


def test_rank_me_ignores_scale_and_rotation() -> None:
    x = random(1, 60, 10) * torch.logspace(0, -2, 10)
    turn = torch.linalg.qr(random(10, 10, seed=5)).Q
    assert rank_me(x * 1e4 @ turn).item() == pytest.approx(rank_me(x).item(), rel=1e-5)


def test_spread_is_the_mean_deviation_and_least_spread_sees_dead_dimensions() -> None:
    sizes = torch.arange(1.0, 21)  # 20 dimensions
    signs = torch.tensor([1.0, -1.0]).repeat(30)[:, None]  # deviation exactly 1
    x = (signs * sizes + 7)[None]
    assert spread(x).item() == pytest.approx(10.5)
    assert least_spread(x).item() == pytest.approx(1 + 0.1 * 19)
    x[..., :2] = 3.0  # a tenth of the dimensions die: positions 0 and 1 of 0 to 19, the quantile is at 1.9
    assert least_spread(x).item() == pytest.approx(0.9 * 3)
    x[..., :3] = 3.0
    assert least_spread(x).item() == pytest.approx(0, abs=1e-6)
    assert spread(torch.full((1, 50, 4), 2.5)).item() == 0


@pytest.mark.parametrize("offset", [0.0, 0.5, 10.0])
def test_mean_cosine_equals_all_pairs(offset: float) -> None:
    x = random(2, 30, 6) + offset
    unit = x / x.norm(dim=2, keepdim=True)
    matrix = unit @ unit.mT
    pairs = ~torch.eye(30, dtype=torch.bool)
    expected = torch.stack([m[pairs].mean() for m in matrix])
    torch.testing.assert_close(mean_cosine(x).float(), expected, atol=1e-6, rtol=1e-5)


def test_mean_cosine_of_one_direction_opposites_and_nothing() -> None:
    direction = random(1, 1, 5)
    assert mean_cosine(direction * random(1, 20, 1).abs()).item() == pytest.approx(1)
    assert mean_cosine(torch.cat([direction, -direction], dim=1)).item() == pytest.approx(-1)
    x = torch.cat([direction, direction, torch.zeros(1, 3, 5)], dim=1)
    assert mean_cosine(x).item() == pytest.approx(1)  # a zero has no direction
    assert math.isnan(mean_cosine(torch.zeros(1, 4, 5)).item())


@pytest.mark.parametrize("measure", SUMMARIES)
def test_members_are_measured_apart_and_a_diverged_one_harms_nobody(measure: Callable[[Tensor], Tensor]) -> None:
    x = random(3, 40, 7) * torch.tensor([1.0, 5.0, 0.2]).view(3, 1, 1) + 0.3
    together = measure(x)
    for member in range(3):
        torch.testing.assert_close(together[member : member + 1], measure(x[member : member + 1]))
    for bad in (math.nan, math.inf):
        broken = x.clone()
        broken[1, 3, 2] = bad
        found = measure(broken)
        assert found[1].isnan()
        torch.testing.assert_close(found[[0, 2]], together[[0, 2]])


@pytest.mark.parametrize("measure", SUMMARIES)
def test_half_precision_features_are_counted_in_double(measure: Callable[[Tensor], Tensor]) -> None:
    x = (random(1, 3000, 8) + 4).to(torch.bfloat16)
    assert measure(x).dtype == torch.float64
    torch.testing.assert_close(measure(x), measure(x.double()))


# --- the linear probe ---------------------------------------------------------------------------------------------


def separable(n: int, members: int = 2, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Features (M, N, 12) from which three factors of 2, 3 and 4 values are linearly readable, and labels (N, 3)."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.stack([torch.randint(c, (n,), generator=generator) for c in (2, 3, 4)], dim=1)
    # One direction per value of each factor: 9 of them in 12 dimensions, in another mixture for each member.
    places = torch.tensor([0, 2, 5])
    hot = torch.zeros(n, 12).scatter_(1, labels + places, 1.0)
    features = torch.stack([hot @ random(12, 12, seed=100 + m) for m in range(members)])
    return features + 0.01 * random(members, n, 12, seed=seed + 1), labels


def test_separable_factors_are_all_read() -> None:
    x, labels = separable(200)
    y, fresh = separable(100, seed=50)
    right = linear_probe(x, labels, y, fresh, (2, 3, 4))
    assert right.shape == (2, 3, 100) and right.dtype == torch.bool and right.all()


def test_labels_without_a_trace_in_the_features_are_read_by_chance() -> None:
    generator = torch.Generator().manual_seed(3)
    labels = torch.stack([torch.randint(c, (6000,), generator=generator) for c in (2, 5)], dim=1)
    x = random(2, 6000, 6, seed=4)
    right = linear_probe(x[:, :3000], labels[:3000], x[:, 3000:], labels[3000:], (2, 5)).double().mean(2)
    torch.testing.assert_close(right, torch.tensor([[0.5, 0.2]]).double().expand(2, 2), atol=0.035, rtol=0)


def test_probe_equals_ridge_regression_solved_as_least_squares() -> None:
    """Ridge is least squares with sqrt(ridge) times the unit matrix appended to the standardised features, each image
    weighted so that every class has the same weight in all."""
    x, labels = random(1, 40, 5, seed=8), torch.randint(0, 3, (40, 1), generator=torch.Generator().manual_seed(9))
    y, fresh = random(1, 300, 5, seed=10), torch.randint(0, 3, (300, 1), generator=torch.Generator().manual_seed(11))
    ridge = 0.7
    a = x[0].double()
    mean, deviation = a.mean(0), a.std(0, correction=0)
    hot = torch.nn.functional.one_hot(labels[:, 0], 3).double()
    weight = 1 / (3 * hot.sum(0)[labels[:, 0]])  # (40,), sums to 1
    scaled = (a - mean) / deviation
    rows = torch.cat([scaled, torch.ones(40, 1).double()], dim=1) * weight.sqrt()[:, None]  # the constant is free
    held = torch.cat([math.sqrt(ridge) * torch.eye(5), torch.zeros(5, 1)], dim=1).double()
    goals = torch.cat([hot * weight.sqrt()[:, None], torch.zeros(5, 3).double()])
    solution = torch.linalg.lstsq(torch.cat([rows, held]), goals).solution
    outputs = (y[0].double() - mean) / deviation @ solution[:5] + solution[5]
    expected = outputs.argmax(1) == fresh[:, 0]
    right = linear_probe(x, labels, y, fresh, (3,), ridge=ridge)[0, 0]
    assert (right == expected).all() and 0 < right.double().mean() < 1


def test_scaling_and_moving_a_feature_changes_nothing() -> None:
    x, labels = separable(60)
    y, fresh = separable(200, seed=50)
    x, y = x + random(*x.shape, seed=1), y + random(*y.shape, seed=2)  # noisy, so that some are wrong
    before = linear_probe(x, labels, y, fresh, (2, 3, 4))
    scale, move = torch.logspace(-3, 3, 12), 10 * random(12, seed=7)
    after = linear_probe(x * scale + move, labels, y * scale + move, fresh, (2, 3, 4))
    assert 0.3 < before.double().mean() < 0.99
    assert (before == after).double().mean() > 0.995


def test_members_are_probed_apart_and_a_diverged_one_is_never_right() -> None:
    x, labels = separable(80, members=3)
    y, fresh = separable(40, members=3, seed=50)
    x, y = x + random(*x.shape, seed=1), y + random(*y.shape, seed=2)
    together = linear_probe(x, labels, y, fresh, (2, 3, 4))
    for m in range(3):
        assert (together[m] == linear_probe(x[m : m + 1], labels, y[m : m + 1], fresh, (2, 3, 4))[0]).all()
    x[1, 0, 0], y[2, 5] = math.nan, math.inf
    found = linear_probe(x, labels, y, fresh, (2, 3, 4))
    assert (found[0] == together[0]).all() and not found[1].any() and not found[2, :, 5].any()
    keep = torch.arange(40) != 5
    assert (found[2][:, keep] == together[2][:, keep]).all()


def test_a_dimension_that_never_varied_does_not_shout_in_the_test() -> None:
    x, labels = separable(100, members=1)
    y, fresh = separable(50, members=1, seed=50)
    dead, alive = torch.full((1, 100, 1), 0.1), 1e6 * random(1, 50, 1)
    right = linear_probe(torch.cat([x, dead], 2), labels, torch.cat([y, alive], 2), fresh, (2, 3, 4))
    assert right.all()


# --- against the mean of each position ----------------------------------------------------------------------------


def test_ratio_of_perfect_mean_and_worse_predictions() -> None:
    target = random(2, 50, 9, 4) + 5 * random(1, 1, 9, 4, seed=1)  # every position has a mean of its own
    counted = torch.rand(2, 50, 9, generator=torch.Generator().manual_seed(2)) < 0.4
    mean = target.mean(1, keepdim=True).expand_as(target)
    ones = torch.ones(2).double()
    torch.testing.assert_close(against_position_mean(target, target, counted), 0 * ones)
    torch.testing.assert_close(against_position_mean(mean, target, counted), ones, atol=1e-5, rtol=0)
    half = (mean + target) / 2
    torch.testing.assert_close(against_position_mean(half, target, counted), 0.25 * ones, atol=1e-5, rtol=0)
    # The mean over all positions is a worse guess than that of each position.
    assert (against_position_mean(target.mean((1, 2), keepdim=True).expand_as(target), target, counted) > 5).all()


def test_only_counted_positions_enter() -> None:
    target = random(1, 30, 5, 3)
    counted = torch.zeros(1, 30, 5, dtype=torch.bool)
    counted[:, ::2, 1] = True
    prediction = torch.where(counted[..., None], target, torch.nan)
    assert against_position_mean(prediction, target, counted).item() == 0
    assert against_position_mean(torch.zeros_like(target), target, ~counted).item() == pytest.approx(1, abs=0.1)


def test_collapsed_targets_have_no_ratio_and_members_stay_apart() -> None:
    target = random(3, 20, 4, 3)
    target[1] = 0.1  # its teacher gives every image the same feature: small error, nothing learned
    prediction = target + 1e-4
    counted = torch.ones(3, 20, 4, dtype=torch.bool)
    found = against_position_mean(prediction, target, counted)
    assert found[1].isnan() and (found[[0, 2]] < 1e-5).all()
    prediction[2] = math.nan
    assert against_position_mean(prediction, target, counted).isnan().tolist() == [False, True, True]


# --- devices ------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_gpu_finds_the_same() -> None:
    x, labels = separable(120)
    y, fresh = separable(60, seed=50)
    x, y = x + random(*x.shape, seed=1), y + random(*y.shape, seed=2)
    for measure in SUMMARIES:
        torch.testing.assert_close(measure(x.cuda()).cpu(), measure(x))
    here = linear_probe(x, labels, y, fresh, (2, 3, 4))
    there = linear_probe(x.cuda(), labels.cuda(), y.cuda(), fresh.cuda(), (2, 3, 4)).cpu()
    assert (here == there).double().mean() > 0.99
    prediction, target, counted = random(2, 9, 4, 3), random(2, 9, 4, 3, seed=1), random(2, 9, 4) > 0
    ratio = against_position_mean(prediction.cuda(), target.cuda(), counted.cuda())
    torch.testing.assert_close(ratio.cpu(), against_position_mean(prediction, target, counted))


def test_features_that_say_nothing_are_read_by_guessing_at_every_level():
    """Trained compositions of a Hamming split have a factor's values 3 to 1. Counted as they come, a probe of noise
    would say the common one, and look right on trained images and wrong on the others."""
    train_labels = torch.tensor([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]).repeat_interleave(250, 0)
    source = torch.Generator().manual_seed(0)
    train, test = torch.randn(2, 1000, 12, generator=source), torch.randn(2, 4000, 12, generator=source)
    for composition in ([0, 0, 0], [0, 1, 1], [1, 1, 1]):
        labels = torch.tensor([composition]).expand(4000, 3)
        right = linear_probe(train, train_labels, test, labels, [2, 2, 2])
        assert (right.double().mean(2) - 0.5).abs().max() < 0.15
