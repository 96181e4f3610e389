"""A study that does not fit into a share of the GPU: its members are trained in parts, and it is said.

    python benchmarks/out_of_memory.py 0.06 0.01 0.002

gives torch 6 % of the GPU's memory and runs a small study of 16 wide batches in it; then 1 %, and 0.2 %. Prints what
the command says, and how many members were trained at a time, or the sentence that says why nothing could be.
"""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from recombine.errors import UserError
from recombine.progress import say
from recombine.runner import run_study
from recombine.studies.spec import parse_study

STUDY = """
name: crowded
question: Does it fit?
world: {kind: shapes2d, image_size: 12}
split: {kind: hamming}
tokenizer: {kind: pixels, patch: 4}
conditioning: full
training: {size: s, steps: 60, batch: 512}
judging: {samples: 16, evaluations: 2}
members: 16
arms:
  dit: {generator: dit}
"""


def run_in(share: float) -> str:
    """What becomes of the study in this share of the memory."""
    torch.cuda.set_per_process_memory_fraction(share)
    with TemporaryDirectory() as folder:
        try:
            run_study(parse_study(STUDY), Path(folder) / "out", device="cuda")
        except UserError as error:
            return str(error)
        facts = json.loads((Path(folder) / "out" / "study.json").read_text())
    return f"members at a time: {facts['arms']['dit']['members_at_once']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shares", type=float, nargs="+", help="of the GPU's memory, 0 to 1")
    for share in parser.parse_args().shares:
        say(f"in {share:.1%} of the memory:")
        say(run_in(share))
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
