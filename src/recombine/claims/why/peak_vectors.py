"""E1's rival "weak conditioning": does MaskGIT fall because the vectors of its classes begin small?

It is asked where arms differ in `conditioning.spread` alone, of the arm with the smallest and the one that begins at
`EQUAL`. Each arm falls from its own early peak; the falls are paired by seed, and the two tests below are
Holm-corrected together. The rival is

- contradicted where the arm with larger vectors clearly falls too, by more than half as much;
- supported where the difference of the falls is clear and matters, the arm with larger vectors falls by less than half
  as much, and it had at its own peak at least as much as small ones lose: what never rose could not fall as far;
- else, or where the small vectors do not clearly fall, it cannot be told.

The rule was fixed before the study spread was run at size s. Shapes: E evaluations, S seeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recombine.claims import lookup, testing
from recombine.claims.tables import FAR, Arm, Measure, common_seeds
from recombine.claims.testing import FEWEST_SEEDS, gain_text, loss_text, share_text
from recombine.claims.why.answers import MOST, Line, Lines, Outcome, Said, matters
from recombine.claims.why.cells import cells, early, late, peaks
from recombine.judges.statistics import interval, paired
from recombine.report.words import join

MASKGIT = "MaskGIT"
WEAK = "weak conditioning"
PREDICTION = (
    "MaskGIT loses level-2 because the vectors of its classes begin small beside the rest: with larger ones it falls "
    "less than half as far."
)
SIZE = "conditioning.spread"
EQUAL = 0.2
"""With this spread the vectors of three factors together begin as large as the time that is added to them."""

COLOURS = ("red", "blue", "ochre", "green", "violet", "grey")


@dataclass(frozen=True)
class Sizes:
    """Arms of MaskGIT that differ in nothing but how large the vectors of their classes begin."""

    smallest: Arm  # the arm that E1 judges
    larger: tuple[Arm, ...]  # ascending; none in a study with one size only

    @property
    def equal(self) -> Arm | None:
        return next((arm for arm in self.larger if np.isclose(size_of(arm), EQUAL)), None)

    @property
    def label(self) -> str:
        """What the arm that is judged stands for."""
        small = f"{MASKGIT} with the smallest class vectors ({size_of(self.smallest):g})"
        return small if self.larger else MASKGIT

    @property
    def arms(self) -> dict[str, str]:
        """{what it stands for: the arm's name}."""
        equal = {f"{MASKGIT} with larger ones ({EQUAL:g})": self.equal.name} if self.equal else {}
        return {self.label: self.smallest.name} | equal


def size_of(arm: Arm) -> float:
    """How large class vectors begin; 0 in a study from before that was a setting."""
    return float(arm.setting(SIZE) or 0)


def by_size(arms: Sequence[Arm]) -> Sizes | None:
    """The arm with the smallest vectors, the first where several have them, with those that differ in that alone."""
    if not arms:
        return None
    smallest = min(arms, key=size_of)
    others = [arm for arm in arms if size_of(arm) > size_of(smallest) and not lookup.differences(arm, smallest, [SIZE])]
    return Sizes(smallest, tuple(sorted(others, key=size_of)))


def ends(arm: Arm, seeds: Sequence[int], column: str) -> tuple[np.ndarray, np.ndarray]:
    """Level-2 at the arm's own early peak and over the last fifth, (S,) each."""
    own = cells(arm, seeds)
    values = own.mean(own.at(FAR), column)
    return early(values, peaks(values)), late(values)


def larger_falls(sizes: Sizes) -> str:
    """How what is right and valid changes from its peak to the end in arms with larger vectors, each by itself:
    "-3 points (-8 to +1) with 0.2". Empty where there are none."""
    texts = [f"{loss_text(paired(*ends(arm, arm.seeds, 'joint')))} with {size_of(arm):g}" for arm in sizes.larger]
    return join(texts) if texts else ""


def judged_note(sizes: Sizes) -> str:
    """Which arm is judged where several could be, and how the others change."""
    changes = f"from their peak to the end larger ones change, right and valid, by {larger_falls(sizes)}"
    return f"Judged is {sizes.label}; {changes}." if sizes.larger else ""


def weak_conditioning(sizes: Sizes, column: str, falls: bool) -> tuple[Outcome, str]:
    """What is said of the rival, and a sentence for the answer (empty where one size only was tried). `falls` says
    whether the arm with the smallest vectors clearly does, in `column`."""
    small, equal = sizes.smallest, sizes.equal
    low = f"{size_of(small):g}"
    if not sizes.larger:
        return _open(f"In {small.study.name} class vectors begin with one size only; the study spread asks it."), ""
    answer = f"That is with class vectors that begin small ({low}); "
    unknown = f"{answer}whether it falls as far with {EQUAL:g} cannot be told."
    if equal is None:
        return _open(f"No other arm of {small.study.name} differs only in vectors that begin at {EQUAL:g}."), unknown
    if not falls:
        what = "What is right and valid" if column == "joint" else "What the probe names right"
        return _open(f"{what} does not clearly fall with {low}, so there is nothing that could go away."), unknown
    seeds = common_seeds([small, equal])
    if len(seeds) < FEWEST_SEEDS.value:
        few = f"{len(seeds)} seed{'' if len(seeds) == 1 else 's'}"
        return _open(f"Arms {small.name} and {equal.name} share {few}, too few to judge."), unknown
    if not testing.learned(equal, Measure(), seeds):
        label = f"With {EQUAL:g} {MASKGIT}"
        return _open(f"{testing.not_learned(label, equal, Measure(), seeds)}."), unknown
    return _compare(sizes, equal, seeds, column, answer, unknown)


def _open(sentence: str) -> Outcome:
    return Outcome(WEAK, "cannot tell", sentence)


def _compare(
    sizes: Sizes, equal: Arm, seeds: Sequence[int], column: str, answer: str, unknown: str
) -> tuple[Outcome, str]:
    """The rule at the top of this file."""
    (top, end), (top_equal, end_equal) = (ends(arm, seeds, column) for arm in (sizes.smallest, equal))
    tests = {"goes away": paired(top - end, top_equal - end_equal), "is there too": paired(top_equal, end_equal)}
    p = testing.corrected(tests)
    part = tests["is there too"].mean / (top - end).mean()  # of the fall that is there with larger vectors too
    word: Said = "cannot tell"
    if part > MOST.value and testing.is_clear(tests["is there too"], p["is there too"]):
        word = "contradicted"
    elif part < MOST.value and matters(tests["goes away"], p["goes away"]):
        word = "supported"
    what = "right and valid" if column == "joint" else "named right"
    told = [share_text(interval(values, share=True)) for values in (top, end, top_equal, end_equal)]
    sentence = (
        f"At level-2, {what} go from {told[0]} to {told[1]} with {size_of(sizes.smallest):g} and from {told[2]} to "
        f"{told[3]} with {EQUAL:g} ({loss_text(tests['is there too'], p['is there too'])}); the first fall is larger "
        f"by {gain_text(tests['goes away'], p['goes away'])}."
    )
    if word == "supported" and top_equal.mean() < (top - end).mean():
        word = "cannot tell"
        sentence += " But larger vectors never have as much as small ones lose, so they could not fall as far."
    said = {
        "supported": f"{answer}with larger ones ({EQUAL:g}) it falls less than half as far.",
        "contradicted": f"{answer}with larger ones ({EQUAL:g}) it falls too, more than half as far.",
        "cannot tell": unknown,
    }
    return Outcome(WEAK, word, sentence), said[word]


def size_panel(sizes: Sizes) -> Lines:
    """Level-2 right and valid, a curve for each size of vectors."""
    lines = []
    for i, arm in enumerate((sizes.smallest, *sizes.larger)):
        own = cells(arm, arm.seeds)
        values = own.mean(own.at(FAR), "joint")
        lines.append(Line(f"vectors {size_of(arm):g}", COLOURS[i % len(COLOURS)], own.steps, values))
    return Lines("Right and valid, by class vectors", tuple(lines))
