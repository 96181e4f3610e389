"""The page of a study: one HTML file that holds its pictures, style and script, and opens without a network."""

import json
import math
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined, UndefinedError
from markupsafe import Markup

from recombine.errors import UserError
from recombine.files import write_atomic
from recombine.judges.statistics import Comparison, Interval
from recombine.progress import duration
from recombine.report import words
from recombine.report.figures import encode_sets, verdict
from recombine.report.inside import inside
from recombine.report.quality import quality
from recombine.report.reading import FEW_ARMS, Finished, read_study
from recombine.report.rendering_reading import is_rendering

PICTURES = 8  # of each source and composition on the page
PICTURES_PER_LEVEL = 12  # compositions shown per level; a larger world is sampled evenly
PICTURE_BYTES = 1_200_000
COMPOSITIONS = 40  # up to so many stand below each other in a table of what arms are trained on
CURVE_NUMBERS = 120_000  # at most this many in the script's data: beyond, fewer steps are drawn
PAIRS = 12  # up to so many comparisons are all shown
NEAREST = 5  # of more, so many of those that the seeds cannot tell apart; the others are folded away
GATE = 0.99  # what the judge must reach on its own tests

MEASURES = ("joint", "joint_probe_only", "joint_raw", "joint_probe_only_raw")
VERDICTS = {
    "ok": ("✓", "right and valid"),
    "invalid": ("!", "right by the probe alone"),
    "wrong": ("✗", "wrong"),
}


def write_report(folder: Path) -> Path:
    """Write `folder`/report.html from the study's files, whole or not at all, and return its path."""
    if is_rendering(folder):
        from recombine.report.rendering import write_rendering

        return write_rendering(Path(folder))
    study = read_study(Path(folder))
    try:
        page = render(study)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, UndefinedError) as error:
        raise UserError(
            f"the files in {folder} do not hold what a study writes ({type(error).__name__}: {error}); "
            "give the command that made them again."
        ) from error
    path = study.folder / "report.html"
    write_atomic(path, page)
    return path


def render(study: Finished) -> str:
    """The page as text."""
    here = files("recombine.report")

    def source(name: str) -> str:
        return (here / name).read_text(encoding="utf-8")

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"percent": words.percent, "duration": duration}
    template = environment.from_string(source("report.html.j2"))
    return template.render(**context(study), css=Markup(source("report.css")), js=Markup(source("report.js")))


def context(study: Finished) -> dict[str, Any]:
    """Everything the template shows, already in words and shares."""
    levels = study.level_numbers
    abilities = words.abilities(study)
    pairs, failed = words.comparisons(study)
    shown = _shown(study)
    sources = _sources(study)
    pictures = encode_sets(
        {key: study.pictures[key][[k for k, _ in shown]] for key, _ in sources}, PICTURES, PICTURE_BYTES
    )
    cards = [_card(study, code, row, k, sources, pictures) for row, (k, code) in enumerate(shown)]
    return {
        "name": study.name,
        "question": study.question,
        "abilities": abilities,
        "far": [one.level for one in abilities],
        "own_trainings": study.own_trainings,
        "answer": words.answer(study),
        "warnings": words.warnings(study),
        "limits": study.limits,
        "missing": study.missing + failed,
        "levels": [_level(study, level, cards) for level in levels],
        "hidden_compositions": len(study.levels) - len(shown),
        "cube": _cube(study, cards),
        "trainings": _trainings(study),
        "factors": study.part("world").get("factors") or [],
        "world": study.part("world").get("name", ""),
        "table": _table(study, levels, _shared(study)),
        "shared": _shared(study),
        "lengths": words.lengths(study),
        "seeds": sorted(set(study.members.values())),
        "images": sorted({row["n"] for row in study.rows if row.get("n")}),
        "pairs": _pairs(pairs),
        "curves": embed(_curves(study)),
        "compositions": _compositions(study),
        "arms_as_rows": len(study.measured) > len(study.levels),  # the longer side of a table runs down
        "cards": cards,
        "sources": sources,
        "verdicts": VERDICTS,
        "quality": quality(study),
        "inside": inside(study),
        "judge": _judge(study),
        "threshold": study.part("judge").get("threshold"),
        "ceilings": _ceilings(study, levels),
        "settings": yaml.safe_dump(study.part("study"), sort_keys=False, allow_unicode=True)
        if study.part("study")
        else "",
        "times": _times(study),
        "total": study.part("seconds").get("total"),
        "started": _date(study.facts.get("started")),
        "finished": _date(study.facts.get("finished")),
        "hardware": study.part("hardware"),
        "versions": study.part("versions"),
        "command": _command(study),
    }


