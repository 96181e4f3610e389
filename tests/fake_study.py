"""A finished study folder with invented numbers, for tests of what reads one (nothing here is a result).

Eight compositions (shape x colour x size), trained on the star of "000" and its three neighbours, so that there are
three level-1 compositions and one of level-2. The curves rise at a speed that depends on the arm and the level.
"""

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from folders import facts_of, put_pictures
from recombine.studies.monitors import write_monitors
from recombine.studies.quality_table import ABOUT as METRICS
from recombine.studies.quality_table import write_quality

FACTORS = (("shape", ("circle", "square")), ("colour", ("blue", "orange")), ("size", ("small", "large")))
CODES = tuple("".join(map(str, c)) for c in itertools.product((0, 1), repeat=3))
TRAIN = ("000", "001", "010", "100")
LEVELS = {code: max(0, code.count("1") - 1) for code in CODES}
# Where each arm's accuracy ends per level, and how far members lie apart there.
ENDS = {
    "maskgit": ((0.99, 0.62, 0.05), (0.005, 0.05, 0.04)),
    "dit": ((0.995, 0.97, 0.72), (0.003, 0.01, 0.12)),
    "dit-ddpm": ((0.98, 0.95, 0.66), (0.01, 0.02, 0.15)),
}
OTHERS = ((0.97, 0.3, 0.02), (0.01, 0.05, 0.01))  # of any other arm
TWELVE = ("maskgit", "dit", *(f"arm-with-a-long-name-{i}" for i in range(10)))
Row = dict[str, Any]
COLOURS = ((0.23, 0.47, 0.85), (0.95, 0.55, 0.15))


def draw(code: str, random: np.random.Generator, pixels: int, blur: float = 0.0) -> np.ndarray:
    """One uint8 picture (3, P, P) of a composition, its object a little off the middle."""
    shape, colour, size = (int(c) for c in code)
    radius = (0.2, 0.34)[size] * pixels
    middle = pixels / 2 + random.uniform(-0.1, 0.1, 2) * pixels
    y, x = np.mgrid[:pixels, :pixels] + 0.5
    dy, dx = y - middle[0], x - middle[1]
    distance = np.hypot(dx, dy) if shape == 0 else np.maximum(abs(dx), abs(dy)) * 1.1
    cover = np.clip((radius - distance) / (1.0 + blur) + 0.5, 0, 1)
    ink = np.asarray(COLOURS[colour])[:, None, None]
    picture = 0.93 * (1 - cover) + ink * cover + random.normal(0, 0.01 + blur / 20, (3, pixels, pixels))
    return (np.clip(picture, 0, 1) * 255).round().astype(np.uint8)


def _rows(arms: dict[str, list[int]], members: int, random: np.random.Generator) -> list[dict[str, Any]]:
    """Rows of each arm at its own steps."""
    rows = []
    every = [
        (arm, m, step, code) for arm, own in arms.items() for m in range(members) for step in own for code in CODES
    ]
    for arm, member, step, code in every:
        ends, spreads = ENDS.get(arm, OTHERS)
        level = LEVELS[code]
        lean = np.random.default_rng([member, level, len(arm)]).normal(0, spreads[level])
        speed = 1 - np.exp(-4.0 * step / arms[arm][-1] / (1 + 0.8 * level))
        joint = float(np.clip((ends[level] + lean) * speed + random.normal(0, 0.01), 0, 1))
        raw = float(np.clip(joint - 0.06 * random.random(), 0, 1))
        row: dict[str, Any] = {"study": "fake", "arm": arm, "member": member, "seed": 100 + member, "step": step}
        row |= {"composition": code, "level": level, "n": 64, "joint": joint}
        row |= {f"factor_{name}": min(1.0, joint + 0.1 * random.random()) for name, _ in FACTORS}
        row |= {"valid": min(1.0, joint + 0.03), "joint_probe_only": min(1.0, joint + 0.12 * (1 - joint) + 0.02)}
        row |= {"joint_raw": raw, "valid_raw": min(1.0, raw + 0.03), "joint_probe_only_raw": min(1.0, raw + 0.05)}
        row["loss"] = 2.0 - 1.5 * float(speed)
        rows.append(row)
    return rows


