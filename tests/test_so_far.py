"""A study that was stopped between two arms: its folder has a table of the finished one, which is drawn, reused and
gone on from."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from recombine import read_results, runner
from recombine.claims.ledger import open_studies
from recombine.cli import app
from recombine.errors import UserError
from recombine.report import write_report
from recombine.runner import run_study
from recombine.studies import arms, rendering_run
from recombine.studies.monitors import read_monitors
from recombine.studies.quality_table import read_quality
from recombine.studies.results import write_results
from recombine.studies.so_far import SoFar
from recombine.studies.spec import Study, load_study
from recombine.studies.store import Busy, Store

READ = (read_results, read_monitors, read_quality)


class Stopped(BaseException):
    """As a kill."""


def stop_at(monkeypatch: pytest.MonkeyPatch, owner: Any, function: str, name: str) -> None:
    """A kill when the arm `name` begins: it is the second thing that `function` is given."""
    plain = getattr(owner, function)

    def begin(*given: Any) -> Any:
        if given[1] == name:
            raise Stopped
        return plain(*given)

    monkeypatch.setattr(owner, function, begin)


@pytest.fixture(scope="module")
def whole(small_study: Study, shared_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "out"
    run_study(small_study, out, shared_store, "cpu")
    return out


@pytest.fixture(scope="module")
def left(small_study: Study, whole: Path, shared_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder and store of the study as they are when it is stopped at its second arm."""
    home = tmp_path_factory.mktemp("left")
    shutil.copytree(shared_store, home / "store", ignore=shutil.ignore_patterns("arm-*", "weights-*"))
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, arms, "_train_and_store", "dit")
        with pytest.raises(Stopped):
            run_study(small_study, home / "out", home / "store", "cpu")
    return home


@pytest.fixture
def store(left: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(left / "store", tmp_path / "store"))


@pytest.fixture
def stopped(left: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(left / "out", tmp_path / "out"))


def facts_in(out: Path) -> dict[str, Any]:
    return dict(json.loads((out / "study.json").read_text()))


def test_the_tables_have_what_is_finished(small_study: Study, whole: Path, stopped: Path) -> None:
    for read in READ:
        first = [row for row in read(whole).to_pylist() if row["arm"] == "maskgit"]
        assert first and read(stopped).to_pylist() == first
    facts = facts_in(stopped)
    assert facts["finished"] is None and list(facts["arms"]) == ["maskgit"]
    assert Study.model_validate(facts["study"]) == small_study  # all of it, as it was asked for
    assert not (stopped / "report.html").exists()
    counted = [(out / "study.json").read_text().count('"members_at_once"') for out in (stopped, whole)]
    assert counted == [1, 2]  # scripts/queue_studies.sh goes by it


def test_the_page_says_what_is_missing(stopped: Path) -> None:
    assert CliRunner().invoke(app, ["report", str(stopped)]).exit_code == 0
    page = (stopped / "report.html").read_text()
    assert "The study has not finished" in page and "No results yet for dit." in page


def test_the_same_command_goes_on_to_the_whole(small_study: Study, whole: Path, stopped: Path, store: Path) -> None:
    run_study(small_study, stopped, store, "cpu")
    for read in READ:
        assert read(stopped) == read(whole)
    assert facts_in(stopped)["finished"] and list(facts_in(stopped)["arms"]) == ["maskgit", "dit"]
    assert "has not finished" not in (stopped / "report.html").read_text()


def test_finished_arms_are_reused(
    small_study: Study, stopped: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a store that lost them, as on another machine."""
    for arm in store.glob("arm-*"):
        shutil.rmtree(arm)
    stop_at(monkeypatch, arms, "_train_and_store", "dit")  # MaskGIT would be trained before
    kept = stopped.rename(tmp_path / "kept")
    with pytest.raises(Stopped):
        run_study(small_study, tmp_path / "out", store, "cpu", [kept])
    for read in READ:
        assert read(tmp_path / "out") == read(kept)
    assert facts_in(tmp_path / "out")["arms"]["maskgit"]["taken_from"] == "small"


def test_a_whole_folder_is_never_replaced_by_a_part(
    small_study: Study, whole: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its store has lost the second arm, which is made anew and stopped."""
    out = Path(shutil.copytree(whole, tmp_path / "out"))
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    stop_at(monkeypatch, arms, "_train_and_store", "dit")
    with pytest.raises(Stopped):
        run_study(small_study, out, store, "cpu")
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before


def test_arms_that_were_edited_into_it_are_refused(stopped: Path) -> None:
    facts = facts_in(stopped)
    facts["arms"]["maskgit"]["settings"]["training"]["steps"] += 1
    (stopped / "study.json").write_text(json.dumps(facts))
    done = CliRunner().invoke(app, ["report", str(stopped)])
    assert "was changed after it was made" in str(done.exception)


def test_decoders_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = load_study("demo-rendering", shrunk=True)
    first, *_, last = study.arms
    for name in list(study.arms)[:-1]:
        rendering_run.run_arm(study, name, Store(tmp_path / "store"), torch.device("cpu"))
    with monkeypatch.context() as patch:
        stop_at(patch, rendering_run, "_train", last)
        with pytest.raises(Stopped):
            run_study(study, tmp_path / "out", tmp_path / "store", "cpu")
    assert set(read_results(tmp_path / "out").column("arm").to_pylist()) == set(study.arms) - {last}
    page = write_report(tmp_path / "out").read_text()
    assert "The study has not finished." in page and f"No results yet for {last}." in page and first in page
    run_study(study, tmp_path / "out", tmp_path / "store", "cpu")
    assert "has not finished" not in (tmp_path / "out" / "report.html").read_text()


def test_an_unfinished_folder_is_not_replaced_by_a_smaller_one(tmp_path: Path) -> None:
    """As on another machine, to which the folder came and the store did not."""
    (tmp_path / "study.json").write_text(json.dumps({"finished": None, "arms": {"a": {}, "b": {}}}))
    written: list[list[str]] = []
    so_far = SoFar[str](tmp_path, "abcd", lambda arms: written.append(list(arms)))

    def make(name: str, _: bool) -> str:
        so_far.write()
        return name

    assert list(so_far.make_all(make, True)) == ["a", "b", "c", "d"]
    assert written == [["a", "b", "c"]]  # the fourth makes it whole


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"arms": 3}'])
def test_a_damaged_folder_is_written_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / "study.json").write_text(text)
    written: list[list[str]] = []
    so_far = SoFar[str](tmp_path, "ab", lambda arms: written.append(list(arms)))
    so_far.make_all(lambda name, _: (so_far.write(), name)[1], True)
    assert written == [["a"]]


