"""Arms, and before them tokenizers and probe, shared out between processes that work on one study with one store: each
takes what nobody is at work on.

So a study runs on several GPUs or machines by giving its command on each, with one --store and an --out of its own.
Each ends with the whole study; or, told not to wait, without the arms that others are at work on.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from recombine.report.words import join
from recombine.studies.store import Busy

Result = TypeVar("Result")


def share_out(names: Iterable[str], make: Callable[[str, bool], Result], wait: bool = True) -> dict[str, Result]:
    """`make(name, wait)` for every arm (or tokenizer), in order; those that another process is at work on come last,
    and are waited for then. If that process ends without them, they are made here, an arm from its last checkpoint.
    Without `wait` raises Busy, with their names, where some are left."""
    names = list(names)
    made: dict[str, Result] = {}
    for waiting in (False, wait):
        for name in names:
            if name in made:
                continue
            try:
                made[name] = make(name, waiting)
            except Busy:
                continue
    if left := [name for name in names if name not in made]:
        raise Busy(join(left))
    return {name: made[name] for name in names}
