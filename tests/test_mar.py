"""MAR: the ratio law, masked tokens only, no leak, exact samplers, Gaussians learned by both heads, guidance."""

import functools
import math

import pytest
import torch

from recombine.conditioning import ConditioningSettings
from recombine.generators import mar
from recombine.generators.base import TokenShape
from recombine.generators.dit import DiT, DiTSettings
from recombine.generators.gaussian import cosine_kept, ddpm_pair, respaced, sample_ddpm
from recombine.generators.mar import MAR, MARSettings, draw_ratio, mean_ratio, reveal_counts
from recombine.generators.masking import reveal
from recombine.nets.backbone import Dimensions
from recombine.nets.layers import SeedStream
from recombine.randomness import Draws, seeds_tensor
from recombine.training import Trainer, TrainingData, TrainingSettings
from recombine.worlds.base import Factor
from small import draws, shake

FACTORS = [Factor("kind", ("a", "b"), 0)]
GRID = TokenShape(grid=(3, 3), channels=4, codes=None)
HEADS = ["diffusion", "flow"]


def build(shape=GRID, seeds=(0,), conditioning=None, dimensions=None, **settings) -> MAR:
    return MAR(
        MARSettings(**{"head_steps": 5, "sampling_steps": 4, **settings}),
        shape,
        conditioning or ConditioningSettings(),
        FACTORS,
        dimensions or Dimensions(2, 32, 2),
        SeedStream(seeds),
    )


def nudged(**settings) -> MAR:
    return shake(build(**settings))


def batch(members: int = 1, size: int = 8):
    x = draws(7, members).normal(size, GRID.tokens, GRID.channels)
    return x, draws(8, members).integers(2, size, 1).float()


def test_the_gradient_of_chosen_tokens_is_a_gathers():
    """What a GPU takes in its place: the same tokens, and the sum of all that each of them was chosen for."""
    x = draws(1, 2).normal(3, 9, 4).requires_grad_()
    chosen = draws(2, 2).integers(9, 3, 40)  # most of the 9 several times
    weights = draws(3, 2).normal(120, 1, 4)
    taken = mar.Chosen.apply(x, chosen).flatten(1, 2)[:, :, None]
    assert torch.equal(taken, mar.rows(x, chosen))
    grads = [torch.autograd.grad((one * weights).sum(), x)[0] for one in (taken, mar.rows(x, chosen))]
    torch.testing.assert_close(*grads)
    assert torch.autograd.gradcheck(lambda own: mar.Chosen.apply(own, chosen), x.detach().double().requires_grad_())


# The mask ratio


def test_mask_ratio_is_the_truncated_normal():
    """mean 1, std 0.25 on [0.7, 1]: mean 0.867, and P(ratio < r) = (F(r) - F(0.7)) / (F(1) - F(0.7))."""
    settings = MARSettings()
    assert mean_ratio(settings) == pytest.approx(0.867, abs=5e-4)
    ratio = draw_ratio(draws(members=20_000), settings)
    assert ratio.min() >= 0.7 and ratio.max() <= 1 and ratio.min() < 0.701 and ratio.max() > 0.999
    assert ratio.mean().item() == pytest.approx(mean_ratio(settings), abs=0.002)
    normal = torch.distributions.Normal(1.0, 0.25)
    low, high = normal.cdf(torch.tensor([0.7, 1.0]))
    for r in (0.75, 0.8, 0.9, 0.95):
        expected = (normal.cdf(torch.tensor(r)) - low) / (high - low)
        assert (ratio < r).float().mean().item() == pytest.approx(expected.item(), abs=0.01)


@pytest.mark.parametrize("settings", [{"ratio_floor": 0.0, "ratio_mean": 0.5}, {"ratio_floor": 0.4, "ratio_std": 1.0}])
def test_mean_ratio_holds_for_other_laws(settings):
    settings = MARSettings(**settings)
    assert draw_ratio(draws(members=20_000), settings).mean().item() == pytest.approx(mean_ratio(settings), abs=0.005)


