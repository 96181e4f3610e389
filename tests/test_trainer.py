"""Training: member = solo, resume to the bit, averaged weights, per-member clipping, golden losses."""

import json
import os
from pathlib import Path

import pytest
import torch

from recombine.generators import JepaSettings
from recombine.randomness import Draws, seeds_tensor
from recombine.training import Trainer, TrainingData, TrainingSettings, ema
from recombine.training.flat import clip_scale
from recombine.training.trainer import rate_at
from small import GENERATORS, SHAPE, data, generator, takes_latents, trainer

GOLDEN = Path(__file__).parent / "golden_losses.json"
NAMES = list(GENERATORS)


@pytest.mark.parametrize("name", NAMES)
def test_golden_losses(name):
    """50 steps on a CPU give the committed losses. A change meant to alter them writes the file anew:
    RECOMBINE_WRITE_GOLDEN=1 pytest tests/test_trainer.py -k golden, and the commit says why."""
    run = trainer(name, [0, 1])
    losses = []
    for _ in range(5):
        run.run(10)
        losses.append([round(loss, 6) for loss in run.take_mean_loss(10)])
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if os.environ.get("RECOMBINE_WRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps(golden | {name: losses}, indent=1) + "\n")
    else:
        torch.testing.assert_close(torch.tensor(losses), torch.tensor(golden[name]), rtol=2e-3, atol=1e-4)
    assert losses[-1][0] < 0.96 * losses[0][0], "nothing was learned"


@pytest.mark.parametrize("name", NAMES)
def test_member_equals_the_solo_run_of_its_seed(name):
    together, alone = trainer(name, [3, 11, 5]), trainer(name, [11])
    for run in (together, alone):
        run.run(40)
    torch.testing.assert_close(torch.tensor(together.take_mean_loss(40)[1]), torch.tensor(alone.take_mean_loss(40)[0]))
    for key, tensor in alone.state().items():
        # A bias of the keys shifts all scores alike, so its gradient is rounding noise, which Adam blows up; it has no
        # effect.
        if not key.endswith("qkv.bias") and key not in ("step", "loss_sum"):
            torch.testing.assert_close(together.state()[key][1:2], tensor, rtol=1e-3, atol=2e-5, msg=key)
    cond = torch.zeros(1, 8, 3)
    many = together.generator.sample(cond.expand(3, -1, -1), Draws(together.seeds, "test"))
    one = alone.generator.sample(cond, Draws(alone.seeds, "test"))
    close = torch.isclose(many[1:2], one, rtol=1e-2, atol=1e-3) if takes_latents(name) else many[1:2] == one
    assert close.float().mean() > 0.9  # a rounding difference may tip a draw of a category or a component


@pytest.mark.parametrize("name", NAMES)
def test_members_do_not_touch_each_other(name):
    """Gradients of member 0's loss with respect to member 1's weights are exactly 0."""
    model = generator(name, [0, 1])
    x, cond = data(name).batch(Draws(seeds_tensor([0, 1]), "test"), 4)
    model.loss(x, cond, Draws(seeds_tensor([0, 1]), "test"))[0].backward()
    for key, weight in model.named_parameters():
        assert weight.grad is None or weight.grad[1].abs().max() == 0, key
    assert any(weight.grad is not None and weight.grad[0].abs().max() > 0 for weight in model.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_resume_at_any_step_is_equal_to_the_bit(name):
    stop = int(Draws(seeds_tensor([0]), f"stop {name}").integers(29)[0]) + 1
    whole, first, second = trainer(name, [0, 1]), trainer(name, [0, 1]), trainer(name, [0, 1])
    whole.run(30)
    first.run(stop)
    second.load({key: tensor.clone() for key, tensor in first.state().items()})
    second.run(30 - stop)
    for key, tensor in whole.state().items():
        assert torch.equal(second.state()[key], tensor), key


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_trained(name):
    run = trainer(name, [0], batch=64)
    before = {key: tensor.clone() for key, tensor in run.state().items()}
    run.run(25)
    unmoved = [key for key, t in run.state().items() if key.startswith("weight.") and torch.equal(t, before[key])]
    assert not unmoved


def test_clipping_is_per_member():
    gradients = [torch.tensor([[3.0, 4.0], [0.3, 0.4]]), torch.tensor([[0.0], [0.0]])]
    torch.testing.assert_close(clip_scale(gradients, 1.0), torch.tensor([0.2, 1.0]), rtol=1e-5, atol=1e-6)
    assert (clip_scale(gradients, None) == 1).all()


def test_weights_are_views_of_one_tensor_and_keep_their_values_and_gradients():
    run, plain = trainer("dit-flow", [0, 1]), generator("dit-flow", [0, 1])
    weights = dict(run.generator.named_parameters())
    assert {name for flat in run.flats for name in flat.places} == set(weights)
    for name, weight in plain.named_parameters():
        assert torch.equal(weights[name], weight)
    x, cond = run.data.batch(Draws(run.seeds, "test"), 8)
    for model in (run.generator, plain):
        model.loss(x, cond, Draws(run.seeds, "test")).sum().backward()
    for flat in run.flats:
        for name, gradient in flat.views(flat.gradients).items():
            torch.testing.assert_close(gradient, plain.get_parameter(name).grad)
            assert weights[name].data_ptr() % 64 == 0  # aligned, for loads of 16 bytes
    run.run(3)
    for flat in run.flats:
        seen = torch.zeros_like(flat.weights)
        for view in flat.views(seen).values():
            view.fill_(1)
        assert (flat.weights[seen == 0] == 0).all() and (flat.gradients == 0).all()


def test_averaged_weights_forget_the_start_and_have_the_named_width():
    gamma = ema.power_of_width(0.1)
    assert gamma == pytest.approx(6.94, abs=0.01)  # the value the paper prints for 10 %
    steps = 2000
    weight, position = torch.zeros(steps), []
    for step in range(1, steps + 1):
        kept = ema.decay(torch.tensor(step), gamma)
        weight *= kept
        weight[step - 1] = 1 - kept
        position.append(step / steps)
    assert weight.sum().item() == pytest.approx(1, abs=1e-4)  # nothing of the initial weights is left
    assert ema.initial_share(steps, gamma) == 0
    place = torch.tensor(position)
    mean = (weight * place).sum()
    assert ((weight * (place - mean) ** 2).sum().sqrt()).item() == pytest.approx(0.1, abs=0.002)


def test_averaged_weights_are_put_back():
    run = trainer("dit-flow", [0])
    run.run(20)
    own = [weight.detach().clone() for weight in run.generator.parameters()]
    averages = {name: tensor for name, tensor in run.state().items() if name.startswith("average.")}
    with run.averaged():
        for name, weight in run.generator.named_parameters():
            assert torch.equal(weight, averages[f"average.{name}"])
        assert not torch.equal(next(run.generator.parameters()), own[0])
    assert all(torch.equal(weight, old) for weight, old in zip(run.generator.parameters(), own, strict=True))


def test_without_averaging_the_raw_weights_are_judged_and_no_copy_is_kept():
    run, averaging = trainer("dit-flow", [0], ema_width=None), trainer("dit-flow", [0])
    for one in (run, averaging):
        one.run(20)
    assert all(flat.weights is average for flat, average in zip(run.flats, run.average, strict=True))
    for flat, other in zip(run.flats, averaging.flats, strict=True):  # averaging changes nothing in training
        assert torch.equal(flat.weights, other.weights)
    own = [flat.weights.clone() for flat in run.flats]
    with run.averaged():
        assert all(torch.equal(flat.weights, old) for flat, old in zip(run.flats, own, strict=True))
    names = {name for name, _ in run.generator.named_parameters()}
    assert set(averaging.state()) - set(run.state()) == {f"average.{name}" for name in names}
    resumed = trainer("dit-flow", [0], ema_width=None)
    resumed.load({key: tensor.clone() for key, tensor in run.state().items()})
    for one in (run, resumed):
        one.run(10)
    assert all(torch.equal(tensor, resumed.state()[key]) for key, tensor in run.state().items())


def test_rate_rises_then_holds_or_falls_to_zero():
    constant = TrainingSettings(rate=1.0, warmup=10, steps=100)
    cosine = TrainingSettings(rate=1.0, warmup=10, steps=100, schedule="cosine")
    linear = TrainingSettings(rate=1.0, warmup=10, steps=100, schedule="linear")
    published = TrainingSettings(rate=1.0, warmup=0, steps=100, schedule="linear")
    at = lambda step, s: rate_at(torch.tensor(step), s).item()  # noqa: E731
    assert at(5, constant) == pytest.approx(0.5) and at(10, constant) == at(99, constant) == 1
    assert (
        at(10, cosine) == 1 and at(55, cosine) == pytest.approx(0.5) and at(100, cosine) == pytest.approx(0, abs=1e-6)
    )
    assert at(5, linear) == pytest.approx(0.5) and [at(step, linear) for step in (10, 55, 100, 200)] == [1, 0.5, 0, 0]
    assert [at(step, published) for step in (1, 50, 75, 100)] == pytest.approx([0.99, 0.5, 0.25, 0])


def test_the_optimizer_averages_gradients_as_told():
    """After one step from zero the moments are (1 - beta1) g and (1 - beta2) g^2."""
    gradients = {}
    for beta1, beta2 in ((0.9, 0.99), (0.9, 0.96), (0.5, 0.999)):
        run = trainer("dit-flow", [0], beta1=beta1, beta2=beta2, clip=None)
        run.run(1)
        state = run.state()
        for name, _ in run.generator.named_parameters():
            gradient = gradients.setdefault(name, state[f"first.{name}"] / (1 - beta1))
            torch.testing.assert_close(state[f"first.{name}"], (1 - beta1) * gradient)
            torch.testing.assert_close(state[f"second.{name}"], (1 - beta2) * gradient.square())
    assert TrainingSettings().beta1 == 0.9 and TrainingSettings().beta2 == 0.99


def test_a_vae_latent_is_drawn_anew_at_every_visit():
    spread = TrainingData(
        torch.zeros(1, SHAPE.tokens, SHAPE.channels),
        torch.full((1, SHAPE.tokens, SHAPE.channels), 2.0),
        torch.zeros(1, 3),
    )
    x, _ = spread.batch(Draws(seeds_tensor([0]), "test"), 500)
    assert x.std().item() == pytest.approx(2, rel=0.03)


JEPAS: dict[str, dict[str, str]] = {  # a graph refuses what no CPU minds, such as a number copied to the device
    "jepa": {},
    "jepa-student": {"targets": "student"},
    "jepa-sigreg": {"targets": "sigreg"},
    "jepa-random": {"targets": "random"},
    "jepa-predictor": {"reaches": "predictor"},
    "jepa-blocks": {"masks": "block"},
    "jepa-masks": {"masks": "random", "distance": "smooth_l1"},
}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("name", [*NAMES, *JEPAS])
def test_the_cuda_graph_takes_the_steps_the_cpu_takes(name):
    jepa = JepaSettings(layers=(0, 1), **JEPAS[name]) if name in JEPAS else None
    name = "maskgit" if name in JEPAS else name
    host = trainer(name, [0, 1], jepa, precision="float32")
    moved = data(name)
    device = Trainer(
        generator(name, [0, 1], jepa=jepa).to("cuda"),
        TrainingData(moved.x.cuda(), None, moved.cond.cuda()),
        host.settings,
    )
    for run in (host, device):
        run.run(30)
    assert device._graph is not None
    torch.testing.assert_close(
        torch.tensor(device.take_mean_loss(30)), torch.tensor(host.take_mean_loss(30)), rtol=1e-2, atol=1e-3
    )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_takes_the_same_steps_again(name):
    """To the bit, in images enough that sums in another order would show."""
    given = data(name)
    runs = [
        Trainer(
            generator(name, [0, 1]).to("cuda"),
            TrainingData(given.x.cuda(), None, given.cond.cuda()),
            TrainingSettings(size="xs", batch=64, steps=100),
        )
        for _ in range(2)
    ]
    for run in runs:
        run.run(100)
    assert all(torch.equal(one.weights, two.weights) for one, two in zip(*(run.flats for run in runs), strict=True))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_weights_in_fewer_bits_follow_the_others():
    device = Trainer(
        generator("dit-flow", [0, 1]).to("cuda"),
        TrainingData(data("dit-flow").x.cuda(), None, data("dit-flow").cond.cuda()),
        TrainingSettings(size="xs", batch=8, steps=100),
    )

    def check() -> None:
        for flat in device.flats:
            assert flat.low is not None and torch.equal(flat.low, flat.weights.bfloat16())

    check()
    device.run(8)
    check()
    own = [flat.weights.clone() for flat in device.flats]
    with device.averaged():
        check()
        assert not torch.equal(device.flats[0].weights, own[0])
    check()
    assert torch.equal(device.flats[0].weights, own[0])
    state = {name: tensor.clone() for name, tensor in device.state().items()}
    device.run(2)
    device.load(state)
    check()
    assert torch.equal(device.flats[0].weights, own[0])
