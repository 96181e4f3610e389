"""F1 to F4, F7 and F8 as functions: how decoders fail in the hole, and what is inside them then."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recombine.anatomy.kernels import FAMILIES
from recombine.anatomy.measures import PICTURE
from recombine.claims.planes.parts import (
    BUMPS,
    CNN,
    ENTANGLES,
    EXPLAINS,
    SHRINKS,
    STANDARD,
    SUPERPOSED,
    Answer,
    agreed_seeds,
    as_interval,
    deep_text,
    fails_part,
    hits,
    is_clear,
    is_fitted,
    number_text,
    plain,
    plain_arm,
    unfitted_text,
)
from recombine.claims.planes.table import PlaneTable, setting
from recombine.claims.testing import possible
from recombine.claims.verdicts import Part, Untested
from recombine.judges.statistics import holm, interval, paired
from recombine.report.words import join, number, percent

FACTORIZED, OTHERS = ("factorized", "binary_factorized"), ("conjunction", "product", "radial")
TRANSFORMER = (
    "The transformer is not the published one: ours is the backbone of our generators, told x and y again in every "
    "block (adaLN); the published one is told them at its input alone. What ours does is no evidence on that one."
)
TRUE_PICTURE = "true picture"  # the layer of true pictures by differences between cells
PUBLISHED_VOLUME, PUBLISHED_TRUE_VOLUME = -0.93 - -0.06, 0.00 - -0.03
"""log10 of the published output's volume outside minus inside, and the same of true pictures; between cells."""


def f1_failure(table: PlaneTable) -> Answer:
    """F1: standard decoders fit inside and fail outside. Every fitted standard decoder must fail; ours is the CNN's
    share of bumps in place inside minus outside (published 1.00 - 0.29)."""
    base = plain_arm(table)
    arms = {"CNN": base}
    for label, kind in STANDARD.items():
        found = table.nearest({**BUMPS, "decoder.kind": kind}, base, ("decoder",))
        if label != "CNN" and found is not None:
            arms[label] = found
    seeds = agreed_seeds(table, list(arms.values()))
    parts, notes = [], []
    for label, arm in arms.items():
        part = fails_part(label, table, arm, seeds)
        if part.state == "open" and label != "CNN":
            notes.append(part.sentence)
        else:
            parts.append(part)
    if "transformer" in arms:
        notes.append(TRANSFORMER)
    deep = deep_text(table, {label: arm for label, arm in arms.items() if is_fitted(table, arm, seeds)}, seeds)
    notes += [deep] if deep else []
    inside, outside = (table.values(base, "hit", region, seeds) for region in ("trained", "held_out"))
    return Answer(tuple(parts), possible(as_interval(paired(inside, outside))), arms, tuple(notes))


def f2_superposition(table: PlaneTable, region: str = "deep") -> Answer:
    """F2: outside, outputs are superpositions of memorised ones. Ours is the cosine with the memory minus that with the
    truth, deep inside the hole (published 0.844 - 0.048, one seed)."""
    base = plain_arm(table)
    seeds = agreed_seeds(table, [base])
    return _superposed(table, base, "the CNN", region, seeds)


def _superposed(table: PlaneTable, arm: str, label: str, region: str, seeds: Sequence[int]) -> Answer:
    """More like the memory than like the truth and than like other cells' memories; and mostly memory by share."""
    if not is_fitted(table, arm, seeds):
        raise Untested(unfitted_text(label, table, arm, seeds).removesuffix("."))
    values = {
        word: table.values(arm, f"superposition_{word}", region, seeds)
        for word in ("memory", "truth", "control", "share", "explained")
    }
    tests = {word: paired(values["memory"], values[word]) for word in ("truth", "control")}
    p = dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))
    means = {word: interval(numbers) for word, numbers in values.items()}
    sentence = (
        f"Outputs of {label} have cosine {number_text(means['memory'])} with the memory, "
        f"{number_text(means['truth'])} with the true picture and {number_text(means['control'])} with other cells' "
        "memories"
    )
    wins = [word for word in tests if is_clear(tests[word], p[word])]
    state: Any = "held" if len(wins) == 2 else "in part" if wins == ["control"] else "failed"
    share = means["share"]
    low = share.low if share.low is not None else share.mean
    said = (
        f"The memory's share is {number_text(share)}, and both together explain {means['explained'].mean:.2f} of an "
        "output"
    )
    parts = (
        Part("more memory than truth", state, f"{sentence}."),
        Part("mostly memory", "held" if low > SUPERPOSED.value else "failed", f"{said}."),
    )
    return Answer(parts, as_interval(tests["truth"]), {label: arm})


