"""Beyond the papers: every word of every entry can be reached, by tables planted to reach it; and the page and JSON."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from typer.testing import CliRunner

from planted import OBJECTIVES, REPRODUCED, plant
from planted_beyond import (
    by_arm,
    levels_of,
    of_library,
    plant_bridge,
    plant_shares,
    plant_withheld,
    some_arms,
    told_loudly,
)
from planted_cells import lean
from recombine.claims.beyond.data import rare_and_common
from recombine.claims.beyond.entries import Contrast, Entry, Found, Over, together
from recombine.claims.beyond.figures import draw_entry, seeds_text, shade
from recombine.claims.beyond.jepa import own_control
from recombine.claims.beyond.numbers import compare, families, listing
from recombine.claims.beyond.questions import QUESTIONS, ask_beyond, look_beyond
from recombine.claims.beyond.sections import beyond_sections, by_probe
from recombine.claims.figures import INK
from recombine.claims.ledger import CLAIMS, is_figures, make_ledger, open_studies
from recombine.claims.page import page_text, write_page
from recombine.claims.tables import NAMED, Measure, StudyTable, open_study
from recombine.claims.verdicts import Untested
from recombine.cli import app
from recombine.judges.statistics import Difference, holm, paired
from recombine.studies.spec import Study

ROOT = Path(__file__).resolve().parent.parent
BY_ID = {one.id: one for one in QUESTIONS}


def asked(which: str, *folders: Path) -> Entry:
    return ask_beyond(BY_ID[which], open_studies(folders))


def words(entry: Entry) -> dict[str, str]:
    assert entry.found is not None, entry.why
    return {one.label: one.word for one in entry.found.contrasts}


# What is said of a comparison


@pytest.mark.parametrize(
    ("mean", "low", "high", "p", "word"),
    [
        (0.30, 0.2, 0.4, 0.001, "higher"),
        (-0.30, -0.4, -0.2, 0.001, "lower"),
        (0.30, -0.1, 0.7, 0.2, "not clear"),
        (0.01, -0.02, 0.04, 0.4, "alike"),
        (0.04, 0.03, 0.049, 0.001, "alike"),  # clear, and shown to be too small to matter
        (0.04, 0.01, 0.07, 0.001, "not clear"),  # clear, but whether it matters is not
    ],
)
def test_the_word_of_a_comparison(mean: float, low: float, high: float, p: float, word: str) -> None:
    assert Contrast("a", {}, Difference(mean, low, high, p, None, 8), p).word == word


def test_comparisons_are_paired_by_seed_and_corrected_together() -> None:
    rng = np.random.default_rng(0)
    shift = {seed: float(rng.normal()) for seed in range(10)}  # of both arms of a pair: pairing takes it away
    a = {seed: shift[seed] + 0.2 + 0.01 * seed for seed in range(8)}
    b = {seed: shift[seed] for seed in reversed(range(8))}
    c = {seed: shift[seed] + 0.1 * (-1) ** seed for seed in range(2, 10)}  # shares six seeds with b
    found = compare({"a": (a, b), "c": (c, b)}, "here")
    raw = [
        paired(list(a.values()), [b[s] for s in a]).p,
        paired([c[s] for s in range(2, 8)], [b[s] for s in range(2, 8)]).p,
    ]
    assert [one.p for one in found] == holm(raw) and found[1].test.n == 6
    assert found[0].test.mean == pytest.approx(0.235) and found[0].word == "higher"
    assert together(found).n == 6 and together(found[:1]).mean == pytest.approx(0.235)
    assert listing(found).startswith("higher for a, +24 points (") and "; not clearly other for c, 0 points" in listing(
        found
    )
    with pytest.raises(Untested, match="share 5 seeds"):
        compare({"a": ({s: a[s] for s in range(5)}, b)}, "here")
    with pytest.raises(Untested, match="no two arms"):
        compare({}, "here")


# B1


SPREAD = {"dit-small": 0.1, "dit-equal": 0.5, "dit-large": 0.9, "maskgit-small": 0.05, "maskgit-equal": 0.05}
SPREAD |= {"maskgit-large": 0.05, "givt-small": 0.2, "givt-equal": 0.4, "dit-vae-small": 0.3, "dit-vae-equal": 0.3}


def spread_study() -> Study:
    """The library's, with more families and sizes than it trains."""
    words = of_library("spread").resolved()
    arms = words["arms"]
    for name, base, size in (("dit-large", "dit-equal", 1), ("dit-vae-small", "dit-vae-equal", 0.02)):
        arms[name] = arms[base] | {"conditioning": arms[base]["conditioning"] | {"spread": size}}
    givt = of_library("objectives").resolved()["arms"]["givt"]
    for name, size in (("givt-small", 0.02), ("givt-equal", 0.2)):
        arms[name] = givt | {"conditioning": givt["conditioning"] | {"spread": size}}
    return Study.model_validate(words | {"arms": {name: arms[name] for name in SPREAD}})


