"""Judging a decoder over its whole plane: every pair (x, y), or every angle, is asked for once and compared.

Definitions, per image:

- mse: mean squared error over pixels; blank: that of a picture that is background everywhere. An error means little by
  itself (a blank picture is nearly right, most pixels being background), so `relative` = mean mse / mean blank is what
  to read: 1 is as bad as drawing nothing.
- ssim: structural similarity (Wang et al. 2004), Gaussian window of standard deviation 1.5 cut at 11 pixels, values
  from 0 to 1, mirrored at the border. It means little by itself too (at the published size a blank picture has 0.88),
  so `dissimilarity` = (1 - mean ssim) / (1 - mean blank_ssim) is what to read, with `blank_ssim` that of a picture that
  is background everywhere: 1 is as unlike the truth as drawing nothing, 0 is the truth. A ratio of means over cells, as
  `relative` is. Ours.
- found: where the picture differs most from the background in the direction of the ink: a pixel (x, y). Of digits, the
  angle of the plane whose picture is nearest.
- position_error: distance from there to what was asked for, in pixels (of digits along the circle, in degrees).
- right: each factor found within 1 (pixel, or degree); hit: all of them.
- fade_mse: of digits, the error against the cross-fade of the two edges of the gap (`cross_fade`) instead of the truth:
  smaller than mse where the picture is rather a superposition of what was memorised. NaN for bumps, whose superposition
  is measured in `anatomy`.
- valid: the picture is one of the world's at all: its squared error against the world's own picture at the found place
  is at most half of a blank's. Ours; two faint bumps are not valid, however near one of them is.

A generator that samples draws each cell n times. Every sample is judged by itself and the numbers are averaged: its
errors are means, its shares are shares of samples.

Shapes: M members, C cells, F factors, n samples of a cell, P pixels a side.
"""

from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn import functional as F

from recombine.curated import Plane

NEAR = 1.0  # a factor is right when found within so many pixels, or degrees
VALID_SHARE = 0.5  # of a blank's error
WINDOW, WINDOW_SIGMA = 11, 1.5
SSIM_C1, SSIM_C2 = 0.01**2, 0.03**2  # Wang et al. 2004, for values from 0 to 1


@dataclass(frozen=True)
class Judged:
    """One number per member and cell, (M, C) each; `right` is (M, C, F). Of samples, all with an axis n in front."""

    mse: Tensor
    ssim: Tensor
    position_error: Tensor
    right: Tensor
    valid: Tensor
    fade_mse: Tensor

    @property
    def hit(self) -> Tensor:
        return self.right.all(-1)

    @property
    def joint(self) -> Tensor:
        """Every factor right, in a valid picture."""
        return self.hit & self.valid

    @property
    def samples(self) -> int:
        """How often each cell was drawn."""
        return len(self.mse) if self.mse.dim() == 3 else 1

    def means(self) -> dict[str, Tensor]:
        """Every number by name as float (M, C), `right` (M, C, F): the mean over samples where there are some."""
        numbers = {field.name: getattr(self, field.name) for field in fields(self)}
        numbers |= {"hit": self.hit, "joint": self.joint}
        return {word: t.float().mean(0) if self.mse.dim() == 3 else t.float() for word, t in numbers.items()}

    def of_members(self, some: range) -> "Judged":
        """What is said of some members, without a gap between them."""
        axis = int(self.mse.dim() == 3)
        return Judged(*(getattr(self, field.name).narrow(axis, some.start, len(some)) for field in fields(self)))

    def to(self, device: torch.device) -> "Judged":
        return Judged(*(getattr(self, field.name).to(device) for field in fields(self)))

    def tensors(self) -> dict[str, Tensor]:
        """For a file; `from_tensors` reads them back."""
        return {field.name: getattr(self, field.name).cpu() for field in fields(self)}

    @staticmethod
    def from_tensors(tensors: dict[str, Tensor]) -> "Judged":
        return Judged(**{field.name: tensors[field.name] for field in fields(Judged)})


def judge_plane(images: Tensor, plane: Plane) -> Judged:
    """Judge the pictures (M, C, P, P) of every cell of the plane."""
    images = images.float().nan_to_num(0.0, 0.0, 0.0)  # one that diverged: black, and it is said
    mse = (images - plane.images).square().mean((2, 3))
    similarity = torch.stack([ssim(member, plane.images) for member in images])
    place = _found(images, plane)  # (M, C) cells
    away = (plane.cells[place] - plane.cells).abs()  # (M, C, F)
    if plane.cells.shape[1] == 1:  # an angle
        away = torch.minimum(away, 360.0 - away)
    valid = (images - plane.images[place]).square().mean((2, 3)) <= VALID_SHARE * plane.blank[place]
    fade = torch.full_like(mse, torch.nan)
    if plane.cells.shape[1] == 1:
        fade = (images - cross_fade(plane)).square().mean((2, 3))
    return Judged(mse, similarity, away.square().sum(-1).sqrt(), away <= NEAR, valid, fade)


