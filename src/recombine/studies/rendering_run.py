"""Run a forced-rendering study: every arm trained with all its seeds, judged over its plane, stored, and resumed.

The same store, claim on the folder and training loop as every study. What is judged is the whole plane, so there is no
probe or calibration; `judges/plane.py` says what is measured. `bridge.py` has what a generator needs where it stands in
place of a decoder.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from recombine import files, provenance
from recombine.curated import Plane, make_data
from recombine.encodings import Encoding
from recombine.errors import UserError
from recombine.generators import Generator
from recombine.generators.rendering import Rendering
from recombine.judges.plane import Judged, judge_plane, judge_samples, summarise
from recombine.nets.decoders import Decoder, build_decoder
from recombine.out_of_memory import FULL, ran_out
from recombine.peak_memory import peak_gib
from recombine.progress import say, track
from recombine.studies.arms import evaluation_steps
from recombine.studies.bridge import draw_samples, make_generator, open_tokenizer, tokenized
from recombine.studies.diverged import diverged_sentence
from recombine.studies.memory import Seeds, in_parts
from recombine.studies.pictures import write_pictures
from recombine.studies.rendering import RenderingArm, RenderingStudy
from recombine.studies.rendering_table import parquet, table_of
from recombine.studies.results import NAME as RESULTS
from recombine.studies.so_far import SoFar
from recombine.studies.store import Store, claim_folder
from recombine.studies.unfinished import Unfinished
from recombine.tokenizers import Tokenizer
from recombine.training import Trainer
from recombine.worlds.supports import connected, no_additive

VERSION = 1  # of our own code; raised when a change alters what an arm gives
SAVE_EVERY = 30.0  # seconds between checkpoints
STEPS_AT_ONCE = 20
KIND = "rendering"  # of entries in the store
WEIGHTS = "weights"  # the same, of what is only needed to look into an arm again


@dataclass(frozen=True)
class RenderedArm:
    """A finished arm."""

    settings: RenderingArm
    plane: Plane
    judged: dict[int, Judged]  # by step, in rising order
    losses: dict[int, list[float | None]]  # mean of each member since the evaluation before; None: it diverged
    images: Tensor  # (C, P, P) uint8: what the first member draws at the end (of a generator: its first samples)
    seconds: float
    parameters: int
    samples: Tensor | None  # (M, C, n, P, P) uint8: all that a generator drew at the end; None for a decoder
    tokenizer: dict[str, Any] | None  # what is known of a generator's tokenizer
    code: str | None  # the version that made it
    hardware: dict[str, Any] | None
    members_at_once: list[int]

    @property
    def last(self) -> Judged:
        return self.judged[max(self.judged)]

    def diverged(self, seeds: Seeds) -> list[int]:
        """Those of its `seeds` that had no loss at the end."""
        return [seed for seed, loss in zip(seeds, self.losses[max(self.losses)], strict=True) if loss is None]


def recipe_of(study: RenderingStudy, arm: RenderingArm, device: torch.device) -> dict[str, Any]:
    """Everything the result of an arm depends on."""
    return {
        "version": VERSION,
        "arm": arm.model_dump(mode="json"),
        # A decoder draws one picture of a cell, however many are asked of generators.
        "judging": study.judging.model_dump(mode="json", exclude={"samples"} if arm.decoder is not None else None),
        "seeds": list(study.seeds),
        "dtype": str(arm.dtype(device)),
    }


def make_trainer(
    arm: RenderingArm,
    seeds: tuple[int, ...],
    plane: Plane,
    code: Encoding,
    device: torch.device,
    tokenizer: Tokenizer | None = None,
) -> Trainer:
    """The members of an arm at step 0; a generator needs its tokenizer."""
    data = make_data(arm.data, arm.build_world(), plane, code, seeds, arm.training.steps, device)
    generator: Generator
    if arm.decoder is not None:
        decoder = build_decoder(arm.decoder, code.widths, arm.world.image_size, seeds)
        generator = Rendering(decoder, seeds, arm.training.absolute).to(device)
    else:
        assert tokenizer is not None
        generator = make_generator(arm, seeds, code, tokenizer, device)
        data = tokenized(data, tokenizer, generator.takes)
    trainer = Trainer(generator, data, arm.training.for_trainer(arm.dtype(device)))
    trainer.data = replace(data, step=trainer.step)  # a curriculum looks at the trainer's own count
    return trainer


def draw(trainer: Trainer, tokenizer: Tokenizer | None, codes: Tensor, samples: int) -> Tensor:
    """What the members draw for codes (C, W), with averaged weights if there are some: (M, C, n, P, P), n = 1 for a
    decoder."""
    with trainer.averaged():
        if tokenizer is not None:
            return draw_samples(trainer, tokenizer, codes, samples)
        asked = codes.expand(len(trainer.seeds), -1, -1)
        return trainer.generator.sample(asked, None)[:, :, None]  # type: ignore[arg-type]


def judge(pictures: Tensor, plane: Plane) -> Judged:
    """Pictures (M, C, n, P, P), judged one by one; n = 1 is the decoder's."""
    return judge_samples(pictures, plane) if pictures.shape[2] > 1 else judge_plane(pictures[:, :, 0], plane)


