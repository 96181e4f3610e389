"""Names and seeds, as every kind of study has them."""

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


def distinct(seeds: tuple[int, ...]) -> tuple[int, ...]:
    """The same seeds; refused if one is there twice."""
    twice = sorted({seed for seed in seeds if seeds.count(seed) > 1})
    if twice:
        raise ValueError(f"seed {twice[0]} is there twice; a repeated seed is the same member again, not more evidence")
    return seeds


Name = Annotated[str, AfterValidator(_plain_name)]
ArmName = Annotated[str, AfterValidator(_arm_name)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
