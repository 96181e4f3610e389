"""What a study is: one question, one world and split, and arms that differ in what is being asked about.

A study file may give a tokenizer, conditioning, generator and training once, as defaults of every arm; here each arm
has all four in full. `reading.py` turns the one into the other.
"""

import os
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from recombine.conditioning import ConditioningSettings
from recombine.errors import UserError
from recombine.generators import GeneratorSettings, JepaSettings, check_generator, check_jepa
from recombine.judges import JudgingSettings
from recombine.nets.backbone import SIZES
from recombine.settings import Settings
from recombine.splits import Split, SplitSettings, check_weights, fewer, make_split
from recombine.studies.base import BaseStudy, Mistaken
from recombine.studies.checking import nearest
from recombine.studies.names import ArmName, Limits, Question, Seeds, StudyName
from recombine.studies.reading import build_study
from recombine.studies.rendering import RenderingStudy, rendering_mistakes, shrink_rendering
from recombine.studies.sources import study_text
from recombine.studies.tree import Mistakes, Node, from_python, parse, show
from recombine.tokenizers import TokenizerSettings, check_fits
from recombine.training import TrainingSettings
from recombine.worlds import WorldSettings, build_world


class Arm(Settings):
    """One column of a study: a generator with everything it is trained with."""

    tokenizer: TokenizerSettings = Field(description="images to tokens: pixels, vae or vqvae")
    conditioning: ConditioningSettings = Field(
        default=ConditioningSettings(), description="what the generator is told about an image"
    )
    generator: GeneratorSettings = Field(description="what is trained: the family, and how it draws")
    jepa: JepaSettings | None = Field(
        default=None, description="prediction in feature space, added to a generator that hides tokens; null: none"
    )
    training: TrainingSettings = Field(default=TrainingSettings(), description="how the generator is trained")


class Study(BaseStudy):
    """A study of generators: one world and split, and arms that are trained on it."""

    name: StudyName
    question: Question
    limits: Limits = ""
    world: Annotated[WorldSettings, Field(description="where the images come from")]
    split: Annotated[SplitSettings, Field(description="which compositions are trained on")]
    judging: JudgingSettings = Field(
        default=JudgingSettings(), description="how often and on how many samples the members are judged"
    )
    seeds: Seeds = (0, 1, 2)
    arms: dict[ArmName, Arm] = Field(min_length=1, description="what is compared: a name and its words for each")

    @classmethod
    def mistakes(cls, parts: Mapping[str, Any]) -> Mistaken:
        return mistakes_between(parts)

    @property
    def members(self) -> int:
        """How many seeds every arm is trained with."""
        return len(self.seeds)


def mistakes_between(parts: Mapping[str, Any]) -> Mistaken:
    """What no section can know by itself, as (place, sentence). Parts that are wrong by themselves are left out."""
    world, split, judging = (parts.get(word) for word in ("world", "split", "judging"))
    made: Split | None = None
    if world is not None and split is not None:
        try:
            made = make_split(split, [(factor.name, len(factor.values)) for factor in build_world(world).factors])
        except (UserError, ValueError) as error:
            yield ("split",), str(error).rstrip(".")
    for name, arm in parts.get("arms", {}).items():
        if world is not None:
            names = [factor.name for factor in build_world(world).factors]
            withheld = arm.conditioning.withheld or names
            unknown = [factor for factor in withheld if factor not in names]
            kept = [factor for factor in names if factor not in withheld]
            if unknown:
                place = ("arms", name, "conditioning", "withheld")
                yield place, f"{unknown[0]!r} is no factor of {world.kind}: use {', '.join(names)}"
            elif kept and arm.generator.guidance > 0 and arm.generator.guided == "each":
                yield (
                    ("arms", name),
                    f"guided each withholds every factor in turn, and withheld lacks {', '.join(kept)}: leave withheld "
                    "out, or name all factors",
                )
            try:
                check_fits(arm.tokenizer, world.image_size)
            except ValueError as error:
                yield ("arms", name, "tokenizer"), str(error).rstrip(".")
        if made is not None:
            try:
                own = fewer(made, arm.training.compositions)
                check_weights(own, arm.training.images, arm.training.dependence)
            except UserError as error:
                yield ("arms", name, "training"), str(error).rstrip(".")
            else:
                if getattr(arm.tokenizer, "sees", "all") == "train" and not set(own.train) <= set(made.train):
                    yield (
                        ("arms", name, "tokenizer"),
                        "with sees: train a tokenizer sees what the split trains, and this arm trains on others: list "
                        "compositions of the split, or take sees: all",
                    )
        codes = getattr(arm.tokenizer, "codes", None)
        for assumed in {codes, codes or 2}:  # with a codebook assumed, the second reason shows beside the first
            try:
                check_generator(arm.generator, assumed, arm.conditioning)
            except ValueError as error:
                yield ("arms", name, "generator"), str(error).rstrip(".")
        if arm.jepa is not None:
            try:
                check_jepa(arm.jepa, arm.generator, SIZES[arm.training.size].depth)
            except ValueError as error:
                yield ("arms", name, "jepa"), str(error)
        steps = arm.training.steps
        if judging is not None and judging.evaluations > steps:
            yield (
                ("arms", name, "training", "steps"),
                f"{judging.evaluations} evaluations do not fit in {steps} steps; take fewer, or train longer",
            )


