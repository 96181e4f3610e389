"""Self-attention of few tokens: one image and head at a time, everything in one tile.

Flash attention is made for long sequences: it walks over tiles of keys, and its backward pass makes three kernels and a
buffer in float32. Up to 64 tokens all scores of a head fit into one tile, so the forward pass is one kernel and the
backward pass another, which computes the scores again. Both read queries, keys and values where the matrix product left
them, and add the bias on the way.

Shapes: M members, B batch, T tokens, H heads, E features of a head, D = H E.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST_TOKENS = 64


@triton.jit
def _load(qkv, bias, part, image, head, member, tokens, rows, columns, H: tl.constexpr, E: tl.constexpr):
    """Part 0, 1 or 2 (queries, keys, values) of one head, (BT, E), with its bias; 0 past the last token."""
    width = H * E
    place = image * tokens * 3 * width + rows[:, None] * 3 * width + part * width + head * E + columns[None, :]
    shift = tl.load(bias + member * 3 * width + part * width + head * E + columns)
    inside = (rows < tokens)[:, None]
    x = tl.load(qkv + place, mask=inside, other=0.0)
    return tl.where(inside, x + shift[None, :].to(x.dtype), 0.0).to(x.dtype), place, inside


@triton.jit
def _probabilities(q, k, rows, tokens, scale, PRECISION: tl.constexpr):
    """Softmax of the scores, (BT, BT) float32; columns past the last token are 0."""
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    scores = tl.where((rows < tokens)[None, :], scores, float("-inf"))
    scores = tl.exp(scores - tl.max(scores, 1)[:, None])
    return scores / tl.sum(scores, 1)[:, None]


@triton.jit
def _attention_forward(
    qkv, bias, out, batch, tokens, scale, H: tl.constexpr, E: tl.constexpr, BT: tl.constexpr, PRECISION: tl.constexpr
):
    program = tl.program_id(0).to(tl.int64)
    image, head = program // H, program % H
    member = image // batch
    rows, columns = tl.arange(0, BT), tl.arange(0, E)
    q, _, inside = _load(qkv, bias, 0, image, head, member, tokens, rows, columns, H, E)
    k, _, _ = _load(qkv, bias, 1, image, head, member, tokens, rows, columns, H, E)
    v, _, _ = _load(qkv, bias, 2, image, head, member, tokens, rows, columns, H, E)
    p = _probabilities(q, k, rows, tokens, scale, PRECISION)
    mixed = tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
    place = image * tokens * H * E + rows[:, None] * H * E + head * E + columns[None, :]
    tl.store(out + place, mixed.to(v.dtype), mask=inside)


@triton.jit
def _attention_backward(
    qkv,
    bias,
    grad,
    grad_qkv,
    grad_sums,
    batch,
    tokens,
    scale,
    H: tl.constexpr,
    E: tl.constexpr,
    BT: tl.constexpr,
    PRECISION: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)
    image, head = program // H, program % H
    member = image // batch
    rows, columns = tl.arange(0, BT), tl.arange(0, E)
    q, at_q, inside = _load(qkv, bias, 0, image, head, member, tokens, rows, columns, H, E)
    k, at_k, _ = _load(qkv, bias, 1, image, head, member, tokens, rows, columns, H, E)
    v, at_v, _ = _load(qkv, bias, 2, image, head, member, tokens, rows, columns, H, E)
    place = image * tokens * H * E + rows[:, None] * H * E + head * E + columns[None, :]
    g = tl.load(grad + place, mask=inside, other=0.0)
    p = _probabilities(q, k, rows, tokens, scale, PRECISION)
    p = tl.where((rows < tokens)[:, None], p, 0.0)
    grad_v = tl.dot(tl.trans(p.to(g.dtype)), g, input_precision=PRECISION)
    tl.store(grad_qkv + at_v, grad_v.to(g.dtype), mask=inside)
    sums = grad_sums + image * 3 * H * E + head * E + columns  # over the image's tokens: what its bias is due
    tl.store(sums + 2 * H * E, tl.sum(grad_v, 0))
    grad_p = tl.dot(g, tl.trans(v), input_precision=PRECISION)
    # d softmax: p (dp - sum p dp), row by row
    grad_s = (p * (grad_p - tl.sum(p * grad_p, 1)[:, None]) * scale).to(g.dtype)
    grad_q = tl.dot(grad_s, k, input_precision=PRECISION)
    tl.store(grad_qkv + at_q, grad_q.to(g.dtype), mask=inside)
    tl.store(sums, tl.sum(grad_q, 0))
    grad_k = tl.dot(tl.trans(grad_s), q, input_precision=PRECISION)
    tl.store(grad_qkv + at_k, grad_k.to(g.dtype), mask=inside)
    tl.store(sums + H * E, tl.sum(grad_k, 0))


def _launch(kernel: Any, qkv: Tensor, bias: Tensor, others: tuple[Tensor, ...], heads: int) -> None:
    members, batch, tokens, width = qkv.shape
    features = width // 3 // heads
    precision = "ieee" if qkv.dtype == torch.float32 else "tf32"  # bfloat16 knows no difference
    tile = max(16, triton.next_power_of_2(tokens))
    kernel[(members * batch * heads,)](
        qkv, bias, *others, batch, tokens, features**-0.5, heads, features, tile, precision, num_warps=4
    )


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, bias: Tensor, heads: int) -> Tensor:
        bias = bias.contiguous()
        out = qkv.new_empty(*qkv.shape[:-1], qkv.shape[-1] // 3)
        _launch(_attention_forward, qkv, bias, (out,), heads)
        ctx.save_for_backward(qkv, bias)
        ctx.heads = heads
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        qkv, bias = ctx.saved_tensors
        grad_qkv = torch.empty_like(qkv)
        sums = qkv.new_empty(*qkv.shape[:2], qkv.shape[-1], dtype=torch.float32)  # (M, B, 3 D)
        _launch(_attention_backward, qkv, bias, (grads[0].contiguous(), grad_qkv, sums), ctx.heads)
        return grad_qkv, sums.sum(1, keepdim=True), None


def takes(features: int) -> bool:
    """Whether a head of so many features fits the kernels."""
    return features in (16, 32, 64, 128)


def attention(qkv: Tensor, bias: Tensor, heads: int) -> Tensor:
    """Attention (M, B, T, D) of qkv (M, B, T, 3 D), contiguous and still without its bias (M, 1, 3 D)."""
    mixed: Tensor = _Attention.apply(qkv, bias, heads)
    return mixed
