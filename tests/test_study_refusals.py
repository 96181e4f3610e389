"""What cannot work, would do nothing or is too large is refused before anything is trained."""

from typing import Any

import pytest

from recombine.errors import UserError
from recombine.settings import Settings
from recombine.studies.spec import parse_study
from study_files import mistakes, short


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
        parse_study(short(f"tokenizer: vqvae\narms: {{a: {arm}}}"))


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
        parse_study(short(f"tokenizer: vqvae\narms: {{a: {{generator: {generator}}}}}"))


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
