"""GELU (tanh form) or SiLU of x + bias, in one pass. Both are x s(u x), with s the sigmoid: SiLU has u = 1, GELU has
u = 2 sqrt(2 / pi) (1 + 0.044715 x^2).

Shapes: M members, R rows of a member, D width.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS, WARPS = 2, 512, 2  # of a tile
ROUNDS = 16  # tiles below each other that one program does, backward

GELU = 1.5957691216057308, 0.07135481627260025  # of u: what is constant, and the factor of x^2
SILU = 1.0, 0.0


@triton.jit
def _sigmoid(x, FLAT: tl.constexpr, SQUARE: tl.constexpr):
    return 1 / (1 + tl.exp(-x * (FLAT + SQUARE * x * x)))


@triton.jit
def _act_forward(
    x_in,
    bias,
    out,
    rows_each,
    FLAT: tl.constexpr,
    SQUARE: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    member = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (rows < rows_each)[:, None] & (columns < D)[None, :]
    begin = member * rows_each * D
    place = rows[:, None] * D + columns[None, :]
    shift = tl.load(bias + member * D + columns, mask=columns < D, other=0.0).to(tl.float32)
    x = tl.load(x_in + begin + place, mask=inside, other=0.0).to(tl.float32) + shift[None, :]
    tl.store(out + begin + place, (x * _sigmoid(x, FLAT, SQUARE)).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _act_backward(
    x_in,
    bias,
    grad,
    grad_x,
    sums,
    rows_each,
    FLAT: tl.constexpr,
    SQUARE: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROUNDS: tl.constexpr,
):
    member = tl.program_id(2).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    begin = member * rows_each * D
    shift = tl.load(bias + member * D + columns, mask=columns < D, other=0.0).to(tl.float32)
    # What the bias is due is kept row by row of the tile and summed at the end, once; the caller sums the programs'.
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for turn in range(ROUNDS):
        rows = (tl.program_id(0) * ROUNDS + turn) * ROWS + tl.arange(0, ROWS)
        inside = (rows < rows_each)[:, None] & (columns < D)[None, :]
        place = rows[:, None] * D + columns[None, :]
        x = tl.load(x_in + begin + place, mask=inside, other=0.0).to(tl.float32) + shift[None, :]
        g = tl.load(grad + begin + place, mask=inside, other=0.0).to(tl.float32)
        s = _sigmoid(x, FLAT, SQUARE)
        g *= s * (1 + x * (1 - s) * (FLAT + 3 * SQUARE * x * x))
        tl.store(grad_x + begin + place, g.to(grad_x.dtype.element_ty), mask=inside)
        total += g
    into = (member * tl.num_programs(0) + tl.program_id(0)) * D + columns
    tl.store(sums + into, tl.sum(total, 0), mask=columns < D)


def _counts(x: Tensor) -> tuple[int, int, int]:
    """Members, rows of one, width."""
    members, width = x.shape[0], x.shape[-1]
    return members, x.numel() // members // width, width


class _BiasAct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, act: tuple[float, float]) -> Tensor:
        bias = bias.contiguous()
        out = torch.empty_like(x)
        members, rows, width = _counts(x)
        grid = triton.cdiv(rows, ROWS), triton.cdiv(width, COLUMNS), members
        _act_forward[grid](x, bias, out, rows, *act, width, ROWS, COLUMNS, num_warps=WARPS)
        ctx.save_for_backward(x, bias)
        ctx.act = act
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        x, bias = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        members, rows, width = _counts(x)
        grid = triton.cdiv(rows, ROWS * ROUNDS), triton.cdiv(width, COLUMNS), members
        sums = x.new_empty(members, grid[0], width, dtype=torch.float32)
        _act_backward[grid](
            x, bias, grads[0].contiguous(), grad_x, sums, rows, *ctx.act, width, ROWS, COLUMNS, ROUNDS, num_warps=WARPS
        )
        return grad_x, sums.sum(1, keepdim=True), None


def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """gelu(x + bias) of contiguous x (M, ..., D) and bias (M, 1, D)."""
    out: Tensor = _BiasAct.apply(x, bias, GELU)
    return out


def bias_silu(x: Tensor, bias: Tensor) -> Tensor:
    """The same with SiLU."""
    out: Tensor = _BiasAct.apply(x, bias, SILU)
    return out
