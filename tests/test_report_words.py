"""The words of the report: the answer, its warnings, and numbers that are not rounded away."""

from pathlib import Path

import pytest

from fake_study import set_joint, write_fake_study
from folders import facts_of
from pages import page_of, text_of
from recombine.judges.statistics import Interval
from recombine.report import words
from recombine.report.reading import read_study


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (Interval(0.96, 0.93, 0.99, 3), "yes"),
        (Interval(0.96, 0.70, 1.0, 3), "mostly yes"),
        (Interval(0.96, 0.40, 1.0, 3), "cannot tell"),
        (Interval(0.50, 0.35, 0.63, 3), "sometimes"),
        (Interval(0.30, 0.20, 0.40, 3), "mostly no"),
        (Interval(0.03, 0.0, 0.06, 3), "no"),
        (Interval(1.0, None, None, 1), "one seed: cannot tell"),
    ],
)
def test_ability_follows_the_interval_not_the_mean(cell: Interval, expected: str) -> None:
    assert words.ability(cell)[0] == expected


def test_answer_names_the_winner_only_when_it_is_clear(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path / "s", arms=("maskgit", "dit"), evaluations=2, pictures=False)
    same = {
        ("maskgit", 0): [0.99] * 3,
        ("dit", 0): [0.99] * 3,
        ("maskgit", 1): [0.5, 0.6, 0.7],
        ("dit", 1): [0.7, 0.5, 0.6],
    }
    clear = same | {("maskgit", 2): [0.02, 0.05, 0.03], ("dit", 2): [0.8, 0.82, 0.85]}
    answer = words.answer(read_study(set_joint(folder, clear)))
    assert "At level-2 dit beats maskgit by 79 points" in answer
    assert "60\u00a0% at level-1 and 3\u00a0% at level-2 for maskgit" in answer
    open_ = same | {("maskgit", 2): [0.1, 0.9, 0.4], ("dit", 2): [0.8, 0.3, 0.9]}
    answer = words.answer(read_study(set_joint(folder, open_)))
    assert "beats" not in answer and "At level-2 the seeds cannot tell which of maskgit and dit is better" in answer
    assert "At level-1 the seeds cannot tell" in answer
    worse = clear | {("maskgit", 2): clear["dit", 2], ("dit", 2): clear["maskgit", 2]}
    folder = set_joint(folder, worse)
    assert "At level-2 maskgit beats dit by 79 points" in words.answer(read_study(folder))
    text = text_of(page_of(folder))
    assert "maskgit − dit: +79 points" in text and "maskgit is better" in text


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ({"dit": 0.99}, "dit draws the trained combinations: 99\u00a0% right."),
        ({"dit": 0.5}, "dit draws only 50\u00a0% of the trained combinations right."),
        ({"dit": 0.99, "maskgit": 0.92}, "Both arms draw the trained combinations: 92 to 99\u00a0% right."),
        ({"dit": 0.99, "maskgit": 0.5}, "dit draws the trained combinations: 99\u00a0% right; maskgit only 50\u00a0%."),
        ({"dit": 0.3, "maskgit": 0.5}, "No arm draws the trained combinations well: 30 to 50\u00a0% right."),
        (
            {"a": 0.99, **{name: 0.1 * i for i, name in enumerate("fedcb", 3)}},
            "a draws the trained combinations: 99\u00a0% right; "
            "f only 30\u00a0%, e only 40\u00a0% and 3 others less than 90\u00a0%.",
        ),
    ],
)
def test_answer_begins_with_the_trained_combinations(tmp_path: Path, ends: dict[str, float], text: str) -> None:
    folder = write_fake_study(tmp_path, arms=tuple(sorted(ends)), evaluations=1, pictures=False)
    set_joint(folder, {(arm, k): [end] * 3 for arm, end in ends.items() for k in range(3)})
    assert words.answer(read_study(folder)).startswith(f"{text} Of the combinations never trained on")


def test_all_comparisons_of_the_page_are_corrected_together(three_arms: Path) -> None:
    pairs, failed = words.comparisons(read_study(three_arms))
    assert not failed and len(pairs) == 6  # three pairs at two levels
    smallest = min(pairs, key=lambda one: one.difference.p or 1.0)
    assert smallest.p_corrected == pytest.approx(min(1.0, 6 * (smallest.difference.p or 1.0)))


def test_weak_training_and_low_ceiling_are_said(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path / "s", arms=("maskgit",), evaluations=2, pictures=False)
    assert not words.warnings(read_study(folder))
    set_joint(folder, {("maskgit", 0): [0.67] * 3, ("maskgit", 1): [0.3] * 3, ("maskgit", 2): [0.1] * 3})
    with facts_of(folder) as facts:
        facts["tokenizers"]["vq"]["ceiling"]["111"]["joint"] = 0.002
    text = text_of(page_of(folder))
    assert "maskgit gets only 67 % of the trained combinations right" in text
    assert "Tokenizer vq itself reproduces only 0.2 % of real level-2 images" in text


@pytest.mark.parametrize(
    ("share", "text"), [(1.0, "100"), (0.9996, "> 99.9"), (0.996, "99.6"), (0.5, "50"), (0.004, "0.4"), (0, "0")]
)
def test_percent_never_rounds_to_all_or_nothing(share: float, text: str) -> None:
    assert words.percent(share) == f"{text}\u00a0%"


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.04996, "p = 0.04996"), (0.0502, "p = 0.0502"), (0.0499, "p = 0.0499"), (0.3, "p = 0.30"), (1e-9, "p < 0.001")],
)
def test_p_value_stays_on_its_side_of_the_line(p: float, text: str) -> None:
    shown = words.p_value(p)
    number = float(shown.split()[-1])
    assert (number < words.CLEAR) == (p < words.CLEAR)
    assert shown.startswith(text[:8])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12.345, "12.3"),
        (-0.5, "−0.5"),
        (1234567, "1.2e+06"),
        (999.6, "1,000"),
        (0.00123, "0.00123"),
        (2e-5, "2e−05"),
    ],
)
def test_numbers_in_three_digits(value: float, text: str) -> None:
    assert words.number(value) == text


def test_an_arm_that_has_not_learned_is_not_told_that_it_cannot(tmp_path: Path) -> None:
    """What it misses elsewhere says nothing; where it does draw new combinations, that stands."""
    folder = write_fake_study(tmp_path / "s", arms=("maskgit", "dit"), evaluations=1, pictures=False)
    ends = {(arm, k): [0.02, 0.03, 0.01] for arm in ("maskgit", "dit") for k in (1, 2)}
    ends |= {("maskgit", 0): [0.18, 0.2, 0.19], ("dit", 0): [0.97, 0.98, 0.99]}
    found = words.abilities(read_study(set_joint(folder, ends)))
    assert [(one.level, one.words) for one in found] == [(2, "cannot tell: not learned"), (2, "no")]
    assert "not learned: less than half of what it was trained on" in text_of(page_of(folder))
    ends |= {("maskgit", 2): [0.97, 0.98, 0.99]}
    assert [one.words for one in words.abilities(read_study(set_joint(folder, ends)))] == ["yes", "no"]
