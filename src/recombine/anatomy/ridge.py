"""Kernel ridge regression with a free constant, judged by leaving out trained cells, one or one block at a time.

Used for the kernels of the plane and, with the linear kernel, for the read-out of factors from features. What is left
out is predicted exactly, without a refit and without random folds: for a ridge fit with an unpenalised constant,
leaving out the rows B gives the residuals (I - H_BB)^-1 r_B, H the matrix that maps targets to fitted values (Allen
1974 for one row).

Shapes: C cells, n of them trained, K held out, Q target columns.
"""

import torch
from torch import Tensor

RIDGES = (1e-8, 1e-6, 1e-4, 1e-2, 1.0, 100.0)
"""The ridges tried, as multiples of the mean eigenvalue of the centred kernel: they mean the same for every kernel. The
largest leaves little but the constant."""


class KernelRidge:
    """The fit of one kernel over the plane, `gram` (C, C); nothing but the rows and columns of trained cells is fitted.

    Centring the kernel at the mean of the trained cells (in the kernel's feature space) is what makes the constant
    free.
    """

    def __init__(self, gram: Tensor, trained: Tensor):
        k = gram.double()
        own, cross = k[trained][:, trained], k[~trained][:, trained]  # (n, n), (K, n)
        column = own.mean(0, keepdim=True)
        self.cross = cross - cross.mean(1, keepdim=True) - column + own.mean()
        centred = own - own.mean(1, keepdim=True) - column + own.mean()
        values, self.vectors = torch.linalg.eigh(centred)
        self.values = values.clamp(min=0)
        mean = self.values.mean()
        self.scale = mean if mean > 0 else torch.ones_like(mean)  # a constant kernel: only the constant is fitted

    def left_out(self, targets: Tensor, ridge: float, blocks: Tensor | None = None) -> Tensor:
        """What each trained cell is predicted from all others, or from all other `blocks` (n,): (n, Q) to (n, Q)."""
        y = targets.double()
        keep = self.values / (self.values + ridge * self.scale)
        if blocks is None:
            fitted = y.mean(0) + self.vectors * keep @ (self.vectors.T @ y)
            own = (self.vectors.square() * keep).sum(1) + 1 / len(y)  # the diagonal of H
            return y - (y - fitted) / (1 - own).clamp(min=1e-12)[:, None]
        hat = self.vectors * keep @ self.vectors.T + 1 / len(y)
        residual = y - hat @ y
        predicted = torch.empty_like(y)
        for block in blocks.unique():
            rows = (blocks == block).nonzero()[:, 0]
            rest = torch.eye(len(rows), dtype=y.dtype, device=y.device) - hat[rows][:, rows]
            predicted[rows] = y[rows] - torch.linalg.solve(rest, residual[rows])
        return predicted

    def held_out(self, targets: Tensor, ridge: float) -> Tensor:
        """What the held-out cells are predicted from all trained cells' targets (n, Q): (K, Q)."""
        y = targets.double()
        inverse = 1 / (self.values + ridge * self.scale)
        return y.mean(0) + self.cross @ (self.vectors * inverse @ (self.vectors.T @ y))
