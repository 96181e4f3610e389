"""The words that every kind of study has."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

RESERVED = ("real", "reconstruction")  # names of pictures in the study's folder that are no arm's


def _plain_name(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9_-]{1,60}", name):
        raise ValueError(f"{name!r} is no name; use small letters, digits, _ and -")
    return name


def _arm_name(name: str) -> str:
    if name in RESERVED:
        raise ValueError(f"{name!r} cannot name an arm: the pictures of the data are called that")
    return _plain_name(name)


def _distinct(seeds: tuple[int, ...]) -> tuple[int, ...]:
    """The same seeds; refused if one is there twice."""
    twice = sorted({seed for seed in seeds if seeds.count(seed) > 1})
    if twice:
        raise ValueError(f"seed {twice[0]} is there twice; a repeated seed is the same member again, not more evidence")
    return seeds


ArmName = Annotated[str, AfterValidator(_arm_name)]
StudyName = Annotated[
    str,
    AfterValidator(_plain_name),
    Field(description="for tables and folders: small letters, digits, _ and -"),
]
Question = Annotated[str, Field(min_length=1, max_length=1000, description="what is asked, in a sentence")]
Limits = Annotated[str, Field(max_length=1000, description="what the study cannot show, said in its report")]
Seeds = Annotated[
    tuple[Annotated[int, Field(ge=0, lt=2**31)], ...],
    Field(min_length=1, max_length=1024, description="every arm is trained once with each: its members"),
    AfterValidator(_distinct),
]
