"""The discrete controls: autoregressive codes, absorbing discrete diffusion, MaskGIT with soft targets or Halton order.

The small cases have few enough images of codes to list them all, so models are held against exact probabilities.
"""

import itertools
import math

import pytest
import torch
from torch.nn import functional as F

from recombine.conditioning import ConditioningSettings
from recombine.generators.autoregressive import Autoregressive, AutoregressiveSettings
from recombine.generators.base import TokenShape
from recombine.generators.discrete_diffusion import (
    SMALLEST_TIME,
    DiscreteDiffusion,
    DiscreteDiffusionSettings,
    draw_times,
    sample_ancestral,
)
from recombine.generators.halton import halton_rank, radical_inverse
from recombine.generators.maskgit import MaskGIT, MaskGITSettings, soft_targets
from recombine.generators.masking import draw_categories
from recombine.nets.backbone import Dimensions
from recombine.nets.layers import SeedStream
from recombine.randomness import Draws, seeds_tensor
from recombine.training import Trainer, TrainingData, TrainingSettings
from small import FACTORS, SHAPE, data

FAMILIES = {"autoregressive": Autoregressive, "discrete_diffusion": DiscreteDiffusion, "maskgit": MaskGIT}
CONTROLS = {
    "autoregressive": AutoregressiveSettings(),
    "diffusion": DiscreteDiffusionSettings(sampling_steps=6),
    "diffusion-time": DiscreteDiffusionSettings(sampling_steps=6, time_conditioning=True),
    "soft": MaskGITSettings(sampling_steps=5, targets="soft", softness=0.5),
    "halton": MaskGITSettings(sampling_steps=5, order="halton", roll=True),
}
TINY = TokenShape(grid=(1, 3), channels=4, codes=3)
ALL = torch.tensor(list(itertools.product(range(3), repeat=3)))  # the 27 images of codes of TINY
# What is to be learned: how often each pair of four codes occurs among 100 training images.
PAIR = TokenShape(grid=(1, 2), channels=4, codes=4)
PAIRS = torch.tensor(list(itertools.product(range(4), repeat=2)))
COUNTS = torch.tensor([[2, 20, 2, 0], [0, 2, 14, 8], [16, 0, 2, 6], [4, 8, 0, 16]])  # first code down, second across


def draws(step: int = 0, members: int = 1) -> Draws:
    return Draws(seeds_tensor(range(members)), "test", step)


def build(settings, seeds=(0,), shape=SHAPE, drop_all=0.1):
    family = FAMILIES[settings.kind]
    conditioning = ConditioningSettings(drop_all=drop_all)
    model = family(settings, shape, conditioning, FACTORS, Dimensions(2, 32, 2), SeedStream(seeds))
    if family is MaskGIT:
        model.use_codebook(Draws(seeds_tensor([5]), "codebook").normal(shape.codes, shape.channels)[0])
    return model


def shaken(settings, shape=SHAPE, by=0.1, **more):
    """A model whose zero-initialised layers are moved, so that it really depends on its input."""
    model = build(settings, shape=shape, **more)
    with torch.no_grad():
        for p in model.parameters():
            p += by * torch.randn(p.shape, generator=torch.Generator().manual_seed(0))
    return model


def opinionated(settings):
    """A shaken model of TINY to which the condition matters, and in which no image is rare."""
    model = shaken(settings, TINY, by=0.12)
    with torch.no_grad():
        for p in model.condition.parameters():
            p *= 20
        for p in model.backbone.head.parameters():
            p *= 0.2
    return model


def shares(ids, codes):
    """How often each of all images of codes was drawn: ids (1, B, T) to (codes^T,)."""
    place = codes ** torch.arange(ids.shape[-1]).flip(0)
    return torch.bincount((ids[0] * place).sum(-1), minlength=codes ** ids.shape[-1]) / ids.shape[1]


def variation(p, q):
    """Total variation distance of two distributions."""
    return 0.5 * (p - q).abs().sum().item()


def chi_square(seen, expected, n):
    return (n * (seen - expected) ** 2 / expected).sum().item()


# Autoregressive


def test_a_code_is_predicted_from_those_before_it_alone():
    model = shaken(AutoregressiveSettings())
    x, cond = data("maskgit").batch(draws(), 8)
    plain = model.logits(x, cond)
    for place in range(SHAPE.tokens):
        other = x.clone()
        other[..., place] = (x[..., place] + 3) % SHAPE.codes
        moved = (model.logits(other, cond) - plain).abs().amax(dim=(0, 1, 3))
        assert moved[: place + 1].max() < 1e-5  # itself included
        assert (moved[place + 1 :] > 1e-4).all()


