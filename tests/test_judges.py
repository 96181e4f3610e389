"""The judges: the judge is judged, on images it was not calibrated on."""

import itertools
import json
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from recombine.errors import UserError
from recombine.judges import Judge, build_judge, build_probe, calibrate, fit_probe
from recombine.judges import verdict as verdict_module
from recombine.judges.negatives import CUT, KINDS, TRIES, Maker, far_from_real, make_negatives
from recombine.judges.rerender import defect, read, soften
from recombine.tokenizers import Tokens
from recombine.worlds import Shapes2D, Shapes2DSettings, make_images

WORLD = Shapes2D(Shapes2DSettings(image_size=16))
COMPOSITIONS = list(itertools.product(range(2), repeat=3))


def blurred(images: Tensor, amount: float = 0.2, noise: float = 0.02) -> Tensor:
    """What a tokenizer does to an image: slight blur, slight noise."""
    grain = torch.randn(images.shape, generator=torch.Generator().manual_seed(len(images)))
    return (images + amount * (soften(images) - images) + noise * grain).clamp(0, 1)


class Distorting:
    """A stand-in for a tokenizer: its tokens are pixels, its decoder distorts."""

    def __init__(self, distort: Callable[[Tensor], Tensor]):
        self.decode = distort

    def encode(self, images: Tensor) -> Tokens:
        return Tokens(images, None, None)


SOFT = {"soft": (Distorting(blurred), COMPOSITIONS)}


def half_trained() -> dict[str, Tensor]:
    early = make_images(WORLD, COMPOSITIONS, 16, seed=9, purpose="test").images
    return {"half-trained": 0.6 * early + 0.4 * early.roll(37, 0)}


@pytest.fixture(scope="module")
def judge() -> Judge:
    probe, facts = fit_probe(WORLD, seed=0)
    assert min(facts["accuracy"].values()) >= 0.99 and len(facts["accuracy"]) == 8
    judge, facts = calibrate(WORLD, probe, SOFT, half_trained(), seed=0, per_kind=256)
    assert facts["refused"]["half-trained"] >= 0.99
    return judge


def test_values_are_read_exactly_from_real_images():
    for settings in (Shapes2DSettings(image_size=16, shapes=6, colours=4), Shapes2DSettings(image_size=28, sizes=3)):
        world = Shapes2D(settings)
        every = list(itertools.product(*(range(len(factor.values)) for factor in world.factors)))
        images = make_images(world, every, 6, seed=1, purpose="test")
        reading = read(world, images.images)
        assert (reading.values[:, 0] == images.values[:, 0]).all()
        off = (reading.values - images.values).abs()
        assert float(off[:, 1:4].max()) < 0.005  # colour
        assert float((off[:, 4] / images.values[:, 4]).max()) < 0.005  # size
        assert float(off[:, 5:].max()) * world.image_size < 0.02  # pixels
        assert float(reading.error.max()) < 0.005


def test_slight_blur_hardly_moves_the_values():
    images = make_images(WORLD, COMPOSITIONS, 32, seed=2, purpose="test")
    reading = read(WORLD, blurred(images.images))
    assert (reading.values[:, 0] == images.values[:, 0]).all()
    off = (reading.values - images.values).abs()
    assert float(off[:, 5:].max()) * WORLD.image_size < 0.2
    assert float((off[:, 4] / images.values[:, 4]).quantile(0.99)) < 0.04
    assert float(off[:, 1:4].quantile(0.99)) < 0.08


