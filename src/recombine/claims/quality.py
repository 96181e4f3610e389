"""Quality beside composition: are combinations drawn right at the cost of the pictures, or copied from training?

RESULTS.md shows it of every study that a verdict on generators rests on: a figure, and folded a paragraph and a table
of all numbers with their intervals; and of `BESIDE` the same without a figure. The numbers are those of
quality.parquet, taken at each arm's last measured step, over whole levels; `studies/quality_table.py` says what each
means. No verdict is reached by them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recombine.claims.ledger import FIGURES, QUALITY
from recombine.claims.tables import Measure, StudyTable
from recombine.claims.verdicts import Verdict
from recombine.claims.why.sections import folded, slug, source
from recombine.judges.statistics import Interval, interval
from recombine.report import words
from recombine.studies.quality_table import ABOUT

SHOWN = ("frechet", "precision", "recall", "diversity", "copied")
BESIDE = {"loud": "B9"}  # what becomes of quality where hardly a picture of new combinations is right, and its entry
TITLE = "Quality beside composition"
HEAD = (
    "What is right may be ugly, alike or copied. In the features of the probe: the Fréchet distance to real images "
    "(over their variance), precision (samples among real images of the combination), recall (real images among "
    "samples), diversity (1 as real images); in pixels, the share of copies (nearer to a training image than all but "
    "1 % of fresh ones, all as the tokenizer redraws them; more than fresh images have means copying). At the end of "
    "training, means and 95 % intervals over seeds; no verdict rests on them ([what they mean](docs/quality.md))."
)
Key = tuple[str, int, str]  # metric, level, arm


@dataclass(frozen=True)
class Quality:
    """The quality of a study's pictures, of the arms that verdicts are reached from."""

    study: StudyTable
    arms: tuple[str, ...]
    levels: tuple[int, ...]
    values: dict[Key, tuple[float, ...]]  # one number per seed, (S,)
    real: dict[tuple[str, int], float]  # (metric, level): what as many fresh real images get; copied: redrawn ones

    def of(self, metric: str, level: int, arm: str) -> Interval | None:
        """Mean and interval over seeds; None where it was not measured."""
        values = self.values.get((metric, level, arm))
        if not values:
            return None
        found = interval(values, share=ABOUT[metric].share)
        return Interval(found.mean, None if found.low is None else max(found.low, 0.0), found.high, found.n)


def qualities(verdicts: Sequence[Verdict]) -> list[Quality]:
    """One for each study of generators that gives a verdict and measured quality, in the order of the claims."""
    judged = [one.finding for one in verdicts if one.finding is not None and not one.finding.study.is_plane]
    giving = [one.finding.study.name for one in verdicts if one.finding is not None and one.verdict != "untested"]
    found = []
    for name in dict.fromkeys(one.study.name for one in judged if one.study.name in giving):
        own = [one for one in judged if one.study.name == name]
        named = {arm for one in own for arm in one.arms.values()}
        quality = _read(own[0].study, [arm for arm in own[0].study.finished.measured if arm in named])
        if quality is not None:
            found.append(quality)
    return found


def qualities_beside(studies: Mapping[str, StudyTable], shown: Sequence[Quality]) -> list[Quality]:
    """Those of `BESIDE` that are given, measured quality and are not shown already."""
    names = {one.study.name for one in shown}
    given = [studies[name] for name in BESIDE if name in studies and name not in names]
    found = [_read(study, list(study.finished.measured)) for study in given]
    return [one for one in found if one is not None]


def _read(study: StudyTable, arms: Sequence[str]) -> Quality | None:
    rows = [
        row
        for row in study.finished.quality
        if row["composition"] is None and row["metric"] in SHOWN and row["arm"] in arms
    ]
    last = {arm: max((row["step"] for row in rows if row["arm"] == arm), default=0) for arm in arms}
    values: dict[Key, list[float]] = {}
    real: dict[tuple[str, int], float] = {}
    for row in rows:
        if row["step"] == last[row["arm"]] and row["value"] is not None and math.isfinite(row["value"]):
            values.setdefault((row["metric"], row["level"], row["arm"]), []).append(row["value"])
            # Copies are looked for among training images as the tokenizer redraws them: so fresh ones are redrawn.
            reference = row["rebuilt" if row["metric"] == "copied" else "real"]
            if reference is not None:
                real.setdefault((row["metric"], row["level"]), reference)
    if not values:
        return None
    kept = tuple(arm for arm in arms if any(key[2] == arm for key in values))
    levels = tuple(sorted({level for _, level, _ in values}))
    return Quality(study, kept, levels, {key: tuple(own) for key, own in values.items()}, real)


