"""Similarity beside that of a blank picture: closed forms, by depth, in tables old and new, and on the page."""

import json
import re
import shutil
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from recombine.anatomy import measures
from recombine.anatomy.measures import read_measures
from recombine.curated import make_plane
from recombine.judges.plane import blank_ssim, by_depth, judge_plane, ssim, summarise
from recombine.judges.statistics import Interval
from recombine.report.contours import BY_DEPTH, MOST_ARMS, depth_figure
from recombine.report.rendering import COLUMNS, number, table_lines, write_rendering
from recombine.report.rendering_reading import read_rendering
from recombine.runner import run_study
from recombine.studies.spec import parse_study
from recombine.worlds.bumps import Bumps, BumpsSettings
from recombine.worlds.supports import DonutSupport, support_mask

STUDY = """
kind: rendering
name: similar
question: Is it more alike than nothing?
world: {kind: bumps, image_size: 12}
support: {kind: donut, low: 3, high: 8}
encoding: onehot
data: {images: 100}
training: {steps: 4, batch: 8}
judging: {evaluations: 1}
measures: outputs
members: 2
arms:
  cnn: {decoder: {kind: cnn, depth: 2, width: 4}}
  mlp: {decoder: {kind: mlp, depth: 1, width: 8}}
"""
COMMITTED = Path(__file__).parents[1] / "results" / "rendering"
DISSIMILAR = COLUMNS.index("held out: dissimilarity relative to blank")
PLACE = COLUMNS.index("held out: position error")


def plane_of(polarity="dark"):
    world = Bumps(BumpsSettings(image_size=12, polarity=polarity))
    mask = support_mask(DonutSupport(low=3, high=8), 12)
    return make_plane(world, torch.from_numpy(mask).flatten())


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("similar")
    run_study(parse_study(STUDY), folder / "out", folder / "store", "cpu")
    return folder


def without(column, folder, target):
    """The folder of a study as it was before a column."""
    shutil.copytree(folder, target)
    table = pq.read_table(target / "results.parquet")
    pq.write_table(table.drop_columns([column]), target / "results.parquet")
    return target


@pytest.mark.parametrize("polarity", ["dark", "bright"])
def test_a_blank_picture_has_1_at_every_cell_the_truth_0_and_garbage_more(polarity):
    plane = plane_of(polarity)
    blank = torch.full_like(plane.images, plane.background)
    noise = torch.rand(plane.images.shape, generator=torch.Generator().manual_seed(0))
    judged = judge_plane(torch.stack([blank, plane.images, noise]), plane)
    nothing = blank_ssim(plane)
    assert nothing.shape == plane.blank.shape and (nothing < 0.95).all() and (nothing > 0).all()
    assert torch.equal(nothing, ssim(blank, plane.images))
    each = (1 - judged.ssim) / (1 - nothing)  # (3, C)
    assert each[0].tolist() == pytest.approx([1.0] * len(nothing), abs=1e-5)
    assert each[1].abs().max() < 1e-4 and each[2].min() > 1
    for where in (plane.trained, ~plane.trained):
        found = summarise(judged, plane, where)["dissimilarity"]
        assert found[:2].tolist() == pytest.approx([1, 0], abs=1e-4) and found[2] > 1
    for depth, found in by_depth(judged, plane).items():
        assert found["dissimilarity"][:2].tolist() == pytest.approx([1, 0], abs=1e-4), depth


def test_it_is_a_ratio_of_means_as_the_relative_error_is():
    plane = plane_of()
    half = plane.images.clone()
    half[::2] = plane.background
    judged, held = judge_plane(half[None], plane), ~plane.trained
    found = summarise(judged, plane, held)
    lost = 1 - blank_ssim(plane)
    drawn = torch.arange(len(lost)) % 2 == 1
    expected = lost[held & ~drawn].sum() / lost[held].sum()
    assert found["dissimilarity"].item() == pytest.approx(expected.item(), abs=1e-5)


def test_by_depth_from_a_planted_table(finished, tmp_path):
    """Numbers made to order by depth and member; what is read is what a hand would work out."""
    folder = tmp_path / "planted"
    shutil.copytree(finished / "out", folder)
    rows = pq.read_table(folder / "results.parquet").to_pylist()
    for row in rows:
        row["blank_ssim"] = 0.8 if (row["x"] + row["y"]) % 2 else 0.6
        row["ssim"] = 0.9 - 0.1 * row["depth"] - 0.05 * row["member"]
        row["position_error"] = 3 * row["depth"] + row["member"]
    pq.write_table(pa.Table.from_pylist(rows), folder / "results.parquet")
    arm = read_rendering(folder).arms["cnn"]
    assert arm.depths == [0, 1, 2]
    for depth in arm.depths:
        where = arm.depth == depth
        mean = np.mean([0.8 if (x + y) % 2 else 0.6 for x, y in arm.cells[where]])
        expected = [(0.1 + 0.1 * depth + 0.05 * member) / (1 - mean) for member in (0, 1)]
        assert arm.members("dissimilarity", where).tolist() == pytest.approx(expected)
        assert arm.members("position_error", where).tolist() == pytest.approx([3 * depth, 3 * depth + 1])
    line = table_lines(read_rendering(folder))[0]
    held = ~arm.trained
    assert line[DISSIMILAR] == number(arm.mean("dissimilarity", held)) and float(line[DISSIMILAR].split()[0]) > 0
    drawn = depth_figure({"cnn": arm}).axes
    assert [axis.get_ylabel() for axis in drawn] == [
        "error / blank",
        "dissimilarity / blank",
        "position error (px)",
        "found within 1",
    ]
    thick = [max(axis.lines, key=lambda one: one.get_linewidth()).get_ydata() for axis in drawn]
    for word, line in zip(BY_DEPTH, thick, strict=True):
        assert line.tolist() == pytest.approx([arm.members(word, arm.depth == depth).mean() for depth in arm.depths])