def _pictures(arms: Sequence[str], count: int, pixels: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    def sheet(blur: float) -> np.ndarray:
        return np.stack([np.stack([draw(code, random, pixels, blur) for _ in range(count)]) for code in CODES])

    tensors = {"real": sheet(0.0), "reconstruction.vq": sheet(0.6), "reconstruction.vae": sheet(0.9)}
    for arm in arms:
        right = np.zeros((len(CODES), count), np.uint8)
        valid = np.zeros((len(CODES), count), np.uint8)
        drawn = np.zeros((len(CODES), count, 3, pixels, pixels), np.uint8)
        for k, code in enumerate(CODES):
            share = ENDS.get(arm, OTHERS)[0][LEVELS[code]]
            for i in range(count):
                right[k, i] = random.random() < share + 0.1
                valid[k, i] = random.random() < share + 0.2
                shown = code if right[k, i] else TRAIN[random.integers(len(TRAIN))]
                drawn[k, i] = draw(shown, random, pixels, 0.3 if valid[k, i] else 5.0)
        tensors |= {arm: drawn, f"{arm}.right": right, f"{arm}.valid": valid, f"{arm}.joint": right & valid}
    return tensors


def fake_monitors(
    arms: Sequence[str], members: int, steps: Sequence[int] = (500,), layers: int = 4
) -> list[dict[str, Any]]:
    """Invented rows of monitors.parquet: probes that read more the deeper, JEPA and mixtures in some arms only."""
    random = np.random.default_rng(1)
    rows: list[dict[str, Any]] = []

    def add(monitor: str, value: float, layer: int | None = None, level: int | None = None) -> None:
        rows.append({**who, "monitor": monitor, "layer": layer, "level": level, "value": value})

    for a, arm in enumerate(arms):
        for member, step in itertools.product(range(members), steps):
            who = {"study": "fake", "arm": arm, "member": member, "seed": 100 + member, "step": step}
            noise = 1 + 0.06 * random.normal()
            for layer in range(1, layers + 1):
                depth = layer / layers
                add("rank_me", (20 + 6 * a + 40 * depth * (1 - depth)) * noise, layer)
                add("spread", (0.3 + 0.6 * depth) * noise, layer)
                add("mean_cosine", 0.8 - 0.6 * depth - 0.05 * a * noise, layer)
                for (factor, _), level in itertools.product(FACTORS, range(3)):
                    reads = 1 - 0.5 * np.exp(-2.5 * depth / (1 + level)) - 0.03 * a * noise
                    add(f"linear_{factor}", float(np.clip(reads, 0, 1)), layer, level)
                if a % 3 == 0:
                    add("jepa_loss", 0.4 * (1 - 0.5 * depth) * noise, layer)
                    add("jepa_over_mean", 0.9 - 0.5 * depth * noise, layer)
            if a % 3 == 1:
                for level in range(3):
                    add("held_out_nll", (-1.2 + 0.4 * level) * noise, level=level)
                    add("scales_at_floor", 0.02 * noise, level=level)
                add("guidance_refused", 0.004 * noise)
    return rows


def fake_quality(arms: Sequence[str], members: int, steps: Sequence[int] = (500,)) -> list[dict[str, Any]]:
    """Invented rows of quality.parquet: worse the farther from training, references that all arms share."""
    random = np.random.default_rng(2)
    rows: list[dict[str, Any]] = []
    places: list[tuple[int, str | None]] = [(level, None) for level in range(3)]
    places += [(level, code) for code, level in LEVELS.items()]
    for (a, arm), metric, (level, code) in itertools.product(enumerate(arms), METRICS, places):
        best = {"frechet": 0.02, "copied": 0.01}.get(metric, 0.9)
        for member, step in itertools.product(range(members), steps):
            worse = (1 + level) * (1 + 0.4 * a) * float(1 + 0.1 * random.normal())
            value = min(best * worse, 1.0) if metric in ("frechet", "copied") else best / max(worse, 1.0)
            who = {"study": "fake", "arm": arm, "member": member, "seed": 100 + member, "step": step}
            row = who | {"level": level, "composition": code, "metric": metric, "value": value}
            rows.append(row | {"real": best, "rebuilt": 1.1 * best, "n": 64})
    return rows


def write_fake_study(
    folder: Path,
    *,
    arms: Sequence[str] = ("maskgit", "dit", "dit-ddpm"),
    members: int = 3,
    evaluations: int = 6,
    pictures: bool = True,
    monitors: bool = False,
    quality: bool = False,
    longer: Sequence[str] = (),
    count: int = 8,
    pixels: int = 28,
    name: str = "objectives-demo",
    question: str = "Can MaskGIT and DiT draw combinations of shape, colour and size that they never saw?",
) -> Path:
    """Write results.parquet, study.json and pictures into `folder` as a finished study leaves them.

    The arms of `longer` are trained for twice as many steps, as their settings ask.
    """
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    steps = [500 * (i + 1) for i in range(evaluations)]
    own_steps = {arm: [2 * step for step in steps] if arm in longer else steps for arm in arms}
    pq.write_table(pa.Table.from_pylist(_rows(own_steps, members, random)), folder / "results.parquet")
    if pictures:
        put_pictures(folder, _pictures(arms, count, pixels, random))
    if monitors:
        write_monitors(folder, fake_monitors(arms, members, steps[-2:]))
    if quality:
        write_quality(folder, fake_quality(arms, members, steps[-2:]))
    tokenizers = {
        "vq": {"kind": "vqvae", "codes": 64, "sees": "all"},
        "vae": {"kind": "vae", "latent": 4, "sees": "all"},
    }
    ceiling = {
        "vq": {c: {"joint": 1 - 0.01 * v, "valid": 1 - 0.005 * v, "joint_probe_only": 1.0} for c, v in LEVELS.items()},
        "vae": {c: {"joint": 1 - 0.04 * v, "valid": 1 - 0.03 * v, "joint_probe_only": 0.99} for c, v in LEVELS.items()},
    }
    uses = {arm: "vq" if arm == "maskgit" else "vae" for arm in arms}
    facts = {
        "name": name,
        "question": question,
        "study": {
            "name": name,
            "question": question,
            "world": {"kind": "shapes2d", "image_size": pixels, "shapes": 2, "colours": 2, "sizes": 2},
            "split": {"kind": "levels", "train": list(TRAIN)},
            "tokenizers": tokenizers,
            "arms": {arm: {"generator": {"kind": arm.split("-")[0]}, "tokenizer": uses[arm]} for arm in arms},
        },
        "versions": {"python": "3.11.9", "torch": "2.13.0", "recombine": "0.1.0"},
        "hardware": {"device": "cpu", "cpu": "an invented processor", "cores": 2},
        "seconds": {"total": 312.4, "probe": 14.1, "tokenizers": 61.0, "arms": 219.8, "judging": 17.5},
        "started": "2026-01-01T10:00:00+00:00",
        "finished": "2026-01-01T10:05:12+00:00",
        "world": {
            "name": "shapes2d",
            "factors": [{"name": n, "values": list(v)} for n, v in FACTORS],
            "image_size": pixels,
        },
        "split": {"train": list(TRAIN), "levels": LEVELS},
        "judge": {
            "probe": {"accuracy": {code: 1.0 - 0.001 * int(code, 2) for code in CODES}},
            "threshold": 0.031,
            "accepted": {"real": 0.996, "vq": 0.993, "vae": 0.991},
            "refused": {"noise": 1.0, "blends": 0.998, "in-between colours": 0.994, "cut shapes": 0.97},
        },
        "tokenizers": {
            key: {"settings": value, "log": {"seconds": 30.0}, "ceiling": ceiling[key]}
            for key, value in tokenizers.items()
        },
        "arms": {
            arm: {
                "settings": {"generator": {"kind": arm}, "training": {"steps": own_steps[arm][-1], "batch": 64}},
                "tokenizer": uses[arm],
                "parameters": 812_345,
                "seconds": 73.3,
            }
            for arm in arms
        },
    }
    (folder / "study.json").write_text(json.dumps(facts), encoding="utf-8")
    return folder


def refill(folder: Path, column: str, value: Callable[[Row], float]) -> Path:
    """Write a column of results.parquet anew, row by row."""
    table = pq.read_table(folder / "results.parquet")
    values = [value(row) for row in table.to_pylist()]
    at = table.column_names.index(column)
    pq.write_table(table.set_column(at, column, [values]), folder / "results.parquet")
    return folder


def set_joint(folder: Path, ends: dict[tuple[str, int], list[float]]) -> Path:
    """Set joint of every row of (arm, level) to its member's number."""
    return refill(folder, "joint", lambda row: ends[row["arm"], row["level"]][row["member"]])


def keep_rows(folder: Path, kept: Callable[[Row], bool]) -> Path:
    """Leave out the other rows of results.parquet."""
    table = pq.read_table(folder / "results.parquet")
    pq.write_table(table.filter([kept(row) for row in table.to_pylist()]), folder / "results.parquet")
    return folder


def not_judged(folder: Path) -> Path:
    """The same study before its first evaluation: without results.parquet, and not finished."""
    (folder / "results.parquet").unlink()
    with facts_of(folder) as facts:
        facts["finished"] = None
    return folder


def write_twelve_arms(folder: Path) -> Path:
    """Twelve arms, of which two are trained for longer; only dit is clearly better than the others, at level-2."""
    write_fake_study(folder, arms=TWELVE, evaluations=2, count=2, monitors=True, longer=TWELVE[-2:])
    noise = np.random.default_rng(3).uniform(0, 0.04, (len(TWELVE), 3, 3))
    every = [(a, arm, k) for a, arm in enumerate(TWELVE) for k in range(3)]
    ends = {(arm, k): [(0.95, 0.3, 0.01)[k] + x for x in noise[a, k]] for a, arm, k in every}
    ends["dit", 2] = [0.92, 0.93, 0.91]
    ends["maskgit", 0], ends["dit", 0] = [0.6] * 3, [1.0] * 3
    return set_joint(folder, ends)
