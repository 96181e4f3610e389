"""F1 to F9 as functions: each from the tidy table of a rendering study (`table`) to the parts of a verdict.

The seed is the unit: means have 95 % intervals over seeds, comparisons are paired by seed, p-values of one claim are
Holm-corrected together. An arm that does not fit what it was trained on says nothing about the hole. What the
published study gives no threshold for has one of ours, with its reason.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recombine.anatomy.scaling import Exponent, exponent_difference, fit_exponent, needed_table
from recombine.claims.planes.table import PlaneTable, setting
from recombine.claims.tables import Measure, StudyTable
from recombine.claims.testing import CLEAR, FEWEST_SEEDS, MATTERS, whole_limit
from recombine.claims.verdicts import Finding, Judge, Part, Threshold, Untested
from recombine.judges.statistics import Difference, Interval, holm, interval, paired
from recombine.report.words import join, p_value, percent

FITTED = Threshold(
    "fitted",
    0.10,
    "squared error over that of a blank, on trained cells, of an arm that counts as fitted; the published CNN has "
    "0.015, the published MLP setting 0.8",
)
AS_BLANK = Threshold(
    "as blank", 0.50, "the same on held-out cells, of an arm that fails there; the published CNN has 0.85"
)
MISSES = Threshold("misses", 0.50, "an arm fails that has fewer held-out bumps in place; the published CNN has 29 %")
REPAIRED = Threshold("repaired", 0.90, "share of held-out bumps in place that counts as cured; published cures: 100 %")
SUPERPOSED = Threshold(
    "superposed", 0.50, "share of the memory in an output deep in the hole: more memory than truth; ours"
)
EXPLAINS = Threshold(
    "explains", 0.05, "by so much more R² must one family of kernels describe a layer than any other; ours"
)
SHRINKS = Threshold("shrinks", -0.30, "log10 of the volume outside less inside: half the volume; published -0.87")
ENTANGLES = Threshold(
    "entangles", 0.05, "rise of the mean absolute cosine of the two tangents from the code to the output; ours"
)
REACH = Threshold(
    "reach", 0.60, "share of held-out bumps in place for which examples are counted; the predecessor's 60 % accuracy"
)
SAME_POWER = Threshold(
    "same power",
    0.25,
    "an exponent is called cubic or linear when its interval comes so near 3 or 1: reading examples off a few training "
    "sets has an error that seeds share, which the interval does not show; ours",
)
SHARED = (CLEAR, FEWEST_SEEDS, FITTED)
CUBIC, LINEAR = 3.0, 1.0


@dataclass(frozen=True)
class Answer:
    """What a claim's function found: its parts, our number, the arms by what they stand for, and notes beside."""

    parts: tuple[Part, ...]
    ours: Interval
    arms: Mapping[str, str]
    notes: tuple[str, ...] = ()


def _nothing(value: Any) -> bool:
    return not value


BUMPS = {"world.kind": "bumps", "data.stripes": _nothing}
CNN = {**BUMPS, "decoder.kind": "cnn"}
STANDARD = {"CNN": "cnn", "MLP": "mlp", "transformer": "transformer"}
FACTORIZED, OTHERS = ("factorized", "binary_factorized"), ("conjunction", "product", "radial")


def _plain(table: PlaneTable, bump_code: bool = False) -> str:
    """The CNN without stripes: on the narrowest bump code, or where there is none and none is asked for, the first."""
    coded = table.matching({**CNN, "encoding.kind": "population"})
    found = coded or ([] if bump_code else table.matching(CNN))
    if not found:
        raise Untested(f"the study {table.name} has no CNN{' on a bump code' if bump_code else ''} without stripes")
    return min(found, key=lambda name: float(setting(table.arms[name], "encoding.width") or 1))


def _agreed(table: PlaneTable, arms: Sequence[str]) -> list[int]:
    seeds = sorted(set.intersection(*(table.seeds(arm) for arm in arms)))
    if len(seeds) < FEWEST_SEEDS.value:
        raise Untested(
            f"the arms of the study {table.name} share {len(seeds)} seeds, and fewer than "
            f"{FEWEST_SEEDS.value:.0f} are not judged"
        )
    return seeds


def _share(found: Interval) -> str:
    return percent(found.mean) if found.low is None else f"{percent(found.mean)} ({_ends(found, 100)})"


