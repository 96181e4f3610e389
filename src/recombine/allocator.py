"""Memory on a CPU: kept by the process between steps instead of given back and asked for again."""

import ctypes
from functools import cache

# Of mallopt, in glibc's malloc.h.
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3


@cache
def keep_memory() -> bool:
    """Let glibc's malloc keep what is freed. By itself it returns large tensors to the system at the end of a step, and
    every page of theirs is then asked for, and cleared, anew in the next. True if it could be set: other systems have
    other allocators, and are left alone."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    # 32 MiB is the most that every version takes; only larger tensors still come from the system each time.
    wanted = {MMAP_THRESHOLD: 32 << 20, TRIM_THRESHOLD: 2**31 - 1, TOP_PAD: 64 << 20}
    return all([mallopt(option, value) == 1 for option, value in wanted.items()])
