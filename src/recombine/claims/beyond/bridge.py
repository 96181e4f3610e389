"""B8: both studies on one axis. Do generators draw the pairs in the hole where a decoder superposes (study bridge)?

Each generator minus the decoder: the share of held-out bumps in place, and the memory's share in single pictures deep
in the hole (`superposition_share`: 1 is all memory, 0 all truth). And, for what they predict: generators on the same
tokens against each other, in place. A generator draws the hole where it puts more than half in place (*misses*) and
clearly more than the decoder. An arm that has not *fitted* what it was trained on is left out.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from recombine.anatomy.measures import PICTURE
from recombine.claims.beyond.entries import Contrast, Found, Numbers, Question, Row, Rows, Tone
from recombine.claims.beyond.numbers import NAMES, TOKENS, compare, listing, mean_text, values
from recombine.claims.planes.parts import FITTED, MISSES, STANDARD, is_fitted, number_text, unfitted_text
from recombine.claims.planes.table import PlaneTable, setting
from recombine.claims.tables import Measure, StudyTable
from recombine.claims.testing import CLEAR, FEWEST_SEEDS, MATTERS
from recombine.claims.verdicts import Untested
from recombine.judges.statistics import interval
from recombine.report.words import join, number, percent
from recombine.studies.bridge_measures import MEAN

BRIDGE = "bridge"
COLOURS = {"dit": "blue", "maskgit": "red", "regression": "ochre"}
PLACE, MEMORY = ", in place", ", memory"
ELSE = {
    "training.steps": "steps",
    "training.batch": "images per step",
    "training.rate": "learning rate",
    "training.warmup": "steps of warm-up",
    "training.clip": "clipping of gradients",
    "training.ema_width": "width of the average of weights that is judged",
}
"""Settings of training in which a decoder and generators may differ, in words."""


def judge_bridge(studies: Mapping[str, StudyTable], measure: Measure) -> Found:
    """The measure is not asked for: the table holds one moment, the end of training."""
    study = studies[BRIDGE]
    table = PlaneTable.of(study)
    decoders = {_decoder(name, table): name for name in table.matching({"decoder": bool})}
    generators = {_generator(name, table): name for name in table.matching({"generator": bool})}
    if not decoders or not generators:
        raise Untested(f"the study {study.name} has no decoder beside a generator")
    base = next(iter(decoders))
    arms = {**decoders, **generators}
    dull = {
        label: unfitted_text(label, table, name, sorted(table.seeds(name)))
        for label, name in arms.items()
        if not is_fitted(table, name, sorted(table.seeds(name)))
    }
    if base in dull:
        raise Untested(dull[base].removesuffix("."))
    fitted = {label: name for label, name in generators.items() if label not in dull}
    place = {label: _numbers(table, name, "hit", "held_out") for label, name in arms.items()}
    memory = {label: _numbers(table, name, "superposition_share", "deep") for label, name in arms.items()}
    has_memory = all(memory[label] for label in (base, *fitted))
    pairs = {f"{label}{PLACE}": (place[label], place[base]) for label in fitted}
    pairs |= {f"{label}{MEMORY}": (memory[label], memory[base]) for label in fitted if has_memory}
    against = {}
    for a, b in combinations(fitted, 2):
        tokens = [str(setting(table.arms[fitted[one]], "tokenizer.kind")) for one in (a, b)]
        if tokens[0] == tokens[1]:
            names = [one.split(" on ")[0] for one in (a, b)]
            against[f"{names[0]} minus {names[1]} on {TOKENS[tokens[0]]}"] = (place[a], place[b])
    contrasts = compare(
        pairs | against, f"the study {study.name}", [label for label in pairs if label.endswith(MEMORY)]
    )
    placed, shared, apart = (
        [one for one in contrasts if one.label.endswith(PLACE)],
        [one for one in contrasts if one.label.endswith(MEMORY)],
        [one for one in contrasts if one.label in against],
    )
    word, tone = _word(placed, place)
    said = {one.label: one.word.replace("not clear", "not clearly other") for one in contrasts}
    texts = [f"{label} {mean_text(place[label])[:-1]}, {said[label + PLACE]})" for label in fitted]
    answer = f"The {base} puts {mean_text(place[base])} of held-out bumps in place, {join(texts)}"
    differ = _differences(study, table, arms[base], fitted)
    besides = f" Not alike are {join([*differ[:2], 'more'] if len(differ) > 2 else differ)}." if differ else ""
    in_brief = f"{answer}.{besides}"
    if shared:
        texts = [f"{_number(memory[label])[:-1]}, {said[label + MEMORY]}) with {label}" for label in fitted]
        answer += f"; the memory's share deep in the hole is {_number(memory[base])} with the {base}, {join(texts)}"
    if apart:
        answer += f"; by what they predict, the share in place is {listing(apart)}"
    return Found(
        studies=(study,),
        answer=f"{answer}.",
        word=word,
        tone=tone,
        in_brief=in_brief,
        contrasts=contrasts,
        ours_of=tuple(one.label for one in placed),
        measure=f"share of held-out bumps in place, generators (their mean) minus the {base}",
        arms=arms,
        panels=(
            Rows("Held-out bumps in place", _rows(place, arms, table)),
            *((Rows("Share of memory, deep in the hole", _rows(memory, arms, table)),) if shared else ()),
        ),
        more=(
            *_mean_pictures(table, fitted),
            *_how_well(table, {base: arms[base], **fitted}),
            *_factorization(table, {base: arms[base], **fitted}),
        ),
        limits=(*dull.values(), *_what_else(study, table, base, arms[base], fitted)),
    )


def _decoder(name: str, table: PlaneTable) -> str:
    kind = str(setting(table.arms[name], "decoder.kind"))
    return next((label for label, known in STANDARD.items() if known == kind), f"{kind} decoder")


def _generator(name: str, table: PlaneTable) -> str:
    kind, tokens = (str(setting(table.arms[name], f"{section}.kind")) for section in ("generator", "tokenizer"))
    return f"{NAMES.get(kind, kind)} on {TOKENS.get(tokens, tokens)}"


def _word(placed: Sequence[Contrast], place: Mapping[str, Numbers]) -> tuple[str, Tone]:
    """How many generators draw the hole: more than half in place (*misses*), and clearly more than the decoder."""
    shares = {one.label: interval(values(place[one.label.removesuffix(PLACE)]), share=True) for one in placed}
    doing = [one for one in placed if one.word == "higher" and shares[one.label].mean > MISSES.value]
    if doing:
        return f"{len(doing)} of {len(placed)} generators do", "clear"
    below = all((share.high if share.high is not None else 1.0) < MISSES.value for share in shares.values())
    return ("none does", "none") if below else ("cannot tell", "open")


def _number(found: Numbers) -> str:
    return number_text(interval(values(found), share=True))


def _numbers(table: PlaneTable, arm: str, measure: str, region: str, layer: str = PICTURE) -> Numbers:
    """{seed: value}, finite ones only."""
    found = table.by_seed(arm, measure, region, layer)
    return {seed: value for seed, value in found.items() if np.isfinite(value)}


def _rows(found: Mapping[str, Numbers], arms: Mapping[str, str], table: PlaneTable) -> tuple[Row, ...]:
    kinds = {label: str(setting(table.arms[name], "generator.kind")) for label, name in arms.items()}
    return tuple(
        Row(label, COLOURS.get(kinds[label], "grey"), values(own)) for label, own in found.items() if len(own) > 0
    )


def _mean_pictures(table: PlaneTable, generators: Mapping[str, str]) -> list[str]:
    """What is superposed only in the mean over samples: a generator may draw one memory at a time."""
    means = {
        label: values(_numbers(table, name, "superposition_share", "deep", MEAN)) for label, name in generators.items()
    }
    texts = [f"{np.mean(found):.2f} for {label}" for label, found in means.items() if found]
    return (
        [f"Of the mean over a cell's samples instead of single ones, the memory's share is {join(texts)}."]
        if texts
        else []
    )


def _how_well(table: PlaneTable, arms: Mapping[str, str]) -> list[str]:
    """Beside being in place, which nearly all of a generator's are: in place and valid, and the error."""
    both, errors = (
        {label: values(_numbers(table, name, word, "held_out")) for label, name in arms.items()}
        for word in ("joint", "relative")
    )
    said = []
    if all(both.values()):
        texts = [f"{percent(float(np.mean(found)))} for {label}" for label, found in both.items()]
        said.append(f"In place and valid are {join(texts)}.")
    if all(errors.values()):
        texts = [f"{number(float(np.mean(found)))} for {label}" for label, found in errors.items()]
        said.append(f"The error on held-out cells, over a blank's, is {join(texts)}.")
    return said


