"""B4 and B5, how many compositions and how many values: what is compared, and what is said."""

from pathlib import Path

import numpy as np
import pytest

from planted_beyond import asked, by_arm, coverage, levels_of, of_library, plant_shares, plant_values, some_arms, words
from recombine.claims.beyond.entries import Over
from recombine.claims.beyond.figures import draw_entry
from recombine.studies.spec import Study

# B4


def test_b4_is_about_compositions_that_no_arm_trains(tmp_path: Path) -> None:
    study = of_library("coverage")
    entry = asked("B4", plant_shares(tmp_path, study, coverage(dit=0.95, maskgit=0.3), evaluations=5))
    levels = {arm: levels_of(study, arm) for arm in study.arms}
    shared = {text for text in levels["dit-20"] if all(own[text] > 0 for own in levels.values())}
    assert len(shared) == 7 and words(entry) == {"DiT": "higher", "MaskGIT": "higher"} and entry.word == "it matters"
    assert "DiT first draws more than half with 12 of 27 trained (5" in entry.text
    assert (
        "MaskGIT never draws more than half (at most 2" in entry.text and "with 20 trained instead of 4" in entry.text
    )
    found = entry.found
    assert found is not None
    mean = {n: np.mean([0.95 * n / 20 - 0.02 * levels[f"dit-{n}"][text] for text in shared]) for n in (4, 20)}
    assert found.contrasts[0].test.mean == pytest.approx(mean[20] - mean[4], abs=0.01)
    assert any("level 2 with 4, 2 with 12, 1 with 20 trained" in limit for limit in entry.limits)
    far = found.panels[1]
    assert isinstance(far, Over)
    assert far.ticks == ("4\nlevel-2", "12\nlevel-2", "20\nlevel-1")
    assert np.mean(far.lines[0].values["4\nlevel-2"]) == pytest.approx(
        0.95 * 4 / 20 - 0.04, abs=0.01
    )  # its own level-2 alone


def test_b4_without_one_number_of_compositions(tmp_path: Path) -> None:
    library = of_library("coverage")
    study = some_arms(library, "coverage", [arm for arm in library.arms if not arm.endswith("-7")])
    entry = asked("B4", plant_shares(tmp_path, study, coverage(dit=0.95, maskgit=0.95), evaluations=5))
    assert words(entry) == {"DiT": "higher", "MaskGIT": "higher"}
    assert "DiT first draws more than half with 12 of 27 trained" in entry.text
    assert "with 20 trained instead of 4" in entry.text
    assert any("level 2 with 4, 2 with 12, 1 with 20 trained" in limit for limit in entry.limits)
    assert draw_entry(entry, tmp_path / "B4.png").stat().st_size > 10_000


def test_b4_reads_the_larger_models_where_both_are_given(tmp_path: Path) -> None:
    small = plant_shares(tmp_path / "xs", of_library("coverage-xs"), coverage(dit=0.95), evaluations=5)
    large = plant_shares(tmp_path / "large", of_library("coverage"), coverage(dit=0.95, maskgit=0.3), evaluations=5)
    alone, both = asked("B4", small), asked("B4", small, large)
    assert alone.found is not None and [study.name for study in alone.found.studies] == ["coverage-xs"]
    assert "with 13 trained instead of 4" in alone.text and "of 18 trained" in alone.text
    assert any("The study coverage, which would be asked first, has no results here." in one for one in alone.limits)
    assert both.found is not None and [study.name for study in both.found.studies] == ["coverage"]
    assert not any("has no results here" in one for one in both.limits)


# B5


def test_b5_compares_the_studies_given(tmp_path: Path) -> None:
    folders = [plant_values(tmp_path, n) for n in (4, 2, 3)]
    entry = asked("B5", *folders)
    assert words(entry) == {"DiT": "higher", "MaskGIT": "alike"} and entry.found is not None
    assert [study.name[-1] for study in entry.found.studies] == ["2", "3", "4"]
    assert (
        "DiT first draws more than half with 3 values per factor" in entry.text
        and "with 4 values instead of 2" in entry.text
    )
    assert entry.found.contrasts[1].test.mean == pytest.approx(0.44, abs=0.02)
    assert not any("no results here" in limit for limit in entry.limits)
    two = asked("B5", *folders[1:])
    assert "The study coverage-values-4 has no results here." in two.limits
    assert two.found is not None and two.found.contrasts[1].test.mean == pytest.approx(0.22, abs=0.02)
    already = asked("B5", folders[0], plant_values(tmp_path, 3))
    assert "DiT draws more than half already with 3 values per factor" in already.text
    one = asked("B5", folders[0])
    assert one.found is None and "two are needed" in one.why


def test_b5_answers_from_two_of_three_studies(tmp_path: Path) -> None:
    entry = asked("B5", *(plant_values(tmp_path, n, evaluations=5) for n in (4, 2)))
    assert words(entry) == {"DiT": "higher", "MaskGIT": "alike"} and "with 4 values instead of 2" in entry.text
    assert "DiT first draws more than half with 4 values per factor" in entry.text
    assert entry.found is not None and [study.name[-1] for study in entry.found.studies] == ["2", "4"]
    assert draw_entry(entry, tmp_path / "B5.png").stat().st_size > 10_000


def test_b5_looks_at_the_combinations_that_all_worlds_have(tmp_path: Path) -> None:
    """The fourth shape is hard to draw and the others as before: level-2 falls, what all worlds have does not."""

    def hard(arm: str, text: str, level: int, seed: int) -> float:
        return 0.97 if level == 0 else 0.0 if text[0] == "3" else 0.6

    folders = [plant_shares(tmp_path / str(n), of_library(f"coverage-values-{n}"), hard, evaluations=5) for n in (3, 4)]
    entry = asked("B5", *folders)
    assert set(words(entry).values()) == {"lower"} and entry.found is not None
    (note,) = entry.found.notes
    assert (
        note.startswith("Of level-2, 4 combinations are in all these worlds: 111, 121, 211 and 221.")
        and "MaskGIT draws 60" in note
    )
    assert "that is within 5 points for " in note and "lower" not in note
    two = asked("B5", *folders, plant_values(tmp_path, 2, evaluations=5))
    assert two.found is not None and two.found.notes[0].startswith("Of level-2, one combination is in all these")


@pytest.mark.parametrize(("sizes", "said"), [(2, True), (3, False)])
def test_b5_says_where_not_every_factor_has_as_many_values(tmp_path: Path, sizes: int, said: bool) -> None:
    folders = []
    for n, last in ((2, 2), (3, sizes)):
        words = of_library(f"coverage-values-{n}").resolved()
        words["world"] |= {"shapes": n, "colours": n, "sizes": last}
        study = Study.model_validate(words)
        folders.append(plant_shares(tmp_path / str(n), study, by_arm({}, others=0.4), evaluations=5))
    limits = " ".join(asked("B5", *folders).limits)
    assert ("the worlds are 2 x 2 x 2 and 3 x 3 x 2." in limits) is said
