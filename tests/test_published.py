"""Options that the published models had: literal betas, learned variance, the arccos law. Closed forms throughout."""

import itertools
import math

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from recombine.conditioning import ConditioningSettings
from recombine.generators import build_generator
from recombine.generators.base import TokenShape
from recombine.generators.dit import DiT, DiTSettings
from recombine.generators.gaussian import (
    cosine_kept,
    learned_log_variance,
    linear_kept,
    noise_loss,
    respaced,
    sample_ddpm,
    step_variances,
    variance_bound,
)
from recombine.generators.mar import MARSettings
from recombine.generators.maskgit import MaskGIT, MaskGITSettings
from recombine.generators.masking import arccos_ratio, draw_mask, reveal, share_left
from recombine.nets.backbone import Dimensions
from recombine.randomness import Draws, seeds_tensor
from recombine.training import Trainer, TrainingData, TrainingSettings
from small import FACTORS, SHAPE, data

MEAN, STD = 1.5, 0.4  # of the Gaussian whose best prediction is known in closed form
CHAINS = {
    "literal": linear_kept(500, "literal"),
    "scaled": linear_kept(500, "scaled"),
    "long": linear_kept(1000, "scaled"),
    "cosine": cosine_kept(1000),
}
LEARNED = [
    DiTSettings(objective="ddpm", noise_levels=500, betas="literal", variance="learned", sampling_steps=6),
    MARSettings(variance="learned", head_steps=6, sampling_steps=3),
]


def draws(purpose: str = "test", members: int = 1) -> Draws:
    return Draws(seeds_tensor(range(members)), purpose)


def levels_of(name: str, steps: int) -> list[int]:
    return respaced(CHAINS[name], steps, 1e-4 if name == "cosine" else 0.0)


def true_noise(kept, x, t):
    """E[noise | x_t] for x_0 ~ N(MEAN, STD^2)."""
    a = kept[(t * len(kept)).round().long() - 1][..., None, None]
    return (1 - a).sqrt() * (x - a.sqrt() * MEAN) / (a * STD**2 + 1 - a)


def true_step_variance(now: float, then: float) -> float:
    """Var(x_s | x_t) for x_0 of spread STD: x_s and x_t are jointly Gaussian."""
    var_s, var_t = (a * STD**2 + 1 - a for a in (then, now))
    return var_s - now / then * var_s**2 / var_t


def true_v(now: float, then: float) -> float:
    """The v that gives that variance: how far it lies from the posterior's to beta, in log space, on [-1, 1]."""
    posterior, beta = (1 - then) / (1 - now) * (1 - now / then), 1 - now / then
    return 2 * math.log(true_step_variance(now, then) / posterior) / math.log(beta / posterior) - 1


# The chain


def test_literal_betas_are_the_same_at_every_length_and_leave_some_signal():
    """500 steps of 1e-4 to 0.02 leave 0.64 % of the variance; scaled ones end where 1000 steps do."""
    for levels in (100, 500, 1000):
        kept = linear_kept(levels, "literal").double()
        betas = 1 - kept / torch.cat([torch.ones(1), kept[:-1]])
        torch.testing.assert_close(betas, torch.linspace(1e-4, 0.02, levels).double(), rtol=5e-3, atol=0)
    assert CHAINS["literal"][-1].item() == pytest.approx(0.00635, rel=1e-3)
    assert CHAINS["scaled"][-1].item() == pytest.approx(CHAINS["long"][-1].item(), rel=0.1)
    assert torch.equal(linear_kept(1000, "literal"), linear_kept(1000, "scaled"))
    for chosen in ("literal", "scaled"):
        model = build(DiTSettings(objective="ddpm", noise_levels=500, betas=chosen))
        assert torch.equal(model.kept, CHAINS[chosen])


def ancestral_law(kept, chain, variance):
    """Mean and spread of what ancestral sampling draws given the true noise: every step is affine, so all is Gaussian.
    `variance(now, then)` is the noise of a step."""
    mean, var = 0.0, 1.0
    for index, before in zip(chain, [*chain[1:], None], strict=True):
        now = kept[index].item()
        slope = math.sqrt(now) * STD**2 / (now * STD**2 + 1 - now)
        shift = MEAN - slope * math.sqrt(now) * MEAN  # E[x_0 | x_t] = shift + slope x_t
        if before is None:
            return shift + slope * mean, slope * math.sqrt(var)
        then = kept[before].item()
        of_clean = math.sqrt(then) * (1 - now / then) / (1 - now)
        of_noisy = math.sqrt(now / then) * (1 - then) / (1 - now)
        gain = of_clean * slope + of_noisy
        mean, var = of_clean * shift + gain * mean, gain**2 * var + variance(now, then)
    raise AssertionError


