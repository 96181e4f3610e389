"""The section "Inside the models": charts over layers and small tables, from the monitors of each arm's last step.

The charts are plain SVG without a script. This file turns numbers into places; the template draws them.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from recombine.judges.statistics import Interval, interval
from recombine.report import words
from recombine.report.reading import FEW_ARMS, Finished, some
from recombine.studies.monitors import ABOUT, LINEAR, About, about, family

WIDTH, HEIGHT = 330, 196  # of a chart, in its own units
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 10, 36
COLOURS = 6  # the next six arms repeat them with dashes
MOST_LAYERS_NAMED = 13

# One mark per colour, around 0, so that colour is never alone.
MARKS = (
    "M-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0-6.8 0Z",
    "M-3-3L3-3L3 3L-3 3Z",
    "M0-4.3L4.3 0L0 4.3L-4.3 0Z",
    "M0-4L3.9 3L-3.9 3Z",
    "M0 4L3.9-3L-3.9-3Z",
    "M-3.2-3.2L3.2 3.2M-3.2 3.2L3.2-3.2",
)


@dataclass(frozen=True)
class Reading:
    """One number of one arm at its last step: the mean over members, or None where no member's was finite."""

    interval: Interval | None
    members: int  # that were measured

    @property
    def finite(self) -> int:
        return 0 if self.interval is None else self.interval.n

    def text(self, share: bool) -> str:
        """12.3; as a share in per cent."""
        if self.interval is None:
            return "not a number"
        return words.percent(self.interval.mean) if share else words.number(self.interval.mean)

    def note(self, share: bool) -> str:
        """The interval in words, and how many seeds it lacks."""
        if self.interval is None:
            return ""
        low, high = self.interval.low, self.interval.high
        if low is None or high is None:
            parts = ["one seed"]
        else:
            parts = [words.span(low, high) if share else f"{words.number(low)} to {words.number(high)}"]
        if self.finite < self.members:
            parts.append(f"{self.members - self.finite} of {self.members} seeds left out")
        return ", ".join(parts)


Key = tuple[str, int | None, int | None]  # monitor, layer, level
Readings = dict[Key, dict[str, Reading]]  # by arm


def readings(study: Finished) -> Readings:
    """The mean over members of every monitor, layer and level, each at the last step its arm has it."""
    last: dict[tuple[str, str], int] = {}
    for row in study.monitors:
        key = (row["arm"], row["monitor"])
        last[key] = max(row["step"], last.get(key, row["step"]))
    values: dict[Key, dict[str, dict[int, float | None]]] = {}
    for row in study.monitors:
        if row["step"] == last[row["arm"], row["monitor"]]:
            own = values.setdefault((row["monitor"], row["layer"], row["level"]), {})
            own.setdefault(row["arm"], {})[row["member"]] = row["value"]
    return {
        key: {arm: _reading(list(members.values()), about(key[0])) for arm, members in own.items()}
        for key, own in values.items()
    }


def _reading(values: list[float | None], what: About) -> Reading:
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if not finite:
        return Reading(None, len(values))
    found = interval(finite, share=what.share)
    if found.low is not None and what.least is not None:  # the truth cannot lie beyond
        found = replace(found, low=max(found.low, what.least))
    if found.high is not None and what.most is not None:
        found = replace(found, high=min(found.high, what.most))
    return Reading(found, len(values))


def inside(study: Finished) -> dict[str, Any] | None:
    """What the template shows, or None when nothing was measured inside the models."""
    found = readings(study)
    if not found:
        return None
    present = {arm for own in found.values() for arm in own}
    arms = [arm for arm in study.arms if arm in present]
    arms += sorted(present - set(arms))
    kinds = list(dict.fromkeys([*ABOUT, *(family(key[0]) for key in found)]))  # known ones in their order, then others
    blocks = [_block(study, kind, {k: v for k, v in found.items() if family(k[0]) == kind}, arms) for kind in kinds]
    blocks = [block for block in blocks if block["charts"] or block["tables"]]
    lost = [arm for arm in arms if any(arm in own and own[arm].finite < own[arm].members for own in found.values())]
    return {
        "legend": [{"name": arm} | look(i) for i, arm in enumerate(arms)],
        "lost": some(lost) if lost else "",
        "many": len(arms) > FEW_ARMS,  # then only the interval of the line pointed at is drawn
        "single": [block for block in blocks if len(block["charts"]) == 1],
        "rows": [block for block in blocks if len(block["charts"]) > 1],
        "tables": [block for block in blocks if block["tables"]],
        "size": (WIDTH, HEIGHT),
        "seeds": sorted({reading.members for own in found.values() for reading in own.values()}),
    }