def test_one_ratio_for_the_batch_of_each_member(monkeypatch):
    model = build(seeds=range(6))
    seen = []
    plain = MAR.embed
    monkeypatch.setattr(MAR, "embed", lambda self, x, hidden: seen.append(hidden) or plain(self, x, hidden))
    x, cond = batch(6)
    for step in range(5):
        model.loss(x, cond, draws(step, 6))
    counts = torch.stack(seen).sum(-1)  # (steps, M, B)
    assert (counts == counts[..., :1]).all() and counts.min() >= math.ceil(0.7 * 9)
    assert (counts[..., 0] != counts[:, :1, 0]).any() and (counts[..., 0] != counts[:1, :, 0]).any()
    places = torch.stack(seen).float().mean(dim=(0, 1, 2))
    assert (places - places.mean()).abs().max() < 0.12  # at places that differ from image to image


# What is scored


def scored(model, x, cond, monkeypatch):
    """(tokens scored, their times, the mask) of one call of the loss."""
    seen = {}
    embed, noised = MAR.embed, MAR.noised
    monkeypatch.setattr(MAR, "embed", lambda self, x, hidden: seen.update(hidden=hidden) or embed(self, x, hidden))

    def record(self, x, source):
        noisy, t, target = noised(self, x, source)
        seen.update(x=x, t=t, target=target, noisy=noisy)
        return noisy, t, target

    monkeypatch.setattr(MAR, "noised", record)
    model.loss(x, cond, draws(3, len(x)))
    monkeypatch.undo()
    return seen


@pytest.mark.parametrize("head", HEADS)
def test_masked_tokens_alone_are_scored_each_with_its_own_times_and_noises(head, monkeypatch):
    model = nudged(head=head, seeds=(0, 1, 2))
    x = torch.arange(3 * 8 * 9.0).view(3, 8, 9, 1).expand(-1, -1, -1, 4)  # a token's value is its number
    seen = scored(model, x, batch(3)[1], monkeypatch)
    times_scored = torch.bincount(seen["x"][..., 0].flatten().long(), minlength=216).view(3, 8, 9)
    hidden = seen["hidden"]
    assert (times_scored[~hidden] == 0).all() and not hidden.all()
    each = model.scored / hidden.sum(-1, keepdim=True)
    assert ((times_scored - each).abs() < 1)[hidden].all() and times_scored[hidden].float().mean() > 3
    t = seen["t"].view(3, 8, -1)
    assert all(len(row.unique()) > 0.9 * len(row) for row in t.flatten(0, 1))  # chance may repeat a level
    noise = seen["target"] if head == "diffusion" else seen["x"] - seen["target"]
    assert len(noise[..., 0].flatten().unique()) > 0.9 * noise[..., 0].numel()


def test_repeats_are_the_mean_number_of_times_a_masked_token_is_scored():
    """R = repeats x mean ratio x T, and no place of the head is spent on a token that was shown."""
    for repeats in (1, 4, 7):
        assert build(repeats=repeats).scored == math.ceil(repeats * 0.8670 * 9)


def test_a_hidden_token_never_reaches_the_vectors():
    model = nudged()
    x, cond = batch()
    hidden = draws(5).uniform(8, 9) < 0.6
    plain = model.vectors(x, hidden, cond)
    assert torch.equal(model.vectors(torch.where(hidden[..., None], x + 3, x), hidden, cond), plain)
    assert not torch.allclose(model.vectors(torch.where(hidden[..., None], x, x + 3), hidden, cond), plain)
    assert not torch.allclose(model.vectors(x, hidden, 1 - cond), plain)


@pytest.mark.parametrize("head", HEADS)
def test_the_head_is_zero_at_the_start_so_the_loss_is_that_of_saying_nothing(head):
    model = build(head=head, head_width=48)
    z, x = draws().normal(5, 1, 32), draws(1).normal(5, 1, 4)
    assert model.head(x, torch.rand(1, 5, 1), z).abs().max() == 0
    x, cond = batch(size=400)
    expected = 1.0 if head == "diffusion" else 2.0  # E noise^2, E (x - noise)^2
    assert model.loss(x, cond, draws()).item() == pytest.approx(expected, rel=0.03)