def test_b1_finds_families_by_their_settings(tmp_path: Path) -> None:
    study = open_study(plant_shares(tmp_path, spread_study(), by_arm(SPREAD), evaluations=2))
    found = families(study, "conditioning.spread")
    assert {label: [arm.name for arm in group] for label, group in found.items()} == {
        "DiT on VQ tokens": ["dit-small", "dit-equal", "dit-large"],
        "MaskGIT": ["maskgit-small", "maskgit-equal", "maskgit-large"],
        "GIVT": ["givt-small", "givt-equal"],
        "DiT on VAE tokens": ["dit-vae-small", "dit-vae-equal"],
    }


def test_b1(tmp_path: Path) -> None:
    folder = plant_shares(tmp_path / "one", spread_study(), by_arm(SPREAD))
    entry = asked("B1", folder)
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
    # Our number is the mean over families of small less equal, seed by seed.
    ends = {arm: np.array([np.clip(end + 0.01 * lean(s, arm), 0, 1) for s in range(8)]) for arm, end in SPREAD.items()}
    gaps = [ends[f"{one}-small"] - ends[f"{one}-equal"] for one in ("dit", "maskgit", "givt", "dit-vae")]
    assert entry.found.ours.mean == pytest.approx(np.mean(gaps)) and entry.found.ours.n == 8
    assert entry.text.startswith(
        "Yes: against vectors that begin as large as the time (0.2), with small ones (0.02) level-2 is lower for"
    )
    assert "with large ones (1) level-2 is higher for DiT on VQ tokens, +40 points (" in entry.text
    level = {arm: 0.3 for arm in SPREAD}
    same = asked("B1", plant_shares(tmp_path / "two", spread_study(), by_arm(level)))
    assert same.word == "no difference" and set(words(same).values()) == {"alike"} and same.text.startswith("No: ")
    noisy = asked("B1", plant_shares(tmp_path / "three", spread_study(), by_arm(level), noise=0.3))
    assert noisy.word == "cannot tell" and noisy.text.startswith("The seeds cannot tell: ")


def test_an_arm_that_has_not_learned_is_left_out(tmp_path: Path) -> None:
    def share(arm: str, text: str, level: int, seed: int) -> float:
        return 0.4 if level == 0 and arm in ("dit-small", "givt-equal") else 0.97 if level == 0 else SPREAD[arm]

    entry = asked("B1", plant_shares(tmp_path, spread_study(), share))
    gone = {"DiT on VQ tokens, small (0.02)", "GIVT, small (0.02)"}
    assert not gone & set(words(entry)) and len(words(entry)) == 4
    assert (
        "DiT on VQ tokens, small (0.02) draws only 40\u00a0% of the trained compositions and is not compared."
        in entry.limits
    )
    nothing = asked("B1", plant_shares(tmp_path / "none", spread_study(), by_arm(SPREAD, trained=0.3)))
    assert nothing.found is None and "have learned" in nothing.why and nothing.to_json()["ours"] is None


