"""A forced-rendering study from its file to its page: reading, refusals, running, resuming, results, opening."""

import json
import re
import shutil

import pytest
import torch

import recombine
from interrupting import kill_and_run_again, only_one_member_fits
from recombine import cli
from recombine.errors import UserError
from recombine.judges.statistics import Interval
from recombine.report.contours import contour_figure, depth_figure, picture_figure, shown_cells
from recombine.report.rendering_inside import text
from recombine.report.rendering_reading import is_rendering, read_rendering
from recombine.report.scaling import fits, scaling_figure, scores_of, sentences
from recombine.runner import run_study
from recombine.studies import rendering_run
from recombine.studies.forecast import forecast
from recombine.studies.rendering import RenderingStudy
from recombine.studies.spec import load_study, make_study, parse_study, shrink
from recombine.studies.store import Store

STUDY = """
kind: rendering
name: tiny
question: Does it draw what it never saw?
world: {kind: bumps, image_size: 8}
support: {kind: donut, low: 3, high: 4}
encoding: onehot
data: {images: 200}
training: {steps: 30, batch: 8}
judging: {evaluations: 2}
members: 2
arms:
  cnn: {decoder: {kind: cnn, depth: 2, width: 8}}
  taught: {decoder: {kind: cnn, depth: 2, width: 8}, data: {stripes: 50, order: curriculum}}
"""
GENERATOR = """dit:
    generator: {kind: dit, sampling_steps: 2}
    tokenizer: {kind: pixels, patch: 4}
    training: {size: xs, steps: 4, batch: 4}"""
LIBRARY = ("rendering", "rendering-remedies", "rendering-scaling", "rotation", "demo-rendering")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rendering")
    study = parse_study(STUDY)
    run_study(study, folder / "out", folder / "store", "cpu")
    return study, folder


def test_the_file_becomes_a_study_of_this_kind_with_defaults_merged():
    study = parse_study(STUDY)
    assert isinstance(study, RenderingStudy) and study.seeds == (0, 1)
    assert study.arms["taught"].data.images == 200 and study.arms["taught"].data.stripes == 50
    assert study.arms["cnn"].training.rate == 1e-3  # the published one
    assert make_study(study.resolved()) == study and make_study(study.resolved()).hash == study.hash


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("low: 3, high: 4", "low: 0, high: 7", "no trained pair has x = 0 to 7"),
        ("low: 3, high: 4", "low: 3, high: 8", "support: the donut reaches to 8, and x and y end at 7"),
        ("encoding: onehot", "encoding: angle", "angle is a code of angles"),
        ("encoding: onehot", "encoding: ramp", "stripes need a code without a value for the other factor"),
        ("{kind: cnn, depth: 2, width: 8}}", "lowrank, encoding: ramp}", "lowrank has a picture for every value"),
        ("kind: donut", "kind: dohnut", "unknown kind 'dohnut' in support; did you mean 'donut'"),
        ("stripes: 50, order: curriculum", "stripes: 200", "leave no bump among 200"),
        ("stripes: 50, order: curriculum", "order: curriculum", "a curriculum begins with stripes"),
        ("evaluations: 2", "evaluations: 31", "31 evaluations do not fit in 30 steps"),
        ("kind: rendering", "kind: rendring", "unknown kind 'rendring' of study; did you mean 'rendering'"),
        ("world: {kind: bumps, image_size: 8}", "world: digits", "only a gap can be held out"),
        (
            "world: {kind: bumps, image_size: 8}",
            "world: {kind: digits, source: mnist, images_path: no.idx, labels_path: no.idx}",
            "images_path: there is no file no.idx",
        ),
        ("batch: 8", "bach: 8", "unknown word 'bach' in training; did you mean 'batch'"),
    ],
)
def test_mistakes_are_named_with_their_line(old, new, sentence):
    assert old in STUDY
    with pytest.raises(UserError, match=re.escape(sentence)) as caught:
        parse_study(STUDY.replace(old, new), "study.yaml")
    assert re.search(r"study\.yaml:\d+: ", str(caught.value))