def _number(found: Interval) -> str:
    return f"{found.mean:.2f}" if found.low is None else f"{found.mean:.2f} ({_ends(found, 1)})"


def _ends(found: Interval, scale: float) -> str:
    digits = 0 if scale == 100 else 2
    return f"{scale * (found.low or 0):.{digits}f} to {scale * (found.high or 0):.{digits}f}"


def _hit(table: PlaneTable, arm: str, seeds: Sequence[int], region: str = "held_out") -> Interval:
    return interval(table.values(arm, "hit", region, seeds), share=True)


def _relative(table: PlaneTable, arm: str, seeds: Sequence[int], region: str = "held_out") -> float:
    return float(table.values(arm, "relative", region, seeds).mean())


def _fitted(table: PlaneTable, arm: str, seeds: Sequence[int]) -> bool:
    return _relative(table, arm, seeds, "trained") <= FITTED.value


def _unfitted(label: str, table: PlaneTable, arm: str, seeds: Sequence[int]) -> str:
    error = _relative(table, arm, seeds, "trained")
    return f"{label} has not fitted what it was trained on ({error:.2f} of a blank's error), so it tells nothing."


def _clear(test: Difference, p: float | None) -> bool:
    """Whether a is clearly greater than b."""
    return test.mean > 0 and p is not None and p < CLEAR.value


def _as_interval(test: Difference) -> Interval:
    return Interval(test.mean, test.low, test.high, test.n)


def _fails(label: str, table: PlaneTable, arm: str, seeds: Sequence[int]) -> Part:
    """Does an arm fit inside and fail outside?"""
    name = f"{label} fails outside"
    if not _fitted(table, arm, seeds):
        return Part(name, "open", _unfitted(label, table, arm, seeds))
    hit, error = _hit(table, arm, seeds), _relative(table, arm, seeds)
    sentence = (
        f"{label} puts {_share(hit)} of held-out bumps in place, with {error:.2f} of a blank's error (inside: "
        f"{percent(_hit(table, arm, seeds, 'trained').mean)}, {_relative(table, arm, seeds, 'trained'):.3f})"
    )
    misses = (hit.high if hit.high is not None else hit.mean) < MISSES.value
    blank = error >= AS_BLANK.value
    if misses and blank:
        return Part(name, "held", f"{sentence}.")
    if misses or blank:
        return Part(name, "in part", f"{sentence}: it fails by one of the two measures only.")
    return Part(name, "failed", f"{sentence}: it does not fail.")


def _cures(label: str, table: PlaneTable, arm: str, base: str, seeds: Sequence[int], of: str) -> Part:
    """Does an arm put held-out bumps in place, clearly more than the arm it is compared with?"""
    name = f"{label} repairs"
    if not _fitted(table, arm, seeds):
        return Part(name, "open", _unfitted(label, table, arm, seeds))
    hit = _hit(table, arm, seeds)
    test = paired(table.values(arm, "hit", "held_out", seeds), table.values(base, "hit", "held_out", seeds))
    p = 1.0 if test.p is None else test.p
    sentence = (
        f"{label} puts {_share(hit)} of held-out bumps in place against {_share(_hit(table, base, seeds))} of {of} "
        f"({100 * test.mean:+.0f} points, {p_value(p)}; {_relative(table, arm, seeds):.2f} against "
        f"{_relative(table, base, seeds):.2f} of a blank's error)"
    )
    if not (_clear(test, p) and test.mean >= MATTERS.value):
        return Part(name, "failed", f"{sentence}: no clear gain.")
    if hit.mean >= REPAIRED.value and _relative(table, arm, seeds) < AS_BLANK.value:
        return Part(name, "held", f"{sentence}.")
    return Part(name, "in part", f"{sentence}: clearly better, but not cured.")


def _gain(table: PlaneTable, arm: str, base: str, seeds: Sequence[int]) -> Interval:
    return _as_interval(
        paired(table.values(arm, "hit", "held_out", seeds), table.values(base, "hit", "held_out", seeds))
    )