def posterior_variance(now: float, then: float) -> float:
    return (1 - then) / (1 - now) * (1 - now / then)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("steps", [1, 10, 50, 1000])
def test_ancestral_sampling_with_the_true_noise_has_the_law_it_must_have(name, steps):
    kept, chain = CHAINS[name], levels_of(name, steps)
    x = sample_ddpm(lambda x, t: true_noise(kept, x, t), draws(), (10_000, 1, 1), kept, chain)
    mean, std = ancestral_law(kept.double(), chain, posterior_variance)
    assert x.mean().item() == pytest.approx(mean, abs=0.02)
    assert x.std().item() == pytest.approx(std, rel=0.03)
    if steps == 1000:  # the whole chain draws the data; what little signal it leaves at its end does no harm here
        assert (mean, std) == (pytest.approx(MEAN, abs=0.01), pytest.approx(STD, rel=0.02))


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("steps", [10, 100])
def test_predicting_the_noise_and_predicting_the_clean_value_agree(name, steps):
    """Here sampling goes by E[x_0 | x_t], and q(x_s | x_t, x_0) by adding precisions; the random numbers are shared."""
    kept, chain = CHAINS[name].double(), levels_of(name, steps)
    source = draws()
    x = source.normal(500, 1, 1).double()
    for index, before in zip(chain, [*chain[1:], None], strict=True):
        now = kept[index]
        x_0 = MEAN + now.sqrt() * STD**2 / (now * STD**2 + 1 - now) * (x - now.sqrt() * MEAN)
        if before is None:
            break
        then = kept[before]
        step = now / then
        precision = 1 / (1 - then) + step / (1 - step)
        mean = (then.sqrt() * x_0 / (1 - then) + step.sqrt() * x / (1 - step)) / precision
        x = mean + precision.rsqrt() * source.normal(500, 1, 1)
    kept = CHAINS[name]
    by_noise = sample_ddpm(lambda x, t: true_noise(kept, x, t), draws(), (500, 1, 1), kept, chain)
    torch.testing.assert_close(by_noise.double(), x_0, rtol=0, atol=5e-3)


# Learned variance


@pytest.mark.parametrize("name", CHAINS)
def test_the_ends_of_the_range_are_the_posteriors_variance_and_beta(name):
    kept, chain = CHAINS[name], levels_of(name, 40)
    for levels in (list(range(len(kept) - 1, -1, -1)), chain):
        now, then = kept[levels[:-1]], kept[levels[1:]]
        posterior, beta = step_variances(now, then)
        torch.testing.assert_close(beta, 1 - now / then)
        precision = 1 / (1 - then) + now / then / (1 - now / then)
        torch.testing.assert_close(posterior, 1 / precision, rtol=1e-4, atol=0)
        assert (posterior < beta).all()
        at = [learned_log_variance(torch.full_like(beta, v), posterior, beta).exp() for v in (-1.0, 0.0, 1.0)]
        torch.testing.assert_close(at, [posterior, (posterior * beta).sqrt(), beta])


def every_level(kept):
    """Times (1, levels) of all levels, each once."""
    return (torch.arange(len(kept))[None] + 1) / len(kept)