def run_arm(
    study: RenderingStudy,
    name: str,
    store: Store,
    device: torch.device,
    wait: bool = True,
    begin: Callable[[], None] | None = None,
) -> RenderedArm:
    """Train and judge an arm, or take it from the store. Where another process is at work on it, `wait` for that, or
    raise store.Busy. `begin` is called before members are trained."""
    arm = study.arms[name]
    recipe = recipe_of(study, arm, device)

    def of(seeds: Seeds) -> dict[str, Any]:
        return recipe | {"seeds": list(seeds)}

    def train(seeds: Seeds) -> None:
        some = study.model_copy(update={"seeds": seeds})
        with store.alone(KIND, of(seeds), f"arm {name}", wait):
            if store.has(KIND, of(seeds)):  # made while we waited
                return
            if begin is not None:
                begin()
            try:
                _train(some, name, arm, store, of(seeds), device)
            except FULL as error:
                if ran_out(error):
                    _work_of(store, of(seeds)).remove()  # nobody will go on with it
                raise

    parts = in_parts(name, study.seeds, lambda seeds: store.has(KIND, of(seeds)), train)
    if len(parts) > 1:
        _join(study, arm, store, recipe, [(len(seeds), of(seeds)) for seeds in parts])
    finished = stored_arm(arm, store, recipe)
    if lost := finished.diverged(study.seeds):
        say(diverged_sentence(name, lost))
    return finished


def in_store(study: RenderingStudy, store: Store, device: torch.device) -> list[str]:
    """The arms of the study that the store has, as they are trained on this device."""
    seeds = {"seeds": list(study.seeds)}
    return [name for name, arm in study.arms.items() if store.has(KIND, recipe_of(study, arm, device) | seeds)]


def _join(
    study: RenderingStudy, arm: RenderingArm, store: Store, recipe: dict[str, Any], parts: list[tuple[int, Any]]
) -> None:
    """Store the parts of an arm, (members, recipe) each, as the whole that the analyses open."""
    loaded = [store.load(KIND, own) for _, own in parts]
    first, facts = loaded[0]

    def joined(key: str) -> Tensor:
        axis = int(key.startswith("judged.") and first[f"{key.rpartition('.')[0]}.mse"].dim() == 3)  # samples in front
        return torch.cat([tensors[key] for tensors, _ in loaded], axis)

    tensors = {key: t if key == "images" else joined(key) for key, t in first.items()}
    losses = {step: [loss for _, own in loaded for loss in own["losses"][step]] for step in facts["losses"]}
    facts = facts | {"losses": losses, "seconds": sum(own["seconds"] for _, own in loaded)}
    facts |= {"members_at_once": [members for members, _ in parts]}
    if arm.decoder is not None:  # of generators only the samples are looked at
        whole = build_decoder(arm.decoder, arm.code().widths, arm.world.image_size, study.seeds).state_dict()
        weights = [store.load(WEIGHTS, own)[0] for _, own in parts]
        shared = {key: whole[_in_decoder(key)].shape == t.shape for key, t in weights[0].items()}
        together = {
            key: t if shared[key] else torch.cat([own[key] for own in weights]) for key, t in weights[0].items()
        }
        store.save(WEIGHTS, recipe, together, {})
    store.save(KIND, recipe, tensors, facts)


def _in_decoder(key: str) -> str:
    """The name in a decoder of a weight or buffer as a trainer's state names it."""
    return key.partition(".")[2].removeprefix("decoder.")


def _work_of(store: Store, recipe: dict[str, Any]) -> "_Work":
    return _Work(store.folder / f"{KIND}-{store.key(KIND, recipe)}.work")


