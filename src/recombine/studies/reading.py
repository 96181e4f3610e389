"""From a study file to a checked `Study`: every mistake is named at once, with its line and the nearest valid word.

The file is parsed to a tree that knows the line of each word, without turning text into Python values: the settings
classes do that, knowing what they want. So `1e-3` is a number where a number is wanted, `no` is an arm's name where a
name is wanted, and nothing in a file can be executed. Defaults at the top are merged into each arm, and the tree
remembers where everything was written, so that a mistake in a default is reported there and once.
"""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from recombine.errors import UserError

MOST_BYTES = 1_000_000  # a study file is a page of text; anything larger is some other file
MOST_DEEP = 20
MOST_SHOWN = 60  # mistakes of one file; some other kind of file has one in every line

S = TypeVar("S", bound=BaseModel)

# A word of the file that no settings class has: the study keeps the seeds that it stands for.
Members = Annotated[int, Field(ge=1, le=1024, description="short for seeds: 3 is [0, 1, 2]")]


# --- the tree: what is written, and where -----------------------------------------------------------------------------


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
        mistakes.add(line, f"tags such as {_show(raw.tag)} are not supported")
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
                mistakes.add(at, f"{_show(word)} is written twice in {where or 'the file'} (first in line {first})")
                continue
            lines[word] = at
            entries[word] = _from_yaml(value, at, _join(where, word), depth + 1, mistakes)
        return Node(entries, line, where)
    if isinstance(raw, yaml.SequenceNode):
        items = enumerate(raw.value)
        return Node(
            [_from_yaml(item, item.start_mark.line + 1, f"{where}[{i}]", depth + 1, mistakes) for i, item in items],
            line,
            where,
        )
    assert isinstance(raw, yaml.ScalarNode)  # aliases and everything else are gone by now
    return Node(_scalar(raw, line, where, mistakes), line, where)


def _scalar(raw: yaml.ScalarNode, line: int, where: str, mistakes: Mistakes) -> str | None:
    """The text of a scalar; None for nothing. `2e4` becomes 20000, so that it can be a whole number too."""
    text = str(raw.value)
    plain = raw.style is None
    if plain and text in ("", "~", "null", "Null", "NULL"):
        return None
    try:
        number = float(re.sub(r"\.(?=inf|nan)", "", text.lower()))  # YAML writes .inf and .nan
    except ValueError:
        return text
    if not math.isfinite(number):
        mistakes.add(line, f"{where} should be a finite number, not {_show(text)}")
        return None
    if plain and "e" in text.lower() and number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return text


def from_python(value: Any, mistakes: Mistakes, where: str = "") -> Node:
    """The tree of plain Python data, without lines."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, Mapping):
        entries = {str(word): from_python(child, mistakes, _join(where, str(word))) for word, child in value.items()}
        return Node(entries, None, where)
    if isinstance(value, list | tuple):
        return Node([from_python(item, mistakes, f"{where}[{i}]") for i, item in enumerate(value)], None, where)
    if isinstance(value, bool):  # as in a file, so that True is never taken for the number 1
        return Node(str(value).lower(), None, where)
    if isinstance(value, float) and not math.isfinite(value):
        mistakes.add(None, f"{where} should be a finite number, not {value}")
        return Node(None, None, where)
    return Node(value, None, where)


def _join(where: str, word: str) -> str:
    shown = word if re.fullmatch(r"[\w-]{1,40}", word, re.ASCII) else _show(word)
    return f"{where}.{shown}" if where else shown


def _show(value: Any) -> str:
    """A value in a sentence: quoted, on one line, and not too long."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# --- defaults and arms ------------------------------------------------------------------------------------------------


def spread(node: Node, kinds: Mapping[str, Any]) -> Node:
    """A plain word for a section that has kinds is short for {kind: word}."""
    if kinds and isinstance(node.value, str):
        return Node({"kind": Node(node.value, node.line, _join(node.where, "kind"))}, node.line, node.where)
    return node


def merge(default: Node, own: Node) -> Node:
    """`own` over `default`, word by word. Another `kind` than the default's inherits none of the default's words."""
    if not (isinstance(default.value, dict) and isinstance(own.value, dict)):
        return own
    if "kind" in default.value and "kind" in own.value and default.value["kind"].value != own.value["kind"].value:
        return own
    merged = dict(default.value)
    for word, child in own.value.items():
        merged[word] = merge(merged[word], child) if word in merged else child
    return Node(merged, own.line, own.where)


