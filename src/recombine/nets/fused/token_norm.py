"""As `norm.py`, where every token is modulated by itself: the blocks of a head that denoises tokens one by one.

    x' = x + (gate + b) (y + bias),  h = LN(x') (1 + scale) + shift

Gate, shift and scale come as matrix products leave them, still without the biases b of the layer that makes them: with
one modulation per token these are as large as x, so every pass over them counts.

Shapes: M members, N tokens, W width; gate is (M, N, W), shift and scale together (M, N, 2 W), all contiguous.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recombine.nets.fused.loading import load

EPSILON = tl.constexpr(1e-6)
TILE, WARPS = 1024, 4
TILE_BACKWARD, WARPS_BACKWARD = 1024, 1
SHARE = 64  # tokens that one program does, backward


@triton.jit
def _shift_of(bias, member, width: tl.constexpr, columns, wide):
    """A row (1, W) of a bias of so many numbers a member."""
    return load(bias + member * width + columns, wide)[None, :]


@triton.jit
def _token_forward(
    x_in,
    y_in,
    bias,
    gate,
    gate_bias,
    mod,
    mod_bias,
    x_out,
    h_out,
    means,
    overs,
    tokens,
    W: tl.constexpr,
    PADDED: tl.constexpr,
    R: tl.constexpr,
    ADDS: tl.constexpr,
):
    member = tl.program_id(1).to(tl.int64)
    rows, columns = tl.program_id(0) * R + tl.arange(0, R), tl.arange(0, PADDED)
    wide = columns < W
    inside = (rows < tokens)[:, None] & wide[None, :]
    begin = member * tokens * W
    place = rows[:, None] * W + columns[None, :]
    stored = tl.load(x_in + begin + place, mask=inside, other=0.0)
    x = stored.to(tl.float32)
    if ADDS:
        y = load(y_in + begin + place, inside) + _shift_of(bias, member, W, columns, wide)
        g = load(gate + begin + place, inside) + _shift_of(gate_bias, member, W, columns, wide)
        rounded = (x + g * y).to(stored.dtype)
        tl.store(x_out + begin + place, rounded, mask=inside)
        x = rounded.to(tl.float32)  # what the backward pass will see
    mean = tl.sum(x, 1) / W
    centred = tl.where(wide[None, :], x - mean[:, None], 0.0)
    over = 1 / tl.sqrt(tl.sum(centred * centred, 1) / W + EPSILON)
    tl.store(means + member * tokens + rows, mean, mask=rows < tokens)
    tl.store(overs + member * tokens + rows, over, mask=rows < tokens)
    at = mod + 2 * begin + rows[:, None] * 2 * W + columns[None, :]
    s = load(at, inside) + _shift_of(mod_bias, member, 2 * W, columns, wide)
    a = load(at + W, inside) + _shift_of(mod_bias + W, member, 2 * W, columns, wide)
    tl.store(h_out + begin + place, (centred * over[:, None] * (1 + a) + s).to(stored.dtype), mask=inside)


@triton.jit
def _token_backward(
    x_out,
    means,
    overs,
    y_in,
    bias,
    gate,
    gate_bias,
    mod,
    mod_bias,
    grad_h,
    grad_x_out,
    grad_x,
    grad_y,
    grad_gate,
    grad_mod,
    sums,
    tokens,
    each,
    W: tl.constexpr,
    PADDED: tl.constexpr,
    R: tl.constexpr,
    ADDS: tl.constexpr,
):
    share, member = tl.program_id(0), tl.program_id(1).to(tl.int64)
    columns = tl.arange(0, PADDED)
    wide = columns < W
    scale_bias = 1 + _shift_of(mod_bias + W, member, 2 * W, columns, wide)
    if ADDS:
        b = _shift_of(bias, member, W, columns, wide)
        c = _shift_of(gate_bias, member, W, columns, wide)
    # What the biases are due, row by row of the tile, summed over its rows at the end.
    sum_shift = tl.zeros((R, PADDED), tl.float32)
    sum_scale = tl.zeros((R, PADDED), tl.float32)
    sum_gate = tl.zeros((R, PADDED), tl.float32)
    sum_y = tl.zeros((R, PADDED), tl.float32)
    begin = member * tokens * W
    kind = grad_x.dtype.element_ty
    for first in range(share * each, tl.minimum(share * each + each, tokens), R):
        rows = first + tl.arange(0, R)
        inside = (rows < tokens)[:, None] & wide[None, :]
        place = rows[:, None] * W + columns[None, :]
        at = 2 * begin + rows[:, None] * 2 * W + columns[None, :]
        mean = load(means + member * tokens + rows, rows < tokens)[:, None]
        over = load(overs + member * tokens + rows, rows < tokens)[:, None]
        x = load(x_out + begin + place, inside)
        normal = tl.where(wide[None, :], (x - mean) * over, 0.0)
        dh = load(grad_h + begin + place, inside)
        a = load(mod + at + W, inside) + scale_bias
        dn = dh * a
        dx = (dn - (tl.sum(dn, 1) / W)[:, None] - normal * (tl.sum(dn * normal, 1) / W)[:, None]) * over
        tl.store(grad_mod + at, dh.to(kind), mask=inside)
        tl.store(grad_mod + at + W, (dh * normal).to(kind), mask=inside)
        sum_shift += dh
        sum_scale += dh * normal
        if ADDS:
            dx += load(grad_x_out + begin + place, inside)
            dx = tl.where(inside, dx, 0.0)
            y = load(y_in + begin + place, inside) + b
            g = load(gate + begin + place, inside) + c
            tl.store(grad_y + begin + place, (dx * g).to(kind), mask=inside)
            tl.store(grad_gate + begin + place, (dx * y).to(kind), mask=inside)
            sum_gate += dx * y
            sum_y += dx * g
        tl.store(grad_x + begin + place, dx.to(kind), mask=inside)
    into = sums + (member * tl.num_programs(0) + share) * 4 * W + columns  # (members, shares, 4, W)
    tl.store(into, tl.sum(sum_shift, 0), mask=wide)
    tl.store(into + W, tl.sum(sum_scale, 0), mask=wide)
    if ADDS:
        tl.store(into + 2 * W, tl.sum(sum_gate, 0), mask=wide)
        tl.store(into + 3 * W, tl.sum(sum_y, 0), mask=wide)


def _forward(x: Tensor, *others: Tensor, adds: bool) -> tuple[Tensor, Tensor]:
    """The mean of every token, and one over its spread, (M, N) float32."""
    members, tokens, width = x.shape
    padded = triton.next_power_of_2(width)
    rows = min(16, max(1, TILE // padded))
    kept = x.new_empty(members, tokens, dtype=torch.float32), x.new_empty(members, tokens, dtype=torch.float32)
    _token_forward[(triton.cdiv(tokens, rows), members)](
        x, *others, *kept, tokens, width, padded, rows, adds, num_warps=WARPS
    )
    return kept


def _backward(x: Tensor, *others: Tensor, adds: bool) -> tuple[Tensor, ...]:
    """The gradients of four biases: of shift and scale, (M, 1, 2 W), of the gate and of y, (M, 1, W)."""
    members, tokens, width = x.shape
    padded = triton.next_power_of_2(width)
    rows = min(16, max(1, TILE_BACKWARD // padded))
    shares = triton.cdiv(tokens, SHARE)
    sums = x.new_empty(members, shares, 4 * width, dtype=torch.float32)
    _token_backward[(shares, members)](
        x, *others, sums, tokens, SHARE, width, padded, rows, adds, num_warps=WARPS_BACKWARD
    )
    total = sums.sum(1, keepdim=True)
    return total[..., : 2 * width], total[..., 2 * width : 3 * width], total[..., 3 * width :]


class _TokenResidualNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor, bias: Tensor, gate: Tensor, gate_bias: Tensor, mod: Tensor, mod_bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        bias, gate_bias, mod_bias = bias.contiguous(), gate_bias.contiguous(), mod_bias.contiguous()
        x_out, h = torch.empty_like(x), torch.empty_like(x)
        given = y, bias, gate, gate_bias, mod, mod_bias
        kept = _forward(x, *given, x_out, h, adds=True)
        ctx.save_for_backward(x_out, *kept, *given)
        return x_out, h

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        x, *others, mod, mod_bias = ctx.saved_tensors
        to_x, to_y, to_gate, to_mod = (torch.empty_like(t) for t in (x, x, x, mod))
        given = grads[1].contiguous(), grads[0].contiguous()
        to_mod_bias, to_gate_bias, to_bias = _backward(
            x, *others, mod, mod_bias, *given, to_x, to_y, to_gate, to_mod, adds=True
        )
        return to_x, to_y, to_bias, to_gate, to_gate_bias, to_mod, to_mod_bias


class _TokenNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mod: Tensor, mod_bias: Tensor) -> Tensor:
        x, mod_bias = x.contiguous(), mod_bias.contiguous()
        h = torch.empty_like(x)
        kept = _forward(x, x, x, x, x, mod, mod_bias, x, h, adds=False)
        ctx.save_for_backward(x, *kept, mod, mod_bias)
        return h

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, means, overs, mod, mod_bias = ctx.saved_tensors
        to_x, to_mod = torch.empty_like(x), torch.empty_like(mod)
        to_mod_bias, _, _ = _backward(
            x, means, overs, x, x, x, x, mod, mod_bias, grads[0].contiguous(), x, to_x, x, x, to_mod, adds=False
        )
        return to_x, to_mod, to_mod_bias


def token_residual_norm(
    x: Tensor, y: Tensor, bias: Tensor, gate: Tensor, gate_bias: Tensor, mod: Tensor, mod_bias: Tensor
) -> tuple[Tensor, Tensor]:
    """x' and h of the formula above, (M, N, W) both; `mod` is shift and scale. Biases are (M, 1, W) or (M, 1, 2 W)."""
    summed, h = _TokenResidualNorm.apply(x, y, bias, gate, gate_bias, mod, mod_bias)
    return summed, h


def token_norm(x: Tensor, mod: Tensor, mod_bias: Tensor) -> Tensor:
    """LN(x) (1 + scale) + shift."""
    h: Tensor = _TokenNorm.apply(x, mod, mod_bias)
    return h
