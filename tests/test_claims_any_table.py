"""Whatever a table says, the ledger is made and the page is written: shares that stay, rise, fall or differ by seed at
random, in studies of the library with arms, seeds and columns missing."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from planted import LEVELS, library
from planted_cells import FACTORS, Draw, Shares, plant_cells, ramp
from recombine.claims.beyond.questions import look_beyond
from recombine.claims.ledger import make_ledger, open_studies
from recombine.claims.page import page_text
from recombine.claims.why.explanations import explain
from recombine.studies.results import read_results, write_results

NAMES = ("objectives", "discrete", "tokenizers-seen", "conditioning", "mislabelled", "withheld", "jepa-layers")
NAMES += ("spread", "early", "remedies", "dependent")


def any_curve(rng: np.random.Generator) -> Callable[[float, int], float]:
    """A curve over time by seed: none, all, constant, a rise, a rise and a fall, or hardly anything."""
    kind, spread = rng.integers(6), rng.choice([0, 0.02, 0.3])
    begin, end = sorted(rng.uniform(0, 1, 2))
    low, high = rng.uniform(0, 1, 2)

    def curve(time: float, seed: int) -> float:
        rise = ramp(time, begin, end + 0.01)
        height = (0, 1, high, low + (high - low) * rise, ramp(time, 0, begin + 0.01) * (1 - low * rise), 0.05 * high)
        own = np.random.default_rng([seed, int(1e6 * begin)]).normal()
        now = np.random.default_rng([seed, int(1e6 * begin), int(100 * time)]).normal()
        return float(np.clip(height[kind] + spread * (own + now) * (kind > 1), 0, 1))

    return curve


def any_arm(rng: np.random.Generator) -> Draw:
    """An arm with curves of any kind; nine in ten learn what they are trained on."""
    learns = rng.random() < 0.9
    given = [name for name in ("joint", "named") if rng.random() < 0.5]
    curves = {code: {name: any_curve(rng) for name in ("valid", *given, *FACTORS)} for code in LEVELS}

    def draw(code: str, time: float, seed: int) -> Shares:
        if learns and LEVELS[code] == 0:
            return {"valid": ramp(time, 0, 0.2)}
        return {name: curve(time, seed) for name, curve in curves[code].items()}

    return draw


@pytest.mark.parametrize("trial", range(6))
def test_the_page_of_any_tables(tmp_path: Path, trial: int) -> None:
    rng = np.random.default_rng(trial)
    folders = []
    for name in rng.choice(NAMES, size=3, replace=False):
        study = library(str(name))
        arms = {arm: any_arm(rng) for arm in study.arms if rng.random() < 0.9}
        seeds = study.seeds[:8] if rng.random() < 0.8 else study.seeds[: int(rng.integers(1, 6))]
        folder = plant_cells(tmp_path / name, study, arms, seeds=seeds, evaluations=int(rng.choice([3, 10])))
        if rng.random() < 0.7:
            rows = [
                row | {"in_range": rng.uniform(), "clean": rng.uniform()} for row in read_results(folder).to_pylist()
            ]
            write_results(folder, rows)
        folders.append(folder)
    studies = open_studies(folders)
    verdicts, answers, entries = make_ledger(studies), explain(studies), look_beyond(studies)
    assert json.dumps([one.to_json() for one in (*verdicts, *answers, *entries)], allow_nan=False)
    text = page_text(verdicts, studies, tmp_path, answers, entries)
    assert " nan" not in text and "None" not in text and text.count("## ") > 2