def f1_failure(table: PlaneTable) -> Answer:
    """F1: standard decoders fit inside and fail outside. Every fitted standard decoder must fail; ours is the CNN's
    share of bumps in place inside less outside (published 1.00 - 0.29)."""
    base = _plain(table)
    arms = {"CNN": base}
    for label, kind in STANDARD.items():
        found = table.nearest({**BUMPS, "decoder.kind": kind}, base, ("decoder",))
        if label != "CNN" and found is not None:
            arms[label] = found
    seeds = _agreed(table, list(arms.values()))
    parts, notes = [], []
    for label, arm in arms.items():
        part = _fails(label, table, arm, seeds)
        if part.state == "open" and label != "CNN":
            notes.append(part.sentence)
        else:
            parts.append(part)
    inside, outside = (table.values(base, "hit", region, seeds) for region in ("trained", "held_out"))
    return Answer(tuple(parts), _as_interval(paired(inside, outside)), arms, tuple(notes))


def f2_superposition(table: PlaneTable, region: str = "deep") -> Answer:
    """F2: outside, outputs are superpositions of memorised ones. Ours is the cosine with the memory less that with the
    truth, deep inside the hole (published 0.844 - 0.048, one seed)."""
    base = _plain(table)
    seeds = _agreed(table, [base])
    return _superposed(table, base, "the CNN", region, seeds)


def _superposed(table: PlaneTable, arm: str, label: str, region: str, seeds: Sequence[int]) -> Answer:
    """More like the memory than like the truth and than like other cells' memories; and mostly memory by share."""
    if not _fitted(table, arm, seeds):
        raise Untested(_unfitted(label, table, arm, seeds).removesuffix("."))
    values = {
        word: table.values(arm, f"superposition_{word}", region, seeds)
        for word in ("memory", "truth", "control", "share", "explained")
    }
    tests = {word: paired(values["memory"], values[word]) for word in ("truth", "control")}
    p = dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))
    means = {word: interval(numbers) for word, numbers in values.items()}
    sentence = (
        f"Outputs of {label} have cosine {_number(means['memory'])} with the memory, {_number(means['truth'])} with "
        f"the true picture and {_number(means['control'])} with other cells' memories"
    )
    wins = [word for word in tests if _clear(tests[word], p[word])]
    state: Any = "held" if len(wins) == 2 else "in part" if wins == ["control"] else "failed"
    share = means["share"]
    low = share.low if share.low is not None else share.mean
    said = (
        f"The memory's share is {_number(share)}, and both together explain {means['explained'].mean:.2f} of an output"
    )
    parts = (
        Part("more memory than truth", state, f"{sentence}."),
        Part("mostly memory", "held" if low > SUPERPOSED.value else "failed", f"{said}."),
    )
    return Answer(parts, _as_interval(tests["truth"]), {label: arm})


def f3_kernels(table: PlaneTable) -> Answer:
    """F3: learned kernels are factorized and binary. Ours is the R^2 of the best factorized family less that of the
    best other, mean over hidden layers. (The published word "factorized" is a product kernel, which is a conjunction
    here; see `anatomy.kernels`.)"""
    base = _plain(table)
    seeds = _agreed(table, [base])
    if not _fitted(table, base, seeds):
        raise Untested(_unfitted("the CNN", table, base, seeds).removesuffix("."))
    layers = table.layers(base)
    if not layers:
        raise Untested(f"no kernel was measured of {base} in {table.name}")

    def r2(family: str, layer: str) -> np.ndarray:
        return table.values(base, f"kernel_r2_{family}", "trained", seeds, layer)

    def best(families: Sequence[str], layer: str) -> np.ndarray:
        return np.max([r2(family, layer) for family in families], axis=0)

    apart = np.mean([best(FACTORIZED, layer) - best(OTHERS, layer) for layer in layers], axis=0)
    binary = np.mean([r2("binary_factorized", layer) - r2("factorized", layer) for layer in layers], axis=0)
    nothing = np.zeros(len(seeds))
    tests = {"factorized": paired(apart, nothing), "binary": paired(binary, nothing)}
    p = dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))
    winners = {layer: max((*FACTORIZED, *OTHERS), key=lambda family: r2(family, layer).mean()) for layer in layers}
    each = join([f"{layer} {winners[layer].replace('_', ' ')}" for layer in layers])
    texts = {
        "factorized": "R² of the best factorized kernel less that of the best other",
        "binary": "R² of the binary less that of the smooth factorized kernel",
    }
    parts = []
    for name, test in tests.items():
        held = _clear(test, p[name]) and test.mean >= EXPLAINS.value
        words = f"{texts[name]}, mean over hidden layers: {_number(_as_interval(test))}."
        parts.append(Part(f"kernels are {name}", "held" if held else "failed", words))
    notes = [f"Described best: {each}."]
    found = {
        family: float(table.values(base, f"regression_{family}", "held_out", seeds).mean())
        for family in (*FACTORIZED, *OTHERS)
        if table.by_seed(base, f"regression_{family}", "held_out")
    }
    if found:
        first = min(found, key=lambda family: found[family])
        notes.append(
            f"Held-out pictures are predicted best by the {first.replace('_', ' ')} kernel, with {found[first]:.2f} of "
            "the error of the mean picture."
        )
    return Answer(tuple(parts), _as_interval(tests["factorized"]), {"CNN": base}, tuple(notes))