def figure_name(quality: Quality) -> str:
    return f"{QUALITY}{quality.study.name}"


def quality_pointer(found: Sequence[Quality]) -> list[str]:
    """A line below the ledger that leads to the section."""
    return [f"How good the pictures are, and whether they are copied: [{TITLE}](#{slug(TITLE)})."] if found else []


def quality_sections(found: Sequence[Quality], home: Path, beside: Sequence[Quality] = ()) -> list[str]:
    """The section of RESULTS.md; nothing where no quality was measured."""
    if not (found or beside):
        return []
    parts = [f"## {TITLE}", HEAD]
    for one in found:
        parts += [
            f"![Quality of the pictures of {one.study.name}](results/{FIGURES}/{figure_name(one)}.png)",
            *folded([_ends_text(one), _table(one)], f"The numbers of {one.study.name}", "\n\n"),
            f"From {source(one.study, home)}.",
        ]
    for one in beside:
        name = f"The same of {one.study.name} ({BESIDE[one.study.name]})"
        texts = [_ends_text(one), _table(one), f"From {source(one.study, home)}."]
        parts += folded(texts, f"{name}, where {_right(one)} of level-2 is right and valid", "\n\n")
    return parts


def _ends_text(quality: Quality) -> str:
    """The trained combinations and the farthest, a sentence each."""
    return " ".join(_level_text(quality, level) for level in quality.levels if level in (0, max(quality.levels)))


def _right(quality: Quality) -> str:
    """How much of level-2 is right and valid, the least and the most of any arm."""
    arms = [arm for arm in quality.study.arms if arm.name in quality.arms]
    shares = sorted(arm.share(Measure(), arm.seeds).mean for arm in arms)
    return f"{words.percent(shares[0])} to {words.percent(shares[-1])}"


def _level_text(quality: Quality, level: int) -> str:
    """One level in a sentence: the least and the most of each metric over the arms, and that of real images."""
    texts: list[str] = []
    for metric in SHOWN:
        means = {arm: one.mean for arm in quality.arms if (one := quality.of(metric, level, arm)) is not None}
        if not means:
            continue
        low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        reference = quality.real.get((metric, level))
        beside = "" if reference is None else f", fresh images {_plain(metric, reference)}"
        ends = [f"{_plain(metric, means[arm])} (`{arm}`)" for arm in (low, high)]
        told = f"{ends[0]} to {ends[1]}" if means[low] < means[high] else f"{_plain(metric, means[low])} (all)"
        title = ABOUT[metric].title
        texts.append(f"{title if not texts else title.lower()} {told}{beside}")
    name = "trained combinations" if level == 0 else words.level_name(level)
    return f"**Of {name}:** {'; '.join(texts)}."


def _table(quality: Quality) -> str:
    lines = [
        f"| pictures of | arm | {' | '.join(ABOUT[metric].title for metric in SHOWN)} |",
        f"|---|---|{'---:|' * len(SHOWN)}",
    ]
    for level in quality.levels:
        name = words.level_name(level)
        for arm in quality.arms:
            cells = [_cell(metric, quality.of(metric, level, arm)) for metric in SHOWN]
            lines.append(f"| {name} | `{arm}` | {' | '.join(cells)} |")
        references = [
            _plain(metric, quality.real[metric, level]) if (metric, level) in quality.real else "" for metric in SHOWN
        ]
        lines.append(f"| {name} | *fresh images (copied: redrawn)* | {' | '.join(references)} |")
    return "\n".join(lines)


def _cell(metric: str, found: Interval | None) -> str:
    if found is None:
        return ""
    if found.low is None or found.high is None:
        return _plain(metric, found.mean)
    return f"{_plain(metric, found.mean)} ({_plain(metric, found.low)} to {_plain(metric, found.high)})"


def _plain(metric: str, value: float) -> str:
    if metric == "copied":  # about 1 % is what fresh images have, so a tenth of it counts
        return f"{100 * value:.1f}\u00a0%"
    return words.percent(value) if ABOUT[metric].share else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"
