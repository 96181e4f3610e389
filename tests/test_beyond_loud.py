"""B9, the ladder told loudly: two studies side by side, planted so that every word is reached and every gap is told."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from folders import facts_of
from planted_beyond import Share, by_arm, drawn, of_library, plant_shares, some_arms, told_loudly, words
from planted_cells import lean
from recombine.claims.beyond.entries import Entry, Gains, Over
from recombine.claims.beyond.figures import draw_entry
from recombine.claims.beyond.loud import B9, in_both, judge_loud
from recombine.claims.beyond.questions import ask_beyond, look_beyond
from recombine.claims.beyond.sections import beyond_sections
from recombine.claims.ledger import open_studies
from recombine.claims.tables import NAMED, Measure, open_study
from recombine.studies.spec import Study

QUIET = {"maskgit": 0.3, "maskgit-jepa": 0.35, "givt": 0.5, "mar": 0.4, "dit-vq": 0.45, "dit-vae": 0.2}
LOUD = QUIET | {"maskgit": 0.02, "maskgit-jepa": 0.25, "mar": 0.6}
NAMES = ("MaskGIT", "MaskGIT + JEPA", "GIVT", "MAR", "DiT on VQ tokens", "DiT on VAE tokens")
STUDIES = {"objectives": of_library("objectives"), "loud": of_library("loud")}


def with_seeds(ends: Mapping[str, float], word: str, noise: float = 0.01) -> Share:
    """As `by_arm`, with seeds that lean otherwise in another study: arms of one name would lean alike."""

    def share(arm: str, text: str, level: int, seed: int) -> float:
        return ends[arm] + noise * lean(seed, f"{arm} {word}") if level else 0.97

    return share


def pair(
    folder: Path,
    loud: Mapping[str, float] = LOUD,
    studies: Mapping[str, Study] = STUDIES,
    noise: float = 0.01,
    **more: Any,
) -> list[Path]:
    """Both studies, loud first."""
    ends = {"loud": loud, "objectives": QUIET}
    return [
        plant_shares(folder / word, studies[word], with_seeds(own, word, noise), noise=0, evaluations=5, **more)
        for word, own in ends.items()
    ]


def asked(*folders: Path) -> Entry:
    return ask_beyond(B9, open_studies(folders))


# The study


def test_the_study_is_objectives_but_for_the_vectors() -> None:
    quiet, loud = (STUDIES[word].resolved() for word in ("objectives", "loud"))
    assert loud["arms"] == told_loudly(STUDIES["objectives"]).resolved()["arms"] != quiet["arms"]
    assert list(loud["arms"]) == list(quiet["arms"])
    for word in ("world", "split", "judging", "seeds"):
        assert loud[word] == quiet[word]


def test_its_maskgit_is_taken_over_from_spread() -> None:
    """The same arm under the same judge, which depends on the tokenizers of the whole study."""
    loud, spread = STUDIES["loud"].resolved(), of_library("spread").resolved()
    assert loud["arms"]["maskgit"] == spread["arms"]["maskgit-large"]
    for word in ("world", "split", "judging", "seeds"):
        assert loud[word] == spread[word]
    tokens = [[arm["tokenizer"] for arm in study["arms"].values()] for study in (loud, spread)]
    first = [[one for i, one in enumerate(own) if one not in own[:i]] for own in tokens]
    assert first[0] == first[1] and len(first[0]) == 2


def test_families_are_found_by_their_settings(tmp_path: Path) -> None:
    """Names do not matter; an arm that differs in more than the vectors has no family."""
    resolved = STUDIES["loud"].resolved()
    arms = {f"{name}-renamed": arm for name, arm in resolved["arms"].items()}
    arms["mar-renamed"] = arms["mar-renamed"] | {"training": arms["mar-renamed"]["training"] | {"rate": 5e-4}}
    other = Study.model_validate(resolved | {"arms": arms})
    loud = open_study(plant_shares(tmp_path / "loud", other, by_arm({}), evaluations=1))
    quiet = open_study(plant_shares(tmp_path / "quiet", STUDIES["objectives"], by_arm({}), evaluations=1))
    found = in_both(loud, quiet)
    assert {label: [arm.name for arm in group.values()] for label, group in found.families.items()} == {
        label: [name, f"{name}-renamed"] for label, name in zip(NAMES, QUIET, strict=True) if label != "MAR"
    }
    assert all([*group] == [0.2, 1.0] for group in found.families.values())
    assert not in_both(quiet, loud).families  # loud is the one whose vectors are larger


# The answer


def test_it_matters(tmp_path: Path) -> None:
    entry = asked(*pair(tmp_path))
    assert entry.word == "it matters"
    assert words(entry) == dict(zip(NAMES, ("lower", "lower", "alike", "higher", "alike", "alike"), strict=True))
    assert entry.text.startswith("Yes: with vectors that begin with 1 in place of 0.2, level-2 is higher for MAR, +20 ")
    assert "lower for MaskGIT, \u221228 points (" in entry.text
    found = entry.found
    assert found is not None and [study.name for study in found.studies] == ["loud", "objectives"]
    ends = {
        word: np.array([[own[arm] + 0.01 * lean(s, f"{arm} {word}") for s in range(8)] for arm in QUIET])
        for word, own in (("loud", LOUD), ("objectives", QUIET))
    }
    assert found.ours.mean == pytest.approx(np.mean(ends["loud"].clip(0) - ends["objectives"])) and found.ours.n == 8
    over, gains = found.panels
    assert isinstance(over, Over) and over.ticks == ("0.2", "1") and [line.label for line in over.lines] == list(NAMES)
    assert np.mean(over.lines[3].values["1"]) == pytest.approx(0.6, abs=0.02)
    assert len({line.colour for line in over.lines}) == 6 and over.lines[1].colour == "pink"  # as JEPA is elsewhere
    assert isinstance(gains, Gains) and gains.contrasts == found.contrasts
    assert found.arms["MAR with 0.2"] == "mar" and len(found.arms) == 12
    assert not any("differ" in limit for limit in entry.limits)
    assert draw_entry(entry, tmp_path / "B9.png").stat().st_size > 10_000


def test_names_stay_above_their_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six of them are longer than it is wide."""
    figure = drawn(asked(*pair(tmp_path)), tmp_path, monkeypatch)
    panel = figure.axes[0]
    legend = panel.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == list(NAMES)
    names, above = legend.get_window_extent(), panel._left_title.get_window_extent()
    assert names.x1 <= panel.bbox.x1 and panel.bbox.y1 <= names.y0 and names.y1 <= above.y0
    assert above.y1 < min(text.get_window_extent().y0 for text in figure.texts)