def f3_kernels(table: PlaneTable) -> Answer:
    """F3: learned kernels are factorized and binary. Ours is the R^2 of the best factorized family minus that of the
    best other, mean over hidden layers. (The published word "factorized" is a product kernel, which is a conjunction
    here; see `anatomy.kernels`.)"""
    base = plain_arm(table)
    seeds = agreed_seeds(table, [base])
    if not is_fitted(table, base, seeds):
        raise Untested(unfitted_text("the CNN", table, base, seeds).removesuffix("."))
    layers = table.layers(base)
    if not layers:
        raise Untested(f"no kernel was measured of {base} in {table.name}")

    def r2(family: str, layer: str, region: str = "trained") -> np.ndarray:
        return table.values(base, f"kernel_r2_{family}", region, seeds, layer)

    def apart_over(region: str) -> np.ndarray:
        """(S,) the best factorized minus the best other, mean over layers."""

        def best(families: Sequence[str], layer: str) -> np.ndarray:
            return np.max([r2(family, layer, region) for family in families], axis=0)

        return np.mean([best(FACTORIZED, layer) - best(OTHERS, layer) for layer in layers], axis=0)

    def told(region: str) -> bool:
        return all(table.by_seed(base, f"kernel_r2_{f}", region, layer) for f in FAMILIES for layer in layers)

    apart = apart_over("trained")
    binary = np.mean([r2("binary_factorized", layer) - r2("factorized", layer) for layer in layers], axis=0)
    nothing = np.zeros(len(seeds))
    tests = {"factorized": paired(apart, nothing), "binary": paired(binary, nothing)}
    p = dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))
    winners = {layer: max(FAMILIES, key=lambda family: r2(family, layer).mean()) for layer in layers}
    each = join([f"{layer} {winners[layer].replace('_', ' ')}" for layer in layers])
    texts = {
        "factorized": "R² of the best factorized kernel minus that of the best other",
        "binary": "R² of the binary minus that of the smooth factorized kernel",
    }
    parts = []
    for name, test in tests.items():
        held = is_clear(test, p[name]) and test.mean >= EXPLAINS.value
        words = f"{texts[name]}, mean over hidden layers: {number_text(as_interval(test))}."
        parts.append(Part(f"kernels are {name}", "held" if held else "failed", words))
    over = {family: plain(float(np.mean([r2(family, layer) for layer in layers]))) for family in FAMILIES}
    notes = [
        f"Described best: {each}.",
        "The published word factorized is a product kernel, `product` here, which counts among the others: its R², "
        f"mean over hidden layers, is {over['product']}, that of radial {over['radial']}, that of our factorized "
        f"{over['factorized']}.",
    ]
    if told("across"):
        notes.append(
            "The verdict is on pairs of trained cells alone. Over pairs across, of a trained and a held-out cell, the "
            "same fits give for the best factorized minus the best other, mean over hidden layers, "
            f"{number_text(as_interval(paired(apart_over('across'), nothing)))}."
        )
    if told("held_out"):
        notes.append(_in_the_hole({layer: {f: r2(f, layer, "held_out").mean() for f in FAMILIES} for layer in layers}))
    found = {
        family: float(table.values(base, f"regression_{family}", "held_out", seeds).mean())
        for family in FAMILIES
        if table.by_seed(base, f"regression_{family}", "held_out")
    }
    if found:
        first = min(found, key=lambda family: found[family])
        notes.append(
            f"Held-out pictures are predicted best by the {first.replace('_', ' ')} kernel, with {found[first]:.2f} of "
            "the error of the mean picture."
        )
    return Answer(tuple(parts), as_interval(tests["factorized"]), {"CNN": base}, tuple(notes))


