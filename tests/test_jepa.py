"""JEPA: what the teacher sees and how it moves, where the loss acts, masks on small grids, and its alternatives."""

import math

import pytest
import torch
from torch.nn import functional as F

from recombine.conditioning import ConditioningSettings
from recombine.generators import JepaSettings, MaskedGenerator, build_generator, check_jepa
from recombine.generators.autoregressive import AutoregressiveSettings
from recombine.generators.discrete_diffusion import DiscreteDiffusionSettings
from recombine.generators.dit import DiTSettings
from recombine.generators.givt import GIVTSettings
from recombine.generators.jepa import layers_of, sigreg
from recombine.generators.mar import MARSettings
from recombine.generators.maskgit import MaskGITSettings
from recombine.generators.masking import block_mask, hide
from recombine.generators.regression import RegressionSettings
from recombine.nets.backbone import Dimensions
from recombine.randomness import Draws, seeds_tensor
from recombine.training import Trainer, TrainingSettings
from small import FACTORS, SHAPE, data

MASKED = {
    "maskgit": MaskGITSettings(),
    "givt-masked": GIVTSettings(components=3),
    "mar": MARSettings(),
    "regression": RegressionSettings(),
    "discrete-diffusion": DiscreteDiffusionSettings(time_conditioning=True),
}
TARGETS = ["ema", "student", "random", "sigreg"]


def draws(step: int = 0, seeds: tuple[int, ...] = (0,)) -> Draws:
    return Draws(seeds_tensor(seeds), "test", step)


def model(family: str = "maskgit", seeds: tuple[int, ...] = (0,), shaken: bool = True, **jepa) -> MaskedGenerator:
    """A small model with a JEPA; `shaken` moves the zero-initialised layers, so that blocks do something."""
    settings = JepaSettings(**{"layers": (0, 2), **jepa})
    conditioning = ConditioningSettings(dropout=0.2)
    built = build_generator(MASKED[family], SHAPE, conditioning, FACTORS, Dimensions(3, 32, 2), seeds, settings)
    assert isinstance(built, MaskedGenerator)
    if shaken:
        with torch.no_grad():
            for tensor in [*built.parameters(), *built.jepa.buffers()]:
                tensor += 0.05 * torch.randn(tensor.shape[1:], generator=torch.Generator().manual_seed(tensor.numel()))
    return built


def batch(family: str, size: int = 8, members: int = 1):
    return data(family).batch(draws(9, tuple(range(members))), size)


def trainer(family: str = "maskgit", seeds: tuple[int, ...] = (0,), steps: int = 20, **jepa) -> Trainer:
    training = TrainingSettings(size="xs", batch=16, steps=steps, warmup=2, rate=3e-3)
    return Trainer(model(family, seeds, shaken=False, **jepa), data(family), training)


# The teacher


def test_the_teacher_starts_as_the_student_and_moves_by_its_average_alone():
    run = trainer(momentum=0.9, momentum_end=0.5, steps=4)
    jepa = run.generator.jepa
    weights = dict(run.generator.named_parameters())
    teacher = dict(jepa.named_buffers())
    assert len(teacher) == len(jepa.trunk) and not any(tensor.requires_grad for tensor in teacher.values())
    for name, buffer in zip(jepa.trunk, teacher.values(), strict=True):
        assert torch.equal(buffer, weights[name])
    for step in range(1, 5):
        before = [tensor.clone() for tensor in teacher.values()]
        run.run(1)
        kept = 0.9 + (0.5 - 0.9) * step / 4
        for name, old, new in zip(jepa.trunk, before, teacher.values(), strict=True):
            torch.testing.assert_close(new, kept * old + (1 - kept) * weights[name])
    assert not torch.equal(teacher["teacher_inputs-weight"], weights["inputs.weight"])


def test_the_teacher_has_what_a_clean_pass_needs_and_no_more():
    jepa = model(layers=(0, 1)).jepa
    assert any(name.startswith("backbone.blocks.1.") for name in jepa.trunk)
    assert not any(name.startswith(("backbone.blocks.2.", "backbone.head", "jepa")) for name in jepa.trunk)


@pytest.mark.parametrize("targets", TARGETS)
def test_no_gradient_reaches_the_targets_unless_sigreg_lets_it(targets):
    built = model(targets=targets)
    x, cond = batch("maskgit")
    states = built.jepa.targets(built, x, cond, None, built.jepa.layers)
    assert all(state.requires_grad == (targets == "sigreg") for state in states)


