"""The superposition score: planted superpositions score 1, perfect renderers 0, and the plain cosines mean what they
say."""

import pytest
import torch
from torch import Tensor

from recombine.anatomy.plane import inner, plane_cells, to_map
from recombine.anatomy.superposition import (
    DEEP,
    additive_weights,
    edge_weights,
    memory_weights,
    superposition,
    without_background,
)
from recombine.errors import UserError
from recombine.worlds.supports import depth_of

SIZE = 14
CELLS = plane_cells(SIZE)
TRAINED = ~((CELLS >= 4) & (CELLS <= 10)).all(1)  # a ring around a hole of 7 by 7


def bumps(cells: Tensor, size: int = SIZE, dark: bool = True, width: float = 1.0) -> Tensor:
    """True pictures (C, size * size), columns x and rows y."""
    pixels = plane_cells(size).double()
    squared = (cells.double()[:, None] - pixels[None]).square().sum(2)
    bump = (-squared / (2 * width**2)).exp()
    return 1 - bump if dark else bump


def adds_memories(truths: Tensor, trained: Tensor = TRAINED, cells: Tensor = CELLS) -> Tensor:
    """A decoder that is right where it was trained and elsewhere shows the mean of what shares x or y."""
    outputs = truths.clone()
    outputs[~trained] = memory_weights(cells, trained) @ truths[trained]
    return outputs


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("dark", [True, False])
def test_a_superposition_scores_one_and_a_perfect_renderer_zero(dark: bool) -> None:
    truths = bumps(CELLS, dark=dark)
    found = superposition(torch.stack([adds_memories(truths), truths]), truths, CELLS, TRAINED)
    assert found.share.shape == (2, 49)
    torch.testing.assert_close(found.share[0], torch.ones(49).double())
    torch.testing.assert_close(found.share[1], torch.zeros(49).double(), atol=1e-12, rtol=0)
    torch.testing.assert_close(found.memory[0], torch.ones(49).double())
    torch.testing.assert_close(found.truth[1], torch.ones(49).double())
    torch.testing.assert_close(found.explained, torch.ones(2, 49).double())
    torch.testing.assert_close(found.strength[1], torch.ones(49).double())
    assert (found.memory[0] > found.control[0] + 0.4).all()  # another cell's memory explains far less
    # Deep inside the hole the plain cosines part as well; at the rim they do not, which is what the share is for.
    deep = found.summary(at_least=DEEP)
    assert deep["memory"][1] < 0.05 and deep["truth"][0] < 0.05
    assert found.memory[1, found.depth == 0].min() > 0.1


def test_scores_do_not_depend_on_contrast_or_background() -> None:
    truths = bumps(CELLS)
    outputs = (0.3 * adds_memories(truths) + 0.7 * truths)[None]
    plain = superposition(outputs, truths, CELLS, TRAINED)
    turned = superposition(5 - 3 * outputs, 1 - truths, CELLS, TRAINED)  # bright on dark, and stronger
    for name in ("memory", "truth", "control", "share", "explained"):
        torch.testing.assert_close(getattr(turned, name), getattr(plain, name))


def test_a_planted_mixture_has_its_share() -> None:
    truths = bumps(CELLS, width=0.5)
    truths[truths > 0.999] = 1.0  # most pixels are exactly background, so that mixing keeps the median
    clean = without_background(truths)
    memory = without_background(adds_memories(truths))
    unit = [p / p.norm(dim=1, keepdim=True) for p in (memory, clean)]
    outputs = clean.clone()
    outputs[~TRAINED] = (0.6 * unit[0] + 0.2 * unit[1])[~TRAINED]
    found = superposition(outputs[None], truths, CELLS, TRAINED)
    torch.testing.assert_close(found.share, torch.full((1, 49), 0.75).double())
    torch.testing.assert_close(found.explained, torch.ones(1, 49).double())


