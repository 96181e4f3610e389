"""What is said beside the verdicts on rendering, so that nobody is misled by them (all numbers here are planted)."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planted_beyond import plant_bridge
from recombine.anatomy.kernels import FAMILIES
from recombine.claims.beyond.bridge import judge_bridge
from recombine.claims.planes.failures import f1_failure, f3_kernels, f4_collapse, f7_codes, f8_rotation, fade_text
from recombine.claims.planes.figures import begins_at, own_scale
from recombine.claims.planes.parts import learned_positions, number_text, plain
from recombine.claims.tables import Measure, open_study
from recombine.judges.statistics import Interval
from recombine.report.words import span
from test_claims_rendering import CNN, MLP, arm, numbers, table

TRANSFORMER = arm(decoder={"kind": "transformer"})
SIDE = 8 - 3 + 1  # a hole from 3 to 8, both in it
RIM, INNER = SIDE**2 - (SIDE - 2) ** 2, (SIDE - 2) ** 2


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.78, 0.86, "0.82 (0.78 to 0.86)"),
        (-0.1149, -0.0027, "−0.059 (−0.115 to −0.003)"),  # an end that is not 0 is not told as 0
        (-0.36, -0.34, "−0.35 (−0.36 to −0.34)"),
        (0.9782, 0.9789, "0.979 (0.978 to 0.979)"),  # and an interval has a width
        (-0.1, 0.1, "0.00 (−0.10 to 0.10)"),  # 0 has no sign
        (0.5, 0.5, "0.50 (all seeds)"),
    ],
)
def test_numbers_with_intervals(low: float, high: float, text: str) -> None:
    assert number_text(Interval((low + high) / 2 - 1e-9, low, high, 8)) == text
    assert number_text(Interval(low, None, None, 1)) == plain(low)


def test_an_interval_of_shares_at_the_border_has_a_width() -> None:
    assert span(0.9996, 1.0) == "99.96–100.00\u00a0%"
    assert span(0.999, 1.0) == "99.9–100.0\u00a0%" and span(0.5, 0.6) == "50–60\u00a0%"


def test_f1_says_which_transformer_and_what_is_rim() -> None:
    deep = {("picture", "hit", "deep"): 0.0, ("picture", "joint", "deep"): 0.0}
    size = {"world": {"kind": "bumps", "image_size": 12}, "support": {"kind": "donut", "low": 3, "high": 8}}
    cnn, mlp = arm(**size), arm(**size, decoder={"kind": "mlp"})
    found = f1_failure(table({"cnn": (cnn, numbers() | deep), "mlp": (mlp, numbers() | deep)}))
    assert not any("transformer" in note for note in found.notes)
    (note,) = found.notes
    assert f"({RIM} of {RIM + INNER} cells)" in note and "CNN 0\u00a0% (all seeds), 0\u00a0% valid too" in note
    unfitted = {"cnn": (CNN, numbers() | deep), "transformer": (TRANSFORMER, numbers(inside=0.8) | deep)}
    notes = f1_failure(table(unfitted)).notes
    assert any("not the published one" in text for text in notes)
    assert not any("in place: CNN" in text and "transformer" in text for text in notes)
    assert f1_failure(table({"cnn": (CNN, numbers()), "mlp": (MLP, numbers())})).notes == ()


def test_f3_tells_pairs_across_and_the_published_word() -> None:
    """Over trained pairs product is ahead by 0.3, over pairs across factorized is, by 0.2."""
    trained = dict.fromkeys(FAMILIES, 0.1) | {"factorized": 0.4, "product": 0.7, "radial": 0.6}
    regions = {"trained": trained, "across": trained | {"factorized": 0.9}}
    planted = numbers() | {
        ("layer 1", f"kernel_r2_{family}", region): value
        for region, values in regions.items()
        for family, value in values.items()
    }
    found = f3_kernels(table({"cnn": (CNN, planted)}))
    assert found.ours.mean == pytest.approx(-0.3, abs=0.05)
    across = next(note for note in found.notes if "pairs across" in note)
    assert 0.1 < float(re.findall(r"hidden layers, (\S+) \(", across)[0]) < 0.3
    product = next(note for note in found.notes if "`product`" in note)
    assert re.search(r"is 0\.(69|70|71), that of radial 0\.(59|60|61), that of our factorized 0\.(39|40|41)", product)
    assert "-" not in "".join(part.sentence for part in found.parts)  # a real minus


def volumes(**outside: float) -> dict[Any, float]:
    found = numbers() | {("layer 1", "overlap", "held_out"): 0.1, ("input", "overlap", "held_out"): 0.0}
    found |= {("output", "overlap", "held_out"): 0.3}
    for layer, value in outside.items():
        name = layer.replace("_", " ")
        found |= {(name, "log_volume", "held_out"): value, (name, "log_volume", "trained"): 0.0}
    return found


def test_f4_says_what_was_taken_off() -> None:
    found = f4_collapse(table({"cnn": (CNN, volumes(output=-0.8, truth=0.2))}, spread=0.01))
    said = found.parts[0].sentence
    assert re.search(r": −(0\.99|1\.0).* \(.*true pictures have \(0\.20\); without taking it off, −0\.(79|80)", said)
    assert found.notes == ()
    both = volumes(output=-0.8, truth=0.2, picture=-0.9, true_picture=0.1)
    (note,) = f4_collapse(table({"cnn": (CNN, both)}, spread=0.01)).notes
    assert re.search(r": −0\.(89|90|91)\S* \(.*, published −0\.87; .*, −(0\.99|1\.0)\S* \(.*, published −0\.90\.", note)


def test_f7_does_not_use_what_is_not_fitted() -> None:
    ramp, onehot = (arm(encoding={"kind": kind}) for kind in ("ramp", "onehot"))
    arms = {"cnn": (CNN, numbers(0.2)), "ramp": (ramp, numbers(0.45, inside=0.8)), "onehot": (onehot, numbers(0.1))}
    assert f7_codes(table(arms)).ours.mean == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize(
    ("truth", "fade", "between", "said"),
    [
        (0.0154, 0.0087, 0.0186, "between the two, nearer to the cross-fade."),
        (0.0087, 0.0154, 0.0186, "between the two, nearer to the true picture."),
        (0.04, 0.03, 0.02, "lie nearer to the cross-fade."),
        (0.01, 0.01, 0.02, "between the two, as near to one as to the other."),
    ],
)
def test_where_outputs_lie(truth: float, fade: float, between: float, said: str) -> None:
    assert fade_text(truth, fade, between).endswith(said)


def test_f8_reads_squared_errors_of_the_last_step_in_the_gap(tmp_path: Path) -> None:
    digit = arm(
        world={"kind": "digits"}, support={"kind": "gap"}, encoding={"kind": "angle"}, decoder={"kind": "rotator"}
    )
    words = {"memory": 0.9, "truth": 0.8, "control": 0.5, "share": 0.7, "explained": 0.9, "undefined": 0.25}
    planted = table({"digit": (digit, numbers(**{f"superposition_{w}": v for w, v in words.items()}))}, spread=1e-3)
    bare = f8_rotation(planted, tmp_path)  # a folder without results is no error
    assert len(bare.notes) == 2 and "0.100" in bare.notes[0] and "25\u00a0%" in bare.notes[1]
    rows = [
        {"arm": name, "seed": seed, "step": step, "level": level, "mse": mse, "fade_mse": 0.01, "fade_blank": 0.04}
        for seed in range(8)
        for name, step, level, mse in (
            ("digit", 2, 1, 0.03),
            ("digit", 1, 1, 9.0),
            ("digit", 2, 0, 9.0),
            ("x", 2, 1, 9.0),
        )
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "results.parquet")
    found = f8_rotation(planted, tmp_path)
    assert "0.01 from the cross-fade" in found.notes[1] and "0.03 from the true picture" in found.notes[1]
    assert found.parts == bare.parts and found.ours == bare.ours  # no rule has changed


def test_f9_tells_learned_positions_where_nothing_else_differs() -> None:
    given, learned = (arm(decoder={"kind": "coordinate", "positions": word}) for word in ("fixed", "learned"))
    other = arm(decoder={"kind": "coordinate", "positions": "learned", "width": 64})
    (note,) = learned_positions(table({"a": (given, numbers(1.0)), "b": (learned, numbers(0.24, joint=0.2))}), "a")
    assert "(`b`) it puts 24\u00a0% (" in note and "20\u00a0% in place and valid" in note
    assert learned_positions(table({"a": (given, numbers(1.0)), "b": (other, numbers(0.24))}), "a") == ()
    assert learned_positions(table({"a": (given, numbers(1.0))}), "a") == ()
    (note,) = learned_positions(table({"a": (given, numbers(1.0)), "b": (learned, numbers(0.2, inside=0.8))}), "a")
    assert "tells nothing" in note


def test_b8_says_what_else_differs(tmp_path: Path) -> None:
    study = open_study(plant_bridge(tmp_path / "bridge", {"cnn": 0.1, "dit-pixels": 0.9, "dit-vq": 0.9}))
    found = judge_bridge({"bridge": study}, Measure())
    assert any("over a blank's, is" in note and "for CNN" in note for note in found.more)
    assert any("fitted on all cells, held-out ones too" in text and "VQ" in text for text in found.limits)
    (differ,) = [text for text in found.limits if "these differ too" in text]
    settings = study.finished.part("study", "arms")
    steps = [settings[name]["training"]["steps"] for name in ("cnn", "dit-pixels")]
    assert (f"steps ({steps[0]:,g} against {steps[1]:,g})" in differ) == (steps[0] != steps[1])


def test_an_axis_that_does_not_begin_at_0_says_so() -> None:
    assert begins_at(0.8397) == (pytest.approx(0.8), "cosine axis begins at 0.8")
    assert begins_at(0.912) == (pytest.approx(0.9), "cosine axis begins at 0.9")
    for low in (-0.08, 0.0, 0.04):
        assert begins_at(low) == (low, "")


def test_a_faint_picture_is_scaled_and_says_so() -> None:
    faint = np.array([[0.9, 1.0], [1.0, 1.0]])
    assert own_scale(faint) == pytest.approx((0.9, 1.0, 10.0))
    for clear in (np.array([0.0, 1.0]), np.ones(4)):
        assert own_scale(clear) == (0.0, 1.0, 1.0)
