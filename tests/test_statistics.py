"""Statistics against scipy, closed forms, hand-worked cases and simulated coverage."""

import math
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from recombine.errors import UserError
from recombine.judges.statistics import compare_arms, equivalent, holm, interval, member_means, paired, summarize


def test_interval_of_two_members_in_closed_form():
    # n = 2: standard error |a - b| / 2 and t quantile tan(0.475 pi) = 12.706, the Cauchy law's.
    found = interval([0.4, 0.6])
    reach = 0.1 * math.tan(0.475 * math.pi)
    assert found.mean == pytest.approx(0.5)
    assert (found.low, found.high) == (pytest.approx(0.5 - reach), pytest.approx(0.5 + reach))
    assert found.n == 2


def test_interval_and_paired_agree_with_scipy():
    generator = np.random.default_rng(0)
    for n in (2, 3, 5, 30):
        a, b = generator.normal(size=n), generator.normal(0.3, 2.0, size=n)
        low, high = stats.t.interval(0.95, n - 1, loc=a.mean(), scale=stats.sem(a))
        assert (interval(a).low, interval(a).high) == (pytest.approx(low), pytest.approx(high))
        theirs = stats.ttest_rel(a, b)
        ours = paired(a, b)
        assert ours.p == pytest.approx(theirs.pvalue)
        assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval(0.95)))
        assert ours.mean == pytest.approx((a - b).mean())


def test_sign_flips_agree_with_scipys_exact_permutation_test():
    differences = np.random.default_rng(1).normal(0.5, 1.0, size=7)
    theirs = stats.permutation_test(
        (differences, np.zeros(7)), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf
    )
    assert paired(differences, np.zeros(7)).p_signflip == pytest.approx(theirs.pvalue)


def test_three_members_can_never_go_under_a_quarter_by_sign_flips():
    found = paired([0.9, 0.91, 0.92], [0.1, 0.12, 0.11])
    assert found.p_signflip == 0.25
    assert found.p is not None and found.p < 0.001


def test_interval_covers_95_percent():
    generator = np.random.default_rng(2)
    hits = 0
    for values in generator.normal(0.7, 0.1, size=(4000, 4)):
        found = interval(values)
        assert found.low is not None and found.high is not None
        hits += found.low <= 0.7 <= found.high
    assert 0.94 <= hits / 4000 <= 0.96  # standard error 0.0034; a normal interval would cover 0.85


def test_paired_p_is_uniform_where_nothing_differs_and_pairing_removes_the_seed():
    generator = np.random.default_rng(3)
    seed_effect = generator.normal(0, 5.0, size=(2000, 5))
    a, b = (seed_effect + generator.normal(0, 0.1, size=(2000, 5)) for _ in range(2))
    p = np.array([paired(x, y).p for x, y in zip(a, b, strict=True)])
    assert 0.035 <= (p < 0.05).mean() <= 0.065
    assert 0.45 <= (p < 0.5).mean() <= 0.55
    shifted = [paired(x + 0.5, y).p for x, y in zip(a[:200], b[:200], strict=True)]
    assert np.mean(np.array(shifted) < 0.05) > 0.95  # unpaired, the seeds' spread of 5 would hide a shift of 0.5


def test_one_member_has_no_interval_and_no_p_value():
    assert (interval([0.3]).mean, interval([0.3]).low, interval([0.3]).high) == (0.3, None, None)
    assert "one member" in str(interval([0.3]))
    difference = paired([0.5], [0.2])
    assert (difference.low, difference.p, difference.p_signflip, difference.n) == (None, None, None, 1)
    assert not equivalent([0.5], [0.5], 0.1).equivalent


def test_no_spread_is_handled_exactly():
    assert paired([0.1, 0.2, 0.3], [0.1, 0.2, 0.3]).p == 1.0
    shifted = paired([0.3, 0.4, 0.5], [0.1, 0.2, 0.3])  # 0.2 three times, up to the last bit
    assert shifted.p == 0.25  # not 0: three seeds that tie by chance are no proof
    assert shifted.p_signflip == 0.25
    assert (shifted.low, shifted.high) == (shifted.mean, shifted.mean)


def test_shares_are_clipped_and_other_numbers_are_not():
    values = [1.0, 1.0, 0.9]
    assert interval(values, share=True).high == 1.0
    unclipped = interval(values).high
    assert unclipped is not None and unclipped > 1.0


def test_holm_by_hand():
    # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1 = 0.02, 0.03, 0.06, 0.04; the last is raised to 0.06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.7, 0.8]) == [1.0, 1.0]
    assert holm([None, 0.02]) == [None, 0.02]  # a comparison that could not be made counts for nothing
    assert holm([]) == []


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_keeps_order_and_lies_between_the_raw_p_and_bonferroni(p_values):
    adjusted = holm(p_values)
    for p, q in zip(p_values, adjusted, strict=True):
        assert p <= q <= min(1.0, p * len(p_values)) + 1e-15
    for i in np.argsort(p_values)[:-1]:
        assert all(adjusted[i] <= adjusted[j] for j in range(len(p_values)) if p_values[j] >= p_values[i])


def test_holm_keeps_the_family_wise_error_rate():
    generator = np.random.default_rng(4)
    wrong = [min(holm(list(p))) < 0.05 for p in generator.uniform(size=(4000, 10))]
    assert 0.04 <= np.mean(wrong) <= 0.06  # without correction 0.40