def test_ranges_end_half_way_to_where_classes_touch(judge: Judge):
    sharp = build_judge(WORLD, judge.probe, judge.state(), {})
    sharp.slack = verdict_module._limits(WORLD, {"real": real_images()}, {})[0]
    assert sharp.slack == pytest.approx(2**0.5 - 1, abs=0.02)  # real images need next to no slack
    middle = WORLD.canonical(torch.tensor(COMPOSITIONS))
    larger, between = middle.clone(), middle.clone()
    larger[:, 4] *= 1 + 1.3 * WORLD.size_jitter
    between[:, 4] = (WORLD.sizes[0] * WORLD.sizes[1]) ** 0.5
    for values, accepted in ((middle, True), (larger, True), (between, False)):
        verdicts = sharp.judge(WORLD.render(values), torch.tensor(COMPOSITIONS))
        assert (verdicts.in_range == accepted).all() and verdicts.clean.all()
        assert (verdicts.valid == (verdicts.in_range & verdicts.clean)).all()


def real_images() -> Tensor:
    return make_images(WORLD, COMPOSITIONS, 64, seed=3, purpose="test").images


def test_reading_does_not_depend_on_the_batch():
    images = make_images(WORLD, COMPOSITIONS, 4, seed=2, purpose="test").images
    whole = read(WORLD, images)
    parts = [read(WORLD, part) for part in images.split(3)]
    torch.testing.assert_close(torch.cat([part.values for part in parts]), whole.values, rtol=0, atol=1e-4)


def test_defect_sees_one_missing_corner_but_forgives_blur():
    images = make_images(WORLD, COMPOSITIONS, 16, seed=3, purpose="test")
    bitten = images.images.clone()
    for i, (x, y) in enumerate((images.values[:, 5:] * 16).long().tolist()):
        bitten[i, :, y : y + 2, x : x + 2] = 1.0  # four pixels of the shape's inside
    assert float(defect(bitten, images.images).min()) > 3 * float(defect(blurred(images.images), images.images).max())


def test_real_images_and_reconstructions_pass(judge: Judge):
    fresh = make_images(WORLD, COMPOSITIONS, 64, seed=21, purpose="report")
    for images in (fresh.images, blurred(fresh.images)):
        verdicts = judge.judge(images, fresh.labels)
        assert float(verdicts.valid.float().mean()) >= 0.99
        assert float(verdicts.joint.float().mean()) >= 0.985
    assert min(judge.facts["accepted"].values()) >= 0.99


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_negative_kind_is_refused(judge: Judge, kind: str):
    images = KINDS[kind](Maker(WORLD, 33, "test"), 200)
    assert len(images) >= 100, "too many were left out by construction"
    assert images.shape[1:] == (3, 16, 16) and images.min() >= 0 and images.max() <= 1
    assert float(judge.valid(images).float().mean()) <= 0.01
    assert judge.facts["refused"][kind] >= 0.99


def test_garbage_that_the_probe_accepts_is_refused(judge: Judge):
    """The reason for re-rendering: whatever the probe says of garbage, asked for just that it says "right"."""
    garbage = torch.cat(list(make_negatives(WORLD, 100, seed=4, purpose="test").values()))
    verdicts = judge.judge(garbage, judge.probe.predict(garbage))
    assert verdicts.joint_probe_only.all()
    assert float(verdicts.joint.float().mean()) <= 0.01


def test_a_perfect_sample_of_another_composition_is_valid_but_not_joint(judge: Judge):
    images = make_images(WORLD, COMPOSITIONS, 16, seed=5, purpose="test")
    for factor in range(3):
        asked = images.labels.clone()
        asked[:, factor] = 1 - asked[:, factor]
        verdicts = judge.judge(images.images, asked)
        assert verdicts.valid.float().mean() >= 0.99
        assert not verdicts.joint.any()
        others = [i for i in range(3) if i != factor]
        assert verdicts.right[:, others].float().mean() >= 0.99 and verdicts.right[:, factor].float().mean() <= 0.01