# --- what the settings classes want -----------------------------------------------------------------------------------


def models_of(annotation: Any) -> list[type[BaseModel]]:
    """The settings classes an annotation allows; none for plain values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    origin = get_origin(annotation)
    if origin is Annotated:
        return models_of(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return [model for choice in get_args(annotation) for model in models_of(choice)]
    return []


def kinds_of(models: Iterable[type[BaseModel]]) -> dict[str, type[BaseModel]]:
    """kind -> settings class, for sections that have kinds."""
    kinds: dict[str, type[BaseModel]] = {}
    for model in models:
        info = model.model_fields.get("kind")
        if info is not None and get_origin(info.annotation) is Literal:
            kinds |= {kind: model for kind in get_args(info.annotation)}
    return kinds


@dataclass
class _Checker:
    """Finds unknown and missing words by walking the tree and the settings classes side by side."""

    mistakes: Mistakes
    homes: dict[str, list[str]]  # word -> sections in which it would be right

    def section(self, node: Node, annotation: Any, partial: bool = False) -> None:
        """Checks the words of one section; `partial`: what is missing may still come from somewhere else."""
        models = models_of(annotation)
        if not models:
            return
        kinds = kinds_of(models)
        if not isinstance(node.value, dict):
            if node.value is None and any(choice is type(None) for choice in get_args(annotation)):
                return
            words = f" (or one of {', '.join(kinds)})" if kinds else ""
            self.mistakes.add(node.line, f"{node.where} should be a mapping of words{words}, not {_show(node.value)}")
            return
        model: type[BaseModel] | None = models[0] if len(models) == 1 else None
        if kinds and "kind" in node.value:
            kind = node.value["kind"]
            model = kinds.get(kind.value) if isinstance(kind.value, str) else None
            if model is None:
                hint = nearest(kind.value, list(kinds))
                self.mistakes.add(kind.line, f"unknown kind {_show(kind.value)} in {node.where}{hint}")
                return
        elif model is None:
            if not partial:
                self.mistakes.add(node.line, f"{node.where} lacks 'kind' (one of {', '.join(kinds)})")
            return
        others = {kind: set(other.model_fields) for kind, other in kinds.items() if other is not model}
        self.words(node, model, others, partial)

    def words(self, node: Node, model: type[BaseModel], others: Mapping[str, set[str]], partial: bool) -> None:
        """Unknown words, missing words, and the sections inside."""
        hints = get_type_hints(model, include_extras=True)
        meant: set[str] = set()
        for word, child in node.mapping.items():
            if word in model.model_fields:
                self.section(child, hints[word])
            else:
                meant |= self.unknown(word, child, list(model.model_fields), others)
        for word, info in model.model_fields.items():
            if info.is_required() and word not in node.mapping and word not in meant and not partial:
                self.mistakes.add(node.line, f"{node.where or 'the study'} lacks {word!r}{_about(info.description)}")

    def unknown(self, word: str, child: Node, valid: list[str], others: Mapping[str, set[str]]) -> set[str]:
        """Reports a word that does not belong; returns the word that was probably meant."""
        where = child.where.removesuffix(_join("", word)).removesuffix(".")  # as written: perhaps among the defaults
        having = [kind for kind, words in others.items() if word in words]
        homes = [home for home in self.homes.get(word, []) if home != where.rpartition(".")[2]]
        if having:
            hint = f"; it belongs to kind {' or '.join(having)}"
        elif homes:
            hint = f"; it belongs in {' or '.join(homes)}"
        else:
            hint = nearest(word, valid)
        self.mistakes.add(child.line, f"unknown word {_show(word)} in {where or 'the study'}{hint}")
        return set(difflib.get_close_matches(word.lower(), valid, 1))


def nearest(word: Any, valid: list[str]) -> str:
    """The end of a sentence about a wrong word: what was probably meant, and what is possible if that is short."""
    close = difflib.get_close_matches(word.lower(), valid, 1) if isinstance(word, str) else []
    meant = f"; did you mean {close[0]!r}?" if close else ""
    listed = f" (valid: {', '.join(valid)})" if len(valid) <= 8 or (not close and len(valid) <= 16) else ""
    return meant + listed


def _about(description: str | None) -> str:
    return f" ({description})" if description else ""


_SHOULD = {
    "int_parsing": "be a whole number",
    "int_type": "be a whole number",
    "int_from_float": "be a whole number",
    "int_parsing_size": "be a smaller number",
    "float_parsing": "be a number",
    "float_type": "be a number",
    "bool_parsing": "be true or false",
    "bool_type": "be true or false",
    "string_type": "be text",
    "tuple_type": "be a list",
    "list_type": "be a list",
    "dict_type": "be a mapping of words",
    "finite_number": "be a finite number",
}
_BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
    "multiple_of": ("a multiple of", "multiple_of"),
}
# What _Checker has reported already, in better words.
_KNOWN = {
    "extra_forbidden",
    "missing",
    "union_tag_invalid",
    "union_tag_not_found",
    "model_type",
    "model_attributes_type",
}


def _sentence(error: Mapping[str, Any], where: str) -> str:
    """A pydantic error in plain words."""
    kind, context = error["type"], error.get("ctx", {})
    ending = f", not {_show(error['input'])}"
    if kind in _SHOULD:
        return f"{where} should {_SHOULD[kind]}{ending}"
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        return f"{where} should be {words} {context[key]}{ending}"
    if kind == "literal_error":
        valid = re.findall(r"'([^']*)'", context["expected"])
        if isinstance(error["input"], str) and valid:
            return f"unknown word {_show(error['input'])} for {where}{nearest(error['input'], valid)}"
        return f"{where} should be {context['expected']}{ending}"
    if kind in ("too_short", "string_too_short"):
        return f"{where} should not be empty" if context["min_length"] == 1 else f"{where} is too short: {error['msg']}"
    if kind == "value_error":
        return f"{where}: {context['error']}"
    message = str(error["msg"]).replace("Input should", "should")
    return f"{where}: {message}{ending}"


def _validate(adapter: TypeAdapter[Any], node: Node, mistakes: Mistakes) -> Any:
    """The validated value, or None after its mistakes (one per word) were noted."""
    try:
        return adapter.validate_python(node.plain())
    except ValidationError as error:
        seen: set[str] = set()
        for one in error.errors(include_url=False):
            if one["type"] in _KNOWN or (one["type"] == "literal_error" and one["loc"][-1:] == ("kind",)):
                continue
            place = node.at(one["loc"])
            if place.where not in seen:
                mistakes.add(place.line, _sentence(one, place.where or "the study"))
            seen.add(place.where)
        return None


# --- the whole study --------------------------------------------------------------------------------------------------


def build_study(
    root: Node,
    model: type[S],
    mistakes: Mistakes,
    cross: Callable[[Mapping[str, Any]], Iterable[tuple[tuple[str, ...], str]]] | None = None,
) -> S:
    """Checks the whole tree against `model` (which has `seeds`, and `arms: dict[str, Arm]`) and builds it.

    `cross` names what is wrong between sections, as (path, sentence); it is given all parts that are right alone.
    """
    if not isinstance(root.value, dict):
        mistakes.add(root.line, f"a study file is a mapping of words, such as 'name: demo', not {_show(root.value)}")
        mistakes.raise_if_any()
    hints = get_type_hints(model, include_extras=True)
    name_hint, arm_model = _arms_hint(hints["arms"])
    arm_hints = get_type_hints(arm_model, include_extras=True)
    kinds = {word: kinds_of(models_of(hint)) for word, hint in (hints | arm_hints).items()}
    homes: dict[str, list[str]] = {}
    for word, hint in (hints | arm_hints).items():
        for inner in {inner for one in models_of(hint) for inner in one.model_fields} - {"kind"}:
            homes.setdefault(inner, []).append(word)
    checker = _Checker(mistakes, homes)

    top = {word: spread(child, kinds.get(word, {})) for word, child in root.mapping.items()}
    defaults = {word: child for word, child in top.items() if word in arm_model.model_fields}
    words = [*model.model_fields, *arm_model.model_fields, "members"]
    meant: set[str] = set()
    for word, child in top.items():
        if word not in words:
            meant |= checker.unknown(word, child, words, {})

    _read_members(top, mistakes)
    parts: dict[str, Any] = {}
    for word, info in model.model_fields.items():
        if word == "arms":
            continue
        if word in top:
            checker.section(top[word], hints[word])
            value = _validate(TypeAdapter(hints[word]), top[word], mistakes)
            if value is not None:
                parts[word] = value
        elif not info.is_required():
            parts[word] = info.get_default(call_default_factory=True)
        elif word not in meant:
            mistakes.add(root.line, f"the study lacks {word!r}{_about(info.description)}")

    for word, child in defaults.items():  # by themselves too: no arm may use them, and silent words mislead
        checker.section(child, arm_hints[word], partial=True)
        alone = Node({word: child}, child.line, "")
        _validate(TypeAdapter(arm_model), alone, mistakes)

    arm_nodes: dict[str, Node] = {}
    if "arms" in top:
        arm_nodes = _read_arms(top["arms"], arm_model, defaults, kinds, checker)
    elif "arms" not in meant:
        mistakes.add(root.line, "the study lacks 'arms' (what is compared: a name and its words for each)")
    arms = {}
    for name, node in arm_nodes.items():
        _validate(TypeAdapter(name_hint), Node(name, node.line, "arms"), mistakes)
        value = _validate(TypeAdapter(arm_model), node, mistakes)
        if value is not None:
            arms[name] = value
    for name, arm in arms.items():
        twin = next((other for other in arms if arms[other] == arm), name)
        if twin != name:
            mistakes.add(arm_nodes[name].line, f"arms.{name} is the same as arms.{twin}; change one, or leave it out")
    parts["arms"] = arms

    tree = Node(top | {"arms": Node(arm_nodes, root.line, "arms")}, root.line, "")
    for path, sentence in cross(parts) if cross else ():
        place = tree.at(path)
        mistakes.add(place.line, f"{place.where}: {sentence}" if place.where else sentence)
    mistakes.raise_if_any()
    return model.model_validate(parts)


def _arms_hint(hint: Any) -> tuple[Any, type[BaseModel]]:
    """The types of an arm's name and of an arm, from `dict[Name, Arm]`."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    name, arm = get_args(hint)
    return name, arm