def embed(data: Any) -> Markup:
    """JSON that is safe inside a <script> element: no character in it can end the element or open another."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))  # ASCII only: line separators are escaped as well
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _date(text: Any) -> str:
    try:
        return datetime.fromisoformat(str(text)).strftime("%d %B %Y, %H:%M").lstrip("0")
    except ValueError:
        return ""


def _command(study: Finished) -> str:
    """The command that made the study, if it was noted; otherwise the one that makes it from the settings shown."""
    noted = study.facts.get("command")
    return str(noted) if noted else f"recombine run {study.name}.yaml --out DIR"


def _shown(study: Finished) -> list[tuple[int, str]]:
    """(index among all, code) of the compositions with pictures on the page: by level, then by code."""
    chosen = []
    for level in sorted(set(study.levels.values())):
        here = [(k, code) for k, (code, own) in enumerate(study.levels.items()) if own == level]
        step = max(1, math.ceil(len(here) / PICTURES_PER_LEVEL))
        chosen += here[::step]
    return chosen


def _sources(study: Finished) -> list[tuple[str, str]]:
    """(key in the pictures file, label) of what the page shows: real, reconstructed, then each arm."""
    found = [("real", "real")]
    found += [
        (key, f"rebuilt by {key.partition('.')[2]}") for key in study.pictures if key.startswith("reconstruction.")
    ]
    found += [(arm, arm) for arm in study.arms]
    return [(key, label) for key, label in found if study.picture_set(key) is not None]


def _card(
    study: Finished,
    code: str,
    row: int,
    k: int,
    sources: list[tuple[str, str]],
    pictures: dict[str, list[list[str]]],
) -> dict[str, Any]:
    """One composition with a strip of pictures per source, each generated one with its verdict."""
    strips = []
    for key, label in sources:
        right, counted = study.pictures.get(f"{key}.right"), study.pictures.get(f"{key}.joint")
        tiles = []
        for i, uri in enumerate(pictures[key][row]):
            kind = verdict(right[k, i], counted[k, i]) if right is not None and counted is not None else ""
            tiles.append({"uri": uri, "kind": kind})
        counts = [f"{sum(t['kind'] == kind for t in tiles)} {text}" for kind, (_, text) in VERDICTS.items()]
        spoken = f"{label}: of {len(tiles)} pictures {', '.join(counts)}" if tiles[0]["kind"] else f"{label} pictures"
        own = study.levels_of.get(key, {}).get(code, study.levels[code])
        note = words.level_name(own) if own != study.levels[code] else ""
        strips.append({"label": label, "note": note, "tiles": tiles, "spoken": spoken})
    return {
        "code": code,
        "words": study.describe(code),
        "level": study.levels[code],
        "level_name": words.level_name(study.levels[code]),
        "strips": strips,
        "real": pictures["real"][row][0] if "real" in pictures else None,
    }


def _level(study: Finished, level: int, cards: list[dict[str, Any]]) -> dict[str, Any]:
    text = {
        0: "The model was trained on these combinations.",
        1: "Never trained on; one factor away from a trained combination.",
        2: "Never trained on; at least two factors away from every trained combination.",
    }.get(level, f"Never trained on; at least {level} factors away from every trained combination.")
    return {
        "level": level,
        "name": words.level_name(level),
        "text": text,
        "count": sum(own == level for own in study.levels.values()),
        "cards": [card for card in cards if card["level"] == level],
    }


def _trainings(study: Finished) -> dict[str, Any] | None:
    """The level of every composition for arms that are trained on the same; None where all go by the study's split, or
    where a table of so many compositions could not be read."""
    if not study.own_trainings or len(study.levels) > COMPOSITIONS:
        return None
    groups: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for arm, levels in study.levels_of.items():
        groups.setdefault(tuple(sorted(levels.items())), []).append(arm)
    rows = []
    for code in study.levels:
        own = [dict(levels).get(code) for levels in groups]
        named = [None if level is None else {"level": level, "name": words.level_name(level)} for level in own]
        rows.append({"code": code, "words": study.describe(code), "levels": named})
    return {"arms": [", ".join(arms) for arms in groups.values()], "rows": rows}


def _cube(study: Finished, cards: list[dict[str, Any]]) -> dict[str, Any] | None:
    """A 2 x 2 x 2 world drawn as a cube whose edges change one factor; None for other worlds or without pictures."""
    factors = study.part("world").get("factors") or []
    if [len(f.get("values", ())) for f in factors] != [2, 2, 2] or len(cards) != 8 or not cards[0]["real"]:
        return None

    def place(code: str) -> tuple[float, float]:
        x, y, z = (int(c) for c in code)
        return 62 + 150 * x + 84 * z, 262 - 150 * y - 66 * z

    nodes = [card | dict(zip("xy", place(card["code"]), strict=True)) for card in cards]
    edges = []
    for a in study.levels:
        for b in study.levels:
            if a < b and sum(p != q for p, q in zip(a, b, strict=True)) == 1:
                (x1, y1), (x2, y2) = place(a), place(b)
                edges.append({"x1": x1, "y1": y1, "x2": x2, "y2": y2})
    return {
        "nodes": nodes,
        "edges": edges,
        "axes": [f"{f['name']}: {' → '.join(map(str, f['values']))}" for f in factors],
    }


def _cell(cell: Interval | None, probe: Interval | None, ceiling: float | None) -> dict[str, Any] | None:
    if cell is None:
        return None
    shown: dict[str, Any] = {"mean": cell.mean, "low": cell.low, "high": cell.high, "ceiling": ceiling, "span": ""}
    if cell.low is not None and cell.high is not None:
        shown["span"] = words.span(cell.low, cell.high)
    shown["probe"] = probe.mean if probe else None
    return shown


def _table(study: Finished, levels: list[int], shared: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per arm: joint accuracy per level with its interval, the probe's own opinion and the ceiling."""
    joint, probe = words.cells(study, "joint"), words.cells(study, "joint_probe_only")
    rows = []
    for arm in study.arms:
        ceiling = study.part("tokenizers", str(study.part("arms", arm).get("tokenizer")), "ceiling")
        rows.append(
            {
                "arm": arm,
                "notes": _notes(study, arm, shared),
                "judged": arm in study.measured,
                "cells": [
                    _cell(
                        joint.get((arm, level)),
                        probe.get((arm, level)),
                        words.level_mean(ceiling, study.levels_of.get(arm, study.levels), level, "joint"),
                    )
                    for level in levels
                ],
            }
        )
    return rows


