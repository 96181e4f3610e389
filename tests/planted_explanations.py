"""Arms and studies that make an explanation's answer known, for tests of E1 to E3 (nothing here is a result)."""

from pathlib import Path
from typing import Any

from planted import CONDITIONING, TOKENIZERS
from planted_cells import FACTORS, WITHHELD, Draw, Shares, far, lean, plant_cells, ramp
from recombine.claims.ledger import open_studies
from recombine.claims.why import dropout as why_dropout
from recombine.claims.why import peak as why_peak
from recombine.claims.why import rise as why_rise
from recombine.claims.why.answers import Answer, Explanation
from recombine.claims.why.explanations import ask_why

PEAK, DROPOUT, RISE = why_peak.EXPLANATION, why_dropout.EXPLANATION, why_rise.EXPLANATION


def asked(explanation: Explanation, *folders: Path) -> Answer:
    return ask_why(explanation, open_studies(folders))


def words(answer: Answer) -> dict[str, str]:
    assert answer.finding is not None, answer.evidence
    return {one.rival: one.word for one in answer.finding.outcomes}


# E1


def maskgit(**level_2: Any) -> Draw:
    """A MaskGIT that learns what it is trained on; of level-2 each share goes from the first number to the second."""

    def draw(code: str, time: float, seed: int) -> Shares:
        if not far(code):
            return {"valid": ramp(time, 0.05, 0.3), "named": 1.0 if time > 0.3 else level_2.get("others", 1.0)}
        there = {name: ends for name, ends in level_2.items() if name != "others"}
        return {name: a + (b - a) * ramp(time, 0.3, 0.6) + 0.02 * lean(seed, name) for name, (a, b) in there.items()}

    return draw


NOT_REAL = maskgit(colour=(0.9, 0.3), valid=(0.2, 0.2), joint=(0.17, 0.03))  # a peak of pictures that are not valid
FALLS = maskgit(colour=(0.8, 0.2), valid=(0.9, 0.9), joint=(0.75, 0.15))
STEADY = maskgit(colour=(0.3, 0.3), valid=(0.2, 0.2), joint=(0.03, 0.03))
UNLEARNED: Draw = lambda code, time, seed: {"valid": 0.4}  # noqa: E731 (has not learned what it was trained on)


# E2


def dropout(*lost: str, by: str = "shape", to: float = 0.03, valid: float = 1.0) -> Draw:
    """An arm that loses a factor in these compositions from half of the training on, or validity."""

    def draw(code: str, time: float, seed: int) -> Shares:
        gone = ramp(time, 0.5, 0.7) if code in lost else 0.0
        up = ramp(time, 0, 0.2)
        late_valid = 1 - (1 - valid) * gone
        return {by: 1 - (1 - to) * gone + 0.01 * lean(seed, by), "valid": min(up, late_valid)}

    return draw


CELLS = ("101", "110", "111")
KEEPS, LOSES = dropout(), dropout(*CELLS)


def conditioning(folder: Path, **arms: Draw) -> Path:
    every = {"full": KEEPS, "full-dropout": KEEPS, "quantized": KEEPS, "quantized-dropout": LOSES}
    named = {name.replace("_", "-"): draw for name, draw in arms.items()}
    return plant_cells(folder / "conditioning", CONDITIONING, every | named)


def withheld(folder: Path, **arms: Draw) -> Path:
    every = {f"{name}-withheld": arms.get(name, KEEPS) for name in FACTORS}
    return plant_cells(folder / "withheld", WITHHELD, every)


# E3


def rises(when: float, wide: float, scatter: float = 0.0, valid: float | None = None) -> Draw:
    """Level-2 reaches half of its end at `when`, within `wide`, seeds up to `scatter` apart; it is valid from `valid`
    (the same where not given). What is trained, and level-1, comes at 0.2."""

    def draw(code: str, time: float, seed: int) -> Shares:
        middle = when + scatter * (seed - 3.5) / 3.5
        if not far(code):
            return {"valid": ramp(time, 0.15, 0.25)}
        up = ramp(time, middle - wide / 2, middle + wide / 2)
        return {
            "joint": 0.9 * up,
            "named": up,
            "valid": 0.95 * (up if valid is None else ramp(time, valid, valid + 0.05)),
        }

    return draw


GRADUAL, SHARP = rises(0.45, 0.6), rises(0.45, 0.04)


def tokenizers(folder: Path, vae: Draw, vq: Draw, evaluations: int = 50) -> Path:
    return plant_cells(folder / "tokenizers", TOKENIZERS, {"vq": vq, "vae": vae}, evaluations=evaluations)