def _read_members(top: dict[str, Node], mistakes: Mistakes) -> None:
    """`members: 3` is short for `seeds: [0, 1, 2]`."""
    members = top.get("members")
    if members is None:
        return
    if "seeds" in top:
        mistakes.add(members.line, "members and seeds say the same thing; write one of them")
        return
    count = _validate(TypeAdapter(Members), members, mistakes)
    if count is not None:
        top["seeds"] = Node([Node(i, members.line, "members") for i in range(count)], members.line, "members")


def _read_arms(
    node: Node,
    model: type[BaseModel],
    defaults: Mapping[str, Node],
    kinds: Mapping[str, Mapping[str, Any]],
    checker: _Checker,
) -> dict[str, Node]:
    """Each arm's own words over the defaults, with unknown and missing words reported."""
    mistakes = checker.mistakes
    if not isinstance(node.value, dict) or not node.value:
        mistakes.add(node.line, f"arms should be a mapping with at least one arm, not {_show(node.value or None)}")
        return {}
    arms = {}
    for name, own in node.value.items():
        if own.value is None:  # an arm that is nothing but the defaults
            own = Node({}, own.line, own.where)
        if not isinstance(own.value, dict):
            mistakes.add(own.line, f"{own.where} should be a mapping of words, not {_show(own.value)}")
            continue
        own = Node({word: spread(child, kinds.get(word, {})) for word, child in own.value.items()}, own.line, own.where)
        known = {word: child for word, child in defaults.items() if word in model.model_fields}
        arms[name] = merge(Node(known, own.line, own.where), own)
        checker.words(arms[name], model, {}, partial=False)
    return arms


