"""What goes wrong in a forced-rendering study is said, and its numbers do not pretend: members that diverge, damaged
files, supports in parts, gaps and holes of one cell, and intervals beyond what a number can be."""

import gzip
import json
import re
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fake_study import write_fake_study
from recombine.anatomy.factorization import read_out
from recombine.anatomy.measures import read_measures
from recombine.anatomy.superposition import additive_weights
from recombine.errors import UserError
from recombine.judges.statistics import Interval
from recombine.report import words
from recombine.report.reading import read_study
from recombine.report.rendering import answer, diverged, number, print_rendering, table_lines, write_rendering
from recombine.report.rendering_inside import Measures, draw_inside
from recombine.report.rendering_reading import ArmNumbers, read_rendering
from recombine.report.terminal import print_summary
from recombine.runner import run_study
from recombine.studies.diverged import diverged_seeds, diverged_sentence
from recombine.studies.pictures import NAME
from recombine.studies.rendering_run import known_losses
from recombine.studies.spec import parse_study
from recombine.worlds.digits import IMAGES_MAGIC, read_idx
from recombine.worlds.supports import GapSupport, connected, gap_mask

STUDY = """
kind: rendering
name: trouble
question: Is trouble said?
world: {kind: bumps, image_size: 8, polarity: bright}
support: {kind: donut, low: 3, high: 4}
encoding: onehot
data: {images: 100}
training: {steps: 4, batch: 8}
judging: {evaluations: 2}
measures: outputs
members: 2
arms:
  a: {decoder: {kind: cnn, depth: 2, width: 8}}
"""
SENTENCE = "seeds 0 and 1 of arm a diverged (their loss is not a number): lower training.rate"
DIAGONAL = ", ".join('"' + "." * i + "#" + "." * (7 - i) + '"' for i in range(8))


