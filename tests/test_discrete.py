"""What all discrete controls share: members that do not touch each other, pure sampling, and losses in float32."""

import pytest
import torch

from recombine.generators.autoregressive import AutoregressiveSettings
from recombine.generators.discrete_diffusion import DiscreteDiffusionSettings
from recombine.generators.maskgit import MaskGITSettings
from recombine.randomness import Draws
from recombine.training import Trainer, TrainingSettings
from small import SHAPE, data, draws
from small_discrete import build, shaken

CONTROLS = {
    "autoregressive": AutoregressiveSettings(),
    "diffusion": DiscreteDiffusionSettings(sampling_steps=6),
    "diffusion-time": DiscreteDiffusionSettings(sampling_steps=6, time_conditioning=True),
    "soft": MaskGITSettings(sampling_steps=5, targets="soft", softness=0.5),
    "halton": MaskGITSettings(sampling_steps=5, order="halton", roll=True),
}


def trained(name, seeds, steps=20):
    training = TrainingSettings(size="xs", batch=16, steps=50, warmup=10, rate=3e-3)
    run = Trainer(build(CONTROLS[name], seeds), data("maskgit"), training)
    run.run(steps)
    return run


@pytest.mark.parametrize("name", CONTROLS)
def test_member_equals_the_solo_run_of_its_seed(name):
    together, alone = trained(name, [3, 11, 5]), trained(name, [11])
    torch.testing.assert_close(torch.tensor(together.take_mean_loss(20)[1]), torch.tensor(alone.take_mean_loss(20)[0]))
    for key, tensor in alone.state().items():
        # A bias of the keys shifts all scores alike: its gradient is rounding noise, which Adam blows up to no effect.
        if not key.endswith("qkv.bias") and key not in ("step", "loss_sum"):
            torch.testing.assert_close(together.state()[key][1:2], tensor, rtol=1e-3, atol=2e-5, msg=key)
    cond = torch.zeros(1, 16, 3)
    many = together.generator.sample(cond.expand(3, -1, -1), Draws(together.seeds, "test"), 1.0)
    one = alone.generator.sample(cond, Draws(alone.seeds, "test"), 1.0)
    assert (many[1:2] == one).float().mean() > 0.95  # a rounding difference may tip a draw
    assert not torch.equal(many[0], many[1])


@pytest.mark.parametrize("name", CONTROLS)
def test_members_do_not_touch_each_other(name):
    model = build(CONTROLS[name], (0, 1))
    x, cond = data("maskgit").batch(draws(members=2), 4)
    model.loss(x, cond, draws(members=2))[0].backward()
    for key, weight in model.named_parameters():
        assert weight.grad is None or weight.grad[1].abs().max() == 0, key
    assert any(weight.grad is not None and weight.grad[0].abs().max() > 0 for weight in model.parameters())


@pytest.mark.parametrize("name", CONTROLS)
def test_sampling_is_a_pure_function_of_model_condition_and_seed(name):
    model, cond = shaken(CONTROLS[name]), torch.zeros(1, 8, 3)
    assert torch.equal(model.sample(cond, draws()), model.sample(cond, draws()))
    assert not torch.equal(model.sample(cond, draws()), model.sample(cond, draws(1)))
    out = model.sample(cond, draws(), 2.0)
    assert out.shape == (1, 8, SHAPE.tokens) and out.min() >= 0 and out.max() < SHAPE.codes


@pytest.mark.parametrize("name", CONTROLS)
def test_losses_are_float32_when_activations_are_not(name):
    model = shaken(CONTROLS[name])
    x, cond = data("maskgit").batch(draws(), 8)
    exact = model.loss(x, cond, draws())
    model.dtype = torch.bfloat16
    rough = model.loss(x, cond, draws())
    assert rough.dtype == torch.float32 and not torch.equal(rough, exact)
    torch.testing.assert_close(rough, exact, rtol=0.03, atol=0.03)
    assert model.sample(cond, draws()).dtype == torch.int64
