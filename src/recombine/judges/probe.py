"""The probe: a small network that names the value of every factor in an image.

It is trained on freshly rendered images of ALL compositions, with light blur and noise, so that its answer does not
depend on what a generator was trained on. It answers for any picture, garbage included: that is why it never judges
alone.

Shapes: N images, F factors, P pixels a side.
"""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recombine.errors import UserError
from recombine.judges.rerender import soften
from recombine.out_of_memory import in_batches
from recombine.progress import track
from recombine.randomness import Draws, seeds_tensor
from recombine.splits import code
from recombine.worlds import Composition, World, make_images

GATE = 0.99  # share of fresh real images of every composition that must be named right in all factors
BATCH = 256
MOST_STEPS = 1200
CHECK_EVERY = 50  # steps between looks at the calibration images
ENOUGH = 0.999  # training stops when the worst composition of the calibration images is this right, twice in a row
RATE = 3e-3
BLUR, NOISE = 0.6, 0.05  # most blur (share of the smoothed image) and noise (standard deviation) on training images
CHUNK = 4096


class Probe(nn.Module):
    """Space to depth, two convolutions, one hidden layer, one linear head per factor."""

    def __init__(self, counts: Sequence[int], image_size: int):
        super().__init__()
        self.counts, self.image_size = tuple(counts), image_size
        self.fold = 2 if image_size <= 32 else math.ceil(image_size / 16)  # pixels a side of one cell
        cells = math.ceil(image_size / self.fold)
        self.near = nn.Conv2d(3 * self.fold**2, 32, 3, padding=1)
        self.far = nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.hidden = nn.Linear(64 * math.ceil(cells / 2) ** 2, 96)
        self.heads = nn.Linear(96, sum(counts))

    def features(self, images: Tensor) -> Tensor:
        """The hidden layer, (N, 96)."""
        rim = -self.image_size % self.fold
        cells = F.pixel_unshuffle(F.pad(1.0 - images, (0, rim, 0, rim)), self.fold)  # white is 0
        return F.gelu(self.hidden(F.gelu(self.far(F.gelu(self.near(cells)))).flatten(1)))

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Logits per factor, (N, values of that factor)."""
        return self.heads(self.features(images)).split(self.counts, 1)

    @torch.no_grad()
    def predict(self, images: Tensor) -> Tensor:
        """The value named for each factor, (N, F) int64."""

        def named(part: Tensor) -> Tensor:
            return torch.stack([logits.argmax(1) for logits in self(part)], 1)

        return torch.cat(in_batches(named, images, CHUNK))


def build_probe(world: World, device: torch.device | str = "cpu") -> Probe:
    """A probe of the right form for this world, its weights unset; the global random state is left alone."""
    with torch.device("meta"):
        probe = Probe([len(factor.values) for factor in world.factors], world.image_size)
    return probe.to_empty(device=device)


def fit_probe(world: World, seed: int, device: torch.device | str = "cpu") -> tuple[Probe, dict]:
    """A trained probe and its accuracy on fresh real images; UserError if any composition is below the gate."""
    seeds = seeds_tensor([seed], device)
    compositions = list(itertools.product(*(range(len(factor.values)) for factor in world.factors)))
    probe = build_probe(world, device)
    initialise(probe, seeds)
    known = make_images(world, compositions, _per_composition(len(compositions)), seed, "probe calibration", device)
    every = torch.tensor(compositions, device=device)
    optimizer = torch.optim.Adam(probe.parameters(), lr=RATE, betas=(0.9, 0.98))
    done, passed = MOST_STEPS, 0
    with track(MOST_STEPS, "probe") as advance:
        for step in range(MOST_STEPS):
            warm, left = (step + 1) / 50, 1.0 - step / MOST_STEPS
            optimizer.param_groups[0]["lr"] = RATE * min(1.0, warm, left)
            images, labels = _batch(world, every, seeds, step)
            losses = [F.cross_entropy(logits, labels[:, i]) for i, logits in enumerate(probe(images))]
            optimizer.zero_grad()
            torch.stack(losses).sum().backward()
            optimizer.step()
            advance()
            if (step + 1) % CHECK_EVERY == 0:
                right = (probe.predict(known.images) == known.labels).all(1).view(len(compositions), -1)
                passed = passed + 1 if float(right.float().mean(1).min()) >= ENOUGH else 0
                if passed == 2:
                    done = step + 1
                    break
    probe.requires_grad_(False)
    accuracy = accuracy_by_composition(probe, world, compositions, seed, device)
    low = {code: share for code, share in accuracy.items() if share < GATE}
    if low:
        named = ", ".join(f"{code} ({share:.1%})" for code, share in low.items())
        raise UserError(
            f"The probe names fewer than {GATE:.0%} of the real images right for {named}: use larger images or fewer "
            "values per factor, since nothing can be judged that real images do not show."
        )
    return probe, {"accuracy": accuracy, "steps": done}


def accuracy_by_composition(
    probe: Probe, world: World, compositions: Sequence[Composition], seed: int, device: torch.device | str
) -> dict[str, float]:
    """Joint accuracy on real images that nothing was trained or tuned on."""
    fresh = make_images(world, compositions, _per_composition(len(compositions)), seed, "probe gate", device)
    right = (probe.predict(fresh.images) == fresh.labels).all(1).view(len(compositions), -1).float().mean(1)
    return dict(zip((code(composition) for composition in compositions), right.tolist(), strict=True))


def _per_composition(compositions: int) -> int:
    """Images of each: enough to see a percent, and bounded in all for large worlds."""
    return max(100, min(400, 8192 // compositions))


def initialise(probe: Probe, seeds: Tensor) -> None:
    """Weights normal with variance 2 / inputs (He et al. 2015), heads a tenth of that, biases 0."""
    draws = Draws(seeds, "probe weights")
    with torch.no_grad():
        for name, parameter in probe.named_parameters():
            if parameter.dim() == 1:
                parameter.zero_()
            else:
                gain = 0.1 if name.startswith("heads") else 1.0
                parameter.copy_(draws.normal(*parameter.shape)[0] * gain * math.sqrt(2.0 / parameter[0].numel()))


def _batch(world: World, every: Tensor, seeds: Tensor, step: int) -> tuple[Tensor, Tensor]:
    """Fresh images of random compositions, each softened and made noisy by its own light amount."""
    draws = Draws(seeds, "probe training", step)
    labels = every[draws.integers(len(every), BATCH)[0]]
    images = world.render(world.draw(labels, draws.uniform(BATCH, world.jitters)[0]))
    images = images + BLUR * draws.uniform(BATCH, 1, 1, 1)[0] * (soften(images) - images)
    return images + NOISE * draws.uniform(BATCH, 1, 1, 1)[0] * draws.normal(*images.shape)[0], labels
