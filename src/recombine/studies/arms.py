"""One arm: all its members trained together, judged at every evaluation, and able to go on after any interruption."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recombine.conditioning import condition
from recombine.errors import UserError
from recombine.generators import Generator, build_generator
from recombine.judges import Judge, Verdicts
from recombine.judges.inception import inception
from recombine.nets.backbone import SIZES
from recombine.out_of_memory import FULL, must_fit, ran_out
from recombine.progress import say, track
from recombine.provenance import code_version, hardware
from recombine.randomness import Draws
from recombine.splits import code, composition_weights, fewer, images_each, multi_information
from recombine.studies.diverged import diverged_seeds, diverged_sentence
from recombine.studies.inside import Inside, has_monitors
from recombine.studies.memory import Seeds, in_parts
from recombine.studies.quality import Quality
from recombine.studies.spec import Arm
from recombine.studies.stages import RECIPES, FittedTokenizer, Setting, ready, to_images, token_shape, training_data
from recombine.studies.store import Store
from recombine.studies.unfinished import Spent, Unfinished
from recombine.training import Trainer, ema
from recombine.worlds import Images, make_images

DATA_SEED = 0  # all arms and members train on the same images; members choose their own batches
SAMPLED_AT_ONCE = 1024  # images per member: a constant, so that a member's samples do not depend on the other members
SAVE_EVERY = 30.0  # seconds between checkpoints
STEPS_AT_ONCE = 20  # between looks at the clock
PICTURES = 8  # kept per composition, the first ones drawn

Rows = list[dict[str, Any]]
TABLES = ("rows", "monitors", "quality")  # what is written down at evaluations, by table


@dataclass(frozen=True)
class ArmResult:
    """A finished arm."""

    rows: Rows
    monitors: Rows  # of the second table: see monitors.py
    quality: Rows  # of the third: see quality_table.py
    pictures: dict[str, Tensor]  # "images" (K, n, 3, P, P); "valid", "right" and "joint" (K, n); all uint8
    facts: dict[str, Any]


def run_arm(
    setting: Setting,
    name: str,
    arm: Arm,
    entry: FittedTokenizer,
    judge: Judge,
    judge_recipe: dict[str, Any],
    wait: bool = True,
    begin: Callable[[], None] | None = None,
) -> ArmResult:
    """Train and judge an arm, or take it from the store. Where another process is at work on it, `wait` for that, or
    raise store.Busy. `begin` is called before members are trained."""
    setting = setting_of(setting, arm)
    recipe = arm_recipe(setting, arm, entry.recipe, judge_recipe)
    parts = _run_members(setting, name, arm, entry, judge, recipe, wait, begin)
    ends = [row for _, facts in parts for row in facts["rows"] if row["step"] == arm.training.steps]
    if lost := diverged_seeds(ends):
        say(diverged_sentence(name, lost))
    spent = Spent()
    for _, facts in parts:
        spent.add(_spent_of(facts))
    setting.seconds[f"arm {name}"] = spent.total
    tensors, first = parts[0]
    pictures = {key.removeprefix("pictures."): t for key, t in tensors.items() if key.startswith("pictures.")}
    width = arm.training.ema_width
    initial = None if width is None else ema.initial_share(arm.training.steps, ema.power_of_width(width))
    kept = {key: value for key, value in first.items() if key not in (*TABLES, "seconds", "seeds")}
    return ArmResult(
        _joined(parts, "rows", setting.study.name, name),
        _joined(parts, "monitors", setting.study.name, name),
        _joined(parts, "quality", setting.study.name, name),
        pictures,
        kept
        | _trained_on(setting, arm)
        | {
            "seconds": spent.total,
            "spent": spent.seconds,
            "initial_weights_in_average": initial,
            "members_at_once": [len(facts["seeds"]) for _, facts in parts],
        },
    )


def arm_recipe(setting: Setting, arm: Arm, tokenizer: dict[str, Any], judge: dict[str, Any]) -> dict[str, Any]:
    """All that an arm depends on but its seeds; `setting` is the arm's own."""
    return {
        "version": RECIPES["arm"],
        "world": setting.study.world.model_dump(mode="json"),
        "train": [code(c) for c in setting.split.train],
        "tokenizer": tokenizer,
        "judge": judge,
        "judging": setting.study.judging.model_dump(mode="json"),
        "arm": arm.model_dump(mode="json"),
        "dtype": str(arm.training.dtype(setting.trained_on or setting.device)),
    }


