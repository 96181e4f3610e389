"""E1 and E3 on the study early, judged every 50 of 3,000 steps: planted curves whose answers are known."""

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes

from planted import OBJECTIVES, TOKENIZERS, library
from planted_cells import Draw, Shares, far, lean, plant_cells, ramp
from planted_explanations import asked, words
from recombine.claims.tables import Curve
from recombine.claims.tokenizer import VAE, VQ, width
from recombine.claims.why import peak, rise
from recombine.claims.why.answers import Answer, Dots, Explanation, Lines, NotKnown
from recombine.claims.why.figures import draw_answer
from recombine.claims.why.rise_bounds import Bounds, difference, half_steps, lags, own_widths, width_between
from recombine.report.words import percent

EARLY = library("early")
STEPS, EVALUATIONS = 3_000, 60
ROOT = Path(__file__).resolve().parent.parent


def early(folder: Path, **arms: Draw) -> Path:
    named = {name.replace("_", "-"): draw for name, draw in arms.items()}
    return plant_cells(folder / "early", EARLY, named, evaluations=EVALUATIONS)


def objectives(folder: Path, **arms: Draw) -> Path:
    """Judged every 500 steps."""
    named = {name.replace("_", "-"): draw for name, draw in arms.items()}
    return plant_cells(folder / "objectives", OBJECTIVES, named, evaluations=22, steps=dict.fromkeys(named, 11_000))


# E1


def peaked(named: float, real: tuple[float, float], at: int = 150, last: int = STEPS) -> Draw:
    """The probe names everything at step `at` and `named` of it from step 1,500 on; right and valid go from the first
    of `real` to the second. Colour is what is lost."""

    def draw(code: str, time: float, seed: int) -> Shares:
        step = time * last
        if not far(code):
            return {"valid": ramp(step, 0, 1_000)}
        up, down = ramp(step, 0, at), ramp(step, at, 1_500)
        wobble = 0.02 * lean(seed, "named")
        colour = up * (1 - (1 - named) * down) - wobble
        joint = up * (real[0] + (real[1] - real[0]) * down)
        return {"colour": colour, "named": colour, "valid": max(real[0], 0.01) * up, "joint": joint}

    return draw


def test_e1_a_peak_that_is_the_probes_answer_to_garbage(tmp_path: Path) -> None:
    """Named right peak at step 150 and fall to 40 %; right and valid never rise."""
    found = asked(peak.EXPLANATION, early(tmp_path, maskgit=peaked(0.4, (0.01, 0.01)), dit_vq=peaked(0.9, (0, 0))))
    said = words(found)
    assert said[peak.NOT_VALID] == "supported"
    assert said[peak.HABIT] == said[peak.BROKEN] == "cannot tell"  # so little cannot fall, whatever becomes of it
    assert found.finding is not None and found.finding.study.name == "early"
    assert "is not real" in found.text and "There is no real one." in found.text
    assert "near step 150" in found.finding.outcomes[0].sentence
    assert any(f"DiT never has {percent(0.05)}" in note for note in found.evidence) and "JEPA" not in " ".join(
        found.evidence
    )
    assert draw_answer(found, tmp_path / "E1.png").stat().st_size > 10_000


def test_e1_a_peak_that_is_real(tmp_path: Path) -> None:
    """Both rise and fall: most of the peak is valid, and what falls is what is right among the valid."""
    found = asked(peak.EXPLANATION, early(tmp_path, maskgit=peaked(0.4, (0.9, 0.3))))
    said = words(found)
    assert said[peak.NOT_VALID] == "contradicted" and said[peak.HABIT] == "supported"
    assert "is real" in found.text and "another colour" in found.text
    assert found.finding is not None and found.finding.ours.mean == pytest.approx(0.6, abs=0.03)


