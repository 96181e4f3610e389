"""The backbone: causal attention leaks nothing from later tokens, and the cached sampler path computes the same."""

import torch

from recombine.nets.backbone import SIZES, Backbone, Dimensions
from recombine.nets.layers import SeedStream


def shaken(seeds: list[int]) -> Backbone:
    """A backbone whose zero-initialised layers are moved, so that tokens really influence each other."""
    backbone = Backbone(Dimensions(3, 32, 2), (3, 3), 5, SeedStream(seeds))
    with torch.no_grad():
        for p in backbone.parameters():
            p += 0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0))
    return backbone


def inputs(members: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(1)
    return torch.randn(members, 4, 9, 32, generator=g), torch.randn(members, 4, 32, generator=g)


def test_a_causal_output_ignores_later_tokens_and_sees_earlier_ones():
    backbone, (x, c) = shaken([0, 1]), inputs(2)
    out = backbone(x, c, causal=True)
    later = x.clone()
    later[:, :, 5:] = torch.randn(2, 4, 4, 32, generator=torch.Generator().manual_seed(2))
    changed = backbone(later, c, causal=True)
    torch.testing.assert_close(changed[:, :, :5], out[:, :, :5])
    assert (changed[:, :, 5:] - out[:, :, 5:]).abs().amax(-1).min() > 1e-3
    assert not torch.allclose(backbone(later, c)[:, :, :5], backbone(x, c)[:, :, :5])


def test_one_token_at_a_time_with_the_cache_equals_all_at_once():
    backbone, (x, c) = shaken([0, 1]), inputs(2)
    cache = backbone.new_cache()
    steps = [backbone.next_token(x[:, :, t : t + 1], c, t, cache) for t in range(9)]
    torch.testing.assert_close(torch.cat(steps, dim=2), backbone(x, c, causal=True), rtol=1e-4, atol=1e-5)


def test_sizes_grow():
    widths = [(d.depth, d.width) for d in SIZES.values()]
    assert widths == sorted(widths) and list(SIZES) == ["xs", "s", "b", "l"]
