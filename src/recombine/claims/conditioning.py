"""C3, conditioning: do class indices in place of values, and factors sometimes withheld, hurt; and both together most?

Four arms of one DiT: full, full with dropout, quantized, quantized with dropout. "Hurt" is a clear loss at level-2 that
matters. "Most" means: both together clearly lose against full and against quantized alone, and do not clearly beat full
with dropout (the published two tie at 0 %, so a clear gap between them cannot be asked for). The published collapse
comes late, so a run with dropout that is shorter than it took, and shows none, leaves the question open. So does an
arm with full conditioning that does not compose itself: what the others would lose is not there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from recombine.claims import lookup, testing
from recombine.claims.refused import refused
from recombine.claims.tables import FAR, Arm, Measure, StudyTable
from recombine.claims.testing import COMPOSES, MATTERS, as_interval, gain_text, loss_text, share_text
from recombine.claims.verdicts import Claim, Finding, Part, Shown, Threshold
from recombine.judges.statistics import Difference
from recombine.report.words import join, percent

FOLLOWED = Threshold(
    "followed",
    50_000,
    "steps that an arm with dropout must be followed to before it counts that it does not collapse: the published "
    "level-2 was gone from 34,000 steps, the last level-1 composition from 54,000",
)
DROPOUT = 0.1  # the published chance that a factor is withheld

ZEROS = "class 0 of a class, the middle of the range of a value"

FULL, FULL_DROPPED, QUANTIZED, BOTH = "full", "full + dropout", "quantized", "quantized + dropout"
PUBLISHED = {FULL: 1.0, FULL_DROPPED: 0.0, QUANTIZED: 0.637, BOTH: 0.0}
CURVES = {
    FULL: "dit_full",
    FULL_DROPPED: "dit_full_dropout",
    QUANTIZED: "dit_quantized",
    BOTH: "dit_quantized_dropout",
}
COLOURS = {FULL: "blue", FULL_DROPPED: "violet", QUANTIZED: "pink", BOTH: "red"}


def judge(study: StudyTable, others: Mapping[str, StudyTable], measure: Measure) -> Finding:
    testing.column_there(study, measure)
    full = lookup.nearest(lookup.matching(study, lookup.told("full", 0)), None, ())
    wanted = {FULL_DROPPED: ("full", DROPOUT), QUANTIZED: ("quantized", 0.0), BOTH: ("quantized", DROPOUT)}
    found = {
        label: lookup.nearest(lookup.matching(study, lookup.told(*told)), full, ("conditioning",))
        for label, told in wanted.items()
    }
    arms = testing.need({FULL: full, **found}, study)
    seeds = testing.agreed_seeds(study, list(arms.values()))
    pairs = {"q": (FULL, QUANTIZED), "d": (FULL, FULL_DROPPED), "both": (FULL, BOTH), "q-both": (QUANTIZED, BOTH)}
    pairs["both-d"] = (BOTH, FULL_DROPPED)
    tests = {name: testing.pair(arms[a], arms[b], measure, seeds) for name, (a, b) in pairs.items()}
    p = testing.corrected(tests)
    low = {label: arm for label, arm in arms.items() if label != FULL}
    parts = [
        _hurts("quantizing hurts", QUANTIZED, arms, tests["q"], p["q"], measure, seeds),
        _hurts("withholding hurts", FULL_DROPPED, arms, tests["d"], p["d"], measure, seeds),
        _both(arms, tests, p, measure, seeds),
        _equally_long(arms, measure, seeds),
        testing.flat_limit(low, measure, seeds, "the loss may shrink with more training"),
        testing.whole_limit(study),
    ]
    notes = [
        refused(arms, measure, seeds),
        _images(arms),
        *_late(arms, measure),
        *_cells(arms, measure),
        *_mislabelled(study, others, arms, measure),
        testing.unsettled({FULL: arms[FULL]}, measure, seeds),
        testing.also_differ(FULL, arms, ("conditioning",)),
        testing.ceilings({FULL: arms[FULL]}),
    ]
    return Finding(
        study=study,
        parts=tuple(parts),
        ours=as_interval(tests["both"]),
        arms={label: arm.name for label, arm in arms.items()},
        notes=tuple(note for note in notes if note),
        shown=tuple(Shown(label, arms[label], COLOURS[label], CURVES[label], PUBLISHED[label]) for label in arms),
    )


def _hurts(
    name: str, label: str, arms: Mapping[str, Arm], test: Difference, p: float, measure: Measure, seeds: list[int]
) -> Part:
    """Does one arm clearly lose against full conditioning?

    A clear loss that matters holds wherever it is seen, and a clear gain that matters speaks against it wherever it is
    seen. Neither seen is a failure only where a loss could have been: it is open where full conditioning does not
    compose (`_nothing_to_lose`) or dropout was not followed (`_too_early`).
    """
    for one in (FULL, label):
        if not testing.learned(arms[one], measure, seeds):
            return Part(name, "open", f"{testing.not_learned(one, arms[one], measure, seeds)}.")
    loss = f"{label} {share_text(arms[label].share(measure, seeds))}, {loss_text(test, p)} against full"
    if label == QUANTIZED:
        full = share_text(arms[FULL].share(measure, seeds))
        loss = f"Told in full, DiT draws {full} of level-2 right and valid; {loss}"
    else:
        loss = _capital(loss)
    if testing.is_clear(test, p) and test.mean >= MATTERS.value:
        return Part(name, "held", f"{loss}.")
    if p < testing.CLEAR.value and -test.mean >= MATTERS.value:
        return Part(name, "failed", f"{loss}: clearly the opposite.")
    doubts = [_nothing_to_lose(arms, measure, seeds), _too_early(label, arms)]
    if any(doubts):
        return Part(name, "open", f"{loss}: no clear loss that matters, but {_and(doubts)}.")
    return Part(name, "failed", f"{loss}: no clear loss that matters.")


def _both(
    arms: Mapping[str, Arm], tests: Mapping[str, Difference], p: Mapping[str, float], measure: Measure, seeds: list[int]
) -> Part:
    """Does the arm with both lose against full and quantized, and not lie clearly above full with dropout?

    A clear loss against full alone holds in part. Without it the part has failed, unless full conditioning does not
    compose (`_nothing_to_lose`) or the arm was not followed (`_too_early`) and does not lie above: then it is open.
    """
    name = "both together hurt most"
    for label in arms:
        if not testing.learned(arms[label], measure, seeds):
            return Part(name, "open", f"{testing.not_learned(label, arms[label], measure, seeds)}.")
    loses = {
        key: testing.is_clear(tests[key], p[key]) and tests[key].mean >= MATTERS.value for key in ("both", "q-both")
    }
    beats = testing.is_clear(tests["both-d"], p["both-d"]) and tests["both-d"].mean >= MATTERS.value
    numbers = (
        f"{BOTH} {share_text(arms[BOTH].share(measure, seeds))}: {loss_text(tests['both'], p['both'])} against full, "
        f"{loss_text(tests['q-both'], p['q-both'])} against quantized and {gain_text(tests['both-d'], p['both-d'])} "
        f"against {FULL_DROPPED}"
    )
    if all(loses.values()) and not beats:
        return Part(name, "held", f"{_capital(numbers)}: nothing lies clearly lower.")
    floor = None if loses["both"] else _nothing_to_lose(arms, measure, seeds)
    doubts = [floor, None if beats else _too_early(BOTH, arms)]
    if any(doubts):
        return Part(name, "in part" if loses["both"] else "open", f"{_capital(numbers)}; but {_and(doubts)}.")
    why = f"it lies clearly above {FULL_DROPPED}" if beats else "it does not clearly lose against both"
    return Part(name, "in part" if loses["both"] else "failed", f"{_capital(numbers)}: {why}.")


def _nothing_to_lose(arms: Mapping[str, Arm], measure: Measure, seeds: list[int]) -> str | None:
    """Why a loss that was not seen proves nothing; None where full conditioning composes.

    The claim is about what is lost of an ability that full conditioning has (published: 100 %). Where its own mean
    share is below COMPOSES it does not have it here, and arms that do no worse do not speak against the claim.
    """
    share = arms[FULL].share(measure, seeds).mean
    if share >= COMPOSES.value:
        return None
    return (
        f"full conditioning itself does not compose ({percent(share)} of level-2, below {percent(COMPOSES.value)}), so "
        "whether the ability would be lost cannot be told"
    )


def _too_early(label: str, arms: Mapping[str, Arm]) -> str | None:
    """Why a collapse that was not seen may still come; None where it should have come."""
    if label == QUANTIZED or arms[label].steps >= FOLLOWED.value:
        return None
    return (
        f"it was followed to step {arms[label].steps:,} only, and a collapse as late as the published one is "
        f"looked for up to step {FOLLOWED.value:,.0f}"
    )


def _equally_long(arms: Mapping[str, Arm], measure: Measure, seeds: list[int]) -> Part:
    """Where an arm with dropout is trained for longer, a late loss may be the length's: then it must show early too."""
    name = "equally long"
    unclear = []
    for label in (FULL_DROPPED, BOTH):
        if arms[label].steps > arms[FULL].steps:
            until = replace(measure, until=arms[FULL].steps)
            test = testing.pair(arms[FULL], arms[label], until, seeds)
            if not (testing.is_clear(test, 1.0 if test.p is None else test.p) and test.mean >= MATTERS.value):
                unclear.append(f"{label} {loss_text(test, test.p)}")
    if not unclear:
        return Part(name, "held", "", "limit")
    sentence = (
        f"Full is trained for {arms[FULL].steps:,} steps only, and until then no loss is clear ({join(unclear)}): "
        "whether full conditioning would keep its level for as long as dropout is followed is not known."
    )
    return Part(name, "failed", sentence, "limit")