def test_the_likelihoods_of_all_images_sum_to_one():
    model = shaken(AutoregressiveSettings(), TINY, by=0.3)
    for cond in (torch.zeros(1, 27, 3), torch.ones(1, 27, 3)):
        likelihood = model.log_likelihood(ALL[None], cond).exp()
        assert likelihood.sum().item() == pytest.approx(1, abs=1e-5)
        assert likelihood.max() > 2 * likelihood.min()  # not merely uniform


def test_the_loss_is_the_likelihood_in_nats_per_token():
    model = shaken(AutoregressiveSettings(), drop_all=0.0)
    x, cond = data("maskgit").batch(draws(), 8)
    expected = -model.log_likelihood(x, cond).mean(-1) / SHAPE.tokens
    torch.testing.assert_close(model.loss(x, cond, draws()), expected)
    fresh = build(AutoregressiveSettings())
    assert fresh.loss(x, cond, draws()).item() == pytest.approx(math.log(SHAPE.codes), abs=1e-5)


@pytest.mark.parametrize(("guidance", "temperature"), [(0.0, 1.0), (1.5, 1.0), (0.0, 0.5), (2.0, 0.7)])
def test_samples_occur_as_often_as_the_model_says(guidance, temperature):
    """All 27 images: chi-square with 26 degrees of freedom is above 55 once in a thousand."""
    n = 20_000
    model = opinionated(AutoregressiveSettings(temperature=temperature))
    cond = torch.zeros(1, 27, 3)
    told, untold = model.logits(ALL[None], cond), model.logits(ALL[None], cond, torch.ones(1, 27, 3) > 0)
    logits = (told + guidance * (told - untold)) / temperature
    exact = torch.log_softmax(logits, -1).gather(-1, ALL[None, ..., None]).sum(dim=(-1, -2)).exp()[0]
    seen = shares(model.sample(torch.zeros(1, n, 3), draws(), guidance), 3)
    assert exact.sum().item() == pytest.approx(1, abs=1e-5)
    assert chi_square(seen, exact, n) < 55
    plain = model.log_likelihood(ALL[None], cond).exp()[0]
    if guidance or temperature != 1:  # and the options do change what is drawn
        assert chi_square(seen, plain, n) > 200


@pytest.mark.parametrize("guidance", [0.0, 1.0])
def test_the_cached_sampler_draws_what_the_whole_network_would(guidance):
    model = shaken(AutoregressiveSettings(), seeds=(0, 1))
    cond = draws().integers(2, 32, 3).float().expand(2, -1, -1)
    again, nothing = draws(1, members=2), torch.ones(2, 32, 3) > 0
    ids = torch.zeros(2, 32, SHAPE.tokens, dtype=torch.int64)
    for place in range(SHAPE.tokens):
        told = model.logits(ids, cond)
        logits = told + guidance * (told - model.logits(ids, cond, nothing))
        ids[..., place] = draw_categories(torch.log_softmax(logits[:, :, place : place + 1], -1), again)[..., 0]
    assert torch.equal(model.sample(cond, draws(1, members=2), guidance), ids)


# Absorbing discrete diffusion


def test_times_are_spread_evenly_and_each_is_uniform():
    t = torch.cat([draw_times(draws(step, members=2), 8) for step in range(2000)])  # (4000, 8)
    gaps = t.sort(-1).values.diff()
    torch.testing.assert_close(gaps, torch.full_like(gaps, (1 - SMALLEST_TIME) / 8), rtol=1e-3, atol=1e-5)
    assert t.min() >= SMALLEST_TIME and t.max() <= 1
    for quantile in (0.1, 0.5, 0.9):  # of every image by itself; three standard errors are 0.024
        assert ((t < quantile).float().mean(0) - quantile).abs().max() < 0.03
    both = draw_times(draws(0, members=2), 8)
    assert not torch.equal(both[0], both[1])  # each member has times of its own


def watched(monkeypatch, model, answer=None):
    """Records the codes that the network is shown; `answer` of them stands in for its outputs."""
    seen, embed, run = [], model.inputs.forward, model.backbone.forward

    def look(ids):
        seen.append(ids)
        return embed(ids)

    monkeypatch.setattr(model.inputs, "forward", look)
    monkeypatch.setattr(model.backbone, "forward", lambda x, c: run(x, c) if answer is None else answer(seen[-1]))
    return seen


