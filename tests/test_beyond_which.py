"""B13, which combinations are trained: what is compared with what, over which combinations, and how it is told."""

from pathlib import Path

import numpy as np
import pytest

from folders import put_pictures
from planted_beyond import Share, asked, levels_of, of_library, plant_shares, some_arms, words
from recombine.claims.beyond.entries import Gains, Rows
from recombine.claims.beyond.figures import draw_entry
from recombine.claims.ledger import is_figures
from recombine.claims.page import write_page
from recombine.studies.spec import Study

STUDY, LARGE = of_library("which-four"), of_library("which-four-s")
OTHERS = ("papers", "shape-colour", "shape-size", "colour-size")
BOTH = {
    "papers": {"111"},
    "shape-colour": {"010", "100"},
    "shape-size": {"001", "100"},
    "colour-size": {"001", "010"},
}


def by_arm_and_code(both: float, alone: float) -> Share:
    """The covering arm draws 90 %, another as told: of what neither is trained on, and of what it alone is not."""

    def share(arm: str, text: str, level: int, seed: int) -> float:
        own = arm.split("-", 1)[1]
        if level == 0 or own == "covering":
            return 0.97 if level == 0 else 0.9
        return both if text in BOTH[own] else alone

    return share


@pytest.mark.parametrize("study", [STUDY, LARGE], ids=lambda one: one.name)
def test_the_study_trains_four_of_eight_in_every_arm(study: Study) -> None:
    assert list(study.arms) == list(STUDY.arms)
    for arm in study.arms:
        levels = levels_of(study, arm)
        trained = [code for code, level in levels.items() if level == 0]
        assert len(levels) == 8 and len(trained) == 4
        assert all({code[f] for code in trained} == {"0", "1"} for f in range(3))
        if "papers" not in arm:
            assert set(levels.values()) == {0, 1}


def test_arms_are_compared_over_what_neither_is_trained_on(tmp_path: Path) -> None:
    """What only one of the two holds out does not count, however it is drawn."""
    entry = asked("B13", plant_shares(tmp_path / "a", STUDY, by_arm_and_code(0.2, 0.9), evaluations=4))
    expected = {f"{family} {own}": "higher" for family in ("DiT", "MaskGIT") for own in OTHERS}
    assert words(entry) == expected and entry.word == "it matters"
    assert entry.found is not None
    assert all(one.test.mean == pytest.approx(0.7, abs=0.02) for one in entry.found.contrasts)
    turned = asked("B13", plant_shares(tmp_path / "b", STUDY, by_arm_and_code(0.9, 0.2), evaluations=4))
    assert set(words(turned).values()) == {"alike"} and turned.word == "no difference"


def test_the_papers_arms_of_the_large_one_are_those_of_coverage() -> None:
    other = of_library("coverage-values-2")
    for family in ("dit", "maskgit"):
        assert LARGE.arms[f"{family}-papers"] == other.arms[family]
    assert (LARGE.world, LARGE.split, LARGE.seeds, LARGE.judging) == (
        other.world,
        other.split,
        other.seeds,
        other.judging,
    )


def test_the_larger_models_answer_where_both_are_given(tmp_path: Path) -> None:
    small = plant_shares(tmp_path / "small", STUDY, by_arm_and_code(0.2, 0.6), evaluations=5)
    large = plant_shares(tmp_path / "large", LARGE, by_arm_and_code(0.9, 0.6), evaluations=5)
    alone, both = asked("B13", small), asked("B13", small, large)
    assert alone.word == "it matters" and both.word == "no difference"
    assert any(
        "The study which-four-s, which would be asked first, has no results here." in one for one in alone.limits
    )
    assert both.found is not None and [study.name for study in both.found.studies] == ["which-four-s", "which-four"]
    told = "The same of the study which-four: it matters. DiT +70 to +70 points (higher in 4 of 4) and MaskGIT +70"
    assert both.found.notes[-1].startswith(told) and not any("has no results here" in one for one in both.limits)
    few = plant_shares(tmp_path / "few", STUDY, by_arm_and_code(0.2, 0.6), seeds=range(3), evaluations=5)
    unsaid = asked("B13", few, large)
    assert unsaid.found is not None and "cannot be asked the same: the arms of" in unsaid.found.notes[-1]


