"""The GPU kernels against torch's operations in float64: on a GPU as they run, elsewhere in Triton's interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from recombine.nets import fused
from recombine.nets.backbone import Backbone, Dimensions
from recombine.nets.layers import Linear, SeedStream
from recombine.nets.token_head import TokenHead
from recombine.training.flat import Flat

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


def attention(ours: bool, qkv: Tensor, bias: Tensor, heads: int) -> Tensor:
    if ours:
        from recombine.nets.fused.attention import MOST_TOKENS, attention
        from recombine.nets.fused.tiled_attention import tiled_attention

        return (attention if qkv.shape[2] <= MOST_TOKENS else tiled_attention)(qkv, bias, heads)
    members, batch, tokens, width = qkv.shape
    parts = (qkv + bias[:, None]).view(members * batch, tokens, 3, heads, width // 3 // heads).permute(2, 0, 3, 1, 4)
    mixed = F.scaled_dot_product_attention(*parts)
    return mixed.transpose(1, 2).reshape(members, batch, tokens, width // 3)


def residual_norm(ours: bool, x: Tensor, y: Tensor, bias: Tensor, ada: Tensor) -> Tensor:
    gate, shift, scale = ada.chunk(3, dim=-1)
    if ours:
        from recombine.nets.fused.norm import residual_norm

        summed, h = residual_norm(x, y, bias, gate, shift, scale)
    else:
        summed = x + gate * (y + bias[:, None])
        h = F.layer_norm(summed, summed.shape[-1:], eps=1e-6) * (1 + scale) + shift
    return torch.cat([summed, h], dim=-1)


def norm(ours: bool, x: Tensor, ada: Tensor) -> Tensor:
    shift, scale = ada.chunk(2, dim=-1)
    if ours:
        from recombine.nets.fused.norm import norm

        return norm(x, shift, scale)
    return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift


def bias_gelu(ours: bool, x: Tensor, bias: Tensor) -> Tensor:
    if ours:
        from recombine.nets.fused.activation import bias_gelu

        return bias_gelu(x, bias)
    return F.gelu(x + bias[:, None], approximate="tanh")


def bias_silu(ours: bool, x: Tensor, bias: Tensor) -> Tensor:
    if ours:
        from recombine.nets.fused.activation import bias_silu

        return bias_silu(x, bias)
    return F.silu(x + bias[:, None])


def token_norms(ours: bool, x: Tensor, y: Tensor, gate: Tensor, mod: Tensor, bias: Tensor, ada: Tensor) -> Tensor:
    """Both kernels of a token head, one after the other; (M, B, T, W) is taken as (M, N, W)."""
    x, y, gate, mod = (t.flatten(1, 2) for t in (x, y, gate, mod))
    width = x.shape[-1]
    if ours:
        from recombine.nets.fused.token_norm import token_norm, token_residual_norm

        h = token_norm(x, mod, ada[..., : 2 * width])
        summed, h = token_residual_norm(h, y, bias, gate, ada[..., 2 * width :], mod, ada[..., : 2 * width])
    else:
        (shift, scale), gates = (mod + ada[..., : 2 * width]).chunk(2, dim=-1), gate + ada[..., 2 * width :]
        h = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift
        summed = h + gates * (y + bias)
        h = F.layer_norm(summed, summed.shape[-1:], eps=1e-6) * (1 + scale) + shift
    return torch.cat([summed, h], dim=-1)


def check(device: str, dtype: torch.dtype, limit: float) -> None:
    """Outputs and all gradients of every kernel, for fresh random inputs of several shapes."""
    wide = [(2, 3, 9, 32), (1, 2, 49, 384), (3, 2, 16, 64), (2, 1, 1, 48), (2, 2, 150, 32)]
    heads = [(2, 3, 9, 2, 16), (1, 2, 49, 4, 64), (2, 1, 64, 2, 32), (1, 2, 1, 2, 16), (2, 1, 81, 2, 16)]
    heads += [(1, 1, 200, 1, 64), (1, 2, 128, 2, 32)]
    cases = [(attention, (m, b, t, 3 * h * e), {"heads": h}, (m, 1, 3 * h * e)) for m, b, t, h, e in heads]
    cases += [(residual_norm, s, {}, s, (s[0], 1, s[3]), (*s[:2], 1, 3 * s[3])) for s in wide]
    cases += [(norm, s, {}, (*s[:2], 1, 2 * s[3])) for s in wide]
    cases += [(act, s, {}, (s[0], 1, s[3])) for s in wide for act in (bias_gelu, bias_silu)]
    cases += [(token_norms, s, {}, s, s, (*s[:3], 2 * s[3]), (s[0], 1, s[3]), (s[0], 1, 3 * s[3])) for s in wide]
    for seed, (function, shape, words, *others) in enumerate(cases):
        source = torch.Generator().manual_seed(seed)
        # Biases are parameters, so they stay in float32.
        inputs = [
            torch.randn(each, generator=source).to(device, dtype if len(each) == 4 else torch.float32)
            for each in (shape, *others)
        ]
        found = []
        for ours in (True, False):
            given = [(x if ours else x.double()).clone().requires_grad_() for x in inputs]
            out = function(ours, *given, **words)
            weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(99)).to(out)
            out.backward(weight)
            found.append([out, *(x.grad for x in given)])
        for place, (mine, theirs) in enumerate(zip(*found, strict=True)):
            error = (mine.double() - theirs).norm() / theirs.norm().clamp(min=1e-2)
            assert error < limit, (function.__name__, shape, place, error.item())


def check_update(device: str) -> None:
    """The update against torch's AdamW, clipping and averaging, member by member."""
    from recombine.nets.fused.update import adamw, step_numbers

    source = torch.Generator().manual_seed(3)
    betas, members, each = (0.8, 0.95), 3, 1300
    for decay, averages in ((0.1, True), (0.0, False)):
        weights = torch.randn(members, each, generator=source).to(device)
        moments = torch.zeros_like(weights), torch.zeros_like(weights)
        average = weights.clone() if averages else None
        theirs = [torch.nn.Parameter(row.clone()) for row in weights]
        expected = [row.clone() for row in weights]
        reference = torch.optim.AdamW(theirs, lr=0.01, betas=betas, weight_decay=decay)
        for step in range(1, 8):
            gradients = torch.randn(members, each, generator=source).to(device)
            scale = torch.tensor([1.0, 0.3, 0.01], device=device)
            for member, own in enumerate(theirs):
                own.grad = gradients[member] * scale[member]
            reference.step()
            at = torch.tensor([step, 0.01, 0.9], device=device)
            numbers = step_numbers(at[0], at[1], betas, at[2])
            low = torch.zeros_like(weights, dtype=torch.bfloat16) if averages else None
            adamw(weights, gradients, moments, average, low, scale, numbers, decay, betas)
            if low is not None:  # interpreted, bfloat16 is rounded down
                torch.testing.assert_close(low.float(), weights, rtol=2**-7, atol=1e-6)
            for member, own in enumerate(theirs):
                torch.testing.assert_close(weights[member], own.detach(), rtol=1e-5, atol=1e-6)
                expected[member].lerp_(own.detach(), 0.1)
                if average is not None:
                    torch.testing.assert_close(average[member], expected[member], rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
@GPU
def test_on_a_gpu_the_kernels_are_torchs_operations():
    check("cuda", torch.bfloat16, 1.5e-2)
    check_update("cuda")


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("parts", [[slice(None)], [slice(0, 16), slice(16, None)]])
def test_a_product_with_low_weights_writes_its_gradient_itself(parts):
    layer = Linear(96, 64, SeedStream([0, 1])).cuda()
    x = torch.randn(2, 3, 50, 96, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(2, 3, 50, 64, device="cuda", dtype=torch.bfloat16)
    found = []
    for low in (False, True):
        flat = Flat({"weight": layer.weight}, 0.0, torch.bfloat16 if low else None)
        flat.gradients.fill_(0 if not low else 7)  # what is left of the last step, which must not matter
        given = x.clone().requires_grad_()
        for _ in range(2):  # the second time it is added
            out = torch.cat([layer.product(given, some) for some in parts], dim=-1)
            out.backward(weight)
        found.append([out, given.grad, flat.views(flat.gradients)["weight"].clone()])
        flat.clear()
        assert not getattr(layer.weight, "written", None)
        assert low or (flat.gradients == 0).all()
        with torch.no_grad():
            torch.testing.assert_close(layer.product(x), out)
    for exact, close in zip(*found, strict=True):
        assert (close.double() - exact.double()).norm() < 1e-2 * exact.double().norm()


def test_interpreted_the_kernels_are_torchs_operations():
    pytest.importorskip("triton", reason="needs triton, which comes with torch's GPU build")
    # Whether triton interprets is settled when it is imported, so this needs a process of its own.
    code = "import torch, test_fused; test_fused.check('cpu', torch.float32, 2e-5); test_fused.check_update('cpu')"
    here = str(Path(__file__).parent)
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": f"{here}:{os.environ.get('PYTHONPATH', '')}"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=200)


def test_a_cpu_takes_torchs_own():
    assert not fused.suits(torch.zeros(1)) and not fused.suits(torch.zeros(1, dtype=torch.bfloat16))


def shaken(grid: tuple[int, int]) -> Backbone:
    """A backbone whose zero-initialised layers are moved, so that every part does something."""
    backbone = Backbone(Dimensions(3, 64, 4), grid, 5, SeedStream([0, 1]))
    source = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in backbone.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=source)
    return backbone


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("grid", [(4, 4), (7, 7), (9, 9)])
def test_a_whole_backbone_in_bfloat16_is_close_to_the_exact_one(grid):
    """Outputs and gradients; at 81 tokens attention goes by tiles."""
    backbone = shaken(grid)
    x = torch.randn(2, 6, grid[0] * grid[1], 64, generator=torch.Generator().manual_seed(1))
    c = torch.randn(2, 6, 64, generator=torch.Generator().manual_seed(2))
    found = []
    for device, dtype in (("cpu", torch.float32), ("cuda", torch.bfloat16)):
        model = backbone.to(device)
        model.zero_grad()
        outputs, states = model.with_states(x.to(device, dtype), c.to(device, dtype), (0, 1, 2))
        (outputs.square().sum() + sum(state.float().square().sum() for state in states)).backward()
        alone = model.states(x.to(device, dtype), c.to(device, dtype), (0, 2))
        torch.testing.assert_close(alone[1], states[2], rtol=2e-2, atol=2e-2)
        found.append([outputs, *states, *(p.grad for p in model.parameters())])
        found[-1] = [tensor.detach().double().cpu() for tensor in found[-1]]
    for exact, close in zip(*found, strict=True):
        assert (close - exact).norm() < 0.05 * exact.norm().clamp(min=1e-2)


@pytest.mark.gpu
@GPU
def test_a_token_head_in_bfloat16_is_close_to_the_exact_one():
    head = TokenHead(6, 48, 2, 32, SeedStream([0, 1]), 6)
    source = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in head.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=source)
    x, z = torch.randn(2, 70, 1, 6, generator=source), torch.randn(2, 70, 1, 48, generator=source)
    for t in (torch.rand(2, 70, 1, generator=source), torch.rand(2, 1, 1, generator=source)):
        found = []
        for device, dtype in (("cpu", torch.float32), ("cuda", torch.bfloat16)):
            model = head.to(device)
            model.zero_grad()
            outputs = model(x.to(device), t.to(device), z.to(device, dtype))
            outputs.square().sum().backward()
            found.append(
                [tensor.detach().double().cpu() for tensor in (outputs, *(p.grad for p in model.parameters()))]
            )
        for exact, close in zip(*found, strict=True):
            assert (close - exact).norm() < 0.05 * exact.norm().clamp(min=1e-2)
