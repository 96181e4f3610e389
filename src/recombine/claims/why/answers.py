"""What an explanation is: a question that the papers leave open, rivals with their predictions, and what tables say.

A rival is *supported* or *contradicted* where a test of its prediction says so clearly; else the seeds *cannot tell*.
Rivals may be supported together: they need not exclude each other. Tests stand in an order, so that which factor is
lost is only asked where something clearly is; tests side by side are corrected together (Holm). Shapes: E evaluations,
S seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from recombine.claims.tables import Arm, Measure, StudyTable
from recombine.claims.testing import CLEAR, MATTERS, is_clear
from recombine.claims.verdicts import Extra, Threshold, Untested
from recombine.judges.statistics import Difference, Interval, paired

Said = Literal["supported", "contradicted", "cannot tell"]
Word = Literal["explained", "partly explained", "not explained", "cannot tell", "untested"]

MOST = Threshold(
    "most",
    0.5,
    "an explanation that says what most of something is must clearly account for more than half of it, and is "
    "contradicted where it clearly accounts for less; ours",
)


class NothingToExplain(Untested):
    """Raised where a study could answer, but does not show what the question asks about: a finding by itself, which
    stands beside the answer of another study. `arms` are those that do not show it."""

    def __init__(self, reason: str, arms: Sequence[Arm] = ()):
        super().__init__(reason)
        self.arms = tuple(arms)


@dataclass(frozen=True)
class Outcome:
    """What the tables say of one rival."""

    rival: str
    word: Said
    sentence: str  # our numbers


@dataclass(frozen=True)
class Line:
    """Curves of one kind in a figure: a mean over seeds with its interval, or every seed by itself."""

    label: str
    colour: str
    steps: np.ndarray  # (E,)
    values: np.ndarray  # (E, S), shares


@dataclass(frozen=True)
class Lines:
    """A panel of curves over training steps."""

    title: str
    lines: tuple[Line, ...]
    every_seed: bool = False
    named: bool = True  # not where the rows of dots beside it bear the same names in the same colours


@dataclass(frozen=True)
class NotKnown(Extra):
    """A row whose number is not known of some seeds, or of any: `values` are the known ones."""

    why: str = ""
    span: tuple[float, float] | None = None  # ends of the mean's interval that hold whatever the unknown ones are


@dataclass(frozen=True)
class Dots:
    """A panel with a row per number: one per seed. `diamond` says what `Extra.published` is, if anything.

    Rows of one panel have one unit: shares read as percentages, parts of 1, or training steps.
    """

    title: str
    rows: tuple[Extra, ...]
    diamond: str = ""
    unit: Literal["%", "of 1", "steps"] = "%"
    axis: str = ""  # what the axis shows, where the title does not say it all


@dataclass(frozen=True)
class Grid:
    """A panel of differences of shares, told in points: rows by columns."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: np.ndarray  # (rows, columns)


Panel = Lines | Dots | Grid


@dataclass(frozen=True)
class Explained:
    """What an explanation's function found in one study."""

    study: StudyTable
    answer: str  # one or two plain sentences
    outcomes: tuple[Outcome, ...]
    ours: Interval  # of the explanation's measure
    arms: Mapping[str, str]  # {what it stands for: the arm's name, in this study}
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()  # of this answer, beside those that every answer has
    beside: tuple[StudyTable, ...] = ()  # other studies that it was read from
    counted: str = ""  # what was counted, where it is not what is right and valid
    open: bool = False  # whether a part of the question is left without an answer, though a rival is supported

    @property
    def word(self) -> Word:
        said = {one.word for one in self.outcomes}
        if "supported" in said:
            return "partly explained" if self.open else "explained"
        return "cannot tell" if "cannot tell" in said else "not explained"


Judge = Callable[[StudyTable, Mapping[str, StudyTable], Measure], Explained]
"""(the study asked, all studies given by name, what is measured) to what was found; raises verdicts.Untested."""