AnyStudy = Study | RenderingStudy


def load_study(place: str, shrunk: bool = False) -> AnyStudy:
    """The study in a file, or the one of that name in the library; refused with all its mistakes if there are any.

    `shrunk`, or RECOMBINE_SHRINK=1 in the environment, makes it a smoke test.
    """
    text, source = study_text(place)
    study = parse_study(text, source)
    return shrink(study) if shrunk or os.environ.get("RECOMBINE_SHRINK", "0") not in ("", "0") else study


def parse_study(text: str, source: str = "study") -> AnyStudy:
    """The study that a YAML text describes; `source` is its name in messages."""
    mistakes = Mistakes(source)
    return _build(parse(text, mistakes), mistakes)


def make_study(words: Mapping[str, Any]) -> AnyStudy:
    """A study from Python, in the words of the file: `make_study({"name": "mine", "split": "hamming", ...})`."""
    mistakes = Mistakes("study")
    return _build(from_python(words, mistakes), mistakes)


def _build(root: Node, mistakes: Mistakes) -> AnyStudy:
    """`kind: rendering` at the top makes it a study of decoders; without a kind it is one of generators."""
    kind = root.mapping.get("kind")
    if kind is None:
        return build_study(root, Study, mistakes, mistakes_between)
    if kind.value != "rendering":
        mistakes.add(kind.line, f"unknown kind {show(kind.value)} of study{nearest(kind.value, ['rendering'])}")
        mistakes.raise_if_any()
    return build_study(root, RenderingStudy, mistakes, rendering_mistakes)


def shrink(study: AnyStudy) -> AnyStudy:
    """A smoke test of the same shape: same world, split and arms, every stage run, nothing trained long enough to mean
    anything (so it has another name). Arms keep their order of length."""
    if isinstance(study, RenderingStudy):
        return shrink_rendering(study)
    words = study.resolved()
    words["name"] = f"{study.name[:53]}-shrunk"
    words["seeds"] = words["seeds"][:2]
    words["judging"] |= {"samples": min(study.judging.samples, 8), "evaluations": 2}
    longest = max(arm.training.steps for arm in study.arms.values())
    for arm in words["arms"].values():
        training, tokenizer, generator = arm["training"], arm["tokenizer"], arm["generator"]
        training |= {
            "size": "xs",
            "steps": max(2, 20 * training["steps"] // longest),
            "warmup": min(training["warmup"], 2),
        }
        training |= {"batch": min(training["batch"], 16), "images": min(training["images"], 64)}
        caps = {"sampling_steps": 4, "head_steps": 4, "head_width": 64}
        generator |= {word: min(generator[word], cap) for word, cap in caps.items() if generator.get(word)}
        if arm["jepa"] is not None:
            arm["jepa"] |= {"layers": None}  # chosen by depth, which is another
        # The judge must accept 99 % of reconstructions, so a tokenizer cannot be cut short at will: with 4 x 4 pixels a
        # token 200 steps give 51 % and 800 barely pass. Finer tokens are learned soonest (measured, 16 and 28 pixels).
        if tokenizer.get("factor", 0) > 1 and study.world.image_size % 2 == 0:
            caps = {"factor": 2, "width": 32, "depth": 1, "steps": 600, "batch": 64}
            tokenizer |= {word: min(tokenizer[word], cap) for word, cap in caps.items()}
    return Study.model_validate(words)