def stored_arm(arm: RenderingArm, store: Store, recipe: dict[str, Any]) -> RenderedArm:
    """A finished arm as the store holds it."""
    tensors, facts = store.load(KIND, recipe)
    judged = {
        int(step): Judged.from_tensors({word: tensors[f"judged.{step}.{word}"] for word in Judged.__dataclass_fields__})
        for step in facts["losses"]
    }
    return RenderedArm(
        arm,
        arm.plane(),
        judged,
        {int(step): losses for step, losses in facts["losses"].items()},
        tensors["images"],
        facts["seconds"],
        facts["parameters"],
        tensors.get("samples"),
        facts["tokenizer"],
        facts["code"],
        facts["hardware"],
        facts["members_at_once"],
    )


def _train(
    study: RenderingStudy, name: str, arm: RenderingArm, store: Store, recipe: dict[str, Any], device: torch.device
) -> None:
    started = time.perf_counter()
    plane, code = arm.plane().to(device), arm.code()
    entry = open_tokenizer(arm, plane, store, device)
    tokenizer = None if entry is None else entry.tokenizer
    trainer = make_trainer(arm, study.seeds, plane.to(torch.device("cpu")), code, device, tokenizer)
    codes, pictures = code(plane.cells), None
    work = _work_of(store, recipe)
    judged, losses, earlier = work.resume(trainer)
    if trainer.steps_done:
        say(f"arm {name}: going on at step {trainer.steps_done} of {arm.training.steps}")
    stops = evaluation_steps(arm.training.steps, study.judging.evaluations)
    previous = max([0, *(stop for stop in stops if stop <= trainer.steps_done)])
    with track(arm.training.steps, f"arm {name}", done=trainer.steps_done) as advance:
        for stop in (stop for stop in stops if stop > trainer.steps_done):
            while trainer.steps_done < stop:
                steps = min(STEPS_AT_ONCE, stop - trainer.steps_done)
                trainer.run(steps)
                advance(steps)
                # Never at an evaluation's own step before it is judged: a resumed run would pass over it.
                if trainer.steps_done < stop and work.due(SAVE_EVERY):
                    work.save(trainer, judged, losses, earlier + time.perf_counter() - started)
            means = trainer.take_mean_loss(stop - previous)
            previous = stop
            pictures = draw(trainer, tokenizer, codes, study.judging.samples)
            losses[str(stop)] = known_losses(means, pictures)
            result = judge(pictures, plane)
            judged |= {f"judged.{stop}.{word}": tensor for word, tensor in result.tensors().items()}
            advance(0, note=note(result, plane, losses[str(stop)]))
            if work.due(0.0):
                work.save(trainer, judged, losses, earlier + time.perf_counter() - started)
    if pictures is None:  # all evaluations were done before an interruption
        pictures = draw(trainer, tokenizer, codes, study.judging.samples)
    seconds = earlier + time.perf_counter() - started
    with trainer.averaged():  # what was judged is what is kept
        weights = {key: t.clone() for key, t in trainer.state().items() if key.startswith(("weight.", "buffer."))}
    # Apart from the results, which are small: those alone can be taken to another machine.
    store.save(WEIGHTS, recipe, weights, {})
    shown = (pictures.nan_to_num(0.0).clamp(0, 1) * 255).round().to(torch.uint8)
    tensors = judged | {"images": shown[0, :, 0].contiguous()} | ({} if entry is None else {"samples": shown})
    facts = {
        "losses": losses,
        "seconds": seconds,
        "parameters": sum(weight.numel() for weight in trainer.generator.parameters()) // study.members,
        "tokenizer": None if entry is None else entry.facts,
        "code": provenance.code_version(),
        "hardware": provenance.hardware(device),
        "members_at_once": [study.members],
    }
    store.save(KIND, recipe, tensors, facts)
    work.remove()
    say(
        f"arm {name}: {arm.training.steps} steps of {study.members} members in {seconds:.0f} s; "
        f"{note(judge(pictures, plane), plane, losses[str(stops[-1])])}"
    )


def known_losses(means: list[float], pictures: Tensor) -> list[float | None]:
    """The losses of members that draw (M, C, n, P, P); None for one that diverged: its loss is no number, or, where
    the last step alone went wrong, none of its pictures is one yet."""
    drawn = pictures.isfinite().flatten(3).all(3).flatten(1).any(1).tolist()
    return [loss if math.isfinite(loss) and seen else None for loss, seen in zip(means, drawn, strict=True)]


