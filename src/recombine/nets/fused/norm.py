"""The end of one part of a block and the beginning of the next: add what the part gives, gated, then normalise and
modulate.

    x' = x + gate (y + bias),  h = LN(x') (1 + scale) + shift

Forward, a program does a few tokens. Backward, a program does a whole image, some tokens at a time, since the gradients
of gate, shift and scale are sums over its tokens.

Shapes: M members, B batch, T tokens, D width; gate, shift and scale are (M, B, 1, D), parts of a wider tensor.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

EPSILON = tl.constexpr(1e-6)
ROWS = 8  # tokens at a time


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
    grad_gate,
    grad_shift,
    grad_scale,
    batch,
    tokens,
    gate_stride,
    shift_stride,
    D: tl.constexpr,
    PADDED: tl.constexpr,
    R: tl.constexpr,
    ADDS: tl.constexpr,
    PASSES: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, PADDED)
    wide = columns < D
    a = 1 + tl.load(scale + image * shift_stride + columns, mask=wide, other=0.0).to(tl.float32)
    sum_shift = tl.zeros((PADDED,), tl.float32)
    sum_scale = tl.zeros((PADDED,), tl.float32)
    sum_gate = tl.zeros((PADDED,), tl.float32)
    if ADDS:
        b = tl.load(bias + (image // batch) * D + columns, mask=wide, other=0.0).to(tl.float32)
        g = tl.load(gate + image * gate_stride + columns, mask=wide, other=0.0).to(tl.float32)
    for first in range(0, tokens, R):
        rows = first + tl.arange(0, R)
        inside = (rows < tokens)[:, None] & wide[None, :]
        place = image * tokens * D + rows[:, None] * D + columns[None, :]
        normal, over = _normalised(tl.load(x_out + place, mask=inside, other=0.0).to(tl.float32), columns, D)
        stored = tl.load(grad_h + place, mask=inside, other=0.0)
        dh = stored.to(tl.float32)
        sum_shift += tl.sum(dh, 0)
        sum_scale += tl.sum(dh * normal, 0)
        dn = dh * a[None, :]
        dx = (dn - (tl.sum(dn, 1) / D)[:, None] - normal * (tl.sum(dn * normal, 1) / D)[:, None]) * over
        if PASSES:
            dx += tl.load(grad_x_out + place, mask=inside, other=0.0).to(tl.float32)
        tl.store(grad_x + place, dx.to(stored.dtype), mask=inside)
        if ADDS:
            y = tl.load(y_in + place, mask=inside, other=0.0).to(tl.float32) + b[None, :]
            sum_gate += tl.sum(tl.where(inside, dx * y, 0.0), 0)
            tl.store(grad_y + place, (dx * g[None, :]).to(stored.dtype), mask=inside)
    into = image * D + columns
    tl.store(grad_shift + into, sum_shift.to(grad_shift.dtype.element_ty), mask=wide)
    tl.store(grad_scale + into, sum_scale.to(grad_scale.dtype.element_ty), mask=wide)
    if ADDS:
        tl.store(grad_gate + into, sum_gate.to(grad_gate.dtype.element_ty), mask=wide)


def _row_stride(part: Tensor) -> int:
    """From one image to the next in a part (M, B, 1, D) of a contiguous tensor."""
    assert part.stride(-1) == 1 and part.stride(0) == part.shape[1] * part.stride(1)
    return part.stride(1)


def _sizes(x: Tensor) -> tuple[int, int, int, int, int]:
    members, batch, tokens, width = x.shape
    return members, batch, tokens, width, triton.next_power_of_2(width)


class _ResidualNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor, bias: Tensor, gate: Tensor, shift: Tensor, scale: Tensor
    ) -> tuple[Tensor, Tensor]:
        members, batch, tokens, width, padded = _sizes(x)
        bias = bias.contiguous()
        x_out, h = torch.empty_like(x), torch.empty_like(x)
        strides = _row_stride(gate), _row_stride(shift)
        _norm_forward[(members * batch, triton.cdiv(tokens, ROWS))](
            x, y, bias, gate, shift, scale, x_out, h, batch, tokens, *strides, width, padded, ROWS, True, num_warps=4
        )
        ctx.save_for_backward(x_out, y, bias, gate, scale)
        return x_out, h

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        x_out, y, bias, gate, scale = ctx.saved_tensors
        members, batch, tokens, width, padded = _sizes(x_out)
        grad_x, grad_y = torch.empty_like(x_out), torch.empty_like(x_out)
        grad_gate, grad_shift, grad_scale = (x_out.new_empty(members, batch, 1, width) for _ in range(3))
        strides = _row_stride(gate), _row_stride(scale)
        _norm_backward[(members * batch,)](
            x_out, y, bias, gate, scale, grads[1].contiguous(), grads[0].contiguous(), grad_x, grad_y, grad_gate,
            grad_shift, grad_scale, batch, tokens, *strides, width, padded, ROWS, True, True, num_warps=4,
        )  # fmt: skip
        grad_bias = grad_y.flatten(1, 2).sum(1, keepdim=True, dtype=bias.dtype)
        return grad_x, grad_y, grad_bias, grad_gate, grad_shift, grad_scale


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        members, batch, tokens, width, padded = _sizes(x)
        x = x.contiguous()
        h = torch.empty_like(x)
        strides = 0, _row_stride(shift)
        _norm_forward[(members * batch, triton.cdiv(tokens, ROWS))](
            x, x, x, x, shift, scale, x, h, batch, tokens, *strides, width, padded, ROWS, False, num_warps=4
        )
        ctx.save_for_backward(x, scale)
        return h

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, scale = ctx.saved_tensors
        members, batch, tokens, width, padded = _sizes(x)
        grad_x = torch.empty_like(x)
        grad_shift, grad_scale = (x.new_empty(members, batch, 1, width) for _ in range(2))
        strides = 0, _row_stride(scale)
        _norm_backward[(members * batch,)](
            x, x, x, x, scale, grads[0].contiguous(), x, grad_x, x, x, grad_shift, grad_scale, batch, tokens, *strides,
            width, padded, ROWS, False, False, num_warps=4,
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
