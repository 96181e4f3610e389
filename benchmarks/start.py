"""How long an arm takes from nothing to full speed: compiling its kernels and capturing its step, cold and warm.

    python benchmarks/start.py benchmarks/tables/start.json [--families dit,maskgit]

For each family of the study `objectives` (settings and tokens from its file; size s, 8 members, batch 128) two fresh
processes, one after the other, with one folder for compiled kernels (TRITON_CACHE_DIR, and CUDA's own CUDA_CACHE_PATH):
empty for the first (cold), as the first left it for the second (warm). Each gives the seconds from building the members
to the end of the fifth step, as `recombine bench` does: by then, on a GPU, the step was captured and replayed. Not
counted: importing torch and the project, and what the first matrix product on a device and the first optimizer cost.
All processes make these preparations together and then wait for their turn; only one at a time works. The seconds of
building alone (weights, data, the trainer) stand beside.

On a CPU, where nothing is compiled or captured, size xs with 2 members, to try it. Rows have the device, the version of
torch and the code version. The file is written anew after each family.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from recombine import files
from recombine.generators import TokenShape, build_generator
from recombine.generators.maskgit import MaskGIT
from recombine.nets.backbone import SIZES
from recombine.provenance import code_version
from recombine.studies.spec import Study, load_study
from recombine.tokenizers import VQVAESettings
from recombine.training import Trainer, TrainingData
from recombine.worlds import build_world

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SIZE, MEMBERS, BATCH, IMAGES = ("s", 8, 128, 4000) if DEVICE.type == "cuda" else ("xs", 2, 8, 64)
STUDY = "objectives"
FAMILIES = {"dit": "dit-vq", "maskgit": "maskgit", "maskgit+jepa": "maskgit-jepa", "givt": "givt", "mar": "mar"}  # arms
STEPS = 5  # the first three are not captured


def study() -> Study:
    found = load_study(STUDY)
    assert isinstance(found, Study)
    return found


def token_shape(settings: VQVAESettings, image_size: int) -> TokenShape:
    side = image_size // settings.factor
    return TokenShape((side, side), settings.channels, settings.codes)


def finish() -> float:
    """The time, once the device has done all its work."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def prepare() -> None:
    """What a process pays once, whatever it trains."""
    a = torch.ones(256, 256, device=DEVICE, dtype=torch.bfloat16 if DEVICE.type == "cuda" else torch.float32)
    (a @ a + 1).sum().item()
    torch.optim.AdamW([torch.nn.Parameter(a)])  # the first one imports the larger half of torch


def start(family: str) -> dict[str, float]:
    """Seconds of building one arm's members, and of that with their first steps."""
    whole = study()
    arm, world = whole.arms[FAMILIES[family]], build_world(whole.world)
    assert isinstance(arm.tokenizer, VQVAESettings)
    shape = token_shape(arm.tokenizer, world.image_size)
    training = arm.training.model_copy(update={"size": SIZE, "batch": BATCH})
    begun = finish()
    generator = build_generator(
        arm.generator, shape, arm.conditioning, world.factors, SIZES[SIZE], range(MEMBERS), arm.jepa
    ).to(DEVICE)
    if isinstance(generator, MaskGIT):
        generator.use_codebook(torch.randn(shape.codes or 0, shape.channels, device=DEVICE))
    if generator.takes == "ids":
        x = torch.randint(shape.codes or 0, (IMAGES, shape.tokens), device=DEVICE)
    else:
        x = torch.randn(IMAGES, shape.tokens, shape.channels, device=DEVICE)
    cond = torch.randint(2, (IMAGES, len(world.factors)), device=DEVICE).float()
    trainer = Trainer(generator, TrainingData(x, None, cond), training)
    built = finish() - begun
    trainer.run(STEPS)
    return {"build_seconds": round(built, 3), "seconds": round(finish() - begun, 3)}


def child(family: str) -> None:
    """A process of its own: ready, then at a word from its parent the measurement."""
    prepare()
    print("ready", flush=True)
    if sys.stdin.readline():  # nothing, where the parent is gone
        print(json.dumps(start(family)), flush=True)


class Child:
    """A process that prepares itself and waits."""

    def __init__(self, family: str, cache: Path):
        words = [sys.executable, __file__, "--child", family]
        places = {"TRITON_CACHE_DIR": str(cache / "triton"), "CUDA_CACHE_PATH": str(cache / "cuda")}
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | places
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        if not said:
            raise SystemExit("start.py: a process ended before it had measured; what it said stands above.")
        return said

    def measure(self) -> dict[str, float]:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        found: dict[str, float] = json.loads(self.line())
        self.process.wait()  # it gives the device back before the next one begins
        return found


def main(place: Path, families: list[str]) -> None:
    whole = study()
    device = torch.cuda.get_device_name() if DEVICE.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    rows: list[dict[str, object]] = []
    with ExitStack() as stack:
        pairs = {}
        for family in families:
            cache = Path(stack.enter_context(TemporaryDirectory()))
            pairs[family] = Child(family, cache), Child(family, cache)
        children = [one for pair in pairs.values() for one in pair]
        for one in children:
            stack.callback(one.process.kill)  # nothing, for one that has ended
        for one in children:
            one.line()
        print(f"{'family':14} {'cold':>8} {'building':>9} {'warm':>8} {'building':>9}   seconds", flush=True)
        for family, (first, second) in pairs.items():
            cold, warm = first.measure(), second.measure()
            numbers = (cold["seconds"], cold["build_seconds"], warm["seconds"], warm["build_seconds"])
            print("{:14} {:8.2f} {:9.2f} {:8.2f} {:9.2f}".format(family, *numbers), flush=True)
            settings = whole.arms[FAMILIES[family]].tokenizer
            assert isinstance(settings, VQVAESettings)
            tokens = token_shape(settings, whole.world.image_size).tokens
            rows.append(
                {"family": family, "size": SIZE, "members": MEMBERS, "tokens": tokens, "batch": BATCH}
                | {f"cold_{word}": value for word, value in cold.items()}
                | {f"warm_{word}": value for word, value in warm.items()}
                | {"device": device, "torch": torch.__version__, "commit": code_version()}
            )
            files.save_json_atomic(place, rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("place", metavar="OUT.json", type=Path, nargs="?")
    parser.add_argument("--families", default=",".join(FAMILIES), help="separated by commas; all without it")
    parser.add_argument("--child", choices=FAMILIES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child)
    else:
        chosen = given.families.split(",")
        unknown = sorted(set(chosen) - set(FAMILIES))
        if given.place is None or unknown:
            parser.error(f"unknown families {unknown}: take some of {','.join(FAMILIES)}" if unknown else "where to?")
        main(given.place, chosen)
