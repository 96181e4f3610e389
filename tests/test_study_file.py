"""The study file: what it means, and that every mistake in it is named at once with its line and the nearest word."""

import contextlib
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from recombine.errors import UserError
from recombine.settings import Settings
from recombine.studies.sources import library, study_text
from recombine.studies.spec import Study, load_study, make_study, parse_study, shrink

GOOD = """\
name: demo
question: Can MaskGIT and DiT draw combinations they never saw?
world: {kind: shapes2d, image_size: 16}
split: hamming
tokenizer: {kind: vqvae, codes: 64, sees: all}
conditioning: quantized
training: {size: xs, steps: 2000, batch: 64}
judging: {samples: 64, evaluations: 6}
members: 3
arms:
  maskgit: {generator: maskgit}
  dit: {generator: {kind: dit, objective: flow}, training: {steps: 4000}}
"""


def mistakes(text: str) -> list[str]:
    """The lines of the complaint about a text, without the heading."""
    with pytest.raises(UserError) as caught:
        parse_study(text, "study.yaml")
    lines = str(caught.value).splitlines()
    return [line.strip() for line in (lines[1:] if len(lines) > 1 else lines)]


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


# --- what a file means ------------------------------------------------------------------------------------------------


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


# --- mistakes ---------------------------------------------------------------------------------------------------------

WRONG = [
    (
        "generator: maskgit",
        "genrator: maskgit",
        "11: unknown word 'genrator' in arms.maskgit; did you mean 'generator'?",
    ),
    ("name: demo", "nam: demo", "1: unknown word 'nam' in the study; did you mean 'name'?"),
    ("codes: 64", "codez: 64", "5: unknown word 'codez' in tokenizer; did you mean 'codes'?"),
    ("kind: vqvae", "kind: vqave", "5: unknown kind 'vqave' in tokenizer; did you mean 'vqvae'?"),
    ("split: hamming", "split: haming", "4: unknown kind 'haming' in split; did you mean 'hamming'?"),
    (
        "quantized",
        "[quantized]",
        "6: conditioning should be a mapping of words (or one of full, quantized), not a list",
    ),
    (
        "objective: flow",
        "objective: flaw",
        "12: unknown word 'flaw' for arms.dit.generator.objective; did you mean 'flow'?",
    ),
    ("size: xs", "size: xxs", "7: unknown word 'xxs' for training.size; did you mean 'xs'? (valid: xs, s, b, l)"),
    ("steps: 2000", "steps: many", "7: training.steps should be a whole number, not 'many'"),
    ("steps: 2000", "steps: 2.5", "7: training.steps should be a whole number, not '2.5'"),
    ("steps: 2000", "steps: true", "7: training.steps should be a whole number, not 'true'"),
    ("steps: 2000", "steps:", "7: training.steps should be a whole number, not nothing"),
    ("steps: 4000", "steps: -4", "12: arms.dit.training.steps should be at least 1, not '-4'"),
    ("batch: 64", "rate: .inf", "7: training.rate should be a finite number, not '.inf'"),
    ("batch: 64", "rate: 1e999", "7: training.rate should be a finite number, not '1e999'"),
    ("quantized", "{spread: .inf}", "6: conditioning.spread should be a finite number, not '.inf'"),
    ("quantized", "{spread: nan}", "6: conditioning.spread should be a finite number, not 'nan'"),
    ("batch: 64", "codes: 64", "7: unknown word 'codes' in training; it belongs in tokenizer"),
    ("members: 3", "steps: 3", "9: unknown word 'steps' in the study; it belongs in tokenizer or training"),
    ("members: 3", "members: 0", "9: members should be at least 1, not '0'"),
    ("members: 3", "seeds: [1, 2, 1]", "9: seeds: seed 1 is there twice"),
    ("members: 3", "seeds: []", "9: seeds should not be empty"),
    ("members: 3", "seeds: [1, -2]", "9: seeds[1] should be at least 0, not '-2'"),
    ("members: 3", "members: 3\nseeds: [1, 2]", "9: members and seeds say the same thing"),
    ("split: hamming\n", "", "1: the study lacks 'split' (which compositions are trained on)"),
    ("tokenizer: {kind: vqvae, codes: 64, sees: all}\n", "", "10: arms.maskgit lacks 'tokenizer'"),
    ("kind: vqvae, codes: 64", "codes: 64", "5: tokenizer lacks 'kind' (one of pixels, vae, vqvae)"),
    ("  maskgit:", "  MaskGIT:", "11: arms: 'MaskGIT' is no name"),
    ("  maskgit:", "  real:", "11: arms: 'real' cannot name an arm"),
    (
        "  maskgit: {generator: maskgit}",
        "  maskgit: maskgit",
        "11: arms.maskgit should be a mapping of words, not 'maskgit'",
    ),
    (
        "  maskgit: {generator: maskgit}",
        "  twin: {training: {steps: 4000}, generator: dit}",
        "12: arms.dit is the same as arms.twin",
    ),
    ("  maskgit:", "  dit:", "12: 'dit' is written twice in arms (first in line 11)"),
    (
        "generator: maskgit",
        "generator: maskgit, tokenizer: {kind: pixels, codes: 9}",
        "11: unknown word 'codes' in arms.maskgit.tokenizer; it belongs to kind vqvae",
    ),
    ("generator: maskgit", "generator: maskgit, tokenizer: vae", "11: arms.maskgit.generator: maskgit predicts codes"),
    ("objective: flow", "guidance: 1.5", "12: arms.dit.generator: guidance needs"),
    ("image_size: 16", "image_size: 18", "5: tokenizer: The image size 18 is not a multiple of factor 4"),
    ("evaluations: 6", "evaluations: 3000", "7: training.steps: 3000 evaluations do not fit in 2000 steps"),
    ("split: hamming", "split: {kind: listed, train: []}", "4: split: the split trains nothing"),
    ("split: hamming", "split: {kind: hamming, distance: 3}", "4: split: the split trains every composition"),
    ("split: hamming", "split: {kind: random, k: 1}", "4: split lacks 'n'"),
    ("world: {kind: shapes2d, image_size: 16}", "world: {shapes: 99}", "3: world.shapes should be at most"),
    ("sees: all", "sees: &a all", ""),
    ("sees: all", "sees: *a", "5: not YAML: aliases (*name) are not supported"),
    ("sees: all", "sees: !!python/name:os.system all", "5: tags such as"),
    ("sees: all}", "sees: all", "6: not YAML: "),
    ("question: Can", "? [a, b]\n: 3\nquestion: Can", "2: a word is expected before ':'"),
]


