"""The end of one part of a block and the beginning of the next: add what the part gives, gated, then normalise and
modulate.

    x' = x + gate (y + bias),  h = LN(x') (1 + scale) + shift

A program does a few tokens of one image. The gradients of gate, shift and scale are sums over all its tokens: each
program writes its own share of them, and the shares are summed afterwards, always in the same order.

Shapes: M members, B batch, T tokens, D width; gate, shift and scale are (M, B, 1, D), parts of a wider tensor.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

EPSILON = tl.constexpr(1e-6)
TILE = 4096  # numbers at a time: more would not fit into the registers of a program


@triton.jit
def _normalised(x, columns, D: tl.constexpr):
    """Rows (R, D padded) without their mean, over their spread; and one over the spread, (R, 1)."""
    inside = (columns < D)[None, :]
    centred = tl.where(inside, x - (tl.sum(x, 1) / D)[:, None], 0.0)
    over = 1 / tl.sqrt(tl.sum(centred * centred, 1) / D + EPSILON)
    return centred * over[:, None], over[:, None]


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
    place = image * tokens * D + rows[:, None] * D + columns[None, :]
    stored = tl.load(x_in + place, mask=inside, other=0.0)
    x = stored.to(tl.float32)
    if ADDS:
        b = tl.load(bias + (image // batch) * D + columns, mask=wide, other=0.0).to(tl.float32)
        g = tl.load(gate + image * gate_stride + columns, mask=wide, other=0.0).to(tl.float32)
        y = tl.load(y_in + place, mask=inside, other=0.0).to(tl.float32)
        rounded = (x + g[None, :] * (y + b[None, :])).to(stored.dtype)
        tl.store(x_out + place, rounded, mask=inside)
        x = rounded.to(tl.float32)  # what the backward pass will see
    normal, _ = _normalised(x, columns, D)
    a = tl.load(scale + image * shift_stride + columns, mask=wide, other=0.0).to(tl.float32)
    s = tl.load(shift + image * shift_stride + columns, mask=wide, other=0.0).to(tl.float32)
    tl.store(h_out + place, (normal * (1 + a)[None, :] + s[None, :]).to(stored.dtype), mask=inside)


@triton.jit
def _norm_backward(
    x_out,
    y_in,
    bias,
    gate,
    scale,
    grad_h,
    grad_x_out,
    grad_x,
    grad_y,
    sums,
    batch,
    tokens,
    gate_stride,
    shift_stride,
    D: tl.constexpr,
    PADDED: tl.constexpr,
    R: tl.constexpr,
    ADDS: tl.constexpr,
):
    image, share = tl.program_id(0).to(tl.int64), tl.program_id(1)
    rows, columns = share * R + tl.arange(0, R), tl.arange(0, PADDED)
    wide = columns < D
    inside = (rows < tokens)[:, None] & wide[None, :]
    place = image * tokens * D + rows[:, None] * D + columns[None, :]
    normal, over = _normalised(tl.load(x_out + place, mask=inside, other=0.0).to(tl.float32), columns, D)
    a = 1 + tl.load(scale + image * shift_stride + columns, mask=wide, other=0.0).to(tl.float32)
    dh = tl.load(grad_h + place, mask=inside, other=0.0).to(tl.float32)
    dn = dh * a[None, :]
    dx = (dn - (tl.sum(dn, 1) / D)[:, None] - normal * (tl.sum(dn * normal, 1) / D)[:, None]) * over
    # (4, shares, images, D): of shift, scale, gate, and of x itself, from which the bias's follows
    into = (share * tl.num_programs(0) + image) * D + columns
    part = tl.num_programs(1).to(tl.int64) * tl.num_programs(0) * D
    tl.store(sums + into, tl.sum(dh, 0), mask=wide)
    tl.store(sums + part + into, tl.sum(dh * normal, 0), mask=wide)
    if ADDS:
        dx += tl.load(grad_x_out + place, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(bias + (image // batch) * D + columns, mask=wide, other=0.0).to(tl.float32)
        g = tl.load(gate + image * gate_stride + columns, mask=wide, other=0.0).to(tl.float32)
        y = tl.load(y_in + place, mask=inside, other=0.0).to(tl.float32) + b[None, :]
        dx = tl.where(inside, dx, 0.0)
        tl.store(grad_y + place, (dx * g[None, :]).to(grad_y.dtype.element_ty), mask=inside)
        tl.store(sums + 2 * part + into, tl.sum(dx * y, 0), mask=wide)
        tl.store(sums + 3 * part + into, tl.sum(dx, 0), mask=wide)
    tl.store(grad_x + place, dx.to(grad_x.dtype.element_ty), mask=inside)


def _row_stride(part: Tensor) -> int:
    """From one image to the next in a part (M, B, 1, D) of a contiguous tensor."""
    assert part.stride(-1) == 1 and part.stride(0) == part.shape[1] * part.stride(1)
    return part.stride(1)


def _sizes(x: Tensor) -> tuple[tuple[int, int], tuple[int, int, int]]:
    """The grid of programs, and the widths that kernels are made for."""
    members, batch, tokens, width = x.shape
    padded = triton.next_power_of_2(width)
    rows = min(16, max(1, TILE // padded))
    return (members * batch, triton.cdiv(tokens, rows)), (width, padded, rows)


class _ResidualNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor, bias: Tensor, gate: Tensor, shift: Tensor, scale: Tensor
    ) -> tuple[Tensor, Tensor]:
        grid, widths = _sizes(x)
        bias = bias.contiguous()
        x_out, h = torch.empty_like(x), torch.empty_like(x)
        strides = _row_stride(gate), _row_stride(shift)
        _norm_forward[grid](
            x, y, bias, gate, shift, scale, x_out, h, x.shape[1], x.shape[2], *strides, *widths, True, num_warps=8
        )
        ctx.save_for_backward(x_out, y, bias, gate, scale)
        return x_out, h

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        x_out, y, bias, gate, scale = ctx.saved_tensors
        grid, widths = _sizes(x_out)
        members, batch, tokens, width = x_out.shape
        grad_x, grad_y = torch.empty_like(x_out), torch.empty_like(x_out)
        sums = x_out.new_empty(4, grid[1], members, batch, 1, width, dtype=torch.float32)
        strides = _row_stride(gate), _row_stride(scale)
        _norm_backward[grid](
            x_out, y, bias, gate, scale, grads[1].contiguous(), grads[0].contiguous(), grad_x, grad_y, sums,
            batch, tokens, *strides, *widths, True, num_warps=8,
        )  # fmt: skip
        sums = sums.sum(1)  # (4, M, B, 1, D)
        grad_shift, grad_scale, grad_gate = sums[:3].to(x_out.dtype)
        grad_bias = (gate * sums[3]).sum(1)  # (M, 1, D)
        return grad_x, grad_y, grad_bias, grad_gate, grad_shift, grad_scale


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        grid, widths = _sizes(x)
        x = x.contiguous()
        h = torch.empty_like(x)
        _norm_forward[grid](
            x, x, x, x, shift, scale, x, h, *x.shape[1:3], 0, _row_stride(shift), *widths, False, num_warps=8
        )
        ctx.save_for_backward(x, scale)
        return h

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, scale = ctx.saved_tensors
        grid, widths = _sizes(x)
        members, batch, tokens, width = x.shape
        grad_x = torch.empty_like(x)
        sums = x.new_empty(2, grid[1], members, batch, 1, width, dtype=torch.float32)
        _norm_backward[grid](
            x, x, x, x, scale, grads[0].contiguous(), x, grad_x, x, sums, batch, tokens, 0, _row_stride(scale),
            *widths, False, num_warps=8,
        )  # fmt: skip
        grad_shift, grad_scale = sums.sum(1).to(x.dtype)
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