def test_the_probe_alone_is_told_beside(tmp_path: Path) -> None:
    plain = asked("B1", plant_shares(tmp_path / "plain", spread_study(), by_arm(SPREAD)))
    assert plain.found and [one.word for one in plain.named] == [one.word for one in plain.found.contrasts]
    told = by_probe(plain)
    assert told.startswith("By the probe alone, valid or not: higher for DiT on VQ tokens, large (1), +40 points")
    assert not any(limit.startswith("Judged") for limit in plain.limits)

    probe = asked("B1", plant_shares(tmp_path / "probe", spread_study(), by_arm(SPREAD), probe=0.5))
    assert probe.found and words(probe)["DiT on VQ tokens, large (1)"] == "higher"
    named = {one.label: one for one in probe.named}
    assert named["DiT on VQ tokens, large (1)"].word == "alike"  # 100 % for both, where it was 90 % to 50 %
    assert "DiT on VQ tokens, large (1)" not in by_probe(probe)
    told_json = {one["name"]: one for one in probe.to_json()["comparisons"]}["DiT on VQ tokens, large (1)"]
    assert told_json["by_probe"] == pytest.approx(0, abs=0.02) and told_json["by_probe_word"] == "alike"
    assert told_json["by_probe_interval"][0] <= told_json["by_probe"] <= told_json["by_probe_interval"][1]


def test_where_nothing_is_right_and_valid_the_probe_still_answers(tmp_path: Path) -> None:
    """Arms that draw too few valid pictures of what they were trained on are not compared by these, but named."""
    studies = open_studies([plant_shares(tmp_path / "spread", spread_study(), by_arm(SPREAD))])
    plain = next(one for one in QUESTIONS if one.id == "B1")

    def named_alone(given: Mapping[str, StudyTable], measure: Measure) -> Found:
        if measure.column != NAMED:
            raise Untested("no arm has learned what it was trained on")
        return plain.judge(given, measure)

    entry = ask_beyond(replace(plain, judge=named_alone), studies)
    assert entry.found is None and entry.word == "no answer yet" and entry.named
    text = "\n".join(beyond_sections([entry], tmp_path))
    assert "No arm has learned what it was trained on. By the probe alone, valid or not: higher for DiT" in text


# B2


RAREST = {"001", "010", "100", "011", "101", "110"}


def test_b2_rare_compositions_are_those_of_the_study_file() -> None:
    study = of_library("dependent")
    rare, common = rare_and_common(levels_of(study, "dit-3"), 3.0)
    assert rare == RAREST and len(common) == 14
    assert rare_and_common(levels_of(study, "dit-3"), 0.0) == (set(), rare | common)


@pytest.mark.parametrize(
    ("loss", "seldom", "word", "expected"),
    [
        (0.1, 0.0, "dependence costs", ("lower", "alike")),
        (0.0, 0.3, "dependence costs", ("alike", "lower")),
        (0.0, 0.0, "no loss", ("alike", "alike")),
        (-0.1, 0.0, "no loss", ("higher", "alike")),
    ],
)
def test_b2(tmp_path: Path, loss: float, seldom: float, word: str, expected: tuple[str, str]) -> None:
    def share(arm: str, text: str, level: int, seed: int) -> float:
        how = int(arm[-1])
        if level == 0:
            return 0.97 - seldom * how * (text in RAREST)
        return 0.5 - (loss * how if level == 2 else 0)

    entry = asked("B2", plant_shares(tmp_path, of_library("dependent"), share, evaluations=5))
    said = {
        f"{family}{end}": one
        for family in ("DiT", "MaskGIT")
        for end, one in zip(("", ", rare"), expected, strict=True)
    }
    assert words(entry) == said and entry.word == word
    assert entry.found is not None and entry.found.ours.mean == pytest.approx(-3 * loss, abs=0.02)
    assert "the 6 rarest trained compositions are" in entry.text and ", rare" not in entry.text