def note(judged: Judged, plane: Plane, losses: list[float | None]) -> str:
    """An evaluation in a few words; no number where every member diverged."""
    if all(loss is None for loss in losses):
        return "all diverged"
    seen, unseen = (summarise(judged, plane, where) for where in (plane.trained, ~plane.trained))
    return (
        f"error relative to blank {seen['relative'].mean():.2g} trained, {unseen['relative'].mean():.2g} held out; "
        f"held out within 1: {unseen['hit'].mean():.0%}"
    )


class _Work(Unfinished):
    """With all that was judged so far, in the checkpoint itself."""

    def __init__(self, folder: Path):
        super().__init__(folder, "facts.json")

    def save(self, trainer: Trainer, judged: dict[str, Tensor], losses: dict[str, Any], seconds: float) -> None:
        self.write({"losses": losses, "seconds": seconds}, trainer.state() | judged)

    def resume(self, trainer: Trainer) -> tuple[dict[str, Tensor], dict[str, Any], float]:
        """Bring the trainer to the checkpoint, if there is one: what was judged up to it, losses, seconds spent."""
        if not self.checkpoint.exists():
            return {}, {}, 0.0
        facts, tensors = self.read(trainer.device)
        try:
            trainer.load(tensors)
            judged = {key: t.cpu() for key, t in tensors.items() if key.startswith("judged.")}
            losses = {step: loss for step, loss in facts["losses"].items() if int(step) <= trainer.steps_done}
            return judged, losses, float(facts["seconds"])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            if ran_out(error):  # says nothing of the file
                raise
            raise UserError(f"{self.checkpoint} does not hold this arm; {self.fix}.") from error


@dataclass(frozen=True)
class OpenedArm:
    """A trained arm to look into: the analyses' way in."""

    decoder: Decoder  # M members; `decoder(codes)`, `decoder.states(codes)`
    encoding: Encoding  # values (..., F) to codes (..., W), differentiable
    plane: Plane

    @torch.no_grad()
    def outputs(self) -> Tensor:
        """What every member draws at every cell of the plane, (M, C, P, P)."""
        members = next(self.decoder.parameters()).shape[0]
        codes = self.encoding(self.plane.cells).expand(members, -1, -1)
        return torch.cat([self.decoder(some) for some in codes.split(128, dim=1)], dim=1)

    @torch.no_grad()
    def states(self) -> list[Tensor]:
        """The hidden states (M, C, features) of every layer over the plane, the images last."""
        members = next(self.decoder.parameters()).shape[0]
        codes = self.encoding(self.plane.cells).expand(members, -1, -1)
        parts = [self.decoder.states(some) for some in codes.split(128, dim=1)]
        return [torch.cat(layer, dim=1) for layer in zip(*parts, strict=True)]


def finished_recipe(study: RenderingStudy, name: str, store: Store) -> dict[str, Any]:
    """The recipe of an arm that is in the store, whichever dtype it was trained in."""
    recipe = recipe_of(study, study.arms[name], torch.device("cpu"))
    dtypes = ("torch.float32", "torch.bfloat16")
    found = next((one for dtype in dtypes if store.has(KIND, one := recipe | {"dtype": dtype})), None)
    if found is None:
        raise UserError(f"arm {name} of {study.name} is not in {store.folder}; run the study first.")
    return found


def finished_arm(study: RenderingStudy, name: str, store: Store | Path) -> RenderedArm:
    """An arm of a finished study."""
    kept = store if isinstance(store, Store) else Store(store)
    return stored_arm(study.arms[name], kept, finished_recipe(study, name, kept))


def open_arm(study: RenderingStudy, name: str, store: Store | Path, device: torch.device | str = "cpu") -> OpenedArm:
    """The trained decoder of an arm of a finished study, in float32, with its encoding and plane on `device`."""
    kept = store if isinstance(store, Store) else Store(store)
    arm, place = study.arms[name], torch.device(device)
    if arm.decoder is None:
        raise UserError(f"arm {name} of {study.name} is a generator: open its samples with finished_arm instead.")
    recipe = finished_recipe(study, name, kept)
    if not kept.has(WEIGHTS, recipe):
        raise UserError(
            f"the results of arm {name} are in {kept.folder}, but not its weights, which its measures need; bring the "
            f"folder {WEIGHTS}-{kept.key(WEIGHTS, recipe)} from where it was trained, or set measures: none."
        )
    tensors, _ = kept.load(WEIGHTS, recipe)
    code = arm.code()
    decoder = build_decoder(arm.decoder, code.widths, arm.world.image_size, study.seeds)
    decoder.load_state_dict({_in_decoder(key): t for key, t in tensors.items()})
    return OpenedArm(decoder.to(place).eval(), code, arm.plane().to(place))