def _shared(study: Finished) -> dict[str, Any]:
    """What all of many arms have in common, said once above the table rather than in each of its rows."""
    shared: dict[str, Any] = {"step": None, "members": None, "tokenizer": None}
    if len(study.arms) > FEW_ARMS and len(study.measured) == len(study.arms):
        tokenizers = {arm: study.part("arms", arm).get("tokenizer") for arm in study.arms}
        for key, values in (("step", study.last_steps), ("members", study.members), ("tokenizer", tokenizers)):
            if len(set(values.values())) == 1:
                shared[key] = next(iter(values.values()))
    return shared


def _notes(study: Finished, arm: str, shared: dict[str, Any]) -> list[str]:
    """The small print under an arm's name: what it does not share with all others."""
    facts, where = study.part("arms", arm), []
    if arm in study.last_steps and shared["step"] is None:
        where.append(f"step {study.last_steps[arm]:,}")
    if arm in study.members and shared["members"] is None:
        where.append(f"{study.members[arm]} seed{'' if study.members[arm] == 1 else 's'}")
    lines = [" · ".join(where) if arm in study.measured else "not judged yet"]
    if facts.get("tokenizer") and shared["tokenizer"] is None:
        lines.append(f"tokenizer {facts['tokenizer']}")
    if facts.get("parameters"):
        lines.append(f"{facts['parameters']:,} parameters")
    if isinstance(facts.get("seconds"), int | float):
        lines.append(f"trained in {duration(facts['seconds'])}")
    return [line for line in lines if line]


def _pairs(found: list[Comparison]) -> dict[str, Any]:
    """The pairs of arms shown and those folded away: all if they are few, else those that tell come first."""
    clear = [one for one in found if words.better(one)]
    unclear = [one for one in found if not words.better(one)]
    shown, folded = found, []
    if len(found) > PAIRS:
        # Corrected p-values tie at 1, so the order is that of the plain ones.
        nearest = sorted(unclear, key=lambda one: 2.0 if one.difference.p is None else one.difference.p)
        shown, folded = clear + nearest[:NEAREST], [one for one in unclear if one not in nearest[:NEAREST]]
    return {
        "total": len(found),
        "told": len(clear),
        "nearest": len(shown) - len(clear),
        "shown": [_comparison(one) for one in shown],
        "folded": [_comparison(one) for one in folded],
    }


def _comparison(one: Comparison) -> dict[str, Any]:
    """A pair of arms at one level, the better one first where that can be told."""
    gap, winner = one.difference, words.better(one)
    a, b, sign = (one.arm_b, one.arm_a, -1) if gap.mean < 0 else (one.arm_a, one.arm_b, 1)
    low = high = None
    if gap.low is not None and gap.high is not None:
        low, high = sorted((sign * gap.low, sign * gap.high))
    return {
        "level": one.level,
        "a": a,
        "b": b,
        "mean": sign * gap.mean,
        "low": None if low is None else max(low, -1.0),
        "high": None if high is None else min(high, 1.0),
        "points": words.points(sign * gap.mean),
        "span": "one seed: no interval"
        if low is None or high is None
        else f"{words.points(low)} to {words.points(high)}",
        "p": words.p_value(one.p_corrected) if one.p_corrected is not None else "no test possible",
        "verdict": f"{winner} is better" if winner else "cannot tell",
        "decided": winner is not None,
        "n": gap.n,
    }