def _spent_of(facts: Mapping[str, Any]) -> dict[str, float]:
    """Arms of earlier code wrote down all their seconds as one number."""
    found: dict[str, float] = facts["spent"] if "spent" in facts else {"all": facts["seconds"]}
    return found


Part = tuple[dict[str, Tensor], dict[str, Any]]  # what the store holds of members that were trained together


def _run_members(
    setting: Setting,
    name: str,
    arm: Arm,
    entry: FittedTokenizer,
    judge: Judge,
    recipe: dict[str, Any],
    wait: bool,
    begin: Callable[[], None] | None,
) -> list[Part]:
    """The members of an arm: trained together, or in as many parts as the memory needs."""

    def of(seeds: Seeds) -> dict[str, Any]:
        return recipe | {"seeds": list(seeds)}

    def train(seeds: Seeds) -> None:
        some = replace(setting, study=setting.study.model_copy(update={"seeds": seeds}))
        with setting.store.alone("arm", of(seeds), f"arm {name}", wait):
            if setting.store.has("arm", of(seeds)):  # made while we waited
                return
            if begin is not None:
                begin()
            try:
                _train_and_store(some, name, arm, entry, judge, of(seeds))
            except FULL as error:
                if ran_out(error):
                    _work_of(setting.store, of(seeds)).remove()  # nobody will go on with it
                raise

    parts = in_parts(name, setting.study.seeds, lambda seeds: setting.store.has("arm", of(seeds)), train)
    return [setting.store.load("arm", of(seeds)) for seeds in parts]


def _joined(parts: list[Part], key: str, study: str, arm: str) -> Rows:
    """The rows of all parts as if their members had been trained together. The store knows no names: another study may
    call the same arm otherwise."""
    rows, before = [], 0
    for _, facts in parts:
        rows += [{"study": study, "arm": arm, **row, "member": row["member"] + before} for row in facts[key]]
        before += len(facts["seeds"])
    return sorted(rows, key=lambda row: row["step"]) if len(parts) > 1 else rows


def evaluation_steps(steps: int, evaluations: int) -> list[int]:
    """`evaluations` steps spread evenly, the last one at the end."""
    return sorted({round(steps * (k + 1) / evaluations) for k in range(evaluations)})


def setting_of(setting: Setting, arm: Arm) -> Setting:
    """The setting with the split of this arm, which may train on fewer compositions than the study's."""
    return replace(setting, split=fewer(setting.split, arm.training.compositions))


def training_images(setting: Setting, arm: Arm) -> Images:
    """What the members of an arm are trained on."""
    each = images_each(setting.split, arm.training.images, arm.training.dependence)
    return make_images(setting.world, setting.split.train, each, DATA_SEED, "training", setting.device)


def _trained_on(setting: Setting, arm: Arm) -> dict[str, Any]:
    """The training images of each composition, and how far from independent the factors are in them, in bits."""
    each = images_each(setting.split, arm.training.images, arm.training.dependence)
    weights = composition_weights(setting.split, arm.training.dependence)
    return {
        "images": dict(zip(map(code, setting.split.train), each, strict=True)),
        "multi_information": multi_information(setting.split, weights),
    }


def make_trainer(setting: Setting, arm: Arm, entry: FittedTokenizer) -> Trainer:
    """The members of an arm at step 0."""
    # Before the members: what does not fit without them is not met by fewer of them.
    with must_fit("what the members are trained on", "take a smaller training.images or world.image_size"):
        images = training_images(setting, arm)
    generator = build_generator(
        arm.generator,
        token_shape(entry.tokenizer),
        arm.conditioning,
        setting.world.factors,
        SIZES[arm.training.size],
        setting.study.seeds,
        arm.jepa,
    )
    ready(generator, entry.tokenizer, setting.device)
    data = training_data(setting.world, entry.tokenizer, arm.conditioning, images, generator.takes)
    return Trainer(generator, data, arm.training)


def _work_of(store: Store, recipe: dict[str, Any]) -> "_Work":
    return _Work(store.folder / f"arm-{store.key('arm', recipe)}.work")


