"""MaskGIT with soft targets: they fall with distance, become hard, and make near misses cost less."""

import pytest
import torch
from torch.nn import functional as F

from recombine.conditioning import ConditioningSettings
from recombine.generators.maskgit import MaskGIT, MaskGITSettings, soft_targets
from recombine.nets.backbone import Dimensions
from recombine.nets.layers import SeedStream
from small import FACTORS, SHAPE, data, draws
from small_discrete import build, codebook, shaken, watched


def test_soft_targets_are_distributions_that_fall_with_distance():
    codes = codebook()
    targets = soft_targets(codes, 0.7)
    torch.testing.assert_close(targets.sum(-1), torch.ones(16))
    distance = torch.cdist(codes, codes)
    for i in range(16):
        assert (targets[i][distance[i].argsort()].diff() < 0).all()
    near, far = distance[0].argsort()[[1, 2]]
    width = 0.7 * (distance + torch.diag(torch.full((16,), torch.inf))).min(-1).values.mean()
    expected = (distance[0, far] ** 2 - distance[0, near] ** 2) / (2 * width**2)
    torch.testing.assert_close((targets[0, near] / targets[0, far]).log(), expected, rtol=1e-4, atol=1e-5)


def test_soft_targets_do_not_depend_on_the_unit_and_become_hard():
    codes = codebook()
    torch.testing.assert_close(soft_targets(codes * 100 + 7, 0.5), soft_targets(codes, 0.5), rtol=1e-4, atol=1e-6)
    assert torch.equal(soft_targets(codes, 0.01), torch.eye(16))
    assert soft_targets(codes, 1.0).diagonal().mean() < soft_targets(codes, 0.3).diagonal().mean() < 1
    twins = soft_targets(torch.zeros(4, 2), 0.3)  # codes in one place cannot be told apart
    torch.testing.assert_close(twins, torch.full((4, 4), 0.25))


def test_a_soft_loss_with_hardly_any_softness_is_the_hard_loss():
    x, cond = data("maskgit").batch(draws(), 16)
    hard, sharp, soft = (
        shaken(MaskGITSettings(smoothing=0.1, **words)).loss(x, cond, draws())
        for words in ({}, {"targets": "soft", "softness": 0.01}, {"targets": "soft", "softness": 1.0})
    )
    torch.testing.assert_close(sharp, hard)
    assert (soft - hard).abs() > 1e-4


def test_the_best_answer_to_soft_targets_is_the_targets_and_near_misses_cost_less(monkeypatch):
    model = build(MaskGITSettings(targets="soft", softness=0.5, loss_on="all"))
    x, cond = data("maskgit").batch(draws(), 16)
    rows = model.softened[x]
    entropy = -(rows * rows.log()).sum(-1).mean()
    losses = {}
    order = model.softened.argsort(-1, descending=True)  # column 0 is the code itself, 1 its nearest
    sharp = {name: 4.0 * F.one_hot(order[x, column], SHAPE.codes) for name, column in (("near", 1), ("far", -1))}
    for name, logits in {"best": rows.log(), "worse": rows.log() * 1.2, **sharp}.items():
        watched(monkeypatch, model, lambda ids, logits=logits: logits)
        losses[name] = model.loss(x, cond, draws()).item()
        monkeypatch.undo()
    assert losses["best"] == pytest.approx(entropy.item(), rel=1e-4)
    assert losses["best"] < losses["worse"]
    assert losses["near"] < losses["far"] - 0.05


def test_soft_targets_without_a_codebook_or_with_another_are_refused():
    settings = MaskGITSettings(targets="soft")
    model = MaskGIT(settings, SHAPE, ConditioningSettings(), FACTORS, Dimensions(2, 32, 2), SeedStream([0]))
    x, cond = data("maskgit").batch(draws(), 4)
    with pytest.raises(ValueError, match="use_codebook"):
        model.loss(x, cond, draws())
    with pytest.raises(ValueError, match="16 codes"):
        model.use_codebook(codebook(16))
    model.use_codebook(codebook(8))
    assert model.loss(x, cond, draws()).isfinite().all()
    assert not any("softened" in key for key in model.state_dict())  # it follows from the tokenizer