def test_who_waits_has_written_and_in_the_studys_order(tmp_path: Path) -> None:
    """`a` is another's at first: `b` is finished before it, and written before the wait and when `c` begins."""
    written: list[list[str]] = []
    so_far = SoFar[str](tmp_path, "abcd", lambda arms: written.append(list(arms)))

    def make(name: str, waiting: bool) -> str:
        if name in "ad" and not waiting:
            raise Busy(name)
        if name == "d":
            assert written == [["b", "c"], ["a", "b", "c"]]  # before the wait for `a`, and before that for `d`
        return name

    so_far.make_all(make, True)


def test_what_others_have_finished_meanwhile_is_written_too(tmp_path: Path) -> None:
    """Others finish `c` while `a` is trained here: the table has it before `b` begins, and it is read once."""
    written: list[list[str]] = []
    read: list[str] = []
    store: set[str] = set()
    so_far = SoFar[str](tmp_path, "abcd", lambda arms: written.append(list(arms)), lambda: sorted(store))

    def make(name: str, _: bool) -> str:
        if name not in store:
            so_far.write()
        store.update({"a": "ac"}.get(name, name))
        read.append(name)
        return name

    assert list(so_far.make_all(make, True)) == ["a", "b", "c", "d"]
    assert written == [["a", "c"], ["a", "b", "c"]] and read == ["a", "c", "b", "d"]


def test_an_arm_that_another_process_made_is_in_the_table(
    small_study: Study, whole: Path, shared_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has the second arm when the first is about to be trained."""
    store = Path(shutil.copytree(shared_store, tmp_path / "store", ignore=shutil.ignore_patterns("weights-*")))
    recipes = {path: json.loads(path.read_text()) for path in store.glob("arm-*/recipe.json")}
    for path, recipe in recipes.items():
        if recipe["arm"]["generator"]["kind"] == "maskgit":
            shutil.rmtree(path.parent)
    stop_at(monkeypatch, arms, "_train_and_store", "maskgit")
    with pytest.raises(Stopped):
        run_study(small_study, tmp_path / "out", store, "cpu")
    second = [row for row in read_results(whole).to_pylist() if row["arm"] == "dit"]
    assert second and read_results(tmp_path / "out").to_pylist() == second


def test_a_kill_between_tables_and_facts_loses_nothing(
    small_study: Study, whole: Path, left: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables come first: study.json never names an arm that has no rows."""
    shutil.rmtree(next(path for path in store.glob("arm-*") if path.is_dir()))
    plain = runner.files.save_json_atomic

    def stop(path: Path, thing: Any) -> None:
        if path.name == "study.json":
            raise Stopped
        plain(path, thing)

    with monkeypatch.context() as patch:
        patch.setattr(runner.files, "save_json_atomic", stop)
        with pytest.raises(Stopped):
            run_study(small_study, tmp_path / "out", store, "cpu", [left / "out"])
    assert read_results(tmp_path / "out").num_rows and not (tmp_path / "out" / "study.json").exists()
    done = CliRunner().invoke(app, ["report", str(tmp_path / "out")])
    assert "holds no study.json: run the study again" in str(done.exception)
    run_study(small_study, tmp_path / "out", store, "cpu")
    assert read_results(tmp_path / "out") == read_results(whole)


def test_a_folder_copied_while_it_was_written_is_refused(
    small_study: Study, whole: Path, store: Path, tmp_path: Path
) -> None:
    """Its study.json names an arm that its table, copied before, has no rows of."""
    torn = Path(shutil.copytree(whole, tmp_path / "torn"))
    rows = [row for row in read_results(whole).to_pylist() if row["arm"] == "maskgit"]
    write_results(torn, rows)
    with pytest.raises(UserError, match=r"lacks rows of the arm dit at its end .*copy it again"):
        run_study(small_study, tmp_path / "out", store, "cpu", [torn])


def test_nothing_is_judged_from_it(stopped: Path) -> None:
    facts = facts_in(stopped)
    assert list(open_studies([stopped])) == [f"{facts['name']}-unfinished"]
    done = CliRunner().invoke(app, ["claims", str(stopped)])
    assert done.exit_code == 0
    assert f"small has not finished, and nothing is judged from it; `recombine report {stopped}`" in done.output
    assert "No claim is judged from small: claims go by the names of the studies" in done.output
