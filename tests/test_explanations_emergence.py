"""E3 on the study emergence: GIVT where there is no DiT on both tokens, and seeds that end below half."""

from pathlib import Path

import numpy as np
import pytest
import torch

from planted import OBJECTIVES, TOKENIZERS, library, study_of
from planted_cells import Draw, Shares, far, plant_cells
from planted_explanations import GRADUAL, RISE, SHARP, asked, rises, tokenizers, words
from recombine.claims import lookup, tokenizer
from recombine.claims.ledger import open_studies
from recombine.claims.tables import Curve, Measure
from recombine.claims.verdicts import Untested
from recombine.claims.why import rise
from recombine.claims.why.answers import Dots, Lines, NotKnown
from recombine.claims.why.figures import draw_answer
from recombine.claims.why.rise_bounds import own_widths
from recombine.claims.why.rise_seeds import RISES
from recombine.report.words import percent
from recombine.studies.reuse import _recipes
from recombine.studies.stages import open_setting
from recombine.studies.store import Store

VAE_TOKENS = {"kind": "vae", "factor": 4, "channels": 16}
BOTH = study_of(
    "objectives",
    {
        "givt-vq": {"generator": "givt"},
        "givt-vae": {"generator": "givt", "tokenizer": VAE_TOKENS},
        "dit-vq": {"generator": "dit"},
        "dit-vae": {"generator": "dit", "tokenizer": VAE_TOKENS},
    },
)


def emergence(folder: Path, vae: Draw, vq: Draw) -> Path:
    return plant_cells(folder / "emergence", library("emergence"), {"vq": vq, "vae": vae}, evaluations=50)


def ending(draw: Draw, end: float, low: int = 0) -> Draw:
    """The same rise to another end, right and valid; the first `low` seeds to a twentieth. The probe names the same."""

    def drawn(code: str, time: float, seed: int) -> Shares:
        shares = draw(code, time, seed)
        if not far(code):
            return shares
        own = 0.05 if seed < low else end
        return shares | {"joint": shares["joint"] / 0.9 * own, "valid": shares["valid"] / 0.95 * own}

    return drawn


# Whose rise


def test_e3_takes_givt_where_there_is_no_dit_and_says_so(tmp_path: Path) -> None:
    found = asked(RISE, emergence(tmp_path, GRADUAL, SHARP))
    assert found.finding is not None and words(found)[rise.SHARPNESS] == "supported"
    assert found.finding.arms == {"VAE": "vae", "VQ-VAE": "vq"}
    assert found.text.startswith("With GIVT: each single seed rises more gradually on VAE tokens")
    assert "The generator is GIVT: the published curves, and C2, are of DiT." in found.limits
    titles = [panel.title for panel in found.finding.panels if isinstance(panel, Lines)]
    assert titles == ["Every seed, GIVT on VAE", "Every seed, GIVT on VQ-VAE"]
    assert draw_answer(found, tmp_path / "E3.png").stat().st_size > 10_000


def test_e3_prefers_dit(tmp_path: Path) -> None:
    draws = {"givt-vq": GRADUAL, "givt-vae": SHARP, "dit-vq": SHARP, "dit-vae": GRADUAL}
    found = asked(RISE, plant_cells(tmp_path, BOTH, draws, evaluations=50))
    assert found.finding is not None and found.finding.arms == {"VAE": "dit-vae", "VQ-VAE": "dit-vq"}
    assert words(found)[rise.SHARPNESS] == "supported"
    assert found.text.startswith("With DiT: each") and "GIVT" not in " ".join([*found.limits, *found.evidence])


def test_e3_takes_no_generator_on_one_kind_of_tokens(tmp_path: Path) -> None:
    """Neither a pair of two generators."""
    draws = {"givt": SHARP, "dit-vae": GRADUAL}
    found = asked(RISE, plant_cells(tmp_path, OBJECTIVES, draws, evaluations=50))
    assert found.word == "untested" and "no arm for VQ-VAE" in found.text


def test_c2_stays_with_dit(tmp_path: Path) -> None:
    studies = open_studies([emergence(tmp_path, GRADUAL, SHARP)])
    with pytest.raises(Untested, match="no arm for VAE and VQ-VAE"):
        tokenizer.judge(studies["emergence"], studies, Measure())
    assert "emergence" not in lookup.STUDIES["C2"]


def test_e3_asks_emergence_first(tmp_path: Path) -> None:
    found = asked(RISE, tokenizers(tmp_path, SHARP, SHARP), emergence(tmp_path, GRADUAL, SHARP))
    assert found.to_json()["study"] == "emergence"
    assert any("The same test on the study tokenizers" in note for note in found.evidence)


