"""Bumps, digits, supports and encodings of the forced-rendering study: closed forms, and refusals by name."""

import gzip
import math

import numpy as np
import pytest
import torch
from scipy import ndimage

from recombine.encodings import AngleEncoding, Encoding, OneHotEncoding, PopulationEncoding, RampEncoding
from recombine.errors import UserError
from recombine.worlds.bumps import Bumps, BumpsSettings
from recombine.worlds.digits import Digits, DigitsSettings, glyph, read_digit
from recombine.worlds.supports import (
    CornerSupport,
    CrossSupport,
    DonutSupport,
    GapSupport,
    LShapeSupport,
    MaskSupport,
    check_support,
    depth_of,
    gap_mask,
    support_mask,
)


def plane(size):
    y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    return torch.stack([x.flatten(), y.flatten()], 1).float()


@pytest.mark.parametrize("polarity", ["dark", "bright"])
def test_a_bump_is_the_published_formula_with_columns_x_and_rows_y(polarity):
    world = Bumps(BumpsSettings(image_size=12, sigma=1.5, polarity=polarity))
    image = world.render(torch.tensor([[3.0, 8.0]]))[0, 0]
    ink = [[math.exp(-((j - 3) ** 2 + (i - 8) ** 2) / (2 * 1.5**2)) for j in range(12)] for i in range(12)]
    wanted = torch.tensor(ink)
    torch.testing.assert_close(image, 1 - wanted if polarity == "dark" else wanted)
    peak = image.argmin() if polarity == "dark" else image.argmax()
    assert divmod(int(peak), 12) == (8, 3)


def test_blank_errors_are_the_measured_ones():
    """Reference, section 12.2 and 12.4: predicting background costs 3.80e-3 ID, 4.01e-3 OOD; 6.64e-3 and 3.72e-3."""
    for settings, support, inside, outside in (
        (BumpsSettings(), DonutSupport(), 3.80e-3, 4.01e-3),
        (BumpsSettings(image_size=32, sigma=1.5, polarity="bright"), CornerSupport(start=12), None, 6.64e-3),
    ):
        world = Bumps(settings)
        trained = torch.from_numpy(support_mask(support, settings.image_size)).flatten()
        blank = (world.render(plane(settings.image_size))[:, 0] - world.background).square().mean((1, 2))
        assert blank[~trained].mean() == pytest.approx(outside, rel=2e-3)
        if inside:
            assert blank[trained].mean() == pytest.approx(inside, rel=2e-3)


def test_product_and_sum_of_stripes():
    at = torch.tensor([[4.0, 2.0]])
    bump = Bumps(BumpsSettings(image_size=9, polarity="bright"))
    both = Bumps(BumpsSettings(image_size=9, polarity="bright", form="stripes"))
    vertical, horizontal = bump.stripe(at, 0), bump.stripe(at, 1)
    torch.testing.assert_close(bump.render(at), vertical * horizontal)
    torch.testing.assert_close(both.render(at), (vertical + horizontal) / 2)
    assert (vertical[0, 0, :, 4] == 1).all() and (horizontal[0, 0, 2] == 1).all()
    dark = Bumps(BumpsSettings(image_size=9))
    torch.testing.assert_close(dark.stripe(at, 0), 1 - vertical)


def test_continuous_centres_stay_in_their_cell_and_classify_back():
    world = Bumps(BumpsSettings(image_size=10, centres="continuous"))
    labels = torch.tensor([[0, 9], [4, 5]]).repeat(500, 1)
    values = world.draw(labels, torch.rand(1000, 2))
    assert (values - labels).abs().max() <= 0.5
    assert (world.classify(values) == labels).all()
    assert (world.classify(torch.tensor([[-0.7, 3.0]])) == torch.tensor([[-1, 3]])).all()
    whole = Bumps(BumpsSettings(image_size=10))
    assert (whole.draw(labels, torch.rand(1000, 0)) == labels).all()


