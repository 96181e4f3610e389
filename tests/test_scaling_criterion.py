"""What counts as having reached the score of a scaling study, and what is said where some reach it nowhere."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from planted_planes import REMEDIES, SCALING, means, plant_plane
from recombine.anatomy.scaling import AT_MOST, BETWEEN, MORE_THAN, Exponent, Needed, exponent_difference, fit_exponent
from recombine.claims.planes.remedies import f6_stripes, sizes_table
from recombine.claims.planes.table import PlaneTable
from recombine.claims.tables import open_study
from recombine.curated import Plane
from recombine.judges.plane import judge_plane
from recombine.report.rendering_reading import ArmNumbers, read_rendering
from recombine.report.scaling import REACH, fits, reached_text, scaling_figure, score_of, scores_of, sentences
from recombine.studies.spec import load_study

SIZES = (16, 20, 24, 28, 32)


def judged_arm(pictures: torch.Tensor, plane: Plane) -> ArmNumbers:
    """One member that draws these pictures (C, P, P), judged as a study judges it."""
    judged = {word: value.numpy() for word, value in judge_plane(pictures[None], plane).means().items()}
    values = {"joint": judged["joint"], "joint_probe_only": judged["hit"]}
    trained, depth, blank = plane.trained.numpy(), plane.depth.numpy(), plane.blank.numpy()
    return ArmNumbers("planted", 1, (0,), plane.cells.numpy(), trained, depth, blank, values)


@pytest.mark.parametrize("size", SIZES)
def test_drawing_the_nearest_trained_bump_reaches_nothing(size: int) -> None:
    """In the study's own planes. Right and valid in the whole hole would not do: the rim alone is enough there."""
    plane: Plane = load_study("rendering-scaling").arms[f"bumps-{size}-64"].plane()
    apart = torch.cdist(plane.cells.double(), plane.cells.double())
    apart[:, ~plane.trained] = torch.inf
    copied = judged_arm(plane.images[apart.argmin(1)], plane)
    rim = {16: 12 / 16, 20: 16 / 25, 24: 20 / 36, 28: 24 / 49, 32: 28 / 64}[size]
    for word in ("joint", "joint_probe_only"):
        assert copied.members(word, ~copied.trained) == pytest.approx(rim)
    assert (rim >= REACH) == (size <= 20)
    score, best = score_of(copied), score_of(judged_arm(plane.images, plane))
    assert score is not None and score[0] == 0
    assert best is not None and best[0] == 1  # one that composes has all of it


def test_a_hole_that_is_all_rim_has_no_score() -> None:
    plane: Plane = load_study("rendering-scaling").arms["bumps-16-64"].plane()
    arm = judged_arm(plane.images, plane)
    flat = ArmNumbers(*{**vars(arm), "depth": np.minimum(arm.depth, 0)}.values())
    assert score_of(flat) is None


def fitted(known: list[list[int]], examples: float = 4096) -> Exponent:
    """Two seeds; what is known of each at every size."""
    table = np.array(known)
    low = np.where(table == MORE_THAN, examples, np.where(table == AT_MOST, 0, examples / 2))
    high = np.where(table == MORE_THAN, np.inf, examples)
    return fit_exponent(SIZES[: table.shape[1]], Needed(np.full(table.shape, examples), table, low, high), draws=50)


def test_it_is_said_at_how_many_sizes_it_is_reached() -> None:
    never = fitted([[MORE_THAN] * 5] * 2)
    assert (never.asked, never.reached, never.sizes) == (5, 0, 0)
    assert "bumps alone reach it at no size up to 4,096 images (0 of 5 sizes" in reached_text("bumps alone", never)
    assert "100\u00a0% of their needs outside the numbers tried" in reached_text("bumps alone", never)
    some = fitted([[AT_MOST, BETWEEN, MORE_THAN, MORE_THAN, MORE_THAN]] * 2)
    assert (some.reached, some.sizes) == (2, 1)
    text = reached_text("bumps alone", some)
    assert "at 2 of 5 sizes up to" in text and "between two tried numbers at 1" in text and "80\u00a0%" in text
    assert "up to" not in reached_text("they", fitted([[AT_MOST] * 5] * 2))


