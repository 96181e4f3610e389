"""What a step costs as members, tokens, width and data grow: where it bends.

    python benchmarks/growth.py benchmarks/tables/growth.json

One axis at a time, from size s with 8 members of batch 128 and 49 tokens on a GPU (from xs with 9 tokens and batch 64
on a CPU, over a shorter range). Each row has the milliseconds of a step, of a seed-step, the TFLOP/s and the memory.
"""

import json
import statistics
import sys
from dataclasses import replace
from pathlib import Path

import torch

from recombine.bench import Case, flops, in_turn, members_step
from recombine.provenance import code_version

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
START = Case("s", 8, 7, 128) if GPU else Case("xs", 4, 3, 64)
MEMBERS = (1, 2, 4, 8, 16, 32, 64) if GPU else (1, 2, 4, 8)
SIDES = (4, 7, 8, 16, 32) if GPU else (2, 3, 4)
WIDTHS = (128, 256, 384, 512, 768) if GPU else (32, 64, 96)
DATA = (1_000, 10_000, 100_000) if GPU else (1_000, 10_000)


def measure(axis: str, value: int, case: Case) -> dict[str, object]:
    """One row; out of memory is a row too."""
    row: dict[str, object] = {"axis": axis, "value": value, "members": case.members, "tokens": case.tokens}
    row |= {"width": case.dimensions.width, "batch": case.batch, "commit": code_version()}
    if GPU:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        seconds = statistics.median(in_turn([members_step(case, case.members, DEVICE)[0]], DEVICE)[0])
    except torch.OutOfMemoryError:
        return row | {"milliseconds": None}
    rate = flops(case) * case.members / seconds / 1e12
    row |= {"milliseconds": round(1e3 * seconds, 3), "per_seed": round(1e3 * seconds / case.members, 3)}
    row |= {"tflops": round(rate, 2), "device": torch.cuda.get_device_name() if GPU else "cpu"}
    return row | ({"memory_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2)} if GPU else {})


def main(place: Path) -> None:
    rows = []

    def add(axis: str, value: int, case: Case) -> None:
        rows.append(measure(axis, value, case))
        print(rows[-1], flush=True)
        place.write_text(json.dumps(rows, indent=1) + "\n")

    for members in MEMBERS:
        add("members", members, replace(START, members=members))
    for side in SIDES:  # as many tokens in all: fewer images where an image has more
        add("tokens", side**2, replace(START, side=side, batch=max(1, START.batch * START.tokens // side**2)))
    for width in WIDTHS:
        add("width", width, replace(START, width=width))
    for images in DATA:
        add("images", images, replace(START, images=images))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
