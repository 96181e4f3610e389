"""A matrix product with weights that are kept in bfloat16 beside float32.

Left to autograd, every step casts every weight, casts its gradient back and adds it to the stored one: three passes
over all weights. Here the update writes the low copy along with the weights, and the product that makes the gradient
adds it to the stored one itself, in float32.

Shapes: M members, R rows of a member.
"""

from typing import Any

import torch
from torch import Tensor


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, low: Tensor, total: Tensor) -> Tensor:
        ctx.save_for_backward(x, low)
        ctx.total = total
        return torch.bmm(x, low)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None, None]:
        x, low = ctx.saved_tensors
        grad = grads[0]
        torch.ops.aten.baddbmm.dtype_out(ctx.total, x.transpose(1, 2), grad, torch.float32, out=ctx.total)
        return torch.bmm(grad, low.transpose(1, 2)) if ctx.needs_input_grad[0] else None, None, None, None


def product(x: Tensor, weight: Tensor, low: Tensor, outputs: slice) -> Tensor:
    """(M, R, O) of x (M, R, in) and some columns, O of them, of weights (M, in, out), whose copy in x's dtype is `low`.
    The weights' gradient is added to `weight.grad`, which must exist, when the backward pass comes by; autograd is told
    of none."""
    assert weight.grad is not None
    out: Tensor = _Product.apply(x, weight, low[..., outputs], weight.grad[..., outputs])
    return out