def test_the_loss_in_bfloat16_is_close_and_the_prediction_is_float32():
    model = nudged()
    x, cond = batch()
    exact = model.loss(x, cond, draws())
    model.dtype = torch.bfloat16
    assert model.vectors(x, torch.ones(1, 8, 9, dtype=torch.bool), cond).dtype == torch.bfloat16
    rough = model.loss(x, cond, draws())
    assert rough.dtype == torch.float32 and not torch.equal(rough, exact)
    torch.testing.assert_close(rough, exact, rtol=0.03, atol=0)


# The noise schedule and its sampler


@pytest.mark.parametrize("levels", [100, 1000])
def test_the_cosine_chain_ends_in_noise_and_keeps_unit_variance(levels):
    kept = cosine_kept(levels)
    assert kept[0] > 0.998 and kept[-1] < 1e-5 and (kept.diff() < 0).all()
    assert kept[levels // 2 - 1].item() == pytest.approx(math.cos((0.5 + 0.008) / 1.008 * math.pi / 2) ** 2, abs=1e-3)
    x, noise = draws().normal(4000, 1, 1), draws(1).normal(4000, 1, 1)
    noisy, _ = ddpm_pair(x, noise, kept[torch.full((1, 4000), levels // 3)])
    assert noisy.std().item() == pytest.approx(1, abs=0.03)


def test_the_sampled_levels_begin_where_a_little_signal_is_left():
    kept = cosine_kept(1000)
    for steps in (1, 2, 10, 100, 1000):
        chain = respaced(kept, steps, 1e-4)
        assert kept[chain[0]] >= 1e-4 > kept[chain[0] + 1]
        assert len(chain) == min(steps, chain[0] + 1) and (steps == 1 or chain[-1] == 0)
        assert chain == sorted(set(chain), reverse=True)


MEAN, STD = 1.5, 0.4  # of the Gaussian whose best prediction is known in closed form


def true_noise(kept, x, t, mean, std):
    """E[noise | x_t] for x ~ N(mean, std^2)."""
    a = kept[(t * len(kept)).round().long() - 1][..., None, None]
    return (1 - a).sqrt() * (x - a.sqrt() * mean) / (a * std**2 + 1 - a)


# Few steps narrow the spread (the posterior variance is that of a point mass at the predicted value); many do not.
@pytest.mark.parametrize(("steps", "tolerance"), [(25, 0.18), (100, 0.08), (994, 0.03)])
def test_sampler_with_the_true_noise_draws_the_gaussian(steps, tolerance):
    kept = cosine_kept(1000)
    predict = functools.partial(true_noise, kept, mean=MEAN, std=STD)
    x = sample_ddpm(predict, draws(), (6000, 1, 1), kept, respaced(kept, steps, 1e-4))
    assert x.mean().item() == pytest.approx(MEAN, abs=0.02)
    assert x.std().item() == pytest.approx(STD, rel=tolerance)


def test_temperature_multiplies_the_noise_of_the_steps_not_the_initial_noise():
    kept = cosine_kept(1000)
    predict = functools.partial(true_noise, kept, mean=MEAN, std=STD)
    chain = respaced(kept, 50, 1e-4)
    cold, cool, plain = (sample_ddpm(predict, draws(), (4000, 1, 1), kept, chain, w) for w in (0.0, 0.7, 1.0))
    assert cold.std() < 0.7 * cool.std() and cool.std() < 0.9 * plain.std()
    assert cold.std() > 0  # what the initial noise alone makes
    torch.testing.assert_close((plain - cold) * 0.7, cool - cold, rtol=1e-3, atol=1e-3)  # linear for a Gaussian
    assert abs(cool.mean().item() - MEAN) < 0.02


# The decoder


@pytest.mark.parametrize("tokens", [1, 2, 9, 49, 64])
@pytest.mark.parametrize("steps", [1, 2, 5, 16, 70])
def test_counts_are_those_of_the_shared_decoder(tokens, steps):
    seen = []

    def draw(x, unknown):
        seen.append(int(unknown.sum()))
        return x, torch.arange(tokens).expand(1, 1, -1).float()

    reveal(draw, torch.zeros(1, 1, tokens, 1), torch.ones(1, 1, tokens, dtype=torch.bool), draws(), steps)
    shared = [before - after for before, after in zip(seen, [*seen[1:], 0], strict=True)]
    assert reveal_counts(tokens, steps) == [count for count in shared if count]
    assert sum(reveal_counts(tokens, steps)) == tokens


def oracle(model, monkeypatch, tell):
    """Replaces the network by `tell(x, hidden)`, the mean and spread (M, B, T, 2C) of each token given those shown, and
    a head that knows the best prediction for a Gaussian of that mean and spread."""

    def head(x, t, z):
        mean, std = z.chunk(2, dim=-1)
        t = t[..., 0].expand(x.shape[:2])
        if model.settings.head == "diffusion":
            return true_noise(model.kept, x, t, mean, std)
        t = t[..., None, None]
        gain = (t * std**2 - (1 - t)) / (t**2 * std**2 + (1 - t) ** 2)
        return mean + gain * (x - t * mean)

    monkeypatch.setattr(model, "vectors", lambda x, hidden, *_: tell(x, hidden))
    monkeypatch.setattr(model.head, "forward", head)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("steps", [1, 3, 20])
def test_an_oracle_makes_the_decoder_return_the_data(head, steps, monkeypatch):
    model = build(head=head, sampling_steps=steps, head_steps=7)
    truth = draws(4).normal(6, 9, 4)
    shown = []

    def tell(x, hidden):
        shown.append((x, hidden))
        return torch.cat([truth, torch.zeros_like(truth)], dim=-1)

    oracle(model, monkeypatch, tell)
    out = model.sample(torch.zeros(1, 6, 1), draws())
    torch.testing.assert_close(out, truth, rtol=0, atol=2e-4)
    assert shown[0][1].all()
    end = (out, torch.zeros(1, 6, 9, dtype=torch.bool))
    for (before, hidden), (after, later) in zip(shown, [*shown[1:], end], strict=True):
        assert torch.equal(after[~hidden], before[~hidden])  # once revealed, a token keeps its value
        assert (later <= hidden).all() and (later.sum(-1) < hidden.sum(-1)).all()


@pytest.mark.parametrize("head", HEADS)
def test_tokens_revealed_one_by_one_have_the_joint_law_together_they_are_independent(head, monkeypatch):
    """Two tokens of correlation 0.8: the second is drawn given the first when they are revealed in turn."""
    rho = 0.8
    for steps, expected in ((2, rho), (1, 0.0)):
        model = build(TokenShape((1, 2), 1, None), head=head, sampling_steps=steps, head_steps=50)

        def tell(x, hidden):
            known = ~hidden[..., None].flip(2)  # whether the other token is shown
            mean = torch.where(known, rho * x.flip(2), 0.0)
            return torch.cat([mean, torch.where(known, math.sqrt(1 - rho**2), 1.0)], dim=-1)

        oracle(model, monkeypatch, tell)
        x = model.sample(torch.zeros(1, 6000, 1), draws())[0, :, :, 0]
        assert torch.corrcoef(x.T)[0, 1].item() == pytest.approx(expected, abs=0.04)
        assert x.std(0).tolist() == pytest.approx([1, 1], abs=0.05)


# Guidance


def test_guidance_grows_with_the_share_revealed_from_nothing(monkeypatch):
    model = nudged(conditioning=ConditioningSettings(drop_all=0.1), sampling_steps=5)
    seen = []
    plain = MAR.draw
    monkeypatch.setattr(
        MAR, "draw", lambda self, told, untold, w, d: seen.append((untold, w)) or plain(self, told, untold, w, d)
    )
    model.sample(torch.zeros(1, 4, 1), draws(), 3.0)
    counts = reveal_counts(9, 5)
    assert [w for _, w in seen] == pytest.approx([3.0 * sum(counts[:k]) / 9 for k in range(len(counts))])
    assert not seen[0][0] and all(len(untold) == 1 for untold, _ in seen[1:])
    seen.clear()
    model.sample(torch.zeros(1, 4, 1), draws())
    assert all(not untold and w == 0 for untold, w in seen)


@pytest.mark.parametrize("head", HEADS)
def test_guidance_is_linear_on_every_channel_and_both_halves_see_the_same_noisy_token(head, monkeypatch):
    model = build(head=head, head_steps=1)
    told, untold = draws().normal(5, 1, 32), draws(1).normal(5, 1, 32)
    seen = []
    monkeypatch.setattr(model.head, "forward", lambda x, t, z: seen.append((x, t)) or z[..., :4])
    plain, pushed = model.draw(told, [], 0.0, draws(2)), model.draw(told, [untold], 1.5, draws(2))
    # One step: the token is the noise plus the velocity, or (noise - sqrt(1 - kept) prediction) / sqrt(kept).
    last = model.kept[model.chain[0]] if head == "diffusion" else None
    gain = 1.0 if last is None else -((1 - last) / last).sqrt()
    torch.testing.assert_close(pushed - plain, gain * 1.5 * (told - untold)[..., :4], rtol=1e-3, atol=1e-4)
    assert torch.equal(seen[1][0], seen[2][0]) and torch.equal(seen[1][1], seen[2][1])


@pytest.mark.parametrize("head", HEADS)
def test_guidance_changes_samples_but_not_the_first_tokens(head):
    model = nudged(head=head, conditioning=ConditioningSettings(drop_all=0.1), sampling_steps=4)
    cond = torch.zeros(1, 4, 1)
    plain, pushed = (model.sample(cond, draws(), guidance) for guidance in (0.0, 2.0))
    same = (plain == pushed).all(-1).sum(-1)
    assert (same == reveal_counts(9, 4)[0]).all()


# Training


KINDS = torch.tensor([[1.0, -0.5], [-1.0, 0.5]]), torch.tensor([0.3, 0.8])  # mean and spread of the tokens of a class


def gaussians(images: int = 4000) -> TrainingData:
    source = Draws(seeds_tensor([5]), "test data")
    label = source.integers(2, images)[0]
    noise = source.normal(images, 4, 2)[0]
    return TrainingData(KINDS[0][label][:, None] + KINDS[1][label][:, None, None] * noise, None, label[:, None].float())


def trainer(seeds=(0,), steps: int = 200, **settings) -> Trainer:
    shape = TokenShape((2, 2), 2, None)  # fewer than four tokens would all be masked: ceil(0.7 T) = T
    model = build(shape, seeds, dimensions=Dimensions(1, 32, 2), **{"head_depth": 2, "sampling_steps": 2, **settings})
    chosen = TrainingSettings(size="xs", batch=64, steps=steps, warmup=20, rate=5e-3, schedule="cosine")
    return Trainer(model, gaussians(), chosen)


@pytest.mark.parametrize(("head", "head_steps"), [("diffusion", 100), ("flow", 25)])
def test_the_head_learns_the_gaussian_of_each_class(head, head_steps):
    """Means within 0.1 and spreads within 12 % after 200 steps, and no sample far out."""
    run = trainer(head=head, head_steps=head_steps)
    run.run(200)
    with run.averaged():
        for label, (mean, std) in enumerate(zip(*KINDS, strict=True)):
            x = run.generator.sample(torch.full((1, 1000, 1), float(label)), draws()).flatten(0, 2)
            assert (x.mean(0) - mean).abs().max() < 0.1, (label, x.mean(0))
            assert (x.std(0) / std - 1).abs().max() < 0.12, (label, x.std(0))
            assert (x - mean).abs().max() < 10 * std


def test_the_head_is_not_decayed_and_all_other_matrices_are():
    run = trainer()
    decay = {name: flat.decay for flat in run.flats for name in flat.places}
    assert set(decay) == {name for name, _ in run.generator.named_parameters()}
    assert all(decay[name] == 0 for name in decay if name.startswith("head."))
    assert {"inputs.weight", "backbone.head.weight", "backbone.blocks.0.qkv.weight"} <= {n for n in decay if decay[n]}
    assert all((decay[name] > 0) == name.endswith("weight") for name in decay if not name.startswith("head."))
    other = DiT(DiTSettings(), GRID, ConditioningSettings(), FACTORS, Dimensions(1, 32, 2), SeedStream([0]))
    assert other.undecayed == ()


def test_undecayed_weights_stay_where_decayed_ones_shrink(monkeypatch):
    """With no gradient at all, decay is all that moves a weight."""
    monkeypatch.setattr(MAR, "loss", lambda self, *_: sum(0.0 * p.sum() for p in self.parameters()).expand(1))
    run = trainer()
    before = {name: w.detach().clone() for name, w in run.generator.named_parameters()}
    run.run(3)
    moved = {name for name, w in run.generator.named_parameters() if not torch.equal(w, before[name])}
    assert "inputs.weight" in moved and not any(name.startswith("head.") for name in moved)


@pytest.mark.parametrize("head", HEADS)
def test_member_equals_the_solo_run_of_its_seed(head):
    together, alone = trainer((3, 11, 5), head=head), trainer((11,), head=head)
    for run in (together, alone):
        run.run(25)
    torch.testing.assert_close(torch.tensor(together.take_mean_loss(25)[1]), torch.tensor(alone.take_mean_loss(25)[0]))
    for key, tensor in alone.state().items():
        if key.startswith("weight.") and not key.endswith("qkv.bias"):  # a bias of the keys has no effect
            torch.testing.assert_close(together.state()[key][1:2], tensor, rtol=1e-3, atol=5e-5, msg=key)
    cond = torch.zeros(1, 8, 1)
    many = together.generator.sample(cond.expand(3, -1, -1), Draws(together.seeds, "test"))
    one = alone.generator.sample(cond, Draws(alone.seeds, "test"))
    torch.testing.assert_close(many[1:2], one, rtol=1e-2, atol=2e-3)


def test_every_parameter_is_trained_and_members_do_not_touch_each_other():
    run = trainer((0, 1))
    before = {key: tensor.clone() for key, tensor in run.state().items()}
    run.run(25)
    assert not [key for key, t in run.state().items() if key.startswith("weight.") and torch.equal(t, before[key])]
    x, cond = run.data.batch(draws(0, 2), 8)
    run.generator.loss(x, cond, draws(0, 2))[0].backward()
    for key, weight in run.generator.named_parameters():
        assert weight.grad is None or weight.grad[1].abs().max() == 0, key


@pytest.mark.parametrize("head", HEADS)
def test_sampling_is_a_pure_function_of_model_condition_and_seed(head):
    model, cond = nudged(head=head), torch.zeros(1, 4, 1)
    first = model.sample(cond, draws())
    assert torch.equal(first, model.sample(cond, draws())) and first.isfinite().all()
    assert not torch.equal(first, model.sample(cond, draws(1)))
    assert not torch.equal(first, model.sample(cond + 1, draws()))


def test_settings_that_would_do_nothing_or_cannot_be_met_are_refused():
    with pytest.raises(ValueError, match="temperature"):
        MARSettings(head="flow", temperature=0.9)
    with pytest.raises(ValueError, match="ratio_floor"):
        MARSettings(ratio_mean=0.1, ratio_std=0.05)
    assert mar.MARSettings(temperature=0.9).head == "diffusion"
