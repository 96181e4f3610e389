"""Every word that a study file may use, read off the settings classes, so that the reference cannot be out of date.

`recombine words` prints it; docs/study-file.md holds it below an introduction written by hand. After a change of the
settings or of the library, this writes the page again (the introduction, above the mark, stays):

    python -m recombine.studies.words docs/study-file.md
"""

import json
import sys
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import BaseModel, TypeAdapter

from recombine.errors import UserError
from recombine.studies.checking import kinds_of, models_of, nearest
from recombine.studies.reading import Members, Preset
from recombine.studies.rendering import RenderingArm, RenderingStudy
from recombine.studies.sources import library
from recombine.studies.spec import Arm, Study, load_study

MARK = "<!-- generated from here on by: python -m recombine.studies.words docs/study-file.md -->"

TOP = "study"
RENDERING_ORDER = ("world", "support", "encoding", "data", "decoder", "training", "judging")
ORDER = ("world", "split", "tokenizer", "conditioning", "generator", "jepa", "training", "judging")


@dataclass(frozen=True)
class Word:
    """One word of a section."""

    name: str
    allowed: str  # its type and bounds, or its values
    default: str | None  # as it would be written in a file; None: it must be written
    description: str
    leads_to: str = ""  # the section that describes what stands below this word
    optional: bool = False  # may be left out although it has no default: something else stands in for it

    @property
    def required(self) -> bool:
        return self.default is None and not self.optional


@dataclass(frozen=True)
class Kind:
    """The words of one kind of a section, or of the whole section where `name` is empty."""

    name: str
    about: str
    words: tuple[Word, ...]


@dataclass(frozen=True)
class Section:
    """One section of the file; `study` is the top level."""

    name: str
    about: str
    kinds: tuple[Kind, ...]


def sections() -> dict[str, Section]:
    """All sections by name, in the order in which a file is read."""
    fields = Study.model_fields | Arm.model_fields
    hints = get_type_hints(Study, include_extras=True) | get_type_hints(Arm, include_extras=True)
    short = _unset("members", Members)
    top_words = [one for word in _words(Study) for one in ((word, short) if word.name == "seeds" else (word,))]
    top = Section(
        TOP,
        "the top level of the file; the words of an arm may stand here too, for every arm that does not say otherwise",
        (Kind("", "", tuple(top_words)),),
    )
    arm = Section(
        "arm",
        "one arm, below its name in arms; what it leaves out it takes from the same words at the top level",
        (Kind("", "", (_unset("preset", Preset), *_words(Arm))),),
    )
    described = {name: _section(name, fields[name].description or "", hints[name]) for name in ORDER}
    return {TOP: top, "arm": arm} | described


def rendering_sections() -> dict[str, Section]:
    """The same of a study of decoders (`kind: rendering`); names begin with rendering-."""
    hints = get_type_hints(RenderingStudy, include_extras=True) | get_type_hints(RenderingArm, include_extras=True)
    fields = RenderingStudy.model_fields | RenderingArm.model_fields
    short = _unset("members", Members)
    top = [one for word in _words(RenderingStudy) for one in ((word, short) if word.name == "seeds" else (word,))]
    found = [
        Section("rendering", "the top level of a file that begins with kind: rendering", (Kind("", "", tuple(top)),)),
        Section(
            "rendering-arm",
            "one arm of such a study; what it leaves out it takes from the same words at the top level",
            (Kind("", "", (_unset("preset", Preset), *_words(RenderingArm))),),
        ),
    ]
    for name in RENDERING_ORDER:
        section = _section(name, fields[name].description or "", hints[name])
        found.append(replace(section, name=f"rendering-{name}"))
    return {section.name: replace(section, kinds=tuple(_led(kind) for kind in section.kinds)) for section in found}


def _led(kind: Kind) -> Kind:
    """Its words leading to sections of this kind of study; generators and tokenizers are those of the other kind."""
    own = (*RENDERING_ORDER, "arm")
    return replace(
        kind,
        words=tuple(
            replace(word, leads_to=f"rendering-{word.leads_to}") if word.leads_to in own else word
            for word in kind.words
        ),
    )


def _unset(name: str, annotation: Any) -> Word:
    """A word that no settings class has."""
    schema = TypeAdapter(annotation).json_schema()
    return Word(name, _allowed(schema), None, schema["description"], optional=True)


def _section(name: str, about: str, annotation: Any) -> Section:
    kinds: list[Kind] = []
    for model in models_of(annotation):
        names = list(kinds_of([model]))
        if len(names) == 1:  # a class of its own: the kind is a heading, and what it says of itself stands below
            words = tuple(word for word in _words(model) if word.name != "kind")
            kinds.append(Kind(names[0], model.model_fields["kind"].description or "", words))
        else:
            kinds.append(Kind("", "", _words(model)))
    return Section(name, about, tuple(kinds))


def _words(model: type[BaseModel]) -> tuple[Word, ...]:
    hints = get_type_hints(model, include_extras=True)
    schemas = model.model_json_schema()["properties"]
    found = []
    for name, info in model.model_fields.items():
        inside = models_of(hints[name])
        if inside:
            kinds = list(kinds_of(inside))
            allowed, leads_to = f"a section{f', or a kind: {_either(kinds)}' if kinds else ''}", name
        elif schemas[name].get("type") == "object":  # only arms are found by names of the user's own
            allowed, leads_to = "a section for each name; at least 1", "arm"
        else:
            allowed, leads_to = _allowed(schemas[name]), ""
        default = None if info.is_required() else written(info.get_default(call_default_factory=True))
        found.append(Word(name, allowed, default, info.description or "", leads_to))
    # What every kind of a section shares comes from a base class, so it is listed first; a reader wants it last.
    own = set(model.__annotations__)
    return tuple(sorted(found, key=lambda word: word.name not in own))


