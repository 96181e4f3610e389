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