def test_a_new_run_has_the_column_the_measure_and_the_page(finished):
    out = finished / "out"
    table = pq.read_table(out / "results.parquet")
    plane = parse_study(STUDY).arms["cnn"].plane()
    cells = table.filter(pa.compute.equal(table["arm"], "cnn")).slice(len(plane.cells), len(plane.cells))  # member 1
    assert cells["blank_ssim"].to_pylist() == pytest.approx(blank_ssim(plane).tolist())
    study = read_rendering(out)
    for row in read_measures(out):
        if row["measure"] == "dissimilarity":
            arm = study.arms[row["arm"]]
            where = {"trained": arm.trained, "held_out": ~arm.trained, "deep": arm.depth >= 2}[row["region"]]
            of_table = arm.members("dissimilarity", where)[arm.seeds.index(row["seed"])]
            assert row["value"] == pytest.approx(of_table, rel=0.05)  # measured in another precision than judged
    assert {row["region"] for row in read_measures(out) if row["measure"] == "dissimilarity"} == {
        "trained",
        "held_out",
        "deep",
    }
    page = (out / "report.html").read_text(encoding="utf-8")
    assert all(f'<th scope="col">{word}</th>' in page for word in COLUMNS) and "(degrees)" not in page


def test_an_older_table_is_read_with_the_same_numbers(finished, tmp_path):
    old = read_rendering(without("blank_ssim", finished / "out", tmp_path / "old"))
    new = read_rendering(finished / "out")
    for name, arm in new.arms.items():
        assert old.arms[name].blank_ssim.tolist() == pytest.approx(arm.blank_ssim.tolist())
    assert table_lines(old) == table_lines(new)


def test_where_the_world_cannot_be_drawn_again_there_is_a_dash(finished, tmp_path):
    """Settings of another world than the table's: the page is written all the same, without a word of numpy."""
    folder = without("blank_ssim", finished / "out", tmp_path / "old")
    facts = (folder / "study.json").read_text(encoding="utf-8").replace('"hash"', '"no_hash"')  # it would be noticed
    assert re.search(r'"sigma": *1\.0', facts)
    for changed in (r'"sigma": 1.3', r'"sigma": "wide"'):
        (folder / "study.json").write_text(re.sub(r'"sigma": *1\.0', changed, facts), encoding="utf-8")
        study = read_rendering(folder)
        assert [line[DISSIMILAR] for line in table_lines(study)] == ["–", "–"]
        assert all("–" not in line[:DISSIMILAR] + line[PLACE:] for line in table_lines(study))
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            assert "<td>–</td>" in write_rendering(folder).read_text(encoding="utf-8")
    assert number(Interval(0.0, 0.0, 0.0, 8)) == "0 (0 to 0)"


def test_stored_measures_from_before_are_used_as_they_are(tmp_path, monkeypatch):
    text = STUDY.replace("similar", "before")

    def before(*some):
        return {word: value for word, value in summarise(*some).items() if word != "dissimilarity"}

    with monkeypatch.context() as patch:
        patch.setattr(measures, "summarise", before)
        run_study(parse_study(text), tmp_path / "out", tmp_path / "store", "cpu")
    first = read_measures(tmp_path / "out")
    more = text + "  late: {decoder: {kind: mlp, depth: 1, width: 4}}\n"
    run_study(parse_study(more), tmp_path / "more", tmp_path / "store", "cpu")
    second = read_measures(tmp_path / "more")
    assert [row for row in second if row["arm"] != "late"] == first
    assert {row["arm"] for row in second if row["measure"] == "dissimilarity"} == {"late"}


def test_many_arms_keep_to_the_first(finished):
    arm = read_rendering(finished / "out").arms["cnn"]
    figure = depth_figure({f"arm {i}": arm for i in range(70)})
    assert len(figure.axes) == MOST_ARMS * len(BY_DEPTH)


@pytest.mark.skipif(not COMMITTED.is_dir(), reason="no committed results here")
def test_the_page_of_committed_results(tmp_path):
    """Two of its arms, without measures: all figures of all arms take long."""
    shutil.copy(COMMITTED / "results.parquet", tmp_path)
    facts = json.loads((COMMITTED / "study.json").read_text(encoding="utf-8"))
    facts["arms"] = {name: facts["arms"][name] for name in ("cnn", "published-coordinate")}
    del facts["hash"]  # that of all arms
    (tmp_path / "study.json").write_text(json.dumps(facts), encoding="utf-8")
    page = write_rendering(tmp_path).read_text(encoding="utf-8")
    study = read_rendering(tmp_path)
    assert (tmp_path / "figures" / "depth.png").stat().st_size > 10_000 and "What each arm draws" not in page
    held = ~study.arms["cnn"].trained
    assert study.arms["cnn"].blank_ssim[held].mean() == pytest.approx(0.884, abs=5e-4)
    assert all(line[DISSIMILAR] != "–" for line in table_lines(study))
