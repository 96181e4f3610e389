"""The judge of the plane, planted: perfect, blank, shifted, doubled and faded pictures."""

import pytest
import torch

from recombine.curated import make_plane
from recombine.judges.plane import Judged, by_depth, cross_fade, judge_plane, ssim, summarise
from recombine.worlds.bumps import Bumps, BumpsSettings
from recombine.worlds.digits import Digits, DigitsSettings
from recombine.worlds.supports import DonutSupport, GapSupport, gap_mask, support_mask

SIZE = 16


def plane_of(**words):
    world = Bumps(BumpsSettings(image_size=SIZE, **words))
    return make_plane(world, torch.from_numpy(support_mask(DonutSupport(low=4, high=11), SIZE)).flatten())


@pytest.mark.parametrize("polarity", ["dark", "bright"])
@pytest.mark.parametrize("form", ["bump", "stripes"])
def test_perfect_and_blank_pictures(polarity, form):
    plane = plane_of(polarity=polarity, form=form)
    blank = torch.full_like(plane.images, plane.background)
    judged = judge_plane(torch.stack([plane.images, blank]), plane)
    held = ~plane.trained
    good, bad = ({word: value[m].item() for word, value in summarise(judged, plane, held).items()} for m in (0, 1))
    assert good["mse"] == 0 and good["joint"] == good["hit"] == good["valid"] == 1
    assert good["ssim"] == pytest.approx(1, abs=1e-5)
    assert bad["relative"] == pytest.approx(1) and bad["valid"] == 0 and bad["joint"] == 0 and bad["ssim"] < 0.9


def test_shifted_bumps_are_near_by_one_pixel_and_not_by_two():
    plane = plane_of()
    middle = (plane.cells - 7.5).abs().amax(1) < 4
    for shift, near in ((1, True), (2, False)):
        judged = judge_plane(plane.images.roll(shift, dims=2)[None], plane)
        assert (judged.right[0, middle, 0] == near).all()  # columns are x
        assert judged.right[0, middle, 1].all() and judged.valid[0, middle].all()
        assert (judged.position_error[0, middle] == shift).all()
        assert (judged.joint[0, middle] == near).all()


def test_a_superposition_at_the_right_place_is_not_valid():
    plane = plane_of()
    ink = 1 - plane.images
    crossed = (1 - (0.4 * ink + 0.3 * ink.roll(5, 1) + 0.3 * ink.roll(5, 2)))[None]
    judged = judge_plane(crossed, plane)
    middle = (plane.cells - 7.5).abs().amax(1) < 2
    assert judged.hit[0, middle].all() and not judged.valid[0, middle].any()


def test_a_diverged_member_is_judged_blank_or_worse():
    plane = plane_of()
    judged = judge_plane(torch.full((1, len(plane.cells), SIZE, SIZE), torch.nan), plane)
    assert not judged.joint.any() and judged.mse.isfinite().all()


def test_errors_are_told_apart_by_depth():
    plane = plane_of()
    wrong = plane.images.clone()
    wrong[plane.depth == 3] = plane.background
    found = by_depth(judge_plane(wrong[None], plane), plane)
    assert list(found) == [0, 1, 2, 3]
    assert [found[depth]["relative"].item() for depth in found] == pytest.approx([0, 0, 0, 1])


def test_ssim_follows_its_formula_on_constant_pictures():
    """Means a and b, no variance: (2 a b + C1) / (a^2 + b^2 + C1)."""
    a, b = torch.full((1, 20, 20), 0.4), torch.full((1, 20, 20), 0.9)
    assert ssim(a, b).item() == pytest.approx((2 * 0.36 + 1e-4) / (0.16 + 0.81 + 1e-4), rel=1e-3)
    noise = torch.rand(1, 20, 20)
    assert ssim(noise, noise).item() == pytest.approx(1) and ssim(noise, 1 - noise).item() < 0


def test_angles_are_judged_on_the_circle_and_a_cross_fade_is_told_from_a_turn():
    world = Digits(DigitsSettings(angles=72))
    plane = make_plane(world, gap_mask(GapSupport(), world.angles()[:, 0]))
    held = ~plane.trained
    assert plane.depth[held].max() == 20 and plane.depth[plane.trained].max() == -1
    faded = cross_fade(plane)
    assert torch.equal(faded[plane.trained], plane.images[plane.trained])
    torch.testing.assert_close(faded[36], (plane.images[32] + plane.images[40]) / 2)  # 180 degrees, between 160 and 200
    judged = judge_plane(torch.stack([plane.images, faded]), plane)
    assert judged.joint[0].all() and (judged.fade_mse[1] == 0).all()
    assert judged.mse[1, held].mean() > 0.01 and judged.fade_mse[0, held].mean() == judged.mse[1, held].mean()
    turned = judge_plane(plane.images.roll(1, 0)[None], plane)
    assert turned.position_error.max() == 5  # also from 355 to 0


def test_judged_goes_through_a_file():
    judged = judge_plane(plane_of().images[None], plane_of())
    again = Judged.from_tensors(judged.tensors())
    assert torch.equal(again.mse, judged.mse) and torch.equal(again.joint, judged.joint)
