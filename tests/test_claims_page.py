"""The ledger as a command, as JSON and as RESULTS.md."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from folders import folders_of
from planted import JEPA, OBJECTIVES, REPRODUCED, STUDIES, Plan, plant, plant_all
from recombine import progress
from recombine.claims.asking import asked_first, lacking
from recombine.claims.figures import key_of
from recombine.claims.ledger import CLAIMS, is_figures, make_ledger, open_studies
from recombine.claims.page import heading, ours_text, page_text, write_page
from recombine.cli import app
from recombine.errors import UserError
from recombine.studies.results import read_results, write_results

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "RESULTS.md"


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results/ of four studies, in which C1 to C5 are reproduced."""
    home = tmp_path_factory.mktemp("home")
    plant_all(home / "results")
    return home


def test_json_keeps_the_contract(planted: Path) -> None:
    done = CliRunner().invoke(app, ["claims", *map(str, folders_of(planted)), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert [one["id"] for one in found] == [claim.id for claim in CLAIMS]
    for one in found:
        assert {"id", "statement", "published", "ours", "interval", "seeds", "verdict"} <= set(one)
    first = found[0]
    assert first["verdict"] == "reproduced" and first["seeds"] == 8 and first["study"] == "objectives"
    assert first["interval"][0] < first["ours"] < first["interval"][1]
    assert first["published"] == pytest.approx((0.735 + 0.816 + 0.862) / 3 - 0.007, abs=1e-3)
    untested = next(one for one in found if one["id"] == "C8")
    assert untested["ours"] is None and untested["interval"] is None and untested["seeds"] == 0


def test_the_command_prints_the_ledger(planted: Path) -> None:
    done = CliRunner().invoke(app, ["claims", *map(str, folders_of(planted))])
    assert done.exit_code == 0, done.output
    assert done.output.count("reproduced") == 5 and "C6 and C7" in done.output
    assert "F1, F2, F3, F4 and F7: No result of the study rendering was given." in done.output


def test_members_that_diverged_are_a_limit(planted: Path, tmp_path: Path) -> None:
    """They stay in the numbers, and it is said."""
    folder = tmp_path / "objectives"
    shutil.copytree(planted / "results" / "objectives", folder)
    rows = read_results(folder).to_pylist()
    for row in rows:
        row["loss"] = None if row["arm"] == "maskgit" and row["seed"] in (2, 5) else 0.5
    write_results(folder, rows)
    whole, some = (
        next(one for one in make_ledger(open_studies([place])) if one.id == "C1")
        for place in (planted / "results" / "objectives", folder)
    )
    assert some.finding is not None and whole.finding is not None and some.finding.ours == whole.finding.ours
    told = "Seeds 2 and 5 of maskgit diverged, and what they draw counts as wrong."
    assert told in some.limits and told not in whole.limits


def test_a_narrow_terminal_gets_titles(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, there, gone in (("80", "MaskGIT", "auxiliary"), ("160", "An auxiliary JEPA loss", "JEPA repairs")):
        monkeypatch.setenv("COLUMNS", columns)
        monkeypatch.setattr(progress, "_console", None)  # it asks for the width when it is made
        done = CliRunner().invoke(app, ["claims", *map(str, folders_of(planted))])
        row = next(line for line in done.output.splitlines() if line.lstrip(" │").startswith("C4"))
        assert len(row) <= int(columns) and gone not in row
        assert there in done.output
        assert re.search(r"[+−]\d.*\([+−]\d.* to .*\)", row), "a number and its interval stand on one line"


def test_a_key_names_marks_that_are_drawn(planted: Path) -> None:
    found = next(one.finding for one in make_ledger(open_studies(folders_of(planted))) if one.id == "C1")
    assert found is not None and "small dots: seeds" in key_of(found) and "◇ published" in key_of(found)
    bare = replace(found, shown=tuple(replace(one, published=None) for one in found.shown))
    assert "small dots: seeds" in key_of(bare) and "◇" not in key_of(bare)


def test_the_page_is_deterministic_and_whole(planted: Path, tmp_path: Path) -> None:
    """The same tables give the same bytes, wherever they lie and in whichever order they are named."""
    other = tmp_path / "elsewhere"
    shutil.copytree(planted / "results", other / "results", ignore=shutil.ignore_patterns("figures"))
    write_page(planted / "RESULTS.md", folders_of(planted))
    write_page(other / "RESULTS.md", folders_of(other)[::-1])
    text = (planted / "RESULTS.md").read_text(encoding="utf-8")
    assert text == (other / "RESULTS.md").read_text(encoding="utf-8")
    assert str(planted) not in text and "nan" not in text
    for i in range(1, 6):
        picture = f"results/figures/C{i}.png"
        assert picture in text
        assert (planted / picture).read_bytes() == (other / picture).read_bytes()
    for claim in CLAIMS:
        assert f"**{claim.id}**" in text or f"**[{claim.id}]" in text
    for fact in ("0123456789ab", "an invented GPU", "recombine run jepa", "2 h 0 min", "128 pictures"):
        assert fact in text
    # The folder of figures lies among the studies now, and is passed over.
    assert is_figures(planted / "results" / "figures")
    again = open_studies(folders_of(planted))
    assert page_text(make_ledger(again), again, planted) == text


def test_how_a_study_was_run_is_folded_and_what_it_lacks_is_not(planted: Path, tmp_path: Path) -> None:
    shutil.copytree(planted / "results" / "jepa", tmp_path / "jepa")
    path = tmp_path / "jepa" / "study.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"finished": None}))
    studies = open_studies([tmp_path / "jepa"])
    text = page_text(make_ledger(studies), studies, tmp_path)
    runs = text.partition("## How the studies were run")[2]
    title, _, inside = runs.partition("</summary>\n\n")
    assert '<summary><a id="run-jepa-unfinished"></a><b>jepa</b>: ' in title and "128 pictures" in title
    assert title.endswith(" No claim is judged from it. <b>Incomplete:</b> The study jepa has not finished.")
    assert inside.startswith("[jepa](jepa): `recombine run jepa") and inside.endswith("\n\n</details>\n")


def test_it_says_where_arms_were_trained_that_were_put_together_elsewhere(planted: Path, tmp_path: Path) -> None:
    shutil.copytree(planted / "results" / "jepa", tmp_path / "jepa")
    path = tmp_path / "jepa" / "study.json"
    facts = json.loads(path.read_text())
    for arm in facts["arms"].values():
        arm |= {"hardware": facts["hardware"], "taken_from": "jepa"}

    def told() -> str:
        path.write_text(json.dumps(facts))
        studies = open_studies([tmp_path / "jepa"])
        return page_text(make_ledger(studies), studies, tmp_path).partition("## How the studies were run")[2]

    assert "torch 2.13.0, an invented GPU, " in told() and "put together" not in told()
    facts["hardware"] = {"device": "cpu", "cores": 2, "machine": "x86_64"}
    assert "trained on an invented GPU, put together with torch 2.13.0 on 2 x86_64 CPU cores, " in told()
    assert f"without the {len(facts['arms'])} arms taken over from an earlier run of it." in told()


def test_like_stands_beside_like() -> None:
    """The papers count what a probe names right: so counted, our number stands beside theirs. And what each arm has."""
    verdicts = {one.id: one for one in make_ledger(open_studies([ROOT / "results" / "conditioning"]))}
    found = verdicts["C3"]
    assert found.by_probe is not None and found.finding is not None
    assert found.by_probe.mean == pytest.approx(0.930, abs=0.001)  # full 96.8 %, quantized + dropout 3.8 %
    assert found.finding.ours.mean == pytest.approx(0.304, abs=0.001)
    assert found.to_json()["by_probe"] == found.by_probe.mean and len(found.to_json()["by_probe_interval"]) == 2
    row = next(line for line in RESULTS.read_text(encoding="utf-8").splitlines() if line.startswith("| **[C3]"))
    assert "| +100 | +93 (+86 to +100) | +30 (+10 to +51) | 8 |" in row
    assert "holds: withholding hurts; in part: both together hurt most; cannot tell: quantizing hurts" in row


def test_every_version_of_the_code_is_named(planted: Path, tmp_path: Path) -> None:
    """A study that was continued with newer code has arms of both; one version is named once."""
    shutil.copytree(planted / "results" / "jepa", tmp_path / "jepa")
    path = tmp_path / "jepa" / "study.json"
    facts = json.loads(path.read_text())
    for codes, text in (({}, "code 0123456789ab, torch"), ({"jepa": "older"}, "code 0123456789ab and older, torch")):
        for name, entry in facts["arms"].items():
            entry["code"] = codes.get(name, "0123456789ab")
        path.write_text(json.dumps(facts))
        studies = open_studies([tmp_path / "jepa"])
        assert text in page_text(make_ledger(studies), studies, tmp_path)


def test_what_is_not_judged_has_no_number_in_the_ledger(tmp_path: Path) -> None:
    """Its number stays in the JSON."""
    plans = {"vae": Plan(far=0.02, spread=0.01), "vq": Plan(far=0.1)}
    folder = plant(tmp_path, STUDIES["tokenizers"], plans, steps=dict.fromkeys(plans, 11_000))
    studies = open_studies([folder])
    found = next(one for one in make_ledger(studies) if one.id == "C2")
    assert found.verdict == "untested" and found.finding is not None
    assert ours_text(found) == "not judged" and "| not judged | 8 | · untested<br>" in page_text(
        [found], studies, tmp_path
    )
    assert found.to_json()["ours"] == found.finding.ours.mean and found.to_json()["interval"]


def test_links_lead_to_places_that_no_verdict_moves(planted: Path) -> None:
    """Every claim has a place, tested or not, and every link one."""
    studies = open_studies(folders_of(planted))
    verdicts = make_ledger(studies)
    text = page_text(verdicts, studies, planted)
    for one in verdicts:
        place = f'<a id="{one.id.lower()}"></a>'
        assert text.count(place) == 1
        if one.finding is not None:
            assert f"(#{one.id.lower()})" in text and f"\n{place}\n\n## {heading(one)}\n" in text
    headings = {line.lstrip("# ").lower().replace(" ", "-") for line in text.splitlines() if line.startswith("#")}
    assert set(re.findall(r"\]\(#(.*?)\)", text)) <= headings | set(re.findall('<a id="(.*?)">', text))


def test_a_figure_goes_when_its_answer_does(tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = plant(home / "results" / "objectives", OBJECTIVES, REPRODUCED["objectives"])
    second = plant(home / "results" / "jepa", JEPA, REPRODUCED["jepa"])
    write_page(home / "RESULTS.md", [first, second])
    write_page(home / "RESULTS.md", [first])
    assert sorted(path.name for path in (home / "results" / "figures").iterdir()) == ["C1.png", "C4.png"]


def test_a_smoke_test_is_seen_and_not_judged(planted: Path, tmp_path: Path) -> None:
    shrunk = tmp_path / "shrunk"
    shutil.copytree(planted / "results" / "jepa", shrunk)
    facts = json.loads((shrunk / "study.json").read_text())
    facts["name"] = "jepa-shrunk"
    (shrunk / "study.json").write_text(json.dumps(facts))
    found = {verdict.id: verdict for verdict in make_ledger(open_studies([shrunk]))}
    assert found["C4"].verdict == "untested" and "jepa-shrunk is a smoke test" in found["C4"].evidence[0]


def test_what_is_no_study_is_refused(planted: Path, tmp_path: Path) -> None:
    good = planted / "results" / "jepa"
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    half = tmp_path / "half"
    half.mkdir()
    shutil.copy(good / "study.json", half)
    figures = tmp_path / "figures"
    figures.mkdir()
    (figures / "mine.png").write_text("")
    broken = tmp_path / "broken"
    shutil.copytree(good, broken)
    (broken / "results.parquet").write_bytes(b"PAR1")
    hollow = tmp_path / "hollow"
    shutil.copytree(good, hollow)
    (hollow / "study.json").write_text("{}")
    cases = {
        hollow: "does not describe a study",
        tmp_path / "empty": "no study.json",
        planted / "results": "holds folders of studies",
        tmp_path / "file": "is a file",
        tmp_path / "nowhere": "does not exist",
        half: "no results.parquet",
        figures: "no study.json",  # pictures that are not the ledger's own
        broken: "cannot be read",
    }
    for folder, words in cases.items():
        with pytest.raises(UserError, match=words) as caught:
            open_studies([good, folder])
        assert str(folder) in str(caught.value) and "\n" not in str(caught.value)
    copy = tmp_path / "copy"
    shutil.copytree(good, copy)
    with pytest.raises(UserError, match="both hold a study named jepa"):
        open_studies([good, copy])
    with pytest.raises(UserError, match=r"ends in \.md"):
        write_page(tmp_path / "results.txt", [good])


def test_docs_name_every_threshold() -> None:
    """docs/claims.md has the thresholds of the code, with their reasons, word for word."""
    text = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    table = {
        line for line in text.split("\n## Thresholds\n")[1].split("\n## ")[0].splitlines() if line.startswith("| ")
    }
    wanted = {}
    for claim in CLAIMS:
        for one in claim.thresholds:
            wanted.setdefault(one, []).append(claim.id)
    judged = [claim.id for claim in CLAIMS if claim.judge is not None]
    named = {"all": judged, "C1 to C5": judged[:5], "F1 to F9": judged[5:]}
    for one, ids in wanted.items():
        where = next((name for name, every in named.items() if ids == every), ", ".join(ids))
        assert f"| {one.name} | {one.value:g} | {where} | {one.reason} |" in table
    assert len(table) == len(wanted) + 1  # its head


@pytest.mark.skipif(not RESULTS.exists(), reason="no RESULTS.md has been written yet")
def test_committed_results_follow_from_committed_tables() -> None:
    """RESULTS.md is what the tables under results/ give; write it anew with `recombine claims results/* --write`."""
    studies = open_studies(sorted(path for path in (ROOT / "results").iterdir()))
    assert RESULTS.read_text(encoding="utf-8") == page_text(make_ledger(studies), studies, ROOT)


def test_what_would_be_asked_first_is_named_where_nothing_is_judged(planted: Path) -> None:
    studies = open_studies(folders_of(planted))
    some = {name: study for name, study in studies.items() if name != "objectives"}
    assert asked_first(("objectives", "jepa", "tokenizers"), "jepa", studies) == []
    said = "The study objectives, which would be asked first, has no results here."
    assert asked_first(("objectives", "jepa", "tokenizers"), "jepa", some) == [said]
    both = "The studies objectives and other, which would be asked first, have no results here."
    assert asked_first(("objectives", "other", "jepa"), "jepa", some) == [both]
    begun = {**some, "objectives-unfinished": studies["objectives"]}
    assert lacking(("objectives", "jepa"), begun) == ["The study objectives has no finished results here."]
    layers = next(
        one for one in make_ledger(open_studies([Path(__file__).parents[1] / "results" / "jepa"])) if one.id == "C5"
    )
    assert layers.verdict == "untested" and any(
        "jepa-layers, which would be asked first" in one for one in layers.limits
    )
