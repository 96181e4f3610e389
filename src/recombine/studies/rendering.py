"""What a forced-rendering study is: `kind: rendering` at the top of a file, and arms that are decoders.

Everything but the seeds belongs to an arm, so that one study may hold the published settings side by side (they differ
in the world, the support and the code) as well as controlled ones; what all arms share is written once at the top of
the file, as in every study.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import AfterValidator, Field, model_validator
from torch import Tensor

from recombine.curated import DataSettings, Plane, make_plane
from recombine.encodings import Encoding, EncodingSettings, PopulationEncoding
from recombine.errors import UserError
from recombine.files import content_hash
from recombine.nets.decoders import DecoderSettings, check_decoder
from recombine.nets.decoders.cnn import CNNSettings
from recombine.settings import Settings
from recombine.studies.names import ArmName, Name, Seed, distinct
from recombine.training import TrainingSettings
from recombine.worlds.bumps import Bumps, BumpsSettings
from recombine.worlds.digits import Digits, DigitsSettings
from recombine.worlds.supports import DonutSupport, SupportSettings, gap_mask, support_mask

PlaneWorld = Annotated[BumpsSettings | DigitsSettings, Field(discriminator="kind")]


class RenderingTraining(Settings):
    """Training of a decoder, per member: plain AdamW as published. Biases do not decay (published: they do)."""

    steps: int = Field(default=3150, ge=1, description="optimizer steps; 50 epochs of 2,000 images are 3,150")
    batch: int = Field(default=32, ge=1, description="images per member and step, in shuffled epochs")
    rate: float = Field(default=1e-3, gt=0, description="learning rate")
    warmup: int = Field(default=0, ge=0, description="steps over which the rate rises from 0")
    schedule: Literal["constant", "cosine", "linear"] = Field(
        default="constant", description="the rate after warm-up; cosine and linear fall to 0 at the last step"
    )
    weight_decay: float = Field(default=0.01, ge=0, description="AdamW decay of the weight matrices")
    clip: float | None = Field(default=None, gt=0, description="largest gradient norm, per member; null for none")
    absolute: float = Field(default=0.0, ge=0, description="share of the mean absolute error in the loss")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto",
        description="of hidden activations; auto: bfloat16 in a cnn where the processor has it, float32 otherwise",
    )

    def for_trainer(self, dtype: torch.dtype) -> TrainingSettings:
        """The same in the words of the one training loop."""
        return TrainingSettings(
            size="xs",
            steps=self.steps,
            batch=self.batch,
            rate=self.rate,
            warmup=self.warmup,
            schedule=self.schedule,
            beta2=0.999,
            weight_decay=self.weight_decay,
            clip=self.clip,
            ema_width=None,
            precision="bfloat16" if dtype == torch.bfloat16 else "float32",
        )


class RenderingJudging(Settings):
    """How often the members are judged; each time on their whole plane."""

    evaluations: int = Field(default=5, ge=1, le=1000, description="how often, the last at the end of training")


class RenderingArm(Settings):
    """One decoder with everything it is told and trained on."""

    world: PlaneWorld = Field(default=BumpsSettings(), description="what is drawn: bumps or digits")
    support: SupportSettings = Field(default=DonutSupport(), description="which pairs, or angles, are trained on")
    encoding: EncodingSettings = Field(default=PopulationEncoding(), description="how factor values are told")
    data: DataSettings = Field(default=DataSettings(), description="each member's training set")
    decoder: DecoderSettings = Field(default=CNNSettings(), description="what is trained")
    training: RenderingTraining = Field(default=RenderingTraining(), description="how it is trained")

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
            # Emulated, where the processor has no instructions for it, bfloat16 would be slower than float32.
            fast = device.type == "cuda" or torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
            return torch.bfloat16 if self.decoder.kind == "cnn" and fast else torch.float32
        return torch.bfloat16 if self.training.precision == "bfloat16" else torch.float32


class RenderingStudy(Settings):
    """A forced-rendering study, complete; its hash names everything its results depend on."""

    kind: Literal["rendering"] = Field(default="rendering", description="decoders that are told every factor")
    name: Annotated[Name, Field(description="for tables and folders: small letters, digits, _ and -")]
    question: Annotated[str, Field(min_length=1, max_length=1000, description="what is asked, in a sentence")]
    limits: str = Field(default="", max_length=1000, description="what the study cannot show, said in its report")
    judging: RenderingJudging = Field(default=RenderingJudging(), description="how often the members are judged")
    seeds: Annotated[
        tuple[Seed, ...],
        Field(min_length=1, max_length=1024, description="every arm is trained once with each: its members"),
        AfterValidator(distinct),
    ] = (0, 1, 2)
    arms: dict[ArmName, RenderingArm] = Field(min_length=1, description="what is compared: a name and its words")

    @model_validator(mode="after")
    def _fits_together(self) -> "RenderingStudy":
        parts = {name: getattr(self, name) for name in type(self).model_fields}
        wrong = [f"{'.'.join(path)}: {sentence}" for path, sentence in rendering_mistakes(parts)]
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    @property
    def members(self) -> int:
        return len(self.seeds)

    def resolved(self) -> dict[str, Any]:
        """Everything, as plain JSON data."""
        return self.model_dump(mode="json")

    @property
    def hash(self) -> str:
        """The wording of question and limits does not count."""
        return content_hash(
            {word: value for word, value in self.resolved().items() if word not in ("question", "limits")}
        )


def rendering_mistakes(parts: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """What no section can know by itself, as (place, sentence)."""
    judging = parts.get("judging")
    for name, arm in parts.get("arms", {}).items():
        try:
            arm.trained()
        except ValueError as error:
            yield ("arms", name, "support"), f"{error} (arm {name})"
        if judging is not None and judging.evaluations > arm.training.steps:
            yield (
                ("arms", name, "training"),
                f"{judging.evaluations} evaluations do not fit in {arm.training.steps} steps (arm {name})",
            )
        try:
            code = arm.code()
        except (ValueError, UserError) as error:
            yield ("arms", name, "encoding"), f"{error} (arm {name})"
            continue
        try:
            check_decoder(arm.decoder, code.widths, arm.world.image_size)
        except ValueError as error:
            yield ("arms", name, "decoder"), f"{error} (arm {name})"
        if arm.data.stripes and not (code.has_none and isinstance(arm.world, BumpsSettings)):
            yield (
                ("arms", name, "data"),
                "stripes need a code without a value for the other factor: use bumps, with encoding onehot or "
                f"population (arm {name})",
            )


def shrink_rendering(study: RenderingStudy) -> RenderingStudy:
    """A smoke test of the same shape: every arm trained for a moment."""
    words = study.resolved()
    words["name"] = f"{study.name[:53]}-shrunk"
    words["seeds"] = words["seeds"][:2]
    words["judging"]["evaluations"] = min(2, words["judging"]["evaluations"])
    longest = max(arm.training.steps for arm in study.arms.values())
    for arm in words["arms"].values():
        arm["training"]["steps"] = max(2, 6 * arm["training"]["steps"] // longest)
        arm["training"]["batch"] = min(arm["training"]["batch"], 4)
        for word, cap in {"width": 16, "depth": 2, "heads": 2}.items():
            if word in arm["decoder"]:
                arm["decoder"][word] = min(arm["decoder"][word], cap)
    return RenderingStudy.model_validate(words)
