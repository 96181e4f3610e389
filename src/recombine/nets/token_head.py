"""The small network that denoises one token given what the backbone says of it (Li et al. 2024, section 3.2).

An MLP with adaLN-Zero. Each token is by itself: the head sees a noisy token (C numbers), a time and the backbone's
vector z, and nothing else. As everywhere in the house the norms have no affine part, which beside the modulation would
be redundant. At the start every block is the identity and the output is exactly 0.

Shapes: M members, N tokens in any number of axes, C channels of a token, W width of the head.
"""

import torch
from torch import Tensor, nn

from recombine.nets import fused
from recombine.nets.backbone import TimeEmbedding
from recombine.nets.layers import Linear, SeedStream, layer_norm, modulate


class HeadBlock(nn.Module):
    """x + gate * (Linear-SiLU-Linear of the modulated LN of x)."""

    def __init__(self, width: int, seeds: SeedStream):
        super().__init__()
        self.up = Linear(width, width, seeds)
        self.down = Linear(width, width, seeds)
        self.ada = Linear(width, 3 * width, seeds, zero=True)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        """x and c (M, N, W), c already through SiLU."""
        shift, scale, gate = self.ada(c).chunk(3, dim=-1)
        hidden = nn.functional.silu(self.up(modulate(layer_norm(x), shift, scale)))
        return torch.addcmul(x, gate, self.down(hidden))


class TokenHead(nn.Module):
    """Noisy tokens (M, N, C), times (M, N) in [0, 1] and vectors z (M, N, inputs) to a prediction (M, N, outputs)."""

    def __init__(self, channels: int, inputs: int, depth: int, width: int, seeds: SeedStream, outputs: int):
        super().__init__()
        self.inputs = Linear(channels, width, seeds)
        self.time = TimeEmbedding(width, seeds)
        self.context = Linear(inputs, width, seeds)
        self.blocks = nn.ModuleList(HeadBlock(width, seeds) for _ in range(depth))
        self.ada = Linear(width, 2 * width, seeds, zero=True)
        self.out = Linear(width, outputs, seeds, zero=True)

    def forward(self, x: Tensor, t: Tensor, z: Tensor) -> Tensor:
        """Computed in the dtype of z, but for the last map: the prediction is float32 in value, not in name only. Where
        t has a 1, all tokens along that axis have the same time."""
        if fused.suits(z):
            return self.out(self._states(x.to(z.dtype), t, z).float())
        c = nn.functional.silu(self.time(t, z.dtype) + self.context(z))
        h = self.inputs(x.to(z.dtype))
        for block in self.blocks:
            h = block(h, c)
        shift, scale = self.ada(c).chunk(2, dim=-1)
        return self.out(modulate(layer_norm(h), shift, scale).float())

    def _states(self, x: Tensor, t: Tensor, z: Tensor) -> Tensor:
        """What the last map takes, by kernels that add biases and gates where they read or write anyway."""
        from recombine.nets.fused.activation import bias_silu
        from recombine.nets.fused.token_norm import token_norm, token_residual_norm

        width = self.inputs.weight.shape[-1]
        first, last = self.time.ends
        time = last.product(bias_silu(first.product(self.time.waves(t).to(z.dtype)), first.bias))
        c = bias_silu(self.context.product(z) + time, last.bias + self.context.bias).flatten(1, -2)  # (M, N, W)
        h = self.inputs(x).flatten(1, -2)
        pending: tuple[Tensor, Tensor, Tensor, Tensor] | None = None
        for block in [*self.blocks, self]:
            mod = block.ada.product(c, slice(0, 2 * width)), block.ada.bias[..., : 2 * width]
            if pending is None:
                modulated = token_norm(h, *mod)
            else:
                h, modulated = token_residual_norm(h, *pending, *mod)
            if isinstance(block, HeadBlock):
                y = block.down.product(bias_silu(block.up.product(modulated), block.up.bias))
                gate = block.ada.product(c, slice(2 * width, None)), block.ada.bias[..., 2 * width :]
                pending = (y, block.down.bias, *gate)
        return modulated.view(*z.shape[:-1], width)