def test_higher_alone_matters_too(tmp_path: Path) -> None:
    assert asked(*pair(tmp_path, {arm: end + 0.2 for arm, end in QUIET.items()})).word == "it matters"


def test_no_difference(tmp_path: Path) -> None:
    entry = asked(*pair(tmp_path, QUIET))
    assert entry.word == "no difference" and set(words(entry).values()) == {"alike"} and entry.text.startswith("No: ")


def test_the_seeds_cannot_tell(tmp_path: Path) -> None:
    entry = asked(*pair(tmp_path, QUIET, noise=0.15))
    assert entry.word == "cannot tell" and "not clear" in words(entry).values()
    assert entry.text.startswith("The seeds cannot tell: ")


def test_comparisons_are_paired_by_seed_across_studies(tmp_path: Path) -> None:
    """What both studies share of a seed is no noise, and seeds go by number, not by their place."""

    def share(shift: float) -> Share:
        return lambda arm, text, level, seed: 0.3 + 0.05 * seed - shift if level else 0.97

    loud = plant_shares(tmp_path / "loud", STUDIES["loud"], share(0.1), noise=0, seeds=range(10))
    quiet = plant_shares(tmp_path / "quiet", STUDIES["objectives"], share(0.0), noise=0, seeds=[*range(9, 1, -1)])
    entry = asked(loud, quiet)
    assert set(words(entry).values()) == {"lower"} and entry.found is not None
    assert entry.found.contrasts[0].test.n == 8 and entry.found.contrasts[0].test.mean == pytest.approx(-0.1)