def test_the_teacher_sees_the_clean_tokens_and_is_told_what_the_student_is_told():
    built = model(normalized=False)
    x, cond = batch("maskgit")
    dropped = torch.zeros(1, 8, 3, dtype=torch.bool)
    clean = built.jepa.targets(built, x, cond, dropped, (0, 2))
    for other in (
        built.jepa.targets(built, (x + 1) % 8, cond, dropped, (0, 2)),
        built.jepa.targets(built, x, 1 - cond, dropped, (0, 2)),
        built.jepa.targets(built, x, cond, ~dropped, (0, 2)),
    ):
        assert not torch.allclose(clean[1], other[1], atol=1e-4)
    with torch.no_grad():  # and with the student's weights it is the student
        for name in built.jepa.trunk:
            built.jepa.get_buffer("teacher_" + name.replace(".", "-")).copy_(built.get_parameter(name))
        own = built(x, cond, dropped, (0, 2))
        for mine, teachers in zip(own, built.jepa.targets(built, x, cond, dropped, (0, 2)), strict=True):
            torch.testing.assert_close(mine, teachers)


def test_a_random_teacher_mixes_tokens_and_never_moves():
    run = trainer(targets="random")
    jepa = run.generator.jepa
    before = {name: tensor.clone() for name, tensor in jepa.named_buffers()}
    run.run(5)
    assert all(torch.equal(before[name], tensor) for name, tensor in jepa.named_buffers())
    x, cond = batch("maskgit")
    other = x.clone()
    other[..., 0] = (other[..., 0] + 1) % 8
    before, after = (jepa.targets(run.generator, tokens, cond, None, (0,))[0] for tokens in (x, other))
    moved = before - after
    assert (moved.abs().amax(-1) > 1e-4).all()  # a change of one token shows at all of them


# Where the loss acts


@pytest.mark.parametrize("distance", ["mse", "smooth_l1"])
def test_the_loss_is_the_weighted_sum_over_layers_at_hidden_tokens_alone(distance):
    built = model(distance=distance, weight=0.7)
    jepa = built.jepa
    x, cond = batch("maskgit")
    hidden = hide(draws(3), torch.full((1, 8, 1), 0.4), SHAPE.tokens)
    states = [draws(k).normal(8, SHAPE.tokens, 32) for k in (1, 2)]
    loss = jepa.loss(built, states, hidden, x, cond, None, draws())
    measure = {"mse": F.mse_loss, "smooth_l1": F.smooth_l1_loss}[distance]
    expected = 0.0
    targets = jepa.targets(built, x, cond, None, (0, 2))
    for state, target, predictor in zip(states, targets, jepa.predictors, strict=True):
        prediction = predictor(F.layer_norm(state, (32,), eps=1e-6))
        images = [measure(prediction[0, i][hidden[0, i]], target[0, i][hidden[0, i]]) for i in range(8)]
        expected += 0.7 * sum(images) / 8
    torch.testing.assert_close(loss[0], expected)
    shown = [torch.where(hidden[..., None], state, state + 5) for state in states]
    assert torch.equal(jepa.loss(built, shown, hidden, x, cond, None, draws()), loss)


def test_targets_are_layer_normed_unless_told_otherwise():
    x, cond = batch("maskgit")
    for normalized in (True, False):
        built = model(normalized=normalized)
        target = built.jepa.targets(built, x, cond, None, (2,))[0]
        unit = torch.allclose(target.square().mean(-1), torch.ones(()), atol=1e-3)
        assert unit == normalized


@pytest.mark.parametrize("family", MASKED)
def test_it_adds_to_the_loss_of_every_masked_family_and_takes_nothing_from_it(family):
    """With weight 0 the loss and the trunk's gradient are those of the plain generator, to the bit."""
    plain = build_generator(
        MASKED[family], SHAPE, ConditioningSettings(dropout=0.2), FACTORS, Dimensions(3, 32, 2), [0]
    )
    x, cond = batch(family)
    with_none, with_some = model(family, shaken=False, weight=0), model(family, shaken=False, weight=0.5)
    losses = [built.loss(x, cond, draws()) for built in (plain, with_none, with_some)]
    assert torch.equal(losses[0], losses[1]) and losses[2] > losses[0] + 0.01
    for loss in losses[:2]:
        loss.sum().backward()
    for name, weight in plain.named_parameters():
        other = with_none.get_parameter(name)
        assert torch.equal(weight, other)
        torch.testing.assert_close(weight.grad, other.grad, rtol=0, atol=1e-7)