@dataclass(frozen=True)
class Explanation:
    """A question, the explanations that compete for it, and the function that puts them to a study."""

    id: str
    claim: str  # the claim whose finding it explains
    title: str
    question: str
    rivals: Mapping[str, str]  # {rival: what it predicts}
    measure: str  # what our number is, a difference of shares or of widths
    studies: tuple[str, ...]
    judge: Judge
    beside: tuple[str, ...] = ()  # further studies that it reads where they are given
    thresholds: tuple[Threshold, ...] = ()
    caveat: str = ""  # a limit of the test itself, whatever it finds


@dataclass(frozen=True)
class Answer:
    """The answer to one explanation's question: a row of the table below the ledger."""

    explanation: Explanation
    finding: Explained | None
    evidence: tuple[str, ...]  # sentences beside those of the outcomes; why not, where there is no finding
    limits: tuple[str, ...] = field(default=())
    elsewhere: tuple[str, ...] = ()  # of the evidence: studies that clearly say otherwise of a rival

    @property
    def id(self) -> str:
        return self.explanation.id

    @property
    def word(self) -> Word:
        return self.finding.word if self.finding else "untested"

    @property
    def text(self) -> str:
        """The answer in a sentence or two; why there is none, where there is none."""
        return self.finding.answer if self.finding else " ".join(self.evidence)

    def to_json(self) -> dict[str, Any]:
        """The object under "why" of its claim in `recombine claims --json`; numbers are out of 1."""
        found = self.finding
        known = found is not None and found.ours.low is not None
        said = {one.rival: one for one in (found.outcomes if found else ())}
        return {
            "id": self.id,
            "title": self.explanation.title,
            "question": self.explanation.question,
            "answer": self.text,
            "word": self.word,
            "measure": ", ".join(filter(None, [self.explanation.measure, found.counted if found else ""])),
            "ours": found.ours.mean if found else None,
            "interval": [found.ours.low, found.ours.high] if found and known else None,
            "seeds": found.ours.n if found else 0,
            "study": found.study.name if found else None,
            "arms": dict(found.arms) if found else {},
            "rivals": [
                {
                    "name": name,
                    "prediction": prediction,
                    "word": said[name].word if name in said else "untested",
                    "sentence": said[name].sentence if name in said else "",
                }
                for name, prediction in self.explanation.rivals.items()
            ],
            "evidence": list(self.evidence),
            "limits": list(self.limits),
            "thresholds": {one.name: one.value for one in self.explanation.thresholds},
        }


def above_zero(values: np.ndarray) -> Difference:
    """One number per seed, (S,), tested against 0."""
    return paired(values, np.zeros_like(values))


def matters(test: Difference, p: float | None) -> bool:
    """Whether a difference is clearly above 0, and large enough to count."""
    return is_clear(test, 1.0 if p is None else p) and test.mean >= MATTERS.value


def by_part(test: Difference, p: float | None) -> Said:
    """From a part of something that the rival says is there: contradicted where the interval rules out one that
    matters."""
    if matters(test, p):
        return "supported"
    return "contradicted" if test.high is not None and test.high < MATTERS.value else "cannot tell"


def by_test(test: Difference, p: float | None) -> Said:
    """From a - b, where the rival says that a is greater."""
    if p is None or p >= CLEAR.value or test.mean == 0:
        return "cannot tell"
    return "supported" if test.mean > 0 else "contradicted"


def by_share(share: Interval) -> Said:
    """From a share that the rival says is more than half, by its whole interval."""
    if share.low is None or share.high is None:
        return "cannot tell"
    if share.low > MOST.value:
        return "supported"
    return "contradicted" if share.high < MOST.value else "cannot tell"


def reverse(word: Said) -> Said:
    """What is said of a rival that predicts the opposite."""
    turned: dict[Said, Said] = {"supported": "contradicted", "contradicted": "supported"}
    return turned.get(word, word)
