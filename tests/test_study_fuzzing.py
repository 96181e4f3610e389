"""Whatever is written in a study file gives a study or a complaint in words."""

import contextlib
import random
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recombine.errors import UserError
from recombine.studies.spec import Study, make_study, parse_study
from study_files import GOOD

FUZZ = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def study_or_complaint(text: str) -> None:
    try:
        assert isinstance(parse_study(text, "study.yaml"), Study)
    except UserError as error:
        assert str(error).encode()


@FUZZ
@given(st.text())
def test_random_text_gives_a_study_or_a_complaint(text: str) -> None:
    study_or_complaint(text)


YAMLISH = st.text(alphabet="abk: {}[],-\n\"'#&*!|>%@`?~0123456789.eE+_\t\\", max_size=60)


@FUZZ
@given(YAMLISH, st.integers(0, len(GOOD)), st.integers(0, 20))
def test_random_edits_of_a_study_give_a_study_or_a_complaint(piece: str, at: int, drop: int) -> None:
    study_or_complaint(GOOD[:at] + piece + GOOD[at + drop :])


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["dit", "vae", "hamming", "kind"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(deep for key, child in inside for deep in places(child, (*path, key)))]


@FUZZ
@given(VALUES, st.integers(0, 10**6))
def test_a_wrong_value_anywhere_gives_a_study_or_a_complaint(value: Any, seed: int) -> None:
    words = yaml.safe_load(GOOD)
    *path, last = random.Random(seed).choice(places(words)[1:])
    inner = words
    for key in path:
        inner = inner[key]
    inner[last] = value
    study_or_complaint(yaml.safe_dump(words, allow_unicode=True))
    with contextlib.suppress(UserError):
        make_study(words)
