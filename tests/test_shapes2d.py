"""The shapes2d world: what is drawn is what the values say."""

import itertools
import math

import pytest
import torch
from pydantic import ValidationError

from recombine.worlds import Shapes2D, Shapes2DSettings, World, build_world, make_images
from recombine.worlds.shapes2d import COLOUR_JITTER, COLOURS, SHAPES
from recombine.worlds.sheet import draw_sheet


def all_compositions(world: World) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(len(factor.values)) for factor in world.factors)))


@pytest.fixture(params=[16, 28])
def world(request: pytest.FixtureRequest) -> Shapes2D:
    return Shapes2D(Shapes2DSettings(image_size=request.param, shapes=len(SHAPES), colours=3, sizes=3))


def test_defaults_are_the_papers():
    world = build_world(Shapes2DSettings())
    assert [factor.name for factor in world.factors] == ["shape", "colour", "size"]
    assert [factor.values for factor in world.factors] == [("circle", "triangle"), ("red", "blue"), ("large", "small")]
    values = world.canonical(torch.tensor([[0, 0, 0], [1, 1, 1]]))
    assert values[:, 1:4].tolist() == [pytest.approx([0.9, 0.1, 0.1]), pytest.approx([0.1, 0.1, 0.9])]
    assert float(values[0, 4] / values[1, 4]) == pytest.approx(2.6 / 1.6)


def test_every_shape_covers_the_area_its_size_says(world: Shapes2D):
    """Anti-aliasing by a ramp keeps the area, and equal areas keep size from telling the shape."""
    side = world.image_size
    for shape in range(len(world.shape_names)):
        places = 0.5 + 0.5 / side * torch.rand(64, 2, generator=torch.Generator().manual_seed(shape))
        for size in world.sizes:
            pose = torch.cat([torch.full((64, 1), size), places], 1)
            area = world.coverage(shape, pose).sum((1, 2)).mean() / side**2
            assert float(area) == pytest.approx(math.pi * size**2, rel=0.03), (world.shape_names[shape], size)


def test_the_ramp_is_one_pixel_wide():
    """Along a row through the middle of a disc every pixel is full, empty, or one of the two at the border."""
    world = Shapes2D(Shapes2DSettings(image_size=32))
    row = world.coverage(0, torch.tensor([[0.2, 0.51, 0.5 + 0.5 / 32]]))[0, 16]
    assert int(((row > 0) & (row < 1)).sum()) <= 4 and int((row == 1).sum()) > 8
    assert float(row.sum()) / 32 == pytest.approx(0.4, abs=0.02)  # the diameter


def test_the_whole_shape_is_inside(world: Shapes2D):
    """At the corners of the range of positions, at the largest size: on a canvas twice as large, with the image in its
    middle, no ink falls outside the image."""
    side = world.image_size
    canvas = Shapes2D(world.settings.model_copy(update={"image_size": 2 * side}))
    compositions = torch.tensor(all_compositions(world))
    for corner in itertools.product((0.0, 1.0), repeat=2):
        uniforms = torch.full((len(compositions), 6), 1.0)
        uniforms[:, 4:] = torch.tensor(corner)
        values = world.draw(compositions, uniforms)
        image = world.render(values)
        values[:, 4] /= 2
        values[:, 5:] = 0.25 + values[:, 5:] / 2
        drawn = canvas.render(values)
        inner = slice(side // 2, side // 2 + side)
        torch.testing.assert_close(drawn[..., inner, inner], image, rtol=0, atol=1e-3)
        assert float((1 - drawn).sum() - (1 - image).sum()) < 1e-3 * float((1 - image).sum())


def test_ranges_of_classes_do_not_overlap(world: Shapes2D):
    """Drawn values belong to their own class, and stay in it alone however wide the judge makes the ranges."""
    images = make_images(world, all_compositions(world), 64, seed=3, purpose="test")
    assert (world.classify(images.values) == images.labels).all()
    assert (world.classify(images.values, slack=1.0) == images.labels).all()
    assert world.placed(images.values).all()
    for size in range(len(world.sizes) - 1):
        larger = images.values[images.labels[:, 2] == size, 4].min()
        assert larger > images.values[images.labels[:, 2] == size + 1, 4].max()
    middles = torch.tensor(list(COLOURS.values()))
    apart = (middles[:, None] - middles[None]).abs().amax(2) + torch.eye(len(middles))
    assert float(apart.min()) > 4 * COLOUR_JITTER


def test_values_between_classes_are_refused(world: Shapes2D):
    values = world.canonical(torch.tensor([[0, 0, 0]] * 4))
    values[0, 1:4] = torch.tensor([0.5, 0.1, 0.5])  # between red and blue
    values[1, 4] = (world.sizes[0] + world.sizes[1]) / 2
    values[2, 0] = 17
    values[3, 5] = 0.5 + 2 * world.reach
    assert world.classify(values).tolist() == [[0, -1, 0], [0, 0, -1], [-1, 0, 0], [0, 0, 0]]
    assert world.placed(values).tolist() == [True, True, True, False]


def test_same_uniforms_same_image_at_any_batch_size(world: Shapes2D):
    labels = torch.tensor(all_compositions(world))
    uniforms = torch.rand(len(labels), 6, generator=torch.Generator().manual_seed(0))
    together = world.render(world.draw(labels, uniforms))
    alone = torch.cat([world.render(world.draw(labels[i : i + 1], uniforms[i : i + 1])) for i in range(len(labels))])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-6)


