"""Why pictures do not count: what the probe names right, what is refused by measuring, and at which evaluations."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from recombine.claims.tables import NAMED, Arm, Measure
from recombine.report.words import percents

REASONS = (NAMED, "in_range", "clean")


def refused(arms: Mapping[str, Arm], measure: Measure, seeds: list[int]) -> str:
    """What keeps level-2 pictures from counting, over the same seeds and evaluations as the claim's own numbers; empty
    where a table does not say it of every row: an older one, or one that was begun by older code."""
    rows = (row for arm in arms.values() for row in arm.study.finished.rows if row["arm"] == arm.name)
    if any(row.get(reason) is None for row in rows for reason in REASONS):
        return ""
    texts = []
    for label, arm in arms.items():
        texts.append(f"{label} {percents([_then(arm, reason, measure, seeds).mean() for reason in REASONS])}")
    checks = "named right / in the world's ranges / free of defects"
    return f"Share of pictures that passes each check ({checks}): {', '.join(texts)}."


def _then(arm: Arm, column: str, measure: Measure, seeds: list[int]) -> np.ndarray:
    """A column at the evaluations that the measure's own column is taken at, a number for each of `seeds`, (S,)."""
    if measure.when != "peak":
        return arm.values(replace(measure, column=column), seeds)
    own, other = arm.curve(measure.column), arm.curve(column)
    kept = len(own.steps) if measure.until is None else max(1, int((own.steps <= measure.until).sum()))
    peaks = own.values[:kept].argmax(axis=0)
    return np.array([other.values[peaks[i], i] for i in map(own.seeds.index, seeds)])
