"""The numbers of a study in plain sentences. Every word here follows from the table; nothing is written by hand."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from recombine.errors import UserError
from recombine.judges.statistics import Comparison, Interval, compare_arms, holm, summarize
from recombine.report.reading import FEW_ARMS, Finished, some
from recombine.studies.diverged import diverged_seeds, diverged_sentence

CLEAR = 0.05
"""A difference is called one when its corrected p-value is below this."""

GOOD = 0.9
"""Below this, the trained compositions or the tokenizer's ceiling make the rest hard to read, and it is said."""

LEARNED = 0.5
"""An arm that draws less than this of what it was trained on has not learned it: its misses elsewhere say nothing."""

PROBE_GAP = 0.15
"""So much more credit by the probe alone is worth a warning."""

WORTH_NAMING = 0.05
"""The best of many arms is named when it lies so far above the worst; of 0 to 2 % nobody draws most."""


def level_name(level: int) -> str:
    return "trained" if level == 0 else f"level-{level}"


def percent(share: float) -> str:
    """97 %; one decimal near the ends, so that 99.6 % is not called all and 0.4 % not nothing."""
    value = 100 * share
    near_end = 0 < value < 1 or 99 < value < 100
    text = f"{value:.1f}" if near_end else f"{value:.0f}"
    if near_end and text in ("100.0", "0.0"):  # 99.97 % is still not all
        text = "> 99.9" if value > 50 else "< 0.1"
    return f"{text}\u00a0%"


def percents(shares: Iterable[float]) -> str:
    """Shares side by side: "83 / 29 / 10 %"."""
    return " / ".join(percent(float(share)).removesuffix("\u00a0%") for share in shares) + "\u00a0%"


def span(low: float, high: float) -> str:
    """An interval of shares, "91–99 %"; with decimals only when it is narrow, in words when it has no width."""
    if low == high:  # no spread was seen, which is not certainty
        return "all seeds"
    digits = 0 if high - low >= 0.02 else 1
    while digits < 4 and f"{100 * low:.{digits}f}" == f"{100 * high:.{digits}f}":  # 99.98–100.00, not 100.0–100.0
        digits += 1
    return f"{100 * low:.{digits}f}–{100 * high:.{digits}f}\u00a0%"


def share(cell: Interval) -> str:
    """A mean with its interval, "61 % (56–65 %)"; the mean alone where there is no width."""
    if cell.low is None or cell.high is None or cell.low == cell.high:
        return percent(cell.mean)
    return f"{percent(cell.mean)} ({span(cell.low, cell.high)})"


def reach(shares: list[float]) -> str:
    """From the lowest to the highest of several shares, "3 to 42 %"; one number where they look the same."""
    low, high = percent(min(shares)), percent(max(shares))
    return high if low == high else f"{low.removesuffix(chr(0xA0) + '%')} to {high}"


def points(difference: float) -> str:
    """A difference of shares in percentage points with its sign; a real minus, not a hyphen."""
    text = f"{100 * difference:+.0f}" if abs(difference) >= 0.01 else f"{100 * difference:+.1f}"
    return text.replace("-", "\u2212") if float(text) else "0"