def judge_samples(samples: Tensor, plane: Plane) -> Judged:
    """Judge the samples (M, C, n, P, P) of every cell of the plane, each by itself."""
    each = [judge_plane(one, plane) for one in samples.unbind(2)]
    return Judged(*(torch.stack([getattr(one, field.name) for one in each]) for field in fields(Judged)))


def _found(images: Tensor, plane: Plane) -> Tensor:
    """The cell that each picture shows, (M, C)."""
    ink = (images - plane.background) * (-1.0 if plane.background > 0.5 else 1.0)
    if plane.cells.shape[1] == 2:
        return ink.flatten(2).argmax(-1)  # cells are in the order of pixels
    truth = plane.images.flatten(1)  # nearest picture: |a - b|^2 = a^2 - 2 a b + b^2, and a^2 is the same for all
    rows = images.flatten(2)
    return torch.stack([(truth.square().sum(1) - 2.0 * member @ truth.T).argmin(1) for member in rows])


def ssim(a: Tensor, b: Tensor) -> Tensor:
    """Structural similarity of images (C, P, P) with images (C, P, P), (C,)."""
    reach = min(WINDOW // 2, (a.shape[-1] - 1) // 2)
    offset = torch.arange(-reach, reach + 1, device=a.device, dtype=a.dtype)
    weight = torch.exp(-(offset**2) / (2.0 * WINDOW_SIGMA**2))
    weight = weight / weight.sum()

    def blur(x: Tensor) -> Tensor:
        x = F.pad(x[:, None], (reach,) * 4, mode="reflect")
        x = F.conv2d(x, weight.view(1, 1, 1, -1))
        return F.conv2d(x, weight.view(1, 1, -1, 1))[:, 0]

    mean_a, mean_b = blur(a), blur(b)
    variance_a, variance_b = blur(a * a) - mean_a**2, blur(b * b) - mean_b**2
    shared = blur(a * b) - mean_a * mean_b
    top = (2 * mean_a * mean_b + SSIM_C1) * (2 * shared + SSIM_C2)
    bottom = (mean_a**2 + mean_b**2 + SSIM_C1) * (variance_a + variance_b + SSIM_C2)
    return (top / bottom).mean((1, 2))


def blank_ssim(plane: Plane) -> Tensor:
    """Structural similarity of a blank image with the true one at every cell, (C,)."""
    return ssim(torch.full_like(plane.images, plane.background), plane.images)


def summarise(judged: Judged, plane: Plane, where: Tensor) -> dict[str, Tensor]:
    """Means over the cells `where` (C,) bool, (M,) each: mse, relative, ssim, dissimilarity, position_error, hit,
    valid, joint; `relative` and `dissimilarity` are ratios of means."""
    numbers = {word: t[:, where].mean(1) for word, t in judged.means().items()}
    numbers["relative"] = numbers["mse"] / plane.blank[where].mean()
    numbers["dissimilarity"] = (1.0 - numbers["ssim"]) / (1.0 - blank_ssim(plane)[where].mean())
    words = ("mse", "relative", "ssim", "dissimilarity", "position_error", "hit", "valid", "joint")
    return {word: numbers[word] for word in words}


def by_depth(judged: Judged, plane: Plane) -> dict[float, dict[str, Tensor]]:
    """The summary at every depth inside the hole, from the rim (0) inward."""
    depths = sorted(set(plane.depth[~plane.trained].tolist()))
    return {depth: summarise(judged, plane, plane.depth == depth) for depth in depths}


def cross_fade(plane: Plane) -> Tensor:
    """Of a plane of angles: the pixel-wise linear interpolation between the pictures at the two edges of the gap, for
    every angle in it; the true pictures elsewhere. (C, P, P). What a superposition of memories would draw."""
    angle, held = plane.cells[:, 0], ~plane.trained
    low = int(held.nonzero()[0]) - 1
    high = (int(held.nonzero()[-1]) + 1) % len(angle)
    span = (angle[high] - angle[low]) % 360.0
    share = (((angle - angle[low]) % 360.0) / span)[:, None, None]
    faded = (1.0 - share) * plane.images[low] + share * plane.images[high]
    return torch.where(held[:, None, None], faded, plane.images)