def test_b2_asks_for_learning_of_what_was_often_seen(tmp_path: Path) -> None:
    """An arm that misses rare compositions alone is compared all the same."""

    def share(arm: str, text: str, level: int, seed: int) -> float:
        rare = arm.endswith("3") and text in RAREST
        return 0.5 if level else 0.0 if rare else 0.72  # 50 % of all trained ones at the strongest

    assert len(words(asked("B2", plant_shares(tmp_path, of_library("dependent"), share, evaluations=2)))) == 4


# B3


def test_b3_none_helps(tmp_path: Path) -> None:
    entry = asked("B3", plant_shares(tmp_path, of_library("remedies"), by_arm({}, others=0.4)))
    assert entry.word == "none helps" and entry.text.startswith("No: ")


# B4 and B5


def coverage(**factor: float) -> Any:
    """Held-out compositions are drawn in proportion to those trained, level-2 worse than level-1."""

    def share(arm: str, text: str, level: int, seed: int) -> float:
        family, n = arm.split("-")
        return 0.97 if level == 0 else factor[family] * int(n) / 20 - 0.02 * level

    return share


def test_b4_is_about_compositions_that_no_arm_trains(tmp_path: Path) -> None:
    study = of_library("coverage")
    entry = asked("B4", plant_shares(tmp_path, study, coverage(dit=0.95, maskgit=0.3), evaluations=5))
    levels = {arm: levels_of(study, arm) for arm in study.arms}
    shared = {text for text in levels["dit-20"] if all(own[text] > 0 for own in levels.values())}
    assert len(shared) == 7 and words(entry) == {"DiT": "higher", "MaskGIT": "higher"} and entry.word == "it matters"
    assert "DiT first draws more than half with 12 of 27 trained (5" in entry.text
    assert "MaskGIT never does (2" in entry.text and "with 20 trained instead of 4" in entry.text
    found = entry.found
    assert found is not None
    mean = {n: np.mean([0.95 * n / 20 - 0.02 * levels[f"dit-{n}"][text] for text in shared]) for n in (4, 20)}
    assert found.contrasts[0].test.mean == pytest.approx(mean[20] - mean[4], abs=0.01)
    assert any("level 2 with 4, 2 with 12, 1 with 20 trained" in limit for limit in entry.limits)
    far = found.panels[1]
    assert isinstance(far, Over)
    assert np.mean(far.lines[0].values["4"]) == pytest.approx(0.95 * 4 / 20 - 0.04, abs=0.01)  # its own level-2 alone


def test_b5_compares_the_studies_given(tmp_path: Path) -> None:
    folders = [
        plant_shares(tmp_path / str(n), of_library(f"coverage-values-{n}"), by_arm({"dit": 0.22 * n, "maskgit": 0.1}))
        for n in (4, 2, 3)
    ]
    entry = asked("B5", *folders)
    assert words(entry) == {"DiT": "higher", "MaskGIT": "alike"} and entry.found is not None
    assert [study.name[-1] for study in entry.found.studies] == ["2", "3", "4"]
    assert (
        "DiT first draws more than half with 3 values per factor" in entry.text
        and "with 4 values instead of 2" in entry.text
    )
    assert entry.found.contrasts[1].test.mean == pytest.approx(0.44, abs=0.02)
    two = asked("B5", *folders[1:])
    assert two.found is not None and two.found.contrasts[1].test.mean == pytest.approx(0.22, abs=0.02)
    one = asked("B5", folders[0])
    assert one.found is None and "two are needed" in one.why


# B6


def test_b6_pairs_what_the_tokenizer_saw(tmp_path: Path) -> None:
    ends = {"vq": 0.6, "vq-sees-train": 0.01, "vae": 0.7, "vae-sees-train": 0.7, "pixels": 0.9}
    tops = {"vq": 1.0, "vae": 1.0, "vq-sees-train": 0.6, "vae-sees-train": 0.9}
    entry = asked("B6", plant_shares(tmp_path, of_library("tokenizers-seen"), by_arm(ends), ceilings=tops))
    assert words(entry) == {"VAE tokens": "alike", "VQ tokens": "lower"} and entry.word == "it costs"
    assert "reproduces 90\u00a0% for VAE tokens and 60\u00a0% for VQ tokens" in entry.text
    plain = some_arms(of_library("tokenizers-seen"), "tokenizers-seen", ["vq", "vae"])
    none = asked("B6", plant_shares(tmp_path / "none", plain, by_arm(ends)))
    assert none.found is None and "saw trained compositions only" in none.why


