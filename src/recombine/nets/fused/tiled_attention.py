"""Self-attention of more tokens than fit into one tile (FlashAttention-2: Dao 2023), on queries, keys and values as the
matrix product leaves them.

torch's own is as fast in itself, but wants the three apart: joining their gradients again, adding the bias and summing
its gradient took longer than attention. Here the bias costs nothing, since it need not be added to every tile:

- of the keys it adds the same to all scores of a query, which softmax does not feel: left out, its gradient 0;
- of the values it adds itself to the output, since probabilities sum to 1; the gradient of the scores does not feel it;
- of the queries it adds b k to the scores of a key k: one number per key.

Shapes: M members, B batch, T tokens, H heads, E features of a head, D = H E; tiles of Q queries by K keys.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# Queries and keys of a tile, warps and stages of loading ahead: forward, for the queries' gradient and for the keys'.
FORWARD = 128, 64, 8, 3
TO_QUERIES = 64, 64, 4, 3
TO_KEYS = 64, 64, 4, 3
BITS = tl.constexpr(1.4426950408889634)  # 1 / ln 2: exponentials are powers of 2


@triton.jit
def _rows(at, rows, tokens, width: tl.constexpr, columns):
    """Some rows (R, E) of a matrix whose first number of this head `at` points to; 0 past the last token."""
    return tl.load(at + rows[:, None] * width + columns[None, :], mask=(rows < tokens)[:, None], other=0.0)


@triton.jit
def _attend(
    qkv,
    bias,
    out,
    logs,
    batch,
    tokens,
    scale,
    H: tl.constexpr,
    E: tl.constexpr,
    Q: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)
    image, head = program // H, program % H
    at = qkv + image * tokens * 3 * H * E + head * E
    rows, columns = tl.program_id(1) * Q + tl.arange(0, Q), tl.arange(0, E)
    bias += (image // batch) * 3 * H * E + head * E
    q = _rows(at, rows, tokens, 3 * H * E, columns)
    q = (q + tl.load(bias + columns)[None, :]).to(q.dtype)
    most = tl.full((Q,), float("-inf"), tl.float32)
    total = tl.zeros((Q,), tl.float32)
    mixed = tl.zeros((Q, E), tl.float32)
    for first in range(0, tokens, K):
        keys = first + tl.arange(0, K)
        k = _rows(at + H * E, keys, tokens, 3 * H * E, columns)
        v = _rows(at + 2 * H * E, keys, tokens, 3 * H * E, columns)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * BITS)
        scores = tl.where((keys < tokens)[None, :], scores, float("-inf"))
        higher = tl.maximum(most, tl.max(scores, 1))
        p = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(most - higher)
        total = total * shrink + tl.sum(p, 1)
        mixed = tl.dot(p.to(v.dtype), v, mixed * shrink[:, None], input_precision=PRECISION)
        most = higher
    mixed = mixed / total[:, None] + tl.load(bias + 2 * H * E + columns)[None, :]
    place = image * tokens * H * E + rows[:, None] * H * E + head * E + columns[None, :]
    tl.store(out + place, mixed.to(q.dtype), mask=(rows < tokens)[:, None])
    tl.store(logs + program * tokens + rows, most + tl.log2(total), mask=rows < tokens)


@triton.jit
def _to_queries(
    qkv,
    bias,
    out,
    logs,
    grad,
    inner,
    grad_qkv,
    sums,
    batch,
    tokens,
    scale,
    H: tl.constexpr,
    E: tl.constexpr,
    Q: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The gradient of a tile of queries; of the biases, summed over the tile; and `inner`, the product of each token's
    output, without the values' bias, with its gradient."""
    program = tl.program_id(0).to(tl.int64)
    image, head = program // H, program % H
    at = qkv + image * tokens * 3 * H * E + head * E
    rows, columns = tl.program_id(1) * Q + tl.arange(0, Q), tl.arange(0, E)
    inside = rows < tokens
    bias += (image // batch) * 3 * H * E + head * E
    q = _rows(at, rows, tokens, 3 * H * E, columns)
    q = (q + tl.load(bias + columns)[None, :]).to(q.dtype)
    here = image * tokens * H * E + head * E
    g = _rows(grad + here, rows, tokens, H * E, columns)
    o = _rows(out + here, rows, tokens, H * E, columns).to(tl.float32) - tl.load(bias + 2 * H * E + columns)[None, :]
    along = tl.sum(g.to(tl.float32) * o, 1)
    tl.store(inner + program * tokens + rows, along, mask=inside)
    log = tl.load(logs + program * tokens + rows, mask=inside, other=float("inf"))
    grad_q = tl.zeros((Q, E), tl.float32)
    for first in range(0, tokens, K):
        keys = first + tl.arange(0, K)
        k = _rows(at + H * E, keys, tokens, 3 * H * E, columns)
        v = _rows(at + 2 * H * E, keys, tokens, 3 * H * E, columns)
        p = tl.exp2(tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * BITS) - log[:, None])
        p = tl.where((keys < tokens)[None, :], p, 0.0)
        grad_p = tl.dot(g, tl.trans(v), input_precision=PRECISION)
        grad_s = (p * (grad_p - along[:, None])).to(k.dtype)  # d softmax: p (dp - sum p dp), row by row
        grad_q = tl.dot(grad_s, k, grad_q, input_precision=PRECISION)
    grad_q *= scale
    into = grad_qkv + image * tokens * 3 * H * E + rows[:, None] * 3 * H * E + head * E + columns[None, :]
    tl.store(into, grad_q.to(q.dtype), mask=inside[:, None])
    due = sums + (image * tl.num_programs(1) + tl.program_id(1)) * 3 * H * E + head * E + columns
    tl.store(due, tl.sum(grad_q, 0))
    tl.store(due + H * E, tl.zeros((E,), tl.float32))
    tl.store(due + 2 * H * E, tl.sum(g.to(tl.float32), 0))


