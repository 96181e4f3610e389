"""B6, what the tokenizer has seen: what it can write, and arms at the floor."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from folders import facts_of
from planted import study_of
from planted_beyond import Share, asked, by_arm, of_library, plant_shares, some_arms, words
from recombine.claims.beyond.entries import Entry, Rows
from recombine.claims.beyond.figures import draw_entry

SPACE = "\u00a0"
# Arms of their own, so that these rules do not hang on what the library holds today.
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


def seen(folder: Path, ends: Mapping[str, float], tops: Mapping[str, float | None], **more: Any) -> Entry:
    return asked("B6", plant_shares(folder, SEEN, by_arm(ends), ceilings=tops, evaluations=5, **more))


def test_b6_pairs_what_the_tokenizer_saw(tmp_path: Path) -> None:
    ends = {"vq": 0.6, "vq-sees-train": 0.01, "vae": 0.7, "vae-sees-train": 0.7, "pixels": 0.9}
    tops = {"vq": 1.0, "vae": 1.0, "vq-sees-train": 0.6, "vae-sees-train": 0.9}
    entry = asked("B6", plant_shares(tmp_path, of_library("tokenizers-seen"), by_arm(ends), ceilings=tops))
    assert words(entry) == {"VAE tokens, level-2": "alike", "VQ tokens, level-2": "lower"} and entry.word == "it costs"
    assert "reproduces 90\u00a0% for VAE tokens and 60\u00a0% for VQ tokens" in entry.text
    plain = some_arms(of_library("tokenizers-seen"), "tokenizers-seen", ["vq", "vae"])
    none = asked("B6", plant_shares(tmp_path / "none", plain, by_arm(ends)))
    assert none.found is None and "saw trained compositions only" in none.why


# Tokenizers that cannot write level-2


def test_b6_does_not_compare_what_the_tokenizer_cannot_write(tmp_path: Path) -> None:
    """Both arms of VQ tokens are at the floor, so they are alike; the tokenizer of one cannot write level-2."""
    ends = {"vq": 0.02, "vq-train": 0.01, "vae": 0.8, "vae-train": 0.6}
    entry = seen(tmp_path, ends, {"vq-train": 0.0, "vae-train": 0.9})
    assert words(entry) == {"VAE tokens, level-2": "lower"} and entry.word == "it costs"
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
    assert ("VQ tokens, level-2" in words(entry)) is compared and entry.word == ("it costs" if compared else "no loss")
    unknown = "Whether its tokenizer can itself write level-2 was not measured: VQ tokens, saw train."
    assert (unknown in entry.limits) is (top is None)


def test_b6_asks_it_of_tokenizers_that_saw_all_too(tmp_path: Path) -> None:
    entry = seen(tmp_path, {"vq": 0.1, "vq-train": 0.1, "vae": 0.8, "vae-train": 0.8}, {"vq": 0.2})
    assert (
        set(words(entry)) == {"VAE tokens, level-2"} and "the VQ-VAE that saw all compositions can itself" in entry.text
    )


def test_b6_study_without_any_ceiling(tmp_path: Path) -> None:
    folder = plant_shares(tmp_path, SEEN, by_arm({}, others=0.8), evaluations=5)
    with facts_of(folder) as facts:
        del facts["tokenizers"]
        for arm in facts["arms"].values():
            del arm["tokenizer"]
    entry = asked("B6", folder)
    assert entry.word == "no loss" and "reproduces" not in entry.text
    assert any("was not measured: VAE tokens, saw all" in limit for limit in entry.limits)


CANNOT = {"vq-train": 0.0, "vae-train": 0.1}


def levels(ends: Mapping[str, tuple[float, float, float]]) -> Share:
    """Arms that draw so much of the trained, of level-1 and of level-2."""
    return lambda arm, _, level, __: ends[arm][level]


def test_b6_where_no_tokenizer_can_write_the_rest(tmp_path: Path) -> None:
    """That is the answer; what it costs is compared at level-1, and only there."""
    ends = {"vq": (0.9, 0.6, 0.2), "vae": (0.9, 0.5, 0.1), "vq-train": (0.9, 0.2, 0.0), "vae-train": (0.9, 0.5, 0.0)}
    folder = plant_shares(tmp_path / "a", SEEN, levels(ends), evaluations=5, ceilings=CANNOT, near=0.6)
    entry = asked("B6", folder)
    assert entry.word == "gives little back" and entry.text.startswith("Yes: of real level-2 images a V")
    assert words(entry) == {"VAE tokens, level-1": "alike", "VQ tokens, level-1": "lower"}
    for said in (f"give back 0{SPACE}% and 10{SPACE}% right", f"of which they give back 60{SPACE}% and 60{SPACE}%,"):
        assert said in entry.text
    found = entry.found
    assert found is not None and found.afterwards and found.measure.startswith("level-1")
    assert found.ours.mean == pytest.approx(-0.2, abs=0.01)
    assert [panel.title for panel in found.panels if isinstance(panel, Rows)] == ["Level-2", "Level-1"]
    assert draw_entry(entry, tmp_path / "B6.png").stat().st_size > 10_000
    nothing = dict.fromkeys(CANNOT, 0.0)
    unknown = asked("B6", plant_shares(tmp_path / "b", SEEN, levels(ends), evaluations=5, ceilings=nothing))
    assert "of which they give back" not in unknown.text and words(unknown) == words(entry)
    assert unknown.word == "gives none back"


def test_b6_compares_learned_arms_only_at_level_1_too(tmp_path: Path) -> None:
    ends = {"vq": (0.9, 0.6, 0.2), "vae": (0.9, 0.5, 0.1), "vq-train": (0.9, 0.2, 0.0), "vae-train": (0.6, 0.1, 0.0)}
    entry = asked("B6", plant_shares(tmp_path, SEEN, levels(ends), evaluations=5, ceilings=CANNOT, near=0.6))
    assert words(entry) == {"VQ tokens, level-1": "lower"} and "on VAE tokens" in entry.text
    assert any("VAE tokens, saw train draws only 60" in limit for limit in entry.limits)


def test_b6_by_the_probe_goes_by_its_own_ceilings(tmp_path: Path) -> None:
    ends = {"vq": (0.9, 0.6, 0.2), "vae": (0.9, 0.6, 0.1), "vq-train": (0.9, 0.2, 0.0), "vae-train": (0.9, 0.2, 0.0)}
    folder = plant_shares(tmp_path, SEEN, levels(ends), evaluations=5, ceilings=CANNOT, near=0.6, probe=0.3)
    with facts_of(folder) as facts:
        for one in facts["tokenizers"].values():
            for entry in one["ceiling"].values():
                entry["joint_probe_only"] = 1.0
    entry = asked("B6", folder)
    assert set(words(entry)) == {"VAE tokens, level-1", "VQ tokens, level-1"}
    named = entry.by_probe
    assert named is not None and {one.label for one in named.contrasts} == {"VAE tokens, level-2", "VQ tokens, level-2"}
    assert f"reproduces 100{SPACE}% for" in named.answer and "give back" not in named.answer


def test_b6_nothing_is_left_to_compare(tmp_path: Path) -> None:
    """A tokenizer that saw all and cannot write level-2 either, and arms that have not learned, say nothing of what
    seeing does; the ceilings are the reason, and not that arms had not learned."""
    poor = {"vq": 0.1, "vae": 0.1, **CANNOT}
    entry = seen(tmp_path, dict.fromkeys(SEEN.arms, 0.1), poor)
    assert entry.found is None and "have learned" not in entry.why
    assert f"The study {SEEN.name} leaves nothing to compare: the V" in entry.why
    assert f"write 0{SPACE}% of level-2" in entry.why and f"write 10{SPACE}% of level-2" in entry.why

    def share(arm: str, text: str, level: int, seed: int) -> float:
        return 0.3 if arm == "vae" else 0.97 - 0.2 * level

    mixed = asked("B6", plant_shares(tmp_path / "mixed", SEEN, share, ceilings={"vq-train": 0.0}, evaluations=5))
    assert set(words(mixed)) == {"VQ tokens, level-1"} and "VAE tokens" not in mixed.text
    assert any("VAE tokens, saw all draws only" in limit for limit in mixed.limits)

    def dull(arm: str, text: str, level: int, seed: int) -> float:
        return 0.3 if arm in ("vae", "vq") else 0.97 - 0.2 * level

    none = asked("B6", plant_shares(tmp_path / "none", SEEN, dull, ceilings={"vq-train": 0.0}, evaluations=5))
    assert none.found is None and "write 0" in none.why and "VAE tokens, saw all draws only" in none.why
    assert ".." not in none.why and ".;" not in none.why


# Arms at the floor


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
    assert (
        words(one) == {"VQ tokens, level-2": "neither composes", "VAE tokens, level-2": "alike"}
        and one.word == "no loss"
    )
    # A clear loss below half is a loss; seeds that cannot tell still cannot.
    loss = seen(tmp_path / "loss", {"vq": 0.4, "vq-train": 0.1, "vae": 0.03, "vae-train": 0.03}, both)
    assert (
        words(loss) == {"VQ tokens, level-2": "lower", "VAE tokens, level-2": "neither composes"}
        and loss.word == "it costs"
    )
    wide = seen(tmp_path / "wide", dict.fromkeys(SEEN.arms, 0.3), both, noise=0.2)
    assert set(words(wide).values()) == {"not clear"} and wide.word == "cannot tell"
