"""RESULTS.md beside the numbers: what the models draw, why pictures are refused, and each study's limits once."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from folders import put_pictures
from planted import CODES, LEVELS, OBJECTIVES, REPRODUCED, plant
from recombine.claims import ladder
from recombine.claims.ledger import ask, is_figures, make_ledger, open_studies
from recombine.claims.page import page_text, write_page
from recombine.claims.tables import Measure
from recombine.studies.pictures import NAME, read_pictures
from recombine.studies.results import write_results

ROOT = Path(__file__).resolve().parent.parent
LIMITS = "Invented arms that show nothing of any model."
CONTINUOUS = ("givt", "mar", "dit-vq")


def planted(folder: Path) -> Path:
    """The study in which C1 and C4 are reproduced, with limits of its own."""
    plant(folder, OBJECTIVES, REPRODUCED["objectives"])
    facts = json.loads((folder / "study.json").read_text())
    (folder / "study.json").write_text(json.dumps(facts | {"limits": LIMITS}))
    return folder


def with_columns(folder: Path, values: Callable[[dict[str, Any]], dict[str, Any]]) -> Path:
    """The same with more columns in its table."""
    rows = pq.read_table(folder / "results.parquet").to_pylist()
    write_results(folder, [row | values(row) for row in rows])
    return folder


def with_pictures(folder: Path, arms: tuple[str, ...] = ("maskgit", "givt")) -> Path:
    pictures: dict[str, np.ndarray] = {}
    for i, arm in enumerate(arms):
        pictures[arm] = np.full((len(CODES), 8, 3, 28, 28), 40 * i, np.uint8)
        pictures |= {f"{arm}.{word}": np.ones((len(CODES), 8), np.uint8) for word in ("right", "valid", "joint")}
    put_pictures(folder, pictures)
    return folder


def refusals(folder: Path) -> list[str]:
    """The sentences of C1 that say why pictures are refused."""
    return [
        text
        for text in ask(ladder.CLAIM, open_studies([folder])).evidence
        if text.startswith("Share of pictures that passes each check")
    ]


def test_why_pictures_are_refused(tmp_path: Path) -> None:
    """Level-2 alone, and the last fifth alone: other levels and earlier evaluations have other numbers here."""
    early = max(row["step"] for row in pq.read_table(planted(tmp_path) / "results.parquet").to_pylist()) * 0.8

    def values(row: dict[str, Any]) -> dict[str, Any]:
        counts = row["level"] == 2 and row["step"] > early
        lean = 0.01 * (row["seed"] - 3.5)  # seeds differ, and their mean is as below
        in_range, clean = (0.29, 0.1) if row["arm"] == "maskgit" else (0.89, 0.46)
        probe = 0.83 if row["arm"] == "maskgit" else 0.999
        if not counts:
            return {"in_range": 0.6, "clean": 0.7, "joint_probe_only": 0.5}
        return {"in_range": in_range + lean, "clean": clean + lean, "joint_probe_only": probe}

    before = ask(ladder.CLAIM, open_studies([tmp_path])).verdict
    (found,) = refusals(with_columns(tmp_path, values))
    rungs = ", ".join(f"{label} 99.9 / 89 / 46\u00a0%" for label in ("GIVT", "MAR", "DiT"))
    assert found.endswith(f"MaskGIT 83 / 29 / 10\u00a0%, {rungs}.")
    assert ask(ladder.CLAIM, open_studies([tmp_path])).verdict == before == "reproduced"


def test_why_pictures_are_refused_at_the_same_evaluations(tmp_path: Path) -> None:
    """At each seed's peak all columns are those of the evaluation at which right and valid pictures peak."""
    last = max(row["step"] for row in pq.read_table(planted(tmp_path) / "results.parquet").to_pylist())

    def values(row: dict[str, Any]) -> dict[str, Any]:
        at = row["step"] == last // 2  # the peak; the other columns are highest elsewhere
        return {
            "joint": 0.6 if at else 0.1,
            **dict.fromkeys(("joint_probe_only", "in_range", "clean"), 0.7 + 0.2 * (not at)),
        }

    study = open_studies([with_columns(tmp_path, values)])["objectives"]
    for when, text in (("peak", "70 / 70 / 70"), ("end", "90 / 90 / 90")):
        found = ladder.judge(study, {}, Measure(when=when))
        (said,) = (note for note in found.notes if note.startswith("Share of pictures that passes each check"))
        assert f"MaskGIT {text}\u00a0%" in said