def test_e1_nothing_falls(tmp_path: Path) -> None:
    """Noise that is as large early as late is no peak, with 60 evaluations to choose it from."""

    def steady(code: str, time: float, seed: int) -> Shares:
        if not far(code):
            return {"valid": ramp(time, 0, 0.3)}
        named = ramp(time, 0, 0.05) * (0.8 + 0.1 * lean(seed, f"{time}"))
        return {"colour": named, "named": named, "valid": 0.05, "joint": 0.05}

    found = asked(peak.EXPLANATION, early(tmp_path, maskgit=steady))
    assert found.word == "untested" and "study early MaskGIT does not clearly fall" in found.text


def test_e1_counts_the_end_of_early_from_step_2400(tmp_path: Path) -> None:
    """What is lost after the last fifth begins counts as lost in part only."""

    def late_fall(code: str, time: float, seed: int) -> Shares:
        if not far(code):
            return {"valid": ramp(time, 0, 0.3)}
        colour = 1.0 if time * STEPS <= 2_400 else 0.4
        return {"colour": colour + 0.01 * lean(seed, "c"), "valid": 1.0}

    found = asked(peak.EXPLANATION, early(tmp_path, maskgit=late_fall))
    assert found.finding is not None and found.finding.ours.mean == pytest.approx(0.6, abs=0.02)


def test_e1_seeds_that_peak_at_different_steps_are_no_proof_that_none_does(tmp_path: Path) -> None:
    """At the peak of the others a seed has nothing; that it had something at its own is not denied."""

    def draw(code: str, time: float, seed: int) -> Shares:
        if not far(code):
            return {"valid": ramp(time, 0, 0.3)}
        own = 0.5 if seed < 3 and 0.1 + 0.1 * seed < time <= 0.2 + 0.1 * seed else 0.0
        named = 1 - 0.7 * ramp(time, 0.3, 0.6) + 0.02 * lean(seed, "n")
        return {"colour": named, "named": named, "valid": own, "joint": own}

    found = asked(peak.EXPLANATION, early(tmp_path, maskgit=draw))
    said = words(found)
    assert said[peak.HABIT] == said[peak.BROKEN] == "cannot tell"
    assert "The seeds cannot tell whether there is a real one." in found.text and found.finding is not None
    sentence = found.finding.outcomes[2].sentence
    assert "none ruled out: the mean of all seeds is" in sentence and sentence.endswith(
        f"to {percent(0.51)} at theirs."
    )


def test_e1_says_which_study_answered_and_what_the_others_say(tmp_path: Path) -> None:
    """Objectives sees no fall: early answers wherever it stands in the list, and it is said that objectives does not;
    where both fall the first in the list answers, and the other stands beside."""
    close = early(tmp_path, maskgit=peaked(0.4, (0.01, 0.01)))
    flat = objectives(tmp_path / "flat", maskgit=peaked(1.0, (0.01, 0.01), last=11_000))
    found = asked(peak.EXPLANATION, flat, close)
    assert found.to_json()["study"] == "early"
    assert any("study objectives MaskGIT does not clearly fall" in note for note in found.evidence)
    assert "The study early" in found.limits[0]
    both = objectives(tmp_path / "both", maskgit=peaked(0.4, (0.01, 0.01), last=11_000))
    found = asked(peak.EXPLANATION, both, close)
    first, second = sorted(("early", "objectives"), key=peak.EXPLANATION.studies.index)
    assert found.to_json()["study"] == first
    assert any(f"The same test on the study {second} (8 seeds): " in note for note in found.evidence)
    assert found.elsewhere == ()  # it says the same


