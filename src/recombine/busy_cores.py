"""Two programs on the same cores: threads that wait without spinning.

The threads of a tensor operation meet at its end, and while they wait they spin, which is fastest on idle cores. Where
another program is at work too, each keeps the other's last thread off the core that it spins on: two programs side by
side on two cores are 25 times slower each than one alone, and 2 times where neither spins (benchmarks/LOG.md).
"""

import os
import sys
import time
from pathlib import Path

LOOKS = 5
POLICY, SPIN, THREADS = "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS"  # read when torch is imported


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def wait_without_spinning() -> None:
    """Where other programs keep half of the cores at work or more, and nobody chose how to wait or divided the cores.
    Before torch is imported, or it has no effect."""
    if "torch" not in sys.modules and not {POLICY, SPIN, THREADS} & set(os.environ) and _others_at_work():
        os.environ[POLICY] = "PASSIVE"


def _others_at_work(loads: Path = Path("/proc/loadavg")) -> bool:
    """Whether in most of a few looks, 2 ms apart, others were ready to run on half of the cores. False where the system
    does not tell. In a container the number is the whole machine's: then threads may wait without need, which costs a
    quarter of the speed and not a factor."""
    busy = 0
    for look in range(LOOKS):
        try:
            ready = int(loads.read_text().split()[3].partition("/")[0])
        except (OSError, ValueError, IndexError):
            return False
        busy += 2 * (ready - 1) >= cores()  # one is this process
        if look < LOOKS - 1:
            time.sleep(0.002)
    return 2 * busy > LOOKS