def test_the_donut_is_the_published_box():
    mask = support_mask(DonutSupport(), 28)
    assert mask.sum() == 495 and (~mask).sum() == 289
    assert not mask[6, 22] and not mask[22, 6] and mask[5, 22] and mask[23, 23]
    corner = support_mask(CornerSupport(start=12), 32)
    assert corner.sum() == 624 and not corner[12, 12] and not corner[31, 31] and corner[11, 31]
    low = support_mask(CornerSupport(start=12, side="low"), 32)
    assert (low == corner[::-1, ::-1]).all()
    cross = support_mask(CrossSupport(low=10, high=17), 28)
    assert cross.sum() == 28**2 - 20**2 and not cross[0, 0] and cross[12, 0]
    assert (support_mask(LShapeSupport(thickness=14), 28) == support_mask(CornerSupport(start=14), 28)).all()


def test_any_mask_can_be_drawn_and_a_wrong_one_is_named():
    rows = ("####", "#..#", "#..#", "####")
    assert (support_mask(MaskSupport(rows=rows), 4) == support_mask(DonutSupport(low=1, high=2), 4)).all()
    with pytest.raises(ValueError, match="row 1 of the mask should be 4 characters"):
        support_mask(MaskSupport(rows=("####", "#.#", "#..#", "####")), 4)
    with pytest.raises(ValueError, match="one row of text for each of the 5"):
        support_mask(MaskSupport(rows=rows), 5)


def test_a_support_that_hides_a_value_is_refused_by_name():
    mask = np.ones((10, 10), dtype=bool)
    mask[:, [2, 5, 6, 7]] = False
    with pytest.raises(ValueError, match="no trained pair has x = 2, 5 to 7"):
        check_support(mask)
    with pytest.raises(ValueError, match="no trained pair has y = 2, 5 to 7"):
        check_support(mask.T)
    with pytest.raises(ValueError, match="no trained pair has x = 0 to 9"):
        support_mask(DonutSupport(low=0, high=9), 10)
    with pytest.raises(ValueError, match="nothing is left"):
        support_mask(CornerSupport(start=10), 10)


@pytest.mark.parametrize("kind", [DonutSupport, CrossSupport])
def test_a_support_that_leaves_the_plane_is_refused_by_name(kind):
    """It would be another shape than the one that is written: a donut would be a corner."""
    support_mask(kind(low=5, high=9), 10)
    for low in (5, 20):
        said = f"the {kind().kind} reaches to 22, and x and y end at 9: set its high to 9 or less"
        with pytest.raises(ValueError, match=f"^{said}$"):
            support_mask(kind(low=low, high=22), 10)


def test_depth_grows_from_the_rim():
    trained = torch.from_numpy(support_mask(DonutSupport(), 28)).flatten()
    depth = depth_of(plane(28), trained).view(28, 28)
    assert (depth.flatten()[trained] == -1).all()
    assert depth[6, 14] == 0 and depth[8, 14] == 2 and depth[14, 14] == 8 and depth.max() == 8
    corner = torch.from_numpy(support_mask(CornerSupport(start=14), 28)).flatten()
    assert depth_of(plane(28), corner).view(28, 28)[27, 27] == 13  # away from the support, not from the border


@pytest.mark.parametrize(
    "settings", [PopulationEncoding(), PopulationEncoding(width=7), OneHotEncoding(), RampEncoding()]
)
def test_codes_are_disentangled(settings):
    """The factorization metric 1 - mean|g01| / mean(g00 + g11) of the input is exactly 1: each factor has its own
    columns."""
    encoding = Encoding(settings, (14, 14))
    values = plane(14) + 0.3
    jacobian = torch.func.vmap(torch.func.jacfwd(encoding))(values)  # (C, W, 2)
    metric = torch.einsum("cwi,cwj->cij", jacobian, jacobian)
    assert 1 - metric[:, 0, 1].abs().mean() / (metric[:, 0, 0] + metric[:, 1, 1]).mean() == 1.0
    assert (metric[:, 0, 0] > 0).all()
    assert encoding(values).shape == (196, encoding.width) and sum(encoding.widths) == encoding.width