@pytest.mark.parametrize(("old", "new", "complaint"), WRONG)
def test_a_mistake_is_named_with_its_line(old: str, new: str, complaint: str) -> None:
    if not complaint:  # an anchor that nobody refers to is harmless
        parse_study(changed(old, new))
        return
    found = mistakes(changed(old, new))
    assert any(line.startswith(f"study.yaml:{complaint}") for line in found), found
    lacking = sum("lacks 'tokenizer'" in line for line in found)  # one per arm
    assert len(found) == max(1, lacking), found


def test_all_mistakes_are_named_at_once_and_once() -> None:
    """Two arms use the wrong default; it is reported where it stands, once. No section hides another's mistakes."""
    text = GOOD
    for old, new in [("codes: 64", "codez: 64"), ("steps: 2000", "steps: 0"), ("hamming", "haming"), ("flow", "flaw")]:
        text = text.replace(old, new)
    text += "  third: {generator: {kind: maskgit, guidance: 2}, tokenizer: pixels, training: {steps: 9}}\n"
    found = mistakes(text)
    assert [line.split(": ")[0] for line in found] == [f"study.yaml:{n}" for n in (4, 5, 7, 12, 13, 13)]


def test_an_unused_default_is_checked_too() -> None:
    text = changed("split: hamming\n", "split: hamming\ngenerator: {kind: maskgit, smothing: 0.1}\n")
    text = text.replace("{generator: maskgit}", "{generator: {kind: dit, objective: ddpm}}")
    (mistake,) = mistakes(text)
    assert mistake.startswith("study.yaml:5: unknown word 'smothing' in generator; did you mean 'smoothing'?")


