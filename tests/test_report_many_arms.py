"""The report of many arms: which pairs are shown, ranges for names, and what all share said once."""

import re
import shutil
from pathlib import Path

import pytest

from fake_study import TWELVE, refill, set_joint
from pages import page_of, section_of, text_of
from recombine.report import words
from recombine.report.reading import read_study
from recombine.report.terminal import print_summary, table_lines


def pairs_of(fragment: str) -> list[tuple[str, ...]]:
    """(level, first arm, second arm, verdict) of every pair in a piece of the page."""
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", fragment))
    return re.findall(r"level-(\d) (\S+) − (\S+): .*? points \(.*?\) ((?:\S+ is better)|(?:cannot tell))", text)


def test_pairs_that_tell_are_shown_and_the_others_folded(twelve_arms: Path) -> None:
    table = section_of(page_of(twelve_arms), "table")
    open_part, fold = table.split("<details>")
    shown, folded = pairs_of(open_part), pairs_of(fold)
    pairs, _ = words.comparisons(read_study(twelve_arms))
    assert len(shown) + len(folded) == len(pairs) == 132
    assert len({(k, frozenset((a, b))) for k, a, b, _ in shown + folded}) == 132  # each once
    told = [one for one in pairs if words.better(one)]
    assert len(told) == 11 and all("dit" in (one.arm_a, one.arm_b) and one.level == 2 for one in told)
    assert [verdict for *_, verdict in shown] == ["dit is better"] * 11 + ["cannot tell"] * 5
    assert {verdict for *_, verdict in folded} == {"cannot tell"}
    smallest = sorted((one for one in pairs if not words.better(one)), key=lambda one: one.difference.p or 0.0)[:5]
    assert [{a, b} for _, a, b, _ in shown[11:]] == [{one.arm_a, one.arm_b} for one in smallest]
    text = text_of(table)
    assert "116 more pairs the seeds cannot tell apart" in text
    assert "The seeds tell 11 of the 132 pairs apart; then follow the 5 with the smallest p before correction." in text


def test_few_pairs_are_all_shown(three_page: str) -> None:
    table = section_of(three_page, "table")
    assert table and "<details>" not in table and len(pairs_of(table)) == 6


def test_many_pairs_of_which_none_tells(twelve_arms: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(twelve_arms, tmp_path / "s")
    set_joint(folder, {(arm, k): [0.95, 0.95, 0.95] for arm in TWELVE for k in range(3)})
    text = text_of(page_of(folder))
    assert "The seeds tell none of the 132 pairs apart; shown are the 5" in text and "127 more pairs" in text
    answer = words.answer(read_study(folder))
    assert "All arms draw the trained combinations: 95\u00a0% right." in answer
    assert answer.endswith("The seeds cannot tell any two arms apart at level-1 or level-2.")
    assert "95\u00a0% at level-1 and 95\u00a0% at level-2." in answer and "most by" not in answer


def test_answer_on_many_arms_gives_ranges_and_the_best(twelve_arms: Path) -> None:
    study = read_study(twelve_arms)
    answer = words.answer(study)
    assert answer.startswith("11 of 12 arms draw the trained combinations: ")
    assert "to 100\u00a0% right; maskgit only 60\u00a0%. Of the combinations never trained on" in answer
    shown = words.cells(study, "joint")
    for level, best in ((1, ""), (2, " (most by dit)")):
        means = [shown[arm, level].mean for arm in TWELVE]
        low, high = (f"{100 * end:.0f}" for end in (min(means), max(means)))
        assert f"{low} to {high}\u00a0% at level-{level}{best}" in answer
    assert "At level-2 the seeds tell 11 of 66 pairs of arms apart; the widest: dit beats " in answer
    assert answer.count("beats") == 3 and len(answer) < 600


def test_terminal_says_the_same(twelve_arms: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(twelve_arms)
    printed = re.sub(r"\s+", " ", capsys.readouterr().out)
    study = read_study(twelve_arms)
    for text in (words.answer(study), words.lengths(study)):
        assert text and re.sub(r"\s+", " ", text) in printed
    assert table_lines(study, [0])[0] == ["maskgit", "60 % (agree)"] and "agree: all seeds gave the same" in printed


def test_warnings_name_the_worst_two_of_many(twelve_arms: Path, tmp_path: Path) -> None:
    assert (
        "maskgit gets only 60\u00a0% of the trained" in words.warnings(read_study(twelve_arms))[0]
    )  # one is named alone
    folder = shutil.copytree(twelve_arms, tmp_path / "s")
    trained = {(arm, 0): [0.05 * (a + 1)] * 3 for a, arm in enumerate(reversed(TWELVE))}
    set_joint(folder, trained | {(arm, k): [0.1] * 3 for arm in TWELVE for k in (1, 2)})
    refill(folder, "joint_probe_only", lambda row: min(1.0, row["joint"] + 0.2 + 0.05 * TWELVE.index(row["arm"])))
    notes = words.warnings(read_study(folder))
    a, b = TWELVE[-1], TWELVE[-2]
    assert notes[0].startswith(
        f"{a} gets only 5\u00a0%, {b} gets only 10\u00a0% and 10 other arms less than 90\u00a0% of the trained"
    )
    assert (
        f"At level-2 the probe alone would credit {a} with 85\u00a0% instead of 10\u00a0%, {b} with 80\u00a0% "
        "instead of 10\u00a0% and 10 other arms with over 15 points too many: " in notes[-1]
    )
    assert all(sum(note.count(arm) for arm in TWELVE[2:-2]) == 0 for note in notes)


def test_lengths_by_design_are_a_remark_and_no_warning(twelve_arms: Path) -> None:
    study = read_study(twelve_arms)
    assert not study.missing
    a, b = TWELVE[-2:]
    text = f"different numbers of steps: 2,000 for {a} and {b}, 1,000 for the other 10."
    page = page_of(twelve_arms)
    assert text in text_of(page) and "What is missing" not in text_of(page)
    assert '<p class="remark">By design' in page and "step 2,000" in text_of(page)


def test_what_all_arms_share_is_said_once(twelve_arms: Path, three_page: str) -> None:
    table = text_of(section_of(page_of(twelve_arms), "table"))
    assert "over 3 seeds" in table and "· 3 seeds" not in table
    assert table.count("812,345 parameters") == 12
    assert text_of(three_page).count("step 3,000 · 3 seeds") == 3  # few arms: each row says it
