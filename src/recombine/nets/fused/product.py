"""A matrix product with weights that are kept in bfloat16 beside float32.

Left to autograd, every step casts every weight, casts its gradient back and adds it to the stored one: three passes
over all weights. Here the update writes the low copy along with the weights, and the product that makes the gradient
writes it where it is stored, in float32; so nothing needs to be set to 0 either.

Shapes: M members, R rows of a member.
"""

from typing import Any

import torch
from torch import Tensor


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, low: Tensor, outputs: slice) -> Tensor:
        ctx.save_for_backward(x, low)
        ctx.weight, ctx.outputs = weight, outputs
        return torch.bmm(x, low)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None, None]:
        x, low = ctx.saved_tensors
        grad = grads[0]
        total, columns = ctx.weight.grad[..., ctx.outputs], (ctx.outputs.start, ctx.outputs.stop)
        if columns in ctx.weight.written:
            torch.ops.aten.baddbmm.dtype_out(total, x.transpose(1, 2), grad, torch.float32, out=total)
        else:
            torch.ops.aten.bmm.dtype_out(x.transpose(1, 2), grad, torch.float32, out=total)
            ctx.weight.written.add(columns)
        return torch.bmm(grad, low.transpose(1, 2)) if ctx.needs_input_grad[0] else None, None, None, None


def product(x: Tensor, weight: Tensor, low: Tensor, outputs: slice) -> Tensor:
    """(M, R, O) of x (M, R, in) and some columns, O of them, of weights (M, in, out), whose copy in x's dtype is `low`.

    When the backward pass comes by, the weights' gradient is put into `weight.grad`, or added to it if the columns are
    among `weight.written`, which whoever takes the step empties (`training/flat.py`); autograd is told of none. Within
    a step the column ranges of a weight are equal or do not overlap.
    """
    out: Tensor = _Product.apply(x, weight, low[..., outputs], outputs)
    return out
