"""The one definition of conditioning: what is told, what a dropped factor becomes, and that sampling drops nothing."""

import pytest
import torch

from recombine.conditioning import ConditionEmbedding, ConditioningSettings, condition, draw_dropped
from recombine.nets.layers import SeedStream
from recombine.randomness import Draws, seeds_tensor
from recombine.worlds import make_images
from recombine.worlds.shapes2d import Shapes2D, Shapes2DSettings
from small import FACTORS, data, generator

NAMES = [factor.name for factor in FACTORS]


def embedding(kind: str = "quantized", **drops: float) -> ConditionEmbedding:
    return ConditionEmbedding(ConditioningSettings(kind=kind, **drops), FACTORS, 16, SeedStream([0, 1]))


def test_quantized_tells_classes_and_full_tells_values_but_shape_stays_a_class():
    world = Shapes2D(Shapes2DSettings(image_size=16))
    images = make_images(world, [(0, 0, 0), (1, 1, 1)], 3, 0, "test")
    assert torch.equal(condition(world, "quantized", images.labels, images.values), images.labels.float())
    full = condition(world, "full", images.labels, images.values)
    assert full.shape == (6, 1 + 3 + 1)
    assert torch.equal(full[:, 0], images.labels[:, 0].float())
    assert full[:3, 1].unique().numel() == 3  # two images of one composition are told apart


@pytest.mark.parametrize("kind", ["quantized", "full"])
def test_embedding_is_a_sum_over_factors(kind):
    embed = embedding(kind)
    width = 3 if kind == "quantized" else 5
    a, b = torch.zeros(2, 1, width), torch.ones(2, 1, width)
    last = b.clone()
    last[..., :-1] = 0  # only size differs
    first = a.clone()
    first[..., 0] = 1  # only shape differs
    both = first.clone()
    both[..., -1] = 1
    torch.testing.assert_close(embed(both) - embed(first), embed(last) - embed(a))


@pytest.mark.parametrize("name", ["dit-flow", "maskgit", "givt-masked"])
@pytest.mark.parametrize("kind", ["quantized", "full"])
def test_activations_keep_the_dtype_that_was_asked_for(name, kind):
    """A float32 condition would silently lift the whole backbone to float32."""
    model = generator(name, [0], ConditioningSettings(kind=kind, dropout=0.1))
    model.dtype = torch.bfloat16
    seen = []
    model.backbone.blocks[-1].qkv.register_forward_hook(lambda _module, given, _out: seen.append(given[0].dtype))
    x, cond = data(name).batch(Draws(seeds_tensor([0]), "test"), 4)
    cond = cond if kind == "quantized" else torch.zeros(1, 4, 5)
    assert model.loss(x, cond, Draws(seeds_tensor([0]), "test")).dtype == torch.float32
    assert seen == [torch.bfloat16]


def test_a_dropped_factor_is_its_own_learned_null_not_class_zero():
    embed = embedding(dropout=0.1)
    cond = torch.zeros(2, 4, 3)
    dropped = torch.zeros(2, 4, 3, dtype=torch.bool)
    dropped[:, :, 1] = True
    told, hidden = embed(cond), embed(cond, dropped)
    assert not torch.allclose(told, hidden)
    torch.testing.assert_close(embed(cond + torch.tensor([0.0, 1.0, 0.0]), dropped), hidden)  # its value is not seen
    hidden.sum().backward()
    assert embed.nulls["colour"].grad.abs().sum() > 0 and embed.nulls["shape"].grad.abs().sum() == 0


def test_dropping_follows_its_two_rates():
    draws = Draws(seeds_tensor([0]), "test")
    each, never = draw_dropped(ConditioningSettings(dropout=0.3), NAMES, 20_000, draws)
    assert each.float().mean(1).sub(0.3).abs().max() < 0.02
    assert each.all(-1).float().mean().sub(0.027).abs() < 0.01  # independent between factors
    none, together = draw_dropped(ConditioningSettings(drop_all=0.2), NAMES, 20_000, draws)
    assert together.shape == (1, 20_000, 1) and together.float().mean().sub(0.2).abs() < 0.02
    assert not none.any() and not never.any()
    assert draw_dropped(ConditioningSettings(), NAMES, 10, draws) is None


def test_only_the_factors_named_are_withheld():
    """And those as often, and in the same samples, as if all could be."""
    some_factors = ConditioningSettings(dropout=0.3, drop_all=0.2, withheld=("size", "shape"))
    (every, _), (some, together) = (
        draw_dropped(settings, NAMES, 500, Draws(seeds_tensor([0, 1]), "test"))
        for settings in (ConditioningSettings(dropout=0.3), some_factors)
    )
    assert torch.equal(some[..., [0, 2]], every[..., [0, 2]])
    assert every[..., 1].any() and not some[..., 1].any()
    assert together.any()  # guidance's own dropping is of all factors


def test_class_vectors_start_with_the_spread_asked_for():
    embed = ConditionEmbedding(ConditioningSettings(spread=0.5, dropout=0.1), FACTORS, 512, SeedStream([0, 1]))
    for vectors in (embed.tables["shape"].weight, embed.nulls["colour"]):
        assert vectors.std().sub(0.5).abs() < 0.05


def test_without_dropping_there_is_no_null_to_ask_for():
    embed = embedding()
    assert not embed.nulls
    with pytest.raises(ValueError, match="trained without dropped factors"):
        embed(torch.zeros(2, 1, 3), torch.ones(2, 1, 3, dtype=torch.bool))


@pytest.mark.parametrize("name", ["dit-flow", "maskgit"])
def test_sampling_never_drops(name, monkeypatch):
    model = generator(name, [0], ConditioningSettings(dropout=0.9))

    def forbidden(*_args: object) -> None:
        raise AssertionError("dropout was drawn while sampling")

    monkeypatch.setattr(type(model), "withhold", forbidden)
    cond = torch.zeros(1, 2, 3)
    model.sample(cond, Draws(seeds_tensor([0]), "test"))
    with pytest.raises(AssertionError):
        tokens, told = data(name).batch(Draws(seeds_tensor([0]), "t"), 4)
        model.loss(tokens, told, Draws(seeds_tensor([0]), "test"))
