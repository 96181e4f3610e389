"""GIVT: the standard normal at the start, the true likelihood, no leak, guidance in closed form, data it must learn."""

import math

import pytest
import torch
from pydantic import ValidationError
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from recombine.conditioning import ConditioningSettings
from recombine.generators.givt import GIVT, GIVTSettings
from recombine.generators.mixture import Mixture, guide, mixture_outputs
from recombine.nets.backbone import Dimensions
from recombine.nets.layers import SeedStream
from recombine.randomness import Draws, seeds_tensor
from recombine.training import Trainer, TrainingData, TrainingSettings
from small import FACTORS, SHAPE

STYLES = ["masked", "causal"]
T, C = SHAPE.tokens, SHAPE.channels


def draws(step: int = 0, seeds: tuple[int, ...] = (0,)) -> Draws:
    return Draws(seeds_tensor(seeds), "test", step)


def model(style: str, seeds: tuple[int, ...] = (0,), shaken: bool = False, depth: int = 2, **settings) -> GIVT:
    """A small model; `shaken` moves its zero-initialised layers, so that it really depends on its input."""
    chosen = GIVTSettings(style=style, **{"components": 3, "sampling_steps": 5, **settings})
    out = GIVT(chosen, SHAPE, ConditioningSettings(drop_all=0.2), FACTORS, Dimensions(depth, 32, 2), SeedStream(seeds))
    if shaken:
        with torch.no_grad():
            for p in out.parameters():
                p += 0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0))
    return out


def hidden_of(out: GIVT, size: int):
    """What a masked model hides of a batch; None for a causal one."""
    return out.mask(size, draws()).hidden if out.settings.style == "masked" else None


def batch(size: int = 8, members: int = 1):
    source = draws(7, tuple(range(members)))
    return source.normal(size, T, C), source.integers(2, size, 3).float()


def random_mixture(components: int, tokens: int, step: int = 0, floor: float = 1e-3, size: int = 1) -> Mixture:
    outputs = draws(step).normal(size, tokens, mixture_outputs(components, C))
    return Mixture.of_outputs(2 * outputs, components, floor)


# The head


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("components", [1, 16])
def test_starts_as_the_standard_normal_exactly(style, components):
    x, cond = batch()
    out = model(style, components=components)
    hidden = hidden_of(out, 8)
    mixture = out.predict(x, hidden, cond)
    assert (mixture.mean == 0).all() and (mixture.log_scale.exp() == 1).all()
    torch.testing.assert_close(mixture.log_weight.exp(), torch.full_like(mixture.log_weight, 1 / components))
    exact = -Normal(0.0, 1.0).log_prob(x).sum(-1)  # (1, B, T)
    torch.testing.assert_close(-mixture.log_density(x), exact)
    counted = torch.ones(1, 8, T) if hidden is None else hidden.float()
    expected = ((exact * counted).sum(-1) / counted.sum(-1)).mean(-1)  # every image counts alike
    torch.testing.assert_close(out.loss(x, cond, draws()), expected)


