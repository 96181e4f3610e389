"""The report's section on the inside of the models: its intervals, its charts, and what is left out."""

import html
import re
from pathlib import Path
from typing import Any

import numpy as np

from fake_study import fake_monitors, write_fake_study
from pages import page_of, section_of, text_of
from recombine.judges.statistics import interval
from recombine.report import words
from recombine.report.inside import _reading, readings
from recombine.report.reading import read_study
from recombine.studies.monitors import ABOUT, about, write_monitors


def with_monitors(folder: Path, rows: list[dict[str, Any]], arms: tuple[str, ...] = ("maskgit", "dit")) -> Path:
    write_fake_study(folder, arms=arms, evaluations=1, pictures=False)
    write_monitors(folder, rows)
    return folder


def chart_of(section: str, label: str) -> dict[str, list[tuple[float, float]]]:
    """Arm to the places of its marks, in the chart that is spoken as `label`."""
    svg = re.search(rf'<svg class="layers[^>]*aria-label="{label}: one line.*?</svg>', section, re.S)
    assert svg, label
    places = {}
    for arm, body in re.findall(r'<g class="curve[^>]*aria-label="([^:"]+): [^>]*>(.*?)</g>', svg.group(0), re.S):
        places[arm] = [(float(x), float(y)) for x, y in re.findall(r"translate\(([-\d.]+) ([-\d.]+)\)", body)]
    return places


def test_no_monitors_no_section(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path, arms=("dit",), evaluations=1, pictures=False)
    for _ in range(2):
        page = page_of(folder)
        assert not section_of(page, "inside") and "#inside" not in re.sub(r"<style>.*?</style>", "", page, flags=re.S)
        write_monitors(folder, [])


def test_section_shows_the_interval_over_members_at_the_last_step(three_arms: Path, three_page: str) -> None:
    rows = read_study(three_arms).monitors
    last = max(row["step"] for row in rows)
    text = text_of(section_of(three_page, "inside"))
    found = readings(read_study(three_arms))
    assert (
        len(found) == len({(r["monitor"], r["layer"], r["level"]) for r in rows})
        and min(r["step"] for r in rows) < last
    )
    for (monitor, layer, level), own in found.items():
        for arm, reading in own.items():
            wanted = {"monitor": monitor, "layer": layer, "level": level, "arm": arm, "step": last}
            values = [row["value"] for row in rows if wanted.items() <= row.items()]
            share = monitor.startswith("linear") or monitor in ("scales_at_floor", "guidance_refused")
            assert len(values) == 3 and reading.interval == interval(values, share=share)
            low, high = reading.interval.low, reading.interval.high
            assert low is not None and high is not None
            ends = words.span(low, high) if share else f"{words.number(low)} to {words.number(high)}"
            mean = (words.percent if share else words.number)(reading.interval.mean)
            assert re.sub(r"\s+", " ", f"{mean} {ends}") in text, (monitor, layer, level, arm)
    for name in {row["monitor"] for row in rows}:
        assert ABOUT["linear_<factor>" if name.startswith("linear") else name].sentence in text


def test_lines_lie_where_the_numbers_are(three_arms: Path, three_page: str) -> None:
    """A chart's marks are one linear map away from the means, the same for every arm; higher is up."""
    found, section = readings(read_study(three_arms)), section_of(three_page, "inside")
    for label, monitor, level in (("RankMe", "rank_me", None), ("colour, level-2", "linear_colour", 2)):
        places = chart_of(section, label)
        assert list(places) == ["maskgit", "dit", "dit-ddpm"]
        means = np.array([[found[monitor, k, level][arm].interval.mean for k in range(1, 5)] for arm in places])  # type: ignore[union-attr]
        y = np.array([[at[1] for at in own] for own in places.values()])
        slope, middle = np.polyfit(means.ravel(), y.ravel(), 1)
        assert slope < 0 and abs(slope * means + middle - y).max() < 0.11  # places have one decimal
        x = np.array([[at[0] for at in own] for own in places.values()])
        assert (x == x[0]).all() and np.allclose(np.diff(x[0]), x[0, 1] - x[0, 0], atol=0.11)
    assert list(chart_of(section, "JEPA loss")) == ["maskgit"]  # the only arm that has it


def test_numbers_that_are_not_finite_are_left_out_and_said(tmp_path: Path) -> None:
    rows = fake_monitors(("maskgit", "dit"), 3)
    for row in rows:
        if row["monitor"] == "rank_me" and row["arm"] == "dit" and (row["layer"] == 2 or row["member"] == 0):
            row["value"] = float("nan")
    section = section_of(page_of(with_monitors(tmp_path, rows)), "inside")
    text = text_of(section)
    assert "Some numbers of dit are not finite" in text and "1 of 3 seeds left out" in text and "not a number" in text
    places = chart_of(section, "RankMe")
    assert len(places["dit"]) == 3 and len(places["maskgit"]) == 4


def test_one_seed_one_layer_many_arms_and_unknown_monitors(tmp_path: Path) -> None:
    page = page_of(with_monitors(tmp_path / "one", fake_monitors(("dit",), 1, layers=1), ("dit",)))
    one = section_of(page, "inside")
    assert "one seed each" in text_of(one) and 'class="band"' not in one
    assert len(chart_of(one, "RankMe")["dit"]) == 1
    arms = tuple(f"arm{i}" for i in range(12))
    rows = fake_monitors(arms, 2, layers=12)
    rows += [{**rows[0], "monitor": "novel", "layer": None, "level": None, "value": -12345.678}]
    many = section_of(page_of(with_monitors(tmp_path / "many", rows)), "inside")
    looks = re.findall(r'<li class="([^"]*)">.*?stroke-dasharray="([^"]*)".*?class="mark" d="([^"]*)"', many, re.S)
    assert len(looks) == len(set(looks)) == 12  # no two arms are drawn alike
    assert set(chart_of(many, "RankMe")) == set(arms)
    assert "novel" in text_of(many) and "−12,346 one seed" in text_of(many)


def test_names_from_the_table_are_escaped_in_the_charts(tmp_path: Path) -> None:
    evil = '"><script>document.documentElement.dataset.evil=1</script>'
    rows = [row | {"arm": evil} for row in fake_monitors(("dit",), 2)]
    rows += [row | {"monitor": f"{evil}2"} for row in rows if row["monitor"] == "rank_me"]
    page = page_of(with_monitors(tmp_path, rows))
    assert evil in html.unescape(section_of(page, "inside")) and "<script>document" not in page


def test_an_interval_inside_the_models_stays_where_the_number_can_be() -> None:
    """Two seeds far apart: Student's interval would reach below one dimension and beyond a cosine of 1."""
    for monitor, values, low, high in (
        ("rank_me", [2.0, 30.0], 1, None),
        ("spread", [0.1, 2.0], 0, None),
        ("mean_cosine", [-0.9, 0.9], -1, 1),
        ("linear_shape", [0.1, 0.9], 0, 1),
    ):
        found = _reading(values, about(monitor)).interval
        assert found is not None and found.low == low and (high is None or found.high == high)
    assert _reading([-1.0, 9.0], about("held_out_nll")).interval.low < -10  # a density's may be anything