def _images(arms: Mapping[str, Arm]) -> str:
    """How many images the arms with dropout were trained on: FOLLOWED is in steps, and a step is as many images as the
    batch. The batch of the published runs can only be inferred, from how far apart their evaluations lie, and more than
    one fits, so nothing is compared and no verdict depends on it.
    """
    texts = []
    for label in (FULL_DROPPED, BOTH):
        batch = arms[label].setting("training.batch")
        if batch:
            texts.append(f"{label} {arms[label].steps * int(batch) / 1e6:,.2f} million")
    if not texts:
        return ""
    return (
        f"Images that each seed was trained on in all (steps times batch, repeats counted): {join(texts)}; of the "
        "published runs this is not known, since only their steps are."
    )


def _late(arms: Mapping[str, Arm], measure: Measure) -> list[str]:
    """Where arms with dropout peak, if they fall from it: the published collapse comes late."""
    texts = []
    for label in (FULL_DROPPED, BOTH):
        step, height = arms[label].peak(measure)
        end = float(arms[label].values(Measure(measure.column), arms[label].seeds).mean())
        if height - end >= MATTERS.value:
            texts.append(f"{label} falls from {percent(height)} at step {step:,} to {percent(end)}")
    return [f"Late decline: {'; '.join(texts)}."] if texts else []


