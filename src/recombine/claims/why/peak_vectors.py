"""E1's rivals "weak conditioning" and "loud conditioning": does MaskGIT fall because the vectors of its classes begin
small, or because they begin large?

They are asked where arms differ in `conditioning.spread` alone, of the arm with the smallest, or the largest, and the
one that begins at `EQUAL`. Each arm falls from its own early peak; the falls are paired by seed, and the tests below
are Holm-corrected together. A rival is

- contradicted where the arm that begins at `EQUAL` clearly falls too, by more than half as much;
- supported where the difference of the falls is clear and matters, the arm at `EQUAL` falls by less than half as much,
  and it had at its own peak at least as much as the other loses: what never rose could not fall as far;
- else, or where the small, or large, vectors do not clearly fall, it cannot be told.

Weak conditioning is asked of what the caller measures, loud conditioning of what the probe names right: that is how the
published fall was counted, and hardly a picture of it need be valid. The rule on weak conditioning was fixed before the
study spread was run at size s. That on loud conditioning was written when spread and loud had been seen, and before the
study peak, whose seeds neither has. Shapes: E evaluations, S seeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recombine.claims import lookup, testing
from recombine.claims.tables import FAR, NAMED, Arm, Measure, common_seeds
from recombine.claims.testing import FEWEST_SEEDS, gain_text, loss_text, share_text
from recombine.claims.why.answers import MOST, Line, Lines, Outcome, Said, matters
from recombine.claims.why.cells import cells, early, late, peaks
from recombine.judges.statistics import interval, paired
from recombine.report.words import join, percent

MASKGIT = "MaskGIT"
WEAK, LOUD = "weak conditioning", "loud conditioning"
PREDICTIONS = {
    WEAK: "MaskGIT loses level-2 because the vectors of its classes begin small beside the rest: with larger ones it "
    "falls less than half as far.",
    LOUD: "MaskGIT loses the level-2 that a probe names right because the vectors of its classes begin large beside "
    "the rest: with smaller ones it falls less than half as far.",
}
SIZE = "conditioning.spread"
EQUAL = 0.2
"""With this spread the vectors of three factors together begin as large as the time that is added to them."""

SEEN = ("spread", "loud")
"""The studies that had been seen when the rule on loud conditioning was written."""

COLOURS = ("red", "blue", "ochre", "green", "violet", "grey")


@dataclass(frozen=True)
class Sizes:
    """Arms of MaskGIT that differ in nothing but how large the vectors of their classes begin, ascending."""

    every: tuple[Arm, ...]

    @property
    def equal(self) -> Arm | None:
        return next((arm for arm in self.every if np.isclose(size_of(arm), EQUAL)), None)

    @property
    def small(self) -> Arm | None:
        """The arm with the smallest vectors, where they begin below `EQUAL`."""
        return self.every[0] if size_of(self.every[0]) < EQUAL and self.every[0] != self.equal else None

    @property
    def large(self) -> Arm | None:
        """The arm with the largest vectors, where they begin above `EQUAL`."""
        return self.every[-1] if size_of(self.every[-1]) > EQUAL and self.every[-1] != self.equal else None

    @property
    def judged(self) -> Arm:
        """The arm that E1 judges: the one with the smallest vectors, or where none begin small the largest."""
        return self.small or self.large or self.every[0]

    @property
    def others(self) -> tuple[Arm, ...]:
        return tuple(arm for arm in self.every if arm != self.judged)

    @property
    def label(self) -> str:
        """What the arm that is judged stands for."""
        end = "smallest" if self.judged == self.every[0] else "largest"
        return f"{MASKGIT} with the {end} class vectors ({size_of(self.judged):g})" if self.others else MASKGIT

    @property
    def arms(self) -> dict[str, str]:
        """{what it stands for: the arm's name}."""
        named = {self.label: self.judged.name}
        if self.others and self.equal is not None:
            named[f"{MASKGIT} with {'larger' if self.small else 'smaller'} ones ({EQUAL:g})"] = self.equal.name
        if self.small and self.large:
            named[f"{MASKGIT} with the largest ({size_of(self.large):g})"] = self.large.name
        return named


def size_of(arm: Arm) -> float:
    """How large class vectors begin; 0 in a study from before that was a setting."""
    return float(arm.setting(SIZE) or 0)


def by_size(arms: Sequence[Arm]) -> Sizes | None:
    """The arm with the smallest vectors, the first where several have them, with those that differ in that alone."""
    if not arms:
        return None
    smallest = min(arms, key=size_of)
    others = [arm for arm in arms if size_of(arm) > size_of(smallest) and not lookup.differences(arm, smallest, [SIZE])]
    return Sizes((smallest, *sorted(others, key=size_of)))


def ends(arm: Arm, seeds: Sequence[int], column: str) -> tuple[np.ndarray, np.ndarray]:
    """Level-2 at the arm's own early peak and over the last fifth, (S,) each."""
    own = cells(arm, seeds)
    values = own.mean(own.at(FAR), column)
    return early(values, peaks(values)), late(values)


def other_falls(sizes: Sizes) -> str:
    """How what is right and valid changes from its peak to the end in arms with other vectors, each by itself:
    "-3 points (-8 to +1) with 0.2". Empty where there are none."""
    texts = [f"{loss_text(paired(*ends(arm, arm.seeds, 'joint')))} with {size_of(arm):g}" for arm in sizes.others]
    return join(texts) if texts else ""


def judged_note(sizes: Sizes) -> str:
    """Which arm is judged where several could be, and how the others change."""
    changes = f"from their peak to the end others change, right and valid, by {other_falls(sizes)}"
    return f"Judged is {sizes.label}; {changes}." if sizes.others else ""


def weak_conditioning(sizes: Sizes, column: str, falls: bool) -> tuple[Outcome, str]:
    """What is said of the rival, and a sentence for the answer (empty where no vectors begin small). `falls` says
    whether the arm with the smallest vectors clearly does, in `column`."""
    small, equal = sizes.small, sizes.equal
    if small is None or not sizes.others:
        return _open(WEAK, _one_size(sizes, "smaller")), ""
    low = f"{size_of(small):g}"
    answer = f"That is with class vectors that begin small ({low}); "
    unknown = f"{answer}whether it falls as far with {EQUAL:g} cannot be told."
    if equal is None:
        return _open(WEAK, _no_equal(small)), unknown
    if not falls:
        return _open(WEAK, _no_fall(column, low)), unknown
    seeds = common_seeds([small, equal])
    if why := _cannot_compare(small, equal, seeds):
        return _open(WEAK, why), unknown
    word, sentence = _compare(small, equal, seeds, column)
    said = {
        "supported": f"{answer}with larger ones ({EQUAL:g}) it falls less than half as far.",
        "contradicted": f"{answer}with larger ones ({EQUAL:g}) it falls too, more than half as far.",
        "cannot tell": unknown,
    }
    return Outcome(WEAK, word, sentence), said[word]


def loud_conditioning(sizes: Sizes) -> tuple[Outcome, str]:
    """What is said of the rival, and a sentence for the answer (empty where no vectors begin large)."""
    large, equal = sizes.large, sizes.equal
    if large is None or not sizes.others:
        return _open(LOUD, _one_size(sizes, "larger")), ""
    high = f"{size_of(large):g}"
    unknown = f"Whether vectors that begin large ({high}) make it fall cannot be told."
    if equal is None:
        return _open(LOUD, _no_equal(large)), unknown
    seeds = common_seeds([large, equal])
    if why := _cannot_compare(large, equal, seeds):
        return _open(LOUD, why), unknown
    if not testing.learned(large, Measure(), seeds):
        return _open(LOUD, f"{testing.not_learned(f'With {high} {MASKGIT}', large, Measure(), seeds)}."), unknown
    word, sentence = _compare(large, equal, seeds, NAMED, ask_fall=True)
    if large.study.name in SEEN:
        sentence += " (The rule was written when this study had been seen.)"
    ways = {
        size: join([percent(float(values.mean())) for values in ends(arm, seeds, NAMED)], "to")
        for size, arm in ((high, large), (f"{EQUAL:g}", equal))
    }
    where = f"That is with class vectors that begin large ({high}): there"
    if sizes.judged is not large:
        where = f"Where class vectors begin large ({high}),"
    falls = f"{where} what the probe names right at level-2 falls from {ways[high]}"
    said = {
        "supported": f"{falls}, with {EQUAL:g} less than half as far (from {ways[f'{EQUAL:g}']}).",
        "contradicted": f"{falls}, but with {EQUAL:g} more than half as far (from {ways[f'{EQUAL:g}']}).",
        "cannot tell": unknown,
    }
    return Outcome(LOUD, word, sentence), said[word]


def _open(rival: str, sentence: str) -> Outcome:
    return Outcome(rival, "cannot tell", sentence)


def _one_size(sizes: Sizes, other: str) -> str:
    study = sizes.every[0].study.name
    if sizes.others:
        return f"In {study} no class vectors begin {other} than {EQUAL:g}."
    asks = "spread" if other == "smaller" else "peak"
    return f"In {study} all class vectors begin with one size ({size_of(sizes.every[0]):g}); the study {asks} asks it."


def _no_equal(arm: Arm) -> str:
    return f"No other arm of {arm.study.name} differs only in vectors that begin at {EQUAL:g}."


def _no_fall(column: str, size: str) -> str:
    what = "What is right and valid" if column == "joint" else "What the probe names right"
    return f"{what} does not clearly fall with {size}, so there is nothing that could go away."


def _cannot_compare(arm: Arm, equal: Arm, seeds: Sequence[int]) -> str:
    """Why the two cannot be compared; empty where they can."""
    if len(seeds) < FEWEST_SEEDS.value:
        few = f"{len(seeds)} seed{'' if len(seeds) == 1 else 's'}"
        return f"Arms {arm.name} and {equal.name} share {few}, too few to judge."
    if not testing.learned(equal, Measure(), seeds):
        return f"{testing.not_learned(f'With {EQUAL:g} {MASKGIT}', equal, Measure(), seeds)}."
    return ""


def _compare(arm: Arm, equal: Arm, seeds: Sequence[int], column: str, ask_fall: bool = False) -> tuple[Said, str]:
    """The rule at the top of this file. `ask_fall`: whether `arm` itself falls is not known yet, and asked here."""
    (top, end), (top_equal, end_equal) = (ends(one, seeds, column) for one in (arm, equal))
    tests = {"goes away": paired(top - end, top_equal - end_equal), "is there too": paired(top_equal, end_equal)}
    if ask_fall:
        tests["falls"] = paired(top, end)
    p = testing.corrected(tests)
    if ask_fall and not matters(tests["falls"], p["falls"]):
        lost = loss_text(tests["falls"], p["falls"])
        return "cannot tell", f"{_no_fall(column, f'{size_of(arm):g}')[:-1]} ({lost})."
    part = tests["is there too"].mean / (top - end).mean()  # of the fall that is there at EQUAL too
    word: Said = "cannot tell"
    if part > MOST.value and testing.is_clear(tests["is there too"], p["is there too"]):
        word = "contradicted"
    elif part < MOST.value and matters(tests["goes away"], p["goes away"]):
        word = "supported"
    what = "right and valid" if column == "joint" else "named right"
    told = [share_text(interval(values, share=True)) for values in (top, end, top_equal, end_equal)]
    sentence = (
        f"At level-2, {what} go from {told[0]} to {told[1]} with {size_of(arm):g} and from {told[2]} to "
        f"{told[3]} with {EQUAL:g} ({loss_text(tests['is there too'], p['is there too'])}); the first fall is larger "
        f"by {gain_text(tests['goes away'], p['goes away'])}."
    )
    if word == "supported" and top_equal.mean() < (top - end).mean():
        word = "cannot tell"
        sentence += f" But with {EQUAL:g} it never has as much as the other loses, so it could not fall as far."
    return word, sentence


def size_panel(sizes: Sizes) -> Lines:
    """Level-2, a curve for each size of vectors: right and valid, or where large ones are judged named right."""
    column, what = ("joint", "Right and valid") if sizes.small or not sizes.large else (NAMED, "Named right")
    lines = []
    for i, arm in enumerate(sizes.every):
        own = cells(arm, arm.seeds)
        values = own.mean(own.at(FAR), column)
        lines.append(Line(f"vectors {size_of(arm):g}", COLOURS[i % len(COLOURS)], own.steps, values))
    return Lines(f"{what}, by class vectors", tuple(lines))
