"""The section "Quality of the pictures": are combinations drawn at the cost of the images, or copied from training?

A table per level from each arm's last measured step, the numbers of real images below it; and a chart that sets the
Frechet distance against the share drawn right. Plain SVG: this file turns numbers into places, the template draws them.
"""

import math
from typing import Any

from recombine.judges.statistics import Interval, interval
from recombine.report import words
from recombine.report.inside import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Reading, Scale, look, round_step
from recombine.report.reading import Finished
from recombine.studies.quality_table import ABOUT, About

Key = tuple[str, int]  # metric, level
Found = dict[Key, dict[str, Reading]]  # by arm
CHARTED = "frechet"


def quality(study: Finished) -> dict[str, Any] | None:
    """What the template shows, or None when quality was not measured."""
    rows = _last_rows(study)
    if not rows:
        return None
    found = _readings(rows)
    metrics = [metric for metric in ABOUT if any(key[0] == metric for key in found)]
    metrics += sorted({key[0] for key in found} - set(metrics))
    arms = [arm for arm in study.arms if any(arm in own for own in found.values())]
    levels = sorted({level for _, level in found})
    return {
        "metrics": [_about(metric)._asdict() for metric in metrics],
        "legend": [{"name": arm} | look(place) for place, arm in enumerate(arms)],
        "levels": [
            {
                "level": level,
                "name": words.level_name(level),
                "rows": [
                    {"arm": arm, "cells": [_cell(found, metric, level, arm) for metric in metrics]} for arm in arms
                ],
                "references": _references(study, rows, metrics, level),
                "chart": _chart(study, found, rows, level, arms),
            }
            for level in levels
        ],
        "seeds": sorted({reading.members for own in found.values() for reading in own.values()}),
        "n": sorted({row["n"] for row in rows}),
        "size": (WIDTH, HEIGHT),
    }


def _about(metric: str) -> About:
    return ABOUT.get(metric, About(metric, ""))


def _last_rows(study: Finished) -> list[dict[str, Any]]:
    """The rows of whole levels at the last step that each arm has any of."""
    whole = [row for row in study.quality if row["composition"] is None]
    last: dict[str, int] = {}
    for row in whole:
        last[row["arm"]] = max(row["step"], last.get(row["arm"], row["step"]))
    return [row for row in whole if row["step"] == last[row["arm"]]]


def _readings(rows: list[dict[str, Any]]) -> Found:
    values: dict[Key, dict[str, list[float | None]]] = {}
    for row in rows:
        values.setdefault((row["metric"], row["level"]), {}).setdefault(row["arm"], []).append(row["value"])
    return {
        key: {arm: _reading(members, _about(key[0]).share) for arm, members in own.items()}
        for key, own in values.items()
    }


def _reading(values: list[float | None], share: bool) -> Reading:
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if not finite:
        return Reading(None, len(values))
    found = interval(finite, share=share)
    low = None if found.low is None else max(found.low, 0.0)  # no metric can be below 0
    return Reading(Interval(found.mean, low, found.high, found.n), len(values))


def _cell(found: Found, metric: str, level: int, arm: str) -> dict[str, str] | None:
    reading = found.get((metric, level), {}).get(arm)
    if reading is None:
        return None
    share = _about(metric).share
    return {"text": reading.text(share), "note": reading.note(share)}


def _references(study: Finished, rows: list[dict[str, Any]], metrics: list[str], level: int) -> list[dict[str, Any]]:
    """What as many real images get, and what those redrawn by each tokenizer do."""
    named: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["level"] == level:
            tokenizer = study.part("arms", row["arm"]).get("tokenizer") or "the tokenizer"
            for name, value in (("real images", row["real"]), (f"rebuilt by {tokenizer}", row["rebuilt"])):
                if value is not None:
                    named.setdefault(name, {}).setdefault(row["metric"], value)
    return [
        {"name": name, "cells": [_plain(own.get(metric), _about(metric).share) for metric in metrics]}
        for name, own in named.items()
    ]


def _plain(value: float | None, share: bool) -> str:
    if value is None:
        return ""
    return words.percent(value) if share else words.number(value)


def _chart(
    study: Finished, found: Found, rows: list[dict[str, Any]], level: int, arms: list[str]
) -> dict[str, Any] | None:
    """Share drawn right (across) against Frechet distance (up), a point per arm with both intervals; None without
    numbers. The dashes are at the distance of as many real images."""
    right = words.cells(study, "joint")
    own = {arm: r.interval for arm, r in found.get((CHARTED, level), {}).items() if r.interval is not None}
    points = [(arm, right[arm, level], own[arm]) for arm in arms if arm in own and (arm, level) in right]
    if not points:
        return None
    real = next((row["real"] for row in rows if (row["metric"], row["level"]) == (CHARTED, level)), None)
    scale = _scale([one.mean for _, _, one in points] + [real or 0.0])

    def x(share: float) -> float:
        return round(LEFT + 6 + (WIDTH - LEFT - RIGHT - 12) * min(max(share, 0.0), 1.0), 1)

    drawn = []
    for arm, share, distance in points:
        spoken = f"{arm}: {words.percent(share.mean)} right, Fréchet distance {words.number(distance.mean)}"
        drawn.append(
            {
                "x": x(share.mean),
                "y": scale.y(distance.mean),
                "across": [] if share.low is None or share.high is None else [x(share.low), x(share.high)],
                "up": []
                if distance.low is None or distance.high is None
                else [scale.y(distance.low), scale.y(distance.high)],
                "spoken": spoken,
            }
            | look(arms.index(arm))
        )
    return {
        "points": drawn,
        "x_ticks": [(x(share), words.percent(share)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)],
        "y_ticks": [(scale.y(tick), words.number(tick)) for tick in scale.ticks],
        "bound": None if real is None else scale.y(real),
        "x0": LEFT,
        "x1": WIDTH - RIGHT,
        "top": TOP,
        "foot": HEIGHT - BOTTOM,
    }


def _scale(values: list[float]) -> Scale:
    """From 0 to a round number above all values."""
    step = round_step(max(values) * 1.05)
    count = max(1, math.ceil(max(values) * 1.05 / step - 1e-9))
    return Scale(0.0, step * count, tuple(step * i for i in range(count + 1)))
