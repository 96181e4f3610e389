"""Incomplete conditioning: what stands for a missing factor, that no withheld label leaks, and guidance by factor."""

import math
from zlib import crc32

import pytest
import torch
from torch.distributions import Normal

from recombine.conditioning import ConditionEmbedding, ConditioningSettings, Withheld
from recombine.generators import Generator, JepaSettings, base, build_generator, check_generator
from recombine.generators.base import guided
from recombine.generators.dit import DiTSettings
from recombine.generators.imputer import Imputer
from recombine.generators.masking import draw_categories
from recombine.generators.mixture import Mixture, guide
from recombine.nets.backbone import Dimensions
from recombine.nets.layers import SeedStream
from recombine.randomness import Draws, seeds_tensor
from recombine.training import Trainer, TrainingSettings
from recombine.worlds.base import Factor
from small import FACTORS, GENERATORS, SHAPE, data, generator, takes_latents

# One of each way to train and to draw; the others differ in nothing that matters here.
FAMILIES = [
    "dit-flow",
    "dit-ddpm",
    "mar",
    "regression",
    "givt-masked",
    "givt-causal",
    "maskgit",
    "autoregressive",
    "discrete-diffusion",
]
IMPUTED = ConditioningSettings(dropout=0.3, missing="imputed")
BOTH = ConditioningSettings(dropout=0.3, drop_all=0.2)


def draws(step: int = 0, seeds: tuple[int, ...] = (0,)) -> Draws:
    return Draws(seeds_tensor(seeds), "test", step)


def shake(model: torch.nn.Module) -> None:
    """Move the layers that start at 0, all members alike, so that the condition does something."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            source = torch.Generator().manual_seed(crc32(name.encode()))
            weight += 0.1 * torch.randn(weight.shape[1:], generator=source)


def told_of(name: str, kind: str = "quantized", size: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens, and a condition of that kind."""
    x, cond = data(name).batch(draws(5), size)
    if kind == "full":
        cond = torch.cat([cond[..., :1], draws(6).normal(size, 4)], dim=-1)
    return x, cond


def guiding(name: str, guided: str, seeds: tuple[int, ...] = (0,), factors: list[Factor] = FACTORS) -> Generator:
    settings = GENERATORS[name].model_copy(update={"guided": guided})
    model = build_generator(settings, SHAPE, BOTH, factors, Dimensions(2, 32, 2), list(seeds))
    shake(model)
    return model


# What stands for a missing factor


def filled(embed: ConditionEmbedding, cond: torch.Tensor, factor: int, filling: tuple[torch.Tensor, ...]):
    mask = torch.zeros(*cond.shape[:2], 3, dtype=torch.bool)
    mask[..., factor] = True
    return embed(cond, Withheld(torch.zeros_like(mask), mask, filling))


@pytest.mark.parametrize("kind", ["quantized", "full"])
def test_a_filled_factor_is_told_as_its_class_or_description_or_as_the_mean_of_classes(kind):
    embed = ConditionEmbedding(ConditioningSettings(kind=kind), FACTORS, 16, SeedStream([0, 1]))
    cond = torch.ones(2, 4, 3 if kind == "quantized" else 5)
    sure, half = torch.tensor([1.0, 0.0]).expand(2, 4, 2), torch.full((2, 4, 2), 0.5)
    other = cond.clone()
    other[..., 0] = 0
    colour, size = (half, half) if kind == "quantized" else (draws(1, (0, 1)).normal(4, n) for n in (3, 1))
    torch.testing.assert_close(filled(embed, cond, 0, (sure, colour, size)), embed(other))
    torch.testing.assert_close(filled(embed, cond, 0, (half, colour, size)), (embed(other) + embed(cond)) / 2)
    if kind == "full":
        other = cond.clone()
        other[..., 1:4] = colour
        torch.testing.assert_close(filled(embed, cond, 1, (sure, colour, size)), embed(other))


@pytest.mark.parametrize("kind", ["quantized", "full"])
def test_zero_tells_class_zero_and_drop_all_tells_nulls_all_the_same(kind, monkeypatch):
    settings = ConditioningSettings(kind=kind, dropout=0.3, drop_all=0.2, missing="zero")
    model = generator("dit-flow", [0], settings)
    x, cond = told_of("dit-flow", kind, 3)
    cond[..., 0] = 1  # not class 0 already
    each = torch.tensor([[[True, False, False], [False, True, True], [True, True, False]]])
    together = torch.tensor([[[False], [False], [True]]])
    monkeypatch.setattr(base, "draw_dropped", lambda *_: (each, together))
    dropped, extra = model.withhold(x, cond, draws())
    mislabelled = cond.clone()
    mislabelled[0, 0, 0] = 0
    mislabelled[0, 1, 1:] = 0
    nothing = torch.zeros_like(each)
    nothing[0, 2] = True
    torch.testing.assert_close(model.condition(cond, dropped), model.condition(mislabelled, nothing))
    assert extra == 0.0 and not torch.allclose(model.condition(cond, dropped), model.condition(cond, nothing))