def test_each_token_is_masked_with_probability_t_and_nothing_else_changes(monkeypatch):
    model = build(DiscreteDiffusionSettings())
    seen = watched(monkeypatch, model, lambda ids: torch.zeros(*ids.shape, SHAPE.codes))
    x, cond = data("maskgit").batch(draws(), 20_000)
    model.loss(x, cond, draws(1))
    ids, t = seen[0], draw_times(draws(1), 20_000)
    masked = ids == model.mask_id
    assert torch.equal(ids[~masked], x[~masked])
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (t >= low) & (t < low + 0.25)
        share = masked[inside].float()
        assert share.mean().item() == pytest.approx(low + 0.125, abs=0.008)
        assert (share.mean(0) - share.mean()).abs().max() < 0.02  # all positions alike
    middle = masked[(t - 0.5).abs() < 0.02].float().sum(-1)  # tokens are masked independently: binomial counts
    assert middle.var().item() == pytest.approx(SHAPE.tokens / 4, rel=0.15)


def test_a_masked_token_never_reaches_the_logits(monkeypatch):
    model = shaken(DiscreteDiffusionSettings())
    seen = watched(monkeypatch, model)
    x, cond = data("maskgit").batch(draws(), 16)
    model.loss(x, cond, draws())
    masked = seen[0] == model.mask_id
    model.loss(torch.where(masked, (x + 3) % SHAPE.codes, x), cond, draws())
    assert masked.any() and torch.equal(seen[0], seen[1])


def mean_loss(model, x, steps=60):
    """Mean and standard error of the loss over draws, for tokens x (B, T)."""
    cond = torch.zeros(1, len(x), 3)
    losses = torch.stack([model.loss(x[None], cond, draws(step))[0] for step in range(steps)])
    return losses.mean().item(), (losses.std() / math.sqrt(steps)).item()


@pytest.mark.parametrize("skewed", [False, True])
@torch.no_grad()
def test_the_loss_of_a_constant_prediction_is_its_cross_entropy(skewed):
    """A fresh model says all codes are alike, the best there is for uniform data: the loss is log K a token. With
    another constant it is the cross-entropy. The weight 1 / t must undo the masked share t exactly."""
    model = build(DiscreteDiffusionSettings())
    if skewed:
        model.backbone.head.bias.copy_(torch.arange(8) * 0.5)
    x = draws(99).integers(SHAPE.codes, 512, SHAPE.tokens)[0]
    expected = -torch.log_softmax(model.backbone.head.bias[0, 0], -1)[x].mean().item()
    mean, error = mean_loss(model, x)
    assert error < 0.02 * expected and abs(mean - expected) < 3 * error
    if not skewed:
        assert expected == pytest.approx(math.log(8), abs=1e-6)


def copies(ids):
    """The perfect prediction where all tokens of an image are one and the same uniform code, of 5."""
    known = torch.where(ids < 5, ids, -1).amax(-1, keepdim=True).expand(ids.shape)
    return torch.where((known >= 0)[..., None], 60.0 * F.one_hot(known.clamp(min=0), 5), 0.0)


def test_the_bound_is_tight_for_a_perfect_model(monkeypatch):
    """T copies of one uniform code: -log p(x) is log 5. Only when all T are masked does a token cost anything, and then
    log 5: T log 5 t^T / t, which is log 5 over all t."""
    model = build(DiscreteDiffusionSettings(), shape=TokenShape((1, 3), 4, 5))
    watched(monkeypatch, model, copies)
    x = draws().integers(5, 512, 1)[0].expand(-1, 3)
    mean, error = mean_loss(model, x)
    assert error < 0.02 and abs(3 * mean - math.log(5)) < 3 * 3 * error


@pytest.mark.parametrize("steps", [1, 4, 16])
def test_tokens_that_must_agree_differ_only_when_they_are_revealed_together(steps):
    """A token is revealed at any of n steps alike, so two meet with chance 1 / n, and then differ with chance 4 / 5."""
    n, seen = 20_000, []

    def predict(ids, t):
        seen.append((ids < 5).float().mean().item())
        torch.testing.assert_close(t, torch.full((1, n), 1 - (len(seen) - 1) / steps))
        return copies(ids)

    out = sample_ancestral(predict, torch.full((1, n, 2), 5), 5, draws(), steps)
    assert (out < 5).all()
    differ = (out[..., 0] != out[..., 1]).float().mean().item()
    assert differ == pytest.approx(0.8 / steps, abs=4 * math.sqrt(0.8 / steps / n))
    for k, share in enumerate(seen):
        assert share == pytest.approx(k / steps, abs=0.015)


