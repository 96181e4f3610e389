"""The one transformer of the house: adaLN-Zero blocks (Peebles and Xie 2023, section 3.2) with a member axis.

Notable choices, the same for every generator: pre-LN without affine parts; condition and time summed into one vector
per image that shifts, scales and gates every block; fixed 2-D sine-cosine positions; tanh GELU; no dropout; no weight
shared between members. At the start every block is the identity and the output is exactly 0.

Shapes: M members, B batch, T tokens, D width, H heads.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from recombine.nets import fused
from recombine.nets.layers import Linear, SeedStream, layer_norm, modulate

Size = Literal["xs", "s", "b", "l"]


@dataclass(frozen=True)
class Dimensions:
    """Depth, width and heads of a backbone."""

    depth: int
    width: int
    heads: int


# The one dial. xs: three seeds in minutes on two CPU cores; s: the default on a GPU; b: the papers'; l: twice as wide.
SIZES: dict[str, Dimensions] = {
    "xs": Dimensions(depth=4, width=64, heads=4),
    "s": Dimensions(depth=6, width=256, heads=4),
    "b": Dimensions(depth=12, width=384, heads=6),
    "l": Dimensions(depth=12, width=768, heads=12),
}


def sinusoid(positions: Tensor, width: int, period: float = 1e4) -> Tensor:
    """Cosines then sines of `positions` (...) at width / 2 frequencies from 1 down to 1 / period: (..., width)."""
    half = width // 2
    frequency = torch.exp(torch.arange(half, device=positions.device, dtype=torch.float32) * (-math.log(period) / half))
    angle = positions[..., None] * frequency
    return torch.cat([torch.cos(angle), torch.sin(angle)], dim=-1)


def grid_positions(grid: tuple[int, int], width: int) -> Tensor:
    """Fixed 2-D positions (T, D): half of the features for the column, half for the row."""
    row, column = torch.meshgrid(torch.arange(grid[0]), torch.arange(grid[1]), indexing="ij")
    halves = [sinusoid(axis.flatten().float(), width // 2) for axis in (column, row)]
    return torch.cat(halves, dim=-1)


class TimeEmbedding(nn.Module):
    """Time t in [0, 1], (M, B), to (M, B, D): sinusoid of 1000 t, then Linear-SiLU-Linear (DiT)."""

    def __init__(self, width: int, seeds: SeedStream, frequencies: int = 256):
        super().__init__()
        self.frequencies = frequencies
        self.layers = nn.Sequential(Linear(frequencies, width, seeds), nn.SiLU(), Linear(width, width, seeds))

    def waves(self, t: Tensor) -> Tensor:
        """What the first layer takes."""
        return sinusoid(t * 1000, self.frequencies)

    @property
    def ends(self) -> tuple[Linear, Linear]:
        """The first layer and the last."""
        first, _, last = self.layers
        assert isinstance(first, Linear) and isinstance(last, Linear)
        return first, last

    def forward(self, t: Tensor, dtype: torch.dtype) -> Tensor:
        return self.layers(self.waves(t).to(dtype))


@dataclass(frozen=True)
class Pending:
    """What a part of a block gives, before it is added to x: gate * (y + bias). Whoever normalises x next adds it, in
    the same pass over x."""

    y: Tensor  # (M, B, T, D)
    bias: Tensor  # (M, 1, D)
    gate: Tensor  # (M, B, 1, D)


def add_and_normalise(x: Tensor, pending: Pending | None, shift: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """x with what is pending added, and its modulated LayerNorm: (M, B, T, D) both; shift and scale (M, B, 1, D)."""
    if fused.suits(x):
        from recombine.nets.fused.norm import norm, residual_norm

        if pending is None:
            return x, norm(x, shift, scale)
        return residual_norm(x, pending.y, pending.bias, pending.gate, shift, scale)
    if pending is not None:
        x = torch.addcmul(x, pending.gate, pending.y + pending.bias.to(x.dtype)[:, None])
    return x, modulate(layer_norm(x), shift, scale)


class Block(nn.Module):
    """One adaLN-Zero block: x + gate * attention(modulated LN x), then the same with the MLP."""

    def __init__(self, dimensions: Dimensions, seeds: SeedStream):
        super().__init__()
        width = dimensions.width
        self.heads = dimensions.heads
        self.qkv = Linear(width, 3 * width, seeds)
        self.out = Linear(width, width, seeds)
        self.up = Linear(width, 4 * width, seeds)
        self.down = Linear(4 * width, width, seeds)

    def forward(
        self,
        x: Tensor,
        pending: Pending | None,
        modulation: Sequence[Tensor],
        causal: bool,
        cache: "KeysAndValues | None",
    ) -> tuple[Tensor, Tensor, Pending]:
        """x (M, B, T, D) with what is pending on it, modulated by six of (M, B, 1, D): x as the block receives it, x as
        it leaves it, and what is then pending on that. With a cache, x is the next token alone, T = 1."""
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = modulation
        received, h = add_and_normalise(x, pending, shift_a, scale_a)
        mixed = Pending(self.out.product(self.attend(h, causal, cache)), self.out.bias, gate_a)
        x, h = add_and_normalise(received, mixed, shift_m, scale_m)
        return received, x, Pending(self.down.product(self.expand(h)), self.down.bias, gate_m)

    def expand(self, h: Tensor) -> Tensor:
        """The inner layer of the MLP."""
        if fused.suits(h):
            from recombine.nets.fused.activation import bias_gelu

            return bias_gelu(self.up.product(h), self.up.bias)
        return nn.functional.gelu(self.up(h), approximate="tanh")

    def attend(self, x: Tensor, causal: bool, cache: "KeysAndValues | None") -> Tensor:
        """Self-attention; it has no weights, so members fold into its batch. Causal: a token sees itself and those
        before."""
        members, batch, tokens, width = x.shape
        features = width // self.heads
        if cache is None and not causal and fused.suits(x):
            from recombine.nets.fused.attention import MOST_TOKENS, attention, takes
            from recombine.nets.fused.tiled_attention import tiled_attention

            if takes(features):
                own = attention if tokens <= MOST_TOKENS else tiled_attention
                return own(self.qkv.product(x), self.qkv.bias, self.heads)
        q, k, v = self.qkv(x).view(members * batch, tokens, 3, self.heads, features).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = cache.extend(k, v)  # the next token sees all that came before, so there is nothing to mask
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal and cache is None)
        return mixed.transpose(1, 2).reshape(members, batch, tokens, width)


class KeysAndValues:
    """What one block's attention remembers of the tokens so far, so that a causal sampler computes each token once."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None  # (M * B, H, tokens so far, D / H)
        self.values: Tensor | None = None

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Adds the new token's key and value; returns all."""
        self.keys = k if self.keys is None else torch.cat([self.keys, k], dim=2)
        self.values = v if self.values is None else torch.cat([self.values, v], dim=2)
        return self.keys, self.values


