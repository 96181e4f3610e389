"""What this machine has, and which sizes of model it can reasonably train (`recombine doctor`)."""

import os
import platform
import shutil
import sys

import torch

Row = tuple[str, str, bool]
"""What was looked for, what was found, whether that will do."""

GIB = 2**30
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SIZES = {"s": (6, 256), "b": (12, 384), "l": (12, 768)}  # layers, width
MEMBERS = 8  # as many seeds as a study of the library trains at once


def find_browser() -> str | None:
    """A browser that can open a report without a screen, or None."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def training_bytes(layers: int, width: int, members: int = MEMBERS) -> int:
    """A guess, not a measurement: an adaLN block has 18 width² parameters; weight, gradient, two moments and EMA take
    20 bytes each, and twice as much again is left for activations."""
    return 3 * 20 * members * layers * 18 * width**2


def _memory() -> int | None:
    """Bytes of main memory, where the system tells."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None


def _cores() -> int:
    """Cores this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _sizes(device_bytes: int) -> list[Row]:
    """One row per size of the dial: xs runs anywhere, the others on a GPU with room for MEMBERS seeds."""
    rows: list[Row] = [("size xs", "runs here, on a CPU in minutes", True)]
    for name, (layers, width) in SIZES.items():
        needed = training_bytes(layers, width)
        asked = f"{MEMBERS} members at once take very roughly {needed / GIB:.0f} GiB of GPU memory"
        if not device_bytes:
            rows.append((f"size {name}", f"needs a CUDA GPU ({asked})", False))
        elif needed <= device_bytes:
            rows.append((f"size {name}", f"runs here ({asked})", True))
        else:
            rows.append((f"size {name}", f"fewer than {MEMBERS} members at once ({asked})", False))
    return rows


def doctor() -> list[Row]:
    """Rows (what, found, will it do), in the order to print them. A False is a limit of this machine, not a mistake."""
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU build"
    rows: list[Row] = [
        (
            "Python",
            f"{platform.python_version()} ({platform.system()} {platform.machine()})",
            sys.version_info >= (3, 11),
        ),
        ("torch", f"{torch.__version__} ({build})", tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 11)),
    ]
    device_bytes = 0
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            device_bytes = max(device_bytes, properties.total_memory)
            rows.append(("GPU", f"{properties.name}, {properties.total_memory / GIB:.0f} GiB", True))
    else:
        rows.append(("GPU", "none that torch can use", False))
    memory = _memory()
    free = shutil.disk_usage(os.getcwd()).free
    browser = find_browser()
    rows += [
        ("cores", str(_cores()), True),
        ("memory", f"{memory / GIB:.1f} GiB" if memory else "unknown", memory is None or memory >= 4 * GIB),
        ("free disk here", f"{free / GIB:.1f} GiB", free >= 2 * GIB),
        ("browser", browser or f"none of {', '.join(BROWSERS)}: tests of the report are skipped", browser is not None),
    ]
    return rows + _sizes(device_bytes)