def test_tables_that_do_not_say_why(tmp_path: Path) -> None:
    """Older tables lack the columns; one that was continued by newer code has them for some arms only."""
    assert not refusals(planted(tmp_path))
    with_columns(tmp_path, lambda row: dict.fromkeys(("in_range", "clean"), 0.5 if row["arm"] != "mar" else None))
    assert not refusals(tmp_path)
    with_columns(tmp_path, lambda row: dict.fromkeys(("in_range", "clean"), 0.5))
    assert len(refusals(tmp_path)) == 1


def test_pictures_stand_beside_c1_while_they_are_there(tmp_path: Path) -> None:
    folder = with_pictures(planted(tmp_path / "results" / "objectives"))
    figures, page = tmp_path / "results" / "figures", tmp_path / "RESULTS.md"
    write_page(page, [folder])
    text = page.read_text(encoding="utf-8")
    assert text.count("results/figures/C1-drawn.png") == 1
    c1 = text[text.index("## C1.") : text.index("## C4.")]
    assert "](results/figures/C1-drawn.png)" in c1
    assert (figures / "C1-drawn.png").read_bytes().startswith(b"\x89PNG")
    assert is_figures(figures) and list(open_studies([folder, figures])) == ["objectives"]
    assert page_text(make_ledger(open_studies([folder])), open_studies([folder]), tmp_path) == text
    (folder / NAME).unlink()
    write_page(page, [folder])
    assert "C1-drawn" not in page.read_text(encoding="utf-8") and not (figures / "C1-drawn.png").exists()


def test_a_studys_own_limits_are_said_once(tmp_path: Path) -> None:
    studies = open_studies([planted(tmp_path / "results" / "objectives")])
    verdicts = make_ledger(studies)
    judged = [one for one in verdicts if one.finding is not None]
    assert len(judged) > 1 and all(any(LIMITS in limit for limit in one.limits) for one in judged)  # for machines
    text = page_text(verdicts, studies, tmp_path)
    assert text.count(LIMITS) == 1 and text.index(LIMITS) > text.index("## How the studies were run")
    assert text.count("[its limits](#run-objectives)") >= len(judged) and text.count('<a id="run-objectives">') == 1
    for one in judged:
        for limit in one.limits:
            assert limit in text or LIMITS in limit


def test_without_limits_there_is_no_link(tmp_path: Path) -> None:
    studies = open_studies([plant(tmp_path / "results" / "objectives", OBJECTIVES, REPRODUCED["objectives"])])
    assert not studies["objectives"].finished.limits
    assert "its limits" not in page_text(make_ledger(studies), studies, tmp_path).lower()


def test_planted_levels_have_what_is_held_out() -> None:
    assert {LEVELS[code] for code in CODES} == {0, 1, 2} and set(CONTINUOUS) < set(REPRODUCED["objectives"])


@pytest.mark.skipif(not (ROOT / "RESULTS.md").exists(), reason="no RESULTS.md has been written yet")
def test_committed_figures_are_there() -> None:
    """Every figure that RESULTS.md shows lies where it says, and no figure is left that it does not show."""
    text = (ROOT / "RESULTS.md").read_text(encoding="utf-8")
    named = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert named and all((ROOT / name).is_file() for name in named)
    own = [Path(name).name for name in named if Path(name).parent.name == "figures"]
    assert sorted(path.name for path in (ROOT / "results" / "figures").iterdir()) == sorted(own)


def test_the_first_screen_shows_what_is_asked_and_what_counts(tmp_path: Path) -> None:
    """Where there are real images and a picture of every verdict at level-2; else the words stand alone."""
    study = with_pictures(planted(tmp_path / "objectives"))
    pictures = read_pictures(study)
    pictures["real"] = np.full((len(CODES), 8, 3, 28, 28), 200, np.uint8)
    far = list(LEVELS.values()).index(2)
    pictures["maskgit.joint"][far, 1:] = 0  # named right all the same
    pictures["maskgit.right"][far, 2:] = 0
    shown = "![What is asked and what counts](results/figures/asked.png)"
    picture = tmp_path / "results" / "figures" / "asked.png"

    def page() -> str:
        put_pictures(study, pictures)
        write_page(tmp_path / "RESULTS.md", [study])
        return (tmp_path / "RESULTS.md").read_text()

    assert shown in page() and picture.stat().st_size > 5_000
    first = picture.read_bytes()
    assert shown in page() and picture.read_bytes() == first and is_figures(picture.parent)
    pictures["maskgit.right"][far, 2:] = 1  # by no model is it named wrong
    assert shown not in page() and not picture.exists()
    pictures["maskgit.right"][far, 2:] = 0
    del pictures["real"]
    assert shown not in page() and not picture.exists()