def _train_and_store(
    setting: Setting, name: str, arm: Arm, entry: FittedTokenizer, judge: Judge, recipe: dict[str, Any]
) -> None:
    spent = Spent()
    work = _work_of(setting.store, recipe)
    trainer = make_trainer(setting, arm, entry)
    written = work.resume(trainer, spent)
    inside = Inside(setting, arm, entry, trainer.generator.takes) if has_monitors(trainer.generator) else None
    if trainer.steps_done:
        say(f"arm {name}: going on at step {trainer.steps_done} of {arm.training.steps}")
    pictures: dict[str, Tensor] = {}
    stops = evaluation_steps(arm.training.steps, setting.study.judging.evaluations)
    quality: Quality | None = None
    previous = max([0, *(stop for stop in stops if stop <= trainer.steps_done)])
    if trainer.steps_done == stops[-1]:
        # Killed between the last evaluation and the entry in the store: only the pictures are drawn again.
        pictures = evaluate(setting, arm, entry, judge, trainer)[1]
    spent.on("starting")
    with track(arm.training.steps, f"arm {name}", done=trainer.steps_done) as advance:
        for stop in (stop for stop in stops if stop > trainer.steps_done):
            while trainer.steps_done < stop:
                steps = min(STEPS_AT_ONCE, stop - trainer.steps_done)
                trainer.run(steps)
                advance(steps)
                # Never at an evaluation's own step before it is judged: a resumed run would pass over it.
                if trainer.steps_done < stop and work.due(SAVE_EVERY):
                    work.save(trainer, written, spent, "training")
            losses = trainer.take_mean_loss(stop - previous)  # waits for the device
            spent.on("training")
            previous = stop
            advance(0, note="drawing and judging")
            new, pictures, images = evaluate(setting, arm, entry, judge, trainer)
            spent.on("drawing and judging")
            for row in new:
                # A member that diverged has no loss to write down; its samples are judged like any others.
                row["loss"] = losses[row["member"]] if math.isfinite(losses[row["member"]]) else None
            written["rows"] += new
            written["monitors"] += inside.look(trainer) if inside else []
            spent.on("monitors")
            if measures_quality(setting, last=stop == stops[-1]):
                quality = quality or make_quality(setting, arm, entry, judge)
                written["quality"] += quality.look(images, stop)
            spent.on("quality")
            if work.due(0.0):
                work.save(trainer, written, spent, "quality")
            advance(0, note=_levels_note(new))
    weights = {key: tensor for key, tensor in trainer.state().items() if key.startswith(("weight.", "average."))}
    # Apart from the results, which are small: these alone can be taken to another machine, and the study goes on there.
    setting.store.save("weights", recipe, weights, {})
    spent.on("saving")
    tensors = {f"pictures.{key}": tensor for key, tensor in pictures.items()}
    parameters = sum(weight.numel() for weight in trainer.generator.parameters()) // len(setting.study.seeds)
    facts = {**written, "spent": spent.seconds, "parameters": parameters, "seeds": list(setting.study.seeds)}
    # The study may be finished by other code on another machine.
    facts |= {"code": code_version(), "torch": torch.__version__, "hardware": hardware(setting.device)}
    setting.store.save("arm", recipe, tensors, facts)
    work.remove()
    say(
        f"arm {name}: {arm.training.steps} steps of {len(setting.study.seeds)} members in {spent.total:.0f} s; "
        f"{_levels_note([row for row in written['rows'] if row['step'] == arm.training.steps])}"
    )


class _Work(Unfinished):
    """With the rows of the arm's tables so far."""

    def __init__(self, folder: Path):
        super().__init__(folder, "judged.json")

    def save(self, trainer: Trainer, written: dict[str, Rows], spent: Spent, before: str) -> None:
        """`before`: what the time up to now was spent on."""
        spent.on(before)
        self.write({**written, "spent": spent.seconds}, trainer.state())
        spent.on("saving")

    def resume(self, trainer: Trainer, spent: Spent) -> dict[str, Rows]:
        """Bring the trainer to the checkpoint, if there is one, and add what was spent; the tables up to it."""
        if not self.checkpoint.exists():
            return {table: [] for table in TABLES}
        judged, tensors = self.read(trainer.device)
        try:
            trainer.load(tensors)
            done = trainer.steps_done
            written = {table: [row for row in judged[table] if row["step"] <= done] for table in TABLES}
            spent.add(_spent_of(judged))
            return written
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            if ran_out(error):  # says nothing of the file
                raise
            raise UserError(f"{self.checkpoint} does not hold this arm; {self.fix}.") from error


def make_quality(setting: Setting, arm: Arm, entry: FittedTokenizer, judge: Judge) -> Quality:
    """What measures the quality of an arm's samples."""
    network = inception(setting.device) if setting.study.judging.fid else None
    return Quality(setting, entry, judge.probe, training_images(setting, arm), network)


