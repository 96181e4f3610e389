"""B7, the search for a JEPA that helps: its controls, every word of the entry, and its confirmation."""

from pathlib import Path

import pytest

from planted_beyond import asked, by_arm, confirm, of_library, plant_shares, search, words
from recombine.claims.beyond.jepa import own_control
from recombine.claims.beyond.questions import look_beyond
from recombine.claims.ledger import open_studies
from recombine.claims.tables import open_study


def test_b7_every_setting_has_its_own_control(tmp_path: Path) -> None:
    study = open_study(search(tmp_path, {}, evaluations=1))
    arms = {arm.name: arm for arm in study.arms}
    for name, arm in arms.items():
        if arm.setting("jepa"):
            own = own_control(arm)
            wanted = f"{name}-without" if f"{name}-without" in arms else "maskgit"
            assert own is not None and own.name == wanted


def test_b7_did_not_help(tmp_path: Path) -> None:
    """A setting that draws much, as its own control does, has not helped."""
    entry = asked("B7", search(tmp_path, {"more-codes": 0.5, "more-codes-without": 0.5, "all-tokens-without": 0.3}))
    assert entry.word == "did not help in 12 settings" and len(words(entry)) == 12
    assert words(entry)["more-codes"] == "alike" and words(entry)["all-tokens"] == "lower"
    assert "so JEPA did not help in 12 settings" in entry.text and "not confirmed yet" in entry.text
    for varied in (
        "codebook",
        "layers",
        "loss of MaskGIT",
        "masks",
        "schedule of the rate",
        "targets",
        "teacher",
        "weight",
    ):
        assert varied in entry.text.split(")")[0]


def test_b7_counts_the_settings_of_other_searches(tmp_path: Path) -> None:
    layers = plant_shares(tmp_path / "layers", of_library("jepa-layers"), by_arm({}, others=0.05))
    entry = asked("B7", search(tmp_path / "search", {}), layers)
    assert "17 settings of jepa and jepa-layers" in entry.text and "layers-6-8-10 (jepa-layers)" in words(entry)
    assert "size of the model" in entry.text
    few = plant_shares(tmp_path / "few", of_library("jepa-layers"), by_arm({}), seeds=range(3))
    assert "12 settings of jepa" in asked("B7", tmp_path / "search", few).text
    # Without the search itself, nothing is asked.
    assert [one.id for one in look_beyond(open_studies([layers]))] == []


def test_b7_confirmed_on_fresh_seeds_or_not(tmp_path: Path) -> None:
    found = search(tmp_path / "search", {"early-layers": 0.3})
    entry = asked("B7", found)
    assert entry.word == "not confirmed yet" and "early-layers clearly raises level-2" in entry.text
    assert entry.found is not None and "after the fact" in entry.found.measure
    held = asked("B7", found, confirm(tmp_path / "held", {"early-layers": 0.2}))
    assert held.word == "helps in one setting" and "confirmed on fresh seeds: +10 points" in held.text
    assert held.found is not None and held.found.ours.mean == pytest.approx(0.1, abs=0.01)
    assert words(held)["early-layers, fresh seeds"] == "higher"
    gone = asked("B7", found, confirm(tmp_path / "gone", {"early-layers": 0.1}))
    assert gone.word == "not confirmed" and "on fresh seeds it is not confirmed" in gone.text
    # A search in which nothing helps is told so, whether or not its best was asked again.
    nothing = search(tmp_path / "nothing", {"early-layers": 0.11})
    still = asked("B7", nothing, confirm(tmp_path / "still", {"early-layers": 0.1}))
    assert still.word == "did not help in 12 settings" and "on fresh seeds it is not confirmed" in still.text
    # What was asked again must be what is told of: by another measure another try may be the best.
    other = search(tmp_path / "other", {"early-layers": 0.3, "last-layer": 0.4})
    best = asked("B7", other, confirm(tmp_path / "other-confirm", {"early-layers": 0.1}))
    assert best.word == "not confirmed yet" and "last-layer with +30 points" in best.text
    assert "not asked again on fresh seeds (jepa-confirm asks it of early-layers: " in best.text
    again = asked("B7", found, confirm(tmp_path / "again", {"early-layers": 0.2}, seeds=range(4, 12)))
    assert again.word == "not confirmed yet" and "has 4 fresh seeds" in again.text


def test_b7_a_confirming_study_is_corrected_by_itself(tmp_path: Path) -> None:
    """The tries are corrected for their number, the one test that confirms is not."""
    folder = confirm(tmp_path / "held", {"early-layers": 0.1}, seeds=range(8, 14))
    entry = asked("B7", search(tmp_path / "search", {"early-layers": 0.3}), folder)
    assert entry.found is not None
    one = entry.found.contrasts[0]
    assert one.p == one.test.p and entry.found.contrasts[1].p > (entry.found.contrasts[1].test.p or 0)
