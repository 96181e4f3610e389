"""The study file: what it means, where it comes from, and how it is made small."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from recombine.errors import UserError
from recombine.studies.sources import library
from recombine.studies.spec import Study, load_study, make_study, parse_study, shrink
from study_files import GOOD, changed, short

# What a file means


def test_defaults_are_merged_into_each_arm() -> None:
    study = parse_study(GOOD)
    assert list(study.arms) == ["maskgit", "dit"] and study.seeds == (0, 1, 2) and study.members == 3
    maskgit, dit = study.arms["maskgit"], study.arms["dit"]
    assert maskgit.tokenizer == dit.tokenizer and dit.tokenizer.kind == "vqvae" and dit.tokenizer.codes == 64
    assert (maskgit.training.steps, dit.training.steps) == (2000, 4000)
    assert (maskgit.training.batch, dit.training.batch) == (64, 64)
    assert maskgit.generator.kind == "maskgit" and dit.generator.kind == "dit"
    assert study.split.kind == "hamming" and dit.conditioning.kind == "quantized"


def test_another_kind_inherits_nothing_the_same_kind_everything() -> None:
    text = changed("sees: all", "sees: train, steps: 7") + "  other: {generator: dit, tokenizer: vae}\n"
    text += "  same: {generator: dit, tokenizer: {kind: vqvae, codes: 32}}\n"
    text += "  partly: {generator: dit, tokenizer: {codes: 16}}\n"
    arms = parse_study(text).arms
    other, same, partly = (arms[name].tokenizer for name in ("other", "same", "partly"))
    assert (other.kind, other.sees, other.steps) == ("vae", "all", type(other)().steps)
    assert (same.codes, same.sees, same.steps) == (32, "train", 7)
    assert (partly.codes, partly.sees, partly.steps) == (16, "train", 7)


def test_an_arm_without_words_is_the_defaults() -> None:
    text = changed("split: hamming\n", "split: hamming\ngenerator: maskgit\n").replace("{generator: maskgit}", "")
    assert parse_study(text).arms["maskgit"].generator.kind == "maskgit"


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("rate: 1e-3", 0.001),
        ("rate: .5", 0.5),
        ("rate: 1", 1.0),
        ("weight_decay: 1E-2", 0.01),
        ("steps: 2e4", 20000),
        ("steps: 2_000", 2000),
        ("steps: '30'", 30),
        ("batch: 010", 10),
        ("clip: null", None),
        ("clip: ~", None),
    ],
)
def test_numbers_are_what_they_look_like(word: str, value: Any) -> None:
    text = changed("steps: 2000, batch: 64", f"images: 99, {word}")
    assert getattr(parse_study(text).arms["maskgit"].training, word.split(":")[0]) == value


def test_words_stay_words() -> None:
    """YAML 1.1 would read these as false, 9 and 2024; Python would read the limits as no number."""
    text = changed("split: hamming", "split: {kind: listed, train: [000, 001, 010, 100]}\nlimits: nan")
    study = parse_study(text.replace("  maskgit:", "  no:").replace("name: demo", "name: 2024"))
    assert study.name == "2024" and study.limits == "nan" and list(study.arms) == ["no", "dit"]
    assert study.split.kind == "listed" and study.split.train == ("000", "001", "010", "100")


def test_resolved_reads_back_and_is_itself_a_study_file() -> None:
    study = parse_study(GOOD)
    assert Study.model_validate(study.resolved()) == study
    assert parse_study(yaml.safe_dump(study.resolved(), sort_keys=False)) == study
    assert make_study(yaml.safe_load(GOOD)) == study


def test_a_study_in_full_with_every_default_is_read_back():
    """What --dry-run prints has idle words too, at their defaults."""
    for name in library():
        study = load_study(name)
        assert parse_study(yaml.safe_dump(study.resolved(), sort_keys=False)) == study


def test_the_hash_follows_what_matters() -> None:
    study = parse_study(GOOD)
    assert parse_study(changed("draw combinations", "paint combinations")).hash == study.hash
    flow = "  maskgit: {generator: maskgit}\n"
    shuffled = parse_study(GOOD.replace(flow, "") + flow)
    assert shuffled.hash == study.hash
    for old, new in [("members: 3", "members: 4"), ("codes: 64", "codes: 32"), ("steps: 4000", "steps: 4001")]:
        assert parse_study(changed(old, new)).hash != study.hash


def test_members_are_short_for_seeds() -> None:
    assert parse_study(changed("members: 3", "seeds: [3, 5, 8]")).seeds == (3, 5, 8)
    assert parse_study(changed("members: 3", "seeds: [0, 1, 2]")).hash == parse_study(GOOD).hash


def test_guidance_by_each_factor_may_name_them_all() -> None:
    conditioning = "{dropout: 0.1, withheld: [size, shape, colour]}"
    generator = "{kind: dit, guidance: 1, guided: each}"
    study = parse_study(short(f"tokenizer: vae\narms: {{a: {{generator: {generator}, conditioning: {conditioning}}}}}"))
    assert study.arms["a"].conditioning.withheld == ("size", "shape", "colour")


# Where files come from


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("name: demo\nquestion: où\n".encode("latin-1"))
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * 2_000_000)
    for place, reason in [
        (tmp_path / "none.yaml", "there is no study file"),
        (tmp_path, "cannot read the study file|there is no study file"),
        (latin, r"latin\.yaml:2: not UTF-8"),
        (large, "larger than"),
    ]:
        with pytest.raises(UserError, match=reason):
            load_study(str(place))
    with pytest.raises(UserError, match="no study named 'dmeo' in the library"):
        load_study("dmeo")


def test_a_file_is_loaded_with_or_without_a_byte_order_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECOMBINE_SHRINK", raising=False)
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert load_study(str(tmp_path / "a.yaml")) == parse_study(GOOD)


@pytest.mark.parametrize("name", library())
def test_the_library_is_right(name: str) -> None:
    study = load_study(name)
    assert study.name.removesuffix("-shrunk") == name
    assert shrink(study).members <= 2


def test_an_unknown_study_is_answered_with_those_there_are() -> None:
    with pytest.raises(UserError, match="no study named 'objektives' in the library; did you mean 'objectives'"):
        load_study("objektives")
    with pytest.raises(UserError) as caught:
        load_study("nosuch")
    assert all(name in str(caught.value) for name in library()) and "\n" not in str(caught.value)


# Smoke tests


def test_shrinking_keeps_the_shape(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    study = parse_study(GOOD)
    small = shrink(study)
    assert list(small.arms) == list(study.arms) and small.world == study.world and small.split == study.split
    assert small.members == 2 and small.judging.evaluations == 2 and small.judging.samples <= 8
    assert small.arms["maskgit"].training.steps == 10 and small.arms["dit"].training.steps == 20
    assert small.name == "demo-shrunk" and small.hash != study.hash
    tokenizer = small.arms["dit"].tokenizer
    assert tokenizer.kind == "vqvae" and (tokenizer.factor, tokenizer.steps, tokenizer.codes) == (2, 600, 64)
    odd = shrink(parse_study(GOOD.replace("image_size: 16", "image_size: 15").replace("codes: 64", "factor: 3")))
    assert odd.arms["dit"].tokenizer.kind == "vqvae" and odd.arms["dit"].tokenizer.factor == 3
    (tmp_path / "a.yaml").write_text(GOOD)
    monkeypatch.setenv("RECOMBINE_SHRINK", "1")
    assert load_study(str(tmp_path / "a.yaml")) == small
