"""Bars: a line a minute in a log, one shared display on a terminal, and never in the way of an exception."""

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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that lines of a log go by."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_what_is_over_within_a_minute_is_silent_in_a_log(capfd: pytest.CaptureFixture[str]) -> None:
    with progress.track(3, "outer") as advance, progress.track(2, "inner") as inner:
        advance()
        inner(2, note="loss 1.0")
    assert capfd.readouterr() == ("", "")


def test_a_log_has_a_line_a_minute_with_the_time_left(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    with progress.track(2000, "arm dit", done=1000) as advance:
        for step in range(1000):
            clock[0] += 0.2
            advance(note="trained 90 %" if step == 500 else "")
    assert capsys.readouterr().out.splitlines() == [
        "arm dit: 1,300 of 2,000, about 2 min 20 s left",
        "arm dit: 1,600 of 2,000, about 1 min 20 s left; trained 90 %",
        "arm dit: 1,900 of 2,000, less than a minute left; trained 90 %",
    ]


def test_the_time_left_counts_what_is_done_between_steps(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    with progress.track(200, "arm dit") as advance:
        advance(100)
        clock[0] += 90.0  # judging
        advance(0, note="level-1 50 %")
    assert capsys.readouterr().out == "arm dit: 100 of 200, about 1 min 30 s left; level-1 50 %\n"


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


@pytest.fixture
def bar_clock(screen: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that bars go by."""
    now = [0.0]
    real = progress._new_display

    def display_with_clock() -> object:
        display = real()
        display.get_time = lambda: now[0]
        return display

    monkeypatch.setattr(progress, "_new_display", display_with_clock)
    return now


def test_steps_of_an_earlier_run_do_not_count_towards_the_speed(bar_clock: list[float]) -> None:
    with progress.track(2000, "resumed", done=1000) as advance:
        for _ in range(10):
            bar_clock[0] += 1.0
            advance()
        assert progress._display is not None
        left = progress._display.tasks[0].time_remaining
    assert left == pytest.approx(990, rel=0.15)


def test_a_bar_s_time_left_counts_pauses_however_long_ago(bar_clock: list[float]) -> None:
    with progress.track(200, "arm") as advance:
        advance(0)
        for step in range(100):
            bar_clock[0] += 300.0 if step == 9 else 1.0  # after ten steps, five minutes of judging
            advance()
        assert progress._display is not None
        left = progress._display.tasks[0].time_remaining
    assert left == pytest.approx(399, rel=0.05)
