"""Measures how good the samples of an arm are as images, and how good other images would be in their place.

Samples of a composition are compared with fresh real images of it. The same is done with as many fresh real images in
the place of the samples (`real`: what a perfect model would get with so few), and with real images redrawn by the arm's
tokenizer (`rebuilt`: what a perfect model on these tokens would get). See quality_table.ABOUT for each number in words.

Shapes: M members (or sets), K compositions, n samples of each, D features, Q numbers of an image.
"""

import math
from typing import Any

import torch
from torch import Tensor

from recombine.judges import Probe
from recombine.judges.inception import Network
from recombine.judges.quality import Moments, frechet, mean_distance, moments, nearest, neighbourhoods, root
from recombine.splits import code
from recombine.studies.stages import SHARED_SEED, FittedTokenizer, Setting
from recombine.worlds import Images, make_images

REFERENCE = 1024  # real images of each composition that moments are taken from (fewer in all where there are many)
MOST_REFERENCE = 32_768  # in all
SETS = 4  # of real and of rebuilt images that are measured in the place of members; their mean is given
COPY = 0.01  # quantile of fresh images' distances to the training images below which a sample counts as copied
FEWEST_FRESH = 1024  # fresh images at least whose quantile that is: ten lie below it
CHUNK = 4096  # images whose features are taken at once

Rows = list[dict[str, Any]]
# By metric: (M, K) of compositions (None: not measured for each), and (M,) of each level.
Scores = dict[str, tuple[Any, dict[int, Tensor]]]