def test_equivalence_is_two_one_sided_tests_and_agrees_with_its_interval():
    generator = np.random.default_rng(5)
    for shift in (0.0, 0.05, 0.15):
        a = generator.normal(0.5, 0.03, size=8)
        b = a + shift + generator.normal(0, 0.02, size=8)
        found = equivalent(a, b, margin=0.1)
        lower = stats.ttest_1samp(a - b, -0.1, alternative="greater").pvalue
        upper = stats.ttest_1samp(a - b, 0.1, alternative="less").pvalue
        assert found.p == pytest.approx(max(lower, upper))
        assert found.low is not None and found.high is not None
        assert found.equivalent == (found.low > -0.1 and found.high < 0.1)
    assert not equivalent([0.1, 0.9, 0.5], [0.9, 0.1, 0.5], margin=0.1).equivalent  # not different is not equal
    assert equivalent([0.1, 0.2], [0.1, 0.2], margin=0.01).equivalent
    with pytest.raises(UserError, match="margin"):
        equivalent([0.1, 0.2], [0.1, 0.2], margin=0.0)


def _rows(arms, seeds, steps=(100, 200)):
    """Level 1 has 011 and 101, level 2 has 111; joint = arm's value + seed / 100 + an offset, half that at step 100."""
    return [
        {"arm": arm, "seed": seed, "member": i, "step": step, "composition": c, "level": 1 if c != "111" else 2}
        | {"joint": (value + seed / 100 + offset) * (1.0 if step == steps[-1] else 0.5), "valid": 1.0}
        for arm, value in arms.items()
        for i, seed in enumerate(seeds)
        for step in steps
        for c, offset in (("011", -0.1), ("101", 0.1), ("111", -0.3))
    ]


def test_members_average_over_compositions_before_anything_else():
    table = pa.Table.from_pylist(_rows({"dit": 0.8}, seeds=[3, 4, 5]))
    means = member_means(table)
    assert means["dit", 1, 200] == pytest.approx({3: 0.83, 4: 0.84, 5: 0.85})
    (level_1, level_2) = summarize(table)
    assert (level_1.level, level_1.step, level_1.interval.n) == (1, 200, 3)  # three members, not six compositions
    expected = interval([0.83, 0.84, 0.85])
    assert (level_1.interval.low, level_1.interval.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert level_2.interval.mean == pytest.approx(0.54)
    curve = [(s.level, s.step) for s in summarize(table, every_step=True)]
    assert curve == [(1, 100), (1, 200), (2, 100), (2, 200)]
    assert summarize(table, column="valid")[0].interval.mean == 1.0


def test_arms_are_paired_by_seed_whatever_the_order_of_rows():
    rows = _rows({"maskgit": 0.3, "dit": 0.8, "mar": 0.8}, seeds=[0, 1, 2])
    for row in rows:  # noise that differs between arms, so that the spread is not zero
        row["joint"] += 0.01 * ((row["seed"] * 7 + len(row["arm"]) * 3) % 5)
    expected = compare_arms(rows, level=1)
    tail = rows[3:]
    random.Random(0).shuffle(tail)
    shuffled = compare_arms(rows[:3] + tail, level=1)
    by_pair = {frozenset((c.arm_a, c.arm_b)): c for c in shuffled}
    assert len(expected) == len(shuffled) == 3
    for comparison in expected:
        other = by_pair[frozenset((comparison.arm_a, comparison.arm_b))]
        assert abs(other.difference.mean) == pytest.approx(abs(comparison.difference.mean))
        assert other.p_corrected == pytest.approx(comparison.p_corrected)
    means = member_means(rows)
    by_hand = [
        paired(list(means[a, 1, 200].values()), list(means[b, 1, 200].values())).p
        for a, b in (("maskgit", "dit"), ("maskgit", "mar"), ("dit", "mar"))
    ]
    assert [c.p_corrected for c in expected] == pytest.approx(holm(by_hand))
    assert expected[0].difference.mean < -0.4


def test_only_common_seeds_are_paired_and_none_is_an_error():
    rows = _rows({"a": 0.2}, [0, 1, 2]) + _rows({"b": 0.5}, [1, 2, 3])
    assert compare_arms(rows, level=1)[0].difference.n == 2
    with pytest.raises(UserError, match="no seed in common"):
        compare_arms(_rows({"a": 0.2}, [0, 1]) + _rows({"b": 0.5}, [2, 3]), level=1)


def test_bad_tables_get_one_sentence():
    rows = _rows({"a": 0.2}, [0, 1])
    with pytest.raises(UserError, match="no compositions of level 7"):
        compare_arms(rows, level=7)
    with pytest.raises(UserError, match="empty"):
        summarize([])
    with pytest.raises(UserError, match="no column 'jiont'"):
        summarize(rows, column="jiont")
    with pytest.raises(UserError, match="twice"):
        summarize(rows + rows[:1])
    with pytest.raises(UserError, match="different compositions"):
        summarize(rows[1:])
    with pytest.raises(UserError, match="finite"):
        interval([0.1, math.nan])
    with pytest.raises(UserError, match="paired by seed"):
        paired([0.1, 0.2], [0.1])
