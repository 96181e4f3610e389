"""A study's folder that is damaged or unfinished: `recombine claims` and `recombine report` say so in one sentence,
with exit code 2, and leave an older report alone."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planted import JEPA, REPRODUCED, plant
from recombine import cli

ROOT = Path(__file__).parents[1]
JEPA_ARM = next(name for name, arm in JEPA.arms.items() if arm.jepa is not None)
ANEW = "run the study again to write it anew."
BOTH = ("claims", "report")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of few evaluations, whose world has words."""
    folder = plant(tmp_path_factory.mktemp("whole") / "jepa", JEPA, REPRODUCED["jepa"], evaluations=2)
    facts = json.loads((folder / "study.json").read_text())
    facts["world"]["factors"] = [{"name": name, "values": ["one", "two"]} for name in ("shape", "colour", "size")]
    facts["judge"] = {"refused": {"half-trained maskgit on tokens": 1.0}}
    (folder / "study.json").write_text(json.dumps(facts))
    (folder / "report.html").write_text("older")
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of it to damage."""
    return Path(shutil.copytree(whole, tmp_path / "mine"))


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """The exit code of `recombine WORDS`, and what it prints and complains."""
    before, sys.argv = sys.argv, ["recombine", *map(str, words)]
    try:
        with pytest.raises(SystemExit) as caught:
            cli.main()
            sys.exit(0)
    finally:
        sys.argv = before
    return int(caught.value.code or 0), *capsys.readouterr()


def complaint(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one sentence that a command refuses with."""
    code, printed, says = call(capsys, *words)
    assert code == 2 and not printed and says.startswith("recombine: ") and says.count("\n") == 1
    return says.removeprefix("recombine: ").rstrip()


def refused_by_both(capsys: pytest.CaptureFixture[str], folder: Path) -> str:
    """The sentence, the same from both commands; the older report stays."""
    first, second = (complaint(capsys, command, folder) for command in BOTH)
    assert first == second and str(folder) in first
    assert not (folder / "report.html").exists() or (folder / "report.html").read_text() == "older"
    return first


def put(facts: dict[str, Any], path: tuple[str | int, ...], value: object) -> None:
    at: Any = facts
    for word in path[:-1]:
        at = at[word]
    at[path[-1]] = value


ARM = ("study", "arms", JEPA_ARM)
WRONG: list[tuple[tuple[str | int, ...], object, str]] = [
    *((("split", "levels", "011"), value, "should be a valid integer") for value in ("x", None, [], {}, True, 1.5)),
    (("split",), 3, "should be a valid dictionary"),
    (("study",), 3, "should be a valid dictionary"),
    (("study", "seeds"), 3, "should be a valid list"),
    (("study", "seeds", 0), "x", "should be a valid integer"),
    (("study", "arms"), [], "should be a valid dictionary"),
    ((*ARM, "training"), "x", "should be a valid dictionary"),
    ((*ARM, "training", "steps"), "x", "should be a valid integer"),
    ((*ARM, "conditioning", "spread"), None, "should be a valid number"),
    ((*ARM, "jepa", "layers"), {}, "should be a valid list"),
    (("tokenizers", "tokens", "ceiling", "111"), [], "should be a valid dictionary"),
    (("tokenizers", "tokens", "ceiling", "111", "joint"), "x", "should be a valid number"),
    (("world", "factors"), 3, "should be a valid list"),
    (("world", "factors", 0), None, "should be a valid dictionary"),
    (("world", "factors", 0), {"name": "shape"}, "is missing"),
    (("judge", "refused", "half-trained maskgit on tokens"), "x", "should be a valid number"),
    (("arms",), 3, "should be a valid dictionary"),
    (("name",), [], "should be a valid string"),
]


@pytest.mark.parametrize(("path", "value", "says"), WRONG)
def test_one_wrong_value_in_study_json_is_named(
    capsys: pytest.CaptureFixture[str], folder: Path, path: tuple[str | int, ...], value: object, says: str
) -> None:
    facts = json.loads((folder / "study.json").read_text())
    put(facts, path, value)
    (folder / "study.json").write_text(json.dumps(facts))
    said = refused_by_both(capsys, folder)
    place = ".".join(map(str, path))
    assert said.startswith(f"{folder / 'study.json'} cannot be read (its {place}") and said.endswith(f"): {ANEW}")
    assert says in said


@pytest.mark.parametrize("layers", [[], [99], [1, 1]])
@pytest.mark.parametrize("size", ["s", "x", None])
def test_layers_that_no_model_of_that_size_has(
    capsys: pytest.CaptureFixture[str], folder: Path, layers: list[int], size: str | None
) -> None:
    facts = json.loads((folder / "study.json").read_text())
    put(facts, (*ARM, "jepa", "layers"), layers)
    put(facts, (*ARM, "training", "size"), size)
    (folder / "study.json").write_text(json.dumps(facts))
    assert f"cannot be read (its study.arms.{JEPA_ARM} should have a training.size" in refused_by_both(capsys, folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 100_000, "\x00"])
