"""How long each family takes to draw 8 compositions x 128 images x 8 members at size s, 49 tokens.

    python benchmarks/sampling.py benchmarks/tables/sampling.json

Weights are random (time does not depend on them), sampling settings are each family's own defaults. Each family draws
twice; the second drawing is timed, the first warms up. Rows have the name, the seconds,
the device and the code version.
"""

import json
import sys
import time
from pathlib import Path

import torch

from recombine.conditioning import ConditioningSettings
from recombine.generators import TokenShape, build_generator
from recombine.generators.autoregressive import AutoregressiveSettings
from recombine.generators.discrete_diffusion import DiscreteDiffusionSettings
from recombine.generators.dit import DiTSettings
from recombine.generators.givt import GIVTSettings
from recombine.generators.mar import MARSettings
from recombine.generators.maskgit import MaskGITSettings
from recombine.generators.regression import RegressionSettings
from recombine.nets.backbone import SIZES
from recombine.provenance import code_version
from recombine.randomness import Draws, seeds_tensor
from recombine.worlds import Shapes2D, Shapes2DSettings

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SHAPE = TokenShape(grid=(7, 7), channels=16, codes=256)
SIZE, MEMBERS, IMAGES = ("s", 8, 8 * 128) if DEVICE.type == "cuda" else ("xs", 2, 64)
FAMILIES = {
    "maskgit": MaskGITSettings(),
    "maskgit-halton": MaskGITSettings(order="halton"),
    "givt": GIVTSettings(),
    "givt-causal": GIVTSettings(style="causal"),
    "mar": MARSettings(),
    "mar-flow": MARSettings(head="flow", head_steps=25),
    "dit": DiTSettings(),
    "dit-ddpm-250": DiTSettings(objective="ddpm", sampling_steps=250),
    "autoregressive": AutoregressiveSettings(),
    "discrete-diffusion": DiscreteDiffusionSettings(),
    "regression": RegressionSettings(),
}


def finish() -> float:
    """The time, once the device has done all its work."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def main(place: Path) -> None:
    factors = Shapes2D(Shapes2DSettings()).factors
    seeds = list(range(MEMBERS))
    cond = torch.zeros(MEMBERS, IMAGES, len(factors), device=DEVICE)
    rows = []
    for name, settings in FAMILIES.items():
        generator = build_generator(settings, SHAPE, ConditioningSettings(), factors, SIZES[SIZE], seeds).to(DEVICE)
        generator.dtype = torch.bfloat16 if DEVICE.type == "cuda" else torch.float32
        seconds = 0.0
        for step in range(2):
            begun = finish()
            generator.sample(cond, Draws(seeds_tensor(seeds, DEVICE), "benchmark", step))
            seconds = finish() - begun
        device = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "cpu"
        rows.append({
            "name": name, "size": SIZE, "members": MEMBERS, "images": IMAGES, "tokens": SHAPE.tokens,
            "seconds": round(seconds, 3), "device": device, "commit": code_version(),
        })  # fmt: skip
        print(f"{name:20} {seconds:8.3f} s", flush=True)
        place.write_text(json.dumps(rows, indent=1) + "\n")
        del generator


if __name__ == "__main__":
    main(Path(sys.argv[1]))
