"""B6: what a tokenizer costs that has seen trained compositions only (study tokenizers-seen).

Level-2 of the arm whose tokenizer was fitted on the trained compositions (`sees: train`) minus that of the same arm
with one fitted on all. Beside it the ceiling: the share of real level-2 images that the tokenizer alone reproduces such
that they are judged right and valid, the mean over level-2 compositions.

Where no tokenizer that saw trained compositions only can write level-2, that is the answer, and what it costs is
compared one factor nearer, at level-1. Both that and ceilings by the probe where the probe alone is asked were written
when `tokenizers-seen` had been seen; before, there was no answer.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from recombine.claims.beyond import numbers
from recombine.claims.beyond.entries import SHARED, Found, Gains, Numbers, Question, Row, Rows
from recombine.claims.beyond.numbers import chip, compare, far, lead, listing, mean_text, values
from recombine.claims.tables import FAR, Arm, Measure, StudyTable
from recombine.claims.testing import COMPOSES, MATTERS, column_there
from recombine.claims.verdicts import Untested
from recombine.report.words import join, percent, percents

SEEN = "tokenizers-seen"
NEAR = 1  # the level nearest to training
AT = {FAR: ", level-2", NEAR: ", level-1"}
COLOURS = {"vqvae": "blue", "vae": "violet"}
KINDS = {"vqvae": "VQ-VAE", "vae": "VAE"}


def judge_seen(studies: Mapping[str, StudyTable], measure: Measure) -> Found:
    """Saw train minus saw all, for every kind of tokenizer that has both. Two rules keep floors out of the answer:

    - An arm whose tokenizer has a ceiling below *composes* is named and not compared. What a tokenizer cannot write, no
      model on it can be expected to draw, so the comparison would measure the tokenizer. By the probe alone the
      ceiling is that by the probe alone. One that was not measured leaves nothing out, and it is said.
    - Where both arms are below *composes*, within *matters* is called "neither composes": it tells nothing of a cost,
      and does not count towards "no loss". A clear difference below *composes* is one all the same.
    """
    study = studies[SEEN]
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
    tops = {label: _ceiling(arm, measure) for label, arm in arms.items()}
    unable = {
        label: _unable(arms[label], top, measure)
        for label, top in tops.items()
        if top is not None and top < COMPOSES.value
    }
    unlearned = numbers.unlearned(arms, measure.column)
    dull = {label: text for label, text in unlearned.items() if label not in unable}
    pairs = {
        label: (far(group["train"], measure), far(group["all"], measure))
        for label, group in groups.items()
        if not {f"{label}, saw {seen}" for seen in ("all", "train")} & {*unable, *dull}
    }
    if not pairs:
        blind = {
            label: group
            for label, group in groups.items()
            if f"{label}, saw train" in unable and f"{label}, saw all" not in unable
        }
        if any(not {f"{label}, saw {seen}" for seen in ("all", "train")} & set(unlearned) for label in blind):
            return _gives_none_back(study, blind, unlearned, measure)
        reasons = [*unable.values(), *(text.rstrip(".") for text in dull.values())]
        raise Untested(f"the study {study.name} leaves nothing to compare: {'; '.join(reasons)}")
    contrasts = compare(_at(FAR, pairs), f"the study {study.name}", floor=COMPOSES.value)
    telling = [one for one in contrasts if one.word != "neither composes"]
    word, tone = chip(telling, "it costs", "no loss", "lower") if telling else ("neither composes", "open")
    begin = lead(tone) if telling else "It cannot be told where neither arm composes"
    known = [
        f"{percent(top)} for {label}"
        for label in pairs
        if (top := _ceiling(groups[label]["train"], measure)) is not None
    ]
    answer = f"{begin}: with a tokenizer that saw trained compositions only, level-2 is {listing(contrasts, AT[FAR])}"
    if known:
        answer += f"; such a tokenizer itself reproduces {join(known)} of real level-2 images rightly"
    answer = "; ".join([answer, *unable.values()])
    unmeasured = [
        f"Whether its tokenizer can itself write level-2 was not measured: {label}."
        for label, top in tops.items()
        if top is None
    ]
    return Found(
        studies=(study,),
        answer=f"{answer}.",
        word=word,
        tone=tone,
        contrasts=contrasts,
        measure="level-2 with a tokenizer that saw trained compositions only minus that with one that saw all, mean "
        "over tokenizers",
        arms={label: arm.name for label, arm in arms.items()},
        panels=(Rows("Level-2", _rows(arms, measure)), Gains("Saw train minus saw all", contrasts)),
        limits=(*numbers.left_out(dull), *unmeasured, *numbers.still_moving(numbers.far_curves(arms, measure))),
    )


def _gives_none_back(
    study: StudyTable, groups: Mapping[str, Mapping[str, Arm]], dull: Mapping[str, str], measure: Measure
) -> Found:
    """The answer where no tokenizer that saw trained compositions only has a ceiling of *composes*, though those that
    saw all do: models on such tokens can hardly be expected to draw level-2. Level-1 is compared, of arms that have
    learned."""
    arms = {f"{label}, saw {seen}": group[seen] for label, group in groups.items() for seen in ("all", "train")}
    pairs = {
        label: (far(group["train"], measure, NEAR), far(group["all"], measure, NEAR))
        for label, group in groups.items()
        if not {f"{label}, saw {seen}" for seen in ("all", "train")} & set(dull)
    }
    contrasts = compare(_at(NEAR, pairs), f"the study {study.name}", floor=COMPOSES.value)
    blind = {label: group["train"] for label, group in groups.items()}
    tops = [_ceiling(arm, measure) or 0.0 for arm in blind.values()]
    near = [_ceiling(arm, measure, NEAR) for arm in blind.values()]
    known = [percent(top) for top in near if top is not None]
    of_near = f", of which they give back {join(known)}," if len(known) == len(near) else ""
    drawn = {label: far(arm, measure) for label, arm in blind.items()}
    each = [f"{mean_text(own)} on {label}" for label, own in drawn.items()]
    seen = [f"{label} {mean_text(far(arm, measure, NEAR))}" for label, arm in arms.items()]
    models = dict.fromkeys(numbers.NAMES.get(str(arm.setting("generator.kind")), "a model") for arm in blind.values())
    means = [float(np.mean(values(own))) for own in drawn.values()]
    curves = {label: curve for label, arm in arms.items() if (curve := numbers.at_level(arm, NEAR, measure.column))}
    return Found(
        studies=(study,),
        answer=f"Yes: of real level-2 images {_tokenizers(list(blind.values()))} that saw trained compositions only "
        f"give back {join([percent(top) for top in tops])} right and valid, and models on their tokens draw "
        f"{join(each)}; at level-1{of_near} what is drawn is, minus that on tokens of one that saw all, "
        f"{listing(contrasts, AT[NEAR])}.",
        word="gives none back" if max(tops) < MATTERS.value else "gives little back",
        tone="clear",
        contrasts=contrasts,
        measure="level-1 with a tokenizer that saw trained compositions only minus that with one that saw all, mean "
        "over tokenizers",
        arms={label: arm.name for label, arm in arms.items()},
        in_brief=f"{join(list(models))} on such tokens draws {percents(means)}.",
        afterwards=True,
        panels=(
            Rows("Level-2", _rows(arms, measure)),
            Rows("Level-1", _rows(arms, measure, NEAR)),
            Gains("Saw train minus saw all", contrasts),
        ),
        notes=(
            f"At level-1 they draw: {'; '.join(seen)}. Level-1 is compared since the study was seen. "
            "There is one tokenizer of each kind: intervals are over models.",
        ),
        limits=(*numbers.left_out(dull), *numbers.still_moving(curves)),
    )


def _at(level: int, pairs: Mapping[str, tuple[Numbers, Numbers]]) -> dict[str, tuple[Numbers, Numbers]]:
    """Comparisons that say at which level they are: those by the probe may be at another."""
    return {f"{label}{AT[level]}": pair for label, pair in pairs.items()}


def _ceiling(arm: Arm, measure: Measure, level: int = FAR) -> float | None:
    """By the count that is asked."""
    return arm.ceiling_at(level, measure.column)


def _tokenizers(arms: Sequence[Arm]) -> str:
    """ "a VAE and a VQ-VAE"."""
    kinds = [str(arm.setting("tokenizer.kind")) for arm in arms]
    return join([f"a {KINDS.get(kind, kind)}" for kind in kinds])


def _rows(arms: Mapping[str, Arm], measure: Measure, level: int = FAR) -> tuple[Row, ...]:
    return tuple(
        Row(label, COLOURS.get(str(arm.setting("tokenizer.kind")), "grey"), values(far(arm, measure, level)))
        for label, arm in arms.items()
    )


def _unable(arm: Arm, ceiling: float, measure: Measure) -> str:
    """That an arm's tokenizer cannot write level-2, with what the arm draws all the same: for free latents a ceiling
    is what can be expected, not a law."""
    kind = str(arm.setting("tokenizer.kind"))
    seen = "trained compositions only" if arm.setting("tokenizer.sees") == "train" else "all compositions"
    return (
        f"the {KINDS.get(kind, kind)} that saw {seen} can itself write {percent(ceiling)} of level-2, so its arm, "
        f"which draws {mean_text(far(arm, measure))}, is not compared"
    )


B6 = Question(
    id="B6",
    claim="C2",
    title="What the tokenizer has seen",
    question="Does it cost a model if its tokenizer, too, has seen trained combinations only?",
    compares="Where the tokenizer saw trained compositions only, minus where it saw all",
    studies=(SEEN,),
    judge=judge_seen,
    thresholds=(*SHARED, COMPOSES),
)
