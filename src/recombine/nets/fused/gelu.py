"""GELU (tanh form) of x + bias, in one pass. Shapes: M members, R rows of a member, D width."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048


@triton.jit
def _inner(x):
    """tanh of the inner polynomial, by the exponential function."""
    u = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return 1 - 2 / (tl.exp(2 * u) + 1)


@triton.jit
def _gelu_forward(x_in, bias, out, each, D: tl.constexpr, BLOCK: tl.constexpr):
    member = tl.program_id(1).to(tl.int64)
    within = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = within < each
    stored = tl.load(x_in + member * each + within, mask=inside, other=0.0)
    x = stored.to(tl.float32) + tl.load(bias + member * D + within % D).to(tl.float32)
    tl.store(out + member * each + within, (0.5 * x * (1 + _inner(x))).to(stored.dtype), mask=inside)


@triton.jit
def _gelu_backward(x_in, bias, grad, grad_x, each, D: tl.constexpr, BLOCK: tl.constexpr):
    member = tl.program_id(1).to(tl.int64)
    within = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = within < each
    stored = tl.load(x_in + member * each + within, mask=inside, other=0.0)
    x = stored.to(tl.float32) + tl.load(bias + member * D + within % D).to(tl.float32)
    g = tl.load(grad + member * each + within, mask=inside, other=0.0).to(tl.float32)
    t = _inner(x)
    slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 0.134145 * x * x)
    tl.store(grad_x + member * each + within, (g * slope).to(stored.dtype), mask=inside)


def _launch(kernel: Any, x: Tensor, *others: Tensor) -> None:
    members, width = x.shape[0], x.shape[-1]
    each = x.numel() // members
    kernel[(triton.cdiv(each, BLOCK), members)](x, *others, each, width, BLOCK, num_warps=8)


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
        _launch(_gelu_backward, x, bias, grads[0].contiguous(), grad_x)
        return grad_x, grad_x.flatten(1, -2).sum(1, keepdim=True, dtype=bias.dtype)


def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """gelu(x + bias) of contiguous x (M, ..., D) and bias (M, 1, D)."""
    out: Tensor = _BiasGelu.apply(x, bias)
    return out
