"""Members that do not fit into memory together: fewer at a time, and it is said. Members never touch each other, so
their numbers do not depend on it (but for rounding)."""

from collections.abc import Callable

from recombine.errors import UserError
from recombine.out_of_memory import FULL, must_fit, ran_out, release
from recombine.progress import say

Seeds = tuple[int, ...]

# Decorates what runs a whole study: for all that no part of it has a sentence of its own for.
study_must_fit = must_fit("the study", "take a smaller world.image_size, or free the memory that other programs hold")


def halves(seeds: Seeds) -> tuple[Seeds, Seeds]:
    """The first half is the larger one."""
    half = (len(seeds) + 1) // 2
    return seeds[:half], seeds[half:]


def in_parts(
    name: str, seeds: Seeds, made: Callable[[Seeds], bool], make: Callable[[Seeds], None], most: int | None = None
) -> list[Seeds]:
    """Make the members of an arm together, or where that runs out of memory each half by itself, and so on; more than
    `most` at a time are known not to fit. Returns the seeds of each part. What an earlier call has `made`, together or
    in parts, is not made again."""
    parts = _made_parts(seeds, made)
    if parts is not None:
        return parts
    first, second = halves(seeds)
    if most is None and (before := _some_made(seeds, made)):
        most = before  # an earlier call had to make parts of that size
    if most is None or len(seeds) <= most:
        try:
            make(seeds)
        except FULL as error:
            if not ran_out(error):
                raise
            if len(seeds) == 1:
                raise alone_too_large(name) from error
        else:
            return [seeds]
        # Outside of the except block: there the error's traceback would hold the memory.
        release()
        say(f"arm {name}: {len(seeds)} members do not fit into memory together; going on with {len(first)} at a time")
    parts = in_parts(name, first, made, make, most)
    return parts + in_parts(name, second, made, make, max(len(part) for part in parts))


def _made_parts(seeds: Seeds, made: Callable[[Seeds], bool]) -> list[Seeds] | None:
    """The parts that an earlier call has made of these members; None if any is missing."""
    if made(seeds):
        return [seeds]
    if len(seeds) == 1:
        return None
    parts = [_made_parts(half, made) for half in halves(seeds)]
    return None if None in parts else [part for some in parts if some for part in some]


def _some_made(seeds: Seeds, made: Callable[[Seeds], bool]) -> int | None:
    """How many members the largest part has that an earlier call has made; None if it has made none."""
    if made(seeds):
        return len(seeds)
    if len(seeds) == 1:
        return None
    return max((found for half in halves(seeds) if (found := _some_made(half, made))), default=None)


def timed_in_parts(name: str, seeds: Seeds, seconds_of: Callable[[Seeds], float]) -> tuple[float, int]:
    """What `in_parts` will take, and how many members it will have at a time: `seconds_of` times the first part."""
    try:
        return seconds_of(seeds), len(seeds)
    except FULL as error:
        if not ran_out(error):
            raise
        if len(seeds) == 1:
            raise alone_too_large(name) from error
    release()
    first, _ = halves(seeds)
    seconds, at_once = timed_in_parts(name, first, seconds_of)
    return seconds * len(seeds) / len(first), at_once


def alone_too_large(name: str) -> UserError:
    return UserError(
        f"arm {name} does not fit into memory even with one member: take a smaller training.batch, fewer "
        "training.images, a smaller model or fewer judging.samples."
    )