def test_scale_is_squareplus_with_a_floor():
    raw = torch.tensor([-2000.0, -999.0, -50.0, -1.0, 0.0, 1.0, 300.0])
    outputs = torch.zeros(1, 1, len(raw), 3)
    outputs[..., 2] = raw
    scale = Mixture.of_outputs(outputs, 1, floor=1e-3).log_scale.exp().flatten()
    exact = (raw.double() + (raw.double().square() + 4).sqrt()) / 2  # in float32 this form is wrong for small scales
    torch.testing.assert_close(scale, exact.clamp(min=1e-3).float())
    assert Mixture.of_outputs(outputs, 1, 1e-3).at_floor(1e-3).flatten().tolist() == [1, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("components", [1, 5])
def test_likelihood_equals_that_of_torch_distributions(components):
    mixture = random_mixture(components, 40)
    x = 3 * draws(1).normal(1, 40, C)
    gaussians = Independent(Normal(mixture.mean, mixture.log_scale.exp()), 1)
    truth = MixtureSameFamily(Categorical(logits=mixture.log_weight), gaussians)
    torch.testing.assert_close(mixture.log_density(x), truth.log_prob(x))


def test_likelihood_stays_finite_far_out_and_with_many_channels():
    mixture = Mixture.of_outputs(torch.zeros(1, 1, 1, mixture_outputs(2, 512)), 2, 1e-3)
    assert mixture.log_density(torch.full((1, 1, 1, 512), 30.0)).item() == pytest.approx(
        512 * (-450 - 0.5 * math.log(2 * math.pi)), rel=1e-5
    )


def test_draws_have_the_weights_means_and_scales_of_the_mixture():
    size = 40_000
    one = random_mixture(3, 1)
    many = Mixture(*(t.expand(1, size, *t.shape[2:]) for t in (one.log_weight, one.mean, one.log_scale)))
    weight, mean, variance = (
        one.log_weight.exp()[0, 0, 0, :, None],
        one.mean[0, 0, 0],
        one.log_scale[0, 0, 0].exp() ** 2,
    )
    for temperature in (1.0, 0.5):
        x = many.draw(draws(2), temperature)[0][0, :, 0]
        expected = (weight * mean).sum(0)
        spread = ((weight * (temperature**2 * variance + mean**2)).sum(0) - expected**2).sqrt()
        torch.testing.assert_close(x.mean(0), expected, atol=0.06, rtol=0)
        torch.testing.assert_close(x.std(0), spread, atol=0, rtol=0.03)
    still = many.draw(draws(2), 0.0)[0][0, :, 0]
    # At temperature 0 the mean of the drawn component. In double: cdist subtracts squares, and rounds as the CPU does.
    assert (torch.cdist(still.double(), mean.double()).min(1).values < 1e-5).all()


# No leak, dropped labels


def changed(before: Mixture, after: Mixture) -> torch.Tensor:
    """(B, T): where any parameter of the two differs."""
    pairs = [(before.log_weight, after.log_weight), (before.mean, after.mean), (before.log_scale, after.log_scale)]
    return torch.stack([(a != b).flatten(3).any(-1)[0] for a, b in pairs]).any(0)


def test_masked_a_hidden_token_never_reaches_the_prediction(monkeypatch):
    """What the network predicts while the loss is taken must not change with the true value of a hidden token."""
    out = model("masked", shaken=True)
    x, cond = batch()
    hidden = hidden_of(out, 8)
    seen = []
    plain = GIVT.mixture
    monkeypatch.setattr(GIVT, "mixture", lambda self, *a: seen.append(plain(self, *a)) or seen[-1])
    for tokens in (x, torch.where(hidden[..., None], x + 3, x), torch.where(hidden[..., None], x, x + 3)):
        out.loss(tokens, cond, draws())
    assert not changed(seen[0], seen[1]).any()
    assert changed(seen[0], seen[2])[~hidden.all(-1)[0]].all()  # and the tokens that are shown do matter


def test_causal_a_token_never_reaches_itself_or_those_before_it():
    out = model("causal", shaken=True)
    x, cond = batch()
    for place in range(T):
        other = x.clone()
        other[:, :, place] += 3
        moved = changed(out.predict(x, None, cond), out.predict(other, None, cond))
        assert not moved[:, : place + 1].any() and moved[:, place + 1 :].all()


@pytest.mark.parametrize("style", STYLES)
def test_dropped_labels_reach_the_embedding(style):
    out = model(style, shaken=True)
    x, cond = batch(32)
    out.loss(x, cond, draws()).sum().backward()
    for name in out.condition.names:
        assert out.condition.nulls[name].grad.abs().max() > 0


@pytest.mark.parametrize(("ratio", "least", "mean"), [("cosine", 0.0, 2 / math.pi), ("published", 0.454, 0.810)])
def test_share_hidden_follows_the_named_law(ratio, least, mean):
    share = hidden_of(model("masked", ratio=ratio), 20_000).float().mean(-1)
    assert share.min() >= least
    assert share.mean().item() == pytest.approx(mean + 0.5 / T, abs=0.01)  # counts are rounded up


# Sampling


@pytest.mark.parametrize("guidance", [0.0, 0.5])
def test_cached_causal_sampling_equals_the_whole_model_run_anew_for_every_token(guidance):
    out = model("causal", shaken=True, temperature=0.9)
    _, cond = batch()
    source, x = draws(3), torch.zeros(1, 8, T, C)
    nothing = torch.ones(1, 8, 3, dtype=torch.bool)
    for place in range(T):
        told, untold = (
            Mixture(*(t[:, :, place : place + 1] for t in (m.log_weight, m.mean, m.log_scale)))
            for m in (out.predict(x, None, cond), out.predict(x, None, cond, nothing))
        )
        x[:, :, place : place + 1] = told.draw(source, 0.9, [untold] if guidance else [], guidance)[0]
    torch.testing.assert_close(out.sample(cond, draws(3), guidance), x, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("steps", [1, 4, 20])
def test_masked_an_oracle_makes_the_sampler_return_the_data(monkeypatch, steps):
    truth, cond = batch()
    outputs = torch.zeros(1, 8, T, mixture_outputs(2, C))
    outputs[..., 2:] = torch.cat([truth, torch.full_like(truth, -1e5)], dim=-1).repeat(1, 1, 1, 2)
    monkeypatch.setattr(GIVT, "predict", lambda *_: Mixture.of_outputs(outputs, 2, 1e-4))
    x = model("masked", sampling_steps=steps).sample(cond, draws())
    assert (x - truth).abs().max() < 1e-3


@pytest.mark.parametrize("style", STYLES)
def test_sampling_is_a_pure_function_of_model_condition_and_seed(style):
    out, (_, cond) = model(style, shaken=True), batch()
    first = out.sample(cond, draws())
    assert first.shape == (1, 8, T, C) and first.isfinite().all()
    assert torch.equal(first, out.sample(cond, draws()))
    assert not torch.equal(first, out.sample(cond, draws(1)))
    assert not torch.equal(first, out.sample(1 - cond, draws()))


@pytest.mark.parametrize("style", STYLES)
def test_a_member_equals_its_solo_run(style):
    x, cond = batch(64)
    data = TrainingData(x[0], None, cond[0])
    together, alone = (
        Trainer(model(style, seeds, components=16), data, TrainingSettings(size="xs", batch=16, warmup=5, rate=3e-3))
        for seeds in ((3, 11), (11,))
    )
    for run in (together, alone):
        run.run(30)
    torch.testing.assert_close(together.loss_sum[1:], alone.loss_sum, rtol=1e-4, atol=1e-4)
    for key, tensor in alone.state().items():
        if key.startswith("weight.") and not key.endswith("qkv.bias"):  # the bias of keys has no effect
            torch.testing.assert_close(together.state()[key][1:], tensor, rtol=1e-3, atol=2e-5, msg=key)
    cond = batch()[1]
    many = together.generator.sample(cond.expand(2, -1, -1), draws(0, (3, 11)))
    one = alone.generator.sample(cond, draws(0, (11,)))
    assert (many[1:] - one).abs().flatten(2).amax(-1).median() < 1e-2  # a rounding difference may tip a draw


@pytest.mark.parametrize("style", STYLES)
def test_equal_components_part_by_the_seed_and_not_by_rounding(style):
    """Without `parting` the same few steps leave them apart by rounding errors only, which then decide the rest."""
    apart = {}
    x, cond = batch(64)
    for parting in (0.0, 0.1):
        out = model(style, components=16, parting=parting)
        settings = TrainingSettings(size="xs", batch=64, warmup=1, rate=1e-2)
        Trainer(out, TrainingData(0.3 * x[0] + 1, None, cond[0]), settings).run(3)
        mixture = out.predict(x, hidden_of(out, 64), cond)
        apart[parting] = (mixture.mean.std(-2).mean().item(), mixture.log_scale.std(-2).mean().item())
    assert max(apart[0.0]) < 2e-3 and min(apart[0.1]) > 5e-3, apart


def test_a_member_has_no_gradient_from_another():
    out = model("masked", (0, 1), shaken=True)
    x, cond = batch(8, 2)
    out.loss(x, cond, draws(0, (0, 1)))[0].backward()
    for key, weight in out.named_parameters():
        assert weight.grad[1].abs().max() == 0 and weight.grad[0].abs().max() > 0, key


# Guidance


@pytest.mark.parametrize("w", [0.1, 0.4, 2.0])
def test_closed_form_guidance_equals_the_density_on_a_grid(w):
    """p_c^(1 + w) p_u^(-w), normalised by summing it on a fine grid, has the mean and deviation that `guide` states."""
    told = Normal(torch.tensor([0.5, -1.0, 0.2]), torch.tensor([0.5, 1.0, 1.1]))
    untold = Normal(torch.tensor([0.1, 0.3, -0.2]), torch.tensor([1.2, 1.3, 1.2]))
    grid = torch.linspace(-60, 60, 400_001, dtype=torch.float64)[:, None]
    weight = torch.softmax((1 + w) * told.log_prob(grid) - w * untold.log_prob(grid), dim=0)
    mean = (weight * grid).sum(0)
    deviation = (weight * (grid - mean) ** 2).sum(0).sqrt()
    got = guide(told.loc, told.scale.log(), [(untold.loc, untold.scale.log())], w)
    torch.testing.assert_close(got[0], mean.float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(got[1].exp(), deviation.float(), rtol=1e-4, atol=1e-4)
    assert not got[2].any()


def test_guidance_falls_back_on_the_conditional_where_there_is_no_density_and_says_so():
    """With w = 1 the precision 2 / s_c^2 - 1 / s_u^2 is positive only while s_c^2 < 2 s_u^2."""
    log_scale = 0.5 * torch.tensor([1.0, 1.9, 2.0, 2.1, 9.0]).log()
    mean, zero = torch.full((5,), 0.7), torch.zeros(5)
    guided_mean, guided_log_scale, refused = guide(mean, log_scale, [(zero, zero)], 1.0)
    assert refused.tolist() == [False, False, True, True, True]
    assert torch.equal(guided_mean[2:], mean[2:]) and torch.equal(guided_log_scale[2:], log_scale[2:])
    assert guided_mean[0] == pytest.approx(1.4) and guided_log_scale[0] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("style", STYLES)
def test_guidance_off_asks_nothing_of_the_null_and_on_moves_the_draws(style):
    out, (_, cond) = model(style, shaken=True), batch()
    plain, share = out.sample_counted(cond, draws())
    assert share.tolist() == [0.0]
    pushed, share = out.sample_counted(cond, draws(), 0.3)
    assert 0 <= share.item() < 1 and ((plain - pushed).abs().amax(dim=(0, 1, 2)) > 1e-4).all()
    with torch.no_grad():
        for null in out.condition.nulls.values():
            null.fill_(math.nan)
    assert torch.equal(out.sample(cond, draws(), 0.0), plain)


@pytest.mark.parametrize("style", STYLES)
def test_the_share_of_refused_guidance_is_counted(style):
    """A conditional mixture far wider than the unconditional one: no guidance is possible anywhere, none is applied."""
    out, (_, cond) = model(style, shaken=True), batch()
    plain = out.sample(cond, draws())
    mixture = out.mixture
    calls = []

    def narrow_if_untold(outputs):  # told and untold are asked for in turn
        calls.append(mixture(outputs))
        m = calls[-1]
        return m if len(calls) % 2 else Mixture(m.log_weight, m.mean, m.log_scale - 5)

    out.mixture = narrow_if_untold
    x, share = out.sample_counted(cond, draws(), 1.0)
    assert share.tolist() == [1.0] and torch.equal(x, plain)


# Learning


@pytest.mark.parametrize("style", STYLES)
def test_learns_a_two_sided_gaussian_to_its_entropy(style):
    """Every token is sign + mean(condition) + noise of deviation(channel); all tokens of an image have one sign.

    The best likelihood is known: that of C Gaussians, and log 2 more for a token from which no other can be seen
    (causal: the first; masked: all, where all are hidden). Stated error: 0.1 nats per token.
    """
    source = draws(9)
    effect = 0.4 * source.normal(3, C)[0]
    deviation = 0.2 + 0.3 * source.uniform(C)[0]

    def images(n):
        cond = source.integers(2, n, 3)[0].float()
        sign = source.integers(2, n, 1)[0] * 2.0 - 1
        return (sign + (cond * 2 - 1) @ effect)[:, None].expand(n, T, C).contiguous(), cond

    mean, cond = images(1024)
    out = model(style, depth=1, components=4, sampling_steps=12)
    settings = TrainingSettings(size="xs", batch=32, steps=300, warmup=10, rate=1e-2, schedule="cosine", clip=None)
    run = Trainer(out, TrainingData(mean, deviation.expand_as(mean), cond), settings)
    run.run(300)

    blind = 1 / T if style == "causal" else 1 - 2 / math.pi * math.asin((T - 1) / T)  # share of tokens that see none
    entropy = C * 0.5 * math.log(2 * math.pi * math.e) + deviation.log().sum().item() + math.log(2) * blind
    one_gaussian = blind * (0.5 * (1 + deviation**-2).log().sum().item() - math.log(2))
    assert one_gaussian > 0.25  # what a model without a mixture loses at the least
    mean, cond = images(2000)
    x = mean + deviation * source.normal(2000, T, C)[0]
    seen = out.monitors(x[None], cond[None], draws(1))
    assert seen["held_out_nll"].item() == pytest.approx(entropy, abs=0.1)
    assert seen["scales_at_floor"].tolist() == [0.0]

    told = torch.tensor([1.0, 0.0, 1.0])
    drawn = out.sample(told.expand(1, 600, 3), draws(2))[0] - (told * 2 - 1) @ effect  # (600, T, C)
    sign = drawn.mean(-1, keepdim=True).sign()
    assert 0.4 < (sign > 0).float().mean() < 0.6
    assert sign.mean(1).abs().mean() > 0.9  # the tokens of an image agree on its sign; independent ones would give 0.27
    rest = drawn - sign
    assert rest.mean((0, 1)).abs().max() < 0.08
    torch.testing.assert_close(rest.std((0, 1)), deviation, rtol=0.12, atol=0)


# Settings


def test_settings_that_cannot_work_are_refused():
    for wrong in ({"components": 0}, {"scale_floor": 0}, {"sampling_steps": 0}, {"guidance": -1}, {"style": "both"}):
        with pytest.raises(ValidationError):
            GIVTSettings(**wrong)