def test_a_study_that_contradicts_the_answer_is_not_folded_away(tmp_path: Path) -> None:
    """In early valid pictures change colour, in objectives fewer are valid: what one supports the other contradicts."""

    def breaking(code: str, time: float, seed: int) -> Shares:
        fewer = 1.0 if not far(code) else 1.0 - 0.6 * ramp(time, 0.3, 0.6) + 0.01 * lean(seed, "v")
        return {"valid": min(fewer, ramp(time, 0, 0.1)), "colour": 1.0}

    close = early(tmp_path, maskgit=peaked(0.4, (0.1, 0.1)))
    other = objectives(tmp_path / "other", maskgit=breaking)
    found = asked(peak.EXPLANATION, other, close)
    assert len(found.elsewhere) == 1 and found.elsewhere[0] in found.evidence
    assert "broken pictures: supported" in found.elsewhere[0]


# E3


def named_rise(begin: float, end: float, scatter: float = 0.0, real: float = 0.03, last: int = STEPS) -> Draw:
    """The probe names level-2 right from step `begin` to `end`, right and valid are few; seeds begin up to `scatter`
    apart. What is trained is named right from step 40 to 80."""

    def draw(code: str, time: float, seed: int) -> Shares:
        step = time * last
        if not far(code):
            return {"valid": ramp(time, 0, 0.5), "named": ramp(step, 40, 80)}
        away = scatter * (seed - 3.5) / 3.5
        up = ramp(step, begin + away, end + away)
        return {"named": 0.9 * up, "valid": real * up, "joint": real * up}

    return draw


def by_the_probe(found: Answer) -> bool:
    assert found.finding is not None
    return bool(found.finding.counted)


def test_e3_by_the_probes_naming_says_so(tmp_path: Path) -> None:
    """No seed composes right and valid: how naming rises is followed, and every place says that it is that."""
    found = asked(rise.EXPLANATION, early(tmp_path, dit_vae=named_rise(100, 1_500), dit_vq=named_rise(400, 450)))
    said = words(found)
    assert said[rise.SHARPNESS] == "supported" and said[rise.WRONG_FIRST] == "cannot tell"
    assert said[rise.TOGETHER] == "contradicted"  # half of the trained is there at step 60
    assert found.text.startswith(
        "With DiT, by the probe's naming alone, valid or not: each single seed rises more gradually"
    )
    assert any("Only 0 of 8 seeds compose on both tokens, right and valid" in note for note in found.evidence)
    assert any("are right and valid at the end" in note and percent(0.03) in note for note in found.evidence)
    assert "as the probe names pictures, valid or not" in found.to_json()["measure"]
    assert not any("Judged by the probe alone" in limit for limit in found.limits)  # it is the same answer
    assert found.finding is not None
    assert all(panel.title.startswith("Named right") for panel in found.finding.panels if isinstance(panel, Lines))
    assert "nan" not in json.dumps(found.to_json())


def test_e3_right_and_valid_goes_before_the_probes_naming(tmp_path: Path) -> None:
    """Whatever the order of studies, and even where it cannot tell; the other stands beside, with what it counts."""

    def mixed(code: str, time: float, seed: int) -> Shares:  # half of the seeds gradual: nothing is clear
        up = ramp(time, 0.1 if seed % 2 else 0.46, 0.9 if seed % 2 else 0.5)
        return {"valid": ramp(time, 0.15, 0.25), "joint": 0.9 * up, "named": up} if far(code) else {}

    whole = plant_cells(tmp_path / "tokenizers", TOKENIZERS, {"vae": mixed, "vq": mixed}, evaluations=50)
    close = early(tmp_path, dit_vae=named_rise(100, 1_500), dit_vq=named_rise(400, 450))
    for studies in (("early", "tokenizers"), ("tokenizers", "early")):
        one = Explanation(**{**vars(rise.EXPLANATION), "studies": studies})
        found = asked(one, whole, close)
        assert found.to_json()["study"] == "tokenizers" and not by_the_probe(found)
        beside = next(note for note in found.evidence if "study early" in note)
        assert "(8 seeds, as the probe names pictures, valid or not)" in beside


