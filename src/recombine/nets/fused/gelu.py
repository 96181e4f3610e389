"""GELU (tanh form) of x + bias, in one pass. Shapes: M members, R rows of a member, D width."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS = 32, 256  # of a tile; the widths of all sizes are multiples of 64, so their quadruples of 256


@triton.jit
def _inner(x):
    """tanh of the inner polynomial, by the exponential function."""
    u = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return 1 - 2 / (tl.exp(2 * u) + 1)


@triton.jit
def _tile(x_in, bias, rows_each, D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """x + bias of one tile in float32, where it lies, and which of its rows there are."""
    member = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (rows < rows_each)[:, None] & (columns < D)[None, :]
    place = member * rows_each * D + rows[:, None] * D + columns[None, :]
    shift = tl.load(bias + member * D + columns, mask=columns < D, other=0.0).to(tl.float32)
    x = tl.load(x_in + place, mask=inside, other=0.0).to(tl.float32) + shift[None, :]
    return x, place, inside, member, columns


@triton.jit
def _gelu_forward(x_in, bias, out, rows_each, D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    x, place, inside, _, _ = _tile(x_in, bias, rows_each, D, ROWS, COLUMNS)
    tl.store(out + place, (0.5 * x * (1 + _inner(x))).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _gelu_backward(
    x_in, bias, grad, grad_x, sums, rows_each, D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    x, place, inside, member, columns = _tile(x_in, bias, rows_each, D, ROWS, COLUMNS)
    g = tl.load(grad + place, mask=inside, other=0.0).to(tl.float32)
    t = _inner(x)
    g = g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 0.134145 * x * x))
    tl.store(grad_x + place, g.to(grad_x.dtype.element_ty), mask=inside)
    # What the bias is due, summed over the tile's rows; the tiles are summed by the caller.
    into = (member * tl.num_programs(0) + tl.program_id(0)) * D + columns
    tl.store(sums + into, tl.sum(g, 0), mask=columns < D)


def _launch(kernel: Any, x: Tensor, *others: Tensor) -> None:
    members, width = x.shape[0], x.shape[-1]
    rows = x.numel() // members // width
    grid = (triton.cdiv(rows, ROWS), triton.cdiv(width, COLUMNS), members)
    kernel[grid](x, *others, rows, width, ROWS, COLUMNS, num_warps=8)


class _BiasGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        bias = bias.contiguous()
        out = torch.empty_like(x)
        _launch(_gelu_forward, x, bias, out)
        ctx.save_for_backward(x, bias)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x, bias = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        tiles = triton.cdiv(x.numel() // bias.numel(), ROWS)
        sums = x.new_empty(len(x), tiles, x.shape[-1], dtype=torch.float32)
        _launch(_gelu_backward, x, bias, grads[0].contiguous(), grad_x, sums)
        return grad_x, sums.sum(1, keepdim=True)


def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """gelu(x + bias) of contiguous x (M, ..., D) and bias (M, 1, D)."""
    out: Tensor = _BiasGelu.apply(x, bias)
    return out
