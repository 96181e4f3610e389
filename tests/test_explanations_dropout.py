"""E2, what dropout loses late: every word on every rival can be reached, by tables planted to reach it."""

from pathlib import Path

import pytest

from planted import LEVELS, library
from planted_cells import Draw, Shares, lean, plant_cells, ramp
from planted_explanations import CELLS, DROPOUT, KEEPS, LOSES, asked, conditioning, dropout, withheld, words
from recombine.claims.why import dropout as why_dropout

ROOT = Path(__file__).resolve().parent.parent
INFERRED, WRONG, LONG = why_dropout.INFERRED, why_dropout.WRONG, why_dropout.LONG


def test_e2_the_factor_is_inferred(tmp_path: Path) -> None:
    """Dropout loses shape late in three compositions; withholding shape alone is enough."""
    found = asked(DROPOUT, conditioning(tmp_path), withheld(tmp_path, shape=LOSES))
    assert words(found) == {INFERRED: "supported", WRONG: "contradicted", LONG: "contradicted"}
    assert "101, 110 and 111 shape" in found.text
    assert any("towards 001" in note and "not clearly lost: 011" in note for note in found.evidence)
    alone = next(note for note in found.evidence if "with shape withheld" in note)
    assert alone.startswith("From their early height to the end, 101, 110 and 111 lose ")
    assert "with colour withheld and" in alone and alone.endswith("with size withheld (less than 0: they rise).")
    assert found.finding is not None and [one.name for one in found.finding.beside] == ["withheld"]
    assert found.finding.arms["shape withheld"] == "shape-withheld (withheld)"


def test_e2_names_what_was_never_drawn(tmp_path: Path) -> None:
    """A composition without valid pictures has nothing to lose, though its factor falls like the others'."""

    def draw(code: str, time: float, seed: int) -> Shares:
        return LOSES(code, time, seed) | ({"valid": 0.0} if code == "111" else {})

    found = asked(DROPOUT, conditioning(tmp_path, quantized_dropout=draw))
    assert "In 101 and 110 shape falls back" in found.text
    (note,) = [note for note in found.evidence if "not clearly lost: 011;" in note]
    assert "hardly drawn at any time, so nothing to lose: 111 (shape named right 99.9\xa0% to 3\xa0%)" in note


@pytest.mark.parametrize(
    ("arms", "expected"),
    [
        ({}, "contradicted"),  # withholding shape alone does nothing
        ({"shape": LOSES, "colour": LOSES}, "contradicted"),  # withholding another factor does it too
        ({"shape": lambda *of: (LOSES if of[2] % 2 else KEEPS)(*of)}, "cannot tell"),  # half of the seeds
    ],
)
def test_e2_the_factor_is_not_inferred(tmp_path: Path, arms: dict[str, Draw], expected: str) -> None:
    found = asked(DROPOUT, conditioning(tmp_path), withheld(tmp_path, **arms))
    assert words(found)[INFERRED] == expected


def test_e2_without_arms_that_withhold_some(tmp_path: Path) -> None:
    found = asked(DROPOUT, conditioning(tmp_path))
    assert words(found) == {INFERRED: "cannot tell", WRONG: "contradicted", LONG: "contradicted"}
    assert "It is not wrong labels or long training alone." in found.text
    assert found.word == "cannot tell"


def test_e2_wrong_labels(tmp_path: Path) -> None:
    """Only the arm that is told class 0 loses anything."""
    arms = {"full_mislabelled": LOSES, "quantized_dropout": KEEPS}
    found = asked(DROPOUT, conditioning(tmp_path, **arms))
    assert words(found) == {INFERRED: "contradicted", WRONG: "supported", LONG: "contradicted"}
    assert "because zeros are told" in found.text


def test_e2_says_which_factor_each_kind_of_dropout_loses() -> None:
    """Both end at zero; only the factors tell that they are two losses."""
    found = asked(DROPOUT, *(ROOT / "results" / name for name in ("conditioning", "mislabelled")))
    (said,) = (note for note in found.evidence if note.startswith("Which factor is lost (shape / colour / size "))
    null, zeros = said.split("; quantized")[0].split("; full conditioning and zeros ")
    assert "full conditioning and a learned null 011" in null and "101 65 / 100 / 100\u00a0%" in null
    assert "101 100 / 100 / 0.9\u00a0%" in zeros and "quantized conditioning and zeros" in said


def test_e2_wrong_labels_that_do_most_of_it(tmp_path: Path) -> None:
    arms = {"full_mislabelled": LOSES, "full_dropout": dropout(*CELLS, to=0.8), "quantized_dropout": KEEPS}
    assert words(asked(DROPOUT, conditioning(tmp_path, **arms)))[WRONG] == "supported"


def test_e2_long_training(tmp_path: Path) -> None:
    """The arm without dropout falls as far, so nothing is left for dropout to explain."""
    found = words(asked(DROPOUT, conditioning(tmp_path, quantized=LOSES), withheld(tmp_path, shape=LOSES)))
    assert found[LONG] == "supported" and found[INFERRED] == "cannot tell"


def test_e2_pictures_that_break_are_no_lost_factor(tmp_path: Path) -> None:
    broken = dropout(*CELLS, to=1.0, valid=0.1)
    found = asked(DROPOUT, conditioning(tmp_path, quantized_dropout=broken), withheld(tmp_path))
    assert words(found)[INFERRED] == "contradicted" and "right pictures are lost" in found.text
    assert any("Judged by the probe alone" in limit for limit in found.limits)


def test_e2_nothing_lost(tmp_path: Path) -> None:
    found = asked(DROPOUT, conditioning(tmp_path, quantized_dropout=KEEPS))
    assert found.word == "untested" and "loses no held-out composition by step 60,000" in found.text


def test_e2_a_seeds_chance_peak_is_no_fall(tmp_path: Path) -> None:
    """Noise that is as large late as early must not look like a loss, though every seed lies below its own highest."""

    def noisy(code: str, time: float, seed: int) -> Shares:
        return {"shape": 0.6 + 0.1 * lean(seed, f"{code}{time}"), "valid": 1.0 if LEVELS[code] else ramp(time, 0, 0.2)}

    trained = {"full_dropout": noisy, "quantized_dropout": noisy}
    for name, draw in trained.items():
        trained[name] = lambda code, time, seed, draw=draw: draw(code, time, seed) if LEVELS[code] else {}
    assert asked(DROPOUT, conditioning(tmp_path, **trained)).word == "untested"


def test_the_librarys_studies_have_the_arms_of_e2(tmp_path: Path) -> None:
    """The settings that E2 looks for are those that the studies of the library would write."""
    first, some = library("conditioning"), library("withheld")
    draws = {name: LOSES if "dropout" in name else KEEPS for name in first.arms}
    folders = [plant_cells(tmp_path / "a", first, draws)]
    folders.append(plant_cells(tmp_path / "b", some, {name: LOSES if "shape" in name else KEEPS for name in some.arms}))
    faulty = library("mislabelled")
    folders.append(plant_cells(tmp_path / "c", faulty, dict.fromkeys(faulty.arms, LOSES)))
    found = asked(DROPOUT, *folders)
    assert words(found) == {INFERRED: "supported", WRONG: "contradicted", LONG: "contradicted"}
    assert found.finding is not None and {one.name for one in found.finding.beside} == {"withheld", "mislabelled"}
    assert "told as zeros" in found.finding.arms