def test_an_arm_of_the_other_kind_of_study_is_no_preset():
    """Said of each arm that names one, and nothing else: what would be left of them are two equal arms."""
    arms = "arms: {a: {preset: as_published/maskgit}, b: {preset: as_published/mar}}"
    with pytest.raises(UserError) as caught:
        parse_study(STUDY.partition("arms:")[0] + arms, "study.yaml")
    said = "the study as_published is of generators, and this one of decoders (kind: rendering); name an arm of a study"
    heading, *lines = str(caught.value).splitlines()
    assert heading.startswith("2 mistakes")
    for name, line in zip("ab", lines, strict=True):
        assert line.strip() == f"study.yaml:12: arms.{name}.preset: {said} of the same kind"


@pytest.mark.parametrize("name", LIBRARY)
def test_the_library_is_right_and_shrinks(name):
    study = load_study(name)
    assert isinstance(study, RenderingStudy) and study.name == name
    small = shrink(study)
    assert set(small.arms) == set(study.arms) and small.name.endswith("-shrunk")
    assert study.members >= 8 or name == "demo-rendering"


def test_the_remedies_are_compared_on_one_footing():
    """Equal images and equal steps in every arm, and one world, hole and code unless the name says otherwise."""
    arms = load_study("rendering-remedies").arms
    plain = arms["plain"]
    for name, arm in arms.items():
        assert arm.data.images == plain.data.images and arm.training == plain.training, name
        assert arm.world == plain.world or name == "coordinate-bright"
        assert arm.encoding == plain.encoding or name == "coordinate-population"
        assert arm.support == plain.support or name == "coordinate-corner"
    held = {name: int((~arm.trained()).sum()) for name, arm in arms.items()}
    assert set(held.values()) == {289}  # the corner is as large as the box


def test_results_keep_the_contract(finished):
    _, folder = finished
    rows = recombine.read_results(folder / "out").to_pylist()
    assert len(rows) == 2 * 2 * 2 * 64  # arms, members, evaluations, cells
    for row in rows:
        assert row["study"] == "tiny" and row["n"] == 1 and row["step"] in (15, 30)
        x, y = (float(value) for value in row["composition"].split(","))
        assert (row["x"], row["y"]) == (x, y)
        inside = 3 <= x <= 4 and 3 <= y <= 4
        assert row["level"] == int(inside) and (row["depth"] >= 0) == inside
        assert row["joint"] <= min(row["valid"], row["joint_probe_only"], row["factor_x"], row["factor_y"])
        assert row["mse"] >= 0 and 0 < row["blank"] < 0.1
    facts = json.loads((folder / "out" / "study.json").read_text())
    assert 0.05 < facts["memory_gib_of_last_call"] < 64  # of the process, to compare with the forecast
    assert facts["kind"] == "rendering" and facts["arms"]["cnn"]["held_out_cells"] == 4
    assert facts["arms"]["cnn"]["code"] and facts["arms"]["cnn"]["hardware"]["device"] == "cpu"
    assert is_rendering(folder / "out") and not is_rendering(folder)


