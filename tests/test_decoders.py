"""Decoders of the forced-rendering study: closed forms, members equal solo runs, states, penalties."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from recombine.curated import DataSettings, make_data, make_plane
from recombine.encodings import Encoding, OneHotEncoding, PopulationEncoding
from recombine.generators.rendering import Rendering
from recombine.nets.decoders import LowRank, build_decoder
from recombine.nets.decoders.cnn import CNNSettings
from recombine.nets.decoders.coordinate import CoordinateSettings
from recombine.nets.decoders.lowrank import LowRankSettings
from recombine.nets.decoders.mlp import MLPSettings
from recombine.nets.decoders.rotator import RotatorSettings
from recombine.nets.decoders.transformer import TransformerSettings
from recombine.randomness import Draws, seeds_tensor
from recombine.training import Trainer, TrainingSettings
from recombine.worlds.bumps import Bumps, BumpsSettings
from recombine.worlds.supports import DonutSupport, support_mask

DECODERS = {
    "cnn": CNNSettings(depth=3, width=8),
    "mlp": MLPSettings(depth=2, width=32),
    "transformer": TransformerSettings(depth=2, width=16, heads=2),
    "coordinate": CoordinateSettings(depth=2, width=16),
    "coordinate-learned": CoordinateSettings(depth=2, width=16, positions="learned"),
    "lowrank": LowRankSettings(),
    "lowrank-normalised": LowRankSettings(variance="normalised", entropy_weight=0.01),
    "rotator": RotatorSettings(width=8),
}
SIZE = 8


def setting(stripes=0, order="mixture", seeds=(0, 1), steps=40, images=60):
    world = Bumps(BumpsSettings(image_size=SIZE))
    trained = torch.from_numpy(support_mask(DonutSupport(low=2, high=5), SIZE)).flatten()
    plane = make_plane(world, trained)
    encoding = Encoding(OneHotEncoding(), (SIZE, SIZE))
    data = make_data(DataSettings(images=images, stripes=stripes, order=order), world, plane, encoding, seeds, steps)
    return plane, encoding, data


def trainer(name, seeds, steps=40, **more):
    _, encoding, data = setting(seeds=tuple(seeds), steps=steps, **more)
    model = Rendering(build_decoder(DECODERS[name], encoding.widths, SIZE, seeds), tuple(seeds))
    settings = TrainingSettings(
        size="xs", steps=steps, batch=8, rate=3e-3, warmup=0, beta2=0.999, clip=None, ema_width=None
    )
    run = Trainer(model, data, settings)
    run.data = replace(data, step=run.step)  # as the study's runner does
    return run


@pytest.mark.parametrize("name", DECODERS)
def test_member_equals_the_solo_run_of_its_seed(name):
    together, alone = trainer(name, [3, 11, 5]), trainer(name, [11])
    for run in (together, alone):
        run.run(20)
    torch.testing.assert_close(
        torch.tensor(together.take_mean_loss(20)[1]), torch.tensor(alone.take_mean_loss(20)[0]), rtol=1e-4, atol=1e-6
    )
    code = Encoding(OneHotEncoding(), (SIZE, SIZE))(torch.tensor([[1.0, 2.0], [4.0, 4.0]]))
    many = together.generator.sample(code.expand(3, -1, -1), None)
    torch.testing.assert_close(many[1:2], alone.generator.sample(code[None], None), rtol=1e-2, atol=3e-3)
    assert (many[0] - many[1]).abs().max() > 1e-4, "two seeds are two models"


@pytest.mark.parametrize("name", DECODERS)
def test_members_do_not_touch_each_other(name):
    run = trainer(name, [0, 1])
    x, cond = run.data.batch(Draws(run.seeds, "test"), 4)
    run.generator.loss(x, cond, Draws(run.seeds, "test"))[0].backward()
    assert all(weight.grad is None or weight.grad[1].abs().max() == 0 for weight in run.generator.parameters())


@pytest.mark.parametrize("name", DECODERS)
def test_every_parameter_is_trained_and_the_loss_falls(name):
    run = trainer(name, [0], steps=60)
    before = {key: tensor.clone() for key, tensor in run.state().items()}
    run.run(10)
    first = run.take_mean_loss(10)[0]
    run.run(50)
    assert run.take_mean_loss(50)[0] < first
    assert not [key for key, t in run.state().items() if key.startswith("weight.") and torch.equal(t, before[key])]


@pytest.mark.parametrize("name", ["cnn", "lowrank", "rotator"])
def test_resume_is_equal_to_the_bit(name):
    whole, first, second = (trainer(name, [0, 1], stripes=16, order="curriculum") for _ in range(3))
    whole.run(30)
    first.run(13)
    second.load({key: tensor.clone() for key, tensor in first.state().items()})
    second.run(17)
    for key, tensor in whole.state().items():
        assert torch.equal(second.state()[key], tensor), key


@pytest.mark.parametrize("name", DECODERS)
def test_states_end_in_the_images_and_are_those_of_the_run(name):
    model = build_decoder(DECODERS[name], (SIZE, SIZE), SIZE, [0, 1]).eval()
    code = torch.rand(2, 3, 2 * SIZE)
    states = model.states(code)
    torch.testing.assert_close(states[-1], model(code).flatten(2))
    assert all(state.shape[:2] == (2, 3) and state.dtype == torch.float32 for state in states)
    depth = getattr(DECODERS[name], "depth", None)
    if depth is not None:
        assert len(states) == depth + (2 if name == "cnn" else 1)


def test_the_cnn_is_the_published_network():
    """381,313 weights at depth 4 and 307,457 at depth 2 (reference, 6.1); and what torch's own layers compute."""
    for depth, count in ((2, 307_457), (4, 381_313)):
        model = build_decoder(CNNSettings(depth=depth), (28, 28), 28, [0])
        assert sum(weight.numel() for weight in model.parameters()) == count
    width = 64
    layers = [nn.ConvTranspose2d(56, width, 7), *(nn.ConvTranspose2d(width, width, 4, 2, 1) for _ in range(2))]
    layers += [
        nn.Conv2d(width, width, 3, 1, 1),
        nn.Conv2d(width, width, 3, 1, 1),
        nn.ConvTranspose2d(width, 1, 3, 1, 1),
    ]
    weights = [model.enter[0].view(56, width, 7, 7), *(layer.weight[0] for layer in model.hidden)]
    weights.append(model.leave.weight[0].view(width, 1, 3, 3))
    biases = [model.enter_bias[0], *(layer.bias[0] for layer in model.hidden), model.leave.bias[0]]
    code = torch.rand(1, 4, 56)
    with torch.no_grad():
        x = code[0].view(4, 56, 1, 1)
        for number, (layer, weight, bias) in enumerate(zip(layers, weights, biases, strict=True)):
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
            x = layer(x) if number == len(layers) - 1 else layer(x).relu()
        torch.testing.assert_close(model(code)[0], x[:, 0], rtol=1e-4, atol=1e-5)


