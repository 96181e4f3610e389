"""MaskGIT: no leak, the named mask law, every position uncovered once, known tokens fixed, an oracle gives back the
data."""

import math

import pytest
import torch
from torch.nn import functional as F

from recombine.generators import maskgit
from recombine.generators.masking import cosine_ratio, draw_categories, draw_mask, reveal
from small import SHAPE, data, draws, generator, shake

MASK = 8


def nudged(name: str = "maskgit"):
    return shake(generator(name, [0]))


def test_a_hidden_token_never_reaches_the_logits(monkeypatch):
    """What the network sees while the loss is taken must not change with the true value of a masked token."""
    model = nudged()
    x, cond = data("maskgit").batch(draws(), 16)
    hidden = draw_mask(draws(), 16, SHAPE.tokens)
    other = torch.where(hidden, (x + 3) % SHAPE.codes, x)
    monkeypatch.setattr(maskgit, "draw_mask", lambda *_: hidden)
    seen = []
    plain = model.backbone.forward
    monkeypatch.setattr(model.backbone, "forward", lambda *a: seen.append(plain(*a)) or seen[-1])
    model.loss(x, cond, draws())
    model.loss(other, cond, draws())
    assert torch.equal(seen[0], seen[1])
    visible = torch.where(hidden, x, (x + 3) % SHAPE.codes)
    model.loss(visible, cond, draws())
    assert not torch.allclose(seen[0], seen[2])  # and the tokens that are shown do matter


def test_loss_counts_masked_tokens_only_each_image_alike(monkeypatch):
    model = nudged()
    x, cond = data("maskgit").batch(draws(), 8)
    hidden = draw_mask(draws(5), 8, SHAPE.tokens)
    monkeypatch.setattr(maskgit, "draw_mask", lambda *_: hidden)
    monkeypatch.setattr(type(model), "withhold", lambda *_: (None, 0.0))
    logits = model.logits(x.masked_fill(hidden, MASK), cond)
    entropy = F.cross_entropy(logits.flatten(0, 2), x.flatten(), reduction="none").view(x.shape)
    expected = torch.stack([entropy[0, i][hidden[0, i]].mean() for i in range(8)]).mean()
    torch.testing.assert_close(model.loss(x, cond, draws())[0], expected)


def test_mask_ratio_follows_the_cosine_law():
    """ratio = cos(pi u / 2): mean 2 / pi, P(> 0.9) = 0.287, P(< 0.2) = 0.128 (the arccos law has 0.16 and 0.05)."""
    ratio = cosine_ratio(draws().uniform(200_000))
    assert ratio.mean().item() == pytest.approx(2 / math.pi, abs=0.005)
    assert (ratio > 0.9).float().mean().item() == pytest.approx(1 - 2 / math.pi * math.asin(0.9), abs=0.006)
    assert (ratio < 0.2).float().mean().item() == pytest.approx(2 / math.pi * math.asin(0.2), abs=0.006)
    hidden = draw_mask(draws(), 50_000, 16).sum(-1).flatten()
    assert hidden.min() == 1 and hidden.max() == 16
    for count in (1, 4, 8, 12, 16):  # P(ceil(16 ratio) <= count) = P(ratio <= count / 16)
        expected = 2 / math.pi * math.asin(count / 16)
        assert (hidden <= count).float().mean().item() == pytest.approx(expected, abs=0.01)


def test_every_position_is_hidden_equally_often():
    share = draw_mask(draws(), 50_000, 16).float().mean(dim=(0, 1))
    assert (share - share.mean()).abs().max() < 0.01


def decode(logits, ids, mask_id, source, steps, choice_temperature):
    """The decoder of MaskGIT over any function from tokens to logits."""

    def draw(now, unknown):
        log_probability = torch.log_softmax(logits(now.masked_fill(unknown, mask_id)), dim=-1)
        drawn = draw_categories(log_probability, source)
        return drawn, log_probability.gather(-1, drawn[..., None])[..., 0]

    return reveal(draw, ids, ids == mask_id, source, steps, choice_temperature)


def truth_logits(truth, sharp: float = 60.0):
    return lambda ids: sharp * F.one_hot(truth, MASK).float()


@pytest.mark.parametrize("steps", [1, 2, 5, 9, 30])
def test_an_oracle_makes_the_decoder_return_the_data(steps):
    truth = draws().integers(MASK, 6, 16)
    out = decode(truth_logits(truth), torch.full_like(truth, MASK), MASK, draws(1), steps, 4.5)
    assert torch.equal(out, truth)


@pytest.mark.parametrize("steps", [1, 4, 12])
def test_known_tokens_never_change_and_every_position_is_uncovered_once(steps):
    start = draws().integers(MASK, 32, 16)
    known = draws(1).uniform(32, 16) < 0.4
    ids = torch.where(known, start, MASK)
    seen = []

    def noisy_logits(now):
        seen.append(now)
        return draws(len(seen)).normal(32, 16, MASK)

    out = decode(noisy_logits, ids, MASK, draws(2), steps, 4.5)
    assert torch.equal(out[known], start[known])
    assert (out < MASK).all()
    for before, after in zip(seen, [*seen[1:], out], strict=True):
        fixed = before != MASK
        assert torch.equal(after[fixed], before[fixed])  # once uncovered, a token keeps its value
        more = (after != MASK).sum(-1) - fixed.sum(-1)
        assert ((more >= 1) | fixed.all(-1)).all()  # and each step uncovers at least one


def test_the_number_revealed_follows_the_cosine_schedule():
    """64 tokens in 8 steps: 2, 3, 6, 8, 10, 11, 12, 12."""
    seen = []

    def flat(now):
        seen.append((now == MASK).sum().item())
        return torch.zeros(1, 1, 64, MASK)

    decode(flat, torch.full((1, 1, 64), MASK), MASK, draws(), 8, 4.5)
    revealed = [a - b for a, b in zip(seen, [*seen[1:], 0], strict=True)]
    assert revealed == [2, 3, 6, 8, 10, 11, 12, 12]


def test_least_confident_tokens_are_hidden_again():
    truth = draws().integers(MASK, 200, 16)
    sure = torch.arange(16) < 8  # the model knows the first half and guesses the rest
    kept = []

    def half_sure(now):
        kept.append(now != MASK)
        return torch.where(sure[:, None], truth_logits(truth)(now), 0.0)

    decode(half_sure, torch.full_like(truth, MASK), MASK, draws(), 8, choice_temperature=0.0)
    first = next(k for k in kept if k.any())
    assert not first[..., ~sure].any()


def test_categories_are_drawn_with_their_probabilities():
    probability = torch.tensor([0.5, 0.25, 0.125, 0.125, 0.0])
    drawn = draw_categories(probability.log().expand(1, 40_000, 1, 5), draws())
    share = torch.bincount(drawn.flatten(), minlength=5) / 40_000
    assert (share - probability).abs().max() < 0.01 and share[4] == 0
