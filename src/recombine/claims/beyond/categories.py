"""B12: categories or vectors (study discrete)? On equal tokens, do models of vectors draw more of the combinations they
never saw, and by which step from one model to another?

Level-2 of the models of vectors, their mean, minus that of the models of categories, of those that have learned what
they were trained on: it gives the word. Beside it single steps from one model to another (`STEPS`), all Holm-corrected
together. Each step changes more than its name says; what, is told in the limits.

Written when the study's shares had been seen: its words describe this study, and test nothing that was said beforehand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from recombine.claims import lookup
from recombine.claims.beyond import numbers
from recombine.claims.beyond.entries import Contrast, Found, Gains, Numbers, Question, Row, Rows, Said, Tone
from recombine.claims.beyond.numbers import compare, far, mean_text, values, with_word
from recombine.claims.tables import NAMED, Arm, Measure, StudyTable
from recombine.claims.testing import COMPOSES, MATTERS, also_differ, column_there
from recombine.claims.verdicts import Untested
from recombine.report.words import join, percent

DISCRETE = "discrete"
ALL = "vectors minus categories"
MASKGIT, SOFT, EVERY = "MaskGIT", "soft-target MaskGIT", "all-token MaskGIT"
DIFFUSION, ROWWISE, REGRESSION = "discrete diffusion", "autoregressive", "regression"
HARD: lookup.Wanted = {**lookup.family("maskgit"), "generator.targets": "hard"}

CATEGORIES: Mapping[str, lookup.Wanted] = {
    MASKGIT: {**HARD, "generator.loss_on": "masked", "generator.smoothing": lambda value: not value},
    SOFT: {**lookup.family("maskgit"), "generator.targets": "soft"},
    EVERY: {**HARD, "generator.loss_on": "all"},
    DIFFUSION: lookup.family("discrete_diffusion"),
    ROWWISE: lookup.family("autoregressive"),
}
VECTORS: Mapping[str, lookup.Wanted] = {
    REGRESSION: lookup.family("regression"),
    **{label: lookup.family(kind) for label, kind in lookup.CONTINUOUS.items()},
}
SIDES = {"categories": CATEGORIES, "vectors": VECTORS}
COLOURS = {"categories": "red", "vectors": "blue"}


@dataclass(frozen=True)
class Step:
    """From one model to another: the first minus the second."""

    about: str  # what it is meant to change, as the beginning of a sentence
    first: str
    second: str
    also: str = ""  # what else it changes, beside how pictures are drawn
    turned: str = ""  # where both are of one kind, the setting that it is meant to change

    @property
    def name(self) -> str:
        return f"{self.first} minus {self.second}"

    @property
    def pair(self) -> set[str]:
        return {self.first, self.second}


VECTORS_FOR = "With vectors in place of categories, and masks kept"
NOISE = "With something drawn in place of a mean, and vectors kept"
MASKING = "With other masks or none, and categories kept"
LOSS = "With another loss, and masks and categories kept"
ALONE = Step(
    VECTORS_FOR,
    REGRESSION,
    MASKGIT,
    "chance (MaskGIT draws a token, regression gives its mean) and what is decoded (vectors as they are, no codes)",
)
STEPS = (
    ALONE,
    Step(NOISE, "MAR", REGRESSION, "the law of its masks and a head of its own, which makes it larger"),
    Step(NOISE, "GIVT", REGRESSION),
    Step(NOISE, "DiT", REGRESSION, "masks (it has none)"),
    Step(MASKING, ROWWISE, MASKGIT, "what a token is predicted from (those before it) and the tokens that count (all)"),
    Step(MASKING, DIFFUSION, MASKGIT, "the weights of its loss (those of a likelihood)"),
    Step(LOSS, SOFT, MASKGIT, turned="generator.targets"),
    Step(LOSS, EVERY, MASKGIT, turned="generator.loss_on"),
)

ORDERS = {
    "regression": "at random",
    "mar": "at random",
    "discrete_diffusion": "at random",
    "givt": "by confidence",
    "dit": "all tokens at once",
    "autoregressive": "token by token, row by row",
}
"""In what order a family fills its tokens when it draws; MaskGIT's is a setting."""

