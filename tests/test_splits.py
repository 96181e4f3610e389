"""Levels are Hamming distances, every kind of split trains what it says, and impossible ones are refused by name."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recombine.errors import UserError
from recombine.splits import (
    BoxSplit,
    DiagonalSplit,
    HammingSplit,
    ListedSplit,
    RandomSplit,
    Split,
    agreement,
    check_weights,
    code,
    composition_weights,
    fewer,
    images_each,
    make_split,
    multi_information,
    pairs_seen,
    parse_code,
)

CUBE = [("shape", 2), ("colour", 2), ("size", 2)]


def test_the_papers_split_is_the_default():
    split = make_split(HammingSplit(), CUBE)
    assert [code(c) for c in split.train] == ["000", "001", "010", "100"]
    assert [code(c) for c in split.at_level(1)] == ["011", "101", "110"]
    assert [code(c) for c in split.at_level(2)] == ["111"]


def test_the_shapes3d_split_of_the_paper():
    split = make_split(BoxSplit(common=(2, 6, 6), rare=1), [("shape", 3), ("hue", 10), ("scale", 8)])
    assert [len(split.at_level(k)) for k in range(3)] == [180, 52, 8]


@given(
    counts=st.lists(st.integers(2, 4), min_size=2, max_size=4),
    seed=st.integers(0, 100),
    extra=st.integers(0, 4),
    k=st.integers(1, 2),
)
@settings(max_examples=40, deadline=None)
def test_levels_equal_brute_force_and_coverage_holds(counts, seed, extra, k):
    factors = [(f"f{i}", n) for i, n in enumerate(counts)]
    try:
        split = make_split(RandomSplit(n=max(counts) * k + extra, k=k, seed=seed), factors)
    except UserError:
        return
    for composition in split.compositions:
        distances = [sum(a != b for a, b in zip(composition, trained, strict=True)) for trained in split.train]
        assert split.level(composition) == min(distances)
    for factor, count in enumerate(counts):
        for value in range(count):
            assert sum(c[factor] == value for c in split.train) >= k
    assert len(split.train) == max(counts) * k + extra


def test_diagonal_and_listed():
    diagonal = make_split(DiagonalSplit(), [("a", 3), ("b", 3)])
    assert [code(c) for c in diagonal.train] == ["00", "11", "22"]
    listed = make_split(ListedSplit(train=("000", "111")), CUBE)
    assert listed.deepest == 1 and len(listed.at_level(1)) == 6


def test_codes_go_both_ways_past_ten_values():
    assert code((0, 10, 35)) == "0az" and parse_code("0az") == (0, 10, 35)


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        (ListedSplit(train=()), "trains nothing"),
        (ListedSplit(train=("000", "010", "001")), "never trains shape = 1"),
        (ListedSplit(train=("000", "0112")), "'0112' is no composition"),
        (ListedSplit(train=("00?",)), "not a composition"),
        (HammingSplit(distance=3), "nothing is held out"),
        (HammingSplit(distance=2, needs_level=2), "no level-2 composition"),
        (BoxSplit(common=(1, 1)), "has 2 numbers but the world has 3"),
        (BoxSplit(common=(3, 1, 1)), "does not fit a factor with 2 values"),
        (RandomSplit(n=1), "use n >= "),
        (RandomSplit(n=9), "only 8 compositions"),
        (RandomSplit(n=8, k=5), "lower k"),
    ],
)
def test_impossible_splits_are_refused_with_the_reason(settings_, words):
    with pytest.raises(UserError, match=words):
        make_split(settings_, CUBE)


# --- dependence of the factors in training ----------------------------------------------------------------------------


def all_of(*counts: int) -> Split:
    """Every composition trained: no split that a study could have, but its weights are known."""
    return Split(counts, tuple(itertools.product(*map(range, counts))))


def shares(split: Split, weights: np.ndarray) -> list[np.ndarray]:
    """The share of every value of each factor."""
    train = np.array(split.train)
    return [np.bincount(train[:, f], weights, count) for f, count in enumerate(split.counts)]


@pytest.mark.parametrize("dependence", [0.0, 0.5, 1.0, 3.0])
def test_two_factors_of_two_values_correlate_as_the_closed_form_says(dependence):
    weights = dict(zip(all_of(2, 2).train, composition_weights(all_of(2, 2), dependence), strict=True))
    correlation = weights[0, 0] + weights[1, 1] - weights[0, 1] - weights[1, 0]
    assert correlation == pytest.approx(math.tanh(dependence / 2))
    agree = (1 + correlation) / 2
    bits = 1 + sum(p * math.log2(p) for p in (agree, 1 - agree))
    assert multi_information(all_of(2, 2), np.array(list(weights.values()))) == pytest.approx(bits, abs=1e-12)


SPLITS = {
    "box": make_split(BoxSplit(common=(2, 2, 2), rare=1), [("a", 3), ("b", 3), ("c", 3)]),
    "uneven": make_split(BoxSplit(common=(2, 1, 3), rare=2), [("a", 3), ("b", 2), ("c", 5)]),
    "random": make_split(RandomSplit(n=14, k=3, seed=4), [("a", 3), ("b", 3), ("c", 3)]),
    "all": all_of(4, 3),
}


@pytest.mark.parametrize("name", SPLITS)
def test_shares_of_values_stay_while_the_dependence_grows(name):
    split, strengths = SPLITS[name], (0.0, 0.3, 1.0, 2.0, 4.0)
    found = [composition_weights(split, strength) for strength in strengths]
    assert found[0] == pytest.approx(np.full(len(split.train), 1 / len(split.train)))  # 0: as without the word
    for weights in found:
        assert weights.min() > 0 and weights.sum() == pytest.approx(1)
        for share, equal in zip(shares(split, weights), shares(split, found[0]), strict=True):
            assert share == pytest.approx(equal, abs=1e-9)
    bits = [multi_information(split, weights) for weights in found]
    means = [
        sum(w * agreement(c, split.counts) for w, c in zip(weights, split.train, strict=True)) for weights in found
    ]
    for grown in (bits, means):
        assert all(b > a + 1e-3 for a, b in itertools.pairwise(grown)), grown


@given(name=st.sampled_from(sorted(SPLITS)), dependence=st.floats(0, 5), each=st.integers(1, 500))
def test_images_follow_the_weights_and_their_sum_is_kept(name, dependence, each):
    split = SPLITS[name]
    counts = images_each(split, each, dependence)
    assert sum(counts) == each * len(split.train)
    exact = composition_weights(split, dependence) * each * len(split.train)
    assert np.abs(np.array(counts) - exact).max() <= 1 + 1e-6
    assert images_each(split, each) == [each] * len(split.train)


def test_dependence_that_cannot_be_had_is_refused_by_name():
    star = make_split(HammingSplit(), CUBE)
    check_weights(star, 100, 0.0)
    with pytest.raises(UserError, match="only equal weights give every factor value its share"):
        check_weights(star, 100, 1.0)
    check_weights(SPLITS["box"], 100, 2.0)
    with pytest.raises(UserError, match="leaves a trained composition without a single image"):
        check_weights(SPLITS["box"], 10, 6.0)


# --- fewer compositions -----------------------------------------------------------------------------------------------


def test_fewer_compositions_are_nested_and_show_every_value():
    split = make_split(RandomSplit(n=20, k=3), [("a", 3), ("b", 3), ("c", 3)])
    assert fewer(split, None) is split and fewer(split, 20).train == split.train
    found = [fewer(split, n) for n in range(3, 21)]
    for smaller, larger in itertools.pairwise(found):
        assert set(smaller.train) < set(larger.train) <= set(split.train)
        assert all(smaller.levels[c] >= larger.levels[c] for c in split.compositions)  # more training is never farther
    for one in found:
        assert all({c[f] for c in one.train} == {0, 1, 2} for f in range(3))


@pytest.mark.parametrize(("n", "said"), [(2, "needs 3 to show every factor value"), (21, "trains only 20")])
def test_too_few_or_too_many_compositions_are_refused(n, said):
    split = make_split(RandomSplit(n=20, k=3), [("a", 3), ("b", 3), ("c", 3)])
    with pytest.raises(UserError, match=said):
        fewer(split, n)


def test_listed_compositions_are_what_is_trained_in_the_split_or_not():
    """Levels are counted from them, and nothing else of the split is kept."""
    split = make_split(HammingSplit(), CUBE)
    found = fewer(split, ("110", "000", "011", "101", "000"))
    assert [code(c) for c in found.train] == ["000", "011", "101", "110"]
    assert [code(c) for c in found.at_level(1)] == ["001", "010", "100", "111"]


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        (("000", "001"), "lacks a value of some factor"),
        (("000", "112", "111"), "training.compositions: '112' is no composition of this world"),
        (("00", "11"), "training.compositions: '00' is no composition of this world"),
        (tuple(code(c) for c in itertools.product(range(2), repeat=3)), "nothing is held out"),
        ((), "lacks a value of some factor"),
    ],
)
def test_compositions_that_cannot_be_trained_on_are_refused(codes, said):
    with pytest.raises(UserError, match=said):
        fewer(make_split(HammingSplit(), CUBE), codes)


def test_pairs_seen_together():
    """In the papers' split level-1 has two of three pairs and level-2 none; what is trained has all."""
    split = make_split(HammingSplit(), CUBE)
    assert {code(c): pairs_seen(c, split.train) for c in split.compositions} == {
        "000": 3, "001": 3, "010": 3, "100": 3, "011": 2, "101": 2, "110": 2, "111": 0,
    }  # fmt: skip
    assert pairs_seen((0, 1, 2), [(0, 1, 0), (0, 0, 2)]) == 2  # each pair from another combination
    assert pairs_seen((0, 1, 2), [(1, 0, 2)]) == 0  # one value alone is no pair
    assert pairs_seen((0, 1, 2, 3), [(0, 1, 2, 0)]) == 3