# B7


def search(folder: Path, ends: Mapping[str, float], **more: Any) -> Path:
    return plant_shares(folder, of_library("jepa"), by_arm(ends, others=0.1), **more)


def confirm(folder: Path, ends: Mapping[str, float], seeds: range = range(8, 16), chosen: str = "early-layers") -> Path:
    study = some_arms(of_library("jepa"), "jepa-confirm", [chosen, "maskgit"])
    return plant_shares(folder, study, by_arm(ends, others=0.1), seeds=seeds)


def test_b7_every_setting_has_its_own_control(tmp_path: Path) -> None:
    study = open_study(search(tmp_path, {}, evaluations=1))
    arms = {arm.name: arm for arm in study.arms}
    for name, arm in arms.items():
        if arm.setting("jepa"):
            own = own_control(arm)
            wanted = f"{name}-without" if f"{name}-without" in arms else "maskgit"
            assert own is not None and own.name == wanted


def test_b7_did_not_help(tmp_path: Path) -> None:
    """A setting that draws much, as its own control does, has not helped."""
    entry = asked("B7", search(tmp_path, {"more-codes": 0.5, "more-codes-without": 0.5, "all-tokens-without": 0.3}))
    assert entry.word == "did not help in 12 settings" and len(words(entry)) == 12
    assert words(entry)["more-codes"] == "alike" and words(entry)["all-tokens"] == "lower"
    assert "so JEPA did not help in 12 settings" in entry.text and "not confirmed yet" in entry.text
    for varied in (
        "codebook",
        "layers",
        "loss of MaskGIT",
        "masks",
        "schedule of the rate",
        "targets",
        "teacher",
        "weight",
    ):
        assert varied in entry.text.split(")")[0]


def test_b7_counts_the_settings_of_other_searches(tmp_path: Path) -> None:
    layers = plant_shares(tmp_path / "layers", of_library("jepa-layers"), by_arm({}, others=0.05))
    entry = asked("B7", search(tmp_path / "search", {}), layers)
    assert "17 settings of jepa and jepa-layers" in entry.text and "layers-6-8-10 (jepa-layers)" in words(entry)
    assert "size of the model" in entry.text
    few = plant_shares(tmp_path / "few", of_library("jepa-layers"), by_arm({}), seeds=range(3))
    assert "12 settings of jepa" in asked("B7", tmp_path / "search", few).text
    # Without the search itself, nothing is asked.
    assert [one.id for one in look_beyond(open_studies([layers]))] == []


def test_b7_confirmed_on_fresh_seeds_or_not(tmp_path: Path) -> None:
    found = search(tmp_path / "search", {"early-layers": 0.3})
    entry = asked("B7", found)
    assert entry.word == "not confirmed yet" and "early-layers clearly raises level-2" in entry.text
    assert entry.found is not None and "after the fact" in entry.found.measure
    held = asked("B7", found, confirm(tmp_path / "held", {"early-layers": 0.2}))
    assert held.word == "helps in one setting" and "confirmed on fresh seeds: +10 points" in held.text
    assert held.found is not None and held.found.ours.mean == pytest.approx(0.1, abs=0.01)
    assert words(held)["early-layers, fresh seeds"] == "higher"
    gone = asked("B7", found, confirm(tmp_path / "gone", {"early-layers": 0.1}))
    assert gone.word == "not confirmed" and "on fresh seeds it is not confirmed" in gone.text
    # A search in which nothing helps is told so, whether or not its best was asked again.
    nothing = search(tmp_path / "nothing", {"early-layers": 0.11})
    still = asked("B7", nothing, confirm(tmp_path / "still", {"early-layers": 0.1}))
    assert still.word == "did not help in 12 settings" and "on fresh seeds it is not confirmed" in still.text
    # What was asked again must be what is told of: by another measure another try may be the best.
    other = search(tmp_path / "other", {"early-layers": 0.3, "last-layer": 0.4})
    best = asked("B7", other, confirm(tmp_path / "other-confirm", {"early-layers": 0.1}))
    assert best.word == "not confirmed yet" and "last-layer with +30 points" in best.text
    assert "not asked again on fresh seeds (jepa-confirm asks it of early-layers: " in best.text
    again = asked("B7", found, confirm(tmp_path / "again", {"early-layers": 0.2}, seeds=range(4, 12)))
    assert again.word == "not confirmed yet" and "has 4 fresh seeds" in again.text


