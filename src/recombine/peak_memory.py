"""The most memory in use at once: a GPU's by our tensors, or where there is none the whole process's."""

import sys

import torch


def peak_memory(device: torch.device) -> int | None:
    """In bytes. On a CPU since the process began, Python and its libraries included; None where no system tells."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # macOS counts bytes, Linux KiB


def peak_gib(device: torch.device) -> float | None:
    """The same for a table or a file."""
    peak = peak_memory(device)
    return None if peak is None else round(peak / 2**30, 2)


def begin_peak(device: torch.device) -> None:
    """Forget a GPU's peak so far; that of a process stays."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
