"""Numbers that say whether features have collapsed and what can be read from them: pure functions, one value a member.

The loss of a model that predicts its own features cannot tell learning from collapse: both make it small. These can.
They count in float64. A member whose features are not all finite has diverged: it gets NaN (or nothing right), and
never disturbs the others.

Shapes: M members, N images to fit on, K images to test on, T tokens, D width, F factors.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

ROUNDING = 1e-6
"""Variation below this share of a feature's size is rounding of float32, and counts as none."""


def _finite(features: Tensor) -> tuple[Tensor, Tensor]:
    """Features in float64 with zeros for the members that diverged, and which members are finite (M,)."""
    finite = features.isfinite().flatten(1).all(1)
    shape = (-1, *[1] * (features.dim() - 1))
    return torch.where(finite.view(shape), features, 0.0).double(), finite


def _or_nan(values: Tensor, known: Tensor) -> Tensor:
    return torch.where(known, values, torch.nan)


def rank_me(features: Tensor) -> Tensor:
    """RankMe (Garrido et al. 2023) of features (M, N, D): the effective number of dimensions they use, (M,).

    It is the exponential of the entropy of the singular values divided by their sum: from 1 (all features on one line
    through the origin) to min(N, D). As in the paper the features are not centred, so a large common mean counts as
    one strong dimension. The paper's small constant under the logarithm is left out: 0 log 0 is 0. Zeros give 1.
    """
    x, finite = _finite(features)
    # The singular values are the roots of the smaller Gram matrix's eigenvalues. Squaring loses what is below 1e-8 of
    # the largest, which features computed in float32 do not hold anyway.
    gram = x.mT @ x if x.shape[1] >= x.shape[2] else x @ x.mT
    singular = torch.linalg.eigvalsh(gram).clamp(min=0).sqrt()  # (M, min(N, D))
    total = singular.sum(1, keepdim=True)
    share = singular / torch.where(total > 0, total, 1.0)
    return _or_nan(torch.special.entr(share).sum(1).exp(), finite)


def centred(states: Tensor) -> Tensor:
    """States (M, N, T, D) less the mean over images at each position; 0 for a member whose images differ by rounding
    alone, which would have a rank of its own."""
    apart = states - states.mean(1, keepdim=True)
    differ = apart.square().mean((1, 2, 3)) > ROUNDING**2 * states.square().mean((1, 2, 3))
    return torch.where(differ.view(-1, 1, 1, 1), apart, 0.0)


def _deviations(features: Tensor) -> tuple[Tensor, Tensor]:
    """Standard deviation over images of every dimension, (M, D), and which members are finite (M,)."""
    x, finite = _finite(features)
    return x.std(1, correction=0), finite


def spread(features: Tensor) -> Tensor:
    """Mean over dimensions of their standard deviation over images: (M, N, D) to (M,). 0 is full collapse."""
    deviations, finite = _deviations(features)
    return _or_nan(deviations.mean(1), finite)


def least_spread(features: Tensor) -> Tensor:
    """The standard deviation that a tenth of the dimensions stay below: (M, N, D) to (M,).

    It falls when some dimensions die while the mean still looks well. A tenth rather than the smallest: one dead
    dimension is no collapse.
    """
    deviations, finite = _deviations(features)
    return _or_nan(torch.quantile(deviations, 0.1, dim=1), finite)


def mean_cosine(features: Tensor) -> Tensor:
    """Mean cosine over all pairs of two different images: (M, N, D) to (M,). 1 is collapse to one direction.

    The sum over pairs is the squared length of the summed unit vectors less the N cosines of an image with itself.
    A feature of length 0 has no direction and is left out; fewer than two directions give NaN.
    """
    x, finite = _finite(features)
    length = x.norm(dim=2, keepdim=True)
    unit = x / torch.where(length > 0, length, 1.0)
    n = (length > 0).sum((1, 2)).double()
    pairs = n * (n - 1)
    cosine = (unit.sum(1).square().sum(1) - n) / torch.where(pairs > 0, pairs, 1.0)
    return _or_nan(cosine, finite & (pairs > 0))


def linear_probe(
    train: Tensor,
    train_labels: Tensor,
    test: Tensor,
    test_labels: Tensor,
    classes: Sequence[int],
    ridge: float = 1e-3,
) -> Tensor:
    """Whether a linear probe reads each factor of each test image rightly, (M, F, K) bool.

    `train` (M, N, D) and `test` (M, K, D) are features, the labels (N, F) and (K, F) those of their images, the same
    for every member; `classes` says how many values each factor has. Ridge regression to one-hot labels with a free
    constant, on dimensions standardised over the training images; the largest output wins. The classes of a factor
    count alike however many images each has: features that say nothing are read no better than by guessing, at every
    level. `ridge` (above 0) is added to the diagonal of the correlation matrix, whose entries there are about 1, so it
    means the same at every width and number of images. All members are one solve.
    """
    x, finite = _finite(train)
    mean, deviation = x.mean(1, keepdim=True), x.std(1, correction=0, keepdim=True)  # (M, 1, D)
    varies = deviation > ROUNDING * x.square().mean(1, keepdim=True).sqrt()
    # A dimension that never varied says nothing, and must not shout when it varies in the test images.
    scale = torch.where(varies, 1 / torch.where(varies, deviation, 1.0), 0.0)
    x = (x - mean) * scale
    seen = test.isfinite().all(2) & finite[:, None]  # (M, K)
    y = (torch.where(seen[..., None], test, 0.0).double() - mean) * scale

    unit = torch.eye(x.shape[2], dtype=x.dtype, device=x.device)
    right = []
    for f, n in enumerate(classes):
        targets = functional.one_hot(train_labels[:, f], n).double()  # (N, n)
        count = targets.sum(0)
        share = 1 / (count > 0).sum()  # of the weight, for each class that is there at all
        weight = (targets / count.clamp(min=1)).sum(1) * share  # (N,), sums to 1
        centre = (weight[:, None] * x).sum(1, keepdim=True)  # (M, 1, D)
        inner = x - centre
        goal = targets - torch.where(count > 0, share, 0.0)
        factor = torch.linalg.cholesky((inner * weight[:, None]).mT @ inner + ridge * unit)
        slope = torch.cholesky_solve((inner * weight[:, None]).mT @ goal, factor)  # (M, D, n)
        right.append(((y - centre) @ slope).argmax(2) == test_labels[:, f])
    return torch.stack(right, dim=1) & seen[:, None]


def against_position_mean(prediction: Tensor, target: Tensor, counted: Tensor) -> Tensor:
    """Squared error of a prediction over that of the trivial one: (M, N, T, D) twice and (M, N, T) bool to (M,).

    The trivial prediction knows the position and nothing else: the mean target there over all N images. 0 is perfect;
    1 is no better than the mean, whatever the loss says. Only `counted` positions enter both errors; the mean is over
    all images, since a mask says nothing about what it hides. NaN where the targets do not vary: there is nothing to
    predict. Member by member, to hold only one in float64.
    """
    ratios = []
    for own, goal, mask in zip(prediction, target, counted, strict=True):
        wanted = goal.double()
        error = torch.where(mask, (own.double() - wanted).square().sum(2), 0.0).sum()
        trivial = torch.where(mask, (wanted - wanted.mean(0)).square().sum(2), 0.0).sum()
        size = torch.where(mask, wanted.square().sum(2), 0.0).sum()
        ratios.append(_or_nan(error / trivial, trivial > ROUNDING**2 * size))
    return torch.stack(ratios)