def f4_collapse(table: PlaneTable) -> Answer:
    """F4: later layers entangle x and y again, and volume shrinks outside. Ours is log10 of the output's volume outside
    less inside, freed of what true pictures have (published -0.87 less 0.03, by differences between cells)."""
    base = _plain(table)
    seeds = _agreed(table, [base])
    if not _fitted(table, base, seeds):
        raise Untested(_unfitted("the CNN", table, base, seeds).removesuffix("."))

    def outside_less_inside(layer: str) -> np.ndarray:
        both = [table.values(base, "log_volume", region, seeds, layer) for region in ("held_out", "trained")]
        return both[0] - both[1]

    true = outside_less_inside("truth") if table.by_seed(base, "log_volume", "held_out", "truth") else 0.0
    shrunk = outside_less_inside("output") - true
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
    shrinks = _clear(tests["volume"], p["volume"])
    state: Any = "failed" if not shrinks else "held" if volume.mean <= SHRINKS.value else "in part"
    tangled = _clear(tests["overlap"], p["overlap"]) and tests["overlap"].mean >= ENTANGLES.value
    path = ", ".join(f"{layer} {values.mean():.2f}" for layer, values in overlap.items())
    parts = (
        Part("volume shrinks", state, f"log10 of the output's volume outside less inside: {_number(volume)}."),
        Part(
            "entangled again",
            "held" if tangled else "failed",
            f"Mean |cosine| of the tangents of x and y in the hole: {path}.",
        ),
    )
    return Answer(parts, volume, {"CNN": base})


def f5_low_rank(table: PlaneTable) -> Answer:
    """F5: the low-rank regularised embedding repairs it. Ours is the gain in held-out bumps in place over the same
    network unregularised (published 1.00 - 0.037)."""
    kind = {**BUMPS, "decoder.kind": "lowrank"}
    weights = ("decoder.entropy_weight", "decoder.variance_weight")
    on = table.nearest({**kind, **dict.fromkeys(weights, bool)}, None, ())
    off = table.nearest({**kind, **dict.fromkeys(weights, _nothing)}, on, weights)
    if on is None or off is None:
        raise Untested(f"the study {table.name} has no low-rank network with and without its penalties")
    arms = {"regularised": on, "unregularised": off}
    seeds = _agreed(table, [on, off])
    fails = _fails("unregularised", table, off, seeds)
    parts = (
        _cures("regularised", table, on, off, seeds, "the unregularised"),
        Part(fails.name, fails.state, fails.sentence, "limit"),
        _equal(table, on, off, weights),
    )
    return Answer(parts, _gain(table, on, off, seeds), arms)


def _equal(table: PlaneTable, arm: str, base: str, changed: Sequence[str]) -> Part:
    """A limit that holds where two arms differ in nothing but what is compared."""
    others = table.differences(arm, base, changed)
    if not others:
        return Part("all else equal", "held", "", "limit")
    return Part("all else equal", "failed", f"{arm} and {base} also differ in {join(others)}.", "limit")


