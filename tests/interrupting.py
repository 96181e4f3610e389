"""What goes wrong in the middle of a training, for tests: a kill, and a memory too small for two members."""

from pathlib import Path

import pytest
import torch

from recombine.runner import run_study
from recombine.studies import rendering_run
from recombine.studies.rendering import RenderingStudy
from recombine.training import Trainer


def only_one_member_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on two members together run out of memory."""
    run = Trainer.run

    def small_memory(self: Trainer, steps: int) -> None:
        if len(self.seeds) > 1:
            raise torch.OutOfMemoryError("no memory for two")
        run(self, steps)

    monkeypatch.setattr(Trainer, "run", small_memory)


def only_so_many_fit(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, most: int = 0) -> list[int]:
    """From now on that function runs out of memory when the first tensor it is given has more than `most` rows; without
    `most`, always. The list grows by the rows of every call."""
    work, rows = getattr(owner, name), []

    def small_memory(*given: object, **named: object) -> object:
        rows.append(next((len(thing) for thing in given if isinstance(thing, torch.Tensor)), 1))
        if rows[-1] > most:
            raise torch.OutOfMemoryError(f"no memory for {rows[-1]}")
        return work(*given, **named)

    monkeypatch.setattr(owner, name, small_memory)
    return rows


def kill_and_run_again(study: RenderingStudy, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a study of decoders that is killed after seven times four steps, and then the same again to its end."""

    class Killed(BaseException):
        pass

    run, calls = Trainer.run, []

    def stop(self: Trainer, count: int) -> None:
        if len(calls) == 7:
            raise Killed
        calls.append(count)
        run(self, count)

    monkeypatch.setattr(rendering_run, "STEPS_AT_ONCE", 4)
    monkeypatch.setattr(rendering_run, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(rendering_run._Work, "due", lambda self, after: True)
    monkeypatch.setattr(Trainer, "run", stop)
    with pytest.raises(Killed):
        run_study(study, out, device="cpu")
    monkeypatch.setattr(Trainer, "run", run)
    run_study(study, out, device="cpu")
