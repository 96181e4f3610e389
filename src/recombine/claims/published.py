"""The published learning curves, as numbers: level means in per cent, read from the figures on the authors' page.

One run each but quantized + dropout (mean of 3 seeds; whether on Shapes2D is unresolved); `dit_vae` is qualitative
only, and `maskgit_jepa` is five points read from a bitmap by eye. Source: the vector figures at
https://lmb-freiburg.github.io/gen-comp-gen.github.io (arXiv 2510.03075).
"""

import csv
from functools import cache
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("published.csv")
BY_EYE = ("maskgit_jepa",)


@cache
def published_curves() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{curve: (steps (E,), level-2 shares (E,))}."""
    points: dict[str, list[tuple[float, float]]] = {}
    with open(FILE, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            points.setdefault(row["curve"], []).append((float(row["step"]), float(row["level-2"]) / 100))
    return {name: (np.array(found)[:, 0], np.array(found)[:, 1]) for name, found in points.items()}


def at_step(curve: str, step: int) -> float | None:
    """What a published curve has at a step, on straight lines between its points; None before the first of them and
    after the last, where nothing is known."""
    steps, values = published_curves()[curve]
    return float(np.interp(step, steps, values)) if steps[0] <= step <= steps[-1] else None


def highest_by(curve: str, step: int) -> float:
    """The most that a published curve has at any point up to a step; 0 before its first."""
    steps, values = published_curves()[curve]
    now = at_step(curve, step)
    return float(np.concatenate([[0.0 if now is None else now], values[steps <= step]]).max())