class Quality:
    """Everything that an arm's samples are measured against, made once, and the measuring."""

    @torch.no_grad()
    def __init__(
        self,
        setting: Setting,
        entry: FittedTokenizer,
        probe: Probe,
        training: Images,
        network: Network | None = None,  # FID's, where that is asked for
    ):
        self.setting, self.entry, self.probe = setting, entry, probe
        self.samples = setting.study.judging.samples
        compositions = setting.split.compositions
        self.levels = torch.tensor([setting.split.level(c) for c in compositions])

        def fresh(each: int, purpose: str) -> Tensor:
            """Images (K, each, 3, P, P)."""
            made = make_images(setting.world, compositions, each, SHARED_SEED, f"quality {purpose}", setting.device)
            return made.images.view(len(compositions), each, *made.images.shape[1:])

        pictures = fresh(max(2, min(REFERENCE, MOST_REFERENCE // len(compositions))), "reference")
        reference = self._features(pictures)
        # One number for all: distances are then in units of how much real images vary.
        self.scale = reference.flatten(0, 1).var(0).sum().rsqrt()
        reference = reference * self.scale
        self.own = _with_root(moments(reference))  # of each composition, (K, D)
        self.of_level = {
            level: _with_root(moments(reference[self.levels == level].flatten(0, 1)))
            for level in self.levels.unique().tolist()
        }
        self.network = network
        self.inception: dict[int, tuple[Moments, Tensor]] = {}
        if network is not None:
            self.inception = {
                level: _with_root(moments(network(pictures[self.levels == level].flatten(0, 1))))
                for level in self.of_level
            }
        neighbours = fresh(self.samples, "neighbours")
        self.neighbours = self._features(neighbours) * self.scale  # (K, n, D)
        self.alike = mean_distance(self.neighbours), mean_distance((1.0 - neighbours).flatten(2))  # (K,) each
        self.bank = self._ink(self._rebuilt(training.images)).flatten(1)  # (N, Q)
        real = torch.stack([fresh(self.samples, f"set {number}") for number in range(SETS)])  # (SETS, K, n, 3, P, P)
        rebuilt = self._rebuilt(real.flatten(0, 2)).view_as(real)
        each = max(2 * self.samples, -(-FEWEST_FRESH // len(setting.split.train)))
        known = make_images(setting.world, setting.split.train, each, SHARED_SEED, "quality copies", setting.device)
        apart = self._nearest(self._rebuilt(known.images)).double()
        self.threshold, self.usual = apart.quantile(COPY), apart.median()
        self.references = {"real": self._score(real), "rebuilt": self._score(rebuilt)}

    @torch.no_grad()
    def look(self, images: Tensor, step: int) -> Rows:
        """The rows of samples (M, K * n, 3, P, P) in the order of the compositions, without the study's and the arm's
        name."""
        codes = [code(c) for c in self.setting.split.compositions]
        found = self._score(images.view(len(images), len(codes), self.samples, *images.shape[2:]))
        rows: Rows = []
        for metric, (each, of_level) in found.items():
            places: list[tuple[int, str | None, Tensor, dict[str, Tensor]]] = [
                (level, None, values, {kind: self.references[kind][metric][1][level] for kind in self.references})
                for level, values in of_level.items()
            ]
            places += [
                (
                    int(self.levels[place]),
                    name,
                    each[:, place],
                    {kind: own[metric][0][:, place] for kind, own in self.references.items()},
                )
                for place, name in enumerate(codes)
                if each is not None
            ]
            for level, composition, values, beside in places:
                others = {kind: _finite(number.mean().item()) for kind, number in beside.items()}
                rows += [
                    {
                        "member": member,
                        "seed": seed,
                        "step": step,
                        "level": level,
                        "composition": composition,
                        "metric": metric,
                        "value": _finite(value),
                        **others,
                        "n": self.samples,
                    }
                    for member, (seed, value) in enumerate(zip(self.setting.study.seeds, values.tolist(), strict=True))
                ]
        return rows

    def _score(self, images: Tensor) -> Scores:
        """All metrics of images (M, K, n, 3, P, P)."""
        features = self._features(images) * self.scale  # (M, K, n, D)
        kinds = images.shape[1]
        ink = self._ink(images).flatten(3)  # (M, K, n, Q)
        each = {"frechet": frechet(moments(features), *self.own)}
        around = [neighbourhoods(features[:, place], self.neighbours[place]) for place in range(kinds)]
        each |= {name: torch.stack([one[name] for one in around], 1) for name in around[0]}
        alike = [torch.stack([mean_distance(x[:, place]) for place in range(kinds)], 1) for x in (features, ink)]
        each |= {
            name: own / real
            for name, own, real in zip(("diversity", "diversity_pixels"), alike, self.alike, strict=True)
        }
        apart = self._nearest(images).double()
        each["nearest"] = apart.median(2).values / self.usual
        each["copied"] = (apart <= self.threshold).double().mean(2)
        levels = self.of_level
        found: Scores = {
            name: (values, {k: values[:, self.levels == k].mean(1) for k in levels}) for name, values in each.items()
        }
        pooled = {k: frechet(moments(features[:, self.levels == k].flatten(1, 2)), *own) for k, own in levels.items()}
        found |= {"frechet": (each["frechet"], pooled)}
        if self.network is not None:
            found |= {"fid": (None, {k: self._fid(images[:, self.levels == k].flatten(1, 2), k) for k in levels})}
        return found

    def _fid(self, images: Tensor, level: int) -> Tensor:
        """(M,) of images (M, N, 3, P, P), one member at a time: the matrices are large."""
        assert self.network is not None
        return torch.stack([frechet(moments(self.network(own)), *self.inception[level]) for own in images])

    def _features(self, images: Tensor) -> Tensor:
        """(..., D) of images (..., 3, P, P), by the probe."""
        flat = images.flatten(0, -4)
        found = torch.cat([self.probe.features(part) for part in flat.split(CHUNK)])
        return found.view(*images.shape[:-3], -1)

    def _ink(self, images: Tensor) -> Tensor:
        """Images with white at 0: sums of squares lose less to rounding."""
        return 1.0 - images

    def _rebuilt(self, images: Tensor) -> Tensor:
        tokenizer = self.entry.tokenizer
        return tokenizer.decode(tokenizer.encode(images).mean)

    def _nearest(self, images: Tensor) -> Tensor:
        """Distance to the nearest training image, as the tokenizer redraws it; (...) for images (..., 3, P, P)."""
        flat = self._ink(images).flatten(0, -4).flatten(1)
        return nearest(flat, self.bank).view(images.shape[:-3])


def _finite(value: float) -> float | None:
    """None for what is not a number: distances of one sample from itself, say, over none."""
    return value if math.isfinite(value) else None


def _with_root(found: Moments) -> tuple[Moments, Tensor]:
    return found, root(found.covariance)