def look(place: int) -> dict[str, Any]:
    """How an arm is drawn: colour and mark; from the seventh on with dashes and filled marks."""
    return {
        "shade": f"a{place % COLOURS}",
        "mark": MARKS[place % COLOURS],
        "dash": ("", "6 3", "2 3")[min(place // COLOURS, 2)],
        "full": place >= COLOURS,
    }


def _block(study: Finished, kind: str, found: Readings, arms: list[str]) -> dict[str, Any]:
    """One monitor (or all linear probes): its words, a chart per level, and a table where it has no layers."""
    what = about(kind)
    layered = {key: own for key, own in found.items() if key[1] is not None}
    names = sorted({key[0] for key in layered}, key=_factor_order(study))
    levels = sorted({key[2] for key in layered}, key=_level_order)
    scale = _scale(what, layered)
    charts = []
    for name in names:
        for level in levels:
            own = {
                layer: by_arm
                for (n, layer, k), by_arm in found.items()
                if n == name and k == level and layer is not None
            }
            if own:
                charts.append(_chart(study, what, name, level, own, arms, scale))
    plain = {key: own for key, own in found.items() if key[1] is None}
    return {
        "title": what.title,
        "sentence": what.sentence,
        "bound": next((chart["bound_name"] for chart in charts if chart["bound_name"]), ""),
        "charts": charts,
        "tables": [
            _table(what, name, {key[2]: own for key, own in plain.items() if key[0] == name}, arms)
            for name in sorted({key[0] for key in plain}, key=_factor_order(study))
        ],
    }


def _factor_order(study: Finished) -> Callable[[str], tuple[int, str]]:
    """Linear probes in the order of the world's factors."""
    factors = [str(factor.get("name")) for factor in study.part("world").get("factors") or []]

    def order(name: str) -> tuple[int, str]:
        factor = name.removeprefix(LINEAR)
        return (factors.index(factor) if factor in factors else len(factors), name)

    return order


def _level_order(level: int | None) -> int:
    return -1 if level is None else level


def _level(level: int | None) -> dict[str, Any] | None:
    return None if level is None else {"level": level, "name": words.level_name(level)}


def _guess(study: Finished, name: str) -> float | None:
    """What guessing reads of a factor: one of its values."""
    if name.startswith(LINEAR):
        for factor in study.part("world").get("factors") or []:
            if factor.get("name") == name.removeprefix(LINEAR) and factor.get("values"):
                return 1 / len(factor["values"])
    return None


@dataclass(frozen=True)
class Scale:
    """The y-axis that all charts of a block share."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def y(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)  # what leaves the chart is cut at its edge
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - (inside - self.low) / (self.high - self.low)), 1)


def _scale(what: About, found: Readings) -> Scale:
    """From 0 (or the lowest mean below it) to a round number above the means; the whole range for a share."""
    if what.share:
        return Scale(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0))
    means = [r.interval for own in found.values() for r in own.values() if r.interval is not None]
    top = max([one.mean for one in means], default=1.0)
    bottom = min([0.0, *(one.mean for one in means)])
    # Few seeds give wide intervals; they may lift the axis by half, not hide the means at its foot.
    reach = max([min(one.high, top + 0.5 * abs(top)) for one in means if one.high is not None], default=top)
    if what is ABOUT["mean_cosine"]:
        reach = 1.0
    elif what is ABOUT["jepa_over_mean"]:
        reach = max(reach, 1.0)
    step = round_step(max(reach, 0.0) - bottom)
    low, high = math.floor(bottom / step + 1e-9) * step, math.ceil(max(reach, 0.0) / step - 1e-9) * step
    high = high if high > low else low + step
    return Scale(low, high, tuple(low + step * i for i in range(round((high - low) / step) + 1)))


def round_step(span: float) -> float:
    """1, 2 or 5 times a power of ten, at most five steps to the span."""
    if not span > 0:
        return 0.25
    size = 10 ** math.floor(math.log10(span / 5))
    return next(size * factor for factor in (1, 2, 5, 10) if size * factor * 5 >= span * (1 - 1e-9))


def _chart(
    study: Finished,
    what: About,
    name: str,
    level: int | None,
    found: dict[int, dict[str, Reading]],
    arms: list[str],
    scale: Scale,
) -> dict[str, Any]:
    """Places of everything drawn in one chart: a line per arm over the layers it was measured at."""
    layers = sorted(found)
    first, reach = layers[0], max(1, layers[-1] - layers[0])

    def x(layer: int) -> float:
        share = 0.5 if len(layers) == 1 else (layer - first) / reach
        return round(LEFT + 10 + (WIDTH - LEFT - RIGHT - 20) * share, 1)

    lines, rows = [], []
    for place, arm in enumerate(arms):
        own = [(layer, found[layer][arm]) for layer in layers if arm in found[layer]]
        if not own:
            continue
        known = [(x(layer), reading.interval) for layer, reading in own if reading.interval is not None]
        band = [(at, scale.y(i.low), scale.y(i.high)) for at, i in known if i.low is not None and i.high is not None]
        lines.append(
            {
                "arm": arm,
                "line": _path((at, scale.y(i.mean)) for at, i in known),
                "marks": [(at, scale.y(i.mean)) for at, i in known],
                "band": _path([(at, high) for at, _, high in band] + [(at, low) for at, low, _ in reversed(band)]),
                "spoken": f"{arm}: " + ", ".join(f"layer {layer} {reading.text(what.share)}" for layer, reading in own),
            }
            | look(place)
        )
        by_layer = dict(own)
        rows.append({"arm": arm, "cells": [_cell(by_layer.get(layer), what.share) for layer in layers]})
    guess = _guess(study, name)
    bound = 1.0 if what is ABOUT["jepa_over_mean"] else guess
    named = layers[:: max(1, math.ceil(len(layers) / MOST_LAYERS_NAMED))]
    title = name.removeprefix(LINEAR) if name.startswith(LINEAR) else what.title
    return {
        "title": title,
        "level": _level(level),
        "lines": lines,
        "rows": rows,
        "layers": layers,
        "x_ticks": [(x(layer), layer) for layer in named],
        "y_ticks": [(scale.y(t), words.percent(t) if what.share else words.number(t)) for t in scale.ticks],
        "bound": None if bound is None else scale.y(bound),
        "bound_name": "" if bound is None else "guessing" if guess is not None else "the mean",
        "x0": LEFT,
        "x1": WIDTH - RIGHT,
        "foot": HEIGHT - BOTTOM,
    }


def _path(points: Iterable[tuple[float, float]]) -> str:
    """An SVG path through the points; empty for none."""
    drawn = [f"{x:g} {y:g}" for x, y in points]
    return f"M{'L'.join(drawn)}" if drawn else ""


def _cell(reading: Reading | None, share: bool) -> dict[str, str] | None:
    return None if reading is None else {"text": reading.text(share), "note": reading.note(share)}


def _table(what: About, name: str, found: dict[int | None, dict[str, Reading]], arms: list[str]) -> dict[str, Any]:
    """Numbers without layers: a row per arm that has any, a column per level."""
    levels = sorted(found, key=_level_order)
    factor = f": {name.removeprefix(LINEAR)}" if name.startswith(LINEAR) else ""
    return {
        "title": what.title + factor,
        "levels": [_level(level) for level in levels],
        "rows": [
            {"arm": arm, "cells": [_cell(found[level].get(arm), what.share) for level in levels]}
            for arm in arms
            if any(arm in found[level] for level in levels)
        ],
    }