NO_MAPPING = ["", "# nothing", "demo", "- a\n- b", "[]", "null", "a: b: c", "\t", "{", "---\na: 1\n---\nb: 2"]
HOSTILE = ["[" * 5000, "{a: " * 5000, 'a: "\\UFFFFFFFF"', 'a: "\\ud800"', "a: \x00", "%YAML 9.9\n---\na: 1"]


@pytest.mark.parametrize("text", NO_MAPPING)
def test_what_is_no_mapping_is_refused(text: str) -> None:
    assert mistakes(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_refused_in_words(text: str) -> None:
    for line in mistakes(text):
        line.encode()  # can be printed


def test_python_gets_the_same_checks() -> None:
    words = yaml.safe_load(GOOD)
    words["arms"]["dit"]["genrator"] = "dit"
    with pytest.raises(UserError, match=r"study: unknown word 'genrator' in arms\.dit; did you mean 'generator'"):
        make_study(words)
    for wrong in (float("inf"), True, "many"):
        with pytest.raises(UserError, match=r"training\.rate should be"):
            make_study(yaml.safe_load(GOOD) | {"training": {"rate": wrong}})
    with pytest.raises(UserError, match=r"^study: conditioning\.spread should be a finite number, not nan$"):
        make_study(yaml.safe_load(GOOD) | {"conditioning": {"spread": float("nan")}})
    resolved = parse_study(GOOD).resolved()
    resolved["arms"]["maskgit"]["generator"]["guidance"] = 1.0
    with pytest.raises(ValidationError, match=r"arms\.maskgit\.generator: guidance needs"):
        Study.model_validate(resolved)


# --- where files come from --------------------------------------------------------------------------------------------


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


# --- smoke tests ------------------------------------------------------------------------------------------------------


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


# --- fuzzing ----------------------------------------------------------------------------------------------------------

FUZZ = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def study_or_complaint(text: str) -> None:
    try:
        assert isinstance(parse_study(text, "study.yaml"), Study)
    except UserError as error:
        assert str(error).encode()


@FUZZ
@given(st.text())
def test_random_text_gives_a_study_or_a_complaint(text: str) -> None:
    study_or_complaint(text)


YAMLISH = st.text(alphabet="abk: {}[],-\n\"'#&*!|>%@`?~0123456789.eE+_\t\\", max_size=60)


@FUZZ
@given(YAMLISH, st.integers(0, len(GOOD)), st.integers(0, 20))
def test_random_edits_of_a_study_give_a_study_or_a_complaint(piece: str, at: int, drop: int) -> None:
    study_or_complaint(GOOD[:at] + piece + GOOD[at + drop :])


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["dit", "vae", "hamming", "kind"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(deep for key, child in inside for deep in places(child, (*path, key)))]


@FUZZ
@given(VALUES, st.integers(0, 10**6))
def test_a_wrong_value_anywhere_gives_a_study_or_a_complaint(value: Any, seed: int) -> None:
    words = yaml.safe_load(GOOD)
    *path, last = random.Random(seed).choice(places(words)[1:])
    inner = words
    for key in path:
        inner = inner[key]
    inner[last] = value
    study_or_complaint(yaml.safe_dump(words, allow_unicode=True))
    with contextlib.suppress(UserError):
        make_study(words)


def test_some_other_kind_of_file_is_not_echoed_line_by_line() -> None:
    lines = mistakes("".join(f"word{i}: x\n" for i in range(500)))
    assert len(lines) < 70 and lines[-1] == "and so on: is this a study file?"


# Presets


def presets(text: str) -> str:
    return f"name: x\nquestion: why\nworld: shapes2d\nsplit: hamming\n{text}"


def test_a_preset_is_the_librarys_arm_under_the_arms_own_words_whatever_the_files_defaults():
    study = parse_study(
        presets(
            "training: {size: xs, warmup: 7, clip: 9, schedule: cosine}\nconditioning: {dropout: 0.3}\n"
            "jepa: {weight: 1}\njudging: {evaluations: 2}\narms:\n"
            "  plain: {preset: as_published/maskgit}\n"
            "  mine: {preset: as_published/maskgit, generator: {smoothing: 0.2}, training: {steps: 11, size: s}}\n"
            "  other: {preset: as_published/maskgit, generator: dit, tokenizer: {codes: 5}}\n"
        )
    )
    published = load_study("as_published").arms["maskgit"]
    assert study.arms["plain"] == published
    mine = study.arms["mine"]
    assert mine.generator == published.generator.model_copy(update={"smoothing": 0.2})
    assert mine.training == published.training.model_copy(update={"steps": 11, "size": "s"})
    assert study.arms["other"].generator.kind == "dit"
    assert study.arms["other"].tokenizer == published.tokenizer.model_copy(update={"codes": 5})


@pytest.mark.parametrize("arm", ["dit-vq", "dit-vae", "maskgit", "maskgit-jepa", "givt", "mar"])
def test_every_published_arm_is_a_preset(arm):
    study = parse_study(presets(f"arms: {{mine: {{preset: as_published/{arm}}}}}"))
    assert study.arms["mine"] == load_study("as_published").arms[arm]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("as_published/maskgti", "5: arms.a.preset: as_published has no arm 'maskgti'; did you mean 'maskgit'"),
        ("as_publishd/maskgit", "5: arms.a.preset should be STUDY/ARM of the library, .*did you mean 'as_published'"),
        ("maskgit", "5: arms.a.preset should be STUDY/ARM"),
        ("[as_published/maskgit]", "5: arms.a.preset should be STUDY/ARM of the library, not a list"),
        ("../../x/maskgit", "5: arms.a.preset should be STUDY/ARM"),
        (
            "rendering/cnn",
            r"^study:5: arms.a.preset: the study rendering is of decoders \(kind: rendering\), and this one of "
            "generators; name an arm of a study of the same kind$",
        ),
    ],
)
def test_a_preset_that_is_not_there_is_the_one_mistake_reported(word, said):
    with pytest.raises(UserError, match=said) as error:
        parse_study(presets(f"arms: {{a: {{preset: {word}}}}}"))
    assert "lacks" not in str(error.value)


