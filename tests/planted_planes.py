"""Studies of decoders with planted numbers, for tests of the claims on rendering (nothing here is a result).

The folder is what a study writes: results with a row for every cell, pictures, measures and maps; the numbers are made
to order.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import save_file

from recombine.anatomy.kernels import FAMILIES
from recombine.anatomy.measures import Measured, rows, write_measures
from recombine.judges.plane import Judged
from recombine.studies.pictures import write_pictures
from recombine.studies.rendering import RenderingStudy
from recombine.studies.rendering_run import RenderedArm
from recombine.studies.rendering_table import table_of

SEEDS = tuple(range(6))
LAYERS = ("input", "layer 1", "layer 2", "output")
Means = dict[tuple[str, str, str], float]


def means(hit: float = 0.3, relative: float = 0.85, inside: float = 0.02, **more: float) -> Means:
    """Means over seeds by (layer, measure, region): a decoder that fails by superposition unless said otherwise."""
    found: Means = {
        ("picture", "hit", "held_out"): hit,
        ("picture", "hit", "trained"): 1.0,
        ("picture", "relative", "held_out"): relative,
        ("picture", "relative", "trained"): inside,
    }
    words = {"memory": 0.84, "truth": 0.05, "control": 0.15, "share": 0.93, "explained": 0.8}
    for word, value in words.items():
        for region in ("deep", "held_out"):
            found["picture", f"superposition_{word}", region] = more.get(word, value)
    kernels = {"factorized": 0.7, "binary_factorized": 0.9} | {f: 0.4 for f in FAMILIES[2:]}
    for i, layer in enumerate((*LAYERS, "truth")):
        if layer.startswith("layer"):
            found |= {(layer, f"kernel_r2_{family}", "trained"): kernels[family] for family in FAMILIES}
        shrinks = 0.0 if layer == "truth" else -0.3 * i
        found |= {(layer, "log_volume", "trained"): -0.05, (layer, "log_volume", "held_out"): -0.05 + shrinks}
        found |= {(layer, "overlap", region): 0.1 * i for region in ("trained", "held_out")}
    return found


def plant_plane(folder: Path, study: RenderingStudy, plans: Mapping[str, Means], step: int = 3150) -> Path:
    """Write the folder of a finished study whose arms have these means."""
    folder.mkdir(parents=True, exist_ok=True)
    tables, measured, pictures, maps = [], [], {}, {}
    for name, plan in plans.items():
        settings = study.arms[name]
        plane = settings.plane()
        noise = torch.Generator().manual_seed(len(name) + 17)
        count, members = len(plane.cells), len(study.seeds)

        def at(word: str, plan: Means = plan, plane: Any = plane) -> torch.Tensor:
            region = {True: plan["picture", word, "trained"], False: plan["picture", word, "held_out"]}
            return torch.tensor([region[bool(cell)] for cell in plane.trained])

        hit = torch.rand(members, count, generator=noise) < at("hit")
        mse = (at("relative") * plane.blank).expand(members, -1) * (
            1 + 0.05 * torch.randn(members, count, generator=noise)
        )
        judged = Judged(
            mse=mse,
            ssim=torch.full_like(mse, 0.5),
            position_error=(~hit).float() * 3,
            right=hit[..., None].expand(-1, -1, plane.cells.shape[1]),
            valid=hit,
            fade_mse=mse,
        )
        drawn = (plane.images * 255).round().to(torch.uint8)
        arm = RenderedArm(
            settings, plane, {step: judged}, {step: [0.0] * members}, drawn, 1.0, 1, None, None, None, None, [members]
        )
        tables.append(table_of(study, name, arm))
        pictures |= {name: drawn, f"{name}.real": drawn.clone()}
        spread = {
            key: mean + 0.02 * abs(mean) * torch.randn(members, generator=noise) if mean not in (0.0, 1.0) else
            torch.full((members,), mean)
            for key, mean in plan.items()
        }  # fmt: skip
        measured += rows(study.name, name, study.seeds, [Measured(*key, values) for key, values in spread.items()])
        held = int((~plane.trained).sum())
        for word in ("memory", "truth", "control", "share"):
            mean = plan["picture", f"superposition_{word}", "held_out"]
            maps[f"{name}.superposition.{word}"] = mean + 0.02 * torch.randn(members, held, generator=noise)
        maps[f"{name}.superposition.depth"] = plane.depth[~plane.trained].clone()
        for layer in LAYERS:
            maps[f"{name}.kernel.{layer}"] = torch.rand(count, generator=noise)
            maps[f"{name}.volume.{layer}"] = -torch.rand(count, generator=noise)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.concat_tables(tables, promote_options="default"), sink)
    (folder / "results.parquet").write_bytes(sink.getvalue().to_pybytes())
    write_measures(folder, measured)
    write_pictures(folder, pictures)
    save_file(maps, folder / "maps.safetensors")
    resolved = study.resolved()
    resolved["arms"] = {name: resolved["arms"][name] for name in plans}
    facts = {
        "kind": "rendering",
        "name": study.name,
        "question": study.question,
        "limits": study.limits,
        "study": resolved,
        "command": f"recombine run {study.name} --out results/{study.name}",
        "versions": {"torch": "2.13.0", "code": "0123456789ab"},
        "hardware": {"device": "cuda", "gpu": "an invented GPU", "cores": 8},
        "finished": "2026-01-01T12:00:00+00:00",
        "seconds": {"total": 60.0},
        "arms": {name: {"settings": resolved["arms"][name]} for name in plans},
    }
    (folder / "study.json").write_text(json.dumps(facts), encoding="utf-8")
    return folder


SMALL = {
    "world": {"kind": "bumps", "image_size": 12},
    "support": {"kind": "donut", "low": 3, "high": 8},
    "decoder": {"kind": "cnn", "depth": 2, "width": 4},
}


def plane_study(name: str, arms: Mapping[str, Mapping[str, Any]]) -> RenderingStudy:
    words = {
        "name": name,
        "question": "Is it so?",
        "seeds": SEEDS,
        "arms": {a: {**SMALL, **s} for a, s in arms.items()},
    }
    return RenderingStudy.model_validate(words)


ONEHOT = {"encoding": {"kind": "onehot"}}
RENDERING = plane_study(
    "rendering", {"cnn": {}, "onehot": ONEHOT, "mlp": {"decoder": {"kind": "mlp", "depth": 2, "width": 8}}}
)
REMEDIES = plane_study(
    "rendering-remedies",
    {
        "plain": ONEHOT,
        "stripes": {**ONEHOT, "data": {"stripes": 500}},
        "taught": {**ONEHOT, "data": {"stripes": 500, "order": "curriculum"}},
        "lowrank": {**ONEHOT, "decoder": {"kind": "lowrank"}},
        "free": {**ONEHOT, "decoder": {"kind": "lowrank", "entropy_weight": 0.0, "variance_weight": 0.0}},
        "coordinate": {**ONEHOT, "decoder": {"kind": "coordinate", "depth": 2, "width": 8}},
    },
)
ROTATION = plane_study(
    "rotation",
    {
        "rotator": {
            "world": {"kind": "digits", "angles": 60},
            "support": {"kind": "gap"},
            "encoding": {"kind": "angle"},
            "decoder": {"kind": "rotator", "width": 4},
        }
    },
)
SIZES, COUNTS = (8, 12, 16), (16, 32, 48, 80, 112, 144, 192, 256, 384, 1024)  # close by the needs, to know them
SCALING = plane_study(
    "rendering-scaling",
    {
        f"{group}-{size}-{count}": {
            **ONEHOT,
            "world": {"kind": "bumps", "image_size": size},
            "support": {"kind": "donut", "low": 1, "high": 6},  # 16 of its 36 pairs lie off the rim
            "data": {"images": count, "stripes": count // 4 if group == "stripes" else 0},
        }
        for group in ("bumps", "stripes")
        for size in SIZES
        for count in COUNTS
    },
)


def scaling_plans() -> dict[str, Means]:
    """A share that passes 60 % at 128 (N / 12)^3 images without stripes and at 128 (N / 12) with them."""
    found = {}
    for name in SCALING.arms:
        group, size, count = name.split("-")
        need = 128 * (int(size) / 12) ** (3 if group == "bumps" else 1)
        found[name] = means(hit=1 / (1 + (need / int(count)) ** 2 * (0.4 / 0.6)))
    return found


def plant_planes(folder: Path) -> list[Path]:
    """A folder per study, such that F1 to F9 are reproduced."""
    fixed = means(hit=0.98, relative=0.03, memory=0.1, truth=0.95, share=0.05)
    return [
        plant_plane(folder / "rendering", RENDERING, {name: means() for name in RENDERING.arms}),
        plant_plane(
            folder / "rendering-remedies",
            REMEDIES,
            {name: means() if name in ("plain", "free") else fixed for name in REMEDIES.arms},
        ),
        plant_plane(folder / "rotation", ROTATION, {"rotator": means()}),
        plant_plane(folder / "rendering-scaling", SCALING, scaling_plans()),
    ]