def written(value: Any) -> str:
    """A value as it is written in a file; a section that is all defaults is {}, or its kind where kinds differ."""
    if isinstance(value, BaseModel):
        kinds = list(kinds_of([type(value)]))
        return kinds[0] if len(kinds) == 1 else "{}"
    if isinstance(value, str):
        return value or "''"
    return json.dumps(value)


_TYPES = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}


def _allowed(schema: Mapping[str, Any]) -> str:
    """A JSON schema in words: type and bounds, or the values."""
    if "anyOf" in schema:
        return "; or ".join("null" if one.get("type") == "null" else _allowed(one) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return _either(schema.get("enum") or [schema["const"]])
    if schema["type"] == "array":
        count = _between(schema.get("minItems"), schema.get("maxItems"))
        return f"list{f' of {count}' if count else ''}, each: {_allowed(schema['items'])}"
    if schema["type"] == "string":
        length = _between(schema.get("minLength"), schema.get("maxLength"))
        return f"text{f', {length} characters' if length else ''}"
    parts = [_TYPES[schema["type"]]]
    parts += [f"more than {_number(schema['exclusiveMinimum'])}"] if "exclusiveMinimum" in schema else []
    parts += [_between(schema.get("minimum"), schema.get("maximum"))]
    parts += [f"less than {_number(schema['exclusiveMaximum'])}"] if "exclusiveMaximum" in schema else []
    parts += [f"a multiple of {_number(schema['multipleOf'])}"] if "multipleOf" in schema else []
    return ", ".join(filter(None, parts))


def _between(low: float | None, high: float | None) -> str:
    if low is None:
        return "" if high is None else f"at most {_number(high)}"
    return f"at least {_number(low)}" if high is None else f"{_number(low)} to {_number(high)}"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _either(words: Iterable[Any]) -> str:
    *first, last = map(str, words)
    return f"{', '.join(first)} or {last}" if first else last


# --- for a terminal ---------------------------------------------------------------------------------------------------


def listing(name: str | None = None, width: int = 100) -> str:
    """The reference as plain text; of one section, if it is named."""
    known = sections() | rendering_sections()
    if name is not None and name not in known:
        raise UserError(f"unknown section {name!r}{nearest(name, list(known))}")
    chosen = known.values() if name is None else [known[name]]
    return "\n\n".join(_section_text(section, width) for section in chosen) + "\n"


def _section_text(section: Section, width: int) -> str:
    parts = [_fill(f"{section.name}: {section.about}", width, "", "  ")]
    for kind in section.kinds:
        heading = [_fill(f"kind {kind.name}: {kind.about}", width, "  ", "      ")] if kind.name else []
        parts.append("\n".join([*heading, *(_word_text(word, width) for word in kind.words)]))
    return "\n\n".join(parts) if section.kinds[0].name else "\n".join(parts)


def _word_text(word: Word, width: int) -> str:
    default = "" if word.default is None else f" {word.default}"
    must = " (must be written)" if word.required else ""
    return "\n".join(
        [
            _fill(f"{f'{word.name}:{default}':<26}  {word.allowed}{must}", width, "    ", " " * 32),
            _fill(word.description, width, "        ", "        "),
        ]
    )


def _fill(text: str, width: int, first: str, rest: str) -> str:
    return textwrap.fill(text, max(width, 50), initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


# --- for the page -----------------------------------------------------------------------------------------------------


def markdown() -> str:
    """The reference and the library as Markdown."""
    studies = [f"- `{name}`: {load_study(name).question}" for name in library()]
    blocks = ["## Studies in the library", "\n".join(studies), "## All words"]
    for section in (sections() | rendering_sections()).values():
        blocks += [f"### {section.name}", _sentence(section.about)]
        for kind in section.kinds:
            if kind.name:
                blocks += [f"#### {section.name}: {kind.name}", _sentence(kind.about)]
            blocks.append(_table(kind.words))
    return "\n\n".join(blocks) + "\n"


def _table(words: Iterable[Word]) -> str:
    rows = ["| word | default | allowed | meaning |", "|---|---|---|---|"]
    for word in words:
        name = f"[`{word.name}`](#{word.leads_to})" if word.leads_to else f"`{word.name}`"
        default = f"`{word.default}`" if word.default is not None else "must be written" if word.required else ""
        rows.append(f"| {name} | {default} | {_plain(word.allowed)} | {_plain(word.description)} |")
    return "\n".join(rows)


def _plain(text: str) -> str:
    """Text whose stars, bars and brackets Markdown must not take for its own."""
    for sign in "\\*|<[":
        text = text.replace(sign, f"\\{sign}")
    return text


def _sentence(text: str) -> str:
    return f"{_plain(text[:1].upper() + text[1:])}."


def renewed(page: str) -> str:
    """The page with everything below the mark written again."""
    introduction, mark, _ = page.partition(MARK)
    if not mark:
        raise UserError(f"the page lacks the line that says where the reference begins: {MARK}")
    return f"{introduction}{MARK}\n\n{markdown()}"


def main(arguments: list[str]) -> None:
    """Writes the page named, or prints the reference."""
    if not arguments:
        print(markdown(), end="")
    for name in arguments:
        path = Path(name)
        path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
