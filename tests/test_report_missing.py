"""The report of a study that lacks something: it says what, or refuses in one sentence, and is written whole."""

import shutil
from pathlib import Path

import pytest

from fake_study import TWELVE, keep_rows, not_judged, write_fake_study
from folders import facts_of
from pages import page_of, text_of
from recombine.errors import UserError
from recombine.report import write_report
from recombine.report.reading import read_study
from recombine.studies.pictures import NAME


def test_one_member_without_pictures(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path / "s", arms=("maskgit", "dit"), members=1, evaluations=1, pictures=False)
    text = text_of(page_of(folder))
    assert "Only one seed of maskgit and dit" in text and "pictures.safetensors.gz is not there" in text
    assert "cannot tell which is better" in text and "beats" not in text


def test_partly_finished_study(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path / "s", arms=("maskgit", "dit"), evaluations=3)
    keep_rows(folder, lambda row: row["arm"] == "maskgit" and not (row["step"] == 1500 and row["member"] == 2))
    with facts_of(folder) as facts:
        del facts["finished"], facts["seconds"], facts["judge"]
    text = text_of(page_of(folder))
    assert "The study has not finished" in text and "No results yet for dit" in text
    assert "maskgit at step 1,000 of 1,500" in text
    assert "Some evaluations lack a seed" in text and "step 1,000 · 3 seeds" in text  # step 1500 lacks member 2


def test_arms_behind_their_own_settings_are_missing(twelve_arms: Path, tmp_path: Path) -> None:
    """An arm trained for longer that stands where the others end has not finished, though all steps are the same."""
    folder = shutil.copytree(twelve_arms, tmp_path / "s")
    keep_rows(folder, lambda row: row["step"] <= 1000)
    a, b = TWELVE[-2:]
    assert read_study(folder).missing == [
        f"Not trained to the end yet: {a} at step 1,000 of 2,000 and {b} at step 1,000 of 2,000."
    ]
    keep_rows(folder, lambda row: row["step"] <= 500)
    (note,) = (note for note in read_study(folder).missing if note.startswith("Not trained"))
    assert (
        note == f"Not trained to the end yet: {TWELVE[0]} at step 500 of 1,000, dit at step 500 of 1,000 and 8 others."
    )
    with facts_of(folder) as facts:
        for arm in facts["arms"].values():
            del arm["settings"]["training"]
    shutil.copy(twelve_arms / "results.parquet", folder)
    assert "The arms stand at different steps" in read_study(folder).missing[0]  # the settings do not say


def test_facts_alone_give_a_page(tmp_path: Path) -> None:
    folder = not_judged(write_fake_study(tmp_path / "s", arms=("dit",), evaluations=2, pictures=False))
    text = text_of(page_of(folder))
    assert "What is missing" in text and "no arm has been judged" in text


def test_no_study_and_damaged_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no study"):
        write_report(tmp_path)
    for name in ("study.json", "results.parquet", NAME, "monitors.parquet"):
        folder = write_fake_study(tmp_path / name, arms=("dit",), evaluations=1, count=1, monitors=True)
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(UserError, match=name):
            write_report(folder)
        assert not list(folder.glob("*report.html*"))


def test_written_whole_over_an_older_page(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path / "s", arms=("dit",), evaluations=1, pictures=False)
    (folder / "report.html").write_text("old")
    assert page_of(folder).rstrip().endswith("</html>")
    assert sorted(p.name for p in folder.iterdir()) == ["report.html", "results.parquet", "study.json"]