def _in_the_hole(r2: Mapping[str, Mapping[str, float]]) -> str:
    """What describes the pairs of two held-out cells, {layer: {family: R^2}}."""

    def best(layer: str) -> str:
        family = max(r2[layer], key=lambda family: r2[layer][family])
        if not r2[layer][family] > 0:
            return f"{layer} by none"
        return f"{layer} by the {family.replace('_', ' ')} kernel ({r2[layer][family]:.2f})"

    each = join([best(layer) for layer in r2])
    return f"By the same fits, pairs of held-out cells, which they have not seen, are described best in {each}."


def f4_collapse(table: PlaneTable) -> Answer:
    """F4: later layers entangle x and y again, and volume shrinks outside. Ours is log10 of the output's volume outside
    minus inside, freed of what true pictures have (published -0.87 minus 0.03, by differences between cells)."""
    base = plain_arm(table)
    seeds = agreed_seeds(table, [base])
    if not is_fitted(table, base, seeds):
        raise Untested(unfitted_text("the CNN", table, base, seeds).removesuffix("."))

    def outside_less_inside(layer: str) -> np.ndarray:
        both = [table.values(base, "log_volume", region, seeds, layer) for region in ("held_out", "trained")]
        return both[0] - both[1]

    has_truth = bool(table.by_seed(base, "log_volume", "held_out", "truth"))
    true = outside_less_inside("truth") if has_truth else np.zeros(len(seeds))
    drawn = outside_less_inside("output")
    shrunk = drawn - true
    layers = table.layers(base)
    if not layers:
        raise Untested(f"no hidden layer was measured of {base} in {table.name}")
    first, last = layers[0], "output"
    overlap = {
        layer: table.values(base, "overlap", "held_out", seeds, layer) for layer in ("input", first, layers[-1], last)
    }
    nothing = np.zeros(len(seeds))
    tests = {"volume": paired(-shrunk, nothing), "overlap": paired(overlap[last], overlap["input"])}
    p = dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))
    volume = interval(shrunk)
    shrinks = is_clear(tests["volume"], p["volume"])
    state: Any = "failed" if not shrinks else "held" if volume.mean <= SHRINKS.value else "in part"
    tangled = is_clear(tests["overlap"], p["overlap"]) and tests["overlap"].mean >= ENTANGLES.value
    path = ", ".join(f"{layer} {plain(values.mean())}" for layer, values in overlap.items())
    sentence = f"log10 of the output's volume outside minus inside: {number_text(volume)}"
    if has_truth:
        own = f"after taking off what true pictures have ({plain(true.mean())})"
        sentence += f", {own}; without taking it off, {number_text(interval(drawn))}"
    parts = (
        Part("volume shrinks", state, f"{sentence}."),
        Part(
            "entangled again",
            "held" if tangled else "failed",
            f"Mean |cosine| of the tangents of x and y in the hole: {path}.",
        ),
    )
    notes = []
    if all(table.by_seed(base, "log_volume", "held_out", layer) for layer in (PICTURE, TRUE_PICTURE)):
        cells = outside_less_inside(PICTURE)
        freed = cells - outside_less_inside(TRUE_PICTURE)
        notes.append(
            "By differences between cells, as the published numbers (of one seed) were measured: "
            f"{number_text(interval(cells))}, published {plain(PUBLISHED_VOLUME)}; after taking off what true pictures "
            f"have, {number_text(interval(freed))}, published {plain(PUBLISHED_VOLUME - PUBLISHED_TRUE_VOLUME)}."
        )
    return Answer(parts, volume, {"CNN": base}, tuple(notes))