# What stands beside it


def test_the_ladders_step_and_jepas_gain_are_told_beside(tmp_path: Path) -> None:
    entry = asked(*pair(tmp_path))
    found = entry.found
    assert found is not None
    ladder, jepa, last = found.more
    # GIVT, MAR and DiT: a mean of 45 % minus 30 %, then of 52 % minus 2 %.
    assert ladder.startswith(
        "The ladder's step, GIVT, MAR and DiT on VQ tokens (their mean) minus MaskGIT, is +15 points ("
    )
    assert "higher) with 0.2 and +50 points (" in ladder and "it changes by +35 points (" in ladder
    assert ladder.endswith(", higher).")
    assert jepa.startswith("JEPA's gain is +5 points (") and "with 0.2 and +23 points (" in jepa
    assert "changes by +18 points (" in jepa and "corrected together, apart from" in last
    # They are corrected by themselves and do not decide the answer: they are folded on the page, and in the JSON.
    assert len(found.contrasts) == 6 and entry.to_json()["evidence"] == list(found.more)
    assert f"<summary>More numbers</summary>\n\n{' '.join(found.more)}\n\n" in "\n\n".join(
        beyond_sections([entry], tmp_path)
    )


def test_steps_are_about_families_that_both_studies_have(tmp_path: Path) -> None:
    few = {
        "objectives": STUDIES["objectives"],
        "loud": some_arms(STUDIES["loud"], "loud", ["maskgit", "givt", "dit-vae"]),
    }
    found = asked(*pair(tmp_path / "one", studies=few)).found
    assert found is not None and len(found.more) == 2
    assert found.more[0].startswith("The ladder's step, GIVT minus MaskGIT, is +20 points (")
    none = few | {"loud": some_arms(STUDIES["loud"], "loud", ["maskgit-jepa", "givt"])}
    found = asked(*pair(tmp_path / "two", studies=none)).found
    assert found is not None and found.more == ()


# What is not compared


@pytest.mark.parametrize("lacks", ["loud", "objectives"])
def test_a_family_that_one_study_lacks(tmp_path: Path, lacks: str) -> None:
    kept = [arm for arm in QUIET if arm != "mar"]
    entry = asked(*pair(tmp_path, studies=STUDIES | {lacks: some_arms(STUDIES[lacks], lacks, kept)}))
    assert set(words(entry)) == set(NAMES) - {"MAR"}
    has = "objectives" if lacks == "loud" else "loud"
    said = "Not compared, since the other study has no arm that differs in conditioning.spread alone: "
    assert f"{said}mar of {has}." in entry.limits


def test_no_family_in_both(tmp_path: Path) -> None:
    studies = {word: some_arms(STUDIES[word], word, [arm]) for word, arm in (("loud", "mar"), ("objectives", "givt"))}
    entry = asked(*pair(tmp_path, studies=studies))
    assert entry.found is None and "have no arms that differ in conditioning.spread alone" in entry.why


def test_objectives_must_be_given(tmp_path: Path) -> None:
    loud, quiet = pair(tmp_path)
    entry = asked(loud)
    assert entry.found is None and entry.why == "The study objectives, which loud is compared with, was not given."
    assert "B9" not in [one.id for one in look_beyond(open_studies([quiet]))]
    assert "B9" in [one.id for one in look_beyond(open_studies([loud, quiet]))]


