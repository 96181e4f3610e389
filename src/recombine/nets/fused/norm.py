"""The end of one part of a block and the beginning of the next: add what the part gives, gated, then normalise and
modulate.

    x' = x + gate (y + bias),  h = LN(x') (1 + scale) + shift

Forward, a program does a few tokens of one image, and keeps mean and spread of each. Backward, it does a share of the
image's tokens, a few at a time: the gradients of gate, shift and scale are sums over all of them. Where an image has
many tokens each program writes its share of these sums, and the shares are added afterwards, always in the same order.

Shapes: M members, B batch, T tokens, D width; gate, shift and scale are (M, B, 1, D), parts of a wider tensor.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recombine.nets.fused.loading import load

EPSILON = tl.constexpr(1e-6)
TILE, WARPS = 2048, 4  # numbers at a time, forward
TILE_BACKWARD, WARPS_BACKWARD = 1024, 1  # backward four sums of that size stay in a program's registers
SHARE = 64  # tokens of an image that one program does, backward


@triton.jit
def _norm_forward(
    x_in,
    y_in,
    bias,
    gate,
    shift,
    scale,
    x_out,
    h_out,
    means,
    overs,
    batch,
    tokens,
    gate_stride,
    shift_stride,
    D: tl.constexpr,
    PADDED: tl.constexpr,
    R: tl.constexpr,
    ADDS: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    rows, columns = tl.program_id(1) * R + tl.arange(0, R), tl.arange(0, PADDED)
    wide = columns < D
    inside = (rows < tokens)[:, None] & wide[None, :]
    begin = image * tokens * D
    place = rows[:, None] * D + columns[None, :]
    stored = tl.load(x_in + begin + place, mask=inside, other=0.0)
    x = stored.to(tl.float32)
    if ADDS:
        b = load(bias + (image // batch) * D + columns, wide)
        g = load(gate + image * gate_stride + columns, wide)
        y = load(y_in + begin + place, inside)
        rounded = (x + g[None, :] * (y + b[None, :])).to(stored.dtype)
        tl.store(x_out + begin + place, rounded, mask=inside)
        x = rounded.to(tl.float32)  # what the backward pass will see
    mean = tl.sum(x, 1) / D
    centred = tl.where(wide[None, :], x - mean[:, None], 0.0)
    over = 1 / tl.sqrt(tl.sum(centred * centred, 1) / D + EPSILON)
    tl.store(means + image * tokens + rows, mean, mask=rows < tokens)
    tl.store(overs + image * tokens + rows, over, mask=rows < tokens)
    normal = centred * over[:, None]
    a = load(scale + image * shift_stride + columns, wide)
    s = load(shift + image * shift_stride + columns, wide)
    tl.store(h_out + begin + place, (normal * (1 + a)[None, :] + s[None, :]).to(stored.dtype), mask=inside)


@triton.jit
def _norm_backward(
    x_out,
    means,
    overs,
    y_in,
    bias,
    gate,
    scale,
    grad_h,
    grad_x_out,
    grad_x,
    grad_y,
    sums,
    bias_sums,
    batch,
    tokens,
    each,
    gate_stride,
    shift_stride,
    D: tl.constexpr,
    PADDED: tl.constexpr,
    R: tl.constexpr,
    ADDS: tl.constexpr,
):
    image, share = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = tl.arange(0, PADDED)
    wide = columns < D
    a = 1 + load(scale + image * shift_stride + columns, wide)
    if ADDS:
        b = load(bias + (image // batch) * D + columns, wide)
        g = load(gate + image * gate_stride + columns, wide)
    # Sums over tokens are kept row by row of the tile and summed over its rows at the end, once: a sum over rows goes
    # through shared memory, which in every round would take longer than all the rest.
    sum_shift = tl.zeros((R, PADDED), tl.float32)
    sum_scale = tl.zeros((R, PADDED), tl.float32)
    sum_gate = tl.zeros((R, PADDED), tl.float32)
    sum_x = tl.zeros((R, PADDED), tl.float32)
    begin = image * tokens * D
    for first in range(share * each, tl.minimum(share * each + each, tokens), R):
        rows = first + tl.arange(0, R)
        inside = (rows < tokens)[:, None] & wide[None, :]
        place = rows[:, None] * D + columns[None, :]
        mean = load(means + image * tokens + rows, rows < tokens)
        over = load(overs + image * tokens + rows, rows < tokens)[:, None]
        x = load(x_out + begin + place, inside)
        normal = tl.where(wide[None, :], (x - mean[:, None]) * over, 0.0)
        dh = load(grad_h + begin + place, inside)
        dn = dh * a[None, :]
        dx = (dn - (tl.sum(dn, 1) / D)[:, None] - normal * (tl.sum(dn * normal, 1) / D)[:, None]) * over
        sum_shift += dh
        sum_scale += dh * normal
        if ADDS:
            dx += load(grad_x_out + begin + place, inside)
            dx = tl.where(inside, dx, 0.0)
            y = load(y_in + begin + place, inside) + b[None, :]
            tl.store(grad_y + begin + place, (dx * g[None, :]).to(grad_y.dtype.element_ty), mask=inside)
            sum_gate += dx * y
            sum_x += dx
        tl.store(grad_x + begin + place, dx.to(grad_x.dtype.element_ty), mask=inside)
    # (3, shares, images, D): of shift, scale and gate
    into = (share * tl.num_programs(0) + image) * D + columns
    part = tl.num_programs(1).to(tl.int64) * tl.num_programs(0) * D
    kind = sums.dtype.element_ty
    tl.store(sums + into, tl.sum(sum_shift, 0).to(kind), mask=wide)
    tl.store(sums + part + into, tl.sum(sum_scale, 0).to(kind), mask=wide)
    if ADDS:
        tl.store(sums + 2 * part + into, tl.sum(sum_gate, 0).to(kind), mask=wide)
        mine = (image * tl.num_programs(1) + share) * D + columns  # (images, shares, D)
        tl.store(bias_sums + mine, g * tl.sum(sum_x, 0), mask=wide)


def _row_stride(part: Tensor) -> int:
    """From one image to the next in a part (M, B, 1, D) of a contiguous tensor."""
    assert part.stride(-1) == 1 and part.stride(0) == part.shape[1] * part.stride(1)
    return part.stride(1)


def _forward(x: Tensor, *others: Tensor, strides: tuple[int, int], adds: bool) -> tuple[Tensor, Tensor]:
    """The mean of every token, and one over its spread, (M, B, T) float32."""
    members, batch, tokens, width = x.shape
    padded = triton.next_power_of_2(width)
    rows = min(16, max(1, TILE // padded))
    kept = x.new_empty(x.shape[:3], dtype=torch.float32), x.new_empty(x.shape[:3], dtype=torch.float32)
    _norm_forward[(members * batch, triton.cdiv(tokens, rows))](
        x, *others, *kept, batch, tokens, *strides, width, padded, rows, adds, num_warps=WARPS
    )
    return kept


def _backward(x: Tensor, *others: Tensor, strides: tuple[int, int], adds: bool) -> tuple[list[Tensor], Tensor]:
    """The gradients of shift, scale and, if it adds, gate, (M, B, 1, D); and of the bias, (M, 1, D)."""
    members, batch, tokens, width = x.shape
    padded = triton.next_power_of_2(width)
    rows = min(16, max(1, TILE_BACKWARD // padded))
    shares = triton.cdiv(tokens, SHARE)
    each = triton.cdiv(triton.cdiv(tokens, shares), rows) * rows
    shares = triton.cdiv(tokens, each)
    sums = x.new_empty(3, shares, members, batch, 1, width, dtype=x.dtype if shares == 1 else torch.float32)
    bias_sums = x.new_empty(members, batch * shares, width, dtype=torch.float32)
    _norm_backward[(members * batch, shares)](
        x, *others, sums, bias_sums, batch, tokens, each, *strides, width, padded, rows, adds, num_warps=WARPS_BACKWARD
    )
    parts = sums[: 3 if adds else 2]
    parts = parts[:, 0] if shares == 1 else parts.sum(1).to(x.dtype)
    return list(parts), bias_sums.sum(1, keepdim=True) if adds else bias_sums


class _ResidualNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor, bias: Tensor, gate: Tensor, shift: Tensor, scale: Tensor
    ) -> tuple[Tensor, Tensor]:
        bias = bias.contiguous()
        x_out, h = torch.empty_like(x), torch.empty_like(x)
        strides = _row_stride(gate), _row_stride(shift)
        kept = _forward(x, y, bias, gate, shift, scale, x_out, h, strides=strides, adds=True)
        ctx.save_for_backward(x_out, *kept, y, bias, gate, scale)
        return x_out, h

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        x, means, overs, y, bias, gate, scale = ctx.saved_tensors
        grad_x, grad_y = torch.empty_like(x), torch.empty_like(x)
        given = grads[1].contiguous(), grads[0].contiguous()
        strides = _row_stride(gate), _row_stride(scale)
        (grad_shift, grad_scale, grad_gate), grad_bias = _backward(
            x, means, overs, y, bias, gate, scale, *given, grad_x, grad_y, strides=strides, adds=True
        )
        return grad_x, grad_y, grad_bias, grad_gate, grad_shift, grad_scale


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        x = x.contiguous()
        h = torch.empty_like(x)
        kept = _forward(x, x, x, x, shift, scale, x, h, strides=(0, _row_stride(shift)), adds=False)
        ctx.save_for_backward(x, *kept, scale)
        return h

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, means, overs, scale = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        (grad_shift, grad_scale), _ = _backward(
            x, means, overs, x, x, x, scale, grads[0].contiguous(), x, grad_x, x,
            strides=(0, _row_stride(scale)), adds=False,
        )  # fmt: skip
        return grad_x, grad_shift, grad_scale


def residual_norm(
    x: Tensor, y: Tensor, bias: Tensor, gate: Tensor, shift: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor]:
    """x' and h of the formula above, (M, B, T, D) both; bias is (M, 1, D)."""
    summed, h = _ResidualNorm.apply(x, y, bias, gate, shift, scale)
    return summed, h


def norm(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """LN(x) (1 + scale) + shift."""
    h: Tensor = _Norm.apply(x, shift, scale)
    return h
