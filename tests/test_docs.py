"""The pages in docs: every command of their blocks is one that `recombine` takes, and every link leads somewhere.

docs/study-file.md, whose blocks build on each other, is run by test_words.
"""

import glob
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recombine import cli, runner
from test_readme import read_blocks, read_commands

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
MINE = """\
name: my-study
question: Does the page run?
world: {kind: shapes2d, image_size: 16}
split: hamming
tokenizer: vqvae
arms: {maskgit: {generator: maskgit}}
"""


def commands() -> list[tuple[str, str]]:
    pages = [page for page in PAGES if page.name != "study-file.md"]
    texts = {page.name: page.read_text(encoding="utf-8") for page in pages}
    return [
        (name, line)
        for name, text in texts.items()
        for block in read_blocks(text)
        for line in read_commands(block.text)
        if block.language == "bash"
    ]


def test_there_are_commands_to_run() -> None:
    assert {page for page, _ in commands()} >= {"running.md", "rendering.md"}


@pytest.mark.parametrize(("page", "line"), commands())
def test_a_command_of_a_page_is_taken(page: str, line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is trained or timed; scripts are asked for help alone."""
    begun = []

    def forecast(*_: Any) -> None:
        begun.append("forecast")

    def run_study(*_: Any) -> None:
        begun.append("run")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-study.yaml").write_text(MINE)
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.delenv("RECOMBINE_SHRINK", raising=False)
    monkeypatch.delenv("RECOMBINE_STORE", raising=False)
    monkeypatch.setattr(cli, "_say_forecast", forecast)
    monkeypatch.setattr(runner, "run_study", run_study)
    words = [part for word in shlex.split(line, comments=True) for part in sorted(glob.glob(word)) or [word]]
    if words[0] == "python":
        assert words[2:] == ["--help"], f"do not know how to test: {line}"
        subprocess.run([sys.executable, ROOT / words[1], "--help"], check=True, capture_output=True, timeout=60)
        return
    assert words[0] == "recombine", f"do not know how to test: {line}"
    monkeypatch.setattr(sys, "argv", words)
    cli.app(standalone_mode=False)
    assert begun == {"run": ["forecast" if "--dry-run" in words else "run"], "demo": ["run"]}.get(words[1], [])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []
