"""The judge: a sample counts if the probe names it right AND it is a valid image of the world AND shows what was asked.

Valid means: the values read from it lie in the world's ranges, and their rendering matches it without a visible local
defect. How much defect and how much slack of the ranges is allowed is calibrated once for a study, on images that are
never reported on, between what must pass (real images and what the study's tokenizers make of them) and what must not
(`negatives.py`, and samples of half-trained models). The judge is then itself judged on fresh images; if it fails, the
study stops and says why.

Shapes: N images, F factors, P pixels a side.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from recombine.errors import UserError
from recombine.judges.negatives import far_from_real, make_negatives
from recombine.judges.probe import Probe
from recombine.judges.rerender import Paintable, Reading, paintable, read
from recombine.progress import track
from recombine.settings import Settings
from recombine.tokenizers import Tokenizer
from recombine.worlds import Composition, World, make_images

MUST = 0.99  # of every positive kind must pass, of every negative kind must be refused
AIM = 0.0015  # share of the calibration positives that each of the two limits may lose
LEAST_DEFECT = 0.02  # a defect limit below this would refuse differences no eye sees
MOST_SLACK = 1.0  # ranges at most doubled: there neighbouring sizes may touch; in-between colours start at tripled ones
LEAST_EARLY = 20  # half-trained samples that must be left after those near real images are out; fewer are not scored


class JudgingSettings(Settings):
    """How often and on how many samples the members are judged."""

    samples: int = Field(
        default=128, ge=1, le=100_000, description="images judged per composition, member and evaluation"
    )
    evaluations: int = Field(
        default=6, ge=1, le=10_000, description="how often, spread over the training; the last at its end"
    )
    raw: bool = Field(
        default=True,
        description="whether what the raw weights draw is judged too, beside the averaged ones; it doubles the time of "
        "judging",
    )
    quality: Literal["none", "last", "every"] = Field(
        default="last",
        description="at which evaluations the samples' quality as images is measured too (Frechet distance, precision, "
        "recall, diversity, copying)",
    )
    fid: bool = Field(
        default=False,
        description="whether that includes FID, in Inception's features: needs the package torch-fidelity, and its "
        "weights as a safetensors file that RECOMBINE_INCEPTION names",
    )

    @model_validator(mode="after")
    def _fid_is_measured(self) -> "JudgingSettings":
        if self.fid and self.quality == "none":
            raise ValueError("fid does nothing where quality is none: leave it out, or measure quality")
        return self


@dataclass(frozen=True)
class Verdicts:
    """What the judge says of N samples."""

    right: Tensor  # (N, F) bool: this factor, by the probe
    in_range: Tensor  # (N,) bool: what is read from it lies in the world's ranges
    clean: Tensor  # (N,) bool: no defect beside what is read from it
    valid: Tensor  # (N,) bool: both, so an image of the world, of whatever composition
    joint: Tensor  # (N,) bool: valid, all factors right by the probe, and read as the composition that was asked for
    joint_probe_only: Tensor  # (N,) bool: all factors right by the probe


class Judge:
    """A probe, a re-renderer and two calibrated limits. Made by `calibrate`, or by `build_judge` from its state."""

    def __init__(
        self, world: World, probe: Probe, threshold: float, slack: float, facts: Mapping[str, Any] | None = None
    ):
        self.world, self.probe = paintable(world), probe
        self.threshold, self.slack = threshold, slack
        self.facts = dict(facts or {})  # what `calibrate` measured, JSON-able

    @torch.no_grad()
    def judge(self, images: Tensor, labels: Tensor) -> Verdicts:
        """Verdicts on images (N, 3, P, P) that should show labels (N, F)."""
        right = self.probe.predict(images) == labels
        in_range, clean, shown = self._checked(read(self.world, images))
        probe_only = right.all(1)
        valid = in_range & clean
        return Verdicts(right, in_range, clean, valid, valid & probe_only & (shown == labels).all(1), probe_only)

    def valid(self, images: Tensor) -> Tensor:
        """Whether each is an image of the world at all, (N,) bool."""
        in_range, clean, _ = self._checked(read(self.world, images))
        return in_range & clean

    def _checked(self, reading: Reading) -> tuple[Tensor, Tensor, Tensor]:
        """In range, (N,); without defect, (N,); the composition that is shown, (N, F), -1 where out of range."""
        inside, shown = _in_ranges(self.world, reading, self.slack)
        return inside, reading.error <= self.threshold, shown

    def state(self) -> dict[str, Tensor]:
        """The limits as tensors, to be stored; the probe is stored on its own."""
        return {"limits": torch.tensor([self.threshold, self.slack], dtype=torch.float64)}


def _in_ranges(world: Paintable, reading: Reading, slack: float) -> tuple[Tensor, Tensor]:
    """Whether all that is read lies in the world's ranges with this slack, the place too, (N,); and the composition,
    (N, F), -1 where a factor's value is in no class."""
    shown = world.classify(reading.values, slack)
    return (shown >= 0).all(1) & world.placed(reading.values, slack), shown


def build_judge(
    world: World,
    probe: Probe,
    tensors: Mapping[str, Tensor],
    facts: Mapping[str, Any],
    device: torch.device | str = "cpu",
) -> Judge:
    """The judge with this probe whose `state` and facts were stored."""
    threshold, slack = tensors["limits"].tolist()
    return Judge(world, probe.to(device), threshold, slack, facts)


