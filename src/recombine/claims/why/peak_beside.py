"""What stands beside E1: what the judge makes of garbage, whether other objectives fall too, and the panels."""

import numpy as np

from recombine.claims import lookup, testing
from recombine.claims.tables import FAR, NAMED, Arm, StudyTable
from recombine.claims.testing import MATTERS
from recombine.claims.verdicts import Extra
from recombine.claims.why.answers import Dots, Line, Lines, matters
from recombine.claims.why.cells import Cells, FactorWords, cells, early, late, parted, peaks
from recombine.judges.statistics import paired
from recombine.report.words import join, percent, points

FACTOR_COLOURS = ("violet", "blue", "ochre", "green", "grey", "pink")


def judge_on_garbage(study: StudyTable) -> str:
    """What the judge was measured to make of pictures of half-trained models."""
    refused = study.finished.part("judge", "refused")
    known = [share for kind, share in refused.items() if kind.startswith("half-trained maskgit")]
    checked = "of the half-trained MaskGIT's pictures it was checked on"
    return f"The judge refuses {percent(min(known))} {checked}." if known else ""


def other_objectives(study: StudyTable, seeds: list[int], maskgit: Arm) -> str:
    """Whether other objectives of the same study fall from a peak too: arms that else differ least from MaskGIT's."""
    wanted = {"MaskGIT + JEPA": lookup.JEPA} | {name: lookup.family(kind) for name, kind in lookup.CONTINUOUS.items()}
    tests, texts = {}, {}
    low = []  # what hardly rises has nothing to fall from
    for label, settings in wanted.items():
        arm = lookup.nearest(lookup.matching(study, settings), maskgit, ("generator", "jepa"))
        if arm is None or not set(seeds) <= set(arm.seeds):
            continue
        own = cells(arm, seeds)
        right, valid = (own.mean(own.at(FAR), column) for column in ("joint", "valid"))
        at = peaks(right)
        before, after = early(right, at), late(right)
        if before.mean() < MATTERS.value:
            low.append(label)
            continue
        tests[label] = paired(before, after)
        broken, wrong = parted(valid, right, at)
        texts[label] = (
            f"{label} falls from {percent(float(before.mean()))} to {percent(float(after.mean()))} "
            f"({points(float(broken.mean()))} points by fewer valid pictures, {points(float(wrong.mean()))} by wrong "
            "ones)"
        )
    p = testing.corrected(tests)
    fallen = [texts[label] for label in tests if matters(tests[label], p[label])]
    steady = [label for label in tests if not matters(tests[label], p[label])]
    said = [*fallen, *([f"{join(steady)} {'do' if len(steady) > 1 else 'does'} not clearly fall"] if steady else [])]
    said += [f"{join(low)} never {'have' if len(low) > 1 else 'has'} {percent(MATTERS.value)}"] if low else []
    return f"In the same study, right and valid at level-2: {'; '.join(said)}." if said else ""


def panels(
    own: Cells, far: list[str], factors: list[FactorWords], at_named: np.ndarray, at_right: np.ndarray
) -> tuple[Lines, Lines, Dots]:
    kinds = {"named right": (NAMED, "grey"), "valid": ("valid", "ochre"), "right and valid": ("joint", "red")}
    curves = {label: own.mean(far, column) for label, (column, _) in kinds.items()}
    rows = [
        Extra(f"{label}, {when}", tuple(early(curves[label], at)), kinds[label][1])
        for when, at, labels in (
            ("named peak", at_named, ("named right", "right and valid")),
            ("real peak", at_right, ("valid", "right and valid")),
        )
        for label in labels
    ]
    rows += [
        Extra(f"{label}, end", tuple(late(curves[label])), kinds[label][1]) for label in ("valid", "right and valid")
    ]
    return (
        Lines(
            "Level-2 pictures of MaskGIT",
            tuple(Line(label, colour, own.steps, curves[label]) for label, (_, colour) in kinds.items()),
        ),
        Lines(
            "Each factor named right",
            tuple(
                Line(one.name, FACTOR_COLOURS[i % len(FACTOR_COLOURS)], own.steps, own.mean(far, one.column))
                for i, one in enumerate(factors)
            ),
        ),
        Dots("At the peaks and at the end", tuple(rows)),
    )