def _measure(study: RenderingStudy, out: Path, store: Store, device: torch.device) -> dict[str, float]:
    """Measure the arms as the study asks; the seconds of each. Without measures, those of an earlier call go."""
    from recombine.anatomy.measures import NAME
    from recombine.studies.rendering_measures import MAPS, measure_study

    if study.measures == "none":
        for name in (NAME, MAPS):
            (out / name).unlink(missing_ok=True)
        return {}
    for name, arm in study.arms.items():
        plane = arm.plane()
        if plane.cells.shape[1] == 2 and not connected(plane.cells, plane.trained):
            say(no_additive(name))
    return measure_study(study, out, store, device, inside=study.measures == "all")


def run_rendering(study: RenderingStudy, out: Path, store: Path, device: torch.device, wait: bool = True) -> Path:
    """Run `study` into the folder `out`; returns the path of its report. `wait` as in `run_study`."""
    from recombine.report.rendering import print_rendering, write_rendering

    started, clock = datetime.now(UTC), time.perf_counter()

    tables: dict[str, pa.Table] = {}  # of the arms written so far: making one takes as long as judging

    def write(arms: dict[str, RenderedArm]) -> dict[str, Any]:
        """The tables and facts of these arms, of a study that has not finished."""
        tables.update({name: table_of(study, name, arm) for name, arm in arms.items() if name not in tables})
        _write_tables(out, [tables[name] for name in arms], arms)
        facts = {
            "kind": "rendering",
            **provenance.opening(study, device, started, finished=False),
            **_seconds({f"arm {name}": arm.seconds for name, arm in arms.items()}, clock),
            "arms": {name: _facts_of(arm, device) for name, arm in arms.items()},
        }
        files.save_json_atomic(out / "study.json", facts)
        return facts

    with claim_folder(out, study.hash, study.name):
        kept = Store(store)
        so_far = SoFar(out, study.arms, write, lambda: in_store(study, kept, device))
        arms = so_far.make_all(lambda name, waiting: run_arm(study, name, kept, device, waiting, so_far.write), wait)
        facts = write(arms)  # measuring may be long, or be stopped
        measuring = {f"measuring {name}": took for name, took in _measure(study, out, kept, device).items()}
        facts |= {
            "finished": provenance.now(),
            "memory_gib_of_last_call": peak_gib(device),
            **_seconds({f"arm {name}": arm.seconds for name, arm in arms.items()} | measuring, clock),
        }
        files.save_json_atomic(out / "study.json", facts)
        report = write_rendering(out)
    print_rendering(out)
    say(f"results: {out / RESULTS}\nreport:  {report}")
    return report


def _write_tables(out: Path, tables: list[pa.Table], arms: dict[str, RenderedArm]) -> None:
    files.write_atomic(out / RESULTS, parquet(pa.concat_tables(tables, promote_options="default")))
    pictures = {name: arm.images for name, arm in arms.items()}
    pictures |= {f"{name}.real": (arm.plane.images * 255).round().to(torch.uint8) for name, arm in arms.items()}
    pictures |= {f"{name}.samples": arm.samples[0] for name, arm in arms.items() if arm.samples is not None}
    write_pictures(out, pictures)


def _seconds(parts: dict[str, float], clock: float) -> dict[str, Any]:
    return {
        "seconds": parts | {"total": sum(parts.values())},
        "seconds_of_last_call": time.perf_counter() - clock,
    }


def _facts_of(arm: RenderedArm, device: torch.device) -> dict[str, Any]:
    """What study.json says of an arm."""
    return {
        "settings": arm.settings.model_dump(mode="json"),
        "parameters": arm.parameters,
        "seconds": arm.seconds,
        "code": arm.code,
        "hardware": arm.hardware,
        "members_at_once": arm.members_at_once,
        "tokenizer": arm.tokenizer,
        "dtype": str(arm.settings.dtype(device)),
        "trained_cells": int(arm.plane.trained.sum()),
        "held_out_cells": int((~arm.plane.trained).sum()),
        "blank": {
            "trained": arm.plane.blank[arm.plane.trained].mean().item(),
            "held_out": arm.plane.blank[~arm.plane.trained].mean().item(),
        },
    }