@pytest.mark.parametrize("steps", [1, 3, 12, 40])
def test_ancestral_sampling_with_an_oracle_returns_the_data_and_known_tokens_never_change(steps):
    truth = draws().integers(8, 32, 16)
    known = draws(1).uniform(32, 16) < 0.4
    wrong = (truth + 1) % 8  # known tokens are kept even where the model would say something else
    start = torch.where(known, wrong, 8)
    seen = []

    def predict(ids, _t):
        seen.append(ids)
        return 60.0 * F.one_hot(truth, 8)

    out = sample_ancestral(predict, start, 8, draws(2), steps)
    assert torch.equal(out, torch.where(known, wrong, truth))
    for before, after in zip(seen, [*seen[1:], out], strict=True):
        assert torch.equal(after[before < 8], before[before < 8])


def test_guidance_of_discrete_diffusion_acts_on_the_logits():
    """In one step tokens are independent, so each place must show softmax(c + w (c - u))."""
    n, model = 20_000, opinionated(DiscreteDiffusionSettings(sampling_steps=1))
    cond, masks, t = torch.zeros(1, 1, 3), torch.full((1, 1, 3), 3), torch.ones(1, 1)
    told, untold = model.logits(masks, t, cond), model.logits(masks, t, cond, torch.ones(1, 1, 3) > 0)
    exact = torch.softmax(told + 2.0 * (told - untold), -1)[0, 0]
    drawn = model.sample(cond.expand(1, n, 3), draws(), 2.0)
    seen = F.one_hot(drawn, 3).float().mean(dim=(0, 1))
    assert (seen - exact).abs().max() < 0.015
    assert (torch.softmax(told, -1)[0, 0] - exact).abs().max() > 0.05


def test_the_network_is_told_the_time_only_if_asked():
    x, cond = data("maskgit").batch(draws(), 4)
    early, late = torch.full((1, 4), 0.1), torch.full((1, 4), 0.9)
    for asked in (False, True):
        model = shaken(DiscreteDiffusionSettings(time_conditioning=asked))
        assert torch.equal(model.logits(x, early, cond), model.logits(x, late, cond)) != asked


# What both learn


def taught(settings):
    model = build(settings, shape=PAIR, drop_all=0.0)
    x = PAIRS.repeat_interleave(COUNTS.flatten(), dim=0)
    training = TrainingSettings(size="xs", steps=400, batch=128, warmup=20, rate=4e-3, schedule="cosine")
    Trainer(model, TrainingData(x, None, torch.zeros(len(x), 3)), training).run(400)
    return model


def test_an_autoregressive_model_learns_a_joint_distribution():
    """Within 0.05 in total variation, in closed form."""
    model = taught(AutoregressiveSettings())
    learned = model.log_likelihood(PAIRS[None], torch.zeros(1, 16, 3)).exp()[0].detach()
    assert variation(learned, COUNTS.flatten() / 100) < 0.05


@torch.no_grad()
def one_by_one(model):
    """What a model of PAIR draws when tokens never meet in a step, exactly: both orders alike, one after the other."""
    total, t, cond = torch.zeros(16), torch.ones(1, 16), torch.zeros(1, 16, 3)
    for first, second in ((0, 1), (1, 0)):
        ids = torch.full((1, 16, 2), model.mask_id)
        likelihood = 0.5
        for place in (first, second):
            probability = torch.softmax(model.logits(ids, t, cond)[0, :, place], -1)
            likelihood = likelihood * probability.gather(-1, PAIRS[:, place : place + 1])[:, 0]
            ids[0, :, place] = PAIRS[:, place]
        total += likelihood
    return total


def test_discrete_diffusion_learns_a_joint_distribution():
    """Within 0.06 in total variation, in closed form. In n steps the tokens meet with chance 1 / n, and then are drawn
    independently: the samples are that mixture, and in one step nothing but the product of the marginals."""
    model, truth, n = taught(DiscreteDiffusionSettings()), COUNTS / 100, 20_000
    product = (truth.sum(1, keepdim=True) * truth.sum(0, keepdim=True)).flatten()
    learned = one_by_one(model)
    assert variation(product, truth.flatten()) > 0.4
    assert variation(learned, truth.flatten()) < 0.06
    for steps in (1, 4):
        model.settings = DiscreteDiffusionSettings(sampling_steps=steps)
        seen = shares(model.sample(torch.zeros(1, n, 3), draws()), 4)
        assert variation(seen, (1 - 1 / steps) * learned + product / steps) < 0.05


