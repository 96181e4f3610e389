"""How often the interval of an exponent holds the truth: simulated scaling studies, the way rendering-scaling is made.

    python benchmarks/exponent_coverage.py 300 > benchmarks/tables/exponent-coverage.txt

8 seeds, 5 sizes, doubled numbers of examples. The needs are N^power with Gaussian scatter in their logarithm, of every
need for itself and of a seed for all its sizes; only their brackets are fitted (`recombine.anatomy.scaling`).
"""

import sys

import numpy as np

from recombine.anatomy.scaling import AT_MOST, BETWEEN, MORE_THAN, Exponent, Needed, fit_exponent

SIZES = (16, 20, 24, 28, 32)
TRIED = 64 * 2.0 ** np.arange(7)


def bracketed(needs: np.ndarray) -> Needed:
    """What tried numbers tell of needs (S, Z)."""
    place = np.searchsorted(TRIED, needs)
    ends = np.concatenate([[0.0], TRIED, [np.inf]])
    known = np.where(place == 0, AT_MOST, np.where(place == len(TRIED), MORE_THAN, BETWEEN))
    return Needed(np.clip(needs, TRIED[0], TRIED[-1]), known, ends[place], ends[place + 1])


def simulated(power: float, scatter: float, shared: float, random: np.random.Generator, seeds: int = 8) -> Exponent:
    """One study. Where its needs lie among the tried numbers is drawn too, such that most lie between them."""
    room = np.log(TRIED[-1] / TRIED[0]) - power * np.log(SIZES[-1] / SIZES[0])
    first = np.log(TRIED[0]) + 0.1 + random.uniform(0, min(1.4, max(room - 0.2, 0)))
    line = first + power * np.log(np.array(SIZES) / SIZES[0])
    away = scatter * random.normal(size=(seeds, len(SIZES))) + shared * random.normal(size=(seeds, 1))
    return fit_exponent(SIZES, bracketed(np.exp(line + away)), draws=1000)


if __name__ == "__main__":
    runs = int(sys.argv[1])
    print(f"{runs} studies each; share whose 95 % interval holds the power, and the interval's median width")
    for shared in (0.0, 0.15):
        for power in (1.0, 1.6, 3.0):
            for scatter in (0.1, 0.2, 0.3):
                random = np.random.default_rng(1)
                made = [simulated(power, scatter, shared, random) for _ in range(runs)]
                found = [one for one in made if np.isfinite(one.exponent)]
                held = np.mean([one.holds(power) for one in found])
                width = np.median([one.high - one.low for one in found])
                case = f"power {power:g}, scatter {scatter:g}, of a seed {shared:g}"
                print(f"{case}: {held:.2f}, {width:.2f} ({len(found)} fitted)", flush=True)
