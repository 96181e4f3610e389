"""The doctor reports what is there, and its verdicts follow the machine."""

from types import SimpleNamespace

import torch

from recombine import doctor


def test_every_row_is_filled_and_names_are_unique(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    rows = doctor.doctor()
    assert all(what and found and isinstance(ok, bool) for what, found, ok in rows)
    verdicts = {what: ok for what, _, ok in rows}
    assert len(verdicts) == len(rows)
    assert verdicts["Python"] and verdicts["torch"] and verdicts["size xs"]
    assert not verdicts["GPU"] and not verdicts["size s"]  # no GPU is a limit that is said


def test_sizes_follow_the_memory_of_the_gpu(monkeypatch):
    needed = doctor.training_bytes(*doctor.SIZES["b"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda index: SimpleNamespace(name="A", total_memory=needed)
    )
    verdicts = {what: ok for what, _, ok in doctor.doctor()}
    assert (verdicts["size s"], verdicts["size b"], verdicts["size l"]) == (True, True, False)


def test_missing_things_are_named(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    rows = {what: (found, ok) for what, found, ok in doctor.doctor()}
    assert not rows["browser"][1] and "chromium" in rows["browser"][0]