def test_gradients_match_small_changes(world: Shapes2D):
    """Differentiable in colour, size and place: the slope of a smooth sum of pixels is the slope measured."""
    labels = torch.tensor([[shape, 1, 0] for shape in range(len(world.shape_names))])
    values = world.draw(labels, torch.full((len(labels), 6), 0.37)).double()
    weights = torch.rand(world.image_size, world.image_size, generator=torch.Generator().manual_seed(1)).double()

    def summary(values: torch.Tensor) -> torch.Tensor:
        return (world.render(values) * weights).sum((1, 2, 3))

    watched = values.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(summary(watched).sum(), watched)
    assert torch.isfinite(slopes).all()
    for column in range(1, 7):
        step = torch.zeros_like(values)
        step[:, column] = 1e-6
        measured = (summary(values + step) - summary(values - step)) / 2e-6
        torch.testing.assert_close(slopes[:, column], measured, rtol=1e-3, atol=1e-3)


def test_descriptions_span_the_range(world: Shapes2D):
    images = make_images(world, all_compositions(world), 64, seed=0, purpose="test")
    parts = world.describe(images.values)
    assert [part.shape[1] for part in parts] == [factor.width for factor in world.factors] == [0, 3, 1]
    assert float(parts[2].min()) == pytest.approx(-1, abs=0.05) and float(parts[2].max()) == pytest.approx(1, abs=0.05)
    torch.testing.assert_close(parts[1], 2 * images.values[:, 1:4] - 1)


def test_purposes_and_seeds_give_other_images():
    world = Shapes2D(Shapes2DSettings(image_size=16))
    first = make_images(world, [(0, 0, 0)], 8, seed=0, purpose="a").values
    for seed, purpose in ((0, "b"), (1, "a")):
        other = make_images(world, [(0, 0, 0)], 8, seed=seed, purpose=purpose).values
        assert not torch.isclose(first[:, 1:], other[:, 1:]).any()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"image_size": 16, "sizes": 5}, "at most 3 sizes"),
        ({"image_size": 8, "shapes": 5}, "use image_size 12"),
        ({"shapes": len(SHAPES) + 1}, "less than or equal"),
        ({"image_size": 4}, "greater than or equal"),
        ({"colors": 3}, "colors"),
    ],
)
def test_worlds_nobody_could_judge_are_refused(settings: dict, reason: str):
    with pytest.raises(ValidationError, match=reason):
        Shapes2DSettings(**settings)


def test_sheet_is_drawn(tmp_path):
    draw_sheet(Shapes2D(Shapes2DSettings(image_size=16)), tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").read_bytes()[:4] == b"\x89PNG"
