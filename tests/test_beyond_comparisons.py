"""What is said of a comparison: its word, the pairing by seed, the correction and the floor."""

import numpy as np
import pytest

from recombine.claims.beyond.entries import Contrast, together
from recombine.claims.beyond.numbers import compare, listing
from recombine.claims.verdicts import Untested
from recombine.judges.statistics import Difference, holm, paired


@pytest.mark.parametrize(
    ("mean", "low", "high", "p", "word"),
    [
        (0.30, 0.2, 0.4, 0.001, "higher"),
        (-0.30, -0.4, -0.2, 0.001, "lower"),
        (0.30, -0.1, 0.7, 0.2, "not clear"),
        (0.01, -0.02, 0.04, 0.4, "alike"),
        (0.04, 0.03, 0.049, 0.001, "alike"),  # clear, and shown to be too small to matter
        (0.04, 0.01, 0.07, 0.001, "not clear"),  # clear, but whether it matters is not
    ],
)
def test_the_word_of_a_comparison(mean: float, low: float, high: float, p: float, word: str) -> None:
    assert Contrast("a", {}, Difference(mean, low, high, p, None, 8), p).word == word


def test_comparisons_are_paired_by_seed_and_corrected_together() -> None:
    rng = np.random.default_rng(0)
    shift = {seed: float(rng.normal()) for seed in range(10)}  # of both arms of a pair: pairing takes it away
    a = {seed: shift[seed] + 0.2 + 0.01 * seed for seed in range(8)}
    b = {seed: shift[seed] for seed in reversed(range(8))}
    c = {seed: shift[seed] + 0.1 * (-1) ** seed for seed in range(2, 10)}  # shares six seeds with b
    found = compare({"a": (a, b), "c": (c, b)}, "here")
    raw = [
        paired(list(a.values()), [b[s] for s in a]).p,
        paired([c[s] for s in range(2, 8)], [b[s] for s in range(2, 8)]).p,
    ]
    assert [one.p for one in found] == holm(raw) and found[1].test.n == 6
    assert found[0].test.mean == pytest.approx(0.235) and found[0].word == "higher"
    assert together(found).n == 6 and together(found[:1]).mean == pytest.approx(0.235)
    assert listing(found).startswith(
        "higher for a, +24 points ("
    ) and "; no clear difference for c, 0 points" in listing(found)
    with pytest.raises(Untested, match="share 5 seeds"):
        compare({"a": ({s: a[s] for s in range(5)}, b)}, "here")
    with pytest.raises(Untested, match="no two arms"):
        compare({}, "here")


def test_only_a_given_floor_counts() -> None:
    """Numbers that are no shares may lie below 0, so that no floor is no floor of 0."""
    low = {seed: -0.2 for seed in range(8)}
    assert [one.word for one in compare({"a": (low, low)}, "here")] == ["alike"]
    assert [one.word for one in compare({"a": (low, low)}, "here", floor=0.5)] == ["neither composes"]
    half = {seed: 0.6 * (seed % 2) + 0.2 for seed in range(8)}  # the mean is 0.5: not below
    assert [one.word for one in compare({"a": (half, half)}, "here", floor=0.5)] == ["alike"]
    one = Contrast("a", {}, Difference(-0.3, -0.4, -0.2, 0.001, None, 8), 0.001, both_low=True)
    assert one.word == "lower"
