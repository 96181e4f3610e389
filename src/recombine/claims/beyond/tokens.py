"""B6: what a tokenizer costs that has seen trained compositions only (study tokenizers-seen).

Level-2 of the arm whose tokenizer was fitted on the trained compositions (`sees: train`) less that of the same arm with
one fitted on all. Beside it the ceiling: the share of real level-2 images that the tokenizer alone reproduces such that
they are judged right and valid, the mean over level-2 compositions.

Where no tokenizer that saw trained compositions only can write level-2, that is the answer, and what it costs is
compared one factor nearer, at level-1. That was written when `tokenizers-seen` had been seen; before, there was none.
"""

from collections.abc import Mapping, Sequence

from recombine.claims.beyond import numbers
from recombine.claims.beyond.entries import SHARED, Found, Gains, Question, Row, Rows, together
from recombine.claims.beyond.numbers import chip, compare, far, lead, listing, mean_text, values
from recombine.claims.tables import FAR, Arm, Measure, StudyTable
from recombine.claims.testing import COMPOSES, column_there
from recombine.claims.verdicts import Untested
from recombine.report.words import join, percent

SEEN = "tokenizers-seen"
NEAR = 1  # the level nearest to training
COLOURS = {"vqvae": "blue", "vae": "violet"}
KINDS = {"vqvae": "VQ-VAE", "vae": "VAE"}


def judge_seen(studies: Mapping[str, StudyTable], measure: Measure) -> Found:
    """Saw train less saw all, for every kind of tokenizer that has both. Two rules keep floors out of the answer:

    - An arm whose tokenizer has a ceiling below *composes* is named and not compared. What a tokenizer cannot write, no
      model on it can be expected to draw, so the comparison would measure the tokenizer. The ceiling counts right and
      valid pictures whichever measure is asked. A ceiling that was not measured leaves nothing out, and it is said.
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
    tops = {label: arm.ceiling for label, arm in arms.items()}
    unable = {
        label: _unable(arms[label], top, measure)
        for label, top in tops.items()
        if top is not None and top < COMPOSES.value
    }
    dull = numbers.unlearned({label: arm for label, arm in arms.items() if label not in unable}, measure.column)
    pairs = {
        label: (far(group["train"], measure), far(group["all"], measure))
        for label, group in groups.items()
        if not {f"{label}, saw {seen}" for seen in ("all", "train")} & {*unable, *dull}
    }
    if not pairs:
        blind = {
            label: group
            for label, group in groups.items()
            if f"{label}, saw train" in unable and f"{label}, saw all" not in {*unable, *dull}
        }
        if blind:
            return _cannot_write(study, blind, numbers.left_out(dull), measure)
        reasons = [*unable.values(), *(text.rstrip(".") for text in dull.values())]
        raise Untested(f"the study {study.name} leaves nothing to compare: {'; '.join(reasons)}")
    contrasts = compare(pairs, f"the study {study.name}", floor=COMPOSES.value)
    telling = [one for one in contrasts if one.word != "neither composes"]
    word, tone = chip(telling, "it costs", "no loss", "lower") if telling else ("neither composes", "open")
    begin = lead(tone) if telling else "It cannot be told where neither arm composes"
    known = [f"{percent(top)} for {label}" for label in pairs if (top := groups[label]["train"].ceiling) is not None]
    answer = f"{begin}: with a tokenizer that saw trained compositions only, level-2 is {listing(contrasts)}"
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
        ours=together(contrasts),
        measure="level-2 with a tokenizer that saw trained compositions only less that with one that saw all, mean "
        "over tokenizers",
        arms={label: arm.name for label, arm in arms.items()},
        panels=(Rows("Level-2", _rows(arms, measure)), Gains("Saw train less saw all", contrasts)),
        limits=(*numbers.left_out(dull), *unmeasured, *numbers.still_moving(numbers.far_curves(arms, measure))),
    )


def _cannot_write(
    study: StudyTable, groups: Mapping[str, Mapping[str, Arm]], limits: list[str], measure: Measure
) -> Found:
    """The answer where no tokenizer that saw trained compositions only has a ceiling of *composes*, though those that
    saw all do. A model on such tokens cannot be expected to draw level-2; level-1 is compared."""
    arms = {f"{label}, saw {seen}": group[seen] for label, group in groups.items() for seen in ("all", "train")}
    pairs = {
        f"{label} at level-1": (far(group["train"], measure, NEAR), far(group["all"], measure, NEAR))
        for label, group in groups.items()
    }
    contrasts = compare(pairs, f"the study {study.name}", floor=COMPOSES.value)
    blind = [group["train"] for group in groups.values()]
    drawn = {label: mean_text(far(group["train"], measure)) for label, group in groups.items()}
    near = [percent(top) for arm in blind if (top := arm.ceiling_at(NEAR)) is not None]
    able = f", of which they can write {join(near)}," if len(near) == len(blind) else ""
    seen = {label: far(arm, measure, NEAR) for label, arm in arms.items()}
    curves = {label: curve for label, arm in arms.items() if (curve := numbers.at_level(arm, NEAR, measure.column))}
    told = listing(contrasts, " at level-1")
    return Found(
        studies=(study,),
        answer=f"Yes: of real level-2 images {_tokenizers(blind)} that saw trained compositions only can write "
        f"{join([percent(arm.ceiling or 0.0) for arm in blind])} right and valid, so models on their tokens can hardly "
        f"be expected to draw it; they draw {join([f'{text} on {label}' for label, text in drawn.items()])}; at "
        f"level-1{able} what is drawn is, less that on tokens of one that saw all, {told}.",
        word="cannot write the rest",
        tone="clear",
        contrasts=contrasts,
        ours=together(contrasts),
        measure="level-1 with a tokenizer that saw trained compositions only less that with one that saw all, mean "
        "over tokenizers",
        arms={label: arm.name for label, arm in arms.items()},
        panels=(
            Rows("Level-2", _rows(arms, measure)),
            Rows("Level-1", _rows(arms, measure, NEAR)),
            Gains("Level-1: saw train less saw all", contrasts),
        ),
        notes=(f"At level-1 they draw: {'; '.join(f'{label} {mean_text(own)}' for label, own in seen.items())}.",),
        limits=(*limits, *numbers.still_moving(curves)),
        afterwards=True,
    )


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
    compares="Where the tokenizer saw trained compositions only, less where it saw all",
    studies=(SEEN,),
    judge=judge_seen,
    thresholds=(*SHARED, COMPOSES),
)
