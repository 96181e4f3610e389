"""From a study file to a checked `Study`: every mistake is named at once, with its line and the nearest valid word.

Defaults at the top of the file are merged into each arm, under its own words, or a preset's words in their stead; the
tree remembers where everything was written, so that a mistake in a default is reported there and once.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, TypeAdapter

from recombine.studies.checking import Checker, about, kinds_of, models_of, nearest, validate
from recombine.studies.sources import library, study_text
from recombine.studies.tree import Mistakes, Node, join, parse, show

S = TypeVar("S", bound=BaseModel)

# Words of the file that no settings class has: the study keeps the seeds and the settings that they stand for.
Members = Annotated[int, Field(ge=1, le=1024, description="short for seeds: 3 is [0, 1, 2]")]
Preset = Annotated[str, Field(description="an arm of a library study, as STUDY/ARM, whose words this arm begins with")]


def spread(node: Node, kinds: Mapping[str, Any]) -> Node:
    """A plain word for a section that has kinds is short for {kind: word}."""
    if kinds and isinstance(node.value, str):
        return Node({"kind": Node(node.value, node.line, join(node.where, "kind"))}, node.line, node.where)
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


def build_study(
    root: Node,
    model: type[S],
    mistakes: Mistakes,
    cross: Callable[[Mapping[str, Any]], Iterable[tuple[tuple[str, ...], str]]] | None = None,
) -> S:
    """Checks the whole tree against `model` (which has `seeds`, and `arms: dict[str, Arm]`) and builds it.

    `cross` names what is wrong between sections, as (path, sentence); it is given all parts that are right alone. What
    several arms have from the top of the file is said once, with their names.
    """
    if not isinstance(root.value, dict):
        mistakes.add(root.line, f"a study file is a mapping of words, such as 'name: demo', not {show(root.value)}")
        mistakes.raise_if_any()
    hints = get_type_hints(model, include_extras=True)
    name_hint, arm_model = _arms_hint(hints["arms"])
    arm_hints = get_type_hints(arm_model, include_extras=True)
    kinds = {word: kinds_of(models_of(hint)) for word, hint in (hints | arm_hints).items()}
    homes: dict[str, list[str]] = {}
    for word, hint in (hints | arm_hints).items():
        for inner in {inner for one in models_of(hint) for inner in one.model_fields} - {"kind"}:
            homes.setdefault(inner, []).append(word)
    for word in [*arm_model.model_fields, "preset"]:
        homes.setdefault(word, []).append("an arm")
    checker = Checker(mistakes, homes)

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
            value = validate(TypeAdapter(hints[word]), top[word], mistakes)
            if value is not None:
                parts[word] = value
        elif not info.is_required():
            parts[word] = info.get_default(call_default_factory=True)
        elif word not in meant:
            mistakes.add(root.line, f"the study lacks {word!r}{about(info.description)}")

    for word, child in defaults.items():  # by themselves too: no arm may use them, and silent words mislead
        checker.section(child, arm_hints[word], partial=True)
        alone = Node({word: child}, child.line, "")
        validate(TypeAdapter(arm_model), alone, mistakes)

    arm_nodes: dict[str, Node] = {}
    if "arms" in top:
        kind = top["kind"].value if "kind" in top else None
        arm_nodes = _read_arms(top["arms"], arm_model, defaults, kinds, checker, kind)
    elif "arms" not in meant:
        mistakes.add(root.line, "the study lacks 'arms' (what is compared: a name and its words for each)")
    arms = {}
    for name, node in arm_nodes.items():
        validate(TypeAdapter(name_hint), Node(name, node.line, "arms"), mistakes)
        value = validate(TypeAdapter(arm_model), node, mistakes)
        if value is not None:
            arms[name] = value
    for name, arm in arms.items():
        twin = next((other for other in arms if arms[other] == arm), name)
        if twin != name:
            mistakes.add(arm_nodes[name].line, f"arms.{name} is the same as arms.{twin}; change one, or leave it out")
    parts["arms"] = arms

    tree = Node(top | {"arms": Node(arm_nodes, root.line, "arms")}, root.line, "")
    met: dict[tuple[int | None, str], list[str]] = {}  # line and text: arms that have it from the top level
    for path, sentence in cross(parts) if cross else ():
        place = tree.at(path)
        text = f"{place.where}: {sentence}" if place.where else sentence
        inherited = path[0] == "arms" and not place.where.startswith("arms.")
        met.setdefault((place.line, text), []).extend(path[1:2] if inherited else ())
    for (line, text), names in met.items():
        of = dict.fromkeys(names)
        mistakes.add(line, f"{text} (arm{'s' * (len(of) > 1)} {', '.join(of)})" if of else text)
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
    count = validate(TypeAdapter(Members), members, mistakes)
    if count is not None:
        top["seeds"] = Node([Node(i, members.line, "members") for i in range(count)], members.line, "members")


def _read_arms(
    node: Node,
    model: type[BaseModel],
    defaults: Mapping[str, Node],
    kinds: Mapping[str, Mapping[str, Any]],
    checker: Checker,
    kind: str | None,
) -> dict[str, Node]:
    """Each arm's own words over the defaults, with unknown and missing words reported."""
    mistakes = checker.mistakes
    if not isinstance(node.value, dict) or not node.value:
        mistakes.add(node.line, f"arms should be a mapping with at least one arm, not {show(node.value or None)}")
        return {}
    arms = {}
    for name, own in node.value.items():
        if own.value is None:  # an arm that is nothing but the defaults
            own = Node({}, own.line, own.where)
        if not isinstance(own.value, dict):
            mistakes.add(own.line, f"{own.where} should be a mapping of words, not {show(own.value)}")
            continue
        own = Node({word: spread(child, kinds.get(word, {})) for word, child in own.value.items()}, own.line, own.where)
        known = {word: child for word, child in defaults.items() if word in model.model_fields}
        below: Node | None = Node(known, own.line, own.where)
        named = own.value.pop("preset", None)
        if named is not None:  # instead of the defaults: what is as published must not depend on this file
            below = _preset(named, model, kinds, mistakes, kind)
        arms[name] = own if below is None else merge(below, own)
        checker.words(arms[name], model, {}, partial=below is None)
        if named is not None and below is None:  # its own words are checked; a word too many keeps it from being built
            own.value["preset"] = named
    return arms