def test_b7_a_confirming_study_is_corrected_by_itself(tmp_path: Path) -> None:
    """The tries are corrected for their number, the one test that confirms is not."""
    folder = confirm(tmp_path / "held", {"early-layers": 0.1}, seeds=range(8, 14))
    entry = asked("B7", search(tmp_path / "search", {"early-layers": 0.3}), folder)
    assert entry.found is not None
    one = entry.found.contrasts[0]
    assert one.p == one.test.p and entry.found.contrasts[1].p > (entry.found.contrasts[1].test.p or 0)


# B8


def test_b8(tmp_path: Path) -> None:
    hits = {"cnn": 0.1, "dit-pixels": 0.9, "dit-vq": 0.6, "regression-pixels": 0.3, "maskgit-vq": 0.1}
    entry = asked("B8", plant_bridge(tmp_path / "one", hits))
    said = words(entry)
    assert (
        entry.word == "2 of 4 do"
        and said["DiT on pixels, in place"] == said["regression on pixels, in place"] == "higher"
    )
    assert said["DiT on pixels, memory"] == "lower" and said["DiT less MaskGIT on VQ tokens"] == "higher"
    assert len(said) == 4 + 4 + 2
    assert (
        "The CNN puts 10\u00a0% (" in entry.text
        and "the memory's share deep in the hole is 0.9" in entry.text
        and ", higher), DiT on VQ tokens 6" in entry.text
        and ", lower) with DiT on pixels" in entry.text
    )
    assert entry.found is not None and "0.5" in entry.found.more[0]
    assert entry.found.ours.mean == pytest.approx(np.mean([0.8, 0.5, 0.2, 0.0]), abs=0.03)
    none = asked("B8", plant_bridge(tmp_path / "two", {**hits, "dit-pixels": 0.3, "dit-vq": 0.3}))
    assert none.word == "none does"


def test_b8_leaves_out_what_is_not_fitted(tmp_path: Path) -> None:
    hits = {"cnn": 0.1, "dit-pixels": 0.9}
    entry = asked("B8", plant_bridge(tmp_path / "one", hits, inside={"maskgit-vq": 0.5}))
    assert not any("MaskGIT" in label for label in words(entry)) and any("MaskGIT" in limit for limit in entry.limits)
    blind = asked("B8", plant_bridge(tmp_path / "two", hits, inside={"cnn": 0.5}))
    assert blind.found is None and "CNN has not fitted" in blind.why


