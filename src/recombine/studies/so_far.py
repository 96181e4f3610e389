"""The arms of a study that are finished so far, written into its folder before each training begins: so a study that is
at work, or was stopped, has a table of every finished arm.

What is written then is a study folder like any other, with `finished: null` and fewer arms: `recombine report` draws
it and `--reuse` takes its arms. A folder that is whole already stays so until it is written anew, whole.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

from recombine.files import load_json
from recombine.progress import say
from recombine.studies.sharing import share_out
from recombine.studies.store import Busy

Result = TypeVar("Result")


class SoFar(Generic[Result]):
    """`write` puts the arms that it is given into the folder `out` of a study whose arms are `names`."""

    def __init__(self, out: Path, names: Iterable[str], write: Callable[[dict[str, Result]], object]):
        self._out, self._names = out, list(names)
        self._write = write
        self._made: dict[str, Result] = {}
        self._written = 0
        facts = out / "study.json"
        self._whole = facts.is_file() and bool(load_json(facts).get("finished"))

    def make_all(self, make: Callable[[str, bool], Result], wait: bool) -> dict[str, Result]:
        """Every arm, as `share_out` gives them; where it raises Busy, what is there is written."""

        def keep(name: str, waiting: bool) -> Result:
            self._made[name] = make(name, waiting)
            return self._made[name]

        try:
            return share_out(self._names, keep, wait)
        except Busy:
            self.write()
            raise

    def write(self) -> None:
        """Called before a training begins: arms that the store has are read so fast that one writing does for all."""
        if not self._whole and len(self._made) > self._written:
            self._write({name: self._made[name] for name in self._names if name in self._made})
            if not self._written:
                say(f"what is finished so far is in {self._out}; `recombine report {self._out}` draws it at any time")
            self._written = len(self._made)
