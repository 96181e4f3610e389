"""How a generator is trained. Sizes set the rate; everything else has a default that suits short runs."""

from typing import Annotated, Literal

import torch
from pydantic import Field

from recombine.nets.backbone import Size
from recombine.settings import Settings

# Rates found to train each width stably: narrower models take larger steps.
_RATES: dict[str, float] = {"xs": 4e-3, "s": 1e-3, "b": 5e-4, "l": 1e-4}


class TrainingSettings(Settings):
    """Training of one arm; the numbers are per member."""

    size: Size = Field(default="s", description="xs for a CPU, s for a GPU, b as in the papers, l wider")
    steps: int = Field(default=11_000, ge=1, le=10_000_000, description="optimizer steps")
    batch: int = Field(default=128, ge=1, le=65_536, description="images per member and step")
    images: int = Field(
        default=2000,
        ge=1,
        le=10_000_000,
        description="distinct training images per trained composition (with dependence: on average)",
    )
    compositions: Annotated[int, Field(ge=1, le=1_000_000)] | tuple[str, ...] | None = Field(
        default=None,
        description="train on so many of the split's compositions only, the first of one fixed order that shows every "
        "factor value soonest; or on exactly those that are listed, in the split or not, one digit a factor, such as "
        "['000', '011']; levels are then counted from these. null: all of the split's",
    )
    dependence: float = Field(
        default=0.0,
        ge=0,
        le=20,
        description="how strongly factors depend on each other in the training data: log of how many times as frequent "
        "a composition is for two more of its factors in agreement (at the same place in their ranges), while every "
        "factor value keeps its share; 0: all trained compositions are equally frequent",
    )
    rate: float | None = Field(
        default=None,
        gt=0,
        description=f"learning rate; null: by size ({', '.join(f'{size} {rate:g}' for size, rate in _RATES.items())})",
    )
    warmup: int = Field(default=100, ge=0, le=10_000_000, description="steps over which the rate rises from 0")
    schedule: Literal["constant", "cosine", "linear"] = Field(
        default="constant", description="the rate after warm-up; cosine and linear fall to 0 at the last step"
    )
    beta1: float = Field(default=0.9, ge=0, lt=1, description="AdamW: share kept of the mean gradient at each step")
    beta2: float = Field(default=0.99, ge=0, lt=1, description="AdamW: the same of the mean squared gradient")
    weight_decay: float = Field(default=0.01, ge=0, description="AdamW decay of the weight matrices")
    clip: float | None = Field(default=1.0, gt=0, description="largest gradient norm, per member; null for none")
    ema_width: float | None = Field(
        default=0.05,
        gt=0,
        lt=0.28,
        description="width of the averaged weights, as a share of the run so far; null: the raw weights are judged",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="of activations; auto: bfloat16 on a GPU"
    )

    @property
    def peak_rate(self) -> float:
        return self.rate if self.rate is not None else _RATES[self.size]

    def dtype(self, device: torch.device) -> torch.dtype:
        """The dtype of activations on this device."""
        if self.precision == "auto":
            return torch.bfloat16 if device.type == "cuda" else torch.float32
        return torch.bfloat16 if self.precision == "bfloat16" else torch.float32
