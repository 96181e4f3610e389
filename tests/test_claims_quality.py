"""The section on quality in RESULTS.md: the numbers of quality.parquet, of the studies that give a verdict, and folded
of one where hardly anything is right."""

from pathlib import Path

import pytest

from planted import OBJECTIVES, REPRODUCED, plant
from planted_beyond import by_arm, plant_shares, told_loudly
from recombine.claims.ledger import is_figures, make_ledger, open_studies
from recombine.claims.page import page_text, write_page
from recombine.claims.quality import SHOWN, TITLE, qualities
from recombine.studies.quality_table import ABOUT, write_quality

SEEDS = range(8)


def plant_quality(folder: Path, arms: dict[str, float], steps: tuple[int, ...] = (500, 1000)) -> Path:
    """A finished study with a verdict, whose arms have the planted number in every metric, at level-2 half of it; at
    an earlier step, another."""
    plant(folder, OBJECTIVES, REPRODUCED["objectives"])
    return add_quality(folder, "objectives", arms, steps)


def add_quality(folder: Path, study: str, arms: dict[str, float], steps: tuple[int, ...] = (500, 1000)) -> Path:
    rows = []
    for arm, height in arms.items():
        for seed in SEEDS:
            for step in steps:
                for level in (0, 1, 2):
                    for metric in (*SHOWN, "density"):
                        own = (height if step == max(steps) else 0.9) / (2 if level == 2 else 1) + 0.01 * (seed - 3.5)
                        names = {"study": study, "arm": arm, "member": seed, "seed": seed, "step": step}
                        numbers = {"value": own, "real": 0.5, "rebuilt": 0.25, "n": 128}
                        rows.append({**names, "level": level, "composition": None, "metric": metric, **numbers})
                        rows.append(rows[-1] | {"composition": "000", "value": 0.99})
    write_quality(folder, rows)
    return folder


def test_numbers_are_those_of_whole_levels_at_the_last_step(tmp_path: Path) -> None:
    verdicts = make_ledger(open_studies([plant_quality(tmp_path / "o", {"maskgit": 0.2, "dit-vq": 0.6})]))
    (found,) = qualities(verdicts)
    assert found.study.name == "objectives" and found.arms == ("maskgit", "dit-vq") and found.levels == (0, 1, 2)
    for metric in SHOWN:
        near, far = found.of(metric, 0, "maskgit"), found.of(metric, 2, "dit-vq")
        assert near and near.mean == pytest.approx(0.2) and near.low and near.low < 0.2 and near.n == len(SEEDS)
        assert far and far.mean == pytest.approx(0.3)
        assert found.of(metric, 0, "givt") is None  # it was not measured
        assert found.real[metric, 1] == (0.25 if metric == "copied" else 0.5)


def test_the_page_tells_least_and_most_and_all(tmp_path: Path) -> None:
    folder = plant_quality(tmp_path / "results" / "objectives", {"maskgit": 0.2, "dit-vq": 0.6})
    verdicts, *_ = write_page(tmp_path / "RESULTS.md", [folder])
    text = (tmp_path / "RESULTS.md").read_text()
    assert f"## {TITLE}" in text and "(#quality-beside-composition)" in text
    assert "<summary>The numbers of objectives</summary>\n\n**Of trained combinations:** " in text
    assert (
        "**Of trained combinations:** Fréchet distance 0.20 (`maskgit`) to 0.60 (`dit-vq`), fresh images 0.50" in text
    )
    assert "copied 10.0\u00a0% (`maskgit`) to 30.0\u00a0% (`dit-vq`), fresh images 25.0\u00a0%." in text
    for level in ("trained", "level-1", "level-2"):
        assert (
            text.count(f"| {level} | `maskgit` | ") == 1
            and f"| {level} | *fresh images (copied: redrawn)* | 0.50 |" in text
        )
    assert all(ABOUT[metric].title in text for metric in SHOWN) and ABOUT["density"].title not in text
    picture = tmp_path / "results" / "figures" / "quality-objectives.png"
    first = picture.read_bytes()
    write_page(tmp_path / "RESULTS.md", [folder])
    assert picture.read_bytes() == first and is_figures(picture.parent)
    assert text == page_text(verdicts, open_studies([folder]), tmp_path)


def test_where_little_is_right_it_is_told_folded(tmp_path: Path) -> None:
    """No verdict comes from loud, so it has no figure."""
    results = tmp_path / "results"
    one = plant_quality(results / "objectives", {"maskgit": 0.2, "dit-vq": 0.6})
    ends = by_arm({"maskgit": 0.02, "givt": 0.3}, others=0.1)
    loud = plant_shares(results / "loud", told_loudly(OBJECTIVES), ends, noise=0)
    summary = "<summary>The same of loud (B9), where 2\u00a0% to 10\u00a0% of level-2 is right and valid</summary>"
    write_page(tmp_path / "RESULTS.md", [one, loud])
    assert "The same of loud" not in (tmp_path / "RESULTS.md").read_text()  # its quality was not measured
    add_quality(loud, "loud", {"maskgit": 0.4, "mar": 0.3})  # GIVT's was not
    write_page(tmp_path / "RESULTS.md", [one, loud])
    before, _, after = (tmp_path / "RESULTS.md").read_text().partition(summary)
    assert after.split("\n\n")[1].startswith("**Of trained combinations:** Fréchet distance 0.30 (`mar`) to 0.40 (")
    assert "\n\n| pictures of |" in after and before.endswith("<details>")
    assert [path.name for path in (results / "figures").glob("quality-*")] == ["quality-objectives.png"]


def test_without_quality_or_without_a_verdict_nothing_is_shown(tmp_path: Path) -> None:
    plain = plant(tmp_path / "plain" / "results" / "objectives", OBJECTIVES, REPRODUCED["objectives"])
    home = tmp_path / "plain"
    (home / "results" / "figures").mkdir()
    stale = home / "results" / "figures" / "quality-objectives.png"
    stale.write_bytes(b"of an earlier page")
    write_page(home / "RESULTS.md", [plain])
    assert TITLE not in (home / "RESULTS.md").read_text() and not stale.exists()

    few = plant_quality(tmp_path / "few", {"maskgit": 0.2, "dit-vq": 0.6})
    plant(few, OBJECTIVES, REPRODUCED["objectives"], seeds=(0,))  # too few seeds for any verdict
    assert qualities(make_ledger(open_studies([few]))) == []


def test_numbers_that_are_missing_are_left_out(tmp_path: Path) -> None:
    folder = plant_quality(tmp_path / "o", {"maskgit": 0.2})
    rows = [row | {"value": None, "real": None} for row in _read(folder) if row["metric"] == "recall"]
    write_quality(folder, [row for row in _read(folder) if row["metric"] != "recall"] + rows)
    (found,) = qualities(make_ledger(open_studies([folder])))
    assert found.of("recall", 0, "maskgit") is None and ("recall", 0) not in found.real
    text = page_text(make_ledger(open_studies([folder])), open_studies([folder]), tmp_path)
    assert "precision 20\u00a0% (all), fresh images 50\u00a0%; diversity" in text


def _read(folder: Path) -> list[dict]:
    from recombine.studies.quality_table import read_quality

    return read_quality(folder).to_pylist()
