"""JEPA, an addition to any masked generator: predict, in feature space, what a teacher sees of the hidden tokens.

The student is the generator's own trunk on masked tokens. The teacher is a copy of that trunk on the clean tokens, its
weights an exponential moving average of the student's (Assran et al. 2023). After each chosen block a small predictor
maps the student's state at a hidden token to the teacher's state there; no gradient reaches the teacher. The sum over
blocks, times a weight, is added to the generator's own loss. Student and teacher are told the same of the factors.

Four alternatives ask what of this matters. `student`: the teacher is the student itself, with the gradient stopped.
`random`: the targets are a fixed random network's. `sigreg`: no teacher and no stopped gradient; instead of them the
states are pulled towards an isotropic Gaussian (Balestriero and LeCun 2025), so that they cannot collapse. And
`reaches: predictor`: everything is computed and the predictors learn, but the trunk feels nothing of it.

Shapes: M members, B batch, T tokens, D width.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call

from recombine.conditioning import Dropped
from recombine.generators.masking import block_mask, hide
from recombine.nets.backbone import Dimensions
from recombine.nets.layers import Linear, SeedStream, layer_norm
from recombine.randomness import Draws
from recombine.settings import Settings

if TYPE_CHECKING:
    from recombine.generators.masked import MaskedGenerator

PUBLISHED_LAYERS, PUBLISHED_DEPTH = (7, 9, 11), 12
KNOTS, RANGE = 17, 3.0  # where SIGReg compares characteristic functions


class JepaSettings(Settings):
    """Prediction in feature space beside the generator's own loss."""

    needs = {
        "hidden_share": ("masks", "random"),
        "blocks": ("masks", "block"),
        "block_share": ("masks", "block"),
        "momentum": ("targets", "ema"),
        "momentum_end": ("targets", "ema"),
        "sigreg_weight": ("targets", "sigreg"),
        "sigreg_directions": ("targets", "sigreg"),
    }

    layers: tuple[Annotated[int, Field(le=1000)], ...] | None = Field(
        default=None,
        description="blocks whose states are predicted, the first is 0; null: those at the depths of the published 7, "
        "9 and 11 of 12",
    )
    weight: float = Field(default=0.6, ge=0, description="factor on the loss, which is summed over the layers")
    targets: Literal["ema", "student", "random", "sigreg"] = Field(
        default="ema",
        description="whose states are predicted: an averaged copy's, the model's own (gradient stopped), those of a "
        "fixed random network, or the model's own with SIGReg in place of teacher and stopped gradient",
    )
    reaches: Literal["trunk", "predictor"] = Field(
        default="trunk",
        description="what learns from the loss; predictor: the predictors alone, a control of equal cost",
    )
    distance: Literal["mse", "smooth_l1"] = Field(default="mse", description="of prediction and target")
    normalized: bool = Field(default=True, description="whether targets pass through a LayerNorm without parameters")
    masks: Literal["objective", "random", "block"] = Field(
        default="objective",
        description="what is hidden from the student: what the generator's own loss hides, or masks of its own, which "
        "cost a pass more",
    )
    hidden_share: float = Field(default=0.5, gt=0, le=1, description="masks random only: share of tokens hidden")
    blocks: int = Field(default=4, ge=1, le=1024, description="masks block only: rectangles hidden in each image")
    block_share: float = Field(default=0.18, gt=0, le=1, description="masks block only: area of a rectangle")
    momentum: float = Field(default=0.99, ge=0, le=1, description="targets ema only: share of the teacher kept, first")
    momentum_end: float = Field(
        default=0.9995, ge=0, le=1, description="targets ema only: and at the end of the run; linear in between"
    )
    predictor_width: int | None = Field(
        default=None, ge=1, le=8192, description="of the predictors; null: the backbone's"
    )
    sigreg_weight: float = Field(default=0.02, ge=0, description="targets sigreg only: its weight beside the distance")
    sigreg_directions: int = Field(
        default=64, ge=1, le=65_536, description="targets sigreg only: random directions per step"
    )


def layers_of(settings: JepaSettings, depth: int) -> tuple[int, ...]:
    """The chosen blocks, in order; raises ValueError where the backbone has no such block."""
    if settings.layers is None:
        places = {round((layer + 1) * depth / PUBLISHED_DEPTH) - 1 for layer in PUBLISHED_LAYERS}
        return tuple(sorted(max(place, 0) for place in places))
    if not settings.layers:
        raise ValueError("jepa.layers is empty; name at least one block, or leave jepa out")
    outside = [layer for layer in settings.layers if not 0 <= layer < depth]
    if outside:
        raise ValueError(
            f"jepa.layers has {outside[0]}, but this size has {depth} blocks, 0 to {depth - 1}; layers: null takes "
            "them by depth"
        )
    if len(set(settings.layers)) < len(settings.layers):
        raise ValueError("jepa.layers names a block twice")
    return tuple(sorted(settings.layers))


