"""What a claim is, what its parts say, and how they add up to one of four verdicts.

A claim is split into parts, each a comparison that is tested by itself:

- a *core* part is the claim: all must hold for "reproduced", one that holds at least in part makes it "partly";
- a *limit* must hold as well for "reproduced", but proves nothing alone (that MaskGIT fails, that its curve is flat);
- an *aside* is a weaker form of the claim (another setting, another moment): it can lift "not reproduced" to "partly";
- a *veto* that fails makes the claim "not reproduced", whatever else holds.

A part has failed where its test was made and did not show it; its sentence says whether the claim is ruled out or only
not shown. It is open where no test can be made (an arm that did not learn, a run too short to see what comes late). A
claim whose core is wholly open, or whose arms are not there, is untested: silence is never taken for a refutation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from recombine.claims.tables import Arm, Measure, StudyTable
from recombine.judges.statistics import Interval
from recombine.report.drawn import can_be_drawn
from recombine.report.words import percent, points

Unit = Literal["points", "share", "cosine", "R²", "log10"]
"""What a claim's number is: a difference of shares, told in percentage points; a share; or a plain difference of
cosines, of R², of logarithms."""

Word = Literal["reproduced", "partly", "not reproduced", "untested"]
WORDS: tuple[Word, ...] = ("reproduced", "partly", "not reproduced", "untested")


class Untested(Exception):
    """Raised by a claim's function where a study cannot answer; the text says why, as a sentence."""


@dataclass(frozen=True)
class Threshold:
    """A number that a verdict depends on, fixed before the runs that it judges, and why it is that number."""

    name: str
    value: float
    reason: str


@dataclass(frozen=True)
class Part:
    """One comparison of a claim."""

    name: str
    state: Literal["held", "in part", "failed", "open"]
    sentence: str  # may be empty where another part says it already
    role: Literal["core", "limit", "aside", "veto"] = "core"


@dataclass(frozen=True)
class Shown:
    """One arm in a claim's figure, beside what was published of it."""

    label: str
    arm: Arm
    colour: str
    curve: str | None = None  # its name in published.csv
    published: float | None = None  # share at level-2, mean of the last fifth


@dataclass(frozen=True)
class Extra:
    """A second group of numbers in a claim's figure: one share per seed."""

    label: str
    values: tuple[float, ...]
    colour: str
    published: float | None = None


@dataclass(frozen=True)
class Finding:
    """What a claim's function found in one study."""

    study: StudyTable
    parts: tuple[Part, ...]
    ours: Interval  # of the claim's measure
    arms: Mapping[str, str]  # {what it stands for: the arm's name}
    notes: tuple[str, ...] = ()  # evidence beside the parts
    limits: tuple[str, ...] = ()  # what keeps the answer from being stronger, beside the parts that are limits
    shown: tuple[Shown, ...] = ()
    extras: tuple[Extra, ...] = ()
    extras_title: str = ""
    diamond: str = "published"  # what `published` is in the figure
    beside: tuple[StudyTable, ...] = ()  # other studies that the finding was read from
    lacking: tuple[str, ...] = ()  # what the claim asks about and the study has no arm for

    @property
    def verdict(self) -> Word:
        return add_up(self.parts)

    @property
    def weaker(self) -> list[Part]:
        """The weaker forms of the claim that hold where its core does not, not even in part: they are why it is
        "partly"."""
        if any(part.role == "core" and part.state in ("held", "in part") for part in self.parts):
            return []
        return [part for part in self.parts if part.role == "aside" and part.state == "held"]


Judge = Callable[[StudyTable, Mapping[str, StudyTable], Measure], Finding]
"""(the study asked, all studies given by name, what is measured) to a finding; raises Untested."""


