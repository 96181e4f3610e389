"""The small network that denoises one token given what the backbone says of it (Li et al. 2024, section 3.2).

An MLP with adaLN-Zero. Each token is by itself: the head sees a noisy token (C numbers), a time and the backbone's
vector z, and nothing else. As everywhere in the house the norms have no affine part, which beside the modulation would
be redundant. At the start every block is the identity and the output is exactly 0.

Shapes: M members, N tokens in any number of axes, C channels of a token, W width of the head.
"""

import torch
from torch import Tensor, nn

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
        """Computed in the dtype of z, but for the last map: the prediction is float32 in value, not in name only."""
        c = nn.functional.silu(self.time(t, z.dtype) + self.context(z))
        h = self.inputs(x.to(z.dtype))
        for block in self.blocks:
            h = block(h, c)
        shift, scale = self.ada(c).chunk(2, dim=-1)
        return self.out(modulate(layer_norm(h), shift, scale).float())
