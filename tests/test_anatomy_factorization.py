"""Factorization of known codes, ranks of known matrices, and a read-out that is judged on other cells."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from recombine.anatomy.factorization import (
    activation_ranks,
    effective_rank,
    factorization,
    read_out,
    region_means,
    tangent_overlap,
)
from recombine.anatomy.manifold import grid_tangents, metric, tangents
from recombine.anatomy.plane import plane_cells
from recombine.errors import UserError

SIZE = 12
CELLS = plane_cells(SIZE)
TRAINED = ~((CELLS >= 4) & (CELLS <= 8)).all(1)


def population(cells: Tensor, width: float = 1.0) -> Tensor:
    units = torch.arange(SIZE).to(cells)
    return torch.cat([(-(v[:, None] - units).square() / (2 * width**2)).exp() for v in cells.T], dim=1)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("code", ["population", "wide", "one_hot", "ramp"])
def test_every_disentangled_code_is_factorized_at_the_input(code: str) -> None:
    layers = {
        "population": lambda c: {"input": population(c)[None]},
        "wide": lambda c: {"input": population(c, 3.0)[None]},
        "ramp": lambda c: {"input": c[None]},
    }
    if code == "one_hot":  # no derivative: differences between cells
        hot = torch.cat([one_hot(v, SIZE) for v in CELLS.T], dim=1).double()
        jacobian = grid_tangents(hot.view(1, SIZE, SIZE, -1)).flatten(1, 2)
    else:
        jacobian = tangents(layers[code], CELLS.double())["input"]
    found = factorization(metric(jacobian), TRAINED)
    for value in (found.all, found.trained, found.held_out):
        torch.testing.assert_close(value, torch.ones(1).double(), atol=1e-12, rtol=0)
    assert tangent_overlap(metric(jacobian), TRAINED).held_out.item() == pytest.approx(0, abs=1e-9)


def test_factorization_of_a_known_map_split_by_region() -> None:
    # (x + y, x - y) keeps x and y apart; (x + y, x + y) does not at all.
    apart, mixed = torch.tensor([[1.0, 1.0], [1.0, -1.0]]), torch.tensor([[1.0, 1.0], [1.0, 1.0]])
    jacobian = torch.where(TRAINED[:, None, None], apart, mixed)[None].double()
    found = factorization(metric(jacobian), TRAINED)
    assert found.trained.item() == 1 and found.held_out.item() == 0.5  # 1/2 is the least F can be
    share = 1 - TRAINED.double().mean()
    assert found.all.item() == pytest.approx(1 - 0.5 * share.item())
    overlap = tangent_overlap(metric(jacobian), TRAINED)
    assert overlap.trained.item() == 0 and overlap.held_out.item() == pytest.approx(1)


def test_small_tangents_count_in_the_overlap_and_not_in_f() -> None:
    jacobian = torch.eye(2).expand(1, len(CELLS), 2, 2).double().clone()
    jacobian[:, 0] = 1e-6  # one collapsed and entangled cell
    assert factorization(metric(jacobian), TRAINED).all.item() == pytest.approx(1, abs=1e-9)
    assert tangent_overlap(metric(jacobian), TRAINED).all.item() == pytest.approx(1 / len(CELLS))
    jacobian[:, 0] = 0
    assert tangent_overlap(metric(jacobian), TRAINED).all.item() == 0
    assert factorization(metric(torch.zeros_like(jacobian)), TRAINED).all.isnan().all()
    values = torch.stack([TRAINED.double(), 3 * TRAINED.double()])
    torch.testing.assert_close(region_means(values, TRAINED).trained, torch.tensor([1.0, 3.0]).double())


def test_effective_rank_of_known_singular_values() -> None:
    assert effective_rank(torch.ones(7)).item() == pytest.approx(7)
    assert effective_rank(torch.tensor([4.0, 0.0, 0.0])).item() == pytest.approx(1)
    assert effective_rank(torch.zeros(3)).item() == 1
    p = torch.tensor([9.0, 1.0]) / 10
    assert effective_rank(torch.tensor([3.0, 1.0])).item() == pytest.approx(math.exp(-(p * p.log()).sum().item()))
    batch = torch.stack([torch.ones(4), torch.tensor([1.0, 0, 0, 0])])
    torch.testing.assert_close(effective_rank(batch), torch.tensor([4.0, 1.0]).double())


@pytest.mark.parametrize(("cells", "width"), [(60, 20), (20, 60)])  # both Gram matrices
def test_ranks_of_activations_with_a_known_spectrum(cells: int, width: int) -> None:
    left = torch.linalg.qr(random(cells, cells)).Q
    left = torch.linalg.qr(left - left.mean(0)).Q[:, :6]  # directions without a mean, so centring changes nothing
    left = left - left.mean(0)
    left = torch.linalg.qr(left).Q
    right = torch.linalg.qr(random(width, 6, seed=1)).Q
    sizes = torch.tensor([10.0, 10.0, 10.0, 1.0, 0.2, 0.1]).double()
    features = (left * sizes @ right.T + 5)[None]
    found = activation_ranks(features)
    energy = sizes.square() / sizes.square().sum()
    assert found.effective.item() == pytest.approx(torch.special.entr(energy).sum().exp().item(), rel=1e-6)
    assert found.above.item() == 4  # 1 / 100 is above 1e-3, 0.04 / 100 is not
    assert found.energy.item() == 3  # 300 of 301.05 is over 99 %
    assert activation_ranks(torch.ones(1, 5, 3)).above.item() == 0
    broken = activation_ranks(torch.cat([features, torch.full_like(features, torch.nan)]))
    assert broken.effective[1].isnan() and broken.above[0] == 4


def test_read_out_of_a_linear_code_is_right_also_in_the_hole() -> None:
    features = torch.stack([CELLS.double() @ random(2, 9, seed=m) + 4 for m in range(2)])
    found = read_out(features, CELLS, TRAINED)
    for value in (found.trained_r2, found.held_out_r2):
        torch.testing.assert_close(value, torch.ones(2, 2).double(), atol=1e-6, rtol=0)
    assert found.held_out_error.max() < 1e-4


def test_a_read_out_is_not_judged_on_what_it_was_fitted_on() -> None:
    # One direction per cell: every in-sample read-out would be perfect, and nothing can be read elsewhere.
    table = torch.eye(len(CELLS)).double()[None]
    found = read_out(table, CELLS, TRAINED)
    assert found.trained_r2.max() < 0.01
    assert found.held_out_r2.max() <= 0.01
    # A bump per pair carries to its neighbours: x is read between trained cells, but not deep in the hole.
    place = (-torch.cdist(CELLS.double(), CELLS.double()).square() / 2).exp()[None]
    near = read_out(place, CELLS, TRAINED)
    assert near.trained_r2.min() > 0.95 and near.held_out_error.max() > 2 * near.trained_error.max()


def test_read_out_members_apart_and_bad_input() -> None:
    features = random(3, len(CELLS), 5)
    features[2] = torch.nan
    together = read_out(features, CELLS, TRAINED)
    for m in range(2):
        alone = read_out(features[m : m + 1], CELLS, TRAINED)
        torch.testing.assert_close(together.held_out_error[m], alone.held_out_error[0])
    assert together.held_out_r2[2].isnan().all()
    with pytest.raises(UserError, match="each cell once"):
        read_out(features, torch.zeros_like(CELLS), TRAINED)