def _factorization(table: PlaneTable, arms: Mapping[str, str]) -> list[str]:
    """Whether x and y move a picture in directions of their own: `factorization`, by differences between cells."""
    found = {label: values(_numbers(table, name, "factorization", "held_out")) for label, name in arms.items()}
    if not all(found.values()):
        return []
    texts = [f"{np.mean(own):.3f} for {label}" for label, own in found.items()]
    true = values(_numbers(table, next(iter(arms.values())), "factorization", "held_out", "true picture"))
    beside = f" (true pictures {np.mean(true):.3f})" if true else ""
    return [f"The factorization of what is drawn in the hole, 1 at most, is {join(texts)}{beside}."]


def _differences(study: StudyTable, table: PlaneTable, decoder: str, generators: Mapping[str, str]) -> list[str]:
    """What differs between the decoder and generators beside how they are built."""
    told = []
    sizes = {name: study.finished.part("arms", name).get("parameters") for name in (decoder, *generators.values())}
    if all(sizes.values()):
        told.append(("parameters", sizes[decoder], [sizes[name] for name in generators.values()]))
    for path, words in ELSE.items():
        told.append(
            (words, setting(table.arms[decoder], path), [setting(table.arms[a], path) for a in generators.values()])
        )
    return [
        f"{words} ({_value(own)} against {_values(others)})"
        for words, own, others in told
        if any(other != own for other in others)
    ]


