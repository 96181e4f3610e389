"""Bars: silent in a log, one shared display on a terminal, and never in the way of an exception."""

import io

import pytest
from rich.console import Console

from recombine import progress


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal that keeps what is written to it."""
    written = io.StringIO()
    terminal = Console(file=written, force_terminal=True, width=160, highlight=False, markup=False)
    monkeypatch.setattr(progress, "_console", terminal)
    monkeypatch.setattr(progress, "on_terminal", lambda: True)
    return written


def test_silent_where_nobody_watches(capfd: pytest.CaptureFixture[str]) -> None:
    with progress.track(3, "outer") as advance, progress.track(2, "inner") as inner:
        advance()
        inner(2, note="loss 1.0")
    assert capfd.readouterr() == ("", "")


def test_say_prints_also_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300 + " [bold]stays[/bold]"
    progress.say(long)
    assert capsys.readouterr().out == long + "\n"


def test_a_bar_shows_name_count_note_and_times(screen: io.StringIO) -> None:
    with progress.track(7, "tokenizer [vq]") as advance:
        for _ in range(7):
            advance(note="loss 0.25")
    shown = screen.getvalue()
    for part in ("tokenizer [vq]", "7/7", "loss 0.25", "0:00:0", "left"):
        assert part in shown


def test_a_bar_inside_a_bar_joins_its_display_and_leaves_it(screen: io.StringIO) -> None:
    with progress.track(2, "arms") as outer:
        display = progress._display
        assert display is not None
        with progress.track(5, "steps", done=3) as inner:
            assert progress._display is display
            assert [task.description for task in display.tasks] == ["arms", "steps"]
            inner()
            assert display.tasks[1].completed == 4
            progress.say("a line between")
        assert [task.description for task in display.tasks] == ["arms"]
        outer()
    assert progress._display is None
    assert "a line between" in screen.getvalue()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_passes_through_and_the_next_bar_works(screen: io.StringIO, error: type[BaseException]) -> None:
    with pytest.raises(error), progress.track(2, "outer"), progress.track(2, "inner") as inner:
        inner()
        raise error
    assert progress._display is None
    with progress.track(1, "after") as advance:
        advance()
    assert "after" in screen.getvalue()


def test_steps_of_an_earlier_run_do_not_count_towards_the_speed(
    screen: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    real = progress._new_display

    def display_with_clock() -> object:
        display = real()
        display.get_time = lambda: clock[0]
        return display

    monkeypatch.setattr(progress, "_new_display", display_with_clock)
    with progress.track(2000, "resumed", done=1000) as advance:
        for _ in range(10):
            clock[0] += 1.0
            advance()
        assert progress._display is not None
        left = progress._display.tasks[0].time_remaining
    assert left == pytest.approx(990, rel=0.15)