@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("reaches", ["trunk", "predictor"])
def test_what_learns_from_the_loss(targets, reaches):
    built = model(targets=targets, reaches=reaches)
    x, cond = batch("maskgit")
    hidden = hide(draws(3), torch.full((1, 8, 1), 0.4), SHAPE.tokens)
    states = built.backbone.states(built.embed(x, hidden), built.told(cond, None, None), (0, 2))
    built.jepa.loss(built, states, hidden, x, cond, None, draws()).sum().backward()
    for name, weight in built.named_parameters():
        felt = weight.grad is not None and bool(weight.grad.abs().sum() > 0)
        if name.startswith("jepa.predictors"):
            assert felt, name
        elif name in built.jepa.trunk and "null" not in name:
            assert felt == (reaches == "trunk"), name
        else:
            assert not felt, name


def test_every_predictor_is_in_the_optimizer_once_and_moves():
    run = trainer()
    held = [name for flat in run.flats for name in flat.places]
    predictors = dict(run.generator.jepa.named_parameters())
    assert len(predictors) == 8 and all(held.count(f"jepa.{name}") == 1 for name in predictors)
    before = {name: weight.detach().clone() for name, weight in predictors.items()}
    run.run(2)
    assert not any(torch.equal(before[name], weight) for name, weight in predictors.items())


@pytest.mark.parametrize("targets", TARGETS)
def test_the_prediction_learns_what_the_hidden_tokens_tell(targets):
    """Tokens follow from the condition, so a trained student predicts the teacher far better than the mean does."""
    # SIGReg's statistic grows with the batch: 16 images need more of it than 128 do, or the states collapse.
    more = {"sigreg_weight": 0.5} if targets == "sigreg" else {}
    built = trainer(targets=targets, steps=250, weight=1.0, **more)
    x, cond = batch("maskgit", 64)
    hidden = torch.ones(1, 64, SHAPE.tokens, dtype=torch.bool)
    built.run(250)
    generator = built.generator
    states = generator.backbone.states(generator.embed(x, hidden), generator.told(cond, None, None), (0, 2))
    target = generator.jepa.targets(generator, x, cond, None, (0, 2))[1]
    error = (generator.jepa.predict(states)[1] - target).square().mean()
    spread = (target - target.mean(1, keepdim=True)).square().mean()
    assert spread > 0.1 and error < 0.6 * spread


@pytest.mark.parametrize("family", MASKED)
def test_every_masked_family_trains_with_it(family):
    """Whatever the family's masks are: discrete diffusion hides nothing of some images."""
    run = trainer(family, seeds=(0, 1), steps=40)
    run.run(40)
    assert all(math.isfinite(loss) for loss in run.take_mean_loss(40))
    assert all(torch.isfinite(tensor).all() for tensor in run.state().values())


@pytest.mark.parametrize("family", MASKED)
def test_the_teacher_alone_makes_the_targets(family):
    """No weight of the student has a part in them."""
    built = model(family, targets="random")
    x, cond = batch(family)
    before = built.jepa.targets(built, x, cond, None, (0, 2))
    with torch.no_grad():
        for weight in built.parameters():
            weight += 1
    for old, new in zip(before, built.jepa.targets(built, x, cond, None, (0, 2)), strict=True):
        assert torch.equal(old, new)


def test_the_control_of_equal_cost_leaves_the_trunk_as_it_would_be_without():
    """To the bit, clipping included: the predictors' gradients are clipped by themselves."""
    training = TrainingSettings(size="xs", batch=16, steps=30, warmup=2, rate=3e-3, clip=0.1)
    conditioning = ConditioningSettings(dropout=0.2)
    plain = build_generator(MASKED["maskgit"], SHAPE, conditioning, FACTORS, Dimensions(3, 32, 2), [0, 1])
    costly = model(seeds=(0, 1), shaken=False, reaches="predictor", weight=3.0)
    for generator in (plain, costly):
        Trainer(generator, data("maskgit"), training).run(20)
    for name, weight in plain.named_parameters():
        assert torch.equal(weight, costly.get_parameter(name)), name


# Masks of its own


@pytest.mark.parametrize("grid", [(4, 4), (7, 7), (8, 8), (16, 16), (3, 5)])
@pytest.mark.parametrize("blocks", [1, 4])
def test_block_masks_cover_every_cell_alike(grid, blocks):
    masks = block_mask(draws(), 40_000, grid, blocks, 0.18)[0]
    share = masks.float().mean(0)
    assert (share / share.mean() - 1).abs().max() < 5 * math.sqrt((1 - share.mean()) / share.mean() / 40_000)
    assert masks.any(-1).all()  # something is hidden in every image
    assert (masks.float().mean(-1) < 1).float().mean() > 0.99  # and nearly always something shown


