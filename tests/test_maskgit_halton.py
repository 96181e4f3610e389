"""MaskGIT in Halton order: every cell once, the first far apart, the same schedule."""

import pytest
import torch
from torch.nn import functional as F

from recombine.generators.base import TokenShape
from recombine.generators.halton import halton_rank, radical_inverse
from recombine.generators.maskgit import MaskGITSettings
from small import draws
from small_discrete import build, shaken, watched


def test_radical_inverse():
    assert [radical_inverse(n, 2) for n in range(1, 6)] == [1 / 2, 1 / 4, 3 / 4, 1 / 8, 5 / 8]
    assert [radical_inverse(n, 3) for n in range(1, 5)] == pytest.approx([1 / 3, 2 / 3, 1 / 9, 4 / 9])


@pytest.mark.parametrize("grid", [(1, 1), (1, 3), (3, 3), (4, 4), (4, 6), (7, 7), (8, 8), (16, 16)])
def test_halton_visits_every_cell_once(grid):
    assert torch.equal(halton_rank(grid).sort().values, torch.arange(grid[0] * grid[1]))


def test_the_first_six_cells_lie_in_six_different_parts():
    """Any six points in a row fall one into each cell of a grid of 2 x 3, so finer grids begin with all six parts."""
    assert halton_rank((2, 3)).sort().values.tolist() == list(range(6))
    for grid in ((8, 6), (16, 9), (6, 12)):
        first = halton_rank(grid).argsort()[:6]
        parts = first // grid[1] * 2 // grid[0] * 3 + first % grid[1] * 3 // grid[1]
        assert sorted(parts.tolist()) == list(range(6))


@pytest.mark.parametrize("side", [7, 8])
def test_the_first_cells_are_farther_apart_than_cells_by_chance(side):
    """No two of the first eight touch, and the mean distance to the nearest is above nine in ten random choices."""

    def nearest(cells):
        place = torch.stack([cells // side, cells % side], -1).float()
        return (torch.cdist(place, place) + torch.diag(torch.full((8,), torch.inf))).min(-1).values

    first = nearest(halton_rank((side, side)).argsort()[:8])
    chance = [nearest(draws(step).uniform(side * side)[0].argsort()[:8]).mean() for step in range(300)]
    assert first.min() > 1.4 and first.mean() > torch.stack(chance).quantile(0.9)


@pytest.mark.parametrize("roll", [False, True])
@pytest.mark.parametrize("steps", [1, 5, 30])
def test_halton_decoding_with_an_oracle_returns_the_data_in_halton_order(monkeypatch, steps, roll):
    shape = TokenShape((4, 4), 4, 8)
    model = build(MaskGITSettings(order="halton", roll=roll, sampling_steps=steps), seeds=(0, 1), shape=shape)
    answer = draws().integers(8, 32, 16).expand(2, -1, -1)
    seen = watched(monkeypatch, model, lambda ids: 60.0 * F.one_hot(answer, 8))
    assert torch.equal(model.sample(torch.zeros(2, 32, 3), draws(1, members=2)), answer)
    rank, firsts = halton_rank((4, 4)), set()
    for ids in seen[1:]:
        known = ids != model.mask_id
        count = known.sum(-1)
        assert (count == count[0, 0]).all()  # the schedule does not depend on the image
        # Known are those whose turn, moved on by the image's own shift, is below the count.
        shifts = [(known == ((rank + shift) % 16 < count[..., None])).all(-1) for shift in range(16 if roll else 1)]
        assert torch.stack(shifts).any(0).all()
        firsts |= set(torch.stack(shifts).int().argmax(0).flatten().tolist())
    assert (len(firsts) > 4) == (roll and steps > 1)


def test_halton_order_has_no_choice_noise_and_the_same_schedule(monkeypatch):
    cond, counts, samples = torch.zeros(1, 16, 3), {}, []
    for words in ({}, {"order": "halton"}, {"order": "halton", "smoothing": 0.5}):
        model = shaken(MaskGITSettings(sampling_steps=5, **words))
        seen = watched(monkeypatch, model)
        samples.append(model.sample(cond, draws()))
        counts[str(words)] = [(ids == model.mask_id).sum(-1).unique().tolist() for ids in seen]
        monkeypatch.undo()
    assert not torch.equal(samples[0], samples[1]) and torch.equal(samples[1], samples[2])
    assert len(set(map(str, counts.values()))) == 1
