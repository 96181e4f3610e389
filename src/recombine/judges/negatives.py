"""Pictures that are surely no images of the world: what every judge must refuse.

Each kind is wrong by construction, and by a visible amount that is stated here and checked without any judge: a
negative that happens to look like a valid image is left out before the judge sees it, so that "refused" can honestly be
asked to reach 99 %. The amounts are shares of the ink (1 - image) of the picture that a negative was made from.

Shapes: N images, P pixels a side.
"""

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from recombine.judges.rerender import Paintable
from recombine.out_of_memory import in_batches
from recombine.randomness import Draws, seeds_tensor
from recombine.worlds import Images, make_images

VISIBLE = 0.3  # a negative differs from each picture it was made of by at least this share of the ink
CUT = (0.25, 0.5)  # share of its ink that a cut shape loses
MIXED = (0.3, 0.7)  # an in-between colour lies this far on the way from one colour to another
COLOUR_AWAY = 0.15  # and so far, in at least one channel, from every colour of the world: three times the jitter
TRIES = 4  # drawn for each one wanted, since some are left out

CUT_COMPASS = ((1.0, 0.0), (-1.0, 0.0), (0.0, -1.0))  # sides a straight cut takes away: right, left, top
# (never the bottom: an upright triangle without its bottom is a smaller triangle, and valid)


def _ink(images: Tensor) -> Tensor:
    """Total ink of each picture, (N,)."""
    return (1.0 - images).sum((1, 2, 3))


def _apart(images: Tensor, source: Tensor) -> Tensor:
    """How far pictures are from others, as a share of the others' ink, (N,)."""
    return (images - source).abs().sum((1, 2, 3)) / _ink(source).clamp(min=1e-6)