def had_begun(folder: Path) -> Answer:
    """VAE seeds begin before step 50 and end at 1,500: wide, whatever happened before. VQ ones are over by step 50 in
    two seeds."""

    def vq(code: str, time: float, seed: int) -> Shares:
        return named_rise(5, 10)(code, time, seed) if seed < 2 else named_rise(400, 450)(code, time, seed)

    return asked(rise.EXPLANATION, early(folder, dit_vae=named_rise(-600, 1_500), dit_vq=vq))


def test_e3_seeds_that_had_begun_are_counted_with_their_bounds(tmp_path: Path) -> None:
    """Nothing is known of the VQ seeds that are over by step 50, and how many is said."""
    found = had_begun(tmp_path)
    assert words(found)[rise.SHARPNESS] == "supported"
    note = next(note for note in found.evidence if "not known" in note and "has begun" in note)
    assert "8 of 8 seeds with VAE (step 50)" in note and "2 of 8 seeds with VQ-VAE (step 50)" in note
    assert found.finding is not None and "the ranges hold whatever the widths are" in found.finding.outcomes[0].sentence
    low, high = found.to_json()["interval"]
    assert low < 0.98 - 0.04 < high  # what is there with the VQ seeds' widths all as those that are known
    assert "is not known" in found.finding.outcomes[2].sentence and words(found)[rise.TOGETHER] != "supported"


def test_e3_shows_in_words_what_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row is left out, and none of which some seeds are not known shows a mean of the others."""
    found = had_begun(tmp_path)
    assert found.finding is not None
    when, wide = (panel for panel in found.finding.panels if isinstance(panel, Dots))
    assert (when.unit, wide.unit) == ("steps", "of 1")  # apart: a width is no time
    none, some = wide.rows
    assert isinstance(none, NotKnown) and isinstance(some, NotKnown)
    assert (none.values, none.why) == ((), "not known: begun by step 50")
    assert (len(some.values), some.why) == (6, "not known of 2: begun by step 50")
    assert some.span is not None and some.span[0] < np.mean(some.values) < some.span[1]
    rows = {row.label: row for row in when.rows}
    assert list(rows) == [f"{what}, {label}" for what in ("trained", "valid level-2", "level-2") for label in (VAE, VQ)]
    valid = rows[f"valid level-2, {VAE}"]
    assert isinstance(valid, NotKnown) and (valid.why, valid.span) == ("not known: some end below half", None)
    assert min(rows[f"level-2, {VQ}"].values) > 400  # steps, not shares of the training

    drawn, write = set(), Axes.text
    monkeypatch.setattr(Axes, "text", lambda axes, x, y, s, **style: drawn.add(s) or write(axes, x, y, s, **style))
    assert draw_answer(found, tmp_path / "E3.png").stat().st_size > 10_000
    assert {one.why for one in (*when.rows, *wide.rows) if isinstance(one, NotKnown)} <= drawn


def test_e3_bounds_that_disagree_cannot_tell(tmp_path: Path) -> None:
    """Both tokens begin before the first evaluation, in some seeds entirely: either could be the wider."""

    def both(code: str, time: float, seed: int) -> Shares:
        return named_rise(5, 10)(code, time, seed) if seed < 2 else named_rise(40, 150)(code, time, seed)

    said = words(asked(rise.EXPLANATION, early(tmp_path, dit_vae=both, dit_vq=both)))
    assert said[rise.SHARPNESS] == said[rise.SPREAD] == said[rise.TOGETHER] == "cannot tell"


def test_e3_a_rise_before_the_first_evaluation_is_not_seen(tmp_path: Path) -> None:
    """Objectives judges every 500 steps: it says what it does not show, and early answers beside it."""
    draws = {"dit_vae": named_rise(60, 300, last=11_000), "dit_vq": named_rise(60, 300, last=11_000)}
    coarse = objectives(tmp_path, **draws)
    alone = asked(rise.EXPLANATION, coarse)
    assert alone.word == "untested" and "0 of 8 seeds compose on both tokens, right and valid" in alone.text
    assert "8 of 8 seeds have most of their level-2" in alone.text and "step 500" in alone.text
    close = early(tmp_path, dit_vae=named_rise(60, 300), dit_vq=named_rise(60, 300))
    found = asked(rise.EXPLANATION, coarse, close)
    assert found.to_json()["study"] == "early" and words(found)[rise.SHARPNESS] == "contradicted"
    assert any("study objectives 0 of 8 seeds" in note for note in found.evidence)


def test_e3_too_few_by_either(tmp_path: Path) -> None:
    weak: Draw = lambda code, time, seed: {"named": 0.3, "joint": 0.01} if far(code) else {}  # noqa: E731
    found = asked(rise.EXPLANATION, early(tmp_path, dit_vae=weak, dit_vq=named_rise(60, 300)))
    assert found.word == "untested" and "(0 by the probe's naming alone), too few" in found.text


def test_e3_of_the_committed_results() -> None:
    """There no seed composes on both tokens, and the probe's naming is over at step 500."""
    found = asked(rise.EXPLANATION, ROOT / "results" / "objectives")
    assert found.word == "untested" and "0 of 8 seeds compose" in found.text and "step 500" in found.text


