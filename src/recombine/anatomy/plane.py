"""The (x, y) plane of a forced-rendering study, as the analyses see it: cells, which of them were trained on, and maps.

Shapes: C cells, each one pair of factor values (x, y) in pixels: cells (C, 2). `trained` (C,) bool says which lie in
the support (ID); the others are held out (OOD). M members, K held-out cells. A cell list may be in any order and need
not be a full grid, so every support, also with continuous centres, is one list. Depth inside the hole is
`worlds.supports.depth_of`.
"""

import torch
from torch import Tensor

from recombine.errors import UserError


def plane_cells(size: int) -> Tensor:
    """All integer cells of a `size` by `size` plane, (size * size, 2) as (x, y), in the order of an image's pixels."""
    y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    return torch.stack([x.flatten(), y.flatten()], dim=1)


def to_map(values: Tensor, cells: Tensor, size: int) -> Tensor:
    """Values (..., C) of integer cells as maps (..., size, size) with rows y and columns x; NaN where no cell is."""
    grid = values.new_full((*values.shape[:-1], size * size), torch.nan, dtype=torch.float64)
    grid[..., (cells[:, 1] * size + cells[:, 0]).long()] = values.double()
    return grid.view(*values.shape[:-1], size, size)


def check_plane(cells: Tensor, trained: Tensor, rows: int) -> None:
    """Refuse a support that no analysis can compare: nothing trained, nothing held out, or lists that do not match."""
    if cells.dim() != 2 or len(cells) != rows or trained.shape != (rows,) or trained.dtype != torch.bool:
        raise UserError(
            f"Give one cell and one `trained` bool for each of the {rows} outputs; "
            f"got cells {tuple(cells.shape)} and trained {tuple(trained.shape)} of {trained.dtype}."
        )
    if trained.all() or not trained.any():
        raise UserError("The plane needs trained cells and held-out cells; give a support that leaves some of each.")


def inner(trained: Tensor) -> Tensor:
    """Which cells of a map (X, Y) have only neighbours of their own kind: their differences do not cross the border.

    Neighbours are the up to four cells beside a cell, those that central differences use.
    """
    same = torch.ones_like(trained)
    same[1:] &= trained[1:] == trained[:-1]
    same[:-1] &= trained[:-1] == trained[1:]
    same[:, 1:] &= trained[:, 1:] == trained[:, :-1]
    same[:, :-1] &= trained[:, :-1] == trained[:, 1:]
    return same