def test_one_block_is_a_rectangle_of_about_the_area_asked_for():
    masks = block_mask(draws(), 4000, (16, 16), 1, 0.18)[0].view(-1, 16, 16)
    rows, columns = masks.any(2).sum(1), masks.any(1).sum(1)
    assert torch.equal(masks.sum((1, 2)), rows * columns)
    whole = (rows * columns).max().item()
    assert 0.15 * 256 < whole < 0.22 * 256
    # 7 x 7 of 16, say: at 10 x 10 of the 22 x 22 places the whole block lies inside.
    assert ((rows * columns) > 0.15 * 256).float().mean() == pytest.approx((10 / 22) ** 2, abs=0.08)


@pytest.mark.parametrize("masks", ["random", "block"])
def test_masks_of_its_own_are_what_the_student_sees_and_what_counts(masks, monkeypatch):
    built = model(masks=masks, hidden_share=0.5)
    x, cond = batch("maskgit")
    seen, counted = [], []
    embed, loss = built.inputs.forward, built.jepa.loss
    monkeypatch.setattr(built.inputs, "forward", lambda ids: seen.append(ids) or embed(ids))
    monkeypatch.setattr(built.jepa, "loss", lambda *a: counted.append(a[2]) or loss(*a))
    built.loss(x, cond, draws())
    objective, own, clean = (ids == built.mask_id for ids in seen)
    assert torch.equal(own, counted[0]) and not torch.equal(own, objective) and not clean.any()
    if masks == "random":
        assert (own.sum(-1) == math.ceil(0.5 * SHAPE.tokens)).all()


# SIGReg


def test_sigreg_is_small_for_a_gaussian_and_large_for_anything_else():
    """On N samples of the right law, N times the mean squared difference of characteristic functions is about the
    integral of (1 - exp(-t^2)) exp(-t^2 / 2), whatever N: 1.06 over [-3, 3]."""
    for n in (200, 2000):
        assert sigreg(draws().normal(n, 6, 16), draws(1), 64).item() == pytest.approx(1.06, abs=0.15)
    gaussian = draws().normal(500, 6, 16)
    for other in (1.5 * gaussian, 0.5 * gaussian, gaussian + 0.5, gaussian[..., :1].expand_as(gaussian)):
        assert sigreg(other, draws(1), 64).item() > 3
    collapsed = sigreg(torch.zeros(1, 500, 6, 16), draws(1), 64).item()
    assert collapsed > 100


def test_sigreg_draws_new_directions_at_every_step():
    features = draws().normal(50, 6, 16).sign()
    assert sigreg(features, draws(1), 8) != sigreg(features, draws(2), 8)


# Members, resuming, refusals


@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("masks", ["objective", "block"])
def test_member_equals_solo_and_a_run_resumes_to_the_bit(targets, masks):
    words = {"targets": targets, "masks": masks}
    both, solo, resumed = trainer(seeds=(3, 5), **words), trainer(seeds=(5,), **words), trainer(seeds=(5,), **words)
    both.run(6)
    solo.run(6)
    half = trainer(seeds=(5,), **words)
    half.run(3)
    resumed.load({name: tensor.clone() for name, tensor in half.state().items()})
    resumed.run(3)
    for name, tensor in solo.state().items():
        assert torch.equal(resumed.state()[name], tensor), name
        mine = both.state()[name]
        torch.testing.assert_close(mine if tensor.dim() == 0 else mine[1:], tensor, rtol=1e-4, atol=5e-5)


def test_the_published_layers_are_taken_by_depth():
    assert layers_of(JepaSettings(), 12) == (7, 9, 11)
    assert layers_of(JepaSettings(), 6) == (3, 4, 5)
    assert layers_of(JepaSettings(), 4) == (2, 3)
    assert layers_of(JepaSettings(layers=(4, 1)), 6) == (1, 4)


@pytest.mark.parametrize(
    ("jepa", "generator", "said"),
    [
        (JepaSettings(layers=(2, 12)), MaskGITSettings(), "12, but this size has 6 blocks, 0 to 5"),
        (JepaSettings(layers=(-1,)), MaskGITSettings(), "-1, but"),
        (JepaSettings(layers=(1, 1)), MaskGITSettings(), "twice"),
        (JepaSettings(layers=()), MaskGITSettings(), "empty"),
        (JepaSettings(), DiTSettings(), "dit hides none"),
        (JepaSettings(), AutoregressiveSettings(), "autoregressive hides none"),
        (JepaSettings(), GIVTSettings(style="causal"), "givt in its causal style hides none"),
    ],
)
def test_what_cannot_work_is_refused_by_name(jepa, generator, said):
    with pytest.raises(ValueError, match=said):
        check_jepa(jepa, generator, 6)
