"""The command line: it answers at once, teaches, and meets bad input with one sentence and exit code 2."""

import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from recombine import cli
from recombine.errors import UserError
from recombine.studies import spec
from recombine.studies.store import Busy

STUDY = """\
name: tiny
question: Does the command line work?
world: {kind: shapes2d, image_size: 16}
split: hamming
tokenizer: vqvae
training: {steps: 100, size: xs}
judging: {samples: 4, evaluations: 2}
members: 2
arms:
  maskgit: {generator: maskgit}
  dit: {generator: dit}
"""


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every test in a folder of its own, with a help page wide enough not to break words."""
    monkeypatch.delenv("RECOMBINE_SHRINK", raising=False)
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The exit code of `recombine WORDS`."""
    monkeypatch.setattr(sys, "argv", ["recombine", *words])
    with pytest.raises(SystemExit) as caught:
        cli.main()
        sys.exit(0)
    return int(caught.value.code or 0)


def pretend(monkeypatch: pytest.MonkeyPatch, module: str, **functions: Any) -> None:
    """Puts stand-ins in place of a module."""
    stand_in = types.ModuleType(module)
    for name, function in functions.items():
        setattr(stand_in, name, function)
    monkeypatch.setitem(sys.modules, module, stand_in)


def test_help_needs_nothing_heavy() -> None:
    """Importing the command line must not import torch and its like: that is what makes --help quick."""
    heavy = "{'torch', 'pydantic', 'yaml', 'matplotlib', 'pyarrow', 'scipy', 'numpy', 'sklearn'}"
    code = f"import sys, recombine.cli; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("command", ["run", "demo", "report", "worlds", "words", "doctor", "version"])
def test_every_command_has_an_example(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert call(monkeypatch, command, "--help") == 0
    assert f"Example: recombine {command}" in capsys.readouterr().out
    assert call(monkeypatch, "--help") == 0
    assert command in capsys.readouterr().out


def test_a_study_with_mistakes_exits_with_2_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    Path("bad.yaml").write_text(STUDY.replace("generator: dit", "genrator: dit").replace("members: 2", "members: two"))
    assert call(monkeypatch, "run", "bad.yaml", "--out", "out") == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("recombine: 2 mistakes")
    assert "bad.yaml:11: unknown word 'genrator' in arms.dit; did you mean 'generator'?" in complaint
    assert "bad.yaml:8: members should be a whole number, not 'two'" in complaint
    assert [path.name for path in tmp_path.iterdir()] == ["bad.yaml"]


def test_dry_run_prints_the_resolved_study(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    Path("study.yaml").write_text(STUDY)
    assert call(monkeypatch, "run", "study.yaml", "--out", "out", "--dry-run", "--no-forecast") == 0
    assert spec.parse_study(capsys.readouterr().out) == spec.parse_study(STUDY)
    assert call(monkeypatch, "run", "study.yaml", "--dry-run", "--shrink", "--no-forecast") == 0
    assert spec.parse_study(capsys.readouterr().out).name == "tiny-shrunk"
    assert [path.name for path in tmp_path.iterdir()] == ["study.yaml"]


def test_dry_run_says_how_long_it_would_take_and_stays_a_study_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    Path("study.yaml").write_text(STUDY)
    assert call(monkeypatch, "run", "study.yaml", "--dry-run", "--shrink", "--device", "cpu") == 0
    printed = capsys.readouterr().out
    study = spec.parse_study(printed)
    comments = [line for line in printed.splitlines() if line.startswith("#")]
    assert "--no-forecast" in comments.pop(0)
    assert comments[0].startswith("# About ") and "on this machine (cpu), with " in comments[0]
    assert " GiB of memory, if it does nothing else:" in comments[0]
    parts = [line.split(":")[0].removeprefix("#").strip() for line in comments[1:]]
    assert parts[0] == "probe and judge" and {f"arm {name}" for name in study.arms} <= set(parts)
    assert any(part.startswith("tokenizer ") for part in parts)
    assert [path.name for path in tmp_path.iterdir()] == ["study.yaml"]  # nothing is kept


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "kind: rendering\nname: tiny\nquestion: Is the file whole?\nsupport: gap\nencoding: angle\n"
            "world: {kind: digits, source: mnist, images_path: broken.idx, labels_path: broken.idx}\narms: {a: {}}\n",
            "broken.idx is not a whole IDX file of images",
        ),
        (STUDY.replace("samples: 4,", "samples: 4, fid: true,"), "FID needs the package torch-fidelity"),
    ],
)
def test_what_a_run_would_lack_a_dry_run_lacks_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, says: str
) -> None:
    monkeypatch.setitem(sys.modules, "torch_fidelity", None)
    Path("broken.idx").write_bytes(b"no digits")
    Path("study.yaml").write_text(text)
    complaints = set()
    for dry in (["--dry-run", "--no-forecast"], ["--dry-run"], []):
        assert call(monkeypatch, "run", "study.yaml", *dry) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        complaints.add(printed.err)
    (complaint,) = complaints
    assert complaint.startswith(f"recombine: {says}") and complaint.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.idx", "study.yaml"]  # nothing was begun


