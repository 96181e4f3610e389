"""A study file as a tree that knows the line of every word, and the list of what is wrong in it.

Text is not turned into Python values here: the settings classes do that, knowing what they want. So `1e-3` is a number
where a number is wanted, `no` is an arm's name where a name is wanted, and nothing in a file can be executed.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from pydantic import BaseModel

from recombine.errors import UserError

MOST_DEEP = 20
MOST_SHOWN = 60  # mistakes of one file; some other kind of file has one in every line


@dataclass(frozen=True)
class Node:
    """One value of the file: text, nothing (None), a mapping or a list; with its line and its path as written."""

    value: Any  # str | None | dict[str, Node] | list[Node]; any plain value when the study came from Python
    line: int | None
    where: str

    @property
    def mapping(self) -> "dict[str, Node]":
        """The entries of a mapping; empty for anything else."""
        return self.value if isinstance(self.value, dict) else {}

    def plain(self) -> Any:
        """The value without lines, for the settings classes."""
        if isinstance(self.value, dict):
            return {word: child.plain() for word, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    def at(self, path: Iterable[Any]) -> "Node":
        """The node nearest to a path; steps that are not in the file (defaults, the name of a kind) are passed over."""
        node = self
        for step in path:
            inside = node.value if isinstance(node.value, dict) else {}
            if isinstance(node.value, list):
                inside = dict(enumerate(node.value))
            node = inside.get(step, node)
        return node


@dataclass
class Mistakes:
    """What is wrong so far; the same mistake met twice (a default used by two arms) counts once."""

    source: str
    found: dict[tuple[int, str], None] = field(default_factory=dict)

    def add(self, line: int | None, text: str) -> None:
        self.found[(line or 0, text)] = None

    def raise_if_any(self) -> None:
        lines = [f"{self.source}{f':{line}' if line else ''}: {text}" for line, text in sorted(self.found)]
        if len(lines) == 1:
            raise UserError(lines[0])
        if lines:
            shown = lines if len(lines) <= MOST_SHOWN else [*lines[:MOST_SHOWN], "and so on: is this a study file?"]
            raise UserError("\n  ".join([f"{len(lines)} mistakes in the study file, nothing was run:", *shown]))


class _Loader(yaml.BaseLoader):
    """Parses to nodes of plain text. Aliases are refused: they can make a small file huge, and a word stand nowhere."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            reason = "aliases (*name) are not supported; write the words out"
            raise yaml.composer.ComposerError(None, None, reason, self.peek_event().start_mark)
        return super().compose_node(parent, index)


def parse(text: str, mistakes: Mistakes) -> Node:
    """The tree of a YAML text; syntax errors stop at once, since what follows them cannot be trusted."""
    try:
        root = _Loader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        mistakes.add(mark.line + 1 if mark else None, f"not YAML: {error.problem or error.context}")
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        reason = getattr(error, "reason", None) or "it cannot be parsed"
        mistakes.add(None, f"not YAML: {reason}")
    mistakes.raise_if_any()
    if root is None:
        return Node(None, 1, "")
    return _from_yaml(root, root.start_mark.line + 1, "", 0, mistakes)


def _from_yaml(raw: yaml.Node, line: int, where: str, depth: int, mistakes: Mistakes) -> Node:
    if not str(raw.tag).startswith("tag:yaml.org,2002:") or "python" in str(raw.tag):
        mistakes.add(line, f"tags such as {show(raw.tag)} are not supported")
    if depth > MOST_DEEP:
        mistakes.add(line, f"nested more than {MOST_DEEP} deep")
        return Node(None, line, where)
    if isinstance(raw, yaml.MappingNode):
        entries: dict[str, Node] = {}
        lines: dict[str, int] = {}
        for key, value in raw.value:
            at = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                mistakes.add(at, f"a word is expected before ':' in {where or 'the file'}, not a list or mapping")
                continue
            word = key.value
            if word in entries:
                first = lines[word]
                mistakes.add(at, f"{show(word)} is written twice in {where or 'the file'} (first in line {first})")
                continue
            lines[word] = at
            entries[word] = _from_yaml(value, at, join(where, word), depth + 1, mistakes)
        return Node(entries, line, where)
    if isinstance(raw, yaml.SequenceNode):
        items = enumerate(raw.value)
        return Node(
            [_from_yaml(item, item.start_mark.line + 1, f"{where}[{i}]", depth + 1, mistakes) for i, item in items],
            line,
            where,
        )
    assert isinstance(raw, yaml.ScalarNode)  # aliases and everything else are gone by now
    return Node(_scalar(raw), line, where)


def _scalar(raw: yaml.ScalarNode) -> str | None:
    """The text of a scalar; None for nothing. `2e4` becomes 20000, so that it can be a whole number too."""
    text = str(raw.value)
    plain = raw.style is None
    if plain and text in ("", "~", "null", "Null", "NULL"):
        return None
    try:
        number = float(text)
    except ValueError:
        return text
    if plain and "e" in text.lower() and number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return text


def from_python(value: Any, mistakes: Mistakes, where: str = "") -> Node:
    """The tree of plain Python data, without lines."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, Mapping):
        entries = {str(word): from_python(child, mistakes, join(where, str(word))) for word, child in value.items()}
        return Node(entries, None, where)
    if isinstance(value, list | tuple):
        return Node([from_python(item, mistakes, f"{where}[{i}]") for i, item in enumerate(value)], None, where)
    if isinstance(value, bool):  # as in a file, so that True is never taken for the number 1
        return Node(str(value).lower(), None, where)
    return Node(value, None, where)


def join(where: str, word: str) -> str:
    shown = word if re.fullmatch(r"[\w-]{1,40}", word, re.ASCII) else show(word)
    return f"{where}.{shown}" if where else shown


def show(value: Any) -> str:
    """A value in a sentence: quoted, on one line, and not too long."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
