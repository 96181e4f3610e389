"""Levels are Hamming distances, every kind of split trains what it says, and impossible ones are refused by name."""

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
    code,
    make_split,
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