def test_all_members_at_once_give_what_one_by_one_give():
    """The grouped path of a GPU, run on a CPU."""
    model = build_decoder(CNNSettings(depth=3, width=8), (8, 8), 10, [0, 1, 2])
    code = torch.rand(3, 4, 16)
    torch.testing.assert_close(model._some(code, slice(0, 3), None), model(code), rtol=1e-4, atol=1e-5)
    assert model(code).shape == (3, 4, 10, 10)  # 12 pixels are grown and cut to 10


def test_the_coordinate_network_is_a_function_of_code_and_place():
    """The first layer, split into a part of the image and one of the pixel, is the layer of their sum."""
    model = build_decoder(CoordinateSettings(depth=2, width=16), (6, 6), 6, [0])
    code = torch.rand(1, 2, 12)
    tokens = model.enter(code)[:, :, None] + model.positions
    for layer, bend in zip(model.hidden, model.bends, strict=True):
        tokens = bend(layer(tokens))
    torch.testing.assert_close(model(code), model.leave(tokens)[..., 0].view(1, 2, 6, 6), rtol=1e-4, atol=1e-5)


def test_lowrank_pictures_and_penalties_are_the_published_ones():
    model = build_decoder(LowRankSettings(), (32, 32), 32, [0])
    assert isinstance(model, LowRank)
    assert sum(weight.numel() for weight in model.parameters()) == 133_218
    pictures = model.pictures[0]
    with torch.no_grad():
        for vectors in pictures.vectors:
            vectors.mul_(3.0)  # normalised away
    left = pictures.left_weight[0, 5] / pictures.left_weight[0, 5].norm(dim=-1, keepdim=True)
    right = pictures.right_weight[0, 5] / pictures.right_weight[0, 5].norm(dim=-1, keepdim=True)
    by_hand = sum(pictures.lambda_weight[0, 5, k] * torch.outer(left[k], right[k]) for k in range(32))
    torch.testing.assert_close(pictures()[0, 5], by_hand)
    with torch.no_grad():
        for one in model.pictures:
            one.lambda_weight.zero_()
            one.lambda_weight[..., :4] = 0.5  # four equal shares: entropy ln 4 each
            one.left_weight.fill_(1.0)  # constant vectors: no variance
            one.right_weight.fill_(0.0)
            one.right_weight[..., 0] = 1.0  # one 1 among 31 zeros: variance 1 / 32, unbiased
    clamped = 28 * -1e-8 * math.log(1e-8)
    entropy = 0.1 * 64 * (math.log(4) + clamped)
    assert model.penalty().item() == pytest.approx(entropy + 0.01 * 64 * 32 / 32, rel=1e-4)