@pytest.mark.parametrize("missing", ["unknown", "imputed", "zero"])
def test_nulls_exist_where_they_are_trained(missing):
    assert bool(generator("maskgit", [0], ConditioningSettings(dropout=0.1, missing=missing)).condition.nulls) == (
        missing == "unknown"
    )
    assert generator("maskgit", [0], ConditioningSettings(dropout=0.1, drop_all=0.1, missing=missing)).condition.nulls


# No withheld label reaches anything


@pytest.mark.parametrize("kind", ["quantized", "full"])
@pytest.mark.parametrize("missing", ["unknown", "imputed", "zero"])
@pytest.mark.parametrize("name", [*FAMILIES, "jepa"])
def test_the_value_of_a_withheld_factor_changes_no_bit_of_loss_and_gradients(name, missing, kind, monkeypatch):
    settings = ConditioningSettings(kind=kind, dropout=0.3, drop_all=0.2, missing=missing)
    family, jepa = ("maskgit", JepaSettings(layers=(0, 1))) if name == "jepa" else (name, None)
    model = build_generator(GENERATORS[family], SHAPE, settings, FACTORS, Dimensions(2, 32, 2), [0], jepa)
    shake(model)
    x, cond = told_of(family, kind)
    each = draws(1).uniform(8, 3) < 0.4
    together = torch.arange(8)[None, :, None] == 7
    monkeypatch.setattr(base, "draw_dropped", lambda *_: (each, together))
    withheld = each | together
    assert withheld[0, :7].any(0).all() and not withheld.all()
    widths = (1, 1, 1) if kind == "quantized" else (1, 3, 1)
    columns = withheld.repeat_interleave(torch.tensor(widths), dim=-1)

    def outcome(cond: torch.Tensor) -> list[torch.Tensor]:
        model.zero_grad()
        loss = model.loss(x, cond, draws())
        loss.sum().backward()
        return [loss, *(torch.zeros(1) if w.grad is None else w.grad.clone() for w in model.parameters())]

    plain = outcome(cond)
    assert all(torch.isfinite(one).all() for one in plain)
    assert all(map(torch.equal, plain, outcome(torch.where(columns, 1 - cond, cond))))
    assert not torch.equal(plain[0], outcome(torch.where(columns, cond, 1 - cond))[0])


@pytest.mark.parametrize("kind", ["quantized", "full"])
def test_the_head_learns_from_known_factors_alone_and_the_generator_does_not_teach_it(kind, monkeypatch):
    settings = ConditioningSettings(kind=kind, dropout=0.3, missing="imputed")
    model = generator("maskgit", [0, 1], settings)
    shake(model)
    x, cond = (one.expand(2, *one.shape[1:]) for one in told_of("maskgit", kind))
    inner = list(model.imputer.parameters())
    outer = [w for n, w in model.named_parameters() if not n.startswith("imputer.")]
    dropped, extra = model.withhold(x, cond, draws(0, (0, 1)))
    assert extra.shape == (2,) and all(g is None for g in torch.autograd.grad(extra.sum(), outer, allow_unused=True))
    out = model.condition(cond, dropped)
    assert all(g is None for g in torch.autograd.grad(out.sum(), inner, allow_unused=True))
    # The mean over known factors, not over all: with one factor of one image known it is that error alone.
    guesses, known = model.imputer(x), torch.zeros(2, 8, 3, dtype=torch.bool)
    known[:, 3, 1] = True
    if kind == "quantized":
        expected = -torch.log_softmax(guesses[1][:, 3], -1).gather(-1, cond[:, 3, 1:2].long())[..., 0]
    else:
        expected = (guesses[1][:, 3] - cond[:, 3, 1:4]).square().mean(-1)
    torch.testing.assert_close(model.imputer.loss(guesses, cond, known), expected)
    assert model.imputer.loss(guesses, cond, torch.zeros_like(known)).tolist() == [0, 0]


