"""What the models draw: the pictures, their frames and the words around them are those of the study's files."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure

from fake_study import CODES, LEVELS, write_fake_study
from folders import facts_of, put_pictures
from recombine.errors import UserError
from recombine.report import drawn_figure
from recombine.report.drawn import (
    BLOCKS,
    FRAMES,
    SHOWN,
    TILE,
    can_be_drawn,
    first_seed,
    pictures_figure,
    shares_of,
    shown_compositions,
)
from recombine.report.figures import MARKS, TRAINED, _accuracy_axes, _accuracy_dots, summary_figure
from recombine.report.reading import read_study
from recombine.studies.pictures import NAME, read_pictures
from recombine.studies.results import read_results, write_results

HELD_OUT = ["011", "101", "110", "111"]
ARMS = ("maskgit", "dit", "dit-ddpm")


def relabel(folder: Path, levels: Mapping[str, int], arms: Sequence[str] = ARMS) -> None:
    """Other levels in the rows of these arms, as of arms that are trained on other combinations."""
    rows = read_results(folder).to_pylist()
    for row in rows:
        if row["arm"] in arms:
            row["level"] = levels.get(row["composition"], row["level"])
    write_results(folder, rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fake_study(tmp_path_factory.mktemp("fake"), arms=ARMS)


def tiles_of(figure: Any) -> list[tuple[np.ndarray, Any]]:
    """Every picture with its frame, row by row."""
    (axes,) = figure.axes
    frames = [patch for patch in axes.patches if patch.get_width() == TILE]
    places = [(round(frame.get_y(), 3), round(frame.get_x(), 3)) for frame in frames]
    assert len(set(places)) == len(axes.images) == len(frames)
    found = {}
    for image in axes.images:
        x, _, _, y = image.get_extent()
        found[round(y, 3), round(x, 3)] = np.asarray(image.get_array())
    return [(found[place], frame) for place, frame in sorted(zip(places, frames, strict=True), key=lambda one: one[0])]


def kind_of(frame: Any) -> str:
    """The verdict that a frame shows by its line alone."""
    solid, dashed, dotted = (FRAMES[kind].line for kind in ("ok", "invalid", "wrong"))
    names = {str(solid): "ok", str(dashed): "invalid", str(dotted): "wrong"}
    return names[str(frame.get_linestyle())] if frame.get_linewidth() > 1 else ""


def test_the_first_pictures_stand_with_their_verdicts(folder: Path) -> None:
    """Level-1 before level-2, the first pictures of each composition in their order, framed by what the judge said."""
    study = read_study(folder)
    wanted: list[tuple[np.ndarray, str]] = []
    for name in ("real", *ARMS):
        for code in HELD_OUT:
            for t in range(SHOWN):
                k = CODES.index(code)
                kind = ""
                if name != "real":
                    right, valid = (study.pictures[f"{name}.{word}"][k, t] for word in ("right", "valid"))
                    kind = "ok" if right and valid else "invalid" if right else "wrong"
                wanted.append((study.pictures[name][k, t], kind))
    assert {kind for _, kind in wanted} == {"", *FRAMES}
    found = tiles_of(pictures_figure(study))
    assert len(found) == len(wanted)
    for (picture, frame), (expected, kind) in zip(found, wanted, strict=True):
        assert (picture == expected.transpose(1, 2, 0)).all()
        assert kind_of(frame) == kind


def test_verdicts_are_told_apart_without_colour(folder: Path) -> None:
    assert len({str(frame.line) for frame in FRAMES.values()}) == len({MARKS[kind] for kind in FRAMES}) == 3
    (axes,) = pictures_figure(read_study(folder)).axes
    texts = [text.get_text() for text in axes.texts]
    study = read_study(folder)
    for kind, look in FRAMES.items():
        assert look.words in texts
        drawn = [kind_of(frame) for _, frame in tiles_of(axes.figure)].count(kind)
        assert texts.count(MARKS[kind]) == drawn + 1  # and once in the key
    assert study.describe("111") in " ".join(texts)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"members": 1, "count": 1},
        {"arms": ("dit", "an-arm-with-a-very-long-name-of-many-words"), "count": 2},
        {"arms": tuple(f"arm-{i}" for i in range(9))},
    ],
)
def test_nothing_overlaps_or_leaves_the_figure(tmp_path: Path, more: dict[str, Any]) -> None:
    figure = pictures_figure(read_study(write_fake_study(tmp_path, evaluations=1, **more)))
    (axes,) = figure.axes
    boxes = [text.get_window_extent() for text in axes.texts if text.get_text() not in MARKS.values()]
    wide, high = figure.bbox.width, figure.bbox.height
    for i, box in enumerate(boxes):
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= wide and box.y1 <= high, axes.texts[i]
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])


def test_shares_are_those_of_the_last_evaluation(folder: Path) -> None:
    rows = pq.read_table(folder / "results.parquet").to_pylist()
    last = max(row["step"] for row in rows)
    here = [row for row in rows if (row["arm"], row["composition"], row["step"]) == ("dit", "111", last)]
    (first,) = (row["joint"] for row in here if row["member"] == 0)
    study = read_study(folder)
    found = shares_of(study, "dit", "111")
    assert found is not None
    assert found[0] == first and found[1] == pytest.approx(np.mean([row["joint"] for row in here]))
    text = f"seed 100: {100 * first:.0f}\u00a0%, all seeds: {100 * (found[1] or 0):.0f}\u00a0%"
    assert text in [one.get_text() for one in pictures_figure(study).axes[0].texts]
    assert shares_of(study, "real", "111") is None


def test_the_share_is_of_the_seed_that_is_named(tmp_path: Path) -> None:
    """Also where the first member of a table is not number 0."""
    write_fake_study(tmp_path, arms=("dit",), evaluations=1)
    study = read_study(tmp_path)
    assert study.table is not None
    rows = [row | {"member": row["member"] + 3} for row in study.table.to_pylist()]
    moved = replace(study, table=pa.Table.from_pylist(rows))
    assert first_seed(moved) == first_seed(study) and shares_of(moved, "dit", "111") == shares_of(study, "dit", "111")
    assert shares_of(study, "dit", "111") is not None


def test_the_key_says_why_a_picture_named_right_is_refused(folder: Path) -> None:
    (words,) = (
        text.get_text() for text in pictures_figure(read_study(folder)).axes[0].texts if "refused" in text.get_text()
    )
    assert words.endswith("refused by the judge: lopsided, blurred, or between two sizes or colours")


def test_many_compositions_keep_every_level(tmp_path: Path) -> None:
    """Where the held-out compositions are too many to see, the first of each level stay."""
    write_fake_study(tmp_path, arms=("dit",), evaluations=1, pictures=False)
    with facts_of(tmp_path) as facts:
        facts["split"]["levels"] = levels = {f"{i:03d}": i % 4 for i in range(100)}
    relabel(tmp_path, levels)
    study = read_study(tmp_path)
    shown = shown_compositions(study)
    assert len(shown) == BLOCKS and [study.levels[code] for code in shown] == [1, 1, 2, 2, 3, 3]
    assert shown[0] == min(code for code, level in study.levels.items() if level == 1)


def test_pictures_are_headed_by_levels_that_hold_for_all_arms(tmp_path: Path) -> None:
    """One arm is not trained on 010, so that 011 is level-2 for it and 110 stays level-1 by 100."""
    write_fake_study(tmp_path, arms=("dit", "maskgit"), evaluations=1, pictures=False)
    relabel(tmp_path, {"010": 1, "011": 2}, ("dit",))
    study = read_study(tmp_path)
    assert study.levels["010"] == 0 and study.levels["011"] == 1
    assert {"010", "011"} == set(study.levels) - set(study.agreed_levels)
    assert shown_compositions(study) == ["101", "110", "111"]


def test_what_is_new_to_some_arms_only_is_drawn_of_these(tmp_path: Path) -> None:
    """dit trains on four others; 111 comes first, since it is level-2 for one and level-1 for the other."""
    write_fake_study(tmp_path, arms=("dit", "maskgit"), evaluations=1)
    other = dict.fromkeys(("000", "011", "101", "110"), 0) | dict.fromkeys(("001", "010", "100", "111"), 1)
    relabel(tmp_path, other, ("dit",))
    study = read_study(tmp_path)
    assert study.agreed_levels == {"000": 0} and study.disputed[0] == "111"
    assert shown_compositions(study) == ["111", "001", "010", "011", "100", "101"]
    figure = pictures_figure(study)
    texts = [one.get_text() for one in figure.axes[0].texts]
    heads = [text.split("\n")[0] for text in texts if text.startswith("level-")]
    assert heads == ["level-1 or level-2", *["level-1 or trained"] * 5] and texts.count(TRAINED) == 2 + 3
    assert len(tiles_of(figure)) == SHOWN * (6 + 2 * 6 - texts.count(TRAINED))  # real ones of all
    assert any("the arm was never trained on (1 more not shown)" in text for text in texts)
    assert struct.unpack(">I", summary_figure(tmp_path, tmp_path / "summary.png").read_bytes()[16:20])[0] >= 1200


def test_the_legend_has_levels_that_the_first_arm_lacks(tmp_path: Path) -> None:
    """As where the first of many arms has no composition two factors away; long names leave room for the dots."""
    arms = ("a", "b" * 60, "c", "d", "e")
    write_fake_study(tmp_path, arms=arms, evaluations=1)
    relabel(tmp_path, {"111": 1}, ("a",))
    for shown, draw in ((2, _accuracy_axes), (5, _accuracy_dots)):
        study = read_study(write_fake_study(tmp_path / str(shown), arms=arms[:shown], evaluations=1))
        relabel(study.folder, {"111": 1}, ("a",))
        figure = Figure()
        draw(figure.add_axes((0.3, 0.3, 0.6, 0.6)), read_study(study.folder))
        legend = figure.axes[0].get_legend()
        assert legend is not None
        assert [text.get_text() for text in legend.get_texts()] == ["trained", "level-1", "level-2"]
    assert summary_figure(tmp_path, tmp_path / "summary.png").stat().st_size > 10_000


def test_figure_is_written_whole_and_the_same(folder: Path, tmp_path: Path) -> None:
    first = drawn_figure(folder, tmp_path / "new" / "a.png").read_bytes()
    assert first == drawn_figure(folder, tmp_path / "new" / "b.png").read_bytes()
    assert struct.unpack(">I", first[16:20])[0] >= 1200 and len(list((tmp_path / "new").iterdir())) == 2


def test_what_is_not_there_is_left_out_or_refused(tmp_path: Path) -> None:
    write_fake_study(tmp_path, arms=ARMS, evaluations=1)
    whole = read_pictures(tmp_path)
    some = {name: value for name, value in whole.items() if not name.startswith(("real", "maskgit", "dit-ddpm."))}
    put_pictures(tmp_path, some)
    found = tiles_of(pictures_figure(read_study(tmp_path)))
    assert len(found) == 2 * len(HELD_OUT) * SHOWN  # no pictures of maskgit, none real
    kinds = [kind_of(frame) for _, frame in found]
    assert all(kinds[: len(found) // 2]) and not any(kinds[len(found) // 2 :])  # dit-ddpm has no verdicts
    (tmp_path / NAME).unlink()
    assert not can_be_drawn(read_study(tmp_path))
    with pytest.raises(UserError, match=r"pictures\.safetensors") as caught:
        drawn_figure(tmp_path, tmp_path / "a.png")
    assert str(tmp_path) in str(caught.value) and not (tmp_path / "a.png").exists()


def test_nothing_held_out_nothing_drawn(tmp_path: Path) -> None:
    write_fake_study(tmp_path, arms=("dit",), evaluations=1)
    with facts_of(tmp_path) as facts:
        facts["split"]["levels"] = dict.fromkeys(LEVELS, 0)
    relabel(tmp_path, dict.fromkeys(LEVELS, 0))
    assert not can_be_drawn(read_study(tmp_path))