def test_what_is_no_object_is_refused(capsys: pytest.CaptureFixture[str], folder: Path, text: str) -> None:
    (folder / "study.json").write_text(text)
    assert "study.json" in complaint(capsys, "claims", folder)
    assert "study.json" in complaint(capsys, "report", folder)


def test_more_than_is_read_is_welcome(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    facts = json.loads((folder / "study.json").read_text())
    for path in (("news",), ("world", "news"), (*ARM, "news"), (*ARM, "training", "news"), ("split", "news")):
        put(facts, path, [{"of": None}])
    (folder / "study.json").write_text(json.dumps(facts))
    for command in BOTH:
        assert call(capsys, command, folder)[0] == 0
    assert (folder / "report.html").read_text() != "older"


@pytest.mark.parametrize("place", [("study", "arms", 0), ("arms", 0, "settings"), ("study", "seeds")])
def test_settings_changed_by_hand_are_noticed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, place: tuple[Any, ...]
) -> None:
    copy = Path(shutil.copytree(ROOT / "results" / "spread", tmp_path / "spread"))
    facts = json.loads((copy / "study.json").read_text())
    target = facts
    for step in place:
        target = target[list(target)[step] if isinstance(step, int) else step]
    if isinstance(target, list):
        target.append(99)
    else:
        target["training"]["steps"] += 1
    (copy / "study.json").write_text(json.dumps(facts))
    assert "was changed after it was made" in refused_by_both(capsys, copy)


def test_committed_results_all_open() -> None:
    from recombine.studies.facts import read_facts

    folders = sorted(path.parent for path in (ROOT / "results").glob("*/study.json"))
    assert len(folders) >= 12 and all(read_facts(one)["study"] for one in folders)


@pytest.mark.parametrize("left", [".study.json", "store"])
def test_a_study_that_has_not_finished(capsys: pytest.CaptureFixture[str], tmp_path: Path, left: str) -> None:
    (tmp_path / left).mkdir()
    said = refused_by_both(capsys, tmp_path)
    assert said.startswith(
        f"the study in {tmp_path} has not finished an arm yet; if it is not at work, give the command"
    )


@pytest.mark.parametrize("name", ["study.json", "results.parquet"])
@pytest.mark.parametrize("claimed", [True, False])
def test_a_lost_file_is_named(capsys: pytest.CaptureFixture[str], folder: Path, name: str, claimed: bool) -> None:
    (folder / name).unlink()
    if claimed:  # as in a folder that was not copied from elsewhere
        (folder / ".study.json").write_text("{}")
    assert refused_by_both(capsys, folder) == f"{folder} holds no {name}: {ANEW}"


TABLES = {
    "its column step has values of type string": ("step", pa.string(), None),
    "its column level has values of type double": ("level", pa.float64(), None),
    "its column valid has values of type string": ("valid", pa.string(), None),
    "its column seed has nothing in some rows": ("seed", pa.int64(), [None]),
    "its column joint has no number": ("joint", pa.float64(), [float("nan")]),
    "its column joint has no number (null)": ("joint", pa.null(), [None]),
}


@pytest.mark.parametrize("says", TABLES)
def test_a_column_of_another_kind(capsys: pytest.CaptureFixture[str], folder: Path, says: str) -> None:
    name, kind, value = TABLES[says]
    path = folder / "results.parquet"
    table = pq.read_table(path)
    new = table.column(name).cast(kind) if value is None else pa.array(value * table.num_rows, kind)
    pq.write_table(table.set_column(table.column_names.index(name), name, new), path)
    assert refused_by_both(capsys, folder) == f"{path} cannot be read ({says.removesuffix(' (null)')}): {ANEW}"


def test_a_file_for_a_folder_and_a_folder_for_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.yaml").write_text("name: my\n")
    Path("runs/demo").mkdir(parents=True)
    for command in BOTH:
        said = complaint(capsys, command, "my.yaml")
        assert said.startswith("my.yaml is a file; give") and "recombine run" in said
    for place in (".", "runs/demo"):
        said = complaint(capsys, "run", place)
        assert said.startswith(f"{place} is a folder; give a study file") and "--out" in said
    Path("demo").mkdir()  # the library's study is meant all the same
    assert call(capsys, "run", "demo", "--dry-run", "--no-forecast")[0] == 0


def test_a_folder_given_twice(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    for again in (folder, folder / ".." / folder.name):
        assert complaint(capsys, "claims", folder, again) == f"{again} was given twice; give it once."


def test_the_version_by_word_and_by_flag(capsys: pytest.CaptureFixture[str]) -> None:
    word, flag = call(capsys, "version"), call(capsys, "--version")
    assert word == flag and word[0] == 0 and word[1].strip()
