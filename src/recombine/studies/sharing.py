"""Arms, and before them tokenizers and probe, shared out between processes that work on one study with one store: each
takes what nobody is at work on.

So a study runs on several GPUs or machines by giving its command on each, with one --store and an --out of its own.
Each ends with the whole study.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from recombine.studies.store import Busy

Result = TypeVar("Result")


def share_out(names: Iterable[str], make: Callable[[str, bool], Result]) -> dict[str, Result]:
    """`make(name, wait)` for every arm (or tokenizer), in order; those that another process is at work on come last,
    and are waited for then. If that process ends without them, they are made here, an arm from its last checkpoint."""
    names = list(names)
    made: dict[str, Result] = {}
    for name in names:
        try:
            made[name] = make(name, False)
        except Busy:
            continue
    return {name: made[name] if name in made else make(name, True) for name in names}