def scaling(table: PlaneTable, stripes: bool, reach: float = REACH.value) -> Exponent:
    """The exponent of examples needed against image size, from arms that differ in size and number of images.

    Examples are all training images of an arm, stripes included. Sizes must have been tried with equally many numbers
    of images; seeds are those that all arms have.
    """
    wanted = {"world.kind": "bumps", "data.stripes": bool if stripes else _nothing}
    tried: dict[int, dict[int, str]] = {}
    for arm in table.matching(wanted):
        size, images = setting(table.arms[arm], "world.image_size"), setting(table.arms[arm], "data.images")
        if size is not None and images is not None:
            tried.setdefault(int(size), {}).setdefault(int(images), arm)
    sizes = sorted(size for size, arms in tried.items() if len(arms) > 1)
    if len(sizes) < 3:
        raise Untested(f"the study {table.name} has fewer than 3 image sizes with several numbers of images")
    counts = {len(tried[size]) for size in sizes}
    if len(counts) > 1:
        raise Untested(f"the sizes of the study {table.name} were tried with different numbers of training sets")
    seeds = _agreed(table, [arm for size in sizes for arm in tried[size].values()])
    examples = np.array([sorted(tried[size]) for size in sizes])  # (Z, K)
    scores = np.array(
        [
            [
                [table.by_seed(tried[size][count], "hit", "held_out")[seed] for count in sorted(tried[size])]
                for size in sizes
            ]
            for seed in seeds
        ]
    )
    return fit_exponent(sizes, needed_table(scores, examples, reach))


def f6_stripes(table: PlaneTable, sizes: PlaneTable | None = None) -> Answer:
    """F6: stripes repair it, and the data needed fall from N^3 to N. Ours is the gain in held-out bumps in place, with
    equally many images and steps; no published number. `sizes` is the scaling study's table, if there is one."""
    base = _plain(table)
    wanted = {**CNN, "data.stripes": bool}
    mixed = table.nearest({**wanted, "data.order": lambda order: order != "curriculum"}, base, ("data",))
    taught = table.nearest({**wanted, "data.order": "curriculum"}, base, ("data",))
    arms = {"plain": base}
    arms |= {label: arm for label, arm in (("mixture", mixed), ("curriculum", taught)) if arm is not None}
    if len(arms) == 1:
        raise Untested(f"the study {table.name} has no CNN with stripes")
    seeds = _agreed(table, list(arms.values()))
    chosen = mixed if mixed is not None else taught
    assert chosen is not None
    words = ("data.stripes", "data.order", "data.first")
    label = "a mixture with stripes" if mixed is not None else "a curriculum of stripes"
    parts = [_cures(label, table, chosen, base, seeds, "the plain CNN")]
    if mixed is not None and taught is not None:
        other = _cures("a curriculum of stripes", table, taught, base, seeds, "the plain CNN")
        parts.append(Part(other.name, other.state, other.sentence, "aside"))
    parts += [_falls(sizes), _equal(table, chosen, base, words)]
    return Answer(tuple(parts), _gain(table, chosen, base, seeds), arms)


def _is_power(found: Exponent, power: float) -> bool:
    return found.low - SAME_POWER.value <= power <= found.high + SAME_POWER.value


def _falls(sizes: PlaneTable | None) -> Part:
    """Does the exponent fall from 3 to 1?"""
    name = "from cubic to linear"
    if sizes is None:
        return Part(name, "open", "How the data needed grow with the image was not measured.")
    try:
        plain, striped = scaling(sizes, stripes=False), scaling(sizes, stripes=True)
        fall, low, high = exponent_difference(plain, striped)
    except Untested as reason:
        return Part(name, "open", f"How the data needed grow cannot be told: {reason}.")
    if not np.isfinite([fall, low, high]).all():
        return Part(name, "open", f"Too few sizes reach {percent(REACH.value)} in place for an exponent.")
    sentence = (
        f"Examples needed grow as N^{plain.exponent:.2f} ({plain.low:.2f} to {plain.high:.2f}) without stripes and as "
        f"N^{striped.exponent:.2f} ({striped.low:.2f} to {striped.high:.2f}) with them, a fall of {fall:.2f} "
        f"({low:.2f} to {high:.2f})"
    )
    if low > 0 and _is_power(plain, CUBIC) and _is_power(striped, LINEAR):
        return Part(name, "held", f"{sentence}.")
    if low > 0:
        return Part(name, "in part", f"{sentence}: a clear fall, but not from 3 to 1.")
    return Part(name, "failed", f"{sentence}: no clear fall.")


