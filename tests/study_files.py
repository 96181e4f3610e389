"""Texts of study files that several tests change, and what is complained of in them."""

import pytest

from recombine.errors import UserError
from recombine.studies.spec import parse_study

GOOD = """\
name: demo
question: Can MaskGIT and DiT draw combinations they never saw?
world: {kind: shapes2d, image_size: 16}
split: hamming
tokenizer: {kind: vqvae, codes: 64, sees: all}
conditioning: quantized
training: {size: xs, steps: 2000, batch: 64}
judging: {samples: 64, evaluations: 6}
members: 3
arms:
  maskgit: {generator: maskgit}
  dit: {generator: {kind: dit, objective: flow}, training: {steps: 4000}}
"""


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def short(text: str) -> str:
    """A study of four lines, and what follows in line 5."""
    return f"name: x\nquestion: why\nworld: shapes2d\nsplit: hamming\n{text}"


def mistakes(text: str) -> list[str]:
    """The lines of the complaint about a text, without the heading."""
    with pytest.raises(UserError) as caught:
        parse_study(text, "study.yaml")
    lines = str(caught.value).splitlines()
    return [line.strip() for line in (lines[1:] if len(lines) > 1 else lines)]
