"""Explanations in the terminal, as JSON, in RESULTS.md, in their figures and in the documents, and what is untested."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from folders import folders_of
from planted import OBJECTIVES, Plan, plant
from planted_cells import plant_cells
from planted_explanations import (
    DROPOUT,
    FALLS,
    GRADUAL,
    LOSES,
    NOT_REAL,
    PEAK,
    RISE,
    SHARP,
    asked,
    conditioning,
    tokenizers,
    withheld,
)
from recombine.claims.ledger import CLAIMS, is_figures, make_ledger, open_studies
from recombine.claims.page import page_text, write_page
from recombine.claims.why.explanations import EXPLANATIONS, ask_why, explain
from recombine.claims.why.figures import draw_answer
from recombine.cli import app

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results/ of studies that answer all three."""
    home = tmp_path_factory.mktemp("home")
    results = home / "results"
    plant_cells(results / "objectives", OBJECTIVES, {"maskgit": NOT_REAL})
    conditioning(results, full_mislabelled=LOSES)
    withheld(results, shape=LOSES)
    tokenizers(results, GRADUAL, SHARP)
    return home


def test_the_command_and_its_json(planted: Path) -> None:
    done = CliRunner().invoke(app, ["claims", *map(str, folders_of(planted))], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    for one in EXPLANATIONS:
        assert one.id in done.output
    done = CliRunner().invoke(app, ["claims", *map(str, folders_of(planted)), "--json"])
    assert done.exit_code == 0, done.output
    claims = json.loads(done.output)
    assert [one["id"] for one in claims] == [claim.id for claim in CLAIMS]
    found = {why["id"]: why for one in claims for why in one["why"]}
    assert {one["id"]: [why["id"] for why in one["why"]] for one in claims if one["why"]} == {
        "C1": ["E1"],
        "C2": ["E3"],
        "C3": ["E2"],
    }
    for one in EXPLANATIONS:
        why = found[one.id]
        assert (
            why["word"] == "explained" and why["seeds"] == 8 and why["interval"][0] < why["ours"] < why["interval"][1]
        )
        assert [rival["name"] for rival in why["rivals"]] == list(one.rivals)
        assert all(rival["prediction"] and rival["sentence"] for rival in why["rivals"])


def test_the_json_of_what_is_untested(tmp_path: Path) -> None:
    plain = plant(tmp_path, OBJECTIVES, {"maskgit": Plan(far=0.02)})
    for one in explain(open_studies([plain])):
        found = one.to_json()
        assert found["word"] == "untested" and found["ours"] is None and found["answer"]
        assert {rival["word"] for rival in found["rivals"]} == {"untested"}


def test_untested_without_factors_seeds_or_studies(tmp_path: Path) -> None:
    plain = plant(tmp_path / "plain", OBJECTIVES, {"maskgit": Plan(far=0.02, peak=0.6)})
    assert "does not tell the factors apart" in asked(PEAK, plain).text
    few = plant_cells(tmp_path / "few", OBJECTIVES, {"maskgit": FALLS}, seeds=range(5))
    assert "5 seeds" in asked(PEAK, few).text
    for explanation in (DROPOUT, RISE):
        assert asked(explanation, few).word == "untested"
    assert asked(DROPOUT, few).text == "No result of the study conditioning was given."


def test_the_page_says_why(planted: Path, tmp_path: Path) -> None:
    """Its figures are drawn, the same each time, and its links lead to headings."""
    write_page(planted / "RESULTS.md", folders_of(planted))
    text = (planted / "RESULTS.md").read_text(encoding="utf-8")
    assert text.index("\n## Why\n") > text.index("\n## The ledger\n")
    studies = open_studies(folders_of(planted))
    assert page_text(make_ledger(studies), studies, planted) == text and "nan" not in text
    for answer in explain(studies):
        title = f"{answer.id}. {answer.explanation.title}: explained"
        assert f"\n### {title}\n" in text and f"(results/figures/{answer.id}.png)" in text
        assert answer.finding is not None and all(one.sentence in text for one in answer.finding.outcomes)
        again = draw_answer(answer, tmp_path / f"{answer.id}.png")
        assert again.read_bytes() == (planted / "results" / "figures" / f"{answer.id}.png").read_bytes()
    assert "[MaskGIT's early peak](#e1)" in text and text.count('\n<a id="e1"></a>\n\n### E1. ') == 1
    assert is_figures(planted / "results" / "figures")


@pytest.mark.parametrize("times", [1, 3])
def test_rivals_stay_in_the_figure(planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """However many there are, and above the panels."""
    answer = ask_why(PEAK, open_studies(folders_of(planted)))
    assert answer.finding is not None
    answer = replace(answer, finding=replace(answer.finding, outcomes=times * answer.finding.outcomes))
    figures, save = [], Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *to, **how: figures.append(figure) or save(figure, *to, **how)
    )
    draw_answer(answer, tmp_path / "E1.png")
    (figure,) = figures
    _, _, question, *lines = figure.texts
    assert len(lines) > 1 and not any(line.get_text().endswith("cannot") for line in lines)
    boxes = [text.get_window_extent() for text in (question, *lines)]
    assert max(box.x1 for box in boxes) < figure.bbox.x1
    assert all(below.y1 < above.y0 for above, below in pairwise(boxes))
    assert max(axes.get_tightbbox().y1 for axes in figure.axes) < boxes[-1].y0


def test_docs_name_every_threshold_and_rival() -> None:
    text = " ".join((ROOT / "docs" / "claims.md").read_text(encoding="utf-8").split())
    shared = {one.name for claim in CLAIMS for one in claim.thresholds}
    for explanation in EXPLANATIONS:
        assert f"**{explanation.id}, " in text
        for rival in explanation.rivals:
            assert f"*{rival}*" in text, rival
        for one in explanation.thresholds:
            if one.name not in shared:
                assert f"*{one.name}* ({one.value:g}): {one.reason}" in text
