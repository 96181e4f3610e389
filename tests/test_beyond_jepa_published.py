"""B10, JEPA on the way to the published MaskGIT: its steps, and every word of the entry."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planted_beyond import by_arm, drawn, of_library, plant_shares, some_arms, words
from recombine.claims.beyond.entries import Entry, Gains, Over
from recombine.claims.beyond.figures import draw_entry
from recombine.claims.beyond.jepa import own_control
from recombine.claims.beyond.jepa_published import B10, judge_published
from recombine.claims.beyond.questions import ask_beyond
from recombine.claims.ledger import open_studies
from recombine.claims.planes.table import flat
from recombine.claims.tables import NAMED, Measure, open_study
from recombine.studies.spec import Study

STUDY = of_library("jepa-published")
STEPS = ("all-tokens", "more-codes", "loud", "sampler")
ENDS = {"all-tokens": 0.4, "all-tokens-jepa": 0.6, "more-codes": 0.2, "more-codes-jepa": 0.3}
ENDS |= {"loud": 0.1, "loud-jepa": 0.1, "sampler": 0.2, "sampler-jepa": 0.1}


def planted(folder: Path, ends: Mapping[str, float] = ENDS, study: Study = STUDY, **more: Any) -> Path:
    return plant_shares(folder, study, by_arm(ends), **({"evaluations": 5, "seeds": range(8, 16)} | more))


def asked(folder: Path) -> Entry:
    return ask_beyond(B10, open_studies([folder]))


# The study


def test_each_step_keeps_those_before_it() -> None:
    arms = {name: flat(arm) for name, arm in STUDY.resolved()["arms"].items()}
    found = [
        {path: value for path, value in arms[after].items() if arms[before].get(path) != value}
        for before, after in pairwise(STEPS)
    ]
    assert found == [
        {"tokenizer.codes": 1024},
        {"conditioning.spread": 1.0},
        {"generator.mask_law": "arccos", "generator.sampling_steps": 12, "generator.choice_temperature": 4.5},
    ]


def test_it_begins_where_the_search_was_and_ends_with_the_published_generator() -> None:
    arms, search = STUDY.resolved()["arms"], of_library("jepa").resolved()
    assert arms["all-tokens"] == search["arms"]["all-tokens-without"]
    assert arms["all-tokens-jepa"] == search["arms"]["all-tokens"]
    published = of_library("as_published").resolved()["arms"]["maskgit"]
    assert arms["sampler"]["generator"] == published["generator"]
    assert arms["sampler"]["tokenizer"]["codes"] == published["tokenizer"]["codes"]


def test_no_study_that_it_follows_has_its_seeds() -> None:
    seen = {seed for name in ("jepa", "spread", "objectives") for seed in of_library(name).seeds}
    assert not seen & set(STUDY.seeds) and len(STUDY.seeds) == 8


def test_every_jepa_arm_stands_after_its_own_control(tmp_path: Path) -> None:
    arms = open_study(planted(tmp_path, evaluations=1)).arms
    assert [arm.name for arm in arms] == [name for step in STEPS for name in (step, f"{step}-jepa")]
    for control, arm in zip(arms[::2], arms[1::2], strict=True):
        assert own_control(arm) == control


# The answer


def test_helps_at_some_steps(tmp_path: Path) -> None:
    entry = asked(planted(tmp_path))
    assert entry.word == "helps in 2 of 4"
    assert words(entry) == dict(zip(STEPS, ("higher", "higher", "alike", "lower"), strict=True))
    assert entry.text.startswith(
        "Yes: level-2 without JEPA, and what JEPA adds, are step by step all-tokens 40\u00a0% ("
    )
    assert "), +20 points (" in entry.text and "; more-codes 20\u00a0% (" in entry.text
    assert entry.text.endswith(", lower).")
    found = entry.found
    assert found is not None and found.ours.mean == pytest.approx(0.05, abs=0.01) and found.ours.n == 8
    assert found.arms["loud"] == "loud" and found.arms["loud with JEPA"] == "loud-jepa"
    over, gains = found.panels
    assert isinstance(over, Over) and over.ticks == STEPS
    assert [line.label for line in over.lines] == ["MaskGIT", "MaskGIT + JEPA"]
    assert np.mean(over.lines[1].values["all-tokens"]) == pytest.approx(0.6, abs=0.01)
    assert isinstance(gains, Gains) and gains.contrasts == found.contrasts
    assert found.notes == (
        "Each step differs from the one before it: more-codes in codebook; loud in spread; sampler in choice "
        "temperature, mask law and sampling steps.",
    )
    assert draw_entry(entry, tmp_path / "B10.png").stat().st_size > 10_000


def test_none_helps(tmp_path: Path) -> None:
    """A step where it is lower is no help either."""
    entry = asked(planted(tmp_path, dict.fromkeys(ENDS, 0.3) | {"loud-jepa": 0.1}))
    assert entry.word == "none helps" and entry.text.startswith("No: ") and words(entry)["loud"] == "lower"


def test_at_the_floor_it_cannot_be_told(tmp_path: Path) -> None:
    """Where neither arm draws any, that they are alike says nothing about the loss."""
    entry = asked(planted(tmp_path, dict.fromkeys(ENDS, 0.3) | {"loud": 0.01, "loud-jepa": 0.01}))
    assert words(entry)["loud"] == "neither composes" and words(entry)["sampler"] == "alike"
    assert entry.word == "cannot tell" and entry.text.startswith("It cannot be told: ")


def test_the_seeds_cannot_tell(tmp_path: Path) -> None:
    entry = asked(planted(tmp_path, dict.fromkeys(ENDS, 0.4), noise=0.2))
    assert entry.word == "cannot tell" and "not clear" in words(entry).values()
    assert entry.text.startswith("The seeds cannot tell: ")


def test_the_measure_is_the_callers(tmp_path: Path) -> None:
    """By right and valid nothing is drawn; the probe alone names more, and more still with JEPA."""
    folder = planted(tmp_path, {name: 0.3 if name.endswith("jepa") else 0.0 for name in ENDS}, probe=0.2)
    assert asked(folder).word == "helps in 4 of 4"
    studies = open_studies([folder])
    probe = judge_published(studies, Measure(NAMED))
    assert probe.answer.startswith("Yes: ") and "all-tokens 2" in probe.answer  # 20 %, and not 0
    assert "all-tokens 0" in judge_published(studies, Measure()).answer


# What is not compared


def unlearned(folder: Path, *dull: str, ends: Mapping[str, float] = ENDS) -> Entry:
    def share(arm: str, text: str, level: int, seed: int) -> float:
        return ends[arm] if level else 0.4 if arm in dull else 0.97

    return asked(plant_shares(folder, STUDY, share, evaluations=5))


@pytest.mark.parametrize(("dull", "label"), [("more-codes", "more-codes"), ("more-codes-jepa", "more-codes with JEPA")])
def test_a_step_that_has_not_learned(tmp_path: Path, dull: str, label: str) -> None:
    entry = unlearned(tmp_path, dull)
    assert set(words(entry)) == {"all-tokens", "loud", "sampler"} and entry.word == "helps in 1 of 3"
    assert f"{label} draws only 40\u00a0% of the trained compositions and is not compared." in entry.limits
    assert "; more-codes 20\u00a0% (" in entry.text and "), not compared; loud " in entry.text
    none = unlearned(tmp_path / "none", *ENDS)
    assert none.found is None and "have learned" in none.why


def test_a_step_that_only_the_probe_can_compare_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = unlearned(tmp_path / "some", "more-codes")
    every = judge_published(open_studies([planted(tmp_path / "all")]), Measure(NAMED))
    entry = replace(entry, by_probe=every)
    gains = drawn(entry, tmp_path, monkeypatch).axes[-1]
    assert [text.get_text() for text in gains.get_yticklabels()] == ["all-tokens", "loud", "sampler", "more-codes"]
    assert gains.texts[-1].get_text() == "not\ncompared"
    hollow = {line.get_ydata()[0]: line.get_xdata()[0] for line in gains.lines if line.get_markerfacecolor() == "white"}
    by_probe = {one.label: 100 * one.test.mean for one in every.contrasts}
    assert hollow == {i: by_probe[label] for i, label in enumerate(("all-tokens", "loud", "sampler", "more-codes"))}
    (only,) = entry.to_json()["by_probe_only"]
    assert only["name"] == "more-codes" and only["by_probe_word"] == "higher"
    assert only["by_probe_interval"][0] < only["by_probe"] < only["by_probe_interval"][1]


def test_that_none_helps_needs_every_step(tmp_path: Path) -> None:
    alike = dict.fromkeys(ENDS, 0.3)
    assert unlearned(tmp_path / "all", ends=alike).word == "none helps"
    entry = unlearned(tmp_path / "not-all", "more-codes", ends=alike)
    assert entry.word == "cannot tell" and entry.text.startswith("It cannot be told: ")


def test_arms_that_were_not_run(tmp_path: Path) -> None:
    kept = ["all-tokens", "all-tokens-jepa", "more-codes", "loud-jepa", "sampler", "sampler-jepa"]
    entry = asked(planted(tmp_path / "some", study=some_arms(STUDY, STUDY.name, kept)))
    assert set(words(entry)) == {"all-tokens", "sampler"} and entry.word == "helps in 1 of 2"
    assert "Not counted, since no arm differs from it in the JEPA loss alone: loud-jepa." in entry.limits
    plain = asked(planted(tmp_path / "plain", study=some_arms(STUDY, STUDY.name, list(STEPS))))
    assert plain.found is None and "has no JEPA arm beside its own control" in plain.why


def test_too_few_seeds(tmp_path: Path) -> None:
    entry = asked(planted(tmp_path, seeds=range(8, 13)))
    assert entry.found is None and "share 5 seeds" in entry.why
