"""The report's section on the quality of the pictures: the last step beside real images, and holes."""

import re
from pathlib import Path

from fake_study import fake_quality, write_fake_study
from pages import page_of, section_of, text_of
from recombine.judges.statistics import interval
from recombine.report import words
from recombine.report.reading import read_study
from recombine.studies.quality_table import ABOUT as METRICS
from recombine.studies.quality_table import write_quality


def test_no_quality_no_section(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path, arms=("dit",), evaluations=1, pictures=False)
    for _ in range(2):
        page = page_of(folder)
        assert not section_of(page, "quality") and "#quality" not in re.sub(r"<style>.*?</style>", "", page, flags=re.S)
        write_quality(folder, [])


def test_quality_shows_the_last_step_with_intervals_and_the_numbers_of_real_images(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path, pictures=False, quality=True)
    rows = read_study(folder).quality
    last = max(row["step"] for row in rows)
    section = section_of(page_of(folder), "quality")
    own = [
        row["value"]
        for row in rows
        if (row["arm"], row["metric"], row["level"], row["composition"], row["step"])
        == ("dit", "nearest", 2, None, last)
    ]
    expected = interval(own)
    assert len(own) == 3 and expected.low is not None and expected.high is not None
    cell = f"{words.number(expected.mean)} {words.number(max(expected.low, 0))} to {words.number(expected.high)}"
    assert cell in text_of(section)
    assert section.count("real images</th>") == 3 and section.count("rebuilt by vq</th>") == 3  # a table per level
    assert all(about.title in section and text_of(about.sentence) in text_of(section) for about in METRICS.values())
    assert section.count("<svg class=") == 3 and section.count('<g class="curve') == 9  # an arm's point in each chart


def test_quality_with_one_seed_unknown_metrics_and_holes(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path, arms=("dit", "maskgit"), members=1, pictures=False)
    rows = [row for row in fake_quality(["dit"], 1) if row["composition"] is None and row["level"] < 2]
    rows[0] |= {"value": None, "real": None}
    rows += [rows[-1] | {"metric": "<b>new</b>"}]
    write_quality(folder, rows)
    section = section_of(page_of(folder), "quality")
    assert (
        "not a number" in section and "one seed" in section and "&lt;b&gt;new" in section and "maskgit" not in section
    )