def test_the_loss_is_the_generators_on_guesses_plus_the_heads():
    """With the very same guesses handed in, the two parts add up."""
    model = generator("dit-flow", [0], IMPUTED)
    shake(model)
    x, cond = told_of("dit-flow")
    total = model.loss(x, cond, draws())
    replay = draws()
    noise, t = replay.normal(8, *x.shape[2:]), replay.uniform(8)
    dropped, extra = model.withhold(x, cond, replay)
    noisy = t[..., None, None] * x + (1 - t[..., None, None]) * noise
    own = (model.predict(noisy, t, cond, dropped) - (x - noise)).square().mean(dim=(1, 2, 3))
    torch.testing.assert_close(total, own + extra)
    assert extra > 0.1


# The head


@pytest.mark.parametrize("name", ["dit-flow", "maskgit"])
def test_all_other_weights_start_as_without_the_head(name):
    plain, imputed = generator(name, [3], ConditioningSettings()), generator(name, [3], IMPUTED)
    state = imputed.state_dict()
    assert all(torch.equal(state[key], weight) for key, weight in plain.state_dict().items())
    assert len(state) > len(plain.state_dict())


@pytest.mark.parametrize("name", FAMILIES)
def test_sampling_does_not_use_the_head(name):
    model = generator(name, [0], IMPUTED)
    shake(model)
    cond = torch.zeros(1, 3, 3)
    plain = model.sample(cond, draws())
    with torch.no_grad():
        for weight in model.imputer.parameters():
            weight.fill_(math.nan)
    assert torch.equal(model.sample(cond, draws()), plain)


@pytest.mark.parametrize("name", ["dit-flow", "maskgit"])
def test_the_head_learns_to_name_the_factors_it_was_not_told(name):
    """A third of the labels is never shown. The image says what they are, and the head finds it out from the rest."""
    seen = data(name, 256)
    model = generator(name, [0, 1], IMPUTED)
    training = TrainingSettings(size="xs", batch=32, steps=150, warmup=10, rate=3e-3)
    Trainer(model, seen, training).run(150)
    guesses = model.imputer.filling(model.imputer(seen.x.expand(2, *seen.x.shape)))
    right = torch.stack([guess.argmax(-1) for guess in guesses], dim=-1) == seen.cond
    assert right.float().mean(dim=(1, 2)).min() > 0.95


def test_the_head_learns_descriptions():
    """Latents that hold a colour in noise: the guess explains nearly all of it, on images it never saw."""
    head = Imputer(SHAPE.tokens, SHAPE.channels, None, "full", FACTORS, [0])
    colour, shape = draws(1).normal(512, 3), draws(2).integers(2, 512, 1).float()
    pattern = draws(3).normal(5, SHAPE.tokens, SHAPE.channels)[0]
    cond = torch.cat([shape, colour, colour[..., :1]], dim=-1)
    x = torch.einsum("mbw,wtc->mbtc", cond, pattern) + 0.1 * draws(4).normal(512, SHAPE.tokens, SHAPE.channels)
    known = torch.ones(1, 256, 3, dtype=torch.bool)
    optimizer = torch.optim.Adam(head.parameters(), 3e-3)
    for _ in range(150):
        optimizer.zero_grad()
        head.loss(head(x[:, :256]), cond[:, :256], known).sum().backward()
        optimizer.step()
    shapes, colours, _ = head.filling(head(x[:, 256:]))
    assert (colours - colour[:, 256:]).square().mean() < 0.05
    assert (shapes.argmax(-1) == shape[:, 256:, 0]).float().mean() > 0.97
    torch.testing.assert_close(shapes.sum(-1), torch.ones(1, 256))


@pytest.mark.parametrize("name", ["dit-flow", "maskgit"])
def test_a_member_with_a_head_equals_the_solo_run_of_its_seed(name):
    training = TrainingSettings(size="xs", batch=16, steps=30, warmup=5, rate=3e-3)
    together, alone = (Trainer(generator(name, seeds, IMPUTED), data(name), training) for seeds in ([3, 11, 5], [11]))
    for run in (together, alone):
        run.run(30)
    torch.testing.assert_close(torch.tensor(together.take_mean_loss(30)[1]), torch.tensor(alone.take_mean_loss(30)[0]))
    for key, weight in alone.state().items():
        if "imputer" in key:
            torch.testing.assert_close(together.state()[key][1:2], weight, rtol=1e-3, atol=2e-5, msg=key)


@pytest.mark.parametrize("kind", ["quantized", "full"])
@pytest.mark.parametrize("name", ["dit-flow", "maskgit"])
def test_activations_keep_their_dtype_with_guesses(name, kind):
    model = generator(name, [0], ConditioningSettings(kind=kind, dropout=0.5, missing="imputed"))
    model.dtype = torch.bfloat16
    given = []
    model.backbone.blocks[-1].qkv.register_forward_hook(lambda _module, inputs, _out: given.append(inputs[0].dtype))
    assert model.loss(*told_of(name, kind), draws()).dtype == torch.float32
    assert given == [torch.bfloat16]