def test_e3_says_once_what_the_same_runs_do_not_show(tmp_path: Path) -> None:
    """Of a study that took its arms over from another there is nothing new to say."""
    early: Draw = lambda code, time, seed: {"named": 0.9, "joint": 0.01} if far(code) else {}  # noqa: E731
    long = TOKENIZERS.model_copy(update={"name": "objectives-long"})
    folders = [
        plant_cells(tmp_path / study.name, study, {"vq": early, "vae": early}, evaluations=50)
        for study in (TOKENIZERS, long)
    ]
    found = asked(RISE, *folders)
    assert (
        found.text.startswith("With DiT in the study tokenizers 0 of 8 seeds") and "objectives-long" not in found.text
    )


def test_the_arm_on_vq_tokens_is_that_of_objectives_long(tmp_path: Path) -> None:
    """So that it is trained once: the same recipe, seeds and judge and all."""
    device = torch.device("cuda")

    def recipes(name: str) -> dict[str, dict[str, object]]:
        return _recipes(open_setting(library(name), Store(tmp_path), device), lambda _: device)

    assert recipes("emergence")["vq"] == recipes("objectives-long")["givt"]


# Seeds below half


def test_e3_takes_seeds_below_half_where_too_few_compose(tmp_path: Path) -> None:
    found = asked(RISE, emergence(tmp_path, ending(GRADUAL, 0.3, low=1), SHARP))
    assert found.finding is not None and found.finding.ours.n == 7 and not found.finding.counted
    assert words(found)[rise.SHARPNESS] == "supported" and words(found)[rise.WRONG_FIRST] == "contradicted"
    assert found.text.startswith(
        f"With GIVT, over the 7 seeds that end with at least {percent(0.2)} of level-2 on both: each single seed"
    )
    note = next(note for note in found.evidence if "are followed" in note)
    assert note.startswith("Only 0 of 8 seeds compose on both tokens, right and valid, so the 7 of 8 seeds")
    assert found.to_json()["thresholds"]["rises"] == RISES.value


def test_e3_leaves_seeds_below_half_out_where_enough_compose(tmp_path: Path) -> None:
    def mixed(code: str, time: float, seed: int) -> Shares:
        return ending(GRADUAL, 0.3 if seed < 2 else 0.9)(code, time, seed)

    found = asked(RISE, emergence(tmp_path, mixed, SHARP))
    assert found.finding is not None and found.finding.ours.n == 6
    assert found.text.startswith("With GIVT: each single seed")


def test_e3_follows_the_probe_where_too_few_rise(tmp_path: Path) -> None:
    found = asked(RISE, emergence(tmp_path, ending(GRADUAL, 0.3, low=3), SHARP))
    assert found.finding is not None and found.finding.counted and found.finding.ours.n == 8
    assert found.text.startswith("With GIVT, by the probe's naming alone, valid or not: each single seed")
    few = f"Only 0 of 8 seeds compose on both tokens, right and valid, and 5 end with at least {percent(0.2)}, so what"
    assert any(note.startswith(few) for note in found.evidence)


def test_e3_shows_what_ends_too_low_in_words(tmp_path: Path) -> None:
    """What level-2 is compared with must end as high as level-2 must; where it does not, that is said."""

    def draw(code: str, time: float, seed: int) -> Shares:
        shares = ending(rises(0.6, 0.1), 0.3)(code, time, seed)
        return shares if far(code) else {"valid": 0.1}

    found = asked(RISE, emergence(tmp_path, draw, draw))
    assert found.finding is not None and words(found)[rise.TOGETHER] == "cannot tell"
    assert found.finding.outcomes[2].sentence == f"Not every seed ends with {percent(0.2)} of trained drawn."
    when = next(panel for panel in found.finding.panels if isinstance(panel, Dots))
    assert any(isinstance(row, NotKnown) and row.why.endswith(f"below {percent(0.2)}") for row in when.rows)


def test_e3_says_what_still_rises(tmp_path: Path) -> None:
    found = asked(RISE, emergence(tmp_path, rises(0.7, 0.6), SHARP))
    assert any("the fifth before it: VAE (+" in limit and "end of the run" in limit for limit in found.limits)


@pytest.mark.parametrize(("end", "deviation", "narrow"), [(0.2, 0.08, 0.05), (0.3, 0.07, 0.04), (0.5, 0.05, 0.02)])
def test_how_noisy_widths_are(end: float, deviation: float, narrow: float) -> None:
    """As the docstring of RISES has it, of 33 evaluations of 128 pictures."""
    steps = np.arange(1, 34) * 1_000.0
    time = steps / steps[-1]
    shapes = [np.clip((time - begin) / wide, 0, 1) for begin, wide in ((0.2, 0.2), (0.05, 0.4), (0, 0.6), (0, 1))]
    random = np.random.default_rng(0)
    for shape in (*shapes, (time >= 0.3).astype(float), 1 - np.exp(-time / 0.12)):
        shares = shape * end / shape[-6:].mean()
        drawn = random.binomial(128, shares[:, None], (33, 1_000)) / 128
        true = own_widths(Curve(steps, (0,), shares[:, None])).least[0]
        found = own_widths(Curve(steps, tuple(range(1_000)), drawn))
        assert found.least.std() < deviation + 0.01
        assert -narrow - 0.01 < found.least.mean() - true < 0.03