class Maker:
    """Draws negatives of one world for one (seed, purpose): other purposes give other pictures."""

    def __init__(self, world: Paintable, seed: int, purpose: str, device: torch.device | str = "cpu"):
        self.world, self.seed, self.purpose, self.device = world, seed, purpose, device
        self.compositions = list(itertools.product(*(range(len(factor.values)) for factor in world.factors)))

    def draws(self, what: str) -> Draws:
        return Draws(seeds_tensor([self.seed], self.device), f"negatives {self.purpose} {what}")

    def real(self, count: int, what: str) -> Images:
        """`count` real images of random compositions."""
        each = math.ceil(count / len(self.compositions))
        images = make_images(self.world, self.compositions, each, self.seed, f"{self.purpose} {what}", self.device)
        order = self.draws(f"{what} order").uniform(len(images.images))[0].argsort()[:count]
        return Images(images.images[order], images.labels[order], images.values[order])

    def unlike(self, count: int, what: str) -> tuple[Images, Images]:
        """Pairs of real images of different compositions."""
        first, second = self.real(count, f"{what} a"), self.real(count, f"{what} b")
        keep = (first.labels != second.labels).any(1)
        return _take(first, keep), _take(second, keep)

    def noise(self, count: int) -> Tensor:
        """Grain, smooth clouds, coarse blocks, plain canvases, and real images under heavy noise (sd 0.2)."""
        side, part = self.world.image_size, math.ceil(count / 5)
        draws = self.draws("noise")
        grain = draws.uniform(part, 3, side, side)[0]
        clouds = F.interpolate(draws.uniform(part, 3, 4, 4)[0], size=(side, side), mode="bilinear")
        blocks = F.interpolate(draws.uniform(part, 3, 4, 4)[0], size=(side, side), mode="nearest")
        plain = draws.uniform(part, 3, 1, 1)[0].expand(part, 3, side, side)
        heavy = self.real(part, "noise").images + 0.2 * draws.normal(part, 3, side, side)[0]
        return torch.cat([grain, clouds, blocks, plain, heavy]).clamp(0.0, 1.0)[:count]

    def blends(self, count: int) -> Tensor:
        """Averages of two compositions, 35 to 65 % of the one; the average differs visibly from both."""
        first, second = self.unlike(TRIES * count, "blends")
        share = 0.35 + 0.3 * self.draws("blends").uniform(len(first.images), 1, 1, 1)[0]
        mixed = share * first.images + (1.0 - share) * second.images
        return self._visible(mixed, (first.images, second.images), count)

    def halves(self, count: int) -> Tensor:
        """The left from one composition, the right from another, divided through the middle of the first one's shape.

        Never divided across: the upper half of an upright triangle is a smaller triangle, and valid.
        """
        first, second = self.unlike(TRIES * count, "halves")
        side = self.world.image_size
        middles = (torch.arange(side, device=first.images.device) + 0.5) / side
        left = middles[None, None, None] < first.values[:, 5, None, None, None]
        return self._visible(torch.where(left, first.images, second.images), (first.images, second.images), count)

    def between_colours(self, count: int) -> Tensor:
        """Faultless shapes in a colour between two of the world's, and far from all of them."""
        first, second = self.unlike(2 * TRIES * count, "colours")
        low, high = MIXED
        share = low + (high - low) * self.draws("colours").uniform(len(first.values), 1)[0]
        values = first.values.clone()
        values[:, 1:4] = share * first.values[:, 1:4] + (1.0 - share) * second.values[:, 1:4]
        colours = self.world.canonical(first.labels)[:, 1:4]
        colours = torch.unique(colours, dim=0)
        away = (values[:, None, 1:4] - colours[None]).abs().amax(2).amin(1) >= COLOUR_AWAY
        return self.world.render(values[away][:count])

    def cuts(self, count: int) -> Tensor:
        """Real images of which a wedge or a straight side of the shape is erased: 25 to 50 % of its ink."""
        real = self.real(TRIES * count, "cuts")
        images, side, number = real.images, self.world.image_size, len(real.images)
        draws = self.draws("cuts")
        wanted = CUT[0] + (CUT[1] - CUT[0]) * draws.uniform(number, 1)[0]
        middles = (torch.arange(side, device=images.device) + 0.5) / side
        right = (middles[None, None] - real.values[:, 5, None, None]).expand(-1, side, -1)  # (N, P, P) from the middle
        down = (middles[None, :, None] - real.values[:, 6, None, None]).expand(-1, -1, side)
        # A wedge is taken in the order of the angle to a random direction, a side in the order of the depth.
        heading = 2.0 * math.pi * draws.uniform(number, 1, 1)[0]
        wedge = torch.cos(torch.atan2(down, right) - heading)
        compass = torch.tensor(CUT_COMPASS, device=images.device)[draws.integers(len(CUT_COMPASS), number)[0]]
        straight = compass[:, :1, None] * right + compass[:, 1:, None] * down
        order = torch.where(draws.uniform(number, 1, 1)[0] < 0.5, wedge, straight).flatten(1)
        ink = (1.0 - images).sum(1).flatten(1)  # (N, P*P)
        rank = order.argsort(1, descending=True)
        taken = ink.gather(1, rank).cumsum(1) / ink.sum(1, keepdim=True)
        erased = torch.zeros_like(ink, dtype=torch.bool).scatter(1, rank, taken <= wanted)
        cut = torch.where(erased.view(number, 1, side, side), 1.0, images)
        lost = 1.0 - _ink(cut) / _ink(images)
        return cut[(lost >= CUT[0]) & (lost <= CUT[1])][:count]

    def mosaics(self, count: int) -> Tensor:
        """Every patch from one of four images of random compositions: what a half-trained token model draws."""
        sources = [self.real(TRIES * count, f"mosaics {i}").images for i in range(4)]
        return self._visible(self._patched(torch.stack(sources), "mosaics"), tuple(sources), count)

    def _patched(self, sources: Tensor, what: str) -> Tensor:
        """A choice among K pictures (K, N, 3, P, P) for each of 4x4 cells."""
        number, side = sources.shape[1], self.world.image_size
        choice = self.draws(what).integers(len(sources), number, 1, 4, 4)[0].float()
        choice = F.interpolate(choice, size=(side, side), mode="nearest").long()
        return sources.gather(0, choice[None].expand(1, -1, 3, -1, -1))[0]

    def shuffles(self, count: int) -> Tensor:
        """The four middle quarters of a real image in another order."""
        real = self.real(TRIES * count, "shuffles").images
        half, side = self.world.image_size // 2, self.world.image_size
        quarters = [real[..., i : i + half, j : j + half] for i in (0, side - half) for j in (0, side - half)]
        turned = torch.full_like(real, 1.0)
        # Each quarter moves to the place of its neighbour: corners that met in the middle now point outwards.
        for (i, j), quarter in zip(
            ((0, side - half), (side - half, side - half), (0, 0), (side - half, 0)), quarters, strict=True
        ):
            turned[..., i : i + half, j : j + half] = quarter
        return self._visible(turned, (real,), count)

    def pairs(self, count: int) -> Tensor:
        """Two shapes in one image, at opposite ends of a random line; each shows at least half its ink."""
        first, second = self.real(TRIES * count, "pairs a"), self.real(TRIES * count, "pairs b")
        heading = 2.0 * math.pi * self.draws("pairs").uniform(len(first.values), 1)[0]
        line = torch.cat([torch.cos(heading), torch.sin(heading)], 1)
        line = line / line.abs().amax(1, keepdim=True)  # to the border of a square, not of a disc
        pictures = []
        for real, sign in ((first, 1.0), (second, -1.0)):
            room = 0.5 - 1.35 * real.values[:, 4:5] - 0.5 / self.world.image_size  # the shape stays inside the image
            values = real.values.clone()
            values[:, 5:7] = 0.5 + sign * room * line
            pictures.append(self.world.render(values))
        both = torch.minimum(*pictures)
        total = _ink(pictures[0]) + _ink(pictures[1])
        seen = [(_ink(both) - _ink(other)) / _ink(own) for own, other in (pictures, pictures[::-1])]
        keep = (seen[0] >= 0.5) & (seen[1] >= 0.5) & (total > 0)
        return both[keep][:count]

    def _visible(self, images: Tensor, sources: tuple[Tensor, ...], count: int) -> Tensor:
        """The first `count` pictures that have ink and differ visibly from each of their sources."""
        apart = torch.stack([_apart(images, source) for source in sources]).amin(0)
        inked = _ink(images) >= VISIBLE * torch.stack([_ink(source) for source in sources]).amin(0)
        return images[(apart >= VISIBLE) & inked][:count]