def test_shrinking_the_vectors_cheats_the_raw_penalty_alone():
    for variance, cheated in (("raw", True), ("normalised", False)):
        model = build_decoder(LowRankSettings(entropy_weight=0, variance=variance), (8, 8), 8, [0])
        code = torch.eye(8)[:4].repeat(1, 2)[None]
        image, penalty = model(code), model.penalty()
        with torch.no_grad():
            for pictures in model.pictures:
                for vectors in pictures.vectors:
                    vectors.mul_(0.1)
        torch.testing.assert_close(model(code), image)
        assert (model.penalty() < 0.1 * penalty) == cheated


def test_a_code_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="lowrank has a picture for every value"):
        build_decoder(LowRankSettings(), (1, 1), 8, [0])
    with pytest.raises(ValueError, match="3 heads do not divide"):
        build_decoder(TransformerSettings(heads=3), (8, 8), 8, [0])
    with pytest.raises(ValueError, match="multiple of 4"):
        build_decoder(RotatorSettings(), (2,), 10, [0])


def test_training_sets_are_of_the_support_and_of_the_seed_alone():
    plane, encoding, data = setting(seeds=(4, 9), images=500)
    _, _, alone = setting(seeds=(9,), images=500)
    assert torch.equal(data.rows[1:], alone.rows) and not torch.equal(data.rows[0], data.rows[1])
    assert torch.equal(data.cond, encoding(plane.cells[plane.trained])) and data.rows.max() < plane.trained.sum()
    x, cond = data.batch(Draws(seeds_tensor([4, 9]), "test"), 16)
    for image, code in zip(x[1], cond[1], strict=True):
        cell = (code[:SIZE].argmax() + SIZE * code[SIZE:].argmax()).item()
        assert plane.trained[cell] and torch.equal(image, plane.images[cell])


def test_stripes_take_the_place_of_bumps_and_a_curriculum_begins_with_them():
    _, _, data = setting(stripes=20, images=60, seeds=(0,))
    assert data.rows.shape == (1, 60) and data.stripes == 20
    table = data.cond[data.rows[0, 40:]]
    assert ((table[:, :SIZE].sum(1) == 0) | (table[:, SIZE:].sum(1) == 0)).all()
    assert len({tuple(code.tolist()) for code in table[:16]}) == 16  # every one of the 2 N before any again
    column = data.x[data.rows[0, 40]]
    assert (column[:, 0] == 0).all() and (column[0] == column[3]).all()  # x = 0: a dark vertical stripe
    _, _, taught = setting(stripes=20, order="curriculum", steps=50, seeds=(0,))
    for step, striped in ((0, True), (9, True), (10, False), (49, False)):
        taught.step.fill_(step)
        _, cond = taught.batch(Draws(seeds_tensor([0]), "test", step), 64)
        one_sided = (cond[0, :, :SIZE].sum(1) == 0) | (cond[0, :, SIZE:].sum(1) == 0)
        assert one_sided.all() if striped else not one_sided.any()


def test_an_epoch_shows_every_image_once_and_no_two_are_in_one_order():
    _, _, data = setting(seeds=(0, 5), images=64)

    def epoch(first):
        seen = []
        for step in range(first, first + 8):
            data.step.fill_(step)
            x, _ = data.batch(None, 8)
            seen.append(x)
        return torch.cat(seen, 1).flatten(2)  # (M, 64, P * P)

    whole = data.x[data.rows].flatten(2)
    first, second = epoch(0), epoch(8)
    for member in range(2):
        for shown in (first, second):  # the same images, each as often as in the set
            assert torch.equal(shown[member].sum(0), whole[member].sum(0)) or torch.allclose(
                shown[member].sum(0), whole[member].sum(0), rtol=1e-5
            )
            assert len(shown[member].unique(dim=0)) == len(whole[member].unique(dim=0))
    assert not torch.equal(first, second) and not torch.equal(first[0], first[1])
    data.step.fill_(3)
    assert torch.equal(data.batch(None, 8)[0].flatten(2), first[:, 24:32])  # a function of the step alone


def test_population_codes_mix_the_pictures_of_neighbours():
    model = build_decoder(LowRankSettings(), (8, 8), 8, [0])
    code = Encoding(PopulationEncoding(), (8, 8))(torch.tensor([[3.0, 4.0]]))[None]
    kept = []
    model.run(code, kept)
    first = model.bends[0](torch.einsum("v,vij->ij", code[0, 0, :8], model.embeddings()[0][0])[None])[0]
    torch.testing.assert_close(kept[0][0, 0, 0], first)
