"""Progress bars for long steps, and lines of text that do not tear them.

On a terminal every `track` is a bar with elapsed time and time left; a `track` inside another joins the same live
display and leaves it when done. Where standard output is not a terminal (a pipe, a log, a test) a `track` prints a line
a minute, so that a log of a night's run tells where it is; what is over sooner is silent. A caller never asks where it
runs.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # rich costs a tenth of a second: it is imported by the first bar or line, not by `--help`
    from rich.console import Console
    from rich.progress import Progress


class Advance(Protocol):
    """Moves a bar on by `n`; a `note` (a loss, a name) replaces the one shown, an empty one leaves it."""

    def __call__(self, n: int = 1, note: str = "") -> None: ...


LINE_EVERY = 60.0  # seconds between the lines of a track in a log

_console: "Console | None" = None
_display: "Progress | None" = None  # the live display of the outermost track, shared by those inside it


def console() -> "Console":
    """The one console. It looks up sys.stdout at each use, so redirecting standard output works."""
    global _console
    if _console is None:
        from rich.console import Console

        _console = Console(highlight=False, markup=False)
    return _console


def say(text: str) -> None:
    """Prints one line, above the bars if there are any."""
    console().print(text, soft_wrap=True)


def on_terminal() -> bool:
    """Whether a person is likely to watch. (Colour may be forced in a log; moving bars there would be noise.)"""
    return sys.stdout.isatty()


@contextmanager
def track(total: int, what: str, done: int = 0) -> Iterator[Advance]:
    """A bar of `total` steps named `what`: `with track(steps, "tokenizer") as advance: ... advance()`.

    `done` steps were finished by an earlier run; they count as finished but not towards the speed.
    """
    if not on_terminal():
        yield _lines(total, what, done)
        return
    global _display
    outermost = _display is None
    display = _new_display() if _display is None else _display
    task = display.add_task(what, total=total, completed=done, note="")

    def advance(n: int = 1, note: str = "") -> None:
        if note:
            display.update(task, note=note)
        display.advance(task, n)

    if outermost:
        _display = display
        display.start()
    try:
        yield advance
    finally:
        if outermost:  # the finished bar stays on the screen as a record
            _display = None
            display.stop()
        else:
            display.remove_task(task)


def _lines(total: int, what: str, done: int) -> Advance:
    """Says now and then how far a track is, with the time left at the speed so far."""
    began = said = time.monotonic()
    at, last_note = done, ""

    def advance(n: int = 1, note: str = "") -> None:
        nonlocal at, said, last_note
        at, last_note = at + n, note or last_note
        now = time.monotonic()
        if now - said < LINE_EVERY or not done < at < total:
            return
        said = now
        left = (now - began) / (at - done) * (total - at)
        words = f"about {duration(left)} left" if left >= 60 else "less than a minute left"
        say(f"{what}: {at:,} of {total:,}, {words}" + (f"; {last_note}" if last_note else ""))

    return advance


def duration(seconds: float) -> str:
    """5 min 12 s, 48.2 s, 2 h 3 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _new_display() -> "Progress":
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=console(),
        refresh_per_second=4,
        speed_estimate_period=float("inf"),  # the speed of the whole run: pauses, say for judging, count
    )
