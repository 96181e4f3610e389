"""B13, pairs of values seen together: what is counted, compared, left out and said."""

from pathlib import Path

import pytest

from planted_beyond import Share, asked, levels_of, of_library, plant_shares, some_arms, words
from recombine.claims.beyond.entries import Over
from recombine.claims.beyond.figures import draw_entry
from recombine.claims.beyond.pairs import per_pair
from recombine.splits import pairs_seen, parse_code
from recombine.studies.spec import Study


def pairs_of(study: Study, arm: str) -> dict[str, int]:
    levels = levels_of(study, arm)
    train = [parse_code(code) for code, level in levels.items() if level == 0]
    return {code: pairs_seen(parse_code(code), train) for code in levels}


def by_pairs(study: Study, slope: float, base: float = 0.1) -> Share:
    """Held-out combinations are drawn by how many of their pairs were seen, whatever their level."""
    pairs = {arm: pairs_of(study, arm) for arm in study.arms}
    return lambda arm, text, level, seed: (
        0.97 if level == 0 else base + (slope + 0.01 * (seed % 3 - 1)) * pairs[arm][text]
    )


def by_number(study: Study) -> Share:
    """Held-out combinations are drawn by how many are trained, whatever was seen of their pairs."""
    return lambda arm, text, level, seed: 0.97 if level == 0 else 0.03 * int(arm.split("-")[1])


def test_a_slope_is_least_squares_by_seed() -> None:
    shares = {"a": {0: 0.1, 1: 0.0}, "b": {0: 0.3, 1: 0.0}, "c": {0: 0.6, 1: 0.0}}
    assert per_pair(shares, {"a": 0, "b": 1, "c": 2}) == pytest.approx({0: 0.25, 1: 0.0})
    assert per_pair(shares, {"a": 1, "b": 1, "c": 3})[0] == pytest.approx(0.2)  # 0.6 less the mean of 0.1 and 0.3, by 2


def test_pairs_are_found_within_an_arm_and_from_one_to_the_next(tmp_path: Path) -> None:
    study = of_library("coverage")
    entry = asked("B13", plant_shares(tmp_path, study, by_pairs(study, 0.2), evaluations=5))
    assert set(words(entry).values()) == {"higher"} and entry.word == "pairs matter"
    assert {"DiT with 12", "MaskGIT with 12", "DiT, 12 to 20", "MaskGIT, 4 to 12"} <= set(words(entry))
    assert "DiT with 20" not in words(entry)  # of all that it is not trained on it has seen all pairs
    assert entry.found is not None
    assert all(one.test.mean == pytest.approx(0.2, abs=0.01) for one in entry.found.contrasts)
    assert "draws 30\u00a0% (" in entry.text and "where 1 of 3 pairs of values was seen together" in entry.text
    panel = entry.found.panels[0]
    assert isinstance(panel, Over) and panel.ticks == ("0", "1", "2", "3")
    assert draw_entry(entry, tmp_path / "B13.png").stat().st_size > 10_000


def test_how_many_are_trained_is_not_taken_for_pairs(tmp_path: Path) -> None:
    study = of_library("coverage")
    entry = asked("B13", plant_shares(tmp_path, study, by_number(study), evaluations=5))
    assert set(words(entry).values()) == {"alike"} and entry.word == "no difference"


def test_an_arm_that_draws_hardly_any_is_left_out(tmp_path: Path) -> None:
    study = of_library("coverage")
    plain = by_pairs(study, 0.2)
    share: Share = lambda arm, *at: 0.01 if arm.endswith("-4") and at[1] else plain(arm, *at)  # noqa: E731
    entry = asked("B13", plant_shares(tmp_path, study, share, evaluations=5))
    assert set(words(entry)) == {"DiT with 12", "MaskGIT with 12", "DiT, 12 to 20", "MaskGIT, 12 to 20"}
    assert any("hardly any level-1 combination is drawn: DiT with 4 and MaskGIT with 4." in one for one in entry.limits)


def test_it_says_what_had_been_seen_before(tmp_path: Path) -> None:
    large, small = (of_library(name) for name in ("coverage", "coverage-xs"))
    first = asked("B13", plant_shares(tmp_path / "large", large, by_pairs(large, 0.2), evaluations=5))
    second = asked("B13", plant_shares(tmp_path / "small", small, by_pairs(small, 0.2), evaluations=5))
    assert any("it describes DiT here, and tests MaskGIT" in one for one in first.limits)
    assert not any("it describes DiT here" in one for one in second.limits) and second.word == "pairs matter"
    assert any("The study coverage, which would be asked first" in one for one in second.limits)


def test_nothing_to_compare(tmp_path: Path) -> None:
    study = some_arms(of_library("coverage"), "coverage", ["dit-20", "maskgit-20"])
    entry = asked("B13", plant_shares(tmp_path, study, by_pairs(study, 0.2), evaluations=5))
    assert entry.found is None and "no arm draws combinations" in entry.why