def test_run_hands_everything_to_the_runner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[Any, ...]] = []
    pretend(monkeypatch, "recombine.runner", run_study=lambda *given: calls.append(given))
    Path("study.yaml").write_text(STUDY)
    assert call(monkeypatch, "run", "study.yaml", "--out", "a", "--store", "b", "--device", "cpu") == 0
    assert call(monkeypatch, "run", "study.yaml", "--reuse", "c", "--reuse", "d") == 0
    study = spec.parse_study(STUDY)
    assert calls == [
        (study, Path("a"), Path("b"), "cpu", [], True),
        (study, Path("runs/tiny"), None, "auto", [Path("c"), Path("d")], True),
    ]
    assert call(monkeypatch, "run", "study.yaml", "--no-wait") == 0 and calls[-1][-1] is False
    assert call(monkeypatch, "run", "study.yaml", "--device", "abacus") == 2


def test_a_dry_run_tells_what_would_be_reused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = Path(__file__).parents[1] / "results"
    words = ("run", "spread", "--dry-run", "--no-forecast", "--reuse")
    assert call(monkeypatch, *words, str(results / "objectives")) == 0  # made on a GPU, in another precision
    said = capsys.readouterr().out
    assert "none of its arms equals one of this study" in said
    assert spec.parse_study(said) == spec.load_study("spread")  # what is printed stays a study file
    assert call(monkeypatch, *words, str(results / "nowhere")) == 2
    assert "nowhere does not exist; give --reuse" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (UserError("the disk is full; make room."), 2, "the disk is full"),
        (KeyboardInterrupt(), 130, "stopped; the same command"),
        (Busy("dit"), 75, "other processes are at work on dit; the same command goes on"),
    ],
)
def test_a_run_that_ends_early_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, says: str
) -> None:
    def run_study(*_: Any) -> None:
        raise error

    pretend(monkeypatch, "recombine.runner", run_study=run_study)
    Path("study.yaml").write_text(STUDY)
    assert call(monkeypatch, "run", "study.yaml") == code
    complaint = capsys.readouterr().err
    assert complaint.startswith(f"recombine: {says}") and complaint.count("\n") == 1


@pytest.mark.parametrize("command", [["run", "study.yaml", "--dry-run"], ["bench"]])
def test_what_would_begin_again_does_not_promise_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("recombine.studies.forecast.forecast", stopped)
    monkeypatch.setattr("recombine.bench.run_bench", stopped)
    Path("study.yaml").write_text(STUDY)
    assert call(monkeypatch, *command) == 130
    assert capsys.readouterr().err == "recombine: stopped; nothing is kept\n"


def test_a_defect_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_study(*_: Any) -> None:
        raise ZeroDivisionError

    pretend(monkeypatch, "recombine.runner", run_study=run_study)
    Path("study.yaml").write_text(STUDY)
    monkeypatch.setattr(sys, "argv", ["recombine", "run", "study.yaml"])
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_worlds_are_listed_and_drawn(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "worlds") == 0
    assert "shapes2d" in capsys.readouterr().out
    assert call(monkeypatch, "worlds", "shapes2d", "--out", "pictures/sheet.png") == 0
    assert Path("pictures/sheet.png").read_bytes().startswith(b"\x89PNG")
    assert call(monkeypatch, "worlds", "shape2d") == 2
    assert "did you mean 'shapes2d'?" in capsys.readouterr().err
    assert call(monkeypatch, "worlds", "shapes2d", "--out", "sheet.exe") == 2


def test_report_wants_a_folder(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    written: list[Path] = []
    pretend(monkeypatch, "recombine.report.page", write_report=written.append)
    assert call(monkeypatch, "report", "nowhere") == 2
    assert "there is no folder nowhere" in capsys.readouterr().err
    Path("done").mkdir()
    assert call(monkeypatch, "report", "done") == 0
    assert written == [Path("done")]


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "version") == 0
    assert capsys.readouterr().out.strip()


def test_doctor_prints_a_line_for_each_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("Python", "3.11", True), ("GPU", "none", False)]
    pretend(monkeypatch, "recombine.doctor", doctor=lambda: rows)
    assert call(monkeypatch, "doctor") == 0
    assert capsys.readouterr().out == "ok  Python  3.11\n--  GPU     none\n"