def test_too_few_seeds(tmp_path: Path) -> None:
    entry = asked(*pair(tmp_path / "few", seeds=range(5)))
    assert entry.found is None and "The arms of the studies loud and objectives share 5 seeds" in entry.why
    loud = plant_shares(tmp_path / "loud", STUDIES["loud"], by_arm(LOUD), seeds=range(8, 16), evaluations=5)
    quiet = plant_shares(tmp_path / "quiet", STUDIES["objectives"], by_arm(QUIET), evaluations=5)
    apart = asked(loud, quiet)
    assert apart.found is None and "share 0 seeds" in apart.why


def dull_in(word: str, *dull: str) -> Share:
    ends = {"loud": LOUD, "objectives": QUIET}[word]
    return lambda arm, text, level, seed: ends[arm] if level else 0.4 if arm in dull else 0.97


@pytest.mark.parametrize(("word", "size"), [("loud", "1"), ("objectives", "0.2")])
def test_an_arm_that_has_not_learned(tmp_path: Path, word: str, size: str) -> None:
    """In either study; what is told beside leaves its family out too."""
    folders = [
        plant_shares(tmp_path / one, STUDIES[one], dull_in(one, *(("givt",) if one == word else ())), evaluations=5)
        for one in STUDIES
    ]
    entry = asked(*folders)
    assert set(words(entry)) == set(NAMES) - {"GIVT"}
    said = f"GIVT with {size} draws only 40\u00a0% of the trained compositions and is not compared."
    assert said in entry.limits
    assert entry.found is not None and entry.found.more[0].startswith("The ladder's step, MAR and DiT on VQ tokens (")
    over = entry.found.panels[0]
    assert isinstance(over, Over) and "GIVT" in [line.label for line in over.lines]  # it is drawn all the same


def test_no_arm_has_learned(tmp_path: Path) -> None:
    folders = [plant_shares(tmp_path / one, STUDIES[one], dull_in(one, *QUIET), evaluations=5) for one in STUDIES]
    entry = asked(*folders)
    assert entry.found is None
    assert entry.why.startswith("No two arms of the studies loud and objectives") and "have learned" in entry.why


# Other measures, and studies that are not alike


def test_the_measure_is_the_callers(tmp_path: Path) -> None:
    """Right and valid alike in both studies; the probe alone sees more in objectives."""
    loud = plant_shares(tmp_path / "loud", STUDIES["loud"], by_arm({}, others=0.3), evaluations=5)
    quiet = plant_shares(tmp_path / "quiet", STUDIES["objectives"], by_arm({}, others=0.3), evaluations=5, probe=0.4)
    entry = asked(loud, quiet)
    assert entry.word == "no difference"
    assert {one.label: one.word for one in entry.named} == dict.fromkeys(NAMES, "lower")
    probe = judge_loud(open_studies([loud, quiet]), Measure(NAMED))
    assert probe.word == "it matters" and probe.ours.mean == pytest.approx(-0.4)
    over = probe.panels[0]
    assert isinstance(over, Over) and np.mean(over.lines[0].values["0.2"]) == pytest.approx(0.7, abs=0.02)


def test_studies_that_are_judged_otherwise(tmp_path: Path) -> None:
    resolved = STUDIES["loud"].resolved()
    other = Study.model_validate(resolved | {"judging": resolved["judging"] | {"samples": 256}})
    entry = asked(*pair(tmp_path, studies=STUDIES | {"loud": other}))
    assert "The studies loud and objectives also differ in judging." in entry.limits


@pytest.mark.parametrize(("limit", "said"), [(0.09, False), (0.1, True)])
def test_judges_that_came_out_otherwise(tmp_path: Path, limit: float, said: bool) -> None:
    """Each study fits its own; with equal tokenizers they come out the same."""
    folders = pair(tmp_path)
    for folder, own in zip(folders, (limit, 0.09), strict=True):
        with facts_of(folder) as facts:
            facts["judge"] = {"threshold": own}
    entry = asked(*folders)
    assert ("The studies loud and objectives also differ in the judge's limit." in entry.limits) is said