# --- where study files come from --------------------------------------------------------------------------------------


def library() -> list[str]:
    """The names of the studies that come with the package."""
    folder = resources.files("recombine.studies") / "library"
    if not folder.is_dir():
        return []
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


def study_text(place: str) -> tuple[str, str]:
    """The text of a study and its name in messages: of a file, or of the library's study if `place` is a bare name."""
    path = Path(place)
    if path.suffix not in (".yaml", ".yml") and path.name == place and not path.is_file():
        names = library()
        if place in names:
            text = (resources.files("recombine.studies") / "library" / f"{place}.yaml").read_text(encoding="utf-8")
            return text, f"{place}.yaml"
        hint = nearest(place, names) or "; give the path of a study file"
        raise UserError(f"no study named {_show(place)} in the library{hint}")
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError as error:
        name = path.name.removesuffix(path.suffix)
        hint = f"; for the one in the library say {name}" if name in library() else ""
        raise UserError(f"there is no study file {place}{hint}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"cannot read the study file {place}: {reason}") from error
    if len(data) > MOST_BYTES:
        raise UserError(f"{place} is larger than {MOST_BYTES // 1_000_000} MB, so it is no study file")
    try:
        return data.decode("utf-8-sig"), place
    except UnicodeDecodeError as error:
        raise UserError(f"{place}:{data[: error.start].count(10) + 1}: not UTF-8 text") from error