# The page, the figures, the JSON, the documents


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with results/ of every study that an entry is read from, beside one that claims are judged from."""
    place = tmp_path_factory.mktemp("home")
    results = place / "results"
    plant(results / "objectives", OBJECTIVES, REPRODUCED["objectives"])
    plant_shares(results / "spread", spread_study(), by_arm(SPREAD), samples=64)
    dependent = of_library("dependent")
    plant_shares(results / "dependent", dependent, lambda arm, text, level, seed: 0.5 if level else 0.97, evaluations=5)
    plant_shares(results / "remedies", of_library("remedies"), by_arm({"complete": 0.8}))
    plant_shares(results / "coverage", of_library("coverage"), coverage(dit=0.95, maskgit=0.3), evaluations=5)
    for n in (2, 3):
        name = f"coverage-values-{n}"
        plant_shares(results / name, of_library(name), by_arm({"dit": 0.2 * n, "maskgit": 0.1}))
    tops = {"vq-sees-train": 0.02, "vae-sees-train": 0.9}
    seen = of_library("tokenizers-seen")
    plant_shares(results / "tokenizers-seen", seen, by_arm({"vq-sees-train": 0.0}), ceilings=tops)
    search(results / "jepa", {"early-layers": 0.3})
    confirm(results / "jepa-confirm", {"early-layers": 0.2})
    plant_bridge(results / "bridge", {"cnn": 0.1, "dit-pixels": 0.9})
    plant_shares(results / "loud", told_loudly(OBJECTIVES), by_arm({"maskgit": 0.0}))
    plant_shares(results / "jepa-published", of_library("jepa-published"), by_arm({"loud": 0.0}), seeds=range(8, 16))
    plant_withheld(results / "withheld-again")
    plant_shares(results / "discrete", of_library("discrete"), by_arm({"givt": 0.8}), evaluations=5)
    return place


def folders(home: Path) -> list[Path]:
    return sorted((home / "results").iterdir())


def test_the_page_and_its_figures(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    shutil.copytree(home / "results", other / "results", ignore=shutil.ignore_patterns("figures"))
    write_page(home / "RESULTS.md", folders(home))
    write_page(other / "RESULTS.md", folders(other)[::-1])
    text = (home / "RESULTS.md").read_text(encoding="utf-8")
    assert text == (other / "RESULTS.md").read_text(encoding="utf-8") and "nan" not in text
    assert text.count("## Beyond the papers") == 1 and text.index("## Beyond the papers") > text.index("## The ledger")
    headings = {line.lstrip("# ") for line in text.splitlines() if line.startswith("### B")}
    assert len(headings) == len(QUESTIONS)
    for one in QUESTIONS:
        picture = f"results/figures/{one.id}.png"
        assert f"]({picture})" in text and one.question in text
        assert (home / picture).read_bytes() == (other / picture).read_bytes()
    pointer = next(line for line in text.splitlines() if line.startswith("Beyond the papers: "))
    links = [part.split(")")[0] for part in pointer.split("](#")[1:]]
    assert links == [one.id.lower() for one in QUESTIONS]
    assert all(text.count(f'\n<a id="{one.id.lower()}"></a>\n\n### {one.id}. ') == 1 for one in QUESTIONS)
    assert "Each composition was judged on 64 pictures per evaluation only." in text
    assert (
        '<a id="run-spread"></a><b>spread</b>: ' in text and "No claim is judged from it." not in text
    )  # all of these are read
    assert is_figures(home / "results" / "figures")
    studies = open_studies(folders(home))
    assert page_text(make_ledger(studies), studies, home) == text


def test_studies_that_are_not_given_are_not_shown(tmp_path: Path) -> None:
    one = plant(tmp_path / "results" / "objectives", OBJECTIVES, REPRODUCED["objectives"])
    write_page(tmp_path / "RESULTS.md", [one])
    assert "Beyond" not in (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    few = plant_shares(tmp_path / "results" / "spread", spread_study(), by_arm(SPREAD), seeds=range(4))
    write_page(tmp_path / "RESULTS.md", [one, few])
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert '- B1<a id="b1"></a>, How loudly factors are told: The arms of the study spread share 4 seeds' in text
    assert not (tmp_path / "results" / "figures" / "B1.png").exists()


def test_a_figure_goes_with_its_study(tmp_path: Path) -> None:
    one = plant(tmp_path / "results" / "objectives", OBJECTIVES, REPRODUCED["objectives"])
    two = plant_shares(tmp_path / "results" / "spread", spread_study(), by_arm(SPREAD))
    write_page(tmp_path / "RESULTS.md", [one, two])
    assert (tmp_path / "results" / "figures" / "B1.png").stat().st_size > 10_000
    write_page(tmp_path / "RESULTS.md", [one])
    assert not (tmp_path / "results" / "figures" / "B1.png").exists()


def test_json_keeps_the_contract(home: Path) -> None:
    """The list is that of the claims, as before; what lies beyond one stands in it, with the same keys."""
    done = CliRunner().invoke(app, ["claims", *map(str, folders(home)), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert [one["id"] for one in found] == [claim.id for claim in CLAIMS]
    entries = {entry["id"]: entry for one in found for entry in one["beyond"]}
    assert sorted(entries) == sorted(one.id for one in QUESTIONS)
    for entry in entries.values():
        assert {"id", "statement", "published", "ours", "interval", "seeds", "verdict"} <= set(entry)
        assert entry["published"] is None and entry["interval"][0] <= entry["ours"] <= entry["interval"][1]
        keys = {"name", "difference", "interval", "p", "word", "by_probe", "by_probe_interval", "by_probe_word"}
        assert keys == set(entry["comparisons"][0])
        own = [one["difference"] for one in entry["comparisons"] if one["name"] in entry["ours_of"]]
        assert len(own) == len(entry["ours_of"]) and np.mean(own) == pytest.approx(entry["ours"])
        assert entry["by_probe_only"] == []
    assert all("small" in name for name in entries["B1"]["ours_of"]) and len(entries["B1"]["comparisons"]) > 2
    search = next(one for one in found if one["id"] == "C4")["beyond"][0]
    assert search["id"] == "B7" and search["studies"] == ["jepa", "jepa-confirm"] and search["seeds"] == 8


def test_the_command_prints_the_answers(home: Path) -> None:
    done = CliRunner().invoke(app, ["claims", *map(str, folders(home))])
    assert done.exit_code == 0, done.output
    assert "Beyond the papers" in done.output and all(f"│ {one.id:<3} │" in done.output for one in QUESTIONS)


def test_a_figure_needs_an_answer(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no answer"):
        draw_entry(Entry(BY_ID["B1"], None, "There is none."), tmp_path / "B1.png")


def test_differences_are_dark_where_clear_and_have_their_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No colour of a family is among them."""
    entry = asked("B1", plant_shares(tmp_path / "spread", spread_study(), by_arm(SPREAD)))
    assert entry.found is not None
    contrasts = entry.found.contrasts
    dark = {one.label for one in contrasts if shade(one) == INK}
    assert dark == {label for label, word in words(entry).items() if word in ("higher", "lower")} != set()
    assert len({shade(one) for one in contrasts}) == 2
    drawn, write = [], Axes.text
    monkeypatch.setattr(Axes, "text", lambda axes, x, y, s, **style: drawn.append(s) or write(axes, x, y, s, **style))
    draw_entry(entry, tmp_path / "B1.png")
    assert drawn == list(words(entry).values())


def test_a_figure_says_how_many_seeds_its_comparisons_have(tmp_path: Path) -> None:
    entry = asked("B1", plant_shares(tmp_path, spread_study(), by_arm(SPREAD)))
    assert entry.found is not None and seeds_text(entry.found) == "8 seeds"
    first, *others = entry.found.contrasts
    more = replace(first, values={seed: 0.1 for seed in range(16)})
    assert seeds_text(replace(entry.found, contrasts=(more, *others))) == "8 to 16 seeds"
    assert seeds_text(replace(entry.found, contrasts=())) == "8 seeds"


def test_questions_fit_their_figures_and_stand_in_the_documents() -> None:
    text = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    claims = {claim.id for claim in CLAIMS}
    for one in QUESTIONS:
        assert len(one.question) <= 120 and len(one.compares) <= 120 and one.claim in claims
        assert f"- **{one.id}, " in text.split("## Beyond the papers")[1]
    for one in QUESTIONS:
        for name in one.studies:
            assert f"`{name}`" in text or f"`{name[:-1]}N`" in text