WORDS: dict[Said, tuple[str, Tone, str]] = {
    "higher": ("vectors draw more", "clear", "Models of vectors draw more"),
    "lower": ("categories draw more", "clear", "Models of categories draw more"),
    "alike": ("alike", "none", "They draw about as much"),
    "not clear": ("cannot tell", "open", "The seeds cannot tell"),
    "neither composes": ("cannot tell", "open", "It cannot be told where both draw next to nothing"),
}
"""What is said of vectors minus categories: in short, how it counts, and how the answer begins."""

UNEVEN = "A mean counts every family of its side alike, so it depends on which were run and have learned."
AFTERWARDS = "What is compared here was written when the shares of this study had been seen (docs/claims.md)."


def judge_categories(studies: Mapping[str, StudyTable], measure: Measure) -> Found:
    study = studies[DISCRETE]
    column_there(study, measure)
    arms = arms_of(study)
    dull = numbers.unlearned(arms, measure.column)
    kept = {side: [label for label in own if label in arms and label not in dull] for side, own in SIDES.items()}
    for side, labels in kept.items():
        if not labels:
            none = "have learned what they were trained on" if set(SIDES[side]) & set(arms) else "are there"
            raise Untested(f"of the models of {side} in the study {study.name} none {none}")
    shares = {label: far(arm, measure) for label, arm in arms.items()}
    means = {side: _mean([shares[label] for label in labels]) for side, labels in kept.items()}
    pairs = {ALL: (means["vectors"], means["categories"])}
    able = {label for labels in kept.values() for label in labels}
    pairs |= {one.name: (shares[one.first], shares[one.second]) for one in STEPS if one.pair <= able}
    contrasts = compare(pairs, f"the study {study.name}", floor=MATTERS.value)
    found = {one.label: one for one in contrasts}
    word, tone, begin = WORDS[found[ALL].word]
    sides = [f"{side} ({_mean_of(kept[side])})" for side in ("vectors", "categories")]
    main = f"{_spans(kept, shares)} {begin}: level-2 of {sides[0]} minus that of {sides[1]} is {with_word(found[ALL])}."
    hues = {label: COLOURS[side] for side, own in SIDES.items() for label in own}
    rows = [Row(label, hues[label], values(own)) for label, own in shares.items()]
    absent = [label for own in SIDES.values() for label in own if label not in arms]
    made = [one for one in STEPS if one.name in found]
    step = found.get(ALONE.name)
    alone = f"; with masks kept, {step.label}, {with_word(step)}" if step is not None else ""
    return Found(
        studies=(study,),
        answer=" ".join([main, *_told(found, set(arms))]),
        word=word,
        tone=tone,
        contrasts=contrasts,
        ours_of=(ALL,),
        afterwards=True,
        in_brief=f"Level-2: {ALL} {found[ALL].text}{alone}. Compared when the study had been seen.",
        measure="level-2 of models of vectors minus that of models of categories, each the mean of those that have "
        "learned",
        arms={label: arm.name for label, arm in arms.items()},
        panels=(Rows("Level-2: categories red, vectors blue", tuple(rows)), Gains("Differences of level-2", contrasts)),
        more=(f"Level-2 is {join([f'{mean_text(own)} for {label}' for label, own in shares.items()])}.",),
        limits=(
            AFTERWARDS,
            *map(_capital, numbers.left_out(dull)),
            *([f"The study {study.name} has no arm for {join(absent)}."] if absent else []),
            UNEVEN,
            *_only_by_probe(study, arms, dull, measure),
            *_also(made, arms),
            *_drawn(arms, {label for one in made for label in one.pair}),
            *filter(None, [also_differ(next(iter(arms)), arms, ("generator",))]),
            *numbers.still_moving(numbers.far_curves(arms, measure)),
        ),
    )


def arms_of(study: StudyTable) -> dict[str, Arm]:
    """The study's models of categories, then those of vectors; where several fit, that which is most like MaskGIT's."""
    found: dict[str, Arm] = {}
    for label, wanted in {**CATEGORIES, **VECTORS}.items():
        arm = lookup.nearest(lookup.matching(study, wanted), found.get(MASKGIT), ("generator",))
        if arm is not None:
            found[label] = arm
    return found