def test_what_is_wrong_with_a_preset_here_is_reported_at_the_word():
    with pytest.raises(UserError, match=r"5: arms.a.preset: jepa.layers has 7, but this size has 6 .*layers: null"):
        parse_study(presets("arms: {a: {preset: as_published/maskgit-jepa, training: {size: s}}}"))


# What cannot work is refused before anything is trained


@pytest.mark.parametrize(
    ("arm", "said"),
    [
        ("{generator: maskgit, jepa: {layers: [2, 9]}}", "arms.a.jepa: jepa.layers has 9, but this size has 6 blocks"),
        ("{generator: dit, jepa: {}}", "arms.a.jepa: jepa predicts hidden tokens, and dit hides none"),
        ("{generator: {kind: givt, style: causal}, jepa: {}}", "givt in its causal style hides none"),
        ("{generator: {kind: givt, components: 0}}", "arms.a.generator.components should be at least 1"),
        (
            "{generator: {kind: dit, guidance: 1, guided: each}, conditioning: {dropout: 0.1, withheld: [shape]}}",
            "arms.a: guided each .*, and withheld lacks colour, size: leave withheld out, or name all factors",
        ),
        (
            "{generator: {kind: dit, guidance: 1, guided: each}, conditioning: {dropout: 0.1, withheld: [color]}}",
            r"^study:6: arms.a.conditioning.withheld: 'color' is no factor of shapes2d: .*$",
        ),
    ],
)
def test_what_cannot_work_is_refused_by_name(arm, said):
    with pytest.raises(UserError, match=said):
        parse_study(presets(f"tokenizer: vqvae\narms: {{a: {arm}}}"))


def test_guidance_by_each_factor_may_name_them_all() -> None:
    conditioning = "{dropout: 0.1, withheld: [size, shape, colour]}"
    generator = "{kind: dit, guidance: 1, guided: each}"
    study = parse_study(
        presets(f"tokenizer: vae\narms: {{a: {{generator: {generator}, conditioning: {conditioning}}}}}")
    )
    assert study.arms["a"].conditioning.withheld == ("size", "shape", "colour")


