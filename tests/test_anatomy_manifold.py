"""Tangents, metric and volume of known maps."""

import math

import pytest
import torch
from torch import Tensor

from recombine.anatomy.manifold import (
    FLOOR,
    geometry,
    grid_geometry,
    grid_tangents,
    log_volume,
    metric,
    tangents,
    volume_element,
)
from recombine.anatomy.plane import plane_cells
from recombine.errors import UserError


def sphere(cells: Tensor) -> dict[str, Tensor]:
    """Longitude and latitude to a sphere of radius 3; two members, the second twice as large."""
    u, v = cells.unbind(1)
    point = 3 * torch.stack([v.cos() * u.cos(), v.cos() * u.sin(), v.sin()], dim=1)
    return {"sphere": torch.stack([point, 2 * point])}


def test_the_volume_element_of_a_sphere() -> None:
    cells = torch.rand(50, 2, generator=torch.Generator().manual_seed(0)).double() * 2 - 1
    jacobian = tangents(sphere, cells, batch=7)["sphere"]
    assert jacobian.shape == (2, 50, 3, 2)
    expected = 9 * cells[:, 1].cos()
    torch.testing.assert_close(volume_element(jacobian), torch.stack([expected, 4 * expected]))
    g = metric(jacobian)
    torch.testing.assert_close(g[0, :, 0, 0], 9 * cells[:, 1].cos().square())
    torch.testing.assert_close(g[0, :, 0, 1], torch.zeros(50).double(), atol=1e-12, rtol=0)
    kept = geometry(sphere, cells, batch=7)["sphere"]
    torch.testing.assert_close(kept.metric, g)
    torch.testing.assert_close(kept.log_volume, log_volume(jacobian))


def test_a_linear_map_has_the_root_of_its_gram_determinant() -> None:
    matrix = torch.randn(6, 2, generator=torch.Generator().manual_seed(1)).double()
    cells = plane_cells(4)
    jacobian = tangents(lambda c: {"out": (c.double() @ matrix.T)[None]}, cells)["out"]
    torch.testing.assert_close(jacobian, matrix.expand(1, 16, 6, 2))
    torch.testing.assert_close(volume_element(jacobian), torch.det(matrix.T @ matrix).sqrt().expand(1, 16))


def test_volume_near_and_at_a_collapse() -> None:
    for gap in (1e-3, 1e-9, 1e-15):  # the determinant of the metric would drown in rounding
        jacobian = torch.tensor([[1.0, 1.0], [0.0, gap]], dtype=torch.float64)
        assert volume_element(jacobian).item() == pytest.approx(gap, rel=1e-9)
    flat = torch.tensor([[1.0, 2.0], [3.0, 6.0]]).double()
    assert volume_element(flat).item() < 1e-14
    assert log_volume(torch.zeros(4, 2)).item() == pytest.approx(math.log10(FLOOR))
    uneven = torch.tensor([[1e-8, 1.0], [0.0, 1.0]], dtype=torch.float64)
    assert volume_element(uneven).item() == pytest.approx(1e-8, rel=1e-9)


def bump(cells: Tensor, width: float, size: int = 28) -> Tensor:
    squared = (cells[:, None] - plane_cells(size).to(cells)[None]).square().sum(2)
    return (-squared / (2 * width**2)).exp()


@pytest.mark.parametrize("width", [1.0, 1.5, 2.0])
def test_the_true_bump_has_volume_pi_over_two_at_every_width(width: float) -> None:
    cells = torch.tensor([[13.0, 13.0], [14.3, 12.9]], dtype=torch.float64)
    jacobian = tangents(lambda c: {"image": bump(c, width)[None]}, cells)["image"]
    torch.testing.assert_close(volume_element(jacobian), torch.full((1, 2), math.pi / 2).double(), rtol=3e-3, atol=0)


def test_differences_on_the_grid_give_the_published_reference_and_the_order_x_then_y() -> None:
    cells = plane_cells(28).double()
    features = bump(cells, 1.0).view(1, 28, 28, -1)
    jacobian = grid_tangents(features)
    # Central differences of a bump of width 1: 2 pi (1 - e^-1) / 4 for each factor (the published true images: 0.00).
    centre = volume_element(jacobian)[0, 14, 14]
    assert centre.item() == pytest.approx(2 * math.pi * (1 - math.exp(-1)) / 4, rel=1e-3)
    assert log_volume(jacobian)[0, 14, 14].item() == pytest.approx(-0.003, abs=1e-3)
    kept = grid_geometry(features.expand(2, -1, -1, -1))
    assert kept.volume.shape == (2, 784)
    torch.testing.assert_close(kept.volume[1].view(28, 28), volume_element(jacobian)[0])
    ramp = cells.view(28, 28, 2)[None] * torch.tensor([2.0, 5.0])
    slope = grid_tangents(ramp)[0, 3, 9]
    torch.testing.assert_close(slope, torch.diag(torch.tensor([2.0, 5.0])).double())
    with pytest.raises(UserError, match="two cells"):
        grid_tangents(torch.zeros(1, 1, 5, 2))