def _curves(study: Finished) -> dict[str, Any]:
    """What the script draws: per arm, measure and composition the members' values at every step."""
    codes = sorted(study.levels, key=lambda code: (study.levels[code], code))
    present = [m for m in MEASURES if study.rows and m in study.rows[0]]
    numbers = len(study.rows) * len(present)
    arms = []
    for arm in study.measured:
        rows = [row for row in study.rows if row["arm"] == arm]
        steps = sorted({row["step"] for row in rows})
        keep = set(steps[:: -max(1, math.ceil(numbers / CURVE_NUMBERS))])  # counted from the end: the last one stays
        steps = [step for step in steps if step in keep]
        members = sorted({row["member"] for row in rows})
        at = {(row["composition"], row["step"], row["member"]): row for row in rows}
        values = {
            measure: {
                code: [[_number(at.get((code, step, m), {}).get(measure)) for m in members] for step in steps]
                for code in codes
            }
            for measure in present
        }
        seeds = [next(row["seed"] for row in rows if row["member"] == m) for m in members]
        arms.append({"name": arm, "steps": steps, "seeds": seeds, "values": values})
    return {
        "arms": arms,
        "measures": present,
        "compositions": [{"code": c, "words": study.describe(c), "level": study.levels[c]} for c in codes],
        "levels": [{"level": k, "name": words.level_name(k)} for k in sorted(set(study.levels.values()))],
    }


def _number(value: Any) -> float | None:
    return round(float(value), 4) if value is not None and math.isfinite(value) else None


def _compositions(study: Finished) -> list[dict[str, Any]]:
    """Per composition the mean over members at the last step, for readers without the script and on paper."""
    means: dict[tuple[str, str], list[float]] = {}
    for row in study.rows:
        if row["step"] == study.last_steps[row["arm"]]:
            means.setdefault((row["composition"], row["arm"]), []).append(row["joint"])
    rows = []
    for code in sorted(study.levels, key=lambda code: (study.levels[code], code)):
        own = [means.get((code, arm)) for arm in study.measured]
        rows.append(
            {
                "code": code,
                "words": study.describe(code),
                "level": study.levels[code],
                "level_name": words.level_name(study.levels[code]),
                "agreed": code in study.agreed_levels,
                "means": [sum(values) / len(values) if values else None for values in own],
            }
        )
    return rows


def _judge(study: Finished) -> list[dict[str, Any]]:
    """The judge's own tests: what it must see, what it must let pass and what it must refuse."""
    tests = []
    accuracy = _shares(study.part("judge", "probe", "accuracy"))
    if accuracy:
        worst = min(accuracy, key=lambda code: accuracy[code])
        tests.append(
            ("probe right on real images", f"worst composition: {worst} ({study.describe(worst)})", accuracy[worst])
        )
    for key, share in _shares(study.part("judge", "accepted")).items():
        what = "real images accepted" if key == "real" else f"images rebuilt by {key} accepted"
        tests.append((what, "must pass", share))
    far = study.part("judge", "half_trained_far")  # [far from every real image, drawn]
    for key, share in _shares(study.part("judge", "refused")).items():
        note = "must not pass"
        if isinstance(far.get(key), list) and len(far[key]) == 2:
            note += f"; of {far[key][1]} samples, the {far[key][0]} that are unlike every real image"
        tests.append((f"{key} refused", note, share))
    return [{"what": what, "note": note, "share": share, "ok": share >= GATE} for what, note, share in tests]


def _shares(named: dict[str, Any]) -> dict[str, float]:
    """The numbers among named values; what was not measured is left out."""
    return {
        str(key): float(value)
        for key, value in named.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _ceilings(study: Finished, levels: list[int]) -> list[dict[str, Any]]:
    """Per tokenizer and level: how many real images are still judged right after encoding and decoding."""
    rows = []
    for name in study.part("tokenizers"):
        ceiling = study.part("tokenizers", name, "ceiling")
        if ceiling:
            keys = ("joint", "valid", "joint_probe_only")
            per_level = [{key: words.level_mean(ceiling, study.levels, k, key) for key in keys} for k in levels]
            rows.append(
                {"name": name, "levels": per_level, "sees": study.part("tokenizers", name, "settings").get("sees")}
            )
    return rows


def _times(study: Finished) -> list[dict[str, Any]]:
    """Stages with their share of the longest, for bars."""
    stages = {key: value for key, value in _shares(study.part("seconds")).items() if key != "total"}
    longest = max(stages.values(), default=0) or 1
    return [{"stage": key, "seconds": value, "share": value / longest} for key, value in stages.items()]
