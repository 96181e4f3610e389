"""Out of memory is no crash: fewer images at a time where that gives the same numbers, else one sentence that says what
to make smaller. (Members of an arm: `studies/memory.py`.)"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, Self, TypeVar

import torch

from recombine.errors import UserError

# What a full memory raises: torch and CUDA's libraries a RuntimeError of their own words, Python and numpy the other.
FULL = (RuntimeError, MemoryError)
SIGNS = ("out of memory", "allocate memory", "STATUS_ALLOC_FAILED")


class Sliced(Protocol):
    """A tensor, a range: what has a length and parts of its own kind."""

    def __len__(self) -> int: ...
    def __getitem__(self, part: slice, /) -> Self: ...


Items = TypeVar("Items", bound=Sliced)
Result = TypeVar("Result")


def ran_out(error: Exception) -> bool:
    """Whether this is what is raised when the memory, a GPU's or a CPU's, is full."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def release() -> None:
    """Give back what nobody holds any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def in_batches(work: Callable[[Items], Result], items: Items, at_once: int) -> list[Result]:
    """`work` on `at_once` items after the other, in order; where that runs out of memory, all over again with half as
    many. For work that takes each item by itself (a forward pass), so that its numbers do not depend on it but for
    rounding. Without items it is done once, on none of them."""
    at_once = max(1, min(at_once, len(items)))
    try:
        return [work(items[start : start + at_once]) for start in range(0, max(1, len(items)), at_once)]
    except FULL as error:
        if at_once == 1 or not ran_out(error):
            raise
    # Outside of the except block: there the error's traceback would hold the memory.
    release()
    return in_batches(work, items, (at_once + 1) // 2)


@contextmanager
def must_fit(what: str, fix: str) -> Iterator[None]:
    """Around (or as a decorator of) what cannot be done in smaller parts: out of memory is then one sentence."""
    try:
        yield
    except FULL as error:
        if not ran_out(error):
            raise
        raise UserError(f"{what} does not fit into memory: {fix}.") from error
