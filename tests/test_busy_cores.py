"""Whether threads wait without spinning: where others are at work, nobody chose otherwise, and it is not too late."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recombine import busy_cores

OURS = (busy_cores.POLICY, busy_cores.SPIN, busy_cores.THREADS)
CORES = busy_cores.cores()


@pytest.mark.parametrize(
    ("text", "busy"),
    [
        (f"0.1 0.1 0.1 {1 + CORES}/200 1", True),
        (f"0.1 0.1 0.1 {1 + (CORES + 1) // 2}/200 1", True),
        (f"9.9 9.9 9.9 {(CORES + 1) // 2}/200 1", False),  # of half of the cores, one program is this
        ("0.1 0.1", False),
        ("", False),
    ],
)
def test_others_are_counted_that_are_ready_to_run(tmp_path: Path, text: str, busy: bool) -> None:
    (tmp_path / "loadavg").write_text(text)
    assert busy_cores._others_at_work(tmp_path / "loadavg") == busy
    assert not busy_cores._others_at_work(tmp_path / "absent")


def policy_of(code: str, **settings: str) -> str:
    """The policy in a new process in which others are said to be at work."""
    start = "import os, recombine.busy_cores as b; b._others_at_work = lambda: True; "
    kept = {key: value for key, value in os.environ.items() if key not in OURS}
    done = subprocess.run(
        [sys.executable, "-c", f"{start}{code}; print(os.environ.get('{busy_cores.POLICY}'))"],
        env=kept | settings,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_it_is_chosen_before_torch_is_there_and_by_nobody_else() -> None:
    wait = "b.wait_without_spinning()"
    assert policy_of(wait) == "PASSIVE"
    assert policy_of(wait, OMP_WAIT_POLICY="ACTIVE") == "ACTIVE"
    assert policy_of(wait, GOMP_SPINCOUNT="1000") == "None"
    assert policy_of(wait, OMP_NUM_THREADS="1") == "None"  # the cores are divided already
    assert policy_of(f"import torch; {wait}") == "None"
    assert policy_of("b._others_at_work = lambda: False; " + wait) == "None"


def test_the_command_line_chooses_in_time() -> None:
    """Nothing that it imports at its start brings torch along."""
    call = (
        "import sys; sys.argv[1:] = ['--version']; import recombine.cli as c\ntry: c.main()\nexcept SystemExit: pass\n"
    )
    assert policy_of(f"exec({call!r})").splitlines()[-1] == "PASSIVE"