@dataclass(frozen=True)
class Claim:
    """A claim of a paper: what it says, what was published, and the function that tests it, if there is one."""

    id: str
    title: str
    statement: str
    published: str
    value: float | None = None  # the published number of the same measure as ours, in `unit`
    measure: str = ""  # what `value` and our number are
    unit: Unit = "points"
    trust: str = ""  # how far the published number can be trusted
    studies: tuple[str, ...] = ()  # names of the studies that can answer, the best first
    judge: Judge | None = None
    why_untested: str = ""
    thresholds: tuple[Threshold, ...] = ()
    drawn: bool = False  # whether RESULTS.md shows what the models draw, where the study has its pictures

    def text(self, value: float, digits: int = 2) -> str:
        """A value of this claim's number, without its unit: "+58" points, "29 %", "+0.79"."""
        if self.unit == "points":
            return points(value)
        if self.unit == "share":
            return percent(value)
        digits = digits if round(value, digits) or not value else digits + 1  # what is not 0 does not look like 0
        return f"{value:+.{digits}f}".replace("-", "\u2212")

    def with_ends(self, found: Interval) -> str:
        """A mean with both ends of its interval, where they are known, without the unit: "+4 (-4 to +12)"."""
        if found.low is None or found.high is None:
            return self.text(found.mean)
        digits = 3 if self.text(found.low) == self.text(found.high) else 2  # a narrow interval still has two ends
        mean, low, high = (self.text(value, digits) for value in (found.mean, found.low, found.high))
        return f"{mean} ({low} to {high})"

    @property
    def unit_text(self) -> str:
        """The unit as it is written after a number; empty where the number itself shows it."""
        return "" if self.unit == "share" else f" {self.unit}"


@dataclass(frozen=True)
class Verdict:
    """The answer to one claim: a row of the ledger."""

    claim: Claim
    verdict: Word
    finding: Finding | None
    evidence: tuple[str, ...]  # sentences
    limits: tuple[str, ...] = field(default=())  # sentences: what keeps the answer from being stronger
    by_probe: Interval | None = None  # our number as the papers count: what a probe names right, valid or not
    word_by_probe: Word | None = None  # and the verdict

    @property
    def id(self) -> str:
        return self.claim.id

    @property
    def seeds(self) -> int:
        return self.finding.ours.n if self.finding else 0

    @property
    def turned(self) -> str:
        """The verdict as the papers count, where it is another one; else empty."""
        told = self.verdict != "untested" and self.word_by_probe not in (None, "untested", self.verdict)
        return str(self.word_by_probe) if told else ""

    @property
    def pictured(self) -> StudyTable | None:
        """The study whose pictures stand beside it, where the claim asks for them and the study has them."""
        study = self.finding.study if self.finding and self.claim.drawn else None
        return study if study and can_be_drawn(study.finished) else None

    def to_json(self) -> dict[str, Any]:
        """The object of `recombine claims --json`. Shares and differences of shares are out of 1: `unit` says which
        numbers are none."""
        found = self.finding
        return {
            "id": self.id,
            "title": self.claim.title,
            "statement": self.claim.statement,
            "published": self.claim.value,
            "published_text": self.claim.published,
            "measure": self.claim.measure,
            "unit": self.claim.unit,
            "ours": found.ours.mean if found else None,
            "interval": _ends(found.ours if found else None),
            "by_probe": self.by_probe.mean if self.by_probe else None,
            "by_probe_interval": _ends(self.by_probe),
            "seeds": self.seeds,
            "verdict": self.verdict,
            "study": found.study.name if found else None,
            "arms": dict(found.arms) if found else {},
            "parts": [
                {"name": part.name, "role": part.role, "state": part.state, "sentence": part.sentence}
                for part in (found.parts if found else ())
            ],
            "evidence": list(self.evidence),
            "limits": list(self.limits),
            "thresholds": {one.name: one.value for one in self.claim.thresholds},
        }


def _ends(found: Interval | None) -> list[float] | None:
    """Both ends of an interval that is known."""
    return None if found is None or found.low is None or found.high is None else [found.low, found.high]


def add_up(parts: tuple[Part, ...]) -> Word:
    """The verdict of a claim from its parts, by the rules at the top of this file."""
    states = {role: [part.state for part in parts if part.role == role] for role in ("core", "limit", "aside", "veto")}
    core = states["core"]
    if not core or all(state == "open" for state in core):
        return "untested"
    if "failed" in states["veto"]:
        return "not reproduced"
    if all(state == "held" for state in core) and all(state == "held" for state in states["limit"]):
        return "reproduced"
    if "held" in core or "in part" in core or "held" in states["aside"]:
        return "partly"
    return "not reproduced"
