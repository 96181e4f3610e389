"""Beyond the papers, where a comparison could mislead: tokenizers that cannot write level-2, arms at the floor, and
guidance that may help any model; and studies of which some arms, or one of three, were not run. The studies are
planted with arms of their own, so that these rules do not hang on what the library holds today."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from planted import study_of
from planted_beyond import by_arm, of_library, plant_shares, some_arms
from recombine.claims.beyond.entries import Contrast, Entry, Gains, Rows
from recombine.claims.beyond.figures import draw_entry
from recombine.claims.beyond.numbers import compare
from recombine.claims.beyond.questions import QUESTIONS, ask_beyond
from recombine.claims.ledger import open_studies
from recombine.judges.statistics import Difference
from recombine.studies.spec import Study

BY_ID = {one.id: one for one in QUESTIONS}
SPACE = "\u00a0"
VQ, VAE = {"kind": "vqvae", "factor": 4, "codes": 256, "channels": 16}, {"kind": "vae", "factor": 4, "channels": 16}
SEEN = study_of(
    "tokenizers-seen",
    {
        "vq": {"generator": "dit", "tokenizer": VQ},
        "vae": {"generator": "dit", "tokenizer": VAE},
        "vq-train": {"generator": "dit", "tokenizer": {**VQ, "sees": "train"}},
        "vae-train": {"generator": "dit", "tokenizer": {**VAE, "sees": "train"}},
    },
)
TENTH = {"kind": "quantized", "dropout": 0.1}
EACH = {"kind": "dit", "guidance": 1, "guided": "each"}
REMEDIES = study_of(
    "remedies",
    {
        "complete": {"generator": "dit"},
        "unknown": {"generator": "dit", "conditioning": TENTH},
        "imputed": {"generator": "dit", "conditioning": {**TENTH, "missing": "imputed"}},
        "zero": {"generator": "dit", "conditioning": {**TENTH, "missing": "zero"}},
        "guided-each": {"generator": EACH, "conditioning": TENTH},
        "complete-guided": {
            "generator": {"kind": "dit", "guidance": 1},
            "conditioning": {"kind": "quantized", "dropout": 0, "drop_all": 0.1},
        },
    },
)


def asked(which: str, *folders: Path) -> Entry:
    return ask_beyond(BY_ID[which], open_studies(folders))


def words(entry: Entry) -> dict[str, str]:
    assert entry.found is not None, entry.why
    return {one.label: one.word for one in entry.found.contrasts}


def seen(folder: Path, ends: Mapping[str, float], tops: Mapping[str, float | None], **more: Any) -> Entry:
    return asked("B6", plant_shares(folder, SEEN, by_arm(ends), ceilings=tops, evaluations=5, **more))


# B6: tokenizers that cannot write level-2


def test_b6_does_not_compare_what_the_tokenizer_cannot_write(tmp_path: Path) -> None:
    """Both arms of VQ tokens are at the floor, so they are alike; the tokenizer of one cannot write level-2."""
    ends = {"vq": 0.02, "vq-train": 0.01, "vae": 0.8, "vae-train": 0.6}
    entry = seen(tmp_path, ends, {"vq-train": 0.0, "vae-train": 0.9})
    assert words(entry) == {"VAE tokens": "lower"} and entry.word == "it costs"
    assert (
        f"the VQ-VAE that saw trained compositions only can itself write 0{SPACE}% of level-2, so its arm, which draws "
        f"1.0{SPACE}% (" in entry.text
    )
    assert entry.text.endswith("is not compared.") and f"reproduces 90{SPACE}% for VAE tokens of real" in entry.text
    found = entry.found
    assert found is not None and found.ours.mean == pytest.approx(-0.2, abs=0.01)  # of VAE tokens alone
    rows = found.panels[0]
    assert isinstance(rows, Rows) and len(rows.rows) == 4  # it is drawn all the same
    assert entry.to_json()["thresholds"]["composes"] == 0.5


@pytest.mark.parametrize(("top", "compared"), [(0.49, False), (0.5, True), (None, True)])
def test_b6_the_ceiling_that_an_arm_needs(tmp_path: Path, top: float | None, compared: bool) -> None:
    ends = {"vq": 0.9, "vq-train": 0.4, "vae": 0.8, "vae-train": 0.8}
    entry = seen(tmp_path, ends, {"vq-train": top})
    assert ("VQ tokens" in words(entry)) is compared and entry.word == ("it costs" if compared else "no loss")
    unknown = "Whether its tokenizer can itself write level-2 was not measured: VQ tokens, saw train."
    assert (unknown in entry.limits) is (top is None)


def test_b6_asks_it_of_tokenizers_that_saw_all_too(tmp_path: Path) -> None:
    entry = seen(tmp_path, {"vq": 0.1, "vq-train": 0.1, "vae": 0.8, "vae-train": 0.8}, {"vq": 0.2})
    assert set(words(entry)) == {"VAE tokens"} and "the VQ-VAE that saw all compositions can itself" in entry.text


def test_b6_study_without_any_ceiling(tmp_path: Path) -> None:
    folder = plant_shares(tmp_path, SEEN, by_arm({}, others=0.8), evaluations=5)
    facts = json.loads((folder / "study.json").read_text())
    del facts["tokenizers"]
    for arm in facts["arms"].values():
        del arm["tokenizer"]
    (folder / "study.json").write_text(json.dumps(facts), encoding="utf-8")
    entry = asked("B6", folder)
    assert entry.word == "no loss" and "reproduces" not in entry.text
    assert any("was not measured: VAE tokens, saw all" in limit for limit in entry.limits)


def test_b6_nothing_is_left_to_compare(tmp_path: Path) -> None:
    """No answer, with the ceilings as the reason and not that arms had not learned."""
    entry = seen(
        tmp_path, {"vq": 0.9, "vae": 0.9, "vq-train": 0.0, "vae-train": 0.0}, {"vq-train": 0, "vae-train": 0.1}
    )
    assert entry.found is None and "have learned" not in entry.why
    assert f"The study {SEEN.name} leaves nothing to compare: the V" in entry.why
    assert f"write 0{SPACE}% of level-2" in entry.why and f"write 10{SPACE}% of level-2" in entry.why

    def share(arm: str, text: str, level: int, seed: int) -> float:
        return 0.3 if arm == "vae" else 0.97 - 0.2 * level

    tops = {"vq-train": 0.0}
    mixed = asked("B6", plant_shares(tmp_path / "mixed", SEEN, share, ceilings=tops, evaluations=5))
    assert mixed.found is None and "write 0" in mixed.why and "VAE tokens, saw all draws only" in mixed.why
    assert ".." not in mixed.why and ".;" not in mixed.why


# B6: arms at the floor


def test_b6_alike_at_the_floor_is_no_answer(tmp_path: Path) -> None:
    both = {"vq-train": 0.9, "vae-train": 0.9}
    entry = seen(tmp_path / "all", dict.fromkeys(SEEN.arms, 0.03), both)
    assert set(words(entry).values()) == {"neither composes"} and entry.word == "neither composes"
    assert entry.found is not None and entry.found.tone == "open"
    assert (
        entry.text.startswith("It cannot be told where neither arm composes: ") and "within 5 points" not in entry.text
    )
    assert "below half either way (neither composes) for" in entry.text
    assert draw_entry(entry, tmp_path / "B6.png").stat().st_size > 10_000
    # One kind at the floor does not keep the other from being told.
    one = seen(tmp_path / "one", {"vq": 0.03, "vq-train": 0.03, "vae": 0.8, "vae-train": 0.8}, both)
    assert words(one) == {"VQ tokens": "neither composes", "VAE tokens": "alike"} and one.word == "no loss"
    # A clear loss below half is a loss; seeds that cannot tell still cannot.
    loss = seen(tmp_path / "loss", {"vq": 0.4, "vq-train": 0.1, "vae": 0.03, "vae-train": 0.03}, both)
    assert words(loss) == {"VQ tokens": "lower", "VAE tokens": "neither composes"} and loss.word == "it costs"
    wide = seen(tmp_path / "wide", dict.fromkeys(SEEN.arms, 0.3), both, noise=0.2)
    assert set(words(wide).values()) == {"not clear"} and wide.word == "cannot tell"


def test_only_a_given_floor_counts() -> None:
    """Numbers that are no shares may lie below 0, so that no floor is no floor of 0."""
    low = {seed: -0.2 for seed in range(8)}
    assert [one.word for one in compare({"a": (low, low)}, "here")] == ["alike"]
    assert [one.word for one in compare({"a": (low, low)}, "here", floor=0.5)] == ["neither composes"]
    half = {seed: 0.6 * (seed % 2) + 0.2 for seed in range(8)}  # the mean is 0.5: not below
    assert [one.word for one in compare({"a": (half, half)}, "here", floor=0.5)] == ["alike"]
    one = Contrast("a", {}, Difference(-0.3, -0.4, -0.2, 0.001, None, 8), 0.001, both_low=True)
    assert one.word == "lower"


# B3: guidance where nothing is missing

ENDS = {"complete": 0.8, "unknown": 0.5, "imputed": 0.5, "zero": 0.3, "guided-each": 0.62, "complete-guided": 0.88}
CONTROL, GUIDED = f"guided by all together, 0{SPACE}%", f"guided by each factor, 10{SPACE}%"


def remedied(folder: Path, ends: Mapping[str, float], study: Study = REMEDIES, **more: Any) -> Entry:
    return asked("B3", plant_shares(folder, study, by_arm(ends), evaluations=5, **more))


def test_b3_tells_what_guidance_does_where_nothing_is_missing(tmp_path: Path) -> None:
    entry = remedied(tmp_path, ENDS)
    assert words(entry) == {
        f"a guess from the image, 10{SPACE}%": "alike",
        f"class 0 told, 10{SPACE}%": "lower",
        GUIDED: "higher",
        CONTROL: "higher",
    }
    found = entry.found
    assert (
        found is not None and found.arms[CONTROL] == "complete-guided" and found.arms["told everything"] == "complete"
    )
    gain, helped = (next(one for one in found.contrasts if one.label == label) for label in (CONTROL, GUIDED))
    assert gain.test.mean == pytest.approx(0.08, abs=0.01)  # less complete, not less unknown
    assert f"and against it level-2 is higher for {CONTROL}, {gain.text}" in entry.text
    assert f", beside {helped.text} for {GUIDED}." in entry.text and helped.test.mean == pytest.approx(0.12, abs=0.01)
    rows, gains = found.panels
    assert isinstance(rows, Rows) and rows.rows[0].label == CONTROL and len(rows.rows) == 5
    assert isinstance(gains, Gains) and gains.title == f"Less unknown (0{SPACE}%: less told everything)"
    assert found.ours.mean == pytest.approx(0.0, abs=0.01)  # a guess less unknown, as before
    assert any(f"nothing told at all (10{SPACE}% of the labels)" in limit for limit in entry.limits)
    assert draw_entry(entry, tmp_path / "B3.png").stat().st_size > 10_000


def test_b3_the_control_is_no_remedy(tmp_path: Path) -> None:
    """Guidance that helps a model that lacks nothing does not say that a remedy helps; nor is it our number."""
    ends = dict.fromkeys(ENDS, 0.5) | {"complete-guided": 0.9}
    entry = remedied(tmp_path / "one", ends)
    assert words(entry)[CONTROL] == "higher" and entry.word == "none helps" and entry.text.startswith("No: ")
    few = some_arms(REMEDIES, "remedies", ["complete", "unknown", "zero", "complete-guided"])
    without = remedied(tmp_path / "two", ends, few)  # no guess: our number is the mean of the remedies
    assert without.found is not None and without.found.ours.mean == pytest.approx(0, abs=0.01)
    assert "beside" not in without.text


def test_b3_at_two_shares_of_missing_labels(tmp_path: Path) -> None:
    """Each remedy is compared at its own share, and the control at none."""
    third = {"kind": "quantized", "dropout": 0.33}
    more = {
        "unknown-third": {"generator": "dit", "conditioning": third},
        "imputed-third": {"generator": "dit", "conditioning": {**third, "missing": "imputed"}},
    }
    both = REMEDIES.resolved()
    both["arms"] |= study_of("remedies", more).resolved()["arms"]
    ends = ENDS | {"unknown-third": 0.2, "imputed-third": 0.5}
    entry = remedied(tmp_path, ends, Study.model_validate(both))
    assert words(entry)[f"a guess from the image, 33{SPACE}%"] == "higher"  # less 20 %, not less 50 %
    assert words(entry)[f"a guess from the image, 10{SPACE}%"] == "alike" and words(entry)[CONTROL] == "higher"
    assert f"with 33{SPACE}% missing (unknown: 20{SPACE}% (" in entry.text
    assert entry.found is not None and entry.found.ours.mean == pytest.approx(0.15, abs=0.01)


@pytest.mark.parametrize("gone", ["complete", "complete-guided", "guided-each", "imputed", "zero"])
def test_b3_answers_without_any_one_arm(tmp_path: Path, gone: str) -> None:
    study = some_arms(REMEDIES, "remedies", [arm for arm in REMEDIES.arms if arm != gone])
    entry = remedied(tmp_path, ENDS, study)
    both = gone not in ("complete", "complete-guided")
    assert (CONTROL in words(entry)) is both and ("against it level-2" in entry.text) is both
    assert len(words(entry)) == 3 and not entry.text.endswith("..")


def test_b3_a_control_that_has_not_learned(tmp_path: Path) -> None:
    for dull, label in {"complete-guided": CONTROL, "complete": "told everything"}.items():

        def share(arm: str, text: str, level: int, seed: int, dull: str = dull) -> float:
            return ENDS[arm] if level else 0.4 if arm == dull else 0.97

        entry = asked("B3", plant_shares(tmp_path / dull, REMEDIES, share, evaluations=5))
        assert CONTROL not in words(entry) and len(words(entry)) == 3
        assert any(limit.startswith(f"{label} draws only 40{SPACE}%") for limit in entry.limits)

    def only_control(arm: str, text: str, level: int, seed: int) -> float:
        return ENDS[arm] if level else 0.97 if arm.startswith("complete") else 0.4

    none = asked("B3", plant_shares(tmp_path / "none", REMEDIES, only_control, evaluations=5))
    assert none.found is None and "no remedy and unknown that both learned" in none.why


# Arms and studies that were not run


def test_b5_answers_from_two_of_three_studies(tmp_path: Path) -> None:
    folders = [
        plant_shares(
            tmp_path / str(n),
            of_library(f"coverage-values-{n}"),
            by_arm({"dit": 0.22 * n, "maskgit": 0.1}),
            evaluations=5,
        )
        for n in (4, 2)
    ]
    entry = asked("B5", *folders)
    assert words(entry) == {"DiT": "higher", "MaskGIT": "alike"} and "with 4 values instead of 2" in entry.text
    assert "DiT first draws more than half with 4 values per factor" in entry.text
    assert entry.found is not None and [study.name[-1] for study in entry.found.studies] == ["2", "4"]
    assert draw_entry(entry, tmp_path / "B5.png").stat().st_size > 10_000


@pytest.mark.parametrize(("sizes", "said"), [(2, True), (3, False)])
def test_b5_says_where_not_every_factor_has_as_many_values(tmp_path: Path, sizes: int, said: bool) -> None:
    folders = []
    for n, last in ((2, 2), (3, sizes)):
        words = of_library(f"coverage-values-{n}").resolved()
        words["world"] |= {"shapes": n, "colours": n, "sizes": last}
        study = Study.model_validate(words)
        folders.append(plant_shares(tmp_path / str(n), study, by_arm({}, others=0.4), evaluations=5))
    limits = " ".join(asked("B5", *folders).limits)
    assert ("the worlds are 2 x 2 x 2 and 3 x 3 x 2." in limits) is said


def test_b2_without_the_weakest_dependence(tmp_path: Path) -> None:
    library = of_library("dependent")
    study = some_arms(library, "dependent", [arm for arm in library.arms if not arm.endswith("-1")])

    def share(arm: str, text: str, level: int, seed: int) -> float:
        return 0.97 if level == 0 else 0.5 - 0.1 * int(arm[-1]) * (level == 2)

    entry = asked("B2", plant_shares(tmp_path, study, share, evaluations=5))
    assert words(entry)["DiT"] == "lower" and "at the strongest dependence (3) against none" in entry.text
    assert draw_entry(entry, tmp_path / "B2.png").stat().st_size > 10_000


def test_b4_without_one_number_of_compositions(tmp_path: Path) -> None:
    library = of_library("coverage")
    study = some_arms(library, "coverage", [arm for arm in library.arms if not arm.endswith("-7")])

    def share(arm: str, text: str, level: int, seed: int) -> float:
        return 0.97 if level == 0 else 0.95 * int(arm.split("-")[1]) / 20 - 0.02 * level

    entry = asked("B4", plant_shares(tmp_path, study, share, evaluations=5))
    assert words(entry) == {"DiT": "higher", "MaskGIT": "higher"}
    assert "DiT first draws more than half with 12 of 27 trained" in entry.text
    assert "with 20 trained instead of 4" in entry.text
    assert any("level 2 with 4, 2 with 12, 1 with 20 trained" in limit for limit in entry.limits)
    assert draw_entry(entry, tmp_path / "B4.png").stat().st_size > 10_000