@pytest.mark.parametrize(
    ("generator", "said"),
    [
        ("{kind: dit, noise_levels: 500}", "noise_levels does nothing unless objective is ddpm"),
        ("{kind: maskgit, roll: true}", "roll does nothing unless order is halton"),
        (
            "{kind: givt, style: causal, choice_temperature: 2}",
            "choice_temperature does nothing unless style is masked",
        ),
        ("{kind: mar, head: flow, temperature: 0.9}", "temperature does nothing unless head is diffusion"),
    ],
)
def test_a_word_that_would_do_nothing_is_refused(generator, said):
    with pytest.raises(UserError, match=rf"6: arms.a.generator.*{said}"):
        parse_study(presets(f"tokenizer: vqvae\narms: {{a: {{generator: {generator}}}}}"))


def test_a_study_in_full_with_every_default_is_read_back():
    """What --dry-run prints has idle words too, at their defaults."""
    for name in library():
        study = load_study(name)
        assert parse_study(yaml.safe_dump(study.resolved(), sort_keys=False)) == study


def whole_numbers(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of a word's JSON schema that allow whole numbers, those in lists too."""
    inside = [*schema.get("anyOf", []), *schema.get("prefixItems", []), *filter(None, [schema.get("items")])]
    return [schema] * (schema.get("type") == "integer") + [one for part in inside for one in whole_numbers(part)]


def all_settings(base: type[Settings] = Settings) -> list[type[Settings]]:
    found = [one for child in base.__subclasses__() for one in [child, *all_settings(child)]]
    return [one for one in found if one.__module__.startswith("recombine.")]


def test_no_whole_number_is_without_an_upper_bound() -> None:
    """Twenty digits are more than a tensor's integers, or a float, can hold: a traceback in the middle of a run."""
    open_ended = [
        f"{model.__name__}.{name}"
        for model in all_settings()
        for name, schema in model.model_json_schema()["properties"].items()
        for one in whole_numbers(schema)
        if not {"maximum", "exclusiveMaximum"} & set(one)
    ]
    assert len(all_settings()) > 20 and open_ended == []


@pytest.mark.parametrize("kind", ["", "kind: rendering\n"])
@pytest.mark.parametrize("word", ["steps", "warmup", "batch", "images"])
def test_a_huge_number_is_one_sentence(kind: str, word: str) -> None:
    section = "data" if kind and word == "images" else "training"
    more = "" if kind else "world: shapes2d\nsplit: hamming\ntokenizer: vqvae\n"
    arms = "arms: {one: {}}\n" if kind else "arms: {one: {generator: dit}}\n"
    found = mistakes(f"{kind}name: x\nquestion: why\n{more}{section}: {{{word}: {'9' * 20}}}\n{arms}")
    assert len(found) == 1 and f"{section}.{word} should be at most " in found[0]


def test_what_arms_have_from_the_top_is_said_once() -> None:
    """Found only when an arm is built, at the line where it is written and with the arms it spoils."""
    text = study_text("demo-rendering")[0].replace("high: 11", "high: 16")
    (found,) = mistakes(text)
    line = next(k for k, one in enumerate(text.splitlines(), 1) if "high: 16" in one)
    assert found.startswith(f"study.yaml:{line}: support: ") and found.endswith("(arms plain, stripes)")
    own = text.replace("plain: {}", "plain: {support: {kind: donut, low: 4, high: 17}}")
    first, second = mistakes(own)
    assert "support: " in first and first.endswith("(arm stripes)")
    assert "arms.plain.support: " in second and "(arm" not in second
    (found,) = mistakes(changed("evaluations: 6", "evaluations: 3000").replace(", training: {steps: 4000}", ""))
    assert found.endswith("(arms maskgit, dit)")


def test_an_unknown_study_is_answered_with_those_there_are() -> None:
    with pytest.raises(UserError, match="no study named 'objektives' in the library; did you mean 'objectives'"):
        load_study("objektives")
    with pytest.raises(UserError) as caught:
        load_study("nosuch")
    assert all(name in str(caught.value) for name in library()) and "\n" not in str(caught.value)