def test_members_that_do_not_fit_together_are_trained_in_parts(finished, tmp_path, monkeypatch, capsys):
    """One at a time, said, and joined to what all together would have given, but for rounding; the weights too."""
    study, folder = finished
    only_one_member_fits(monkeypatch)
    run_study(study, tmp_path / "out", tmp_path / "store", "cpu")
    assert "2 members do not fit into memory together; going on with 1 at a time" in capsys.readouterr().out
    parts, whole = (recombine.read_results(place / "out").to_pylist() for place in (tmp_path, folder))
    keys = ("arm", "member", "seed", "step", "composition", "level")
    assert [[row[key] for key in keys] for row in parts] == [[row[key] for key in keys] for row in whole]
    for one, other in zip(parts, whole, strict=True):
        assert one["mse"] == pytest.approx(other["mse"], rel=0.05, abs=1e-4)
        assert one["loss"] == pytest.approx(other["loss"], rel=0.05)
    for name in study.arms:
        both = [rendering_run.open_arm(study, name, place / "store").outputs() for place in (tmp_path, folder)]
        torch.testing.assert_close(*both, rtol=0, atol=0.05)
    facts = json.loads((tmp_path / "out" / "study.json").read_text())
    assert facts["arms"]["cnn"]["members_at_once"] == [1, 1] and not list((tmp_path / "store").glob("*.work"))
    assert "arm cnn, 1 member at a time" in forecast(study, torch.device("cpu")).seconds


def test_samples_of_parts_are_joined_along_their_members(tmp_path, monkeypatch):
    """A generator's verdicts have the samples in front of the members."""
    study = parse_study(
        STUDY.replace("cnn: {decoder: {kind: cnn, depth: 2, width: 8}}", GENERATOR).replace(
            "evaluations: 2", "evaluations: 1, samples: 3"
        )
    )
    whole = rendering_run.run_arm(study, "dit", Store(tmp_path / "whole"), torch.device("cpu"))
    only_one_member_fits(monkeypatch)
    parts = rendering_run.run_arm(study, "dit", Store(tmp_path / "parts"), torch.device("cpu"))
    assert parts.last.mse.shape == whole.last.mse.shape == (3, 2, 64)
    torch.testing.assert_close(parts.last.mse, whole.last.mse, rtol=0.05, atol=1e-3)
    assert parts.samples.shape == whole.samples.shape


def test_results_travel_without_the_weights(finished, tmp_path):
    """They are what is large. Looking into the arm again without them is refused, with the way out."""
    study, folder = finished
    for entry in (folder / "store").glob("rendering-*"):
        shutil.copytree(entry, tmp_path / entry.name)
    assert rendering_run.finished_arm(study, "cnn", tmp_path).last.means().keys()
    with pytest.raises(UserError, match=r"not its weights.*measures: none"):
        rendering_run.open_arm(study, "cnn", tmp_path)