def run(text, folder):
    """Run a study with every warning of numpy an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        return run_study(parse_study(text), folder / "out", folder / "store", "cpu").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def exploded(tmp_path_factory):
    """A study in which both members of an arm diverge, and a sane arm beside it; its page."""
    folder = tmp_path_factory.mktemp("exploded")
    sane = "  b: {decoder: {kind: cnn, depth: 2, width: 8}}\n"
    text = STUDY.replace("  a: {", "  a: {training: {rate: 1.0e+30}, ") + sane
    return folder / "out", run(text, folder)


def test_a_diverged_arm_is_said_on_the_page_and_has_no_numbers_there(exploded):
    folder, page = exploded
    study = read_rendering(folder)
    assert study.arms["a"].diverged == (0, 1) and study.arms["b"].diverged == ()
    assert f"<li>{SENTENCE}.</li>" in page
    lost, sane = table_lines(study)
    assert lost == ["a (diverged)", *["diverged"] * 10]  # with bright bumps it would score 1 of a blank, exactly
    assert sane[0] == "b" and not any("diverged" in cell for cell in sane)
    assert "counts in the means of its arm" in page
    assert [sentence.split()[0] for sentence in answer(study)] == ["b"]
    assert (study.arms["a"].members("relative", study.arms["a"].trained) == 1).all()  # what would have been shown


def test_figures_call_a_diverged_arm_so_too(exploded):
    study = read_rendering(exploded[0])
    named = study.labelled
    assert list(named.arms) == ["a (diverged)", "b"] and named.arms["a (diverged)"].name == "a (diverged)"
    assert set(named.pictures) == {"a (diverged)", "a (diverged).real", "b", "b.real"}


def test_what_is_missing_inside_is_left_blank_without_a_word_of_numpy(exploded):
    """A lost arm has no figure of its layers; of the other, a kernel without a number and a hole without a volume."""
    study = read_rendering(exploded[0])
    hole = np.where(study.arms["b"].trained, 1.0, np.nan)
    maps = {"b.kernel.input": np.full(64, np.nan), "b.volume.input": hole}
    maps |= {f"a.{kind}.input": np.full(64, np.nan) for kind in ("kernel", "volume")}
    rows = [
        {"arm": arm, "layer": "input", "measure": "overlap", "region": "all", "value": np.nan} for arm in study.arms
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert set(draw_inside(study, Measures(rows, maps))) == {"volume-b"}


def test_a_diverged_arm_is_said_when_it_ends_and_in_the_summary(exploded, capsys, tmp_path):
    run(STUDY.replace("steps: 4", "rate: 1.0e+30, steps: 4"), tmp_path)
    said = capsys.readouterr()
    lines = " ".join((said.out + said.err).split())
    assert f"members in 0 s; all diverged {SENTENCE}" in re.sub(r"in \d+ s", "in 0 s", lines)
    capsys.readouterr()
    print_rendering(exploded[0])
    said = " ".join(capsys.readouterr().out.split())
    assert f"{SENTENCE}." in said and "(diverged)" in said


def test_one_seed_of_several_stays_in_the_table_and_is_named(exploded, tmp_path):
    """The loss of seed 1 of arm b is taken from a table that was written."""
    folder = exploded[0]
    table = pq.read_table(folder / "results.parquet").to_pylist()
    for row in table:
        row["loss"] = None if row["arm"] == "b" and row["seed"] == 1 else 0.5
    for name in ("study.json", NAME):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "results.parquet")
    study = read_rendering(tmp_path)
    assert study.arms["b"].diverged == (1,) and len(study.arms["b"].members("mse", study.arms["b"].trained)) == 2
    assert table_lines(study)[1][0] == "b (1 of 2 seeds diverged)"
    assert diverged(study) == ["seed 1 of arm b diverged (its loss is not a number): lower training.rate."]
    assert [sentence.split()[0] for sentence in answer(study)] == ["a", "b"]  # the other seed has something to say
    assert "b (1 of 2 seeds diverged)" in write_rendering(tmp_path).read_text(encoding="utf-8")


def test_a_member_that_breaks_in_the_very_last_step_has_diverged():
    """Its mean loss is still a number, its pictures are not; one odd picture of many is no divergence."""
    pictures = torch.zeros(3, 4, 2, 8, 8)
    pictures[1] = torch.nan
    pictures[2, 0, 0, 0, 0] = torch.inf
    assert known_losses([0.1, 0.2, 0.3], pictures) == [0.1, None, 0.3]
    assert known_losses([torch.nan, 0.2, torch.inf], torch.zeros(3, 4, 1, 8, 8)) == [None, 0.2, None]


def test_the_sentence_counts_its_seeds_and_tables_without_losses_say_nothing():
    assert diverged_sentence("a", [0, 1]) == SENTENCE
    assert diverged_sentence("a", [0, 2, 5]).startswith("seeds 0, 2 and 5 of arm a")
    rows = [{"seed": 3, "loss": None}, {"seed": 3, "loss": None}, {"seed": 1, "loss": 0.2}]
    assert diverged_seeds(rows) == [3] and diverged_seeds([{"seed": 0}]) == []


def test_the_other_kind_of_study_says_it_on_its_page_and_in_the_terminal(tmp_path, capsys):
    folder = write_fake_study(tmp_path / "study")
    assert words.diverged(read_study(folder)) == []
    table = pq.read_table(folder / "results.parquet").to_pylist()
    arm, seed, last = table[0]["arm"], table[0]["seed"], max(row["step"] for row in table)
    for row in table:
        if row["arm"] == arm and row["seed"] == seed and row["step"] == last:
            row["loss"] = None
    pq.write_table(pa.Table.from_pylist(table), folder / "results.parquet")
    sentence = f"seed {seed} of arm {arm} diverged (its loss is not a number): lower training.rate."
    assert words.warnings(read_study(folder))[0] == sentence
    print_summary(folder)
    assert sentence in " ".join(capsys.readouterr().out.split())


def test_a_corrupt_gzip_is_one_sentence(tmp_path):
    whole = bytearray(gzip.compress(bytes(range(256)) * 40))
    whole[20:40] = b"\xff" * 20  # inside the packed bytes: neither the head nor the checksum
    path = tmp_path / "images.gz"
    path.write_bytes(whole)
    with pytest.raises(UserError, match=r"cannot read .*give an IDX file of MNIST, plain or gzipped"):
        read_idx(str(path), IMAGES_MAGIC)


def test_a_support_in_parts_is_run_without_the_additive_prediction(tmp_path, capsys):
    text = STUDY.replace("{kind: donut, low: 3, high: 4}", f"{{kind: mask, rows: [{DIAGONAL}]}}")
    page = run(text, tmp_path)
    said = "the additive prediction is not measured, since the trained cells fall into parts"
    output = capsys.readouterr()
    assert said in " ".join((output.out + output.err).split()) and said in page
    measured = {row["measure"] for row in read_measures(tmp_path / "out")}
    assert "superposition_share" in measured and not any(name.startswith("additive") for name in measured)
    assert json.loads((tmp_path / "out" / "study.json").read_text())["finished"]


def test_connected_says_exactly_where_the_additive_prediction_is_fixed():
    generator = torch.Generator().manual_seed(0)
    cells = torch.cartesian_prod(torch.arange(4), torch.arange(4))
    seen = {True: 0, False: 0}
    while min(seen.values()) < 5:
        trained = torch.rand(16, generator=generator) < 0.4
        plane = trained.view(4, 4)
        if not (plane.any(0).all() and plane.any(1).all()) or trained.all():
            continue
        whole = connected(cells, trained)
        seen[whole] += 1
        if whole:
            additive_weights(cells, trained)
        else:
            with pytest.raises(UserError, match="do not fix an additive prediction"):
                additive_weights(cells, trained)


def test_a_gap_leaves_an_angle_at_each_edge():
    angles = torch.arange(36) * 10.0
    with pytest.raises(ValueError, match=r"from 0 to 360 degrees leaves 1 trained angle.*make it narrower"):
        gap_mask(GapSupport(low=0, high=360), angles)
    assert int(gap_mask(GapSupport(low=0, high=350), angles).sum()) == 2
    assert int(gap_mask(GapSupport(low=10, high=360), angles).sum()) == 2


def test_a_hole_of_one_cell_has_blanks_and_no_warnings(tmp_path):
    text = STUDY.replace("low: 3, high: 4", "low: 3, high: 3")
    page = run(text, tmp_path)
    control = [row["value"] for row in read_measures(tmp_path / "out") if row["measure"] == "superposition_control"]
    assert control and np.isnan(control).all()  # there are no other memories
    assert ">nan" not in page and ">inf" not in page


def test_a_read_out_of_cells_without_spread_has_no_r2():
    cells = torch.cartesian_prod(torch.arange(5), torch.arange(5))
    trained = torch.ones(25, dtype=torch.bool)
    trained[12] = False
    found = read_out(torch.randn(2, 25, 6, generator=torch.Generator().manual_seed(0)), cells, trained)
    assert found.held_out_r2.isnan().all() and found.held_out_error.isfinite().all()
    assert found.trained_r2.isfinite().all()


def test_intervals_end_where_the_truth_must_lie():
    values = {word: np.array([[1.0, 1.0], [0.9, 0.9]]) for word in ("mse", "ssim", "joint")}
    blank, trained = np.ones(2), np.array([True, False])
    arm = ArmNumbers("a", 1, (0, 1), np.zeros((2, 2)), trained, np.array([-1.0, 0.0]), blank, values)
    assert arm.mean("ssim", trained).high == 1 and arm.mean("mse", trained).high > 1
    values["ssim"] = np.array([[0.2, 0.2], [-0.1, -0.1]])
    assert arm.mean("ssim", trained).low == -1  # a similarity may be negative, an error not
    values["mse"] = values["ssim"] + 0.1
    assert arm.mean("mse", trained).low == 0 and number(arm.mean("mse", trained)).startswith("0.15 (0 to ")
    assert number(Interval(0.05, -0.5, 0.6, 2)) == "0.05 (-0.5 to 0.6)"
    rows = [
        {"arm": "a", "layer": "picture", "measure": measure, "region": "deep", "value": value}
        for measure in ("superposition_truth", "superposition_explained", "superposition_strength")
        for value in (1.0, 0.9)
    ]
    found = Measures(rows, {})
    highs = [found.mean("a", "picture", f"superposition_{word}", "deep") for word in ("truth", "explained", "strength")]
    assert [cell is not None and cell.high == 1 for cell in highs] == [True, True, False]


def test_wide_tables_scroll_and_their_intervals_may_take_two_lines(exploded):
    page = exploded[1]
    assert page.count("<table") == page.count('<div class="scroll"><table')
    assert "overflow-x: auto" in page
    assert re.search(r"\.plain td small \{[^}]*white-space: normal", page)