# MaskGIT: soft targets


def codebook(codes=16, channels=4):
    return Draws(seeds_tensor([5]), "codebook").normal(codes, channels)[0]


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


# MaskGIT: Halton order


def test_radical_inverse():
    assert [radical_inverse(n, 2) for n in range(1, 6)] == [1 / 2, 1 / 4, 3 / 4, 1 / 8, 5 / 8]
    assert [radical_inverse(n, 3) for n in range(1, 5)] == pytest.approx([1 / 3, 2 / 3, 1 / 9, 4 / 9])


@pytest.mark.parametrize("grid", [(1, 1), (1, 3), (3, 3), (4, 4), (4, 6), (7, 7), (8, 8), (16, 16)])
def test_halton_visits_every_cell_once(grid):
    assert torch.equal(halton_rank(grid).sort().values, torch.arange(grid[0] * grid[1]))


def test_the_first_six_cells_lie_in_six_different_parts():
    """Any six points in a row fall one into each cell of a grid of 2 x 3, so finer grids begin with all six parts."""
    assert halton_rank((2, 3)).sort().values.tolist() == list(range(6))
    for grid in ((8, 6), (16, 9), (6, 12)):
        first = halton_rank(grid).argsort()[:6]
        parts = first // grid[1] * 2 // grid[0] * 3 + first % grid[1] * 3 // grid[1]
        assert sorted(parts.tolist()) == list(range(6))


@pytest.mark.parametrize("side", [7, 8])
def test_the_first_cells_are_farther_apart_than_cells_by_chance(side):
    """No two of the first eight touch, and the mean distance to the nearest is above nine in ten random choices."""

    def nearest(cells):
        place = torch.stack([cells // side, cells % side], -1).float()
        return (torch.cdist(place, place) + torch.diag(torch.full((8,), torch.inf))).min(-1).values

    first = nearest(halton_rank((side, side)).argsort()[:8])
    chance = [nearest(draws(step).uniform(side * side)[0].argsort()[:8]).mean() for step in range(300)]
    assert first.min() > 1.4 and first.mean() > torch.stack(chance).quantile(0.9)


@pytest.mark.parametrize("roll", [False, True])
@pytest.mark.parametrize("steps", [1, 5, 30])
def test_halton_decoding_with_an_oracle_returns_the_data_in_halton_order(monkeypatch, steps, roll):
    shape = TokenShape((4, 4), 4, 8)
    model = build(MaskGITSettings(order="halton", roll=roll, sampling_steps=steps), seeds=(0, 1), shape=shape)
    answer = draws().integers(8, 32, 16).expand(2, -1, -1)
    seen = watched(monkeypatch, model, lambda ids: 60.0 * F.one_hot(answer, 8))
    assert torch.equal(model.sample(torch.zeros(2, 32, 3), draws(1, members=2)), answer)
    rank, firsts = halton_rank((4, 4)), set()
    for ids in seen[1:]:
        known = ids != model.mask_id
        count = known.sum(-1)
        assert (count == count[0, 0]).all()  # the schedule does not depend on the image
        # Known are those whose turn, moved on by the image's own shift, is below the count.
        shifts = [(known == ((rank + shift) % 16 < count[..., None])).all(-1) for shift in range(16 if roll else 1)]
        assert torch.stack(shifts).any(0).all()
        firsts |= set(torch.stack(shifts).int().argmax(0).flatten().tolist())
    assert (len(firsts) > 4) == (roll and steps > 1)


def test_halton_order_has_no_choice_noise_and_the_same_schedule(monkeypatch):
    cond, counts, samples = torch.zeros(1, 16, 3), {}, []
    for words in ({}, {"order": "halton"}, {"order": "halton", "smoothing": 0.5}):
        model = shaken(MaskGITSettings(sampling_steps=5, **words))
        seen = watched(monkeypatch, model)
        samples.append(model.sample(cond, draws()))
        counts[str(words)] = [(ids == model.mask_id).sum(-1).unique().tolist() for ids in seen]
        monkeypatch.undo()
    assert not torch.equal(samples[0], samples[1]) and torch.equal(samples[1], samples[2])
    assert len(set(map(str, counts.values()))) == 1


# All of them


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