def test_the_page_and_its_figures(finished):
    _, folder = finished
    page = (folder / "out" / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 10 and "http" not in page.replace("http://www.w3.org", "")
    assert "taught" in page and "does not draw even what it was trained on" in page
    study = read_rendering(folder / "out")
    for figure in (contour_figure(study.arms), depth_figure(study.arms), picture_figure(study)):
        assert figure.axes
    cells = shown_cells(study.arms["cnn"])
    assert [bool(study.arms["cnn"].trained[cell]) for cell in cells] == [True, True, False]
    before = (folder / "out" / "report.html").read_bytes()
    recombine.write_report(folder / "out")
    assert (folder / "out" / "report.html").read_bytes() == before


def test_a_scaling_study_is_told_by_its_needs(tmp_path):
    """Three sizes by three numbers of images, planted results: right and valid from N images on."""
    words = parse_study(STUDY).resolved() | {"judging": {"evaluations": 1}, "seeds": [0], "measures": "none"}
    arm = words["arms"]["cnn"] | {"training": words["arms"]["cnn"]["training"] | {"steps": 1}}
    words["arms"] = {
        f"a-{size}-{count}": arm
        | {"world": arm["world"] | {"image_size": size}, "data": arm["data"] | {"images": count, "stripes": 0}}
        | {"support": {"kind": "donut", "low": 2, "high": 5}}  # four pairs of it lie off the rim
        for size in (8, 12, 16)
        for count in (4, 8, 16, 32)
    }
    run_study(make_study(words), tmp_path / "out", device="cpu")
    study = read_rendering(tmp_path / "out")
    for name, arm in study.arms.items():
        _, size, count = name.split("-")
        arm.values["joint"][:] = 1 / (1 + (int(size) / int(count)) ** 3 * (0.4 / 0.6))
    _, _, found = fits(scores_of(study)["bumps alone"])
    assert found.exponent == pytest.approx(1, abs=0.35) and "N to the power" in sentences(study)[0]
    assert scaling_figure(study).axes


def test_the_same_command_again_computes_nothing(finished, monkeypatch):
    study, folder = finished
    before = recombine.read_results(folder / "out")
    monkeypatch.setattr(rendering_run, "_train", None)
    run_study(study, folder / "out", folder / "store", "cpu")
    assert recombine.read_results(folder / "out") == before


def test_a_killed_study_goes_on_to_the_same_result(finished, tmp_path, monkeypatch):
    study, folder = finished
    kill_and_run_again(study, tmp_path / "out", monkeypatch)
    whole, resumed = (
        recombine.read_results(place).drop_columns(["study"]) for place in (folder / "out", tmp_path / "out")
    )
    assert resumed == whole


def test_a_trained_arm_can_be_opened_and_draws_what_was_judged(finished):
    study, folder = finished
    opened = rendering_run.open_arm(study, "taught", Store(folder / "store"))
    outputs = opened.outputs()
    assert outputs.shape == (2, 64, 8, 8)
    mse = (outputs - opened.plane.images).square().mean((2, 3))
    table = recombine.read_results(folder / "out")
    rows = [row for row in table.to_pylist() if row["arm"] == "taught" and row["step"] == 30]
    judged = torch.tensor([row["mse"] for row in rows]).view(2, 64).float()
    torch.testing.assert_close(mse, judged, rtol=0.05, atol=1e-3)  # hidden layers were bfloat16 where that is fast
    states = opened.states()
    assert len(states) == 4 and all(state.shape[:2] == (2, 64) for state in states)
    torch.testing.assert_close(states[-1], outputs.flatten(2))
    with pytest.raises(UserError, match="is not in"):
        rendering_run.open_arm(study, "cnn", Store(folder / "nowhere"))


@pytest.mark.parametrize("name", ["rotation", "rendering"])
def test_the_library_runs_when_shrunk(name, tmp_path):
    words = shrink(load_study(name)).resolved()
    assert words["measures"] == "outputs"  # every layer of 28 x 28 pixels would be no smoke test
    words["measures"] = "all"
    words["arms"] = {
        arm: settings
        for arm, settings in words["arms"].items()
        if arm in ("rotator", "coordinate", "mlp", "published-lowrank", "transformer")
    }
    for settings in words["arms"].values():
        if settings["world"]["kind"] == "bumps":
            settings["world"]["image_size"] = 8
            settings["support"] = {"kind": "corner", "start": 5}
        else:
            settings["world"]["angles"] = 36
    run_study(RenderingStudy.model_validate(words), tmp_path / "out", device="cpu")
    assert (tmp_path / "out" / "report.html").stat().st_size > 20_000


def test_the_demo_and_the_dry_run_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["recombine", "demo", "rendering", "--shrink", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0 and (tmp_path / "out" / "results.parquet").exists()
    capsys.readouterr()
    (tmp_path / "study.yaml").write_text(STUDY)
    monkeypatch.setattr("sys.argv", ["recombine", "run", str(tmp_path / "study.yaml"), "--dry-run"])
    with pytest.raises(SystemExit):
        cli.main()
    printed = capsys.readouterr().out
    assert "# About" in printed and "arm taught" in printed and "measuring taught" in printed
    assert parse_study(printed) == parse_study(STUDY)


def test_numbers_of_the_page():
    assert text(Interval(-0.001, -0.2, 0.25, 3)) == "0.00 (\u22120.20 to 0.25)"
    assert text(Interval(0.5, None, None, 1)) == "0.50" and text(None) == ""
    assert text(Interval(784.2, 700.0, 800.0, 3), ends=False) == "784"
