"""Runs every command and snippet of README.md, in its order, in one empty folder.

Blocks marked ```bash (or ```sh), ```python and ```yaml are run or saved; others (```text, ```bibtex) are only text.
`recombine ...` and `python ...` are run for real. `make ...` would set this very environment up again, so it is checked
that the Makefile has the target and the variables; `git clone` and the `cd` into the clone are passed over. Any other
command fails: nothing in the README goes untested by accident. A yaml block is saved under the file name in the text
before it (or as study.yaml), and a later block must use it. A comment on the line before a block changes that:

    <!-- test: skip (the reason) -->      the block is not run
    <!-- test: shrink -->                 it is run with RECOMBINE_SHRINK=1, which makes every study a smoke test
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
LANGUAGES = {"bash": "bash", "sh": "bash", "python": "python", "yaml": "yaml"}
SECONDS = 300  # for one block


@dataclass(frozen=True)
class Block:
    """One fenced block: where it starts, what it is, and what the lines before it say."""

    line: int
    language: str
    text: str
    file: str  # for yaml: the name to save it under
    skip: str  # the reason, or ""
    shrink: bool


def read_blocks(text: str) -> list[Block]:
    """The runnable blocks of a Markdown text."""
    lines = text.splitlines()
    found, start = [], None
    for i, line in enumerate(lines):
        if not line.lstrip().startswith("```"):
            continue
        if start is None:
            start = i
            continue
        language = lines[start].strip().strip("`").split()[0:1]
        if language and language[0] in LANGUAGES:
            indent = len(lines[start]) - len(lines[start].lstrip())
            before = [previous for previous in lines[:start] if previous.strip()][-2:]
            orders = re.search(r"<!-- test: (skip|shrink)(?: \((.+)\))? -->", before[-1] if before else "")
            if not orders and before and "<!-- test:" in before[-1]:
                raise ValueError(f"line {start}: not an order that this harness knows: {before[-1]}")
            if orders and orders[1] == "skip" and not orders[2]:
                raise ValueError(f"line {start}: a skipped block must give its reason in brackets")
            prose = before[:-1] if orders else before[-1:]
            names = re.findall(r"`([\w./-]+\.ya?ml)`", " ".join(prose))
            found.append(
                Block(
                    line=start + 1,
                    language=LANGUAGES[language[0]],
                    text="\n".join(row[indent:] for row in lines[start + 1 : i]) + "\n",
                    file=names[-1] if names else "study.yaml",
                    skip=orders[2] if orders and orders[1] == "skip" else "",
                    shrink=bool(orders and orders[1] == "shrink"),
                )
            )
        start = None
    return found


def read_commands(text: str) -> list[str]:
    """The commands of a shell block: continued lines joined, comments, prompts and empty lines left out."""
    lines = [line.strip().removeprefix("$ ") for line in text.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def check_make(words: list[str], makefile: str) -> None:
    """Every target and every variable of a `make` command is in the Makefile."""
    for word in words:
        if "=" in word:
            name = word.split("=")[0]
            assert re.search(rf"^{re.escape(name)}\s*[?:]?=", makefile, re.MULTILINE), f"the Makefile has no {name}"
        else:
            assert re.search(rf"^{re.escape(word)}:(?!=)", makefile, re.MULTILINE), f"the Makefile has no target {word}"


def blocks() -> list[Block]:
    """The README's blocks; none where there is no README, which a test of its own reports."""
    return read_blocks(README.read_text(encoding="utf-8")) if README.exists() else []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, shared_store: Path) -> Iterator[Path]:
    """The one folder all blocks run in, with `recombine` on the path whether or not the package is installed."""
    home = tmp_path_factory.mktemp("readme")
    command = tmp_path_factory.mktemp("bin") / "recombine"
    code = "import sys; sys.argv[0] = 'recombine'; from recombine.cli import main; main()"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    command.chmod(0o755)
    (home.parent / "path").write_text(os.pathsep.join([str(command.parent), str(Path(sys.executable).parent)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOMBINE_STORE", str(shared_store))  # shrunk studies have the tokenizer other tests made
        yield home


def run(command: list[str], folder: Path, shrink: bool) -> None:
    """Runs one command of the README; its output is the message where it fails."""
    path = (folder.parent / "path").read_text() + os.pathsep + os.environ["PATH"]
    source = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PATH": path, "PYTHONPATH": source, "MPLBACKEND": "agg"}
    environment.pop("RECOMBINE_SHRINK", None)
    if shrink:
        environment["RECOMBINE_SHRINK"] = "1"
    done = subprocess.run(
        command, cwd=folder, env=environment, timeout=SECONDS, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def test_there_is_a_readme_with_commands_and_a_study_and_python():
    assert README.exists(), "README.md is missing"
    assert {block.language for block in blocks()} == {"bash", "python", "yaml"}


def test_pictures_and_files_the_readme_links_to_exist():
    assert README.exists(), "README.md is missing"
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)|src=\"([^\"]+)\"", README.read_text(encoding="utf-8"))
    local = [a or b for a, b in targets if "://" not in (a or b)]
    assert [target for target in local if not (ROOT / target).exists()] == []


@pytest.mark.parametrize("block", blocks(), ids=lambda block: f"line{block.line}-{block.language}")
def test_block(block: Block, folder: Path):
    if block.skip:
        pytest.skip(block.skip)
    if block.language == "yaml":
        (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
        (folder / block.file).write_text(block.text, encoding="utf-8")
        users = [b for b in blocks() if b.line > block.line and b.language != "yaml" and not b.skip]
        assert any(block.file in user.text for user in users), f"no later block runs {block.file}"
    elif block.language == "python":
        run([sys.executable, "-c", block.text], folder, block.shrink)
    else:
        for line in read_commands(block.text):
            words = shlex.split(line, comments=True)
            if words[0] == "make":
                check_make(words[1:], (ROOT / "Makefile").read_text())
            elif words[0] in ("recombine", "python"):
                run(["bash", "-euo", "pipefail", "-c", line], folder, block.shrink)
            else:
                assert words[:2] == ["git", "clone"] or words[0] == "cd", f"do not know how to test: {line}"


def test_the_harness_reads_blocks_orders_and_names():
    text = """
Save this as `mine/small.yaml`:

<!-- test: shrink -->
```yaml
name: x
```
```text
not run
```
<!-- test: skip (needs a GPU) -->
```sh
recombine bench
```
- in a list:
  ```bash
  $ recombine run a.yaml \\
      --out b   # why
  # a comment
  ```
"""
    yaml, skipped, last = read_blocks(text)
    assert (yaml.language, yaml.file, yaml.shrink, yaml.text) == ("yaml", "mine/small.yaml", True, "name: x\n")
    assert (skipped.language, skipped.skip) == ("bash", "needs a GPU")
    assert [shlex.split(c, comments=True) for c in read_commands(last.text)] == [
        ["recombine", "run", "a.yaml", "--out", "b"]
    ]
    with pytest.raises(ValueError, match="reason"):
        read_blocks("<!-- test: skip -->\n```bash\nmake\n```\n")
    with pytest.raises(ValueError, match="not an order"):
        read_blocks("<!-- test: shrnk -->\n```bash\nmake\n```\n")


def test_the_harness_refuses_unknown_targets_and_failing_commands(tmp_path: Path):
    makefile = "A ?= 1\nB := 2\ndemo: x\n\ttrue\n"
    check_make(["demo", "A=3"], makefile)
    with pytest.raises(AssertionError, match="no target demos"):
        check_make(["demos"], makefile)
    with pytest.raises(AssertionError, match="no C"):
        check_make(["demo", "C=1"], makefile)
    (tmp_path / "path").write_text("/nowhere")
    (tmp_path / "home").mkdir()
    run([sys.executable, "-c", "import os; assert os.environ['RECOMBINE_SHRINK'] == '1'"], tmp_path / "home", True)
    with pytest.raises(AssertionError, match="boom"):
        run([sys.executable, "-c", "raise SystemExit('boom')"], tmp_path / "home", False)
