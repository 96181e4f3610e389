"""The peak of a process: it grows with what is held, in the unit of the system, and may not be known."""

import sys
from types import SimpleNamespace

import pytest
import torch

from recombine.peak_memory import peak_gib, peak_memory

CPU = torch.device("cpu")


def test_it_grows_with_what_is_held() -> None:
    pytest.importorskip("resource")
    more = 0
    held = []
    before = peak_memory(CPU)
    assert before is not None and before > 50 * 2**20  # torch alone
    while more < 2**28 and len(held) < 64:  # other tests may have left a higher peak: fill up to it first
        held.append(torch.ones(2**25))  # 128 MiB, touched
        more = (peak_memory(CPU) or 0) - before
    assert 2**28 <= more < 2**29
    assert peak_gib(CPU) == pytest.approx((before + more) / 2**30, abs=0.02)


@pytest.mark.parametrize(("system", "unit"), [("linux", 1024), ("darwin", 1)])
def test_each_system_counts_in_its_own_unit(monkeypatch: pytest.MonkeyPatch, system: str, unit: int) -> None:
    told = SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda _: SimpleNamespace(ru_maxrss=3 * 2**20))
    monkeypatch.setitem(sys.modules, "resource", told)
    monkeypatch.setattr(sys, "platform", system)
    assert peak_memory(CPU) == 3 * 2**20 * unit


def test_where_nobody_tells_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows: importing it fails
    assert peak_memory(CPU) is None and peak_gib(CPU) is None
