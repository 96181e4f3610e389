"""What the explanations measure: peaks, parts of a fall, compositions and widths, on numbers made by hand."""

from pathlib import Path

import numpy as np
import pytest

from planted import LEVELS, OBJECTIVES
from planted_cells import FACTORS, learned, plant_cells
from recombine.claims.tables import Curve, open_study
from recombine.claims.tokenizer import width
from recombine.claims.why import rise as why_rise
from recombine.claims.why import rise_bounds as why_bounds
from recombine.claims.why.answers import by_share, by_test
from recombine.claims.why.cells import FactorWords, cells, early, inward, late, parted, peaks
from recombine.judges.statistics import Interval, paired


def test_peaks_are_those_of_the_other_seeds() -> None:
    """A seed's own spike does not move its own moment, only the others'."""
    values = np.array([[0.1, 0.1, 0.1], [0.2, 0.3, 0.2], [0.9, 0.1, 0.1]])
    assert peaks(values).tolist() == [1, 2, 2]
    assert early(values, peaks(values)).tolist() == [0.2, 0.1, 0.1]
    noise = np.random.default_rng(0).normal(0.5, 0.1, (25, 400))
    fall = early(noise, peaks(noise)) - late(noise)
    assert abs(fall.mean()) < 0.02 < 0.1 < (noise.max(axis=0) - late(noise)).mean()


def test_a_fall_is_parted_without_rest() -> None:
    random = np.random.default_rng(1)
    valid = random.uniform(0, 1, (10, 50))
    valid[:, :5] = 0
    valid[-2:, 5:8] = 0  # valid early only
    right = valid * random.uniform(0, 1, (10, 50))
    at = peaks(right)
    broken, wrong = parted(valid, right, at)
    assert broken + wrong == pytest.approx(early(right, at) - late(right))
    assert (wrong[5:8] == 0).all() and (broken[:5] == 0).all()
    steady = np.full((10, 4), 0.5)
    falling = np.linspace(0.5, 0.1, 10)[:, None].repeat(4, axis=1)
    assert parted(steady, falling, peaks(falling))[0] == pytest.approx(0)  # as many are valid: all is wrong pictures
    assert parted(falling, falling, peaks(falling))[1] == pytest.approx(0)  # all valid ones are right: all is broken


def test_exchanges_that_lead_nearer_to_training() -> None:
    shape, colour, size = (FactorWords(i, name, ()) for i, name in enumerate(FACTORS))
    assert inward("110", shape, LEVELS) == ["010"] and inward("110", colour, LEVELS) == ["100"]
    assert inward("110", size, LEVELS) == [] and inward("000", shape, LEVELS) == []
    assert inward("111", size, LEVELS) == ["110"]


def test_cells_average_to_levels(tmp_path: Path) -> None:
    """Composition by composition gives the level means that the claims read."""
    arm = open_study(plant_cells(tmp_path, OBJECTIVES, {"maskgit": learned})).arms[0]
    own = cells(arm, arm.seeds)
    assert own.mean(own.at(1), "valid") == pytest.approx(arm.curve("valid", 1).values)
    assert len(cells(arm, [0, 1], until=30_000).steps) == 10


def test_the_mean_of_jumps_is_gradual() -> None:
    """Eight jumps at different steps: no seed has a width, their mean has; alike seeds have none in excess."""
    steps = np.arange(1, 101) * 10.0
    jumps = np.where(steps[:, None] > 300 + 50 * np.arange(8), 0.9, 0.0)
    curve = Curve(steps, tuple(range(8)), jumps)
    whole = width(steps, jumps.mean(axis=1))[0]
    own = np.array([width(steps, jumps[:, i])[0] for i in range(8)])
    assert whole > 0.4 and own.max() < 0.03
    found = why_rise.excess(curve)
    assert found.mean == pytest.approx(whole - own.mean()) and found.low is not None and found.low > 0.1
    assert found == why_rise.excess(curve)  # drawn the same each time
    alike = Curve(steps, tuple(range(8)), jumps[:, :1].repeat(8, axis=1))
    none = why_rise.excess(alike)
    assert (none.mean, none.low, none.high) == pytest.approx((0, 0, 0))
    assert why_bounds.half_steps(curve).least == pytest.approx(305.0 + 50 * np.arange(8), abs=1)


def test_words_follow_from_intervals() -> None:
    assert [by_share(Interval(0.5, *ends, 8)) for ends in ((0.6, 0.9), (0.1, 0.4), (0.4, 0.6))] == [
        "supported",
        "contradicted",
        "cannot tell",
    ]
    up = paired([0.3, 0.31, 0.32, 0.3, 0.29, 0.3], [0.0] * 6)
    assert by_test(up, up.p) == "supported" and by_test(up, 0.2) == by_test(up, None) == "cannot tell"