def test_noise_and_opposites_are_not_called_a_superposition() -> None:
    truths = bumps(CELLS)
    noise = superposition(random(1, len(CELLS), SIZE**2), truths, CELLS, TRAINED)
    assert noise.explained.mean() < 0.05
    flipped = truths.clone()
    flipped[~TRAINED] = 2 - adds_memories(truths)[~TRAINED]  # the memory with the wrong sign
    found = superposition(flipped[None], truths, CELLS, TRAINED)
    assert found.share[:, found.depth >= DEEP].isnan().all()
    assert found.summary(DEEP)["undefined"] == 1


def test_a_blank_has_no_direction_and_harms_nobody() -> None:
    truths = bumps(CELLS)
    outputs = torch.stack([adds_memories(truths)] * 3)
    outputs[1, ~TRAINED] = 1.0
    outputs[2] = torch.nan  # diverged
    found = superposition(outputs, truths, CELLS, TRAINED)
    assert found.memory[1].isnan().all() and (found.strength[1] == 0).all()
    assert found.share[2].isnan().all()
    alone = superposition(outputs[:1], truths, CELLS, TRAINED)
    torch.testing.assert_close(found.share[:1], alone.share)
    torch.testing.assert_close(found.control[:1], alone.control)


def test_the_control_is_the_mean_over_shuffles() -> None:
    truths = bumps(CELLS)
    outputs = 0.5 * truths + 0.5 * adds_memories(truths) + 0.01 * random(*truths.shape)
    found = superposition(outputs[None], truths, CELLS, TRAINED)
    memory = without_background(memory_weights(CELLS, TRAINED) @ outputs[TRAINED])
    own = without_background(outputs[~TRAINED])
    generator = torch.Generator().manual_seed(0)
    shuffled = [
        torch.cosine_similarity(own, memory[torch.randperm(len(own), generator=generator)], dim=1).mean()
        for _ in range(200)
    ]
    # A shuffle may leave a cell in place (once in 49); the control never does.
    inside = found.memory.mean() / 49 + found.control.mean() * 48 / 49
    assert torch.stack(shuffled).mean().item() == pytest.approx(inside.item(), abs=0.005)


@pytest.mark.parametrize("shape", ["ring", "corner", "scattered"])
def test_an_additive_decoder_equals_the_additive_prediction(shape: str) -> None:
    holes = {
        "ring": ~TRAINED,
        "corner": (CELLS >= 8).all(1),
        "scattered": (CELLS[:, 0] * 5 + CELLS[:, 1] * 3) % 4 == 0,
    }
    trained = ~holes[shape]
    a, b = random(SIZE, SIZE**2), random(SIZE, SIZE**2, seed=1)
    outputs = a[CELLS[:, 0]] + b[CELLS[:, 1]]
    weights = additive_weights(CELLS, trained)
    torch.testing.assert_close(weights @ outputs[trained], outputs[~trained])
    found = superposition(outputs[None], bumps(CELLS), CELLS, trained, weights)
    torch.testing.assert_close(found.memory, torch.ones_like(found.memory))
    assert found.share.min() > 0.9999
    # And a perfect renderer is not additive.
    truths = bumps(CELLS)
    assert superposition(truths[None], truths, CELLS, trained, weights).share.max() < 1e-9


def test_where_truth_and_memory_are_one_picture_there_is_no_share() -> None:
    # A world that is itself additive (a sum of stripes): adding memories is rendering.
    stripe = torch.arange(SIZE)[:, None] == torch.arange(SIZE)[None]
    pictures = (stripe[CELLS[:, 0]][:, None, :] + 0.0) + stripe[CELLS[:, 1]][:, :, None]  # (C, rows, columns)
    truths = pictures.flatten(1).double()
    found = superposition(truths[None], truths, CELLS, TRAINED, additive_weights(CELLS, TRAINED))
    assert found.share.isnan().all() and found.summary()["undefined"] == 1
    torch.testing.assert_close(found.memory, torch.ones_like(found.memory))


