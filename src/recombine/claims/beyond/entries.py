"""What an entry is: a question that no paper asks, the comparisons that answer it, and a figure of up to three panels.

A comparison is a - b of one number per seed, paired by seed, its p-value Holm-corrected over all comparisons of the
entry. It is

- "higher" or "lower" where it is clear (*clear*) and at least *matters*;
- "alike" where its whole 95 % interval lies within *matters* of 0;
- "not clear" otherwise: the seeds cannot tell, or a clear difference is smaller than *matters* and may yet be larger;
- "neither composes" instead of "alike", where a question asks for it (B6), if both means are below *composes*: two arms
  at the floor are within *matters* of each other whatever is turned, so that says nothing about what it costs.

Shapes: S seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from recombine.claims.tables import Curve, Measure, StudyTable
from recombine.claims.testing import CLEAR, FEWEST_SEEDS, LEARNED, MATTERS, gain_text
from recombine.claims.verdicts import Threshold
from recombine.judges.statistics import Difference, Interval, interval
from recombine.report.drawn import can_be_drawn

Said = Literal["higher", "lower", "alike", "not clear", "neither composes"]
Tone = Literal["clear", "none", "open"]
Numbers = Mapping[int, float]
"""{seed: one number}."""

SHARED = (CLEAR, FEWEST_SEEDS, LEARNED, MATTERS)


@dataclass(frozen=True)
class Contrast:
    """One comparison: a - b, paired by seed. Shares are told in points, anything else as a plain number."""

    label: str
    values: Numbers  # the differences
    test: Difference
    p: float  # Holm's, over the entry
    in_points: bool = True
    both_low: bool = False  # both means are below the floor that the question set

    @property
    def word(self) -> Said:
        if self.p < CLEAR.value and abs(self.test.mean) >= MATTERS.value:
            return "higher" if self.test.mean > 0 else "lower"
        low, high = self.test.low, self.test.high
        within = low is not None and high is not None and -MATTERS.value < low and high < MATTERS.value
        if not within:
            return "not clear"
        return "neither composes" if self.both_low else "alike"

    @property
    def text(self) -> str:
        """ "+58 points (+46 to +70)", or "+0.58 (+0.46 to +0.70)": whether it is clear is said in words."""
        if self.in_points:
            return gain_text(self.test)
        low, high = self.test.low or 0.0, self.test.high or 0.0
        return f"{self.test.mean:+.2f} ({low:+.2f} to {high:+.2f})".replace("-", "\u2212")


@dataclass(frozen=True)
class Line:
    """One family over a quantity that is turned: numbers per seed where it was tried."""

    label: str
    colour: str
    values: Mapping[str, Sequence[float]]  # {tick: shares of the seeds, (S,)}


@dataclass(frozen=True)
class Over:
    """A panel of shares over a quantity, its values as ticks side by side."""

    title: str
    axis: str
    ticks: tuple[str, ...]
    lines: tuple[Line, ...]
    names: bool = True  # whether the families' names stand above it


@dataclass(frozen=True)
class Row:
    label: str
    colour: str
    values: tuple[float, ...]  # shares, (S,)


@dataclass(frozen=True)
class Rows:
    """A panel with a row per arm: a dot per seed, the mean and its interval; `mark` is a line to look up to."""

    title: str
    rows: tuple[Row, ...]
    mark: float | None = None
    mark_name: str = ""


@dataclass(frozen=True)
class Gains:
    """A panel with a row per comparison: a dot per seed, the mean and its interval, in points around 0."""

    title: str
    contrasts: tuple[Contrast, ...]
    named_only: tuple[str, ...] = ()  # rows of comparisons that can be made by the probe alone only


@dataclass(frozen=True)
class Curves:
    """A panel of learning curves: means over seeds with their intervals."""

    title: str
    lines: Mapping[str, tuple[str, Curve]]  # {label: (colour, curve)}


Panel = Over | Rows | Gains | Curves


@dataclass(frozen=True)
class Found:
    """What a question's function found."""

    studies: tuple[StudyTable, ...]  # that it was read from, the main one first
    answer: str  # one sentence with numbers
    word: str  # the answer in two or three words
    tone: Tone  # whether these say that something is there, that nothing is, or that it is open
    contrasts: tuple[Contrast, ...]
    measure: str  # what `ours` is
    arms: Mapping[str, str]  # {what it stands for: the arm's name}
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()  # evidence beside the answer, needed to read it
    more: tuple[str, ...] = ()  # further evidence, folded on the page
    limits: tuple[str, ...] = ()
    afterwards: bool = False  # what is compared was written when the study had been seen
    ours_of: tuple[str, ...] = ()  # labels of the comparisons that `ours` is the mean of; none: of all
    in_brief: str = ""  # a sentence for the first screen, where the comparisons do not say enough

    @property
    def ours(self) -> Interval:
        return together([one for one in self.contrasts if not self.ours_of or one.label in self.ours_of])