# The measures


def straight(begin: float, end: float, steps: np.ndarray) -> np.ndarray:
    return np.clip((steps - begin) / (end - begin), 0, 1)


def test_bounds_hold_the_width_that_finer_evaluations_show() -> None:
    """Of many rises: what is known agrees with a look at every step, and what is not lies between its bounds."""
    fine, coarse = np.arange(1.0, 3_001), np.arange(1, 61) * 50.0
    random = np.random.default_rng(0)
    unknown = 0
    for begin, length in zip(random.uniform(0, 60, 300), random.uniform(5, 300, 300), strict=True):
        true = width(fine, straight(begin, begin + length, fine))[0]
        least, most = width_between(coarse, straight(begin, begin + length, coarse))
        late = begin + 0.8 * length
        slack = 50 / late  # straight lines between evaluations
        assert least - slack <= true <= most + slack
        begun = straight(begin, begin + length, coarse)[0] >= 0.2
        assert (least < most) == begun
        unknown += begun
    assert 20 < unknown < 280
    assert width_between(coarse, np.ones(60)) == (0, 1)
    assert width_between(coarse, np.zeros(60)) == (0, 0)


def test_bounds_of_halves_and_lags() -> None:
    steps = np.arange(1, 61) * 50.0
    two = Curve(steps, (0, 1), np.stack([straight(0, 60, steps), straight(100, 300, steps)], axis=1))
    halves = half_steps(two)
    assert halves.least == pytest.approx([0, 200]) and halves.most == pytest.approx([50, 200])
    assert halves.unknown == 1 and halves.known.tolist() == [False, True]
    later = Bounds(np.array([400.0, 400.0]), np.array([400.0, 400.0]))
    found = lags({"level-2": later, "trained": halves}, "trained")
    assert found.least == pytest.approx([1 - 50 / 400, 0.5]) and found.most == pytest.approx([1, 0.5])
    assert own_widths(two).known.tolist() == [False, True]


def test_intervals_of_bounds_hold_all_that_can_be() -> None:
    """Those of known numbers are the usual ones; else every choice within the bounds has its mean inside."""
    random = np.random.default_rng(1)
    least, b = random.uniform(0, 0.5, 8), random.uniform(0, 1, 8)
    wide, other = Bounds(least, least + random.uniform(0, 0.5, 8) * (np.arange(8) < 3)), Bounds(b, b)
    found = difference(wide, other)
    assert found.low is not None and found.high is not None and wide.unknown == 3
    for _ in range(100):
        any_of = random.uniform(wide.least, wide.most)
        assert found.low < (any_of - b).mean() < found.high
    assert difference(other, other).mean == 0
    assert wide.interval().n == 8