# Guidance by factor


def test_guidance_by_factor_sharpens_what_the_image_says_of_each_factor():
    """A joint table p(x, factors), in which factors go together. What an untold factor leaves is the marginal, so the
    guided distribution must be p(x | f) times p(f_i | x, the others)^w for each i; and with all factors withheld at
    once p(x | f) p(f | x)^w."""
    joint = torch.softmax(2 * draws().normal(8 * 5)[0].double(), 0).view(2, 2, 2, 5)
    cond = torch.tensor([[list(map(int, f"{n:03b}")) for n in range(8)]])  # (1, 8, 3), every composition
    model = generator("maskgit", [0], BOTH)

    def predict(dropped: torch.Tensor | None) -> torch.Tensor:
        logits = []
        for b, told in enumerate(cond[0].tolist()):
            table = joint
            for f in range(3):
                unknown = dropped is not None and bool(dropped[0, b, f])
                table = table.sum(f, keepdim=True) if unknown else table.narrow(f, told[f], 1)
            table = table.flatten()
            logits.append(torch.log(table / table.sum()))
        return torch.stack(logits)[None]

    w = 1.7
    each = guided(predict, w, model.untold(cond, w, "each")).softmax(-1)[0]
    usual = guided(predict, w, model.untold(cond, w, "together")).softmax(-1)[0]
    for b, (i, j, k) in enumerate(cond[0].tolist()):
        cell = joint[i, j, k]
        by_factor = cell / joint[:, j, k].sum(0) * cell / joint[i, :, k].sum(0) * cell / joint[i, j].sum(0)
        expected = cell * by_factor**w
        torch.testing.assert_close(each[b], expected / expected.sum())
        expected = cell * (cell / joint.sum(dim=(0, 1, 2))) ** w
        torch.testing.assert_close(usual[b], expected / expected.sum())
    assert not torch.allclose(each, usual, atol=0.01)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_asks_with_each_factor_withheld_alone(name, monkeypatch):
    model = guiding(name, "each")
    masks = set()
    embed = ConditionEmbedding.forward

    def seen(self, cond, dropped=None):
        masks.add(None if dropped is None else tuple(map(tuple, dropped.flatten(0, 1).unique(dim=0).tolist())))
        return embed(self, cond, dropped)

    monkeypatch.setattr(ConditionEmbedding, "forward", seen)
    cond = torch.zeros(1, 2, 3)
    model.sample(cond, draws(), 0.0)
    assert masks == {None}
    model.sample(cond, draws(), 1.0)
    assert masks == {None, *(((f == 0, f == 1, f == 2),) for f in range(3))}


@pytest.mark.parametrize("name", FAMILIES)
def test_with_one_factor_each_and_together_are_the_same(name):
    factors = [Factor("shape", ("circle", "triangle"), 0)]
    cond = torch.tensor([[[0.0], [1.0]]])
    each, together = (guiding(name, how, factors=factors).sample(cond, draws(), 1.5) for how in ("each", "together"))
    assert torch.equal(each, together)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_factor_pushes_only_if_withholding_it_changes_the_prediction(name):
    """Nulls that look like the class told: nothing is pushed. One that does not: the draws change."""
    model = guiding(name, "each")
    cond = torch.ones(1, 6, 3)
    plain = model.sample(cond, draws(), 0.0)
    with torch.no_grad():
        for factor in FACTORS:
            model.condition.nulls[factor.name].copy_(model.condition.tables[factor.name].weight[:, 1])
    same = model.sample(cond, draws(), 1.5)
    if takes_latents(name):
        torch.testing.assert_close(same, plain, rtol=1e-3, atol=1e-3)
    else:
        assert torch.equal(same, plain)
    with torch.no_grad():
        model.condition.nulls["size"].add_(3.0)
    assert not torch.allclose(model.sample(cond, draws(), 1.5).float(), plain.float(), atol=1e-2)


@pytest.mark.parametrize("name", FAMILIES)
def test_guided_by_factor_a_member_draws_as_alone(name):
    many, one = (
        guiding(name, "each", seeds).sample(torch.ones(len(seeds), 6, 3), draws(2, seeds), 0.7)
        for seeds in ((3, 11), (11,))
    )
    close = torch.isclose(many[1:], one, rtol=1e-2, atol=1e-3) if takes_latents(name) else many[1:] == one
    assert close.float().mean() > 0.9  # a rounding difference may tip a draw of a category or a component


