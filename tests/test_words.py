"""The reference of study files: complete, true to the settings classes, and on the page as it is now."""

import contextlib
import re
import shlex
import sys
import types
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from recombine import cli
from recombine.errors import UserError
from recombine.settings import Settings
from recombine.studies import checking, words
from recombine.studies.rendering import RenderingStudy
from recombine.studies.spec import Arm, Study, parse_study

PAGE = Path(__file__).resolve().parent.parent / "docs" / "study-file.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)

# What must be written, for each kind that has such words.
NEEDED = {"box": {"common": [1, 1, 1]}, "random": {"n": 5}, "listed": {"train": ["000", "001", "010", "100"]}}


def settings_classes(base: type[Settings] = Settings) -> list[type[Settings]]:
    """All settings classes of the package: whatever a study file is made of, and more if there is more."""
    found = [one for child in base.__subclasses__() for one in [child, *settings_classes(child)]]
    return [one for one in found if one.__module__.startswith("recombine.")]


def decoder_classes(model: type[Settings] = RenderingStudy) -> list[type[Settings]]:
    """The settings classes of a study of decoders, found by walking its annotations."""
    hints = get_type_hints(model, include_extras=True).values()
    inside = [one for hint in hints for part in (hint, *get_args(hint)) for one in checking.models_of(part)]
    return [model, *(two for one in inside if issubclass(one, Settings) for two in decoder_classes(one))]


def test_every_word_of_a_study_of_decoders_is_listed() -> None:
    listed = {
        (kind.name, word.name) for s in words.rendering_sections().values() for kind in s.kinds for word in kind.words
    }
    assert {"rendering-decoder", "rendering-support", "rendering-data"} < set(words.rendering_sections())
    for model in [one for one in decoder_classes() if one not in decoder_classes(Study)]:  # not what both kinds share
        kinds = list(checking.kinds_of([model])) if model is not RenderingStudy else [""]
        kind = kinds[0] if len(kinds) == 1 else ""
        assert all((kind, name) in listed for name in model.model_fields if name != "kind"), model
        assert all(info.description for info in model.model_fields.values()), model
    assert "rendering-decoder" in words.listing("rendering-decoder") and "kind cnn" in words.listing()


def test_what_is_trained_where_nothing_is_named_is_listed() -> None:
    text = "kind: rendering\nname: x\nquestion: why\narms: {one: {}}\n"
    assert parse_study(text).arms["one"].decoder.kind == "cnn"
    assert "a cnn where neither is named" in words.listing("rendering-arm", 200)


def all_words() -> list[tuple[words.Section, words.Kind, words.Word]]:
    return [(s, kind, word) for s in words.sections().values() for kind in s.kinds for word in kind.words]


def a_study(section: words.Section, kind: words.Kind, more: dict[str, str] | None = None) -> str:
    """A right study file that uses this kind, with more words (as text) in that section."""
    more = more or {}
    lines = {"name": "x", "question": "why", "world": "shapes2d", "split": "hamming"}
    inside = {"kind": kind.name} if kind.name else {}
    inside |= {word: words.written(value) for word, value in NEEDED.get(kind.name, {}).items()} | more
    arm = {"tokenizer": "vqvae", "generator": "maskgit" if section.name == "jepa" else "dit"}
    if section.name == "study":
        lines |= more
    elif section.name == "arm":
        arm |= more
    else:
        (lines if section.name in Study.model_fields else arm)[section.name] = flow(inside)
    lines["arms"] = f"{{one: {flow(arm)}}}"
    return "".join(f"{word}: {value}\n" for word, value in lines.items())


def flow(mapping: dict[str, str]) -> str:
    return "{" + ", ".join(f"{word}: {value}" for word, value in mapping.items()) + "}"


def test_every_field_of_every_settings_class_is_described() -> None:
    assert {Study, Arm} < set(settings_classes())
    lacking = [
        f"{model.__name__}.{name}"
        for model in settings_classes()
        for name, info in model.model_fields.items()
        if not info.description
    ]
    assert lacking == []
    assert all(word.description and word.allowed for _, _, word in all_words())
    assert all(kind.about for section in words.sections().values() for kind in section.kinds if kind.name)


def test_every_word_is_listed_where_it_belongs() -> None:
    """Walks the settings classes from Study, apart from how the reference walks them."""
    listed = {(section.name, kind.name, word.name) for section, kind, word in all_words()}
    expected = {("study", "", name) for name in [*Study.model_fields, "members"]}
    expected |= {("arm", "", name) for name in [*Arm.model_fields, "preset"]}
    of_decoders = set(decoder_classes()) - set(decoder_classes(Study))
    for model in set(settings_classes()) - of_decoders:
        place = re.fullmatch(r"recombine\.(\w+?)s?(\.\w+)?", model.__module__)
        assert place
        section = {"judge": "judging"}.get(place[1], place[1])
        section = "jepa" if place[2] == ".jepa" else section
        if section in ("studie", "setting") or model.__name__.startswith("_"):
            continue
        kinds = list(checking.kinds_of([model]))
        kind = kinds[0] if len(kinds) == 1 else ""
        expected |= {(section, kind, name) for name in model.model_fields if not (kind and name == "kind")}
    assert listed == expected