def _what_else(
    study: StudyTable, table: PlaneTable, base: str, decoder: str, generators: Mapping[str, str]
) -> list[str]:
    """The same in a sentence, and what a tokenizer has seen."""
    texts = _differences(study, table, decoder, generators)
    said = [f"Between the {base} and the generators these differ too: {join(texts)}."] if texts else []
    seen = [label for label, name in generators.items() if setting(table.arms[name], "tokenizer.sees") == "all"]
    if seen:
        said.append(f"The tokenizer of {join(seen)} was fitted on all cells, held-out ones too.")
    return said


def _values(found: Sequence[Any]) -> str:
    """One text where all look the same, else from the smallest to the largest."""
    texts = [_value(value) for value in sorted(found, key=lambda value: value or 0)]
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"


def _value(value: Any) -> str:
    """A setting as it is told: "none", "3,150", "0.38 million"."""
    if not isinstance(value, int | float) or value == 0:
        return "none"
    return f"{number(value / 1e6)} million" if value >= 1e5 else f"{value:,g}"


B8 = Question(
    id="B8",
    claim="F1",
    title="Both studies on one axis",
    question="Where a decoder superposes its memories, do generators draw the pairs that they never saw?",
    compares="Held-out bumps in place, and the memory's share in a picture deep in the hole",
    studies=(BRIDGE,),
    judge=judge_bridge,
    thresholds=(CLEAR, FEWEST_SEEDS, FITTED, MATTERS, MISSES),
)