@pytest.mark.parametrize("name", CHAINS)
def test_the_bound_is_the_divergence_of_the_two_reverse_steps(name):
    """Built anew from x_0, x_t and the two Gaussians of x_s, with torch.distributions; in bits."""
    kept = CHAINS[name]
    shape = (len(kept), 2, 3)
    x, noise, predicted, v = (draws(word).normal(*shape) for word in "xnpv")
    found = variance_bound(v, predicted - noise, kept, every_level(kept))
    assert found.shape == x.shape

    now = kept.double()[None, :, None, None]
    then = torch.cat([torch.ones(1), kept[:-1]]).double()[None, :, None, None]
    x_t = now.sqrt() * x + (1 - now).sqrt() * noise
    guess = (x_t - (1 - now).sqrt() * predicted) / now.sqrt()
    step = now / then
    means = [(then.sqrt() * (1 - step) * c + step.sqrt() * (1 - then) * x_t) / (1 - now) for c in (x, guess)]
    smallest, beta = (1 - then) / (1 - now) * (1 - step), 1 - step
    smallest[:, 0] = smallest[:, 1]
    share = (v + 1) / 2
    own = Normal(means[1], (beta**share * smallest ** (1 - share)).sqrt())
    expected = kl_divergence(Normal(means[0], smallest.sqrt()), own) / math.log(2)
    expected[:, 0] = -own.log_prob(x)[:, 0] / math.log(2)  # the first level: the clean value's own density
    torch.testing.assert_close(found.double(), expected, rtol=5e-3, atol=1e-2)


def test_the_bound_never_reaches_the_mean_half():
    kept = CHAINS["literal"]
    noise = draws().normal(500, 1, 4)
    prediction = draws("other").normal(500, 1, 8).requires_grad_()
    variance_bound(prediction[..., 4:], prediction[..., :4] - noise, kept, every_level(kept)).sum().backward()
    assert (prediction.grad[..., :4] == 0).all() and (prediction.grad[..., 4:] != 0).all()


def test_with_v_the_loss_is_still_the_squared_error_and_moves_the_mean_half_as_without():
    kept = CHAINS["literal"]
    noise = draws().normal(500, 1, 4)
    with_v = draws("other").normal(500, 1, 8).requires_grad_()
    without = with_v.detach()[..., :4].clone().requires_grad_()
    losses = [noise_loss(p, noise, kept, every_level(kept)) for p in (with_v, without)]
    torch.testing.assert_close(losses[0], losses[1])
    for loss in losses:
        loss.sum().backward()
    assert torch.equal(with_v.grad[..., :4], without.grad)
    v = with_v.detach()[..., 4:].clone().requires_grad_()
    variance_bound(v, without.detach() - noise, kept, every_level(kept)).mean().backward()
    torch.testing.assert_close(with_v.grad[..., 4:], v.grad)


@pytest.mark.parametrize("name", ["literal", "long", "cosine"])
def test_the_best_v_gives_the_true_variance_of_the_reverse_step(name):
    """Gaussian data: where the bound is least, the variance is Var(x_s | x_t), which lies inside the range."""
    kept = CHAINS[name]
    t = every_level(kept)
    exact = kept.double()
    # With the true mean, the error of the noise has variance Var(noise | x_t); half the samples are off to each side.
    spread = (exact * STD**2 / (exact * STD**2 + 1 - exact)).sqrt().float()
    error = torch.stack([spread, -spread], dim=-1)[None, :, None]
    inner = slice(2, int((kept >= 1e-4).sum()))  # beyond, and at the very start, the range is a point or not the true's
    v = torch.zeros(1, len(kept), 1, 1)
    for _ in range(60):  # Newton: the bound is convex in v, since it is so in the log variance
        v.requires_grad_()
        bound = variance_bound(v, error, kept, t).mean(dim=(0, 2, 3)).sum()
        (slope,) = torch.autograd.grad(bound, v, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), v)
        v = (v - (slope / bend).clamp(-0.5, 0.5)).detach()
    pairs = list(zip(exact.tolist()[1:], exact.tolist()[:-1], strict=True))
    expected = torch.tensor([true_v(now, then) for now, then in pairs])
    assert expected[inner].min() > -1 and expected[inner].max() < 1
    posterior, beta = step_variances(kept[1:], kept[:-1])
    found = learned_log_variance(v[0, 1:, 0, 0], posterior, beta).exp()[inner]
    true = torch.tensor([true_step_variance(now, then) for now, then in pairs])[inner]
    torch.testing.assert_close(found, true, rtol=2e-3, atol=0)