@triton.jit
def _to_keys(
    qkv,
    bias,
    logs,
    grad,
    inner,
    grad_qkv,
    batch,
    tokens,
    scale,
    H: tl.constexpr,
    E: tl.constexpr,
    Q: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The gradients of a tile of keys and values; tiles lie as (K, Q), so that no probability is turned over. Queries
    past the last have an infinite `log`, so probability 0."""
    program = tl.program_id(0).to(tl.int64)
    image, head = program // H, program % H
    at = qkv + image * tokens * 3 * H * E + head * E
    keys, columns = tl.program_id(1) * K + tl.arange(0, K), tl.arange(0, E)
    shift = tl.load(bias + (image // batch) * 3 * H * E + head * E + columns).to(tl.float32)
    k = _rows(at + H * E, keys, tokens, 3 * H * E, columns)
    v = _rows(at + 2 * H * E, keys, tokens, 3 * H * E, columns)
    from_bias = tl.sum(k.to(tl.float32) * shift[None, :], 1) * (scale * BITS)
    grad_k = tl.zeros((K, E), tl.float32)
    grad_v = tl.zeros((K, E), tl.float32)
    total = tl.zeros((K,), tl.float32)
    for first in range(0, tokens, Q):
        rows = first + tl.arange(0, Q)
        inside = rows < tokens
        q = _rows(at, rows, tokens, 3 * H * E, columns)
        g = _rows(grad + image * tokens * H * E + head * E, rows, tokens, H * E, columns)
        log = tl.load(logs + program * tokens + rows, mask=inside, other=float("inf"))
        along = tl.load(inner + program * tokens + rows, mask=inside, other=0.0)
        scores = tl.dot(k, tl.trans(q), input_precision=PRECISION) * (scale * BITS)
        p = tl.exp2(scores + (from_bias[:, None] - log[None, :]))
        grad_v = tl.dot(p.to(g.dtype), g, grad_v, input_precision=PRECISION)
        grad_p = tl.dot(v, tl.trans(g), input_precision=PRECISION)
        grad_s = p * (grad_p - along[None, :])
        total += tl.sum(grad_s, 1)
        grad_k = tl.dot(grad_s.to(q.dtype), q, grad_k, input_precision=PRECISION)
    grad_k = (grad_k + total[:, None] * shift[None, :]) * scale
    inside = (keys < tokens)[:, None]
    into = grad_qkv + image * tokens * 3 * H * E + keys[:, None] * 3 * H * E + head * E + columns[None, :]
    tl.store(into + H * E, grad_k.to(k.dtype), mask=inside)
    tl.store(into + 2 * H * E, grad_v.to(k.dtype), mask=inside)


def _launch(kernel: Any, qkv: Tensor, others: tuple[Tensor, ...], heads: int, tile: tuple[int, ...], side: int) -> None:
    """As many programs as there are tiles along queries (side 0) or keys (1), for every head."""
    members, batch, tokens, width = qkv.shape
    features = width // 3 // heads
    precision = "ieee" if qkv.dtype == torch.float32 else "tf32"  # bfloat16 knows no difference
    queries, keys, warps, stages = tile
    tiles = triton.cdiv(tokens, tile[side])
    kernel[(members * batch * heads, tiles)](
        qkv, *others, batch, tokens, features**-0.5, heads, features, queries, keys, precision, num_warps=warps,
        num_stages=stages,
    )  # fmt: skip


class _TiledAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, bias: Tensor, heads: int) -> Tensor:
        bias = bias.contiguous()
        members, batch, tokens, width = qkv.shape
        out = qkv.new_empty(members, batch, tokens, width // 3)
        logs = qkv.new_empty(members * batch * heads, tokens, dtype=torch.float32)
        _launch(_attend, qkv, (bias, out, logs), heads, FORWARD, 0)
        ctx.save_for_backward(qkv, bias, out, logs)
        ctx.heads = heads
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        qkv, bias, out, logs = ctx.saved_tensors
        members, batch, tokens, width = qkv.shape
        grad, inner, grad_qkv = grads[0].contiguous(), torch.empty_like(logs), torch.empty_like(qkv)
        tiles = triton.cdiv(tokens, TO_QUERIES[0])
        sums = qkv.new_empty(members, batch * tiles, width, dtype=torch.float32)
        _launch(_to_queries, qkv, (bias, out, logs, grad, inner, grad_qkv, sums), ctx.heads, TO_QUERIES, 0)
        _launch(_to_keys, qkv, (bias, logs, grad, inner, grad_qkv), ctx.heads, TO_KEYS, 1)
        return grad_qkv, sums.sum(1, keepdim=True), None


def tiled_attention(qkv: Tensor, bias: Tensor, heads: int) -> Tensor:
    """Attention (M, B, T, D) of qkv (M, B, T, 3 D), contiguous and still without its bias (M, 1, 3 D)."""
    mixed: Tensor = _TiledAttention.apply(qkv, bias, heads)
    return mixed
