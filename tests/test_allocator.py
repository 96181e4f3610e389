"""Memory that is kept: a step does not ask the system for its pages again."""

import platform
import subprocess
import sys

import pytest

STEPS = """
import resource, sys, torch
from recombine.allocator import keep_memory
assert sys.argv[1] == "plain" or keep_memory()

def step():
    return [torch.ones(1 << 20) for _ in range(20)]  # 4 MiB each

step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    words = [sys.executable, "-c", STEPS, how]
    return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator is spoken to")
def test_pages_are_not_asked_for_again():
    """Ten steps of 80 MiB are 205,000 pages of 4 KiB."""
    assert faults("kept") < min(faults("plain") / 2, 20_000)