def _preset(
    word: Node, model: type[BaseModel], kinds: Mapping[str, Mapping[str, Any]], mistakes: Mistakes, kind: str | None
) -> Node | None:
    """The arm of a library study that `preset: STUDY/ARM` names, with that study's defaults under its own words.

    Whatever is wrong with what comes from there is reported at the word itself.
    """
    study, _, arm = word.value.partition("/") if isinstance(word.value, str) else ("", "", "")
    if study not in library():
        hint = nearest(study, library())
        mistakes.add(word.line, f"{word.where} should be STUDY/ARM of the library, not {show(word.value)}{hint}")
        return None
    top = parse(study_text(study)[0], Mistakes(study)).mapping
    if ("kind" in top) != (kind is not None):  # there are two kinds of study, and arms of one mean nothing in the other
        of = {False: "of generators", True: "of decoders (kind: rendering)"}
        which = f"the study {study} is {of['kind' in top]}, and this one {of[kind is not None]}"
        mistakes.add(word.line, f"{word.where}: {which}; name an arm of a study of the same kind")
        return None
    arms = top["arms"].mapping
    if arm not in arms:
        mistakes.add(word.line, f"{word.where}: {study} has no arm {show(arm)}{nearest(arm, list(arms))}")
        return None

    def section(words: Mapping[str, Node]) -> Node:
        fields = {w: spread(child, kinds.get(w, {})) for w, child in words.items() if w in model.model_fields}
        return Node(fields, word.line, word.where)

    return _moved(merge(section(top), section(arms[arm].mapping)), word)


def _moved(node: Node, to: Node) -> Node:
    """The same values, as if written where `to` is."""
    value = node.value
    if isinstance(value, dict):
        value = {word: _moved(child, to) for word, child in value.items()}
    elif isinstance(value, list):
        value = [_moved(child, to) for child in value]
    return Node(value, to.line, to.where)
