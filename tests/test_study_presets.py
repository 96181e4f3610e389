"""Presets: an arm of the library under the arm's own words, and what is wrong with one reported at the word."""

import pytest

from recombine.errors import UserError
from recombine.studies.spec import load_study, parse_study
from study_files import short


def test_a_preset_is_the_librarys_arm_under_the_arms_own_words_whatever_the_files_defaults():
    study = parse_study(
        short(
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
    study = parse_study(short(f"arms: {{mine: {{preset: as_published/{arm}}}}}"))
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
        parse_study(short(f"arms: {{a: {{preset: {word}}}}}"))
    assert "lacks" not in str(error.value)


def test_what_is_wrong_with_a_preset_here_is_reported_at_the_word():
    with pytest.raises(UserError, match=r"5: arms.a.preset: jepa.layers has 7, but this size has 6 .*layers: null"):
        parse_study(short("arms: {a: {preset: as_published/maskgit-jepa, training: {size: s}}}"))