def _cells(arms: Mapping[str, Arm], measure: Measure) -> list[str]:
    """In the published panels with dropout the held-out cells with the second shape collapse and the other does not;
    beside them what these cells have without dropout."""
    texts = []
    for label in arms:
        cells = arms[label].by_composition(measure)
        held = {code: share for code, share in cells.items() if arms[label].study.finished.levels.get(code, 0) > 0}
        second = [share for code, share in held.items() if code[0] == "1"]
        first = [share for code, share in held.items() if code[0] == "0"]
        if second and first:
            texts.append(f"{label} {percent(float(np.mean(second)))} and {percent(float(np.mean(first)))}")
    if not texts:
        return []
    return [f"Held-out compositions with the second shape, and with the first: {'; '.join(texts)}."]


def _mislabelled(
    study: StudyTable, others: Mapping[str, StudyTable], arms: Mapping[str, Arm], measure: Measure
) -> list[str]:
    """The variant that tells zeros in place of a withheld factor: does the fault explain the collapse?"""
    tables = [study, *(others[name] for name in lookup.MISLABELLED if name in others)]
    texts = []
    for label, kind in ((FULL_DROPPED, "full"), (BOTH, "quantized")):
        candidates = [arm for table in tables for arm in lookup.matching(table, lookup.told(kind, DROPOUT, "zero"))]
        arm = lookup.nearest(candidates, arms[label], ("conditioning",))
        seeds = sorted(set(arm.seeds) & set(arms[label].seeds)) if arm is not None else []
        if arm is None or len(seeds) < testing.FEWEST_SEEDS.value or measure.column not in arm.study.columns:
            continue
        until = min(arm.steps, arms[label].steps)
        early = replace(measure, until=until)
        test = testing.pair(arm, arms[label], early, seeds)
        share = share_text(arm.share(early, seeds))
        texts.append(f"{kind} {share} up to step {until:,}, {gain_text(test, test.p)} against a learned null")
    return [f"With zeros told for withheld factors ({ZEROS}): {'; '.join(texts)}."] if texts else []


def _and(reasons: Sequence[str | None]) -> str:
    """The reasons that there are, one after the other."""
    return ", and ".join(reason for reason in reasons if reason)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


CLAIM = Claim(
    id="C3",
    title="What the model is told",
    statement="Quantized factors, or factors that are sometimes withheld in training, hurt composition; both together "
    "hurt most.",
    published="DiT at level-2, mean of the last fifth: full 100 %, full + dropout 0 %, quantized 63.7 %, quantized + "
    "dropout 0 %",
    value=PUBLISHED[FULL] - PUBLISHED[BOTH],
    measure=f"level-{FAR} with full conditioning minus that with quantized + dropout",
    trust="read from vector figures; one run each but the last, of 3 seeds, whose data set is unresolved",
    studies=lookup.STUDIES["C3"],
    judge=judge,
    drawn=True,
    thresholds=(*testing.SHARED, COMPOSES, MATTERS, FOLLOWED),
)
