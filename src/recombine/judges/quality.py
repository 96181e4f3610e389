"""How good samples are as images, beside whether they show what was asked: distances between sets of images.

Every function here is about two sets of the same kind, samples and real images, as points in some space (the probe's
features, or pixels). None knows a threshold of what is good: with few images even real ones are not at distance 0 from
other real ones, so each number is to be read beside the same number of real images, as many of them (`quality.py` in
studies does that).

Shapes: ... any leading axes (members), N samples, R real images, D dimensions of a point.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

MANIFOLD = 3  # nearest neighbours that span a manifold (Kynkaanniemi et al. 2019)
DENSITY = 5  # the same for density and coverage (Naeem et al. 2020)
PAIRS_AT_ONCE = 2**25  # distances held in memory at a time, where the sets are large


@dataclass(frozen=True)
class Moments:
    """Mean (..., D) and covariance (..., D, D) of a set of points, in double precision."""

    mean: Tensor
    covariance: Tensor


def moments(points: Tensor) -> Moments:
    """Of points (..., N, D); the covariance is unbiased, and 0 for a single point."""
    points = points.double()
    mean = points.mean(-2)
    centred = points - mean[..., None, :]
    return Moments(mean, centred.mT @ centred / max(points.shape[-2] - 1, 1))


def root(covariance: Tensor) -> Tensor:
    """The symmetric root (..., D, D) of a covariance, singular or not."""
    values, vectors = torch.linalg.eigh(covariance)
    return (vectors * values.clamp(min=0.0).sqrt()[..., None, :]) @ vectors.mT


def frechet(samples: Moments, real: Moments, real_root: Tensor | None = None) -> Tensor:
    """Squared Frechet distance (...) of two Gaussians with these moments (Dowson and Landau 1982; Heusel et al. 2017):
    |m - m'|^2 + tr(C + C' - 2 (C' ^1/2 C C' ^1/2)^1/2).

    Few samples make it larger (their covariance lacks directions), so distances compare at equal N only. `real_root`:
    the root of the real covariance, where it is at hand.
    """
    real_root = root(real.covariance) if real_root is None else real_root
    product = real_root @ samples.covariance @ real_root
    overlap = torch.linalg.eigvalsh(product).clamp(min=0.0).sqrt().sum(-1)

    def trace(covariance: Tensor) -> Tensor:
        return covariance.diagonal(dim1=-2, dim2=-1).sum(-1)

    apart = (samples.mean - real.mean).square().sum(-1)
    return apart + trace(samples.covariance) + trace(real.covariance) - 2.0 * overlap


def _distances(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distances (..., N, R), by differences: by matrix products a point is not quite at itself."""
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


def _reach(points: Tensor, neighbours: int) -> Tensor:
    """Distance (..., N) from each point to so far a neighbour (1 is the nearest), or to the farthest there is."""
    own = _distances(points, points)
    return own.kthvalue(min(neighbours + 1, points.shape[-2]), dim=-1).values


def neighbourhoods(samples: Tensor, real: Tensor) -> dict[str, Tensor]:
    """How samples (..., N, D) and real images (..., R, D) lie among each other; each a number (...).

    precision: share of samples inside the real manifold, the balls around real images that reach to their third
    neighbour. recall: share of real images inside the samples' manifold (Kynkaanniemi et al. 2019). density: how many
    real balls (to the fifth neighbour) a sample lies in, over 5: near 1 for real images, more where samples crowd in
    the middle. coverage: share of real balls that hold a sample (Naeem et al. 2020).
    """
    across = _distances(samples, real)  # (..., N, R)
    near, far = _reach(real, MANIFOLD)[..., None, :], _reach(real, DENSITY)[..., None, :]
    inside = across <= far
    return {
        "precision": (across <= near).any(-1).double().mean(-1),
        "recall": (across <= _reach(samples, MANIFOLD)[..., :, None]).any(-2).double().mean(-1),
        "density": inside.double().sum(-1).mean(-1) / DENSITY,
        "coverage": inside.any(-2).double().mean(-1),
    }


def mean_distance(points: Tensor) -> Tensor:
    """Mean distance (...) of two different points among (..., N, D): how diverse they are. Unbiased; 0 for one."""
    count = points.shape[-2]
    return _distances(points, points).double().sum((-2, -1)) / max(count * (count - 1), 1)


@torch.no_grad()
def nearest(samples: Tensor, bank: Tensor) -> Tensor:
    """Distance (N,) from each sample (N, D) to the nearest point of a bank (R, D), per dimension (root mean square).

    Which one is nearest is found by matrix products; the distance to it is then taken exactly, so that a copy is at 0.
    """
    lengths = bank.square().sum(1)  # (R,)
    found = []
    for part in samples.split(max(1, PAIRS_AT_ONCE // len(bank))):
        place = (lengths - 2.0 * (part @ bank.T)).argmin(1)  # the sample's own length does not choose
        found.append((part - bank[place]).square().mean(1).sqrt())
    return torch.cat(found)
