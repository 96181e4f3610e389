"""The arms of a study that are finished so far, written into its folder before each training begins and before each
wait: so a study that is at work, or was stopped, has a table of its finished arms, of those too that other processes at
work on it have made.

What is written then is a study folder like any other, with `finished: null` and fewer arms: `recombine report` draws
it and `--reuse` takes its arms. A folder is never replaced by one of fewer arms, say because its store was lost.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from shlex import quote
from typing import Generic, TypeVar

from recombine.errors import UserError
from recombine.files import load_json
from recombine.progress import say
from recombine.studies.sharing import share_out
from recombine.studies.store import Busy

Result = TypeVar("Result")


class SoFar(Generic[Result]):
    """`write` puts the arms that it is given into the folder `out` of a study whose arms are `names`. `in_store` names
    those that the store has, whoever made them."""

    def __init__(
        self,
        out: Path,
        names: Iterable[str],
        write: Callable[[dict[str, Result]], object],
        in_store: Callable[[], Iterable[str]] = tuple,
    ):
        self._out, self._names, self._write, self._in_store = out, list(names), write, in_store
        self._made: dict[str, Result] = {}
        self._there = _arms_in(out)

    def make_all(self, make: Callable[[str, bool], Result], wait: bool) -> dict[str, Result]:
        """Every arm, as `share_out` gives them; where it raises Busy, what is there is written."""
        self._make = make

        def keep(name: str, waiting: bool) -> Result:
            if waiting:
                self.write()
            if name not in self._made:
                self._made[name] = make(name, waiting)
            return self._made[name]

        try:
            return share_out(self._names, keep, wait)
        except Busy:
            self.write()
            raise

    def write(self) -> None:
        """Called before what takes long: arms that the store has are read so fast that one writing does for all."""
        for name in self._in_store():
            if name not in self._made:
                self._made[name] = self._make(name, False)
        if self._there < set(self._made) < set(self._names):
            if not self._there:
                again = f"`recombine report {quote(str(self._out))}`"
                say(f"what is finished so far is in {self._out}; {again} draws it at any time")
            self._write({name: self._made[name] for name in self._names if name in self._made})
            self._there = set(self._made)


def _arms_in(out: Path) -> set[str]:
    """The arms that the folder has; none where it cannot be read, and is written anew."""
    try:
        return set(load_json(out / "study.json")["arms"])
    except (UserError, KeyError, TypeError):
        return set()