def test_edges_cross_fade_over_a_gap_also_around_the_circle() -> None:
    angles = torch.arange(0, 360, 10)
    trained = ~((angles > 340) | (angles < 30))  # 350, 0, 10, 20 are missing: the gap spans 340 to 30
    weights = edge_weights(angles, trained, period=360)
    known = angles[trained].tolist()
    low, high = known.index(340), known.index(30)
    held = angles[~trained].tolist()
    assert weights[held.index(350), low].item() == pytest.approx(0.8)
    assert weights[held.index(10), low].item() == pytest.approx(0.4)
    assert weights[held.index(10), high].item() == pytest.approx(0.6)
    torch.testing.assert_close(weights.sum(1), torch.ones(4).double())
    with pytest.raises(UserError, match="period"):
        edge_weights(angles, trained)
    # A decoder that cross-fades scores 1.
    truths = random(36, 50)
    outputs = truths.clone()
    outputs[~trained] = weights @ truths[trained]
    assert superposition(outputs[None], truths, angles[:, None], trained, weights).share.min() > 0.999


def test_several_samples_of_a_cell_and_continuous_cells() -> None:
    truths = bumps(CELLS)
    twice, both = CELLS.repeat(2, 1), TRAINED.repeat(2)
    found = superposition(adds_memories(truths).repeat(2, 1)[None], truths.repeat(2, 1), twice, both)
    single = superposition(adds_memories(truths)[None], truths, CELLS, TRAINED)
    torch.testing.assert_close(found.control, single.control.repeat(1, 2))
    torch.testing.assert_close(found.share, single.share.repeat(1, 2))
    shifted = CELLS + 0.2 * (torch.rand(len(CELLS), 2, generator=torch.Generator().manual_seed(0)) - 0.5)
    weights = memory_weights(shifted, TRAINED, within=0.25)
    torch.testing.assert_close(weights, memory_weights(CELLS, TRAINED))


def test_depth_and_maps() -> None:
    depth = depth_of(CELLS, TRAINED)
    assert depth[TRAINED].eq(-1).all()
    grid = to_map(depth, CELLS, SIZE)
    assert grid[4, 7] == 0 and grid[7, 7] == 3 and grid[6, 5] == 1 and grid.shape == (SIZE, SIZE)
    # The published box: 17 by 17 cells, 169 of them at least 2 inside, the centre at 8.
    cells = plane_cells(28)
    hole = ((cells >= 6) & (cells <= 22)).all(1)
    depth = depth_of(cells, ~hole)
    assert int((depth >= 2).sum()) == 169 and depth.max() == 8
    # A corner hole is deepest in the corner.
    corner = depth_of(cells, ~(cells >= 14).all(1))
    assert corner[-1] == 13
    part = to_map(torch.ones(5), CELLS[:5], SIZE)
    assert part.isnan().sum() == SIZE**2 - 5
    kept = inner(TRAINED.view(SIZE, SIZE))
    assert not kept[4, 7] and not kept[3, 7] and kept[5, 7] and kept[0, 0] and kept[3, 3]


def test_bad_input_is_named() -> None:
    truths = bumps(CELLS)
    whole = (CELLS[:, 0] != 5) & (CELLS[:, 1] != 5)  # a cross: x = 5 and y = 5 are never seen
    with pytest.raises(UserError, match="every factor value"):
        memory_weights(CELLS, whole)
    with pytest.raises(UserError, match="never seen"):
        additive_weights(CELLS, CELLS[:, 0] != 5)
    parts = (CELLS < 7).all(1) | (CELLS >= 7).all(1)  # two blocks that share nothing
    with pytest.raises(UserError, match="parts"):
        additive_weights(CELLS, parts)
    with pytest.raises(UserError, match="held-out"):
        superposition(truths[None], truths, CELLS, torch.ones_like(TRAINED))
    with pytest.raises(UserError, match="match the outputs"):
        superposition(truths[None], truths[:-1], CELLS, TRAINED)
    with pytest.raises(UserError, match="deepest"):
        superposition(truths[None], truths, CELLS, TRAINED).summary(at_least=9)