def test_an_exponent_and_none_have_no_difference() -> None:
    """They did raise an error: the draws of a fit that is none are empty."""
    one = fitted([[BETWEEN] * 5] * 2)
    for pair in ((one, fitted([[MORE_THAN] * 5] * 2)), (fitted([[MORE_THAN] * 5] * 2), one)):
        assert np.isnan(exponent_difference(*pair)).all()


@pytest.fixture(scope="module")
def never(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study in which bumps alone have everything in place and nothing right and valid off the rim; with stripes the
    share passes 60 % at 128 (N / 12) images."""
    plans = {}
    for name in SCALING.arms:
        group, size, count = name.split("-")
        need = 128 * int(size) / 12
        plans[name] = means(hit=0.0 if group == "bumps" else 1 / (1 + (need / int(count)) ** 3 * (0.4 / 0.6)))
    folder = plant_plane(tmp_path_factory.mktemp("sizes") / "rendering-scaling", SCALING, plans)
    fixed = means(hit=0.98, relative=0.03)
    remedies = {name: means() if name in ("plain", "free") else fixed for name in REMEDIES.arms}
    plant_plane(folder.parent / "rendering-remedies", REMEDIES, remedies)
    return folder


def part_of(folder: Path, name: str = "from cubic to linear") -> Any:
    base = PlaneTable.of(open_study(folder.parent / "rendering-remedies"))
    return next(part for part in f6_stripes(base, sizes_table(open_study(folder))).parts if part.name == name)


def test_bumps_that_never_reach_it_are_told_so(never: Path) -> None:
    study = read_rendering(never)
    groups = scores_of(study)
    assert np.isnan(fits(groups["bumps alone"])[2].exponent)
    assert fits(groups["with stripes"])[2].holds(1)  # all in one bracket: not more than a range is known
    alone, striped = sentences(study)
    assert "bumps alone reach it at no size up to 1,024 images (0 of 3 sizes" in alone and "no exponent" in alone
    assert "N to the power" in striped and "3 of 3 sizes, 6 seeds" in striped
    part = part_of(never)
    assert part.state == "in part"
    assert "bumps alone reach it at no size up to 1,024 images" in part.sentence
    assert (
        "100\u00a0% of their needs outside the numbers tried" in part.sentence
        and "off the rim right and valid" in part.sentence
    )


def test_where_stripes_do_not_reach_it_either_nothing_is_said_of_them(never: Path, tmp_path: Path) -> None:
    plans = {name: means(hit=0.0) for name in SCALING.arms}
    folder = plant_plane(tmp_path / "rendering-scaling", SCALING, plans)
    (tmp_path / "rendering-remedies").symlink_to(never.parent / "rendering-remedies")
    assert part_of(folder).state == "open"


def test_the_rim_and_what_is_in_place_do_not_count(never: Path) -> None:
    """A table whose bumps alone are all in place, and right and valid on the rim, reaches it nowhere still."""
    study = read_rendering(never)
    for name, arm in study.arms.items():
        if name.startswith("bumps"):
            arm.values["joint_probe_only"][:] = 1
            arm.values["joint"][:, arm.depth == 0] = 1
    assert fits(scores_of(study)["bumps alone"])[2].reached == 0


def test_no_line_is_drawn_where_there_is_no_exponent(never: Path) -> None:
    figure = scaling_figure(read_rendering(never))
    axes = figure.axes[-1]
    lines = [line for line in axes.lines if line.get_linestyle() == "-" and line.get_marker() == "None"]
    assert len(lines) == 1
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts[0] == "bumps alone: no exponent, 0 of 3 sizes reached" and texts[1].startswith("with stripes: $N^{")
    assert not axes.get_xticks(minor=True).size and [t.get_text() for t in axes.get_xticklabels()] == ["8", "12", "16"]


def test_without_the_cells_the_part_is_open(never: Path) -> None:
    """A table of measures alone has no score off the rim; it must not be judged by another."""
    base = PlaneTable.of(open_study(never.parent / "rendering-remedies"))
    parts = f6_stripes(base, PlaneTable.of(open_study(never))).parts
    part = next(part for part in parts if part.name == "from cubic to linear")
    assert part.state == "open" and "off the rim" in part.sentence