def f7_codes(table: PlaneTable) -> Answer:
    """F7: other input codes do not repair it. Every code of the same CNN that is fitted must fail. Ours is the largest
    share of held-out bumps in place over the codes."""
    base = plain_arm(table, bump_code=True)
    arms = {"bump code": base}
    for name in table.matching(CNN):
        if name == base or table.differences(name, base, ("encoding",)):
            continue
        kind, width = (setting(table.arms[name], f"encoding.{word}") for word in ("kind", "width"))
        label = f"bump code {float(width or 1):g} times as wide" if kind == "population" else f"{kind} code"
        arms.setdefault(label, name)
    if len(arms) == 1:
        raise Untested(f"the study {table.name} has the CNN on one code only")
    seeds = agreed_seeds(table, list(arms.values()))
    every = [fails_part(label, table, arm, seeds) for label, arm in arms.items()]
    parts = [part for part in every if part.state != "open"] or every[:1]
    notes = [part.sentence for part in every if part.state == "open" and part not in parts]
    fitted = {label: arm for label, arm in arms.items() if is_fitted(table, arm, seeds)} or {"bump code": base}
    best = max(fitted, key=lambda label: hits(table, fitted[label], seeds).mean)
    return Answer(tuple(parts), hits(table, fitted[best], seeds), arms, tuple(notes))


def f8_rotation(table: PlaneTable, folder: Path | None = None) -> Answer:
    """F8: in a gap of angles the digit cross-fades. The memory is the cross-fade of the decoder's own outputs at both
    edges (`superposition.edge_weights`). Ours is its cosine minus that with the true picture. Squared errors are told
    beside where the study's `folder` is given; the verdict does not ask them."""
    found = table.matching({"world.kind": "digits"})
    if not found:
        raise Untested(f"the study {table.name} has no rotated digit")
    arm = found[0]
    seeds = agreed_seeds(table, [arm])
    answer = _superposed(table, arm, "the decoder", "held_out", seeds)
    cosines = {word: table.values(arm, f"superposition_{word}", "held_out", seeds) for word in ("memory", "truth")}
    apart = float((cosines["memory"] - cosines["truth"]).mean())
    notes = [f"No least difference of the two cosines is asked, only that it is clear; here it is {plain(apart, 3)}."]
    errors = gap_errors(folder, arm, seeds) if folder is not None else None
    if errors is not None:
        notes.append(fade_text(*errors))
    undefined = table.by_seed(arm, "superposition_undefined", "held_out")
    if set(seeds) <= set(undefined):
        share = percent(float(np.mean([undefined[seed] for seed in seeds])))
        notes.append(
            f"The memory's share is not defined for {share} of the held-out angles (memory and truth are too alike "
            "there, or neither is in the output), which are left out of it."
        )
    return Answer(answer.parts, answer.ours, answer.arms, tuple(notes))


def gap_errors(folder: Path, arm: str, seeds: Sequence[int]) -> tuple[float, float, float] | None:
    """Mean squared errors in the gap, at the end of training: of outputs against the truth, of outputs against the
    cross-fade of the true pictures at both edges, and of that cross-fade against the truth. None where the study's
    results.parquet has them not."""
    words = ("mse", "fade_mse", "fade_blank")
    try:
        found = pq.read_table(folder / "results.parquet", columns=["arm", "seed", "step", "level", *words])
    except (OSError, pa.ArrowException):
        return None
    if not set(words) <= set(found.column_names):
        return None
    rows = [row for row in found.to_pylist() if row["arm"] == arm and row["seed"] in seeds and row["level"] > 0]
    last = max((row["step"] for row in rows), default=None)
    values = np.array([[row[word] for word in words] for row in rows if row["step"] == last], dtype=float)
    if not len(values) or not np.isfinite(values).all():
        return None
    truth, fade, between = values.mean(axis=0).tolist()
    return truth, fade, between


def fade_text(truth: float, fade: float, between: float) -> str:
    """Where outputs lie by squared error: `truth` from the true picture, `fade` from the cross-fade, which itself is
    `between` from the true picture."""
    inside = "between the two, " if max(truth, fade) < between else ""
    nearer = "cross-fade" if fade < truth else "true picture" if truth < fade else ""
    where = f"nearer to the {nearer}" if nearer else "as near to one as to the other"
    return (
        f"By squared error an output is {number(fade)} from the cross-fade of the true pictures at both edges and "
        f"{number(truth)} from the true picture; the cross-fade itself is {number(between)} from it. So outputs lie "
        f"{inside}{where}."
    )