def test_a_faultless_picture_out_of_range_is_refused(judge: Judge):
    values = WORLD.canonical(torch.tensor([[0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 1]]))
    assert judge.valid(WORLD.render(values)).all()
    between_sizes, off_colour, misplaced = values.clone(), values.clone(), values.clone()
    between_sizes[:, 4] = sum(WORLD.sizes) / 2
    off_colour[:, 2] += 0.3
    misplaced[:, 5] = 0.5 + 2.2 * WORLD.reach
    for wrong in (between_sizes, off_colour, misplaced):
        assert not judge.valid(WORLD.render(wrong)).any()


def test_cut_shapes_lose_the_share_they_state():
    maker = Maker(WORLD, 6, "test")
    cuts = maker.cuts(64)
    whole = maker.real(TRIES * 64, "cuts").images
    for cut in cuts:
        (source,) = whole[((cut == whole) | (cut == 1)).flatten(1).all(1)]  # the one picture it is a part of
        lost = 1 - float((1 - cut).sum() / (1 - source).sum())
        assert CUT[0] - 1e-4 <= lost <= CUT[1] + 1e-4


def test_half_trained_samples_that_are_good_are_left_out():
    bank = make_images(WORLD, COMPOSITIONS, 256, seed=7, purpose="bank").images
    good = make_images(WORLD, COMPOSITIONS, 16, seed=7, purpose="good").images
    bad = make_negatives(WORLD, 64, seed=7, purpose="bad")["mosaics"]
    assert len(far_from_real(WORLD, good, bank, 7)) <= 1
    assert len(far_from_real(WORLD, bad, bank, 7)) > 32


def test_calibration_and_report_never_share_an_image(monkeypatch: pytest.MonkeyPatch, judge: Judge):
    """Limits are set under the purpose "calibration", shares reported under "judge check": the latter move no limit."""
    asked: list[str] = []
    made = verdict_module.make_images

    def spy(world, compositions, per_composition, seed, purpose, device="cpu"):
        asked.append(purpose)
        return made(world, compositions, per_composition, seed, purpose.replace("judge check", "other check"), device)

    monkeypatch.setattr(verdict_module, "make_images", spy)
    again, _ = calibrate(WORLD, judge.probe, SOFT, half_trained(), seed=0, per_kind=256)
    assert {"calibration real", "calibration soft", "judge check real", "judge check soft"} <= set(asked)
    assert (again.threshold, again.slack) == (judge.threshold, judge.slack)


def test_a_tokenizer_that_ruins_images_stops_the_study(judge: Judge):
    def ruin(images: Tensor) -> Tensor:
        return 0.5 * images + 0.5 * images.roll(1, 0)

    with pytest.raises(UserError, match="smeared"):
        calibrate(WORLD, judge.probe, {"smeared": (Distorting(ruin), COMPOSITIONS)}, {}, seed=0, per_kind=128)


def test_a_stored_judge_says_the_same(judge: Judge):
    probe = build_probe(WORLD)
    probe.load_state_dict(judge.probe.state_dict())
    again = build_judge(WORLD, probe, judge.state(), json.loads(json.dumps(judge.facts)))
    images = make_images(WORLD, COMPOSITIONS, 8, seed=8, purpose="test")
    first, second = judge.judge(images.images, images.labels), again.judge(images.images, images.labels)
    for name in ("right", "valid", "joint", "joint_probe_only"):
        assert torch.equal(getattr(first, name), getattr(second, name))


def test_the_probe_is_the_same_for_the_same_seed_and_leaves_the_global_state_alone(monkeypatch: pytest.MonkeyPatch):
    from recombine.judges import probe as probe_module

    monkeypatch.setattr(probe_module, "MOST_STEPS", 3)
    monkeypatch.setattr(probe_module, "GATE", 0.0)
    state = torch.get_rng_state()
    weights = [fit_probe(WORLD, seed=seed)[0].hidden.weight for seed in (0, 0, 1)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert torch.equal(state, torch.get_rng_state())
    monkeypatch.setattr(probe_module, "GATE", 0.99)
    with pytest.raises(UserError, match="000"):
        fit_probe(WORLD, seed=0)