class Jepa(nn.Module):
    """The predictors and, where the targets need one, the teacher's weights (as buffers: saved, never optimized)."""

    def __init__(self, settings: JepaSettings, generator: "MaskedGenerator", dimensions: Dimensions, seeds: SeedStream):
        super().__init__()
        self.settings = settings
        self.grid = generator.shape.grid
        self.layers = layers_of(settings, dimensions.depth)
        inner = settings.predictor_width or dimensions.width
        self.predictors = nn.ModuleList(
            nn.Sequential(Linear(dimensions.width, inner, seeds), nn.GELU(), Linear(inner, dimensions.width, seeds))
            for _ in self.layers
        )
        # What a pass over clean tokens uses: the embeddings and the blocks up to the last one chosen.
        blocks = [f"backbone.blocks.{i}." for i in range(self.layers[-1] + 1)]
        trunk = ("inputs.", "condition.", "time.", "backbone.ada.", *blocks)
        self.trunk = [name for name, _ in generator.named_parameters() if name.startswith(trunk)]
        if settings.targets in ("ema", "random"):
            weights = dict(generator.named_parameters())
            for name in self.trunk:
                weight = weights[name].detach().clone()
                if settings.targets == "random" and name.endswith("ada.weight"):
                    # At the start all gates are 0 and every block is the identity; this one must mix its tokens.
                    weight = Linear(weight.shape[1], weight.shape[2], seeds).weight.detach()
                self.register_buffer(_plain(name), weight)

    def own_mask(self, batch: int, draws: Draws) -> Tensor | None:
        """What is hidden from the student, (M, B, T); None: what the generator's own loss hides."""
        if self.settings.masks == "objective":
            return None
        if self.settings.masks == "block":
            return block_mask(draws, batch, self.grid, self.settings.blocks, self.settings.block_share)
        tokens = self.grid[0] * self.grid[1]
        share = torch.full_like(draws.uniform(batch, 1), self.settings.hidden_share)
        return hide(draws, share, tokens)

    def targets(
        self, generator: "MaskedGenerator", x: Tensor, cond: Tensor, dropped: Dropped | None, layers: Sequence[int]
    ) -> list[Tensor]:
        """The states (M, B, T, D) to be predicted, float32."""
        if self.settings.targets == "sigreg":
            states = generator(x, cond, dropped, layers)
        else:
            with torch.no_grad():
                if self.settings.targets == "student":
                    states = generator(x, cond, dropped, layers)
                else:
                    teacher = {name: self.get_buffer(_plain(name)) for name in self.trunk}
                    states = functional_call(generator, teacher, (x, cond, dropped, layers))
        return [layer_norm(state.float()) if self.settings.normalized else state.float() for state in states]

    def predict(self, states: Sequence[Tensor]) -> list[Tensor]:
        """Predictions (M, B, T, D), float32, from the student's states. They see the state's direction alone: its size
        grows from block to block, the targets' does not."""
        return [predictor(layer_norm(state)).float() for predictor, state in zip(self.predictors, states, strict=True)]

    def loss(
        self,
        generator: "MaskedGenerator",
        states: Sequence[Tensor],
        hidden: Tensor,
        x: Tensor,
        cond: Tensor,
        dropped: Dropped | None,
        draws: Draws,
    ) -> Tensor:
        """(M,): the weighted sum over layers of the distances at hidden tokens, each example counting alike."""
        if self.settings.reaches == "predictor":
            states = [state.detach() for state in states]
        targets = self.targets(generator, x, cond, dropped, self.layers)
        if self.settings.reaches == "predictor":
            targets = [target.detach() for target in targets]
        total = torch.zeros(x.shape[0], device=x.device)
        for prediction, target in zip(self.predict(states), targets, strict=True):
            total = total + self.error(prediction, target, hidden)
            if self.settings.targets == "sigreg":
                total = total + self.settings.sigreg_weight * sigreg(target, draws, self.settings.sigreg_directions)
        return self.settings.weight * total

    def error(self, prediction: Tensor, target: Tensor, hidden: Tensor) -> Tensor:
        """(M,): the distance, mean over features and over each example's hidden tokens, then over the batch."""
        if self.settings.distance == "mse":
            distance = (prediction - target).square().mean(-1)  # (M, B, T)
        else:
            distance = nn.functional.smooth_l1_loss(prediction, target, reduction="none").mean(-1)
        # Discrete diffusion may hide nothing of an image; such an image has nothing to say.
        return ((distance * hidden).sum(-1) / hidden.sum(-1).clamp(min=1)).mean(-1)

    def trailing(self) -> dict[str, Tensor]:
        """The teacher's weights that trail behind the student's, by the student's names."""
        return {name: self.get_buffer(_plain(name)) for name in self.trunk} if self.settings.targets == "ema" else {}

    def momentum(self, share: Tensor) -> Tensor:
        """The momentum of the teacher when `share` of the run is done."""
        begin, end = self.settings.momentum, self.settings.momentum_end
        return begin + (end - begin) * share.to(torch.float32).clamp(max=1)


def _plain(name: str) -> str:
    """A parameter's name as a buffer's: without dots."""
    return "teacher_" + name.replace(".", "-")


def sigreg(features: Tensor, draws: Draws, directions: int) -> Tensor:
    """How far features (M, B, T, D) are from an isotropic Gaussian, (M,): Epps and Pulley's statistic on random
    directions (Balestriero and LeCun 2025), redrawn at every step.

    The images of a batch are the sample, each token has its own statistic, and these are averaged: the statistic is
    multiplied by the size of the sample, so with all tokens in one sample its weight would depend on their number.
    """
    members, batch, tokens, width = features.shape
    along = nn.functional.normalize(draws.normal(width, directions), dim=1)  # (M, D, S), unit columns
    projected = torch.bmm(features.flatten(1, 2), along).view(members, batch, tokens, directions)
    step = RANGE / (KNOTS - 1)
    statistic = torch.zeros(members, tokens, directions, device=features.device)
    for place in range(KNOTS):
        t = place * step
        gaussian = math.exp(-0.5 * t * t)
        # Trapezoids, doubled because the integrand is even in t, under the window exp(-t^2 / 2).
        weight = gaussian * (step if place in (0, KNOTS - 1) else 2 * step)
        angle = projected * t
        real, imaginary = torch.cos(angle).mean(1), torch.sin(angle).mean(1)  # over the batch: (M, T, S)
        statistic = statistic + weight * ((real - gaussian).square() + imaginary.square())
    return batch * statistic.mean(dim=(1, 2))
