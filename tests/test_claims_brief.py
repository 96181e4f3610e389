"""The first screen of RESULTS.md: what is asked, how pictures are counted, and a line per finding."""

from pathlib import Path

import pytest

from recombine.claims.beyond.questions import look_beyond
from recombine.claims.brief import TITLE, brief_lines, what_counts, what_is_asked
from recombine.claims.ledger import make_ledger, open_studies
from recombine.claims.page import page_text
from recombine.claims.tables import StudyTable

ROOT = Path(__file__).parents[1]


def kept(*names: str) -> dict[str, StudyTable]:
    return open_studies([ROOT / "results" / name for name in names])


def lines(*names: str) -> list[str]:
    studies = kept(*names)
    verdicts, entries = make_ledger(studies), look_beyond(studies)
    found = brief_lines(verdicts, entries)
    return found[1].splitlines() if found else []


def test_a_line_for_each_finding_with_both_counts() -> None:
    found = lines("objectives", "loud", "conditioning", "jepa", "jepa-confirm")
    assert len(found) == 4
    assert found[0].startswith("- **What a model predicts** ([C1](#c1) partly). ")
    shares = (
        "MaskGIT 6 % (named right 83 %, published 0.7 %), GIVT 42 % (named right 99.9 %, published 74 %), "
        "MAR 19 % (named right 99.5 %, published 82 %), DiT 16 % (named right 90 %, published 86 %)."
    ).replace(" %", "\u00a0%")
    assert f"Right and valid after 11,000 steps: {shares} " in found[0]
    assert found[0].endswith("As the paper counts (named right), MaskGIT is farthest from what was published.")
    assert "(clear in 3 of 6); named right \u221285 to \u221248 points (" in found[1]
    assert "full + dropout 0\u00a0%" in found[2]
    assert "not reproduced, [B7](#b7) did not clearly help in 11 settings). " in found[3]
    assert "right and valid +4 (\u22124 to +12), named right +8 (+0.9 to +15), published +43 points." in found[3]


def test_dependence_by_what_is_drawn_without_and_with_it() -> None:
    (found,) = lines("dependent")
    assert found.startswith("- **Factors that go together in what it sees** ([B2](#b2) dependence costs). In a ")
    assert "27 combinations, 20 of them trained" in found and "to the strongest, from 48\u00a0% (" in found
    assert found.endswith(" for MaskGIT (11,000 steps).")


@pytest.mark.parametrize(
    ("names", "count"), [(("conditioning",), 1), (("spread",), 0), (("rendering", "bridge"), 2), (("loud",), 2)]
)
def test_what_was_not_asked_has_no_line(names: tuple[str, ...], count: int) -> None:
    """`loud` is itself a ladder, on which C1 and C4 are judged; B9 needs the other one beside it."""
    assert len(lines(*names)) == count


def test_what_is_asked_and_what_counts_are_read_from_the_study() -> None:
    study = kept("objectives")["objectives"]
    assert "on 4 of 8 combinations of shape, colour and size" in what_is_asked(study)
    assert "(here one: triangle, blue, small)" in what_is_asked(study)
    assert "accepts 100\u00a0% of real images" in what_counts(study) and "accepts" not in what_counts(None)
    assert "some combinations of factors" in what_is_asked(None)


def test_it_stands_above_the_ledger() -> None:
    studies = kept("objectives")
    text = page_text(make_ledger(studies), studies, ROOT)
    assert text.index("**What is asked.**") < text.index(f"## {TITLE}") < text.index("## The ledger")


def test_what_tokens_can_show_and_what_is_drawn_on_them() -> None:
    studies = kept("tokenizers-seen")
    verdicts, entries = make_ledger(studies), look_beyond(studies)
    (alone,) = [line for line in brief_lines(verdicts, entries)[1].splitlines() if "tokenizer" in line]
    head = "- **What its tokenizer has seen** ([B6](#b6) gives none back"
    assert alone == f"{head}). DiT on such tokens draws 0 / 0\u00a0%."
    (both,) = [
        line for line in brief_lines(verdicts, entries, "They give back nothing.")[1].splitlines() if head in line
    ]
    ends = "[ceilings](#tokenizer-ceilings)). They give back nothing. DiT on such tokens draws 0 / 0\u00a0%."
    assert both == f"{head}, {ends}"
    (ceilings,) = brief_lines([], [], "They give back nothing.")[1].splitlines()
    assert ceilings.startswith("- **What its tokenizer has seen** ([ceilings](#tokenizer-ceilings)). They")


def test_a_verdict_that_what_is_named_right_would_turn_says_so() -> None:
    studies = kept("objectives-long")
    verdicts = make_ledger(studies)
    assert {one.id: one.turned for one in verdicts}["C1"] == "not reproduced"
    (line, *_) = brief_lines(verdicts, [])[1].splitlines()
    assert line.endswith("Counted so, the verdict would be: not reproduced.")
    (row,) = [row for row in page_text(verdicts, studies, ROOT, [], []).splitlines() if row.startswith("| **[C1]")]
    assert row.endswith("<br>by what is named right: not reproduced |")