def calibrate(
    world: World,
    probe: Probe,
    tokenizers: Mapping[str, tuple[Tokenizer, Sequence[Composition]]],
    half_trained: Mapping[str, Tensor],
    seed: int,
    device: torch.device | str = "cpu",
    per_kind: int = 512,
) -> tuple[Judge, dict[str, Any]]:
    """A judge with one pair of limits for all tokenizers, and its JSON-able facts: the limits and the shares accepted
    and refused on fresh images. UserError where a share is too low.

    `tokenizers`: by name, each with the compositions it saw, since only those it can be expected to rebuild.
    `half_trained`: by name, samples (N, 3, P, P) of an early state. Those that are near some real image are left out
    (some samples are good even early), half of the rest is calibrated on and the other half reported.
    """
    world = paintable(world)
    with track(4, "judge") as advance:
        bank = make_images(world, _all(world), _each(world, 8192), seed, "calibration bank", device).images
        early = {name: far_from_real(world, images.to(device), bank, seed) for name, images in half_trained.items()}
        scored = {name: images for name, images in early.items() if len(images) >= LEAST_EARLY}
        advance(note="choosing limits")

        positives = _positives(world, tokenizers, per_kind, seed, "calibration", device)
        negatives = make_negatives(world, per_kind, seed, "calibration", device)
        negatives |= {name: images[0::2] for name, images in scored.items()}
        slack, threshold = _limits(world, positives, negatives)
        judge = Judge(world, probe, threshold, slack)
        advance(note="checking what must pass")

        fresh = _positives(world, tokenizers, per_kind, seed, "judge check", device)
        accepted = {name: _share(judge.valid(images)) for name, images in fresh.items()}
        advance(note="checking what must not")

        checked = make_negatives(world, per_kind, seed, "judge check", device)
        checked |= {name: images[1::2] for name, images in scored.items()}
        refused = {name: _share(~judge.valid(images)) for name, images in checked.items() if len(images)}
        advance()
    facts = {
        "threshold": threshold,
        "slack": slack,
        "accepted": accepted,
        "refused": refused,
        "half_trained_far": {name: [len(early[name]), len(half_trained[name])] for name in early},
    }
    _demand(accepted, refused, threshold, slack)
    judge.facts = facts
    return judge, facts


def _all(world: Paintable) -> list[Composition]:
    return list(itertools.product(*(range(len(factor.values)) for factor in world.factors)))


def _each(world: Paintable, total: int) -> int:
    """Images per composition that make about `total`."""
    return max(1, math.ceil(total / math.prod(len(factor.values) for factor in world.factors)))


def _share(of: Tensor) -> float:
    return round(float(of.float().mean()), 4)


def _positives(
    world: Paintable,
    tokenizers: Mapping[str, tuple[Tokenizer, Sequence[Composition]]],
    per_kind: int,
    seed: int,
    purpose: str,
    device: torch.device | str,
) -> dict[str, Tensor]:
    """What must pass, by name: four times `per_kind` real images, and as many reconstructions by every tokenizer."""

    def real(name: str, compositions: Sequence[Composition]) -> Tensor:
        each = math.ceil(4 * per_kind / len(compositions))
        return make_images(world, compositions, each, seed, f"{purpose} {name}", device).images

    made = {"real": real("real", _all(world))}
    for name, (tokenizer, compositions) in tokenizers.items():
        made[name] = tokenizer.decode(tokenizer.encode(real(name, compositions)).mean)
    return made


def _needed_slack(world: Paintable, reading: Reading) -> Tensor:
    """The least slack with which each reading lies in the ranges, (N,), in steps of 0.02; infinite if over the most."""
    needed = torch.full_like(reading.error, torch.inf)
    for hundredths in range(round(MOST_SLACK * 100), -1, -2):
        inside, _ = _in_ranges(world, reading, hundredths / 100)
        needed = torch.where(inside, hundredths / 100, needed)
    return needed


def _limits(world: Paintable, positives: dict[str, Tensor], negatives: dict[str, Tensor]) -> tuple[float, float]:
    """The two limits, each half-way by ratio between the worst that must pass and the best that must not, so that
    neither side is favoured: for the ranges, widened to 1 + slack times, between what the most demanding positive kind
    needs and where neighbouring classes may touch; for the defect, between the worst positive and the best negative.
    A range that ends where the positives do would refuse a small triangle for being a hundredth too large, and the
    sharper the tokenizers the more."""
    readings = [read(world, images) for images in positives.values()]
    strays = [_needed_slack(world, reading) for reading in readings]
    need = max(float(stray.quantile(1.0 - AIM, interpolation="higher")) for stray in strays)
    slack = math.sqrt((1.0 + min(need, MOST_SLACK)) * (1.0 + MOST_SLACK)) - 1.0
    worst = max(float(reading.error.quantile(1.0 - AIM)) for reading in readings)
    best = math.inf
    for images in negatives.values():
        reading = read(world, images)
        inside, _ = _in_ranges(world, reading, slack)
        # Those out of range are refused anyway; of the whole kind all but AIM must be refused.
        error = torch.where(inside, reading.error, torch.inf)
        if len(error):
            best = min(best, float(error.sort().values[int(AIM * len(error))]))
    worst = max(worst, LEAST_DEFECT)
    threshold = math.sqrt(worst * min(best, 9.0 * worst)) if best > worst else worst
    return slack, threshold


def _demand(accepted: dict[str, float], refused: dict[str, float], threshold: float, slack: float) -> None:
    """UserError that names every kind the judge fails on, and by how much."""
    faults = [f"accepts {share:.1%} of {name} images" for name, share in accepted.items() if share < MUST]
    faults += [f"refuses {share:.1%} of {name}" for name, share in refused.items() if share < MUST]
    if faults:
        raise UserError(
            f"The judge is not fit to judge: it {' and '.join(faults)}, where {MUST:.0%} is asked (defect limit "
            f"{threshold:.3f}, slack {slack:.2f}); the sharper the tokenizers, the tighter its limits: give them more "
            "steps, more codes or a smaller factor, or use larger images."
        )
