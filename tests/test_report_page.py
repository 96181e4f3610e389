"""The report's page: right numbers, safe text, one file."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fake_study import CODES, LEVELS, not_judged, refill, write_fake_study
from folders import facts_of
from pages import page_of, section_of, text_of
from recombine.judges.statistics import summarize
from recombine.report import words
from recombine.report.page import embed
from recombine.report.reading import read_study


def curve_data(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="curve-data">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found.group(1))


def test_table_shows_the_statistics_of_every_arm_and_level(three_arms: Path, three_page: str) -> None:
    text = text_of(three_page)
    rows = pq.read_table(three_arms / "results.parquet").to_pylist()
    summaries = summarize(rows)
    assert len(summaries) == 9
    for one in summaries:
        assert one.interval.low is not None and one.interval.high is not None
        shown = f"{words.percent(one.interval.mean)} {words.span(one.interval.low, one.interval.high)}"
        assert re.sub(r"\s+", " ", shown) in text, (one.arm, one.level)


def test_curves_hold_every_member_at_every_step(three_arms: Path, three_page: str) -> None:
    data = curve_data(three_page)
    assert [arm["name"] for arm in data["arms"]] == ["maskgit", "dit", "dit-ddpm"]
    for row in pq.read_table(three_arms / "results.parquet").to_pylist():
        arm = next(a for a in data["arms"] if a["name"] == row["arm"])
        at = arm["steps"].index(row["step"])
        for measure in ("joint", "joint_raw", "joint_probe_only", "joint_probe_only_raw"):
            assert arm["values"][measure][row["composition"]][at][row["member"]] == pytest.approx(
                row[measure], abs=1e-4
            )


def test_page_is_one_small_file_without_outside_resources(three_page: str) -> None:
    page = three_page
    assert len(page.encode()) < 2_000_000
    for address in re.findall(r'(?:src|href)\s*=\s*"([^"]*)"', page):
        assert address.startswith(("data:", "#")), address
    assert (
        "@import" not in page and "url(" not in page and "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    )
    assert "https://" not in page


def test_each_generated_picture_has_its_verdict(three_arms: Path, three_page: str) -> None:
    pictures = read_study(three_arms).pictures
    for arm in ("maskgit", "dit"):
        right, valid = pictures[f"{arm}.right"], pictures[f"{arm}.valid"]
        counts = [(right & valid).sum(), (right & (1 - valid)).sum(), (1 - right).sum()]
        spoken = re.findall(
            rf'aria-label="{arm}: of 8 pictures (\d+) right and valid, (\d+) right by [^"]*?, (\d+) wrong"', three_page
        )
        assert len(spoken) == len(CODES)
        assert [sum(int(one[i]) for one in spoken) for i in range(3)] == counts


def test_user_text_is_escaped(tmp_path: Path) -> None:
    evil = "</script><script>document.documentElement.dataset.evil=1</script>\"'&"
    folder = write_fake_study(tmp_path / "s", arms=("dit",), evaluations=2, count=1, name=evil, question=f"Q {evil}?")
    with facts_of(folder) as facts:
        facts["world"]["factors"][0]["values"][0] = evil  # reaches the script's data through the compositions' words
    page = page_of(folder)
    assert "<script>document" not in page
    assert page.count("</script") == 3  # the error listener, the data, the program
    assert evil in curve_data(page)["compositions"][0]["words"]
    assert evil in html.unescape(page)


def test_embedded_json_cannot_leave_its_element() -> None:
    data = {"a": "</script><!--<script>", "b": "\u2028&amp;"}
    text = str(embed(data))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == data
    with pytest.raises(ValueError):
        embed(float("nan"))


def test_arms_that_count_levels_from_their_own_training_are_told_apart(tmp_path: Path) -> None:
    """One arm trained without 100: for it that is level-1, and 110 and 101 are level-2."""
    folder = write_fake_study(tmp_path, arms=("maskgit", "dit"), pictures=False)
    own = {("dit", "100"): 1, ("dit", "110"): 2, ("dit", "101"): 2, ("dit", "111"): 3}
    refill(folder, "level", lambda row: own.get((row["arm"], row["composition"]), row["level"]))
    study = read_study(folder)
    assert study.levels["100"] == 0 and study.levels_of["dit"]["100"] == 1 and study.level_numbers == [0, 1, 2, 3]
    assert any("trained on other combinations" in note for note in words.warnings(study))
    assert [(one.arm, one.level) for one in words.abilities(study)] == [("maskgit", 2), ("dit", 3)]
    text = text_of(page_of(folder))
    assert "farthest from what it was trained on? maskgit, level-2" in text and "dit, level-3" in text
    assert text.count("no such combination") == 1 and "no results yet" not in text  # maskgit's level-3
    assert "Combination maskgit dit 000 circle, blue, small trained trained 001" in text
    assert "100 square, blue, small trained level-1 101" in text and "111 square, orange, large level-2 level-3" in text
    plain = write_fake_study(tmp_path / "plain", pictures=False)
    assert not any("trained on other combinations" in note for note in words.warnings(read_study(plain)))
    assert "Some arms are trained on other combinations" not in text_of(page_of(plain))
    assert "farthest from training (level-2)?" in text_of(page_of(plain))


def test_one_arm_that_is_trained_on_others_than_the_split_says(tmp_path: Path) -> None:
    """As where the first arm of an unfinished study lists its own: the split is not its."""
    folder = write_fake_study(tmp_path, arms=("dit",), evaluations=1, pictures=False)
    own = {"000": 1, "111": 0}
    refill(folder, "level", lambda row: own.get(row["composition"], row["level"]))
    assert any("trained on other combinations" in note for note in words.warnings(read_study(folder)))
    text = text_of(page_of(folder))
    assert "000 circle, blue, small level-1 001" in text and "111 square, orange, large trained" in text


def test_pictures_say_the_level_they_have_for_their_arm(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path, arms=("maskgit", "dit"), evaluations=1)
    refill(folder, "level", lambda row: 0 if (row["arm"], row["composition"]) == ("dit", "111") else row["level"])
    text = section_of(page_of(folder), "pictures")
    assert re.findall(r'class="label">(\S+) <em>\((.*?)\)</em>', text) == [("dit", "trained")]


def test_large_worlds_are_sampled_per_level(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path / "s", arms=("dit",), evaluations=1, pictures=False)
    with facts_of(folder) as facts:
        facts["split"]["levels"] = {f"{i:03d}": i % 5 for i in range(1000)}
        facts["world"]["factors"] = [{"name": n, "values": [str(v) for v in range(10)]} for n in "abc"]
    assert page_of(not_judged(folder)).count("<code>") < 150


def test_levels_of_the_fake_study_are_hamming_distances() -> None:
    """The invented study must itself be right, or the tests of the report test nothing."""
    train = [code for code in CODES if LEVELS[code] == 0]
    for code in CODES:
        assert LEVELS[code] == min(sum(a != b for a, b in zip(code, other, strict=True)) for other in train)