@pytest.mark.parametrize("name", CHAINS)
def test_the_true_variance_makes_ten_steps_as_good_as_all(name):
    """With mean and variance of each reverse step right, a respaced chain draws the data's own spread; with the
    posterior's variance it draws too little."""
    kept, chain = CHAINS[name], levels_of(name, 10)
    before = dict(itertools.pairwise(chain))

    def predict(x, t):
        index = round(t[0, 0].item() * len(kept)) - 1
        v = true_v(kept[index].item(), kept[before[index]].item()) if index in before else 0.0
        return torch.cat([true_noise(kept, x, t), torch.full_like(x, v)], dim=-1)

    x = sample_ddpm(predict, draws(), (10_000, 1, 1), kept, chain)
    assert x.mean().item() == pytest.approx(MEAN, abs=0.02)
    assert x.std().item() == pytest.approx(STD, rel=0.03)
    assert ancestral_law(kept.double(), chain, posterior_variance)[1] < 0.75 * STD


@pytest.mark.parametrize("name", CHAINS)
def test_v_learned_on_the_whole_chain_serves_a_respaced_one(name):
    """v says where between the ends, and the ends are the respaced chain's: 50 steps draw 98 % of the spread."""
    kept, chain = CHAINS[name], levels_of(name, 50)
    v = [0.0] + [true_v(now, then) for now, then in zip(kept.tolist()[1:], kept.tolist()[:-1], strict=True)]

    def predict(x, t):
        index = round(t[0, 0].item() * len(kept)) - 1
        return torch.cat([true_noise(kept, x, t), torch.full_like(x, v[index])], dim=-1)

    x = sample_ddpm(predict, draws(), (10_000, 1, 1), kept, chain)
    assert x.std().item() == pytest.approx(STD, rel=0.03)
    assert ancestral_law(kept.double(), chain, posterior_variance)[1] < 0.93 * STD


def build(settings, seeds=(0,), shape=SHAPE, dimensions=None, **conditioning):
    told = ConditioningSettings(**conditioning)
    return build_generator(settings, shape, told, FACTORS, dimensions or Dimensions(2, 32, 2), seeds)


def shaken(model):
    """The model with its zero-initialised layers shaken, so that it really depends on its input."""
    with torch.no_grad():
        for p in model.parameters():
            p += 0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0))
    return model


def test_a_dit_learns_the_variance_of_gaussian_data():
    """40 levels, 400 steps: every level's variance within 10 % of the true one, and samples of the right spread, of
    which the posterior's variance draws 84 %."""
    levels = 40
    settings = DiTSettings(objective="ddpm", noise_levels=levels, variance="learned", sampling_steps=levels)
    model = build(settings, shape=TokenShape((1, 1), 1, None), dimensions=Dimensions(1, 32, 2))
    x = MEAN + STD * draws("data").normal(4000, 1, 1)[0]
    chosen = TrainingSettings(size="xs", batch=256, steps=400, warmup=20, rate=5e-3, schedule="cosine")
    run = Trainer(model, TrainingData(x, None, torch.zeros(4000, 3)), chosen)
    run.run(400)
    kept = model.kept
    with run.averaged(), torch.no_grad():
        likely = (kept.sqrt() * MEAN)[None, :, None, None]
        v = model.predict(likely, every_level(kept), torch.zeros(1, levels, 3))[0, 1:, 0, 1]
        drawn = model.sample(torch.zeros(1, 5000, 3), draws())
    found = learned_log_variance(v, *step_variances(kept[1:], kept[:-1])).exp()
    pairs = zip(kept.tolist()[1:], kept.tolist()[:-1], strict=True)
    true = torch.tensor([true_step_variance(now, then) for now, then in pairs])
    torch.testing.assert_close(found, true, rtol=0.1, atol=0)
    assert drawn.mean().item() == pytest.approx(MEAN, abs=0.04)
    assert drawn.std().item() == pytest.approx(STD, rel=0.06)
    assert ancestral_law(kept.double(), model.chain, posterior_variance)[1] == pytest.approx(0.84 * STD, rel=0.01)