def _take(images: Images, keep: Tensor) -> Images:
    return Images(images.images[keep], images.labels[keep], images.values[keep])


KINDS: dict[str, Callable[[Maker, int], Tensor]] = {
    "noise": Maker.noise,
    "blends": Maker.blends,
    "halves": Maker.halves,
    "in-between colours": Maker.between_colours,
    "cut shapes": Maker.cuts,
    "mosaics": Maker.mosaics,
    "shuffled quarters": Maker.shuffles,
    "two shapes": Maker.pairs,
}


def make_negatives(
    world: Paintable, count: int, seed: int, purpose: str, device: torch.device | str = "cpu"
) -> dict[str, Tensor]:
    """At most `count` pictures of each kind, by the kind's name."""
    maker = Maker(world, seed, purpose, device)
    return {name: make(maker, count) for name, make in KINDS.items()}


def far_from_real(world: Paintable, images: Tensor, bank: Tensor, seed: int) -> Tensor:
    """Those of the images that are surely invalid: farther from every image of a bank of real ones than real ones are.

    For samples of half-trained models, of which some are good by luck. The yardstick is the distance of fresh real
    images to their nearest in the bank: twice its 99th percentile. No judge is asked.
    """
    maker = Maker(world, seed, "yardstick", images.device)
    usual = _nearest(maker.real(1024, "yardstick").images, bank)
    return images[_nearest(images, bank) > 2.0 * usual.quantile(0.99)]


def _nearest(images: Tensor, bank: Tensor) -> Tensor:
    """Euclidean distance to the nearest image of the bank, (N,)."""
    bank = bank.flatten(1)
    return torch.cat(in_batches(lambda part: torch.cdist(part.flatten(1), bank).amin(1), images, 1024))
