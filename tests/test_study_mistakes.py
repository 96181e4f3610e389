"""Mistakes in a study file: all are named at once, each with its line and the nearest word."""

import pytest
import yaml
from pydantic import ValidationError

from recombine.errors import UserError
from recombine.studies.sources import study_text
from recombine.studies.spec import Study, make_study, parse_study
from study_files import GOOD, changed, mistakes

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
    ("batch: 64", "compositions: many", "7: training.compositions should be a whole number, not 'many'"),
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


def test_listed_compositions_are_read_as_written_and_checked() -> None:
    """Digits need no quotes, though YAML would read 011 as nine."""
    study = parse_study(changed("batch: 64", "compositions: [000, 011, 101, 110]"))
    assert isinstance(study, Study)
    assert study.arms["maskgit"].training.compositions == ("000", "011", "101", "110")
    unseen = "study.yaml:7: training: training.compositions lacks a value of some factor"
    assert any(line.startswith(unseen) for line in mistakes(changed("batch: 64", "compositions: [000, 001]")))
    seen = changed("batch: 64", "compositions: [000, 111]").replace("sees: all", "sees: train")
    assert any("this arm trains on others" in line for line in mistakes(seen))
    within = changed("batch: 64", "compositions: [001, 010, 100]").replace("sees: all", "sees: train")
    assert isinstance(parse_study(within), Study)


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


def test_some_other_kind_of_file_is_not_echoed_line_by_line() -> None:
    lines = mistakes("".join(f"word{i}: x\n" for i in range(500)))
    assert len(lines) < 70 and lines[-1] == "and so on: is this a study file?"


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
