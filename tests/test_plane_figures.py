"""The pictures of the plane are written, whole, for planted data; a wrong shape is named."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from recombine.anatomy.kernels import compare_kernels, representational_kernel
from recombine.anatomy.manifold import log_volume, tangents
from recombine.anatomy.plane import plane_cells, to_map
from recombine.anatomy.superposition import memory_weights, superposition
from recombine.errors import UserError
from recombine.report.plane_figures import (
    by_depth,
    cosine_foot,
    kernel_panels,
    manifold_views,
    plane_maps,
    superposition_panels,
    superposition_pictures,
    volume_maps,
)

SIZE = 16
CELLS = plane_cells(SIZE)
TRAINED = ~((CELLS >= 4) & (CELLS <= 11)).all(1)
MASK = TRAINED.view(SIZE, SIZE).numpy()


def bumps(cells: Tensor) -> Tensor:
    squared = (cells[:, None] - plane_cells(SIZE).to(cells)[None]).square().sum(2)
    return 1 - (-squared / 2).exp()


def is_png(path: Path) -> bool:
    from matplotlib.image import imread

    picture = imread(path)
    return path.read_bytes()[:4] == b"\x89PNG" and picture.std() > 0.01 and min(picture.shape[:2]) > 300


def layers(cells: Tensor) -> dict[str, Tensor]:
    """A planted decoder whose tangents shrink in the hole."""
    inside = torch.sigmoid(4 - (cells - 7.5).abs().max(1).values)[:, None]
    code = torch.cat([(-(v[:, None] - torch.arange(SIZE)).square() / 4).exp() for v in cells.T], dim=1)
    image = bumps(cells)
    return {
        "code": code[None],
        "middle": (code * (1 - 0.8 * inside))[None],
        "output": (image * (1 - 0.9 * inside))[None],
    }


def test_volume_and_error_maps(tmp_path: Path) -> None:
    slopes = tangents(layers, CELLS.float())
    logs = {name: to_map(log_volume(slope)[0], CELLS, SIZE).numpy() for name, slope in slopes.items()}
    assert is_png(volume_maps(tmp_path / "volume.png", logs, MASK, "Volume of a planted decoder"))
    error = 4e-3 * np.where(MASK, 0.02, 1.1)
    maps = {"plain": error, "stripes": error / 9}
    made = plane_maps(
        tmp_path / "error.png", maps, MASK, "Error over the plane", "squared error over that of a blank", "ratio",
        contours=[1e-3, 3e-3], limits=(0, 5e-3),
    )  # fmt: skip
    assert is_png(made)
    with pytest.raises(UserError, match="must match"):
        plane_maps(tmp_path / "no.png", {"odd": error[:4]}, MASK, "", "", "")
    with pytest.raises(UserError, match="at least one"):
        plane_maps(tmp_path / "no.png", {}, MASK, "", "", "")
    assert not (tmp_path / "no.png").exists()


def test_manifolds_and_kernels(tmp_path: Path) -> None:
    found = layers(CELLS.float())
    views = {name: values[0].numpy() for name, values in found.items()}
    assert is_png(manifold_views(tmp_path / "manifold.png", views, CELLS.numpy(), TRAINED.numpy(), "Planted manifolds"))
    kernels, scores = {}, {}
    for name, values in found.items():
        pair = torch.cat([values, values + 0.02 * torch.randn(values.shape)])
        kernel = representational_kernel(pair, TRAINED)
        fits = compare_kernels(kernel, CELLS, TRAINED, lengths=(1.0, 2.0))
        kernels[name] = to_map(kernel[0, 8 * SIZE + 2], CELLS, SIZE).numpy()
        scores[name] = {family: fit.trained.numpy() for family, fit in fits.items()}
    assert is_png(
        kernel_panels(tmp_path / "kernels.png", kernels, scores, MASK, (2, 8), "Kernels of a planted decoder")
    )


def test_superpositions(tmp_path: Path) -> None:
    truths = bumps(CELLS.double())
    memory = truths.clone()
    memory[~TRAINED] = memory_weights(CELLS, TRAINED) @ truths[TRAINED]
    noise = 0.02 * torch.randn(2, *truths.shape, generator=torch.Generator().manual_seed(0))
    outputs = torch.stack([0.8 * memory + 0.2 * truths, 0.6 * memory + 0.4 * truths]) + noise
    found = superposition(outputs, truths, CELLS, TRAINED)
    shown = [(4, 8), (5, 8), (6, 8), (7, 7)]
    rows = [y * SIZE + x for x, y in shown]
    held = {cell: i for i, cell in enumerate((~TRAINED).nonzero()[:, 0].tolist())}
    pictures = {
        name: values[rows].view(-1, SIZE, SIZE).numpy()
        for name, values in (("memory", memory), ("decoder A", outputs[0]), ("decoder B", outputs[1]))
    }
    shares = {f"decoder {'AB'[m]}": [found.share[m, held[row]].item() for row in rows] for m in range(2)}
    depths = [int(found.depth[held[row]]) for row in rows]
    true = truths[rows].view(-1, SIZE, SIZE).numpy()
    path = tmp_path / "superposition.png"
    assert is_png(superposition_pictures(path, pictures, true, shown, depths, "Planted superposition", shares))
    curves = {"memory": found.memory.numpy(), "truth": found.truth.numpy(), "control": found.control.numpy()}
    arms = {name: (found.depth.numpy(), curves) for name in "abcde"}
    assert is_png(superposition_panels(tmp_path / "panels.png", arms, "By depth, five arms"))
    # From either edge of a gap: the same depth, but for its last digit.
    levels, lines = by_depth(np.array([10.8, 10.800003, 11.2], np.float32), np.array([[1.0, 3.0, 7.0]]))
    assert levels.tolist() == pytest.approx([10.8, 11.2]) and lines[:, 0].tolist() == [2.0, 7.0]
    assert cosine_foot([np.array([0.9, np.nan, 0.8])]) == pytest.approx(0.75)  # all alike: looked at closely
    assert cosine_foot([np.array([0.9, 0.1])]) == -0.08 and cosine_foot([np.array([-0.5])]) == pytest.approx(-0.55)
    with pytest.raises(UserError, match="needed"):
        superposition_pictures(path, {"odd": true[:2]}, true, shown, depths, "")