@pytest.mark.parametrize("settings", LEARNED, ids=["dit", "mar"])
def test_with_learned_variance_all_is_as_it_should_be(settings):
    """Zero at the start, every parameter trained, members apart, samples a pure function, float32 at the end."""
    model = build(settings, (0, 1), dropout=0.1)
    tokens = data("dit-ddpm")
    x, cond = tokens.batch(draws(members=2), 16)
    start = model.loss(x, cond, draws(members=2))
    torch.testing.assert_close(start, torch.ones(2), rtol=0.15, atol=0)  # nothing is predicted: E noise^2
    run = Trainer(model, tokens, TrainingSettings(size="xs", batch=64, steps=40, warmup=5, rate=3e-3))
    before = [w.detach().clone() for w in run.generator.parameters()]
    run.run(30)
    assert not any(torch.equal(w, b) for w, b in zip(run.generator.parameters(), before, strict=True))
    model.loss(x, cond, draws(members=2))[0].backward()
    for name, weight in model.named_parameters():
        assert weight.grad is None or weight.grad[1].abs().max() == 0, name
    drawn = model.sample(cond, draws(members=2))
    assert drawn.shape == x.shape and drawn.isfinite().all()
    assert torch.equal(drawn, model.sample(cond, draws(members=2)))
    model.dtype = torch.bfloat16
    assert model.loss(x, cond, draws(members=2)).dtype == model.sample(cond, draws(members=2)).dtype == torch.float32