def _spans(kept: Mapping[str, Sequence[str]], shares: Mapping[str, Numbers]) -> str:
    """What each side draws, the least and the most of a family, and which draw at least half."""
    means = {label: float(np.mean(values(shares[label]))) for labels in kept.values() for label in labels}
    texts = []
    for side, labels in kept.items():
        least, most = (percent(end(means[label] for label in labels)) for end in (min, max))
        texts.append(f"models of {side} draw {least if least == most else f'{least} to {most}'}")
    above = [label for label, mean in means.items() if mean >= COMPOSES.value]
    half = f"{join(above)} at least half" if above else "none as much as half"
    return f"Of level-2 {join(texts)}, {half}."


def _mean(own: Sequence[Numbers]) -> Numbers:
    """The mean of several arms, over the seeds that all have."""
    seeds = sorted(set.intersection(*map(set, own)))
    return {seed: float(np.mean([one[seed] for one in own])) for seed in seeds}


def _mean_of(labels: Sequence[str]) -> str:
    return f"the mean of {join(list(labels))}" if len(labels) > 1 else f"{labels[0]} alone"


def _told(found: Mapping[str, Contrast], there: set[str]) -> list[str]:
    """A sentence for each kind of step, with all its comparisons: each is told by itself, since one that is clear and
    one that is not need not differ."""
    texts: dict[str, list[str]] = {}
    for one in STEPS:
        if one.name in found:
            texts.setdefault(one.about, []).append(f"{one.name} is {with_word(found[one.name])}")
        elif one.pair <= there:
            texts.setdefault(one.about, []).append(f"{one.name} is not compared")
    return [f"{about}: {'; '.join(own)}." for about, own in texts.items()]


def _only_by_probe(study: StudyTable, arms: Mapping[str, Arm], dull: Mapping[str, str], measure: Measure) -> list[str]:
    """That more arms have learned where the probe alone counts: there the means are of other arms."""
    if measure.column == NAMED or NAMED not in study.columns:
        return []
    more = [label for label in dull if label not in numbers.unlearned(arms, NAMED)]
    if not more:
        return []
    they = "it is compared, and counts" if len(more) == 1 else "they are compared, and count"
    have = "has" if len(more) == 1 else "have"
    return [f"Counted by the probe alone, {join(more)} {have} learned too: there {they} in the mean."]


def _also(made: Sequence[Step], arms: Mapping[str, Arm]) -> list[str]:
    """What the steps change beside what they are meant to."""
    texts = []
    for one in made:
        also = one.also
        if one.turned:
            others = lookup.differences(arms[one.first], arms[one.second], (one.turned,))
            also = join([path.removeprefix("generator.").replace("_", " ") for path in others]) if others else ""
        texts += [f"{one.name}, {also}"] if also else []
    only = f"Only {ALONE.name} exchanges categories for vectors and keeps the masks."
    return [
        *([only] if ALONE in made else []),
        *([f"Beside what is meant, these change: {'; '.join(texts)}."] if texts else []),
    ]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _drawn(arms: Mapping[str, Arm], labels: set[str]) -> list[str]:
    """How the compared arms are drawn from: it was chosen for each, and differs in nearly all pairs."""
    ways: dict[str, list[str]] = {}
    for label, arm in arms.items():
        if label in labels:
            ways.setdefault(_way(arm), []).append(label)
    texts = [f"{join(own)} {way}" for way, own in ways.items()]
    return [f"How pictures are drawn differs too: {'; '.join(texts)}."] if len(texts) > 1 else []


def _way(arm: Arm) -> str:
    """In how many steps an arm draws, in what order, and with how much chance where that is a setting."""
    kind = str(arm.setting("generator.kind"))
    steps, order = arm.setting("generator.sampling_steps"), arm.setting("generator.order")
    found = ORDERS.get(kind) or (f"by {order}" if order == "confidence" else f"in {order} order")
    text = f"in {steps} steps, {found}" if steps else found
    noise = arm.setting("generator.choice_temperature")
    if noise is not None and found == "by confidence":
        text += f" with noise {noise:g}"
    if kind == "givt" and arm.setting("generator.temperature") == 0:
        text += " and none in a token (of its mixture, a part is drawn)"
    return text


B12 = Question(
    id="B12",
    claim="C1",
    title="Categories or vectors",
    question="On equal tokens, do models of vectors draw more new combinations than models of categories?",
    compares="Level-2 of models of vectors minus that of models of categories, and steps from one model to another",
    studies=(DISCRETE,),
    judge=judge_categories,
)
