"""B6: what a tokenizer costs that has seen trained compositions only (study tokenizers).

Level-2 of the arm whose tokenizer was fitted on the trained compositions (`sees: train`) less that of the same arm with
one fitted on all. Beside it the ceiling: the share of real level-2 images that the tokenizer alone reproduces rightly.
"""

from collections.abc import Mapping

from recombine.claims.beyond import numbers
from recombine.claims.beyond.entries import Found, Gains, Question, Row, Rows, together
from recombine.claims.beyond.numbers import chip, compare, far, lead, listing, values
from recombine.claims.tables import FAR, Measure, StudyTable
from recombine.claims.testing import column_there
from recombine.claims.verdicts import Untested
from recombine.report.words import join, percent

TOKENIZERS = "tokenizers"
COLOURS = {"vqvae": "blue", "vae": "violet"}


def judge_seen(studies: Mapping[str, StudyTable], measure: Measure) -> Found:
    study = studies[TOKENIZERS]
    column_there(study, measure)
    groups = {
        numbers.TOKENS[str(group[0].setting("tokenizer.kind"))]: {
            str(arm.setting("tokenizer.sees")): arm for arm in group
        }
        for group in numbers.families(study, "tokenizer.sees").values()
    }
    groups = {label: group for label, group in groups.items() if {"all", "train"} <= set(group)}
    if not groups:
        raise Untested(
            f"the study {study.name} has no tokenizer that saw trained compositions only beside one that saw all"
        )
    arms = {f"{label}, saw {seen}": group[seen] for label, group in groups.items() for seen in ("all", "train")}
    dull = numbers.unlearned(arms, measure.column)
    pairs = {
        label: (far(group["train"], measure), far(group["all"], measure))
        for label, group in groups.items()
        if not {f"{label}, saw {seen}" for seen in ("all", "train")} & set(dull)
    }
    contrasts = compare(pairs, f"the study {study.name}")
    word, tone = chip(contrasts, "it costs", "no loss", "lower")
    tops = {label: group["train"].ceiling for label, group in groups.items()}
    known = [f"{percent(top)} for {label}" for label, top in tops.items() if top is not None]
    answer = f"{lead(tone)}: with a tokenizer that saw trained compositions only, level-2 is {listing(contrasts)}"
    if known:
        answer += f"; such a tokenizer itself reproduces {join(known)} of real level-2 images rightly"
    curves = {label: curve for label, arm in arms.items() if (curve := numbers.at_level(arm, FAR, measure.column))}
    rows = [
        Row(label, COLOURS.get(str(arm.setting("tokenizer.kind")), "grey"), values(far(arm, measure)))
        for label, arm in arms.items()
    ]
    return Found(
        studies=(study,),
        answer=f"{answer}.",
        word=word,
        tone=tone,
        contrasts=contrasts,
        ours=together(contrasts),
        measure="level-2 with a tokenizer that saw trained compositions only less that with one that saw all, mean "
        "over tokenizers",
        arms={label: arm.name for label, arm in arms.items()},
        panels=(Rows("Level-2", tuple(rows)), Gains("Saw train less saw all", contrasts)),
        limits=(*dull.values(), *numbers.still_moving(curves)),
    )


B6 = Question(
    id="B6",
    claim="C2",
    title="What the tokenizer has seen",
    question="Does it cost a model if its tokenizer, too, has seen trained combinations only?",
    compares="Level-2 where the tokenizer saw trained compositions only, less that where it saw all",
    studies=(TOKENIZERS,),
    judge=judge_seen,
)
