"""B11, what is withheld and what is lost: every word, which study answers, and that every combination counts."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from planted import LEVELS
from planted_beyond import LOST, drawn, losing, of_library, plant_withheld, some_arms, words
from planted_cells import FACTORS, Shares, plant_cells
from recombine.claims.beyond.entries import Curves, Entry, Gains, Over
from recombine.claims.beyond.questions import ask_beyond, look_beyond
from recombine.claims.beyond.withheld import AGAIN, B11, SEEN
from recombine.claims.ledger import open_studies

STUDIES = {name: of_library(name) for name in ("conditioning", "withheld", AGAIN)}
WITHHELD = [f"{name}-withheld" for name in FACTORS]


def asked(*folders: Path) -> Entry:
    return ask_beyond(B11, open_studies(folders))


def test_the_second_study_is_the_first_but_for_its_length_and_seeds() -> None:
    first, again = (STUDIES[name].resolved() for name in ("withheld", AGAIN))
    for arm in WITHHELD:
        for section in ("tokenizer", "conditioning", "generator"):
            assert again["arms"][arm][section] == first["arms"][arm][section]
    assert first["world"] == again["world"] and first["split"] == again["split"]
    assert not set(again["seeds"]) & {*first["seeds"], *range(32)}


def test_what_is_withheld_is_lost(tmp_path: Path) -> None:
    entry = asked(plant_withheld(tmp_path))
    assert entry.word == "yes, 2 of 3 factors"
    found = words(entry)
    assert found.pop("shape withheld: shape") == found.pop("colour withheld: colour") == "lower"
    assert len(found) == 7 and set(found.values()) == {"alike"}
    assert entry.text.startswith(
        "Yes, where one is lower: against nothing withheld, how often the withheld factor is named"
    )
    assert "is lower for shape, \u221250 points (" in entry.text and "and colour, \u221230 points (" in entry.text
    assert "; of factors that are told it is within 5 points in all 6 comparisons (the widest: " in entry.text
    assert entry.found is not None and entry.found.ours.mean == pytest.approx(-0.8 / 3, abs=0.02)
    assert entry.to_json()["ours_of"] == [f"{name} withheld: {name}" for name in FACTORS]
    assert "nothing withheld shape 99" in entry.found.more[0] or "nothing withheld shape 100" in entry.found.more[0]
    assert SEEN not in entry.limits and entry.by_probe is None
    assert not any("peak" in text for text in entry.limits)


def test_every_new_combination_counts(tmp_path: Path) -> None:
    """One that is lost whole among four is a quarter."""

    def only_far(code: str, time: float, seed: int) -> Shares:
        return {"shape": 0.0 if LEVELS[code] == 2 else 1.0}

    arms = {"none-withheld": losing("none", {}), "shape-withheld": only_far}
    folder = plant_cells(tmp_path, some_arms(STUDIES[AGAIN], AGAIN, list(arms)), arms)
    entry = asked(folder)
    assert entry.found is not None and sum(level > 0 for level in LEVELS.values()) == 4
    assert entry.found.contrasts[0].test.mean == pytest.approx(-0.25, abs=0.02)


@pytest.mark.parametrize(
    ("lost", "word", "begins"),
    [
        ({"shape": {"shape": 0.5, "size": 0.2}, "colour": {}, "size": {}}, "others are lower too", "Not it alone: "),
        ({"shape": {"colour": 0.2}, "colour": {}, "size": {}}, "others are lower", "No, another: "),
        ({"shape": {}, "colour": {}, "size": {}}, "none is lower", "No: "),
    ],
)
def test_other_answers(tmp_path: Path, lost: Mapping[str, Mapping[str, float]], word: str, begins: str) -> None:
    entry = asked(plant_withheld(tmp_path, lost=lost))
    assert entry.word == word and entry.text.startswith(begins)


def test_seeds_that_differ_widely_cannot_tell(tmp_path: Path) -> None:
    def some_lose(code: str, time: float, seed: int) -> Shares:
        return {"shape": 0.5 if LEVELS[code] and seed < 2 else 1.0}

    arms = {"none-withheld": losing("none", {}), "shape-withheld": some_lose}
    entry = asked(plant_cells(tmp_path, some_arms(STUDIES[AGAIN], AGAIN, list(arms)), arms))
    assert entry.word == "cannot tell" and entry.text.startswith("The seeds cannot tell: ")


def test_which_study_answers(tmp_path: Path) -> None:
    first = plant_withheld(tmp_path / "withheld", "withheld", {**LOST, "size": {"size": 0.5}})
    alone = asked(first)
    assert alone.found is None and "conditioning has it" in alone.why
    study = some_arms(STUDIES["conditioning"], "conditioning", ["full"])
    base = plant_cells(tmp_path / "conditioning", study, {"full": losing("full", {})})
    entry = asked(first, base)
    assert entry.word == "yes, 3 of 3 factors" and SEEN in entry.limits
    assert entry.found is not None and [one.name for one in entry.found.studies] == ["withheld", "conditioning"]
    assert "was written on" not in entry.text
    again = asked(first, base, plant_withheld(tmp_path / AGAIN))
    assert again.word == "yes, 2 of 3 factors" and SEEN not in again.limits
    assert "was written on the study withheld (other seeds, " in again.text and "it is lower for shape, " in again.text
    assert ") and size, \u221249 points (" in again.text
    assert not [one for one in look_beyond(open_studies([base])) if one.id == "B11"]


def test_an_arm_that_has_not_learned(tmp_path: Path) -> None:
    for dull, said in (("shape-withheld", ""), ("none-withheld", "Nothing withheld draws only")):
        arms = {arm: losing(arm, {"colour": 0.3} if arm.startswith("colour") else {}) for arm in STUDIES[AGAIN].arms}
        arms[dull] = losing(dull, {}, trained=0.4)
        entry = asked(plant_cells(tmp_path / dull, STUDIES[AGAIN], arms))
        if said:
            assert entry.found is None and said in entry.why
        else:
            assert entry.word == "yes, 1 of 2 factors" and any(
                "shape withheld draws only" in text for text in entry.limits
            )


def test_the_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = asked(plant_withheld(tmp_path / "one"))
    assert entry.found is not None
    over, curves, gains = entry.found.panels
    assert isinstance(over, Over) and isinstance(curves, Curves) and isinstance(gains, Gains)
    assert over.ticks == ("nothing", *FACTORS) and list(curves.lines) == [*FACTORS, "nothing withheld, mean"]
    figure = drawn(entry, tmp_path, monkeypatch)
    assert len(figure.axes) == 3 and len(figure.axes[-1].get_yticklabels()) == 9