@pytest.mark.parametrize("settings", LEARNED, ids=["dit", "mar"])
def test_samples_follow_the_learned_variance(settings):
    """v pushed to the ends of the range: more noise than at the other end, from the same random numbers."""
    model = build(settings)
    last = model.backbone.head if isinstance(model, DiT) else model.head.out
    cond, drawn = torch.zeros(1, 8, 3), []
    for v in (-1.0, 1.0):
        with torch.no_grad():
            last.bias[..., SHAPE.channels :] = v
        drawn.append(model.sample(cond, draws()))
    plain = build(settings.model_copy(update={"variance": "posterior"})).sample(cond, draws())
    torch.testing.assert_close(drawn[0], plain, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(drawn[1], plain, rtol=0.01, atol=0.01)


def test_guidance_of_a_dit_pushes_every_channel_of_the_mean_and_leaves_v(monkeypatch):
    model = shaken(build(LEARNED[0], drop_all=0.1))
    told, untold = (draws(word).normal(4, SHAPE.tokens, 2 * SHAPE.channels) for word in ("told", "untold"))
    monkeypatch.setattr(model, "predict", lambda x, t, cond, dropped=None: told if dropped is None else untold)
    seen = record_predictions(monkeypatch, "recombine.generators.dit.sample_ddpm")
    model.sample(torch.zeros(1, 4, 3), draws(), 1.5)
    mean, v = seen[0].split(SHAPE.channels, dim=-1)
    torch.testing.assert_close(mean, (told + 1.5 * (told - untold))[..., : SHAPE.channels])
    assert torch.equal(v, told[..., SHAPE.channels :])


def test_guidance_of_a_mar_head_pushes_every_channel_of_the_mean_and_leaves_v(monkeypatch):
    model = build(LEARNED[1], drop_all=0.1)
    told, untold = (draws(word).normal(5, 1, 32) for word in ("told", "untold"))
    monkeypatch.setattr(model.head, "forward", lambda x, t, z: z[..., : 2 * SHAPE.channels])
    seen = record_predictions(monkeypatch, "recombine.generators.mar.sample_ddpm")
    model.draw(told, [untold], 1.5, draws())
    mean, v = seen[0].split(SHAPE.channels, dim=-1)
    torch.testing.assert_close(mean, (told + 1.5 * (told - untold))[..., : SHAPE.channels])
    assert torch.equal(v, told[..., SHAPE.channels : 2 * SHAPE.channels])


def record_predictions(monkeypatch, name: str) -> list[torch.Tensor]:
    """What the sampler of that name is told at each step."""
    seen: list[torch.Tensor] = []

    def record(predict, *rest):
        return sample_ddpm(lambda x, t: seen.append(predict(x, t)) or seen[-1], *rest)

    monkeypatch.setattr(name, record)
    return seen


@pytest.mark.parametrize("chosen", [{"betas": "literal"}, {"variance": "learned"}])
def test_a_flow_refuses_what_only_a_chain_has(chosen):
    with pytest.raises(ValueError, match="ddpm"):
        DiTSettings(**chosen)
    assert DiTSettings(objective="ddpm", **chosen).noise_levels == 1000


def test_a_flow_head_refuses_a_variance():
    with pytest.raises(ValueError, match="variance does nothing unless head is diffusion"):
        MARSettings(head="flow", variance="learned")


# The arccos law


def test_mask_ratio_follows_the_arccos_law():
    """ratio = arccos(u) / (pi / 2): mean 2 / pi as the cosine law, P(> 0.9) = 0.156, P(< 0.2) = 0.049."""
    ratio = arccos_ratio(draws().uniform(200_000))
    assert ratio.mean().item() == pytest.approx(2 / math.pi, abs=0.005)
    below = lambda r: 1 - math.cos(math.pi / 2 * r)  # noqa: E731
    assert (ratio > 0.9).float().mean().item() == pytest.approx(1 - below(0.9), abs=0.005)
    assert (ratio < 0.2).float().mean().item() == pytest.approx(below(0.2), abs=0.003)
    assert (round(1 - below(0.9), 2), round(below(0.2), 2)) == (0.16, 0.05)


@pytest.mark.parametrize(("law", "often_full", "seldom"), [("cosine", 0.287, 0.128), ("arccos", 0.156, 0.049)])
def test_a_maskgit_hides_by_the_law_it_names(law, often_full, seldom):
    """P(ceil(20 ratio) > 18) = P(ratio > 0.9) and P(ceil(20 ratio) <= 4) = P(ratio <= 0.2)."""
    model = build(MaskGITSettings(mask_law=law), shape=TokenShape((4, 5), 4, 8))
    assert isinstance(model, MaskGIT)
    hidden = model.mask(50_000, draws()).hidden.sum(-1)
    assert (hidden > 18).float().mean().item() == pytest.approx(often_full, abs=0.01)
    assert (hidden <= 4).float().mean().item() == pytest.approx(seldom, abs=0.005)
    assert torch.equal(model.mask(9, draws()).hidden, draw_mask(draws(), 9, 20, law))


def counts(tokens: int, steps: int, law) -> list[int]:
    """How many tokens each iteration of the decoder reveals."""
    seen = []

    def draw(x, unknown):
        seen.append(int(unknown.sum()))
        return x, torch.arange(tokens).expand(1, 1, -1).float()

    unknown = torch.ones(1, 1, tokens, dtype=torch.bool)
    reveal(draw, torch.zeros(1, 1, tokens), unknown, draws(), steps, law=law)
    return [before - after for before, after in zip(seen, [*seen[1:], 0], strict=True)]


def test_the_number_revealed_follows_the_law():
    """floor(64 share) stay hidden; at least one goes and one stays, which 64 tokens in 8 steps never need."""
    assert counts(64, 8, "cosine") == [2, 3, 6, 8, 10, 11, 12, 12]
    assert counts(64, 8, "arccos") == [6, 5, 5, 6, 6, 7, 9, 20]


def test_with_few_tokens_every_step_reveals_one_whatever_the_law():
    """9 tokens in 9 steps: either law asks for none at some steps and for more at others; the clamps leave one each.
    In 5 steps no clamp is needed: cosine leaves floor(9 x 0.95, 0.81, 0.59, 0.31), arccos floor(9 x 0.87, 0.74, 0.59,
    0.41)."""
    assert counts(9, 9, "cosine") == counts(9, 9, "arccos") == [1] * 9
    assert counts(9, 5, "cosine") == [1, 1, 2, 3, 2]
    assert counts(9, 5, "arccos") == [2, 1, 1, 2, 3]


def test_the_laws_agree_at_both_ends_and_mirror_each_other_on_the_way():
    for law in ("cosine", "arccos"):
        assert (share_left(0.0, law), share_left(1.0, law)) == (pytest.approx(1), pytest.approx(0))
    for r in (0.1, 0.5, 0.9):
        assert share_left(share_left(r, "cosine"), "arccos") == pytest.approx(r)


def test_a_maskgit_decodes_by_the_law_it_names(monkeypatch):
    shown = {}
    for law in ("cosine", "arccos"):
        model = build(MaskGITSettings(mask_law=law, sampling_steps=8), shape=TokenShape((8, 8), 4, 8))
        seen = []
        plain = model.logits
        monkeypatch.setattr(
            model, "logits", lambda ids, *a, s=seen, p=plain: s.append((ids == 8).sum(-1)) or p(ids, *a)
        )
        model.sample(torch.zeros(1, 1, 3), draws())
        shown[law] = [int(hidden) for hidden in seen]
    assert shown["cosine"] == [64, 62, 59, 53, 45, 35, 24, 12]
    assert shown["arccos"] == [64, 58, 53, 48, 42, 36, 29, 20]
