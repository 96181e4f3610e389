"""What a study's tokenizers can write, over seeds: the file, the table, and RESULTS.md."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from planted import OBJECTIVES, REPRODUCED, plant
from recombine.claims.ledger import make_ledger, open_studies
from recombine.claims.page import page_text, write_page
from recombine.claims.tokenizer_ceilings import read_ceilings, sections
from recombine.cli import app
from recombine.errors import UserError
from recombine.report.redrawn import draw_redrawn, table_lines
from recombine.runner import run_study
from recombine.studies import ceilings
from recombine.studies.spec import Study

CPU = torch.device("cpu")


def test_the_studys_own_seed_has_the_studys_ceiling_and_another_its_own(
    small_study: Study, shared_store: Path, tmp_path: Path
) -> None:
    run_study(small_study, tmp_path / "out", shared_store, "cpu")
    known = json.loads((tmp_path / "out" / "study.json").read_text())["tokenizers"]["vqvae"]["ceiling"]
    found, redrawn = ceilings.measure(small_study, tmp_path / "ceiling.json", shared_store, CPU, 2)
    shares = found.tokenizers["vqvae"].shares
    assert found.seeds == [0, 1] and list(found.tokenizers) == ["vqvae"] and found.levels["111"] == 2
    assert {code: {word: both[0] for word, both in own.items()} for code, own in shares.items()} == known
    recipe = {"tokenizer": small_study.arms["dit"].tokenizer.model_dump(mode="json")}
    errors = {}
    for entry in shared_store.glob("tokenizer-*"):
        made = json.loads((entry / "recipe.json").read_text())
        if recipe.items() <= made.items():
            errors[made["seed"]] = json.loads((entry / "facts.json").read_text())["absolute_error"]
    assert errors[0] != errors[1]  # the second was fitted otherwise
    assert ceilings.read(tmp_path / "ceiling.json") == found
    names = [line[0] for line in table_lines(found)]
    assert names == ["vqvae", "  probe alone"]
    assert [level for level, _ in redrawn.compositions] == [1, 1, 1, 2] and list(redrawn.rebuilt) == ["vqvae, saw all"]
    pictures, right, counted = redrawn.rebuilt["vqvae, saw all"]
    assert pictures.shape == redrawn.real.shape == (4, 4, 3, 12, 12) and (counted <= right).all()
    assert abs(pictures.astype(float) - redrawn.real).mean() < 20  # of the same images
    draw_redrawn(redrawn, tmp_path / "a.png")
    draw_redrawn(redrawn, tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def planted(path: Path, **changes: Any) -> Path:
    """A file in which a VAE that saw the trained combinations only cannot write level-2."""
    codes = ("000", "001", "010", "100", "011", "101", "110", "111")
    levels = dict(zip(codes, (0, 0, 0, 0, 1, 1, 1, 2), strict=True))

    def shares(blind: bool) -> dict[str, dict[str, list[float]]]:
        own = {level: [1.0, 0.6 if level else 1.0, 1.0] if level < 2 else [0.0, 0.02, 0.01] for level in range(3)}
        return {
            code: {"joint": own[level] if blind else [1.0] * 3, "valid": [1.0] * 3, "joint_probe_only": [1.0] * 3}
            for code, level in levels.items()
        }

    file = {
        "name": "tokenizers-seen",
        "command": "recombine ceiling tokenizers-seen --seeds 3",
        "seeds": [0, 1, 2],
        "images": 256,
        "levels": levels,
        "tokenizers": {
            "vae": {"kind": "vae", "sees": "all", "shares": shares(False)},
            "vae-2": {"kind": "vae", "sees": "train", "shares": shares(True)},
        },
        "versions": {"code": "0123456", "torch": "2.13.0"},
        "hardware": {"cores": 2, "machine": "x86_64"},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(file | changes))
    return path


def test_results_say_what_tokens_cannot_show(tmp_path: Path) -> None:
    plant(tmp_path / "results" / "objectives", OBJECTIVES, REPRODUCED["objectives"])
    path = planted(tmp_path / "results" / "ceilings" / "tokenizers-seen.json")
    studies = open_studies([tmp_path / "results" / "ceilings", tmp_path / "results" / "objectives"])
    assert list(studies) == ["objectives"]  # they lie beside the studies and are none
    text = page_text(make_ledger(studies), studies, tmp_path)
    brief = text.partition("## In brief")[2].partition("## The ledger")[0]
    assert "only (VAE), are right and valid in 1\u00a0%; a probe names 100\u00a0% right" in brief
    assert text.count('<a id="tokenizer-ceilings"></a>') == 1 and "(results/ceilings/tokenizers-seen.json)" in text
    assert "| VAE, fitted on all combinations | 100\u00a0% | 100\u00a0% |" in text
    row = next(line for line in text.splitlines() if line.startswith("| VAE, fitted on the trained ones only |"))
    cells = [cell.strip() for cell in row.split("|")[2:-1]]
    assert cells[0] == cells[1] == "100\u00a0%"
    assert cells[2].startswith("87\u00a0% (") and cells[4].startswith("1\u00a0% (0") and cells[5] == "100\u00a0%"
    elsewhere = tmp_path / "else where" / "RESULTS.md"
    write_page(elsewhere, [tmp_path / "results" / "objectives", path.parent])
    assert "(../results/ceilings/tokenizers-seen.json)" in elsewhere.read_text(encoding="utf-8")
    shutil.rmtree(path.parent)
    assert "tokenizer-ceilings" not in page_text(make_ledger(studies), studies, tmp_path)


def test_committed_ceilings_can_be_read() -> None:
    home = Path(__file__).parent.parent
    found = read_ceilings(home / "results" / "ceilings")
    for _, file in found:
        assert all(
            len(shares) == (len(file.seeds) if one.kind != "pixels" else 1)
            for one in file.tokenizers.values()
            for own in one.shares.values()
            for shares in own.values()
        )
    assert bool(sections(found, home)) == bool(found)


@pytest.mark.parametrize("text", ["", "{}", '{"name": 3}', "[]"])
def test_a_damaged_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "file.json").write_text(text)
    with pytest.raises(UserError, match="give `recombine ceiling STUDY` again"):
        ceilings.read(tmp_path / "file.json")


def test_what_cannot_be_asked_is_said(tmp_path: Path) -> None:
    for words, says in (
        (("demo-rendering",), "is a study of decoders"),
        (("demo", "--out", str(tmp_path)), "is a folder; give a file"),
    ):
        assert says in str(CliRunner().invoke(app, ["ceiling", *words]).exception)
