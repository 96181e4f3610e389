"""What made a result: the command, the versions and the machine."""

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import torch

from recombine.peak_memory import peak_gib


class _Study(Protocol):
    """What both kinds of study have."""

    name: str
    question: str
    limits: str

    @property
    def hash(self) -> str: ...
    def resolved(self) -> dict[str, Any]: ...


def opening(study: _Study, device: torch.device, started: datetime, finished: bool) -> dict[str, Any]:
    """How every study.json begins: what was asked, and what answered; of an unfinished study, `finished` is null."""
    return {
        "name": study.name,
        "question": study.question,
        "limits": study.limits,
        "study": study.resolved(),
        "hash": study.hash,
        "command": command(),
        "versions": versions(),
        "hardware": hardware(device),
        "started": started.isoformat(timespec="seconds"),
        "finished": now() if finished else None,
        "memory_gib_of_last_call": peak_gib(device),  # an earlier call may have made parts that took more
    }


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def command() -> str:
    """What the user typed; a call from Python says so instead."""
    if Path(sys.argv[0]).name in ("recombine", "cli.py"):
        return shlex.join(["recombine", *sys.argv[1:]])
    return "recombine.run_study, called from Python"


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    found = {name: metadata.version(name) for name in ("recombine", "torch", "numpy") if _installed(name)}
    return {"python": platform.python_version(), **found, "code": code_version()}


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def code_version() -> str:
    """The commit that this process runs, marked where files differ from it; "released" outside a checkout. A copy
    without its history is told by RECOMBINE_COMMIT."""
    return os.environ.get("RECOMBINE_COMMIT") or _checked_out()


@cache
def _checked_out() -> str:
    """The same from the checkout, as it is when first asked for: a long run's code is in memory by then, and what
    changes on the disk later is not what it runs. `runner` asks before it begins."""
    folder = Path(__file__).resolve().parent
    try:
        commit = _git(folder, "rev-parse", "--short=12", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--", str(folder.parent))
    except (OSError, subprocess.SubprocessError):
        return "released"
    return commit + ("+changes" if changed else "")


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()


def hardware(device: torch.device) -> dict[str, Any]:
    """The machine, as far as it matters for speed."""
    facts: dict[str, Any] = {"device": device.type, "cores": os.cpu_count(), "machine": platform.machine()}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        facts |= {"gpu": properties.name, "gpu_memory_gib": round(properties.total_memory / 2**30, 1)}
    return facts