def test_what_is_told_and_drawn(tmp_path: Path) -> None:
    entry = asked("B13", plant_shares(tmp_path, STUDY, by_arm_and_code(0.2, 0.6), evaluations=4, probe=0.05))
    assert entry.found is not None
    assert "it draws: DiT covering 90\u00a0% (" in entry.text and "shape-colour 40\u00a0% (" in entry.text
    assert "papers 50\u00a0% (" in entry.text  # one at 20 %, three at 60 %
    assert entry.found.in_brief.startswith("Models are trained on 4 of 8 combinations. With 4 that show every")
    assert "DiT +70 to +70 points (higher in 4 of 4) and MaskGIT +70" in entry.found.in_brief
    seen, compared = entry.found.notes
    assert "shape-size over 001 and 100 (1 and 1)" in compared and "papers over 111 (1 and 2)." in compared
    assert "covering: 000, 011, 101, 110 (3)" in seen and "papers: 000, 001, 010, 100 (0 to 2)" in seen
    assert "shape-size: 000, 010, 101, 111 (2)" in seen
    rows, gains = entry.found.panels
    assert isinstance(rows, Rows) and isinstance(gains, Gains)
    assert [row.label for row in rows.rows][:2] == ["DiT covering", "DiT shape-colour"] and len(rows.rows) == 10
    assert draw_entry(entry, tmp_path / "B13.png").stat().st_size > 10_000


def test_pictures_stand_beside_the_answer_while_they_are_there(tmp_path: Path) -> None:
    folder = plant_shares(tmp_path / "results" / "which-four", STUDY, by_arm_and_code(0.2, 0.6), evaluations=4)
    page, picture = tmp_path / "RESULTS.md", tmp_path / "results" / "figures" / "B13-drawn.png"
    write_page(page, [folder])
    assert "B13-drawn" not in page.read_text(encoding="utf-8") and not picture.exists()
    tiles = np.full((8, 4, 3, 12, 12), 255, np.uint8)
    put_pictures(folder, dict.fromkeys(STUDY.arms, tiles))
    write_page(page, [folder])
    text = page.read_text(encoding="utf-8")
    assert "](results/figures/B13-drawn.png)" in text[text.index("### B13") :] and picture.stat().st_size > 10_000
    assert is_figures(picture.parent)
    other = of_library("dependent")
    write_page(page, [plant_shares(tmp_path / "dependent", other, lambda *at: 0.9)])  # without the study it goes
    assert not picture.exists()


def test_arms_that_cannot_be_compared(tmp_path: Path) -> None:
    """One that has not learned is named; a family whose every arm lacks pairs has nothing to be compared with."""
    plain = by_arm_and_code(0.2, 0.2)
    share: Share = lambda arm, *at: 0.3 if arm == "dit-covering" else plain(arm, *at)  # noqa: E731
    entry = asked("B13", plant_shares(tmp_path / "a", STUDY, share, evaluations=4))
    assert {label.split()[0] for label in words(entry)} == {"MaskGIT"}
    assert any("DiT covering draws only 30" in text for text in entry.limits)
    some = some_arms(STUDY, "which-four", ["dit-papers", "dit-shape-size"])
    nothing = asked("B13", plant_shares(tmp_path / "b", some, plain, evaluations=4))
    assert nothing.found is None and "no arm that saw every two values together" in nothing.why


def test_two_arms_at_the_floor_are_not_called_alike(tmp_path: Path) -> None:
    entry = asked("B13", plant_shares(tmp_path, STUDY, lambda arm, text, level, seed: 0.97 if level == 0 else 0.1))
    assert set(words(entry).values()) == {"neither composes"}