def measures_quality(setting: Setting, last: bool) -> bool:
    """Whether the quality of samples is measured at an evaluation."""
    return setting.study.judging.quality == "every" or (last and setting.study.judging.quality == "last")


def evaluate(
    setting: Setting, arm: Arm, entry: FittedTokenizer, judge: Judge, trainer: Trainer
) -> tuple[Rows, dict[str, Tensor], Tensor]:
    """Draw and judge samples of every composition with averaged weights, and with raw ones if that is asked for: the
    rows, a few pictures of member 0, and all images of the averaged weights, (M, K * n, 3, P, P)."""
    samples = setting.study.judging.samples
    compositions = torch.tensor(setting.split.compositions, device=setting.device)
    labels = compositions.repeat_interleave(samples, 0)  # (K * n, F)
    cond = condition(setting.world, arm.conditioning.kind, labels, setting.world.canonical(labels))
    members, kinds = len(setting.study.seeds), len(compositions)

    def judged() -> tuple[Tensor, dict[str, Tensor]]:
        """Images (M, K * n, 3, P, P) and verdicts, each (M, K, n) or (M, K, n, F)."""
        images = draw_images(trainer.generator, entry, cond, trainer, arm.generator.guidance)
        verdicts = judge.judge(images.flatten(0, 1), labels.repeat(members, 1))
        return images, {
            field: getattr(verdicts, field).view(members, kinds, samples, *getattr(verdicts, field).shape[1:])
            for field in Verdicts.__dataclass_fields__
        }

    with trainer.averaged():
        images, averaged = judged()
    shares = {word: averaged[word].float().mean(2).cpu() for word in ("joint", "valid", "joint_probe_only")}
    if setting.study.judging.raw:
        raw = judged()[1] if trainer.averages else averaged
        shares |= {f"{word}_raw": raw[word].float().mean(2).cpu() for word in list(shares)}
    shares |= {word: averaged[word].float().mean(2).cpu() for word in ("in_range", "clean")}  # why not valid
    factors = averaged["right"].float().mean(2).cpu()  # (M, K, F)
    rows: Rows = []
    for member, seed in enumerate(setting.study.seeds):
        for place, composition in enumerate(setting.split.compositions):
            row: dict[str, Any] = {
                "member": member,
                "seed": seed,
                "step": trainer.steps_done,
                "composition": code(composition),
                "level": setting.split.level(composition),
                "n": samples,
            }
            row |= {word: share[member, place].item() for word, share in shares.items()}
            row |= {
                f"factor_{factor.name}": factors[member, place, f].item()
                for f, factor in enumerate(setting.world.factors)
            }
            rows.append(row)
    kept = min(PICTURES, samples)
    first = images[0].view(kinds, samples, *images.shape[2:])[:, :kept]
    pictures = {
        "images": (first * 255).round().to(torch.uint8).cpu(),
        "valid": averaged["valid"][0, :, :kept].to(torch.uint8).cpu(),
        "right": averaged["joint_probe_only"][0, :, :kept].to(torch.uint8).cpu(),
        "joint": averaged["joint"][0, :, :kept].to(torch.uint8).cpu(),
    }
    return rows, pictures, images


@torch.no_grad()
def draw_images(
    generator: Generator, entry: FittedTokenizer, cond: Tensor, trainer: Trainer, guidance: float
) -> Tensor:
    """Images (M, B, 3, P, P) for conditions (B, W), the same for every member; the noise follows from seed and step."""
    drawn = []
    for place, chunk in enumerate(cond.split(SAMPLED_AT_ONCE)):
        draws = Draws(trainer.seeds, f"evaluation {place}", trainer.step)
        tokens = generator.sample(chunk.expand(len(trainer.seeds), -1, -1), draws, guidance)
        drawn.append(
            to_images(entry.tokenizer, tokens).nan_to_num(0.0)
        )  # a diverged member draws black, which is refused
    return torch.cat(drawn, dim=1)


def _levels_note(rows: Rows) -> str:
    """One evaluation in a few words: the mean joint accuracy at each level."""
    levels = sorted({row["level"] for row in rows})
    means = [[row["joint"] for row in rows if row["level"] == level] for level in levels]
    words = ["trained" if level == 0 else f"level-{level}" for level in levels]
    return ", ".join(f"{word} {sum(mean) / len(mean):.0%}" for word, mean in zip(words, means, strict=True))
