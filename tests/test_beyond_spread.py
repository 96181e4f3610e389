"""B1, how loudly factors are told: families, every word of the entry, and what the probe alone says."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from planted_beyond import BY_ID, SPREAD, asked, by_arm, plant_spread, words
from planted_cells import lean
from recombine.claims.beyond.entries import Found
from recombine.claims.beyond.numbers import families
from recombine.claims.beyond.questions import ask_beyond
from recombine.claims.beyond.sections import beyond_sections, by_probe
from recombine.claims.ledger import open_studies
from recombine.claims.tables import NAMED, Measure, StudyTable, open_study
from recombine.claims.verdicts import Untested


def test_b1_finds_families_by_their_settings(tmp_path: Path) -> None:
    study = open_study(plant_spread(tmp_path, evaluations=2))
    found = families(study, "conditioning.spread")
    assert {label: [arm.name for arm in group] for label, group in found.items()} == {
        "DiT on VQ tokens": ["dit-small", "dit-equal", "dit-large"],
        "MaskGIT": ["maskgit-small", "maskgit-equal", "maskgit-large"],
        "GIVT": ["givt-small", "givt-equal"],
        "DiT on VAE tokens": ["dit-vae-small", "dit-vae-equal"],
    }


def test_b1(tmp_path: Path) -> None:
    entry = asked("B1", plant_spread(tmp_path / "one"))
    assert entry.word == "it matters"
    assert words(entry) == {
        "DiT on VQ tokens, small (0.02)": "lower",
        "DiT on VQ tokens, large (1)": "higher",
        "MaskGIT, small (0.02)": "alike",
        "MaskGIT, large (1)": "alike",
        "GIVT, small (0.02)": "lower",
        "DiT on VAE tokens, small (0.02)": "alike",
    }
    assert entry.found is not None
    # Our number is the mean over families of small minus equal, seed by seed.
    ends = {arm: np.array([np.clip(end + 0.01 * lean(s, arm), 0, 1) for s in range(8)]) for arm, end in SPREAD.items()}
    gaps = [ends[f"{one}-small"] - ends[f"{one}-equal"] for one in ("dit", "maskgit", "givt", "dit-vae")]
    assert entry.found.ours.mean == pytest.approx(np.mean(gaps)) and entry.found.ours.n == 8
    assert entry.text.startswith(
        "Yes: against vectors that begin as large as the time (0.2), with small ones (0.02) level-2 is lower for"
    )
    assert "with large ones (1) level-2 is higher for DiT on VQ tokens, +40 points (" in entry.text
    level = by_arm({}, others=0.3)
    same = asked("B1", plant_spread(tmp_path / "two", level))
    assert same.word == "no difference" and set(words(same).values()) == {"alike"} and same.text.startswith("No: ")
    noisy = asked("B1", plant_spread(tmp_path / "three", level, noise=0.3))
    assert noisy.word == "cannot tell" and noisy.text.startswith("The seeds cannot tell: ")


def test_an_arm_that_has_not_learned_is_left_out(tmp_path: Path) -> None:
    def share(arm: str, text: str, level: int, seed: int) -> float:
        return 0.4 if level == 0 and arm in ("dit-small", "givt-equal") else 0.97 if level == 0 else SPREAD[arm]

    entry = asked("B1", plant_spread(tmp_path, share))
    gone = {"DiT on VQ tokens, small (0.02)", "GIVT, small (0.02)"}
    assert not gone & set(words(entry)) and len(words(entry)) == 4
    assert (
        "DiT on VQ tokens, small (0.02) draws only 40\u00a0% of the trained compositions and is not compared."
        in entry.limits
    )
    nothing = asked("B1", plant_spread(tmp_path / "none", by_arm(SPREAD, trained=0.3)))
    assert nothing.found is None and "have learned" in nothing.why and nothing.to_json()["ours"] is None


def test_the_probe_alone_is_told_beside(tmp_path: Path) -> None:
    plain = asked("B1", plant_spread(tmp_path / "plain"))
    assert plain.found and [one.word for one in plain.named] == [one.word for one in plain.found.contrasts]
    told = by_probe(plain)
    assert told.startswith("By the probe alone, valid or not: higher for DiT on VQ tokens, large (1), +40 points")
    assert not any(limit.startswith("Judged") for limit in plain.limits)

    probe = asked("B1", plant_spread(tmp_path / "probe", probe=0.5))
    assert probe.found and words(probe)["DiT on VQ tokens, large (1)"] == "higher"
    named = {one.label: one for one in probe.named}
    assert named["DiT on VQ tokens, large (1)"].word == "alike"  # 100 % for both, where it was 90 % to 50 %
    assert "DiT on VQ tokens, large (1)" not in by_probe(probe)
    told_json = {one["name"]: one for one in probe.to_json()["comparisons"]}["DiT on VQ tokens, large (1)"]
    assert told_json["by_probe"] == pytest.approx(0, abs=0.02) and told_json["by_probe_word"] == "alike"
    assert told_json["by_probe_interval"][0] <= told_json["by_probe"] <= told_json["by_probe_interval"][1]


def test_where_nothing_is_right_and_valid_the_probe_still_answers(tmp_path: Path) -> None:
    """Arms that draw too few valid pictures of what they were trained on are not compared by these, but named."""
    studies = open_studies([plant_spread(tmp_path / "spread")])
    plain = BY_ID["B1"]

    def named_alone(given: Mapping[str, StudyTable], measure: Measure) -> Found:
        if measure.column != NAMED:
            raise Untested("no arm has learned what it was trained on")
        return plain.judge(given, measure)

    entry = ask_beyond(replace(plain, judge=named_alone), studies)
    assert entry.found is None and entry.word == "no answer yet" and entry.named
    text = "\n".join(beyond_sections([entry], tmp_path))
    assert "No arm has learned what it was trained on. By the probe alone, valid or not: higher for DiT" in text