def test_cached_draws_equal_the_whole_model_run_anew_for_every_token():
    """Each pass has a memory of its own: a shared one would mix what was told with what was not."""
    model, cond, w = guiding("autoregressive", "each"), torch.ones(1, 8, 3), 1.5
    ids = model.sample(cond, draws(3), w)
    masks, source, tokens = model.untold(cond, w, "each"), draws(3), SHAPE.tokens
    logits = guided(lambda dropped: model.logits(ids, cond, dropped), w, masks)
    again = [draw_categories(torch.log_softmax(one, dim=-1), source) for one in logits.split(1, dim=2)]
    assert torch.equal(torch.cat(again, dim=2), ids)

    givt = guiding("givt-causal", "each")
    source, x = draws(3), torch.zeros(1, 8, tokens, SHAPE.channels)
    for place in range(tokens):
        told, *untold = (
            Mixture(*(t[:, :, place : place + 1] for t in (m.log_weight, m.mean, m.log_scale)))
            for m in (givt.predict(x, None, cond, mask) for mask in (None, *masks))
        )
        x[:, :, place : place + 1] = told.draw(source, 1.0, untold, 0.3)[0]
    torch.testing.assert_close(givt.sample(cond, draws(3), 0.3), x, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("w", [0.1, 0.4, 1.0])
def test_closed_form_guidance_against_several_equals_the_density_on_a_grid(w):
    told = Normal(torch.tensor([0.5, -1.0]), torch.tensor([0.5, 1.0]))
    others = [
        Normal(torch.tensor(mean), torch.tensor(scale))
        for mean, scale in [([0.1, 0.3], [1.2, 1.3]), ([0.4, -2.0], [0.6, 1.1]), ([-1.0, 0.0], [0.9, 2.0])]
    ]
    grid = torch.linspace(-60, 60, 400_001, dtype=torch.float64)[:, None]
    log_density = (1 + 3 * w) * told.log_prob(grid) - w * sum(other.log_prob(grid) for other in others)
    weight = torch.softmax(log_density, dim=0)
    mean = (weight * grid).sum(0)
    deviation = (weight * (grid - mean) ** 2).sum(0).sqrt()
    got = guide(told.loc, told.scale.log(), [(other.loc, other.scale.log()) for other in others], w)
    torch.testing.assert_close(got[0], mean.float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(got[1].exp(), deviation.float(), rtol=1e-4, atol=1e-4)
    assert not got[2].any()


def test_guidance_against_several_is_refused_where_their_sum_leaves_no_density():
    """With w = 1 and two others of variance 1 the precision is 3 / s_c^2 - 2: positive while s_c^2 < 1.5."""
    log_scale = 0.5 * torch.tensor([1.0, 1.4, 1.5, 1.6]).log()
    mean, zero = torch.full((4,), 0.7), torch.zeros(4)
    out, out_log_scale, refused = guide(mean, log_scale, [(zero, zero), (zero, zero)], 1.0)
    assert refused.tolist() == [False, False, True, True]
    assert torch.equal(out[2:], mean[2:]) and torch.equal(out_log_scale[2:], log_scale[2:])
    assert out[0] == pytest.approx(2.1) and out_log_scale[0] == pytest.approx(0.0, abs=1e-6)


# Bad input


@pytest.mark.parametrize(
    ("guidance", "how", "told", "words"),
    [
        (1.0, "together", {"dropout": 0.1}, "drop_all"),
        (1.0, "each", {"drop_all": 0.1}, "dropout"),
        (1.0, "each", {"dropout": 0.1, "missing": "imputed"}, "missing imputed .* use missing unknown"),
        (1.0, "each", {"dropout": 0.1, "missing": "zero"}, "missing zero .* use missing unknown"),
        (0.0, "together", {"missing": "imputed"}, "missing imputed .* dropout is 0"),
        (0.0, "together", {"missing": "zero", "drop_all": 0.1}, "missing zero .* dropout is 0"),
    ],
)
def test_what_cannot_work_or_does_nothing_is_refused_by_name(guidance, how, told, words):
    with pytest.raises(ValueError, match=words):
        check_generator(DiTSettings(guidance=guidance, guided=how), None, ConditioningSettings(**told))


def test_what_works_is_not_refused():
    for how, told in [("together", {"drop_all": 0.1}), ("each", {"dropout": 0.1})]:
        check_generator(DiTSettings(guidance=1.0, guided=how), None, ConditioningSettings(**told))
    mixed = ConditioningSettings(dropout=0.1, drop_all=0.1, missing="imputed")
    check_generator(DiTSettings(guidance=1.0), None, mixed)
