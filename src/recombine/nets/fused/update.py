"""One GPU kernel for the whole update of flat weights: clip, AdamW (Loshchilov and Hutter 2019), average and copy to
bfloat16. Each number is read and written once; torch's own operations would do so three times.

Shapes: M members, P numbers of one member.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
EPSILON = tl.constexpr(1e-8)


@triton.jit
def _adamw(
    weights,
    gradients,
    first,
    second,
    average,
    low,
    scale,
    numbers,
    each,
    decay,
    beta1,
    beta2,
    AVERAGES: tl.constexpr,
    LOWERS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    member = tl.program_id(1).to(tl.int64)
    within = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = within < each
    place = member * each + within
    rate, correction1, correction2 = tl.load(numbers), tl.load(numbers + 1), tl.load(numbers + 2)
    g = tl.load(gradients + place, mask=inside, other=0.0) * tl.load(scale + member)
    m = tl.load(first + place, mask=inside, other=0.0)
    v = tl.load(second + place, mask=inside, other=0.0)
    w = tl.load(weights + place, mask=inside, other=0.0)
    m += (1 - beta1) * (g - m)
    v = beta2 * v + (1 - beta2) * g * g
    w -= rate * decay * w
    w -= (rate / correction1) * m / (tl.sqrt(v) / tl.sqrt(correction2) + EPSILON)
    tl.store(first + place, m, mask=inside)
    tl.store(second + place, v, mask=inside)
    tl.store(weights + place, w, mask=inside)
    if AVERAGES:
        a = tl.load(average + place, mask=inside, other=0.0)
        tl.store(average + place, a + (1 - tl.load(numbers + 3)) * (w - a), mask=inside)
    if LOWERS:
        tl.store(low + place, w.to(low.dtype.element_ty), mask=inside)


def adamw(
    weights: Tensor,
    gradients: Tensor,
    moments: tuple[Tensor, Tensor],
    average: Tensor | None,
    low: Tensor | None,
    scale: Tensor,
    numbers: Tensor,
    decay: float,
    betas: tuple[float, float],
) -> None:
    """Update weights, both moments, the average and the copy in fewer bits (all M, P) in place. `scale` (M,) multiplies
    each member's gradient; `numbers` are the rate, 1 - beta1^t, 1 - beta2^t and the share of the average kept."""
    members, each = weights.shape
    others = weights if average is None else average, weights if low is None else low
    _adamw[(triton.cdiv(each, BLOCK), members)](
        weights, gradients, *moments, *others, scale, numbers, each, decay, *betas, average is not None,
        low is not None, BLOCK, num_warps=4,
    )  # fmt: skip


def step_numbers(step: Tensor, rate: Tensor, betas: tuple[float, float], kept: Tensor | None) -> Tensor:
    """The numbers of step 1, 2, …, on its device."""
    done = step.to(torch.float64)
    parts = [rate.double(), 1 - betas[0] ** done, 1 - betas[1] ** done]
    return torch.stack([*parts, torch.zeros_like(done) if kept is None else kept.double()]).float()
