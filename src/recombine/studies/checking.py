"""Checks a tree against the settings classes: unknown and missing words, wrong values, each as one sentence."""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError

from recombine.studies.tree import Mistakes, Node, join, show

MOST_LISTED = 64  # words at the end of a sentence, where none of them is near the wrong one


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
class Checker:
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
            self.mistakes.add(node.line, f"{node.where} should be a mapping of words{words}, not {show(node.value)}")
            return
        model: type[BaseModel] | None = models[0] if len(models) == 1 else None
        if kinds and "kind" in node.value:
            kind = node.value["kind"]
            model = kinds.get(kind.value) if isinstance(kind.value, str) else None
            if model is None:
                hint = nearest(kind.value, list(kinds))
                self.mistakes.add(kind.line, f"unknown kind {show(kind.value)} in {node.where}{hint}")
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
                self.mistakes.add(node.line, f"{node.where or 'the study'} lacks {word!r}{about(info.description)}")

    def unknown(self, word: str, child: Node, valid: list[str], others: Mapping[str, set[str]]) -> set[str]:
        """Reports a word that does not belong; returns the word that was probably meant."""
        where = child.where.removesuffix(join("", word)).removesuffix(".")  # as written: perhaps among the defaults
        having = [kind for kind, words in others.items() if word in words]
        homes = [home for home in self.homes.get(word, []) if home != where.rpartition(".")[2]]
        if having:
            hint = f"; it belongs to kind {' or '.join(having)}"
        elif homes:
            hint = f"; it belongs in {' or '.join(homes)}"
        else:
            hint = nearest(word, valid)
        self.mistakes.add(child.line, f"unknown word {show(word)} in {where or 'the study'}{hint}")
        return set(difflib.get_close_matches(word.lower(), valid, 1))


def nearest(word: Any, valid: list[str]) -> str:
    """The end of a sentence about a wrong word: what was probably meant; what is possible if that is short, or if no
    word is near."""
    close = difflib.get_close_matches(word.lower(), valid, 1) if isinstance(word, str) else []
    meant = f"; did you mean {close[0]!r}?" if close else ""
    listed = f" (valid: {', '.join(valid)})" if len(valid) <= 8 or (not close and len(valid) <= MOST_LISTED) else ""
    return meant + listed


def about(description: str | None) -> str:
    return f" ({description})" if description else ""


_SHOULD = {
    "int_parsing": "be a whole number",
    "int_type": "be a whole number",
    "int_from_float": "be a whole number",
    "int_parsing_size": "be a smaller number",
    "float_parsing": "be a finite number",  # as YAML's .inf is none
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
# What Checker has reported already, in better words.
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
    ending = f", not {show(error['input'])}"
    if kind in _SHOULD:
        return f"{where} should {_SHOULD[kind]}{ending}"
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        return f"{where} should be {words} {context[key]}{ending}"
    if kind == "literal_error":
        valid = re.findall(r"'([^']*)'", context["expected"])
        if isinstance(error["input"], str) and valid:
            return f"unknown word {show(error['input'])} for {where}{nearest(error['input'], valid)}"
        return f"{where} should be {context['expected']}{ending}"
    if kind in ("too_short", "string_too_short"):
        return f"{where} should not be empty" if context["min_length"] == 1 else f"{where} is too short: {error['msg']}"
    if kind == "value_error":
        return f"{where}: {context['error']}"
    message = str(error["msg"]).replace("Input should", "should")
    return f"{where}: {message}{ending}"


def validate(adapter: TypeAdapter[Any], node: Node, mistakes: Mistakes) -> Any:
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
