"""What a forced-rendering study is: `kind: rendering` at the top of a file, and arms that are decoders.

In place of a decoder an arm may have a generator of the other study, with its tokenizer: told the same code, trained
on the same images, judged over the same plane (`studies.bridge`).

Everything but the seeds belongs to an arm, so that one study may hold the published settings side by side (they differ
in the world, the support and the code) as well as controlled ones; what all arms share is written once at the top of
the file, as in every study.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from recombine.conditioning import ConditioningSettings
from recombine.curated import DataSettings, Plane, make_plane
from recombine.encodings import Encoding, EncodingSettings, PopulationEncoding
from recombine.errors import UserError
from recombine.generators import GeneratorSettings, check_generator
from recombine.nets.backbone import Size
from recombine.nets.decoders import DecoderSettings, check_decoder
from recombine.nets.decoders.cnn import CNNSettings
from recombine.settings import Settings
from recombine.studies.base import PLANE_WORDING, BaseStudy, Mistaken
from recombine.studies.names import ArmName, Limits, Question, Seeds, StudyName
from recombine.tokenizers import TokenizerSettings, check_fits
from recombine.training import TrainingSettings
from recombine.worlds.bumps import Bumps, BumpsSettings
from recombine.worlds.digits import Digits, DigitsSettings
from recombine.worlds.supports import DonutSupport, SupportSettings, gap_mask, support_mask

PlaneWorld = Annotated[BumpsSettings | DigitsSettings, Field(discriminator="kind")]

TOLD = ConditioningSettings(kind="full")  # a generator is told the whole code, always


class RenderingTraining(Settings):
    """Training of a decoder, per member: plain AdamW as published. Biases do not decay (published: they do).

    Of a generator the same, but for the decay of AdamW's second moment, which is that of the other study.
    """

    steps: int = Field(
        default=3150, ge=1, le=10_000_000, description="optimizer steps; 50 epochs of 2,000 images are 3,150"
    )
    batch: int = Field(default=32, ge=1, le=65_536, description="images per member and step, in shuffled epochs")
    rate: float = Field(default=1e-3, gt=0, description="learning rate")
    warmup: int = Field(default=0, ge=0, le=10_000_000, description="steps over which the rate rises from 0")
    schedule: Literal["constant", "cosine", "linear"] = Field(
        default="constant", description="the rate after warm-up; cosine and linear fall to 0 at the last step"
    )
    weight_decay: float = Field(default=0.01, ge=0, description="AdamW decay of the weight matrices")
    clip: float | None = Field(default=None, gt=0, description="largest gradient norm, per member; null for none")
    absolute: float = Field(
        default=0.0, ge=0, description="share of the mean absolute error in the loss; decoders only"
    )
    size: Size | None = Field(
        default=None, description="generators only, and needed there: xs for a CPU, s for a GPU, b as in the papers"
    )
    ema_width: float | None = Field(
        default=None,
        gt=0,
        lt=0.28,
        description="width of the averaged weights, as a share of the run so far; null: the raw weights are judged",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto",
        description="of hidden activations; auto: bfloat16 in a cnn where the processor has it and in a generator on a "
        "GPU, float32 otherwise",
    )

    def for_trainer(self, dtype: torch.dtype) -> TrainingSettings:
        """The same in the words of the one training loop."""
        return TrainingSettings(
            size=self.size or "xs",
            steps=self.steps,
            batch=self.batch,
            rate=self.rate,
            warmup=self.warmup,
            schedule=self.schedule,
            beta2=0.999 if self.size is None else 0.99,
            weight_decay=self.weight_decay,
            clip=self.clip,
            ema_width=self.ema_width,
            precision="bfloat16" if dtype == torch.bfloat16 else "float32",
        )


class RenderingJudging(Settings):
    """How often the members are judged; each time on their whole plane."""

    evaluations: int = Field(default=5, ge=1, le=1000, description="how often, the last at the end of training")
    samples: int = Field(
        default=4, ge=1, le=1000, description="pictures that a generator draws of each cell; a decoder draws one"
    )


class RenderingArm(Settings):
    """One decoder, or generator, with everything it is told and trained on."""

    world: PlaneWorld = Field(default=BumpsSettings(), description="what is drawn: bumps or digits")
    support: SupportSettings = Field(default=DonutSupport(), description="which pairs, or angles, are trained on")
    encoding: EncodingSettings = Field(default=PopulationEncoding(), description="how factor values are told")
    data: DataSettings = Field(default=DataSettings(), description="each member's training set")
    decoder: DecoderSettings | None = Field(
        default=CNNSettings(),
        description="what is trained; null, or left out, where a generator is; a cnn where neither is named",
    )
    generator: GeneratorSettings | None = Field(
        default=None, description="trained in place of a decoder: a generator of the other study, told the same code"
    )
    tokenizer: TokenizerSettings | None = Field(
        default=None, description="of a generator: how pictures become its tokens; sees all or train is of cells"
    )
    training: RenderingTraining = Field(default=RenderingTraining(), description="how it is trained")

    @model_validator(mode="before")
    @classmethod
    def _one_of_them(cls, words: Any) -> Any:
        """A generator takes the place of the decoder that would be there without a word."""
        if isinstance(words, Mapping):
            if words.get("generator") is None:
                if words.get("decoder", 0) is None:
                    raise ValueError("an arm needs a decoder or a generator: leave decoder: null out, or name one")
            elif words.get("decoder") is not None:
                raise ValueError("an arm has a decoder or a generator, not both: write decoder: null in this arm")
            else:
                return {**words, "decoder": None}
        return words

    def build_world(self) -> Bumps | Digits:
        return Bumps(self.world) if isinstance(self.world, BumpsSettings) else Digits(self.world)

    def trained(self) -> Tensor:
        """Which cells of the plane are trained on, (C,) bool; ValueError where the support does not fit the world."""
        if isinstance(self.world, BumpsSettings):
            return torch.from_numpy(support_mask(self.support, self.world.image_size)).flatten()
        return gap_mask(self.support, torch.arange(self.world.angles) * (360.0 / self.world.angles))

    def plane(self) -> Plane:
        return make_plane(self.build_world(), self.trained())

    def code(self) -> Encoding:
        """ValueError where the encoding does not fit the world."""
        if isinstance(self.world, BumpsSettings):
            return Encoding(self.encoding, (self.world.image_size,) * 2)
        return Encoding(self.encoding, (self.world.angles,), circle=True)

    def dtype(self, device: torch.device) -> torch.dtype:
        """Of hidden activations. In a cnn bfloat16 halves the time and leaves the result (benchmarks/LOG-rendering.md);
        in the other decoders it was not tried."""
        if self.training.precision == "auto":
            if self.decoder is None:
                return torch.bfloat16 if device.type == "cuda" else torch.float32
            # Emulated, where the processor has no instructions for it, bfloat16 would be slower than float32.
            fast = device.type == "cuda" or torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
            return torch.bfloat16 if self.decoder.kind == "cnn" and fast else torch.float32
        return torch.bfloat16 if self.training.precision == "bfloat16" else torch.float32


class RenderingStudy(BaseStudy):
    """A forced-rendering study: arms that are decoders, each with its world."""

    kind: Literal["rendering"] = Field(default="rendering", description="decoders that are told every factor")
    name: StudyName
    question: Question
    limits: Limits = ""
    judging: RenderingJudging = Field(default=RenderingJudging(), description="how often the members are judged")
    measures: Literal["all", "outputs", "none"] = Field(
        default="all",
        description="what is measured at the end, for the claims and the page: outputs, of the pictures alone; all, of "
        "every layer too (on a CPU minutes for each arm at the published size); none",
    )
    seeds: Seeds = (0, 1, 2)
    arms: dict[ArmName, RenderingArm] = Field(min_length=1, description="what is compared: a name and its words")

    wording: ClassVar[tuple[str, ...]] = PLANE_WORDING

    @classmethod
    def mistakes(cls, parts: Mapping[str, Any]) -> Mistaken:
        return rendering_mistakes(parts)

    @property
    def members(self) -> int:
        """How many seeds every arm is trained with."""
        return len(self.seeds)


def rendering_mistakes(parts: Mapping[str, Any]) -> Mistaken:
    """What no section can know by itself, as (place, sentence)."""
    judging = parts.get("judging")
    for name, arm in parts.get("arms", {}).items():
        try:
            arm.trained()
        except ValueError as error:
            yield ("arms", name, "support"), str(error)
        if judging is not None and judging.evaluations > arm.training.steps:
            yield (
                ("arms", name, "training"),
                f"{judging.evaluations} evaluations do not fit in {arm.training.steps} steps",
            )
        try:
            code = arm.code()
        except (ValueError, UserError) as error:
            yield ("arms", name, "encoding"), str(error)
            continue
        if arm.decoder is not None:
            try:
                check_decoder(arm.decoder, code.widths, arm.world.image_size)
            except ValueError as error:
                yield ("arms", name, "decoder"), str(error)
        for place, sentence in _generator_mistakes(arm):
            yield ("arms", name, place), sentence
        if arm.data.stripes and not (code.has_none and isinstance(arm.world, BumpsSettings)):
            yield (
                ("arms", name, "data"),
                "stripes need a code without a value for the other factor: use bumps, with encoding onehot or "
                "population",
            )


def _generator_mistakes(arm: RenderingArm) -> Iterator[tuple[str, str]]:
    """What does not fit in an arm with a generator, or fits only there, as (section, sentence)."""
    training, tokenizer = arm.training, arm.tokenizer
    if arm.generator is None:
        if tokenizer is not None:
            yield "tokenizer", "a decoder draws pixels and has no tokenizer: leave tokenizer out, or name a generator"
        if training.size is not None:
            yield "training", "size is that of a generator: leave it out (a decoder has its width and depth)"
        return
    if training.size is None:
        yield "training", "a generator needs a size: write size: xs (for a CPU) or s"
    if training.absolute:
        yield "training", f"absolute is part of a decoder's loss, and {arm.generator.kind} has its own: leave it out"
    if arm.generator.guidance > 0:
        yield "generator", "guidance needs a model trained with factors withheld, and here all are told: leave it out"
    if tokenizer is None:
        codes = arm.generator.kind in ("maskgit", "autoregressive", "discrete_diffusion")
        yield "generator", f"a generator needs a tokenizer: write tokenizer: {'vqvae' if codes else 'pixels'}"
        return
    try:
        check_fits(tokenizer, arm.world.image_size)
        unguided = arm.generator.model_copy(update={"guidance": 0.0})
        check_generator(unguided, getattr(tokenizer, "codes", None), TOLD)
    except ValueError as error:
        yield "tokenizer", str(error).rstrip(".")


def shrink_rendering(study: RenderingStudy) -> RenderingStudy:
    """A smoke test of the same shape: every arm trained for a moment."""
    words = study.resolved()
    words["name"] = f"{study.name[:53]}-shrunk"
    words["seeds"] = words["seeds"][:2]
    for word in ("evaluations", "samples"):
        words["judging"][word] = min(2, words["judging"][word])
    largest = max(arm.world.image_size for arm in study.arms.values())
    if study.measures == "all" and largest > 16:  # every layer of a larger plane is minutes of work, trained or not
        words["measures"] = "outputs"
    longest = max(arm.training.steps for arm in study.arms.values())
    for arm in words["arms"].values():
        arm["training"]["steps"] = max(2, 6 * arm["training"]["steps"] // longest)
        arm["training"]["batch"] = min(arm["training"]["batch"], 4)
        for word, cap in {"width": 16, "depth": 2, "heads": 2}.items():
            if word in (arm["decoder"] or {}):
                arm["decoder"][word] = min(arm["decoder"][word], cap)
        if arm["generator"] is not None:
            arm["training"] |= {"size": "xs", "warmup": min(arm["training"]["warmup"], 2)}
            short = {"generator": {"sampling_steps": 2, "head_steps": 2}}
            short["tokenizer"] = {"width": 16, "depth": 1, "steps": 20, "batch": 16}
            for part, caps in short.items():
                arm[part] |= {word: min(arm[part][word], cap) for word, cap in caps.items() if word in arm[part]}
    return RenderingStudy.model_validate(words)
