"""E3, how level-2 emerges: every word on every rival can be reached, by tables planted to reach it."""

from pathlib import Path

import pytest

from planted import OBJECTIVES
from planted_cells import Draw, far, plant_cells
from planted_explanations import GRADUAL, RISE, SHARP, asked, rises, tokenizers, words
from recombine.claims.why import rise as why_rise

SHARPNESS, SPREAD = why_rise.SHARPNESS, why_rise.SPREAD
TOGETHER, FIRST = why_rise.TOGETHER, why_rise.WRONG_FIRST
RISES: dict[str, tuple[Draw, Draw, dict[str, str]]] = {
    "each VAE seed is gradual": (
        GRADUAL,
        SHARP,
        {SHARPNESS: "supported", SPREAD: "contradicted", TOGETHER: "contradicted", FIRST: "contradicted"},
    ),
    "only the mean is gradual": (
        rises(0.5, 0.04, scatter=0.3),
        rises(0.5, 0.04),
        {SHARPNESS: "contradicted", SPREAD: "supported", TOGETHER: "contradicted", FIRST: "contradicted"},
    ),
    "with the whole model": (
        rises(0.21, 0.1),
        rises(0.21, 0.1),
        {SHARPNESS: "contradicted", SPREAD: "contradicted", TOGETHER: "supported", FIRST: "contradicted"},
    ),
    "valid pictures first": (
        rises(0.6, 0.1, valid=0.2),
        rises(0.6, 0.1, valid=0.2),
        {SHARPNESS: "contradicted", SPREAD: "contradicted", TOGETHER: "contradicted", FIRST: "supported"},
    ),
}


@pytest.mark.parametrize("case", RISES)
def test_e3(tmp_path: Path, case: str) -> None:
    vae, vq, expected = RISES[case]
    found = asked(RISE, tokenizers(tmp_path, vae, vq))
    assert words(found) == expected, [one.sentence for one in found.finding.outcomes] if found.finding else ""


def test_e3_cannot_tell_from_few_evaluations(tmp_path: Path) -> None:
    vae, vq, _ = RISES["with the whole model"]
    found = words(asked(RISE, tokenizers(tmp_path, vae, vq, evaluations=5)))
    assert found[SHARPNESS] == "cannot tell" and found[TOGETHER] == "cannot tell"


def test_e3_needs_seeds_that_compose(tmp_path: Path) -> None:
    weak: Draw = lambda code, time, seed: {"joint": 0.3 if far(code) else 0.95}  # noqa: E731
    found = asked(RISE, tokenizers(tmp_path, RISES["with the whole model"][0], weak))
    assert found.word == "untested" and "0 of 8 seeds compose" in found.text


def test_e3_falls_back_on_another_study(tmp_path: Path) -> None:
    vae, vq, expected = RISES["each VAE seed is gradual"]
    arms = {"dit-vq": vq, "dit-vae": vae}
    found = asked(RISE, plant_cells(tmp_path, OBJECTIVES, arms, evaluations=50))
    assert words(found) == expected and found.finding is not None and found.finding.study.name == "objectives"
