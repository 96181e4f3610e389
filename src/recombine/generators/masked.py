"""The step that all masked generators share: hide a part of the tokens, predict them, score the prediction.

Shapes: M members, B batch, T tokens, W condition columns, D width.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recombine.conditioning import Dropped
from recombine.generators.base import Generator
from recombine.generators.jepa import Jepa
from recombine.nets.layers import Linear, Table
from recombine.randomness import Draws


@dataclass(frozen=True)
class Masked:
    """What is hidden of a training batch, and what its score must know of how it was drawn."""

    hidden: Tensor  # (M, B, T) bool
    order: Tensor | None = None  # mar, (M, B, T): the hidden tokens first, in random order
    time: Tensor | None = None  # discrete diffusion, (M, B)


class MaskedGenerator(Generator):
    """A family that predicts hidden tokens from those shown. It says what is hidden, how tokens are embedded and how
    the outputs are scored; a JEPA may be added to any of them."""

    jepa: Jepa | None
    masks = True  # whether tokens are hidden at all: a causal style of the same family hides none

    def __init__(self, *args: Any, **words: Any):
        super().__init__(*args, **words)
        self.register_module("jepa", None)

    @abstractmethod
    def mask(self, batch: int, draws: Draws) -> Masked:
        """What is hidden from each sample of a training batch."""

    @abstractmethod
    def embed(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        """Tokens x as the backbone takes them, (M, B, T, D), of which those `hidden` (M, B, T) do not depend on x."""

    @abstractmethod
    def score(self, outputs: Tensor, x: Tensor, masked: Masked, draws: Draws) -> Tensor:
        """Loss of each member, (M,), given the backbone's outputs."""

    def told(self, cond: Tensor, dropped: Dropped | None, masked: Masked | None) -> Tensor:
        """The vector (M, B, D) that drives adaLN."""
        return self.condition(cond.to(self.dtype), dropped)

    def loss(self, x: Tensor, cond: Tensor, draws: Draws) -> Tensor:
        masked = self.mask(x.shape[1], draws)
        dropped, guessing = self.withhold(x, cond, draws)
        c = self.told(cond, dropped, masked)
        if self.jepa is None:
            return self.score(self.backbone(self.embed(x, masked.hidden), c), x, masked, draws) + guessing
        outputs, states = self.backbone.with_states(self.embed(x, masked.hidden), c, self.jepa.layers)
        loss = self.score(outputs, x, masked, draws) + guessing
        hidden = masked.hidden
        own = self.jepa.own_mask(x.shape[1], draws)
        if own is not None:  # masks of its own cost the student a pass of its own
            hidden = own
            states = self.backbone.states(self.embed(x, own), self.told(cond, dropped, Masked(own)), self.jepa.layers)
        return loss + self.jepa.loss(self, states, hidden, x, cond, dropped, draws)

    def forward(self, x: Tensor, cond: Tensor, dropped: Dropped | None, layers: Sequence[int]) -> list[Tensor]:
        """The states (M, B, T, D) after blocks `layers`, all tokens shown. (A method named forward, so that
        torch.func.functional_call can run it with other weights: a teacher's.)"""
        return self.backbone.states(self.embed(x, None), self.told(cond, dropped, None), layers)

    @torch.no_grad()
    def jepa_view(self, x: Tensor, cond: Tensor, draws: Draws) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """What the JEPA makes of fresh tokens with all factors told: the hidden ones (M, B, T), and for each of its
        layers the predictions and the targets, (M, B, T, D) each."""
        assert self.jepa is not None
        own = self.jepa.own_mask(x.shape[1], draws)
        masked = self.mask(x.shape[1], draws) if own is None else Masked(own)
        states = self.backbone.states(self.embed(x, masked.hidden), self.told(cond, None, masked), self.jepa.layers)
        return masked.hidden, self.jepa.predict(states), self.jepa.targets(self, x, cond, None, self.jepa.layers)

    def trailing(self) -> dict[str, Tensor]:
        return {} if self.jepa is None else self.jepa.trailing()

    def momentum(self, share: Tensor) -> Tensor:
        assert self.jepa is not None
        return self.jepa.momentum(share)


class MaskedCodes(MaskedGenerator):
    """Tokens are codes; a hidden one is a code of its own, `mask_id`, one row past the others."""

    takes = "ids"
    inputs: Table
    mask_id: int

    def embed(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        ids = x if hidden is None else x.masked_fill(hidden, self.mask_id)
        return self.inputs(ids).to(self.dtype)


class MaskedLatents(MaskedGenerator):
    """Tokens are latent vectors; in place of a hidden one stands a learned vector, `blank` (M, D)."""

    takes = "latents"
    inputs: Linear
    blank: Tensor

    def embed(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        shown = self.inputs(x.to(self.dtype))
        if hidden is None:
            return shown
        return torch.where(hidden[..., None], self.blank[:, None, None].to(self.dtype), shown)