def number(value: float) -> str:
    """Three digits that count, without an exponent where it can be helped; a real minus, not a hyphen."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
        text = f"{value:,.{digits}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        text = f"{value:.2g}"
    return text.replace("-", "\u2212")


def p_value(p: float) -> str:
    """A p-value whose rounding never moves it across the line of what is called clear."""
    if p < 0.001:
        return "p < 0.001"
    digits = 2 if p >= 0.1 else 3
    while digits < 6 and (round(p, digits) < CLEAR) != (p < CLEAR):
        digits += 1
    return f"p = {p:.{digits}f}"


def join(words: list[str], last: str = "and") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def cells(study: Finished, column: str) -> dict[tuple[str, int], Interval]:
    """{(arm, level): interval over members at the arm's last step}; empty when the table lacks the column."""
    if not study.rows or column not in study.rows[0]:
        return {}
    return {(s.arm, s.level): s.interval for s in summarize(study.rows, column)}


def comparisons(study: Finished) -> tuple[list[Comparison], list[str]]:
    """All pairs of arms at all levels beyond training, corrected together as they are read together; what failed."""
    found: list[Comparison] = []
    failed: list[str] = []
    for level in sorted({row["level"] for row in study.rows} - {0}):
        try:
            found += compare_arms(study.rows, level)
        except UserError as error:
            failed.append(str(error))
    corrected = holm([one.difference.p for one in found])
    return [replace(one, p_corrected=p) for one, p in zip(found, corrected, strict=True)], failed


def better(one: Comparison) -> str | None:
    """The arm that is clearly better, or None: the numbers cannot tell."""
    if one.p_corrected is None or one.p_corrected >= CLEAR:
        return None
    return one.arm_a if one.difference.mean > 0 else one.arm_b


@dataclass(frozen=True)
class Ability:
    """One arm's answer to the study's question at its level farthest from training, in two or three words."""

    arm: str
    level: int
    words: str
    tone: str  # good, bad or open: colours the mark


def ability(cell: Interval) -> tuple[str, str]:
    """Can it, and the tone? Judged by the whole interval, not the mean, against nine tenths, one tenth and one half."""
    if cell.low is None or cell.high is None:
        return "one seed: cannot tell", "open"
    if cell.low >= 0.9:
        return "yes", "good"
    if cell.high <= 0.1:
        return "no", "bad"
    if cell.low > 0.5:
        return "mostly yes", "good"
    if cell.high < 0.5:
        return "mostly no", "bad"
    if cell.low > 0.1 and cell.high < 0.9:
        return "sometimes", "open"
    return "cannot tell", "open"


def abilities(study: Finished) -> list[Ability]:
    """What each arm can do at the level that is farthest from what it was itself trained on."""
    shown = cells(study, "joint")
    found = []
    for arm in study.measured:
        levels = [level for own, level in shown if own == arm and level > 0]
        if levels:
            words, tone = ability(shown[arm, max(levels)])
            if tone == "bad" and (arm, 0) in shown and shown[arm, 0].mean < LEARNED:
                words, tone = "cannot tell: not learned", "open"
            found.append(Ability(arm, max(levels), words, tone))
    return found


def _trained(study: Finished, shown: dict[tuple[str, int], Interval]) -> str:
    """What the arms draw of what they were trained on: without that, nothing else can be read."""
    means = {arm: shown[arm, 0].mean for arm in study.measured if (arm, 0) in shown}
    good = [arm for arm in means if means[arm] >= GOOD]
    weak = sorted((arm for arm in means if means[arm] < GOOD), key=lambda arm: means[arm])
    if not means:
        return ""
    if not good and len(weak) == 1:
        return f"{weak[0]} draws only {percent(means[weak[0]])} of the trained combinations right."
    if not good:
        return f"No arm draws the trained combinations well: {reach(list(means.values()))} right."
    who = f"{len(good)} of {len(means)} arms draw"
    if len(good) == 1:
        who = f"{good[0]} draws"
    elif not weak:
        who = "Both arms draw" if len(good) == 2 else "All arms draw"
    text = f"{who} the trained combinations: {reach([means[arm] for arm in good])} right"
    if weak:
        only = [f"{arm} only {percent(means[arm])}" for arm in weak]
        text += f"; {some(only, f'others less than {percent(GOOD)}')}"
    return f"{text}."


def _numbers(study: Finished, shown: dict[tuple[str, int], Interval], levels: list[int]) -> str:
    """Per arm its accuracy at each level beyond training; with many arms the range of each level and its best."""
    if len(study.measured) > FEW_ARMS:
        parts = [_range({arm: shown[arm, k].mean for arm in study.measured if (arm, k) in shown}, k) for k in levels]
        return f"Of the combinations never trained on, the share drawn right is {join(parts)}."
    parts = []
    for arm in study.measured:
        own = [percent(shown[arm, k].mean) + ("" if parts else f" at level-{k}") for k in levels if (arm, k) in shown]
        if own:
            parts.append(f"{join(own)} for {arm}")
    return f"Of the combinations never trained on, the share drawn right is {', '.join(parts)}." if parts else ""


def _range(means: dict[str, float], level: int) -> str:
    """3 to 42 % at level-1 (most by dit)."""
    text = f"{reach(list(means.values()))} at level-{level}"
    top = max(means.values())
    best = [arm for arm in means if percent(means[arm]) == percent(top)]  # those that look as good are named too
    return f"{text} (most by {some(best)})" if top - min(means.values()) >= WORTH_NAMING else text


def _contrast(study: Finished, pairs: list[Comparison]) -> str:
    """Which arm is better, at the level farthest from training, then at the nearer ones where that one is open."""
    sentences = []
    levels = sorted({one.level for one in pairs}, reverse=True)
    if len(pairs) > len(levels) and not any(better(one) for one in pairs):
        where = join([f"level-{level}" for level in reversed(levels)], "or")
        return f"The seeds cannot tell any two arms apart at {where}."
    for level in levels:
        here = [one for one in pairs if one.level == level]
        clear = [one for one in here if better(one)]
        texts = []
        for one in sorted(clear, key=lambda one: -abs(one.difference.mean))[:3]:
            winner = better(one)
            loser = one.arm_b if winner == one.arm_a else one.arm_a
            gap = points(abs(one.difference.mean)).lstrip("+")
            texts.append(f"{winner} beats {loser} by {gap} points ({p_value(one.p_corrected or 0.0)})")
        open_pairs = [f"{one.arm_a} and {one.arm_b}" for one in here if not better(one)]
        if len(clear) > len(texts):
            sentences.append(
                f"At level-{level} the seeds tell {len(clear)} of {len(here)} pairs of arms apart; "
                f"the widest: {join(texts)}."
            )
            break
        if texts:
            sentences.append(f"At level-{level} {join(texts)}.")
        if open_pairs and len(open_pairs) == len(here) > 1:
            sentences.append(f"At level-{level} the seeds cannot tell any two arms apart.")
        elif len(open_pairs) > 3:
            sentences.append(f"At level-{level} the seeds cannot tell the other {len(open_pairs)} pairs of arms apart.")
        elif open_pairs:
            sentences.append(f"At level-{level} the seeds cannot tell which of {join(open_pairs, 'or')} is better.")
        if clear:
            break
    return " ".join(sentences)


def answer(study: Finished) -> str:
    """A few sentences: accuracy on what was trained, then beyond it, and which arm is better, if that can be told."""
    shown = cells(study, "joint")
    levels = sorted({level for _, level in shown} - {0})
    if not shown:
        return "There is no answer yet: no arm has been judged."
    if not levels:
        return "There is no answer yet: only trained combinations have been judged."
    sentences = [_trained(study, shown), _numbers(study, shown, levels)]
    pairs, _ = comparisons(study)
    tested = [one for one in pairs if one.p_corrected is not None]
    if tested:
        sentences.append(_contrast(study, tested))
    elif len(study.measured) > 1:
        sentences.append("With one seed in common the arms cannot be compared: cannot tell which is better.")
    return " ".join(sentence for sentence in sentences if sentence)


def lengths(study: Finished) -> str:
    """Which arms are trained for longer by design, or nothing when all are trained alike. A remark, no warning."""
    groups: dict[int, list[str]] = {}
    for arm in study.measured:
        steps = study.steps_wanted(arm)
        if steps:
            groups.setdefault(steps, []).append(arm)
    if len(groups) < 2:
        return ""
    if len(groups) > FEW_ARMS:
        few, most = min(groups), max(groups)
        text = f"{few:,} for {some(groups[few])}, up to {most:,} for {some(groups[most])}"
    else:
        rarest_first = sorted(groups, key=lambda steps: (len(groups[steps]), -steps))
        texts = {steps: some(groups[steps]) for steps in groups}
        if len(groups[rarest_first[-1]]) > 1 and sum(map(len, groups.values())) == len(study.measured):
            texts[rarest_first[-1]] = f"the other {len(groups[rarest_first[-1]])}"
        text = ", ".join(f"{steps:,} for {texts[steps]}" for steps in rarest_first)
    return f"By design the arms are trained for different numbers of steps: {text}."


def level_mean(
    per_composition: dict[str, dict[str, float]], levels: dict[str, int], level: int, key: str
) -> float | None:
    """Mean of one ceiling number over a level's compositions; None when it was not measured."""
    own = [entry for code, entry in per_composition.items() if levels.get(code) == level]
    values = [entry.get(key) for entry in own if isinstance(entry, dict)]
    known = [float(value) for value in values if value is not None]
    return sum(known) / len(known) if known else None


def diverged(study: Finished) -> list[str]:
    """One sentence for each arm with members that diverged; they stay in the table, where they draw black images."""
    ends: dict[str, list[dict[str, Any]]] = {arm: [] for arm in study.measured}
    for row in study.rows:
        if row["step"] == study.last_steps[row["arm"]]:
            ends[row["arm"]].append(row)
    lost = {arm: seeds for arm, rows in ends.items() if (seeds := diverged_seeds(rows))}
    return [f"{diverged_sentence(arm, seeds)}." for arm, seeds in lost.items()]


def warnings(study: Finished) -> list[str]:
    """Reasons to read the table with care, found in the numbers."""
    notes = diverged(study)
    shown = cells(study, "joint")
    weak = [arm for arm in study.measured if (arm, 0) in shown and shown[arm, 0].mean < GOOD]
    weak.sort(key=lambda arm: shown[arm, 0].mean)
    if weak:
        shares = [f"{arm} gets only {percent(shown[arm, 0].mean)}" for arm in weak]
        notes.append(
            f"{some(shares, f'other arms less than {percent(GOOD)}')} of the trained combinations right: misses "
            "elsewhere may mean too little training rather than no recombination."
        )
    if study.own_trainings:
        notes.append(
            "Some arms are trained on other combinations than the study's split says, and a level is counted from what "
            "the arm itself was trained on: a level's combinations differ between arms. Pictures and curves are sorted "
            "by the split."
        )
    probe = cells(study, "joint_probe_only")
    for level in study.level_numbers:
        gaps = {
            arm: probe[arm, level].mean - shown[arm, level].mean
            for arm in study.measured
            if (arm, level) in shown and (arm, level) in probe
        }
        wide = sorted((arm for arm in gaps if gaps[arm] > PROBE_GAP), key=lambda arm: -gaps[arm])
        if wide:
            credit = [
                f"{arm} with {percent(probe[arm, level].mean)} instead of {percent(shown[arm, level].mean)}"
                for arm in wide
            ]
            others = f"other arms with over {100 * PROBE_GAP:.0f} points too many"
            where = "On trained combinations" if level == 0 else f"At {level_name(level)}"
            notes.append(
                f"{where} the probe alone would credit {some(credit, others)}: the rest are not valid, or read as "
                "another combination."
            )
    for name in study.part("tokenizers"):
        ceiling = study.part("tokenizers", name, "ceiling")
        for level in sorted(set(study.levels.values())):
            top = level_mean(ceiling, study.levels, level, "joint")
            if top is not None and top < GOOD:
                notes.append(
                    f"Tokenizer {name} itself reproduces only {percent(top)} of real {level_name(level)} images "
                    "rightly: no generator on top of it can be expected to do better."
                )
    return notes
