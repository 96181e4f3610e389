"""Beyond the papers in RESULTS.md, as JSON, in the terminal and in the documents."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from folders import folders_of
from planted import OBJECTIVES, REPRODUCED, plant
from planted_beyond import (
    by_arm,
    confirm,
    coverage,
    of_library,
    plant_bridge,
    plant_shares,
    plant_spread,
    plant_values,
    plant_withheld,
    search,
    told_loudly,
)
from recombine.claims.beyond.questions import QUESTIONS
from recombine.claims.ledger import CLAIMS, is_figures, make_ledger, open_studies
from recombine.claims.page import page_text, write_page
from recombine.cli import app

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with results/ of every study that an entry is read from, beside one that claims are judged from."""
    place = tmp_path_factory.mktemp("home")
    results = place / "results"
    plant(results / "objectives", OBJECTIVES, REPRODUCED["objectives"])
    plant_spread(results / "spread", samples=64)
    dependent = of_library("dependent")
    plant_shares(results / "dependent", dependent, lambda arm, text, level, seed: 0.5 if level else 0.97, evaluations=5)
    plant_shares(results / "remedies", of_library("remedies"), by_arm({"complete": 0.8}))
    plant_shares(results / "coverage", of_library("coverage"), coverage(dit=0.95, maskgit=0.3), evaluations=5)
    for n in (2, 3):
        plant_values(results, n)
    tops = {"vq-sees-train": 0.02, "vae-sees-train": 0.9}
    seen = of_library("tokenizers-seen")
    plant_shares(results / "tokenizers-seen", seen, by_arm({"vq-sees-train": 0.0}), ceilings=tops)
    search(results / "jepa", {"early-layers": 0.3})
    confirm(results / "jepa-confirm", {"early-layers": 0.2})
    plant_bridge(results / "bridge", {"cnn": 0.1, "dit-pixels": 0.9})
    plant_shares(results / "loud", told_loudly(OBJECTIVES), by_arm({"maskgit": 0.0}))
    plant_shares(results / "jepa-published", of_library("jepa-published"), by_arm({"loud": 0.0}), seeds=range(8, 16))
    plant_withheld(results / "withheld-again")
    plant_shares(results / "which-four", of_library("which-four"), by_arm({"dit-covering": 0.9}), evaluations=4)
    plant_shares(results / "discrete", of_library("discrete"), by_arm({"givt": 0.8}), evaluations=5)
    return place


def test_the_page_and_its_figures(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    shutil.copytree(home / "results", other / "results", ignore=shutil.ignore_patterns("figures"))
    write_page(home / "RESULTS.md", folders_of(home))
    write_page(other / "RESULTS.md", folders_of(other)[::-1])
    text = (home / "RESULTS.md").read_text(encoding="utf-8")
    assert text == (other / "RESULTS.md").read_text(encoding="utf-8") and "nan" not in text
    assert text.count("## Beyond the papers") == 1 and text.index("## Beyond the papers") > text.index("## The ledger")
    headings = {line.lstrip("# ") for line in text.splitlines() if line.startswith("### B")}
    assert len(headings) == len(QUESTIONS)
    for one in QUESTIONS:
        picture = f"results/figures/{one.id}.png"
        assert f"]({picture})" in text and one.question in text
        assert (home / picture).read_bytes() == (other / picture).read_bytes()
    pointer = next(line for line in text.splitlines() if line.startswith("Beyond the papers: "))
    links = [part.split(")")[0] for part in pointer.split("](#")[1:]]
    assert links == [one.id.lower() for one in QUESTIONS]
    assert all(text.count(f'\n<a id="{one.id.lower()}"></a>\n\n### {one.id}. ') == 1 for one in QUESTIONS)
    assert "Each composition was judged on 64 pictures per evaluation only." in text
    assert (
        '<a id="run-spread"></a><b>spread</b>: ' in text and "No claim is judged from it." not in text
    )  # all of these are read
    assert is_figures(home / "results" / "figures")
    studies = open_studies(folders_of(home))
    assert page_text(make_ledger(studies), studies, home) == text


def test_studies_that_are_not_given_are_not_shown(tmp_path: Path) -> None:
    one = plant(tmp_path / "results" / "objectives", OBJECTIVES, REPRODUCED["objectives"])
    write_page(tmp_path / "RESULTS.md", [one])
    assert "Beyond" not in (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    few = plant_spread(tmp_path / "results" / "spread", seeds=range(4))
    write_page(tmp_path / "RESULTS.md", [one, few])
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert '- B1<a id="b1"></a>, How loudly factors are told: The arms of the study spread share 4 seeds' in text
    assert not (tmp_path / "results" / "figures" / "B1.png").exists()


def test_a_figure_goes_with_its_study(tmp_path: Path) -> None:
    one = plant(tmp_path / "results" / "objectives", OBJECTIVES, REPRODUCED["objectives"])
    two = plant_spread(tmp_path / "results" / "spread")
    write_page(tmp_path / "RESULTS.md", [one, two])
    assert (tmp_path / "results" / "figures" / "B1.png").stat().st_size > 10_000
    write_page(tmp_path / "RESULTS.md", [one])
    assert not (tmp_path / "results" / "figures" / "B1.png").exists()


def test_json_keeps_the_contract(home: Path) -> None:
    """The list is that of the claims, as before; what lies beyond one stands in it, with the same keys."""
    done = CliRunner().invoke(app, ["claims", *map(str, folders_of(home)), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert [one["id"] for one in found] == [claim.id for claim in CLAIMS]
    entries = {entry["id"]: entry for one in found for entry in one["beyond"]}
    assert sorted(entries) == sorted(one.id for one in QUESTIONS)
    for entry in entries.values():
        assert {"id", "statement", "published", "ours", "interval", "seeds", "verdict"} <= set(entry)
        assert entry["published"] is None and entry["interval"][0] <= entry["ours"] <= entry["interval"][1]
        keys = {"name", "difference", "interval", "p", "word", "by_probe", "by_probe_interval", "by_probe_word"}
        assert keys == set(entry["comparisons"][0])
        own = [one["difference"] for one in entry["comparisons"] if one["name"] in entry["ours_of"]]
        assert len(own) == len(entry["ours_of"]) and np.mean(own) == pytest.approx(entry["ours"])
        # of the tokenizer that cannot write level-2 no ceiling by the probe is planted, so by it nothing is left out
        assert [one["name"] for one in entry["by_probe_only"]] == (
            ["VQ tokens, level-2"] if entry["id"] == "B6" else []
        )
    assert all("small" in name for name in entries["B1"]["ours_of"]) and len(entries["B1"]["comparisons"]) > 2
    search = next(one for one in found if one["id"] == "C4")["beyond"][0]
    assert search["id"] == "B7" and search["studies"] == ["jepa", "jepa-confirm"] and search["seeds"] == 8


def test_the_command_prints_the_answers(home: Path) -> None:
    done = CliRunner().invoke(app, ["claims", *map(str, folders_of(home))])
    assert done.exit_code == 0, done.output
    assert "Beyond the papers" in done.output and all(f"│ {one.id:<3} │" in done.output for one in QUESTIONS)


def test_questions_fit_their_figures_and_stand_in_the_documents() -> None:
    text = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    claims = {claim.id for claim in CLAIMS}
    for one in QUESTIONS:
        assert len(one.question) <= 120 and len(one.compares) <= 120 and one.claim in claims
        assert f"- **{one.id}, " in text.split("## Beyond the papers")[1]
    for one in QUESTIONS:
        for name in one.studies:
            assert f"`{name}`" in text or f"`{name[:-1]}N`" in text