def f7_codes(table: PlaneTable) -> Answer:
    """F7: other input codes do not repair it. Every code of the same CNN that is fitted must fail. Ours is the largest
    share of held-out bumps in place over the codes."""
    base = _plain(table, bump_code=True)
    arms = {"bump code": base}
    for name in table.matching(CNN):
        if name == base or table.differences(name, base, ("encoding",)):
            continue
        kind, width = (setting(table.arms[name], f"encoding.{word}") for word in ("kind", "width"))
        label = f"bump code {float(width or 1):g} times as wide" if kind == "population" else f"{kind} code"
        arms.setdefault(label, name)
    if len(arms) == 1:
        raise Untested(f"the study {table.name} has the CNN on one code only")
    seeds = _agreed(table, list(arms.values()))
    every = [_fails(label, table, arm, seeds) for label, arm in arms.items()]
    parts = [part for part in every if part.state != "open"] or every[:1]
    notes = [part.sentence for part in every if part.state == "open" and part not in parts]
    fitted = {label: arm for label, arm in arms.items() if _fitted(table, arm, seeds)} or {"bump code": base}
    best = max(fitted, key=lambda label: _hit(table, fitted[label], seeds).mean)
    return Answer(tuple(parts), _hit(table, fitted[best], seeds), arms, tuple(notes))


def f8_rotation(table: PlaneTable) -> Answer:
    """F8: in a gap of angles the digit cross-fades. The memory is the cross-fade of the decoder's own outputs at both
    edges (`superposition.edge_weights`). Ours is its cosine less that with the true picture."""
    found = table.matching({"world.kind": "digits"})
    if not found:
        raise Untested(f"the study {table.name} has no rotated digit")
    seeds = _agreed(table, found[:1])
    return _superposed(table, found[0], "the decoder", "held_out", seeds)


def f9_coordinates(table: PlaneTable) -> Answer:
    """F9: a coordinate network generalises with neither remedy, in the CNN's own setting. Ours is its gain in held-out
    bumps in place over the CNN (published: 100 % in place, in another setting than the CNN's)."""
    base = _plain(table)
    arm = table.nearest({**BUMPS, "decoder.kind": "coordinate"}, base, ("decoder",))
    if arm is None:
        raise Untested(f"the study {table.name} has no coordinate network")
    seeds = _agreed(table, [base, arm])
    parts = (
        _cures("the coordinate network", table, arm, base, seeds, "the CNN"),
        _equal(table, arm, base, ("decoder",)),
    )
    return Answer(parts, _gain(table, arm, base, seeds), {"coordinate": arm, "CNN": base})


JUDGES: dict[str, Callable[[PlaneTable], Answer]] = {
    "F1": f1_failure,
    "F2": f2_superposition,
    "F3": f3_kernels,
    "F4": f4_collapse,
    "F5": f5_low_rank,
    "F6": f6_stripes,
    "F7": f7_codes,
    "F8": f8_rotation,
    "F9": f9_coordinates,
}
SCALING = "rendering-scaling"  # the study that F6's exponent comes from


def judge_of(claim: str) -> Judge:
    """A claim's function in the shape that the ledger asks. The measure is not asked for: tables hold one moment, the
    end of training."""

    def judge(study: StudyTable, others: Mapping[str, StudyTable], measure: Measure) -> Finding:
        table = PlaneTable.of(study)
        beside = (others[SCALING],) if claim == "F6" and SCALING in others else ()
        found = f6_stripes(table, *map(PlaneTable.of, beside)) if claim == "F6" else JUDGES[claim](table)
        parts = (*found.parts, *map(whole_limit, (study, *beside)))
        return Finding(study, parts, found.ours, found.arms, found.notes, beside=beside)

    return judge


THRESHOLDS: dict[str, tuple[Threshold, ...]] = {
    "F1": (*SHARED, AS_BLANK, MISSES),
    "F2": (*SHARED, SUPERPOSED),
    "F3": (*SHARED, EXPLAINS),
    "F4": (*SHARED, SHRINKS, ENTANGLES),
    "F5": (*SHARED, AS_BLANK, MISSES, REPAIRED, MATTERS),
    "F6": (*SHARED, AS_BLANK, REPAIRED, MATTERS, REACH, SAME_POWER),
    "F7": (*SHARED, AS_BLANK, MISSES),
    "F8": (*SHARED, SUPERPOSED),
    "F9": (*SHARED, AS_BLANK, REPAIRED, MATTERS),
}