def test_codes_are_the_published_ones():
    code = Encoding(PopulationEncoding(width=3), (28, 28))(torch.tensor([[5.0, 20.0]]))[0]
    assert code[5] == 1 and code[28 + 20] == 1
    assert code[7] == pytest.approx(math.exp(-4 / 6)) and code[28 + 19] == pytest.approx(math.exp(-1 / 6))
    hot = Encoding(OneHotEncoding(), (6, 6))(torch.tensor([[2.0, 5.0], [2.25, 0.0]]))
    assert hot[0].nonzero().flatten().tolist() == [2, 11] and hot[1, 2:4].tolist() == [0.75, 0.25]
    assert Encoding(RampEncoding(), (28, 28))(torch.tensor([[3.0, 27.0]])).tolist() == [[3.0, 27.0]]
    assert Encoding(RampEncoding(scaled=True), (28, 28))(torch.tensor([[0.0, 27.0]])).tolist() == [[-1.0, 1.0]]
    turned = Encoding(AngleEncoding(), (360,), circle=True)(torch.tensor([[90.0]]))
    torch.testing.assert_close(turned, torch.tensor([[0.0, 1.0]]), atol=1e-6, rtol=0)


def test_a_stripe_has_no_code_for_the_other_factor():
    encoding = Encoding(OneHotEncoding(), (4, 4))
    assert encoding.only(torch.tensor([[2.0, 2.0]]), 0).tolist() == [[0, 0, 1, 0, 0, 0, 0, 0]]
    assert encoding.only(torch.tensor([[2.0, 2.0]]), 1).tolist() == [[0, 0, 0, 0, 0, 0, 1, 0]]
    with pytest.raises(ValueError, match="no code for a missing factor"):
        Encoding(RampEncoding(), (4, 4)).only(torch.zeros(1, 2), 0)


def test_codes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="angle is a code of angles"):
        Encoding(AngleEncoding(), (28, 28))
    with pytest.raises(ValueError, match="onehot has a column for every value"):
        Encoding(OneHotEncoding(), (360,), circle=True)


def test_a_turned_digit_is_what_scipy_turns():
    world = Digits(DigitsSettings())
    for angle in (30.0, 90.0, 200.0):
        ours = world.render(torch.tensor([[angle]]))[0, 0].numpy()
        theirs = ndimage.rotate(world.upright.numpy(), angle, reshape=False, order=1)
        assert np.abs(ours - theirs).max() < 1e-4, angle
    assert 0.05 < world.upright.mean() < 0.4 and world.upright.max() == 1
    assert all((glyph(a, 28) - glyph(b, 28)).abs().mean() > 0.03 for a in range(10) for b in range(a))


def test_a_gap_holds_out_what_lies_between():
    trained = gap_mask(GapSupport(), torch.arange(360.0))
    assert (~trained).sum() == 39 and trained[160] and trained[200] and not trained[161]
    with pytest.raises(ValueError, match="only a gap"):
        gap_mask(DonutSupport(), torch.arange(360.0))
    with pytest.raises(ValueError, match="gap is a support of angles"):
        support_mask(GapSupport(), 28)


def test_mnist_is_read_from_idx_files_and_a_bad_one_is_named(tmp_path):
    pictures = np.arange(3 * 28 * 28, dtype=np.uint32).astype(np.uint8).reshape(3, 28, 28)
    header = b"".join(int(n).to_bytes(4, "big") for n in (2051, 3, 28, 28))
    (tmp_path / "images.gz").write_bytes(gzip.compress(header + pictures.tobytes()))
    (tmp_path / "labels").write_bytes((2049).to_bytes(4, "big") + (3).to_bytes(4, "big") + bytes([7, 4, 4]))
    images, labels = str(tmp_path / "images.gz"), str(tmp_path / "labels")
    assert np.allclose(read_digit(images, labels, 4, 1).numpy() * 255, pictures[2])
    settings = DigitsSettings(source="mnist", images_path=images, labels_path=labels)
    assert np.allclose(Digits(settings).upright.numpy() * 255, pictures[1])
    with pytest.raises(UserError, match="holds 2 digits 4"):
        read_digit(images, labels, 4, 2)
    with pytest.raises(UserError, match="there is no file"):
        read_digit(str(tmp_path / "none"), labels, 4, 0)
    with pytest.raises(UserError, match="labels is not a whole IDX file of images"):
        read_digit(labels, labels, 4, 0)
    with pytest.raises(ValueError, match="images_path: there is no file"):
        DigitsSettings(source="mnist", images_path=str(tmp_path / "none"), labels_path=labels)
    with pytest.raises(ValueError, match="index does nothing unless source is mnist"):
        DigitsSettings(index=3)
