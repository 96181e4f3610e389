"""The bridge between the two studies: a generator of the one where a decoder of the other would stand.

Such an arm has everything that an arm with a decoder has: world, support, training sets, code. What differs:

- pictures become tokens. The tokenizer is fitted on the plane's own pictures, of all cells or of the trained ones
  (`sees`), and on every stripe where the arm trains on stripes; with continuous centres too it sees whole cells alone.
  Its scale is that of trained cells. `ceiling` is what the judge says of its reconstructions: a generator of codes
  cannot be expected to do better.
- the code is told as full conditioning: each factor's columns through a network of their own (`conditioning.py`), as
  described factors are in the objectives study. Nothing is ever withheld.
- it samples: a cell is drawn n times, and each sample is judged (`judges.plane.judge_samples`).

Shapes: M members, C cells, n samples of a cell, R rows of the data's table, W columns of the code, P pixels a side.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from recombine.curated import CuratedData, Plane
from recombine.encodings import Encoding
from recombine.generators import Generator, build_generator
from recombine.judges.plane import judge_plane, summarise
from recombine.nets.backbone import SIZES
from recombine.progress import say
from recombine.randomness import Draws
from recombine.studies.rendering import TOLD, RenderingArm
from recombine.studies.stages import RECIPES, SHARED_SEED, ready, to_images, token_shape
from recombine.studies.store import Store
from recombine.tokenizers import Tokenizer, build_tokenizer, fit_tokenizer
from recombine.training import Trainer
from recombine.worlds.base import Factor
from recombine.worlds.bumps import Bumps

SAMPLED_AT_ONCE = 1024  # pictures per member: a constant, so that a member's samples do not depend on the others


@dataclass(frozen=True)
class PlaneTokenizer:
    """A tokenizer fitted on a plane, and what is known of it: error, ceiling, seconds."""

    tokenizer: Tokenizer
    facts: dict[str, Any]


def told_factors(code: Encoding) -> tuple[Factor, ...]:
    """The factors as conditioning knows them: each described by its columns of the code."""
    names = ("angle",) if code.circle else ("x", "y")
    return tuple(Factor(name, (), width) for name, width in zip(names, code.widths, strict=True))


def seen_images(arm: RenderingArm, plane: Plane, trained_only: bool) -> Tensor:
    """What a tokenizer is fitted on, (N, 1, P, P), on the plane's device."""
    images = plane.images[plane.trained] if trained_only else plane.images
    world, parts = arm.build_world(), [images]
    if arm.data.stripes and isinstance(world, Bumps):
        line = torch.arange(world.image_size, device=images.device).float()[:, None].expand(-1, 2)
        parts += [world.stripe(line, factor)[:, 0] for factor in (0, 1)]
    return torch.cat(parts)[:, None]


def open_tokenizer(arm: RenderingArm, plane: Plane, store: Store, device: torch.device) -> PlaneTokenizer | None:
    """The tokenizer of an arm with a generator, fitted or taken from the store; None for a decoder."""
    if arm.tokenizer is None:
        return None
    recipe = {
        "version": RECIPES["tokenizer"],
        "world": arm.world.model_dump(mode="json"),
        "support": arm.support.model_dump(mode="json"),
        "stripes": arm.data.stripes > 0,
        "tokenizer": arm.tokenizer.model_dump(mode="json"),
        "seed": SHARED_SEED,
    }
    kind = arm.tokenizer.kind

    def fit() -> None:
        fitted, made = fit_on_plane(arm, plane.to(device))
        store.save("tokenizer", recipe, fitted.state_dict(), made)
        held = made["ceiling"]["held_out"]
        say(
            f"tokenizer {kind}: fitted in {made['seconds']:.0f} s; of its reconstructions of held-out "
            f"cells {held['joint']:.0%} are right and valid, error relative to blank {held['relative']:.2g}"
        )

    # The lock of an arm is held meanwhile. No circle: who fits a tokenizer asks for no other lock.
    store.once("tokenizer", recipe, f"tokenizer {kind}", fit)
    tensors, facts = store.load("tokenizer", recipe, device)
    tokenizer = build_tokenizer(arm.tokenizer, arm.world.image_size, 1).to(device)
    tokenizer.load_state_dict(tensors)
    return PlaneTokenizer(tokenizer.eval().requires_grad_(False), facts)


def fit_on_plane(arm: RenderingArm, plane: Plane) -> tuple[Tokenizer, dict[str, Any]]:
    """A tokenizer fitted on a plane's pictures, with its ceiling over trained and held-out cells."""
    assert arm.tokenizer is not None
    trained = seen_images(arm, plane, trained_only=True)
    only = getattr(arm.tokenizer, "sees", "all") == "train"
    tokenizer, facts = fit_tokenizer(
        arm.tokenizer, trained if only else seen_images(arm, plane, trained_only=False), SHARED_SEED
    )
    tokenizer.set_scale(trained)  # of what generators train on: held-out cells would shift it
    rebuilt = tokenizer.decode(tokenizer.encode(plane.images[:, None]).mean)[:, 0]
    judged = judge_plane(rebuilt[None], plane)
    regions = {"trained": plane.trained, "held_out": ~plane.trained}
    facts["scale"] = tokenizer.scale.item()
    facts["ceiling"] = {
        region: {word: value.item() for word, value in summarise(judged, plane, where).items()}
        for region, where in regions.items()
    }
    return tokenizer, facts


def make_generator(
    arm: RenderingArm, seeds: tuple[int, ...], code: Encoding, tokenizer: Tokenizer, device: torch.device
) -> Generator:
    """The members of an arm with a generator, with fresh weights."""
    assert arm.generator is not None and arm.training.size is not None
    size = SIZES[arm.training.size]
    built = build_generator(arm.generator, token_shape(tokenizer), TOLD, told_factors(code), size, seeds)
    return ready(built, tokenizer, device)


def tokenized(data: CuratedData, tokenizer: Tokenizer, takes: str) -> CuratedData:
    """Training sets whose pictures (R, P, P) are tokens: ids (R, T), or latents (R, T, channels)."""
    tokens = tokenizer.encode(data.x[:, None])
    if takes == "ids":
        assert tokens.ids is not None
        return replace(data, x=tokens.ids)
    return replace(data, x=tokens.mean, spread=tokens.std)


@torch.no_grad()
def draw_samples(trainer: Trainer, tokenizer: Tokenizer, codes: Tensor, samples: int) -> Tensor:
    """Pictures (M, C, n, P, P) for codes (C, W); the noise follows from seed and step."""
    asked = codes.repeat_interleave(samples, 0)  # (C * n, W)
    drawn = []
    for place, some in enumerate(asked.split(SAMPLED_AT_ONCE)):
        draws = Draws(trainer.seeds, f"evaluation {place}", trainer.step)
        tokens = trainer.generator.sample(some.expand(len(trainer.seeds), -1, -1), draws)
        drawn.append(to_images(tokenizer, tokens)[:, :, 0])
    return torch.cat(drawn, dim=1).unflatten(1, (len(codes), samples))