@pytest.mark.parametrize(("section", "kind", "word"), all_words(), ids=lambda one: getattr(one, "name", "") or "-")
def test_a_default_shown_means_what_leaving_the_word_out_means(
    section: words.Section, kind: words.Kind, word: words.Word
) -> None:
    if word.default is not None:
        assert parse_study(a_study(section, kind, {word.name: word.default})) == parse_study(a_study(section, kind))
    elif word.required:
        text = a_study(section, kind)
        without = re.sub(rf"(?m)^{word.name}: .*\n", "", text)  # at the top
        without = re.sub(rf"\b{word.name}: (\[.*?\]|[\w.-]+)(, )?", "", without) if without == text else without
        with pytest.raises(UserError, match=f"lacks '{word.name}'"):
            parse_study(without)


@pytest.mark.parametrize(
    ("section", "word", "value"),
    [("generator", "sampling_steps", "1001"), ("training", "ema_width", "0.28"), ("world", "roaming", "0")],
)
def test_bounds_are_those_that_are_kept(section: str, word: str, value: str) -> None:
    """The first value that the listing rules out is refused."""
    one = words.sections()[section]
    shown = next(listed.allowed for listed in one.kinds[0].words if listed.name == word)
    expected = {"1001": "1 to 1000", "0.28": "less than 0.28", "0": "more than 0"}[value]
    assert expected in shown
    with pytest.raises(UserError, match=word):
        parse_study(a_study(one, one.kinds[0], {word: value}))


def test_types_are_in_plain_words() -> None:
    shown = {(section.name, kind.name, word.name): word.allowed for section, kind, word in all_words()}
    assert shown["study", "", "seeds"] == "list of 1 to 1024, each: whole number, at least 0, less than 2147483648"
    assert shown["study", "", "question"] == "text, 1 to 1000 characters"
    assert shown["arm", "", "tokenizer"] == "a section, or a kind: pixels, vae or vqvae"
    assert shown["world", "shapes2d", "roaming"] == "number, more than 0, at most 1"
    assert shown["training", "", "clip"] == "number, more than 0; or null"
    assert shown["training", "", "size"] == "xs, s, b or l"


def test_the_page_is_up_to_date() -> None:
    """If this fails: python -m recombine.studies.words docs/study-file.md"""
    text = PAGE.read_text(encoding="utf-8")
    assert words.renewed(text) == text


def test_links_of_the_page_lead_somewhere() -> None:
    text = PAGE.read_text(encoding="utf-8")
    headings = {line.lstrip("# ").lower() for line in text.splitlines() if line.startswith("#")}
    assert set(re.findall(r"\]\(#(.*?)\)", text)) <= headings


def test_the_page_is_written_again_from_the_mark_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"By hand.\n\n{words.MARK}\nold words")
    words.main([str(page)])
    assert page.read_text() == f"By hand.\n\n{words.MARK}\n\n{words.markdown()}"
    words.main([])
    assert capsys.readouterr().out == words.markdown()
    page.write_text("no mark")
    with pytest.raises(UserError, match="generated from here on"):
        words.main([str(page)])
    assert page.read_text() == "no mark"


def test_examples_of_the_page_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every block, in order, in one folder; nothing is trained."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RECOMBINE_SHRINK", raising=False)
    runner: Any = types.ModuleType("recombine.runner")
    runner.run_study = lambda *_: None
    monkeypatch.setitem(sys.modules, "recombine.runner", runner)
    monkeypatch.setattr(cli, "_say_forecast", lambda *_: None)  # which would train a little
    assert {language for language, _ in BLOCKS} == {"yaml", "bash", "python"}
    for language, text in BLOCKS:
        if language == "yaml":
            study = parse_study(text)
            Path(f"{study.name}.yaml").write_text(text)
        elif language == "python":
            exec(text, {})
        else:
            for line in text.splitlines():
                command, _, target = " ".join(shlex.split(line, comments=True)).partition(" > ")
                monkeypatch.setattr(sys, "argv", shlex.split(command))
                with open(target or "printed", "w") as file, contextlib.redirect_stdout(file):
                    assert sys.argv[0] == "recombine"
                    cli.app(standalone_mode=False)


def test_what_the_introduction_says_of_its_example_is_true() -> None:
    study = parse_study(next(text for language, text in BLOCKS if language == "yaml"))
    ddpm = study.arms["ddpm"].training
    assert (ddpm.steps, ddpm.size, ddpm.batch) == (4000, "xs", 64)
    assert study.arms["pixels"].tokenizer.model_dump() == {"kind": "pixels", "patch": 4}
    assert study.seeds == (0, 1, 2)


def test_the_command_lists_all_or_one_section(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*arguments: str) -> tuple[str, str, int]:
        monkeypatch.setattr(sys, "argv", ["recombine", "words", *arguments])
        with pytest.raises(SystemExit) as caught:
            cli.main()
            sys.exit(0)
        printed = capsys.readouterr()
        return printed.out, printed.err, int(caught.value.code or 0)

    monkeypatch.setenv("COLUMNS", "80")
    everything, _, code = call()
    assert code == 0 and all(f"{word.name}:" in everything for _, _, word in all_words())
    assert max(map(len, everything.splitlines())) <= 80
    one, _, code = call("generator")
    assert code == 0 and one in everything + "\n"
    assert "sampling_steps: 12" in one and "whole number, 1 to 1000" in one and "weight_decay" not in one
    _, complaint, code = call("generater")
    assert code == 2 and complaint == "recombine: unknown section 'generater'; did you mean 'generator'?\n"
    _, complaint, code = call("nosuch")
    assert code == 2 and complaint.startswith("recombine: unknown section 'nosuch' (valid: study, arm, ")
    assert all(name in complaint for name in words.sections() | words.rendering_sections())