class Backbone(nn.Module):
    """Embedded tokens (M, B, T, D) and a condition vector (M, B, D) to outputs (M, B, T, outputs)."""

    positions: Tensor  # (T, D), fixed

    def __init__(self, dimensions: Dimensions, grid: tuple[int, int], outputs: int, seeds: SeedStream):
        super().__init__()
        width = dimensions.width
        self.register_buffer("positions", grid_positions(grid, width), persistent=False)
        self.blocks = nn.ModuleList(Block(dimensions, seeds) for _ in range(dimensions.depth))
        # The modulations of all blocks, six each, and of the output, two: one product, since all follow from c alone.
        self.ada = Linear(width, (6 * dimensions.depth + 2) * width, seeds, zero=True)
        self.head = Linear(width, outputs, seeds, zero=True)

    def forward(self, x: Tensor, c: Tensor, causal: bool = False) -> Tensor:
        """All tokens at once; causal: the output at a token depends on it and on those before it (in row order)."""
        return self._outputs(*self._run(x + self.positions.to(x.dtype), c, causal))[0]

    def states(self, x: Tensor, c: Tensor, layers: Sequence[int]) -> list[Tensor]:
        """The states (M, B, T, D) after blocks number `layers`, in rising order; later blocks are not run."""
        kept: list[Tensor] = []
        x, pending, _ = self._run(x + self.positions.to(x.dtype), c, states=kept, blocks=layers[-1] + 1)
        kept.append(torch.addcmul(x, pending.gate, pending.y + pending.bias.to(x.dtype)[:, None]))
        return [kept[layer] for layer in layers]

    def with_states(self, x: Tensor, c: Tensor, layers: Sequence[int]) -> tuple[Tensor, list[Tensor]]:
        """Outputs (M, B, T, outputs), and the states after blocks number `layers`, from one pass."""
        kept: list[Tensor] = []
        outputs, last = self._outputs(*self._run(x + self.positions.to(x.dtype), c, states=kept))
        kept.append(last)
        return outputs, [kept[layer] for layer in layers]

    def new_cache(self) -> list[KeysAndValues]:
        """The memory of a causal sampler, empty."""
        return [KeysAndValues() for _ in self.blocks]

    def next_token(self, x: Tensor, c: Tensor, place: int, cache: list[KeysAndValues]) -> Tensor:
        """Output (M, B, 1, outputs) at token number `place`, whose embedding is x (M, B, 1, D); the earlier ones are
        cached."""
        return self._outputs(*self._run(x + self.positions[place].to(x.dtype), c, True, cache))[0]

    def _run(
        self,
        x: Tensor,
        c: Tensor,
        causal: bool = False,
        cache: list[KeysAndValues] | None = None,
        states: list[Tensor] | None = None,
        blocks: int | None = None,
    ) -> tuple[Tensor, Pending, Sequence[Tensor]]:
        """x after the first `blocks` (all), what is pending on it, and the output's modulation, two of (M, B, 1, D).
        `states` collects x after every block but the last."""
        modulations = self.ada(nn.functional.silu(c)[:, :, None]).chunk(6 * len(self.blocks) + 2, dim=-1)
        pending: Pending | None = None
        for i, block in enumerate(self.blocks[:blocks]):
            own = modulations[6 * i : 6 * i + 6]
            received, x, pending = block(x, pending, own, causal, cache[i] if cache is not None else None)
            if states is not None and i > 0:
                states.append(received)
        assert pending is not None, "a backbone has at least one block"
        return x, pending, modulations[-2:]

    def _outputs(self, x: Tensor, pending: Pending, modulation: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Outputs (M, B, T, outputs), and x after the last block."""
        shift, scale = modulation
        x, h = add_and_normalise(x, pending, shift, scale)
        # The last map is done in float32: bfloat16 outputs near 1 come in steps of 0.008, too coarse for a density's
        # mean.
        return self.head(h.float()), x