Judge = Callable[[Mapping[str, StudyTable], Measure], Found]
"""(all studies given by name, what is measured) to what was found; raises verdicts.Untested."""


@dataclass(frozen=True)
class Question:
    """A question that no paper asks, and the function that puts it to the studies."""

    id: str
    claim: str  # the claim whose subject it continues: in `--json` it stands there
    title: str
    question: str
    compares: str  # what is compared, as it is drawn over the figure
    studies: tuple[str, ...]  # it is asked where one of these is given
    judge: Judge
    beside: tuple[str, ...] = ()  # further studies that it reads where they are given
    drawn: bool = False  # whether RESULTS.md shows what the models draw, where the study has its pictures
    own_count: bool = False  # it counts something of its own: neither the probe nor a peak is asked beside
    thresholds: tuple[Threshold, ...] = SHARED


@dataclass(frozen=True)
class Entry:
    """The answer to one question whose study was given."""

    asked: Question
    found: Found | None
    why: str = ""  # why there is no answer, a sentence
    limits: tuple[str, ...] = field(default=())
    by_probe: Found | None = None  # the same again, counting what the probe alone names right, valid or not

    @property
    def id(self) -> str:
        return self.asked.id

    @property
    def named(self) -> tuple[Contrast, ...]:
        """The comparisons by the probe alone."""
        return self.by_probe.contrasts if self.by_probe else ()

    @property
    def pictured(self) -> StudyTable | None:
        """The study whose pictures stand beside it, where the question asks for them and the study has them."""
        study = self.found.studies[0] if self.found and self.asked.drawn else None
        return study if study and can_be_drawn(study.finished) else None

    @property
    def word(self) -> str:
        return self.found.word if self.found else "no answer yet"

    @property
    def text(self) -> str:
        return self.found.answer if self.found else self.why

    def to_json(self) -> dict[str, Any]:
        """The object under "beyond" of its claim in `recombine claims --json`, with the keys that a claim's has;
        numbers are out of 1. Nothing is published, so the verdict is the answer in a few words."""
        found = self.found
        known = found is not None and found.ours.low is not None
        named = {one.label: one for one in self.named}
        made = [one.label for one in found.contrasts] if found else []
        return {
            "id": self.id,
            "title": self.asked.title,
            "statement": self.asked.question,
            "published": None,
            "measure": found.measure if found else "",
            "ours": found.ours.mean if found else None,
            "interval": [found.ours.low, found.ours.high] if found and known else None,
            "seeds": found.ours.n if found else 0,
            "ours_of": list(found.ours_of or made) if found else [],
            "verdict": self.word,
            "answer": self.text,
            "studies": [study.name for study in found.studies] if found else [],
            "arms": dict(found.arms) if found else {},
            "comparisons": [
                {
                    "name": one.label,
                    "difference": one.test.mean,
                    "interval": _ends(one),
                    "p": one.p,
                    "word": one.word,
                    "by_probe": named[one.label].test.mean if one.label in named else None,
                    "by_probe_interval": _ends(named[one.label]) if one.label in named else None,
                    "by_probe_word": named[one.label].word if one.label in named else None,
                }
                for one in (found.contrasts if found else ())
            ],
            "by_probe_only": [
                {
                    "name": one.label,
                    "by_probe": one.test.mean,
                    "by_probe_interval": _ends(one),
                    "by_probe_word": one.word,
                }
                for one in self.named
                if one.label not in made
            ],
            "evidence": [*found.notes, *found.more] if found else [],
            "limits": list(self.limits),
            "thresholds": {one.name: one.value for one in self.asked.thresholds},
        }


def _ends(one: Contrast) -> list[float | None] | None:
    return None if one.test.low is None else [one.test.low, one.test.high]


def together(contrasts: Sequence[Contrast]) -> Interval:
    """The mean of several comparisons, seed by seed, over the seeds that all have."""
    seeds = sorted(set.intersection(*(set(one.values) for one in contrasts)))
    return interval(np.mean([[one.values[seed] for seed in seeds] for one in contrasts], axis=0))
