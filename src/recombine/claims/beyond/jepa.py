"""B7: is there any setting of the JEPA loss that repairs MaskGIT? A search, told as one (study jepa).

Every JEPA arm of the searched studies is a try, but for controls that can teach nothing; its gain is level-2 minus that
of its own control, the same arm without the loss and nothing else changed. All tries are Holm-corrected together. The
best is chosen after the fact, so its gain is too large by chance; it counts where the study jepa-confirm finds it again
with seeds that no try was made with, by one test of its own.
"""

from collections.abc import Mapping

from recombine.claims import lookup
from recombine.claims.beyond import numbers
from recombine.claims.beyond.entries import Contrast, Curves, Found, Gains, Question, Tone
from recombine.claims.beyond.numbers import compare, far
from recombine.claims.planes.table import flat
from recombine.claims.tables import Arm, Measure, StudyTable
from recombine.claims.testing import FEWEST_SEEDS, MATTERS, column_there
from recombine.claims.verdicts import Untested
from recombine.report.reading import some
from recombine.report.words import join, p_value

SEARCH, CONFIRM = "jepa", "jepa-confirm"
PUBLISHED = "jepa-published"
FRESH = ", fresh seeds"
AGAIN = "a loss on all tokens"
UNTOLD = ("not clear", "neither composes")
"""What is said of a comparison that does not tell whether JEPA helps."""

SEARCHED = (SEARCH, "jepa-layers")
"""The studies whose JEPA arms count as tries."""

WORDS = {
    "jepa.momentum": "teacher",
    "jepa.momentum_end": "teacher",
    "jepa.normalized": "targets",
    "training.schedule": "schedule of the rate",
    "training.size": "size of the model",
    "training.steps": "length",
    "generator.loss_on": "loss of MaskGIT",
    "generator.smoothing": "loss of MaskGIT",
    "tokenizer.codes": "codebook",
}
"""Settings in words; any other by its last part."""


def judge_search(studies: Mapping[str, StudyTable], measure: Measure) -> Found:
    given = [studies[name] for name in SEARCHED if name in studies and measure.column in studies[name].columns]
    column_there(studies[SEARCH], measure)
    tried = {_label(arm): arm for study in given for arm in lookup.matching(study, lookup.JEPA)}
    controls = {label: own_control(arm) for label, arm in tried.items()}
    alone = [label for label, control in controls.items() if control is None]
    kept = {label: (arm, control) for label, arm in tried.items() if (control := controls[label]) is not None}
    known = {
        name: arm for label, (arm, control) in kept.items() for name, arm in ((label, arm), (_without(label), control))
    }
    dull = numbers.unlearned(known, measure.column)
    pairs = {
        label: (far(arm, measure), far(control, measure))
        for label, (arm, control) in kept.items()
        if not {label, _without(label)} & set(dull) and (arm.study.name == SEARCH or _enough(arm, control))
    }
    contrasts = compare(pairs, f"the study {SEARCH}", floor=MATTERS.value)
    best = max(contrasts, key=lambda one: one.test.mean)
    helping = [one.label for one in contrasts if one.word == "higher"]
    seen = {seed for arm, _ in kept.values() for seed in arm.seeds}
    confirmed, unconfirmed = _confirm(studies, kept, seen, measure)
    again = confirmed is not None and confirmed.label == _fresh(best.label)  # the probe's best may be another
    word, tone = _word(len(contrasts), contrasts, helping, confirmed, again)
    varied = sorted(what_varied([kept[one.label][0] for one in contrasts]))
    where = f"{len(contrasts)} setting{'' if len(contrasts) == 1 else 's'}"
    tries = f"{where} of {join([study.name for study in given])}" + (
        f" (varied: {', '.join(varied)})" if varied else ""
    )
    outcome = (
        f"{some(helping)} clearly {'raises' if len(helping) == 1 else 'raise'} level-2"
        if helping
        else f"none clearly raises level-2, so JEPA {_no_help(contrasts)} in {where}"
    )
    lower = [f"{one.label}, {one.text[:-1]}, {p_value(one.p)})," for one in contrasts if one.word == "lower"]
    outcome += f"; {some(lower)} clearly {'lowers' if len(lower) == 1 else 'lower'} it" if lower else ""
    after = unconfirmed
    if confirmed is not None and not again:
        asked = confirmed.label.removesuffix(FRESH)
        after = f"not asked again on fresh seeds ({CONFIRM} asks it of {asked}: {confirmed.text})"
    elif confirmed is not None:
        held = confirmed.word == "higher"
        after = f"{'confirmed on fresh seeds' if held else 'on fresh seeds it is not confirmed'}: {confirmed.text}"
    answer = (
        f"Of {tries}, each against its own control, {outcome}; the best, chosen after the fact, is {best.label} with "
        f"{best.text}, {after}."
    )
    arm, control = kept[best.label]
    both = {best.label: arm, _without(best.label): control}
    hues = dict(zip(both, ("pink", "red"), strict=True))
    curves = numbers.far_curves(both, measure)
    ranked = sorted(contrasts, key=lambda one: -one.test.mean)
    limits = numbers.left_out(dull)
    if alone:
        limits.append(f"Not counted, since no arm differs from it in the JEPA loss alone: {some(alone)}.")
    return Found(
        studies=tuple(given) + ((studies[CONFIRM],) if CONFIRM in studies else ()),
        answer=answer,
        word=word,
        tone=tone,
        contrasts=(*((confirmed,) if confirmed else ()), *contrasts),
        ours_of=((confirmed or best).label,),
        measure="level-2 with JEPA minus that of its own control, "
        + ("on fresh seeds" if confirmed else "of the best setting, chosen after the fact"),
        arms={label: one.name for label, one in both.items()},
        panels=(
            Curves(
                "The best setting, with the seeds of the search",
                {label: (hues[label], curve) for label, curve in curves.items()},
            ),
            Gains("Minus its own control", (*((confirmed,) if confirmed else ()), *ranked)),
        ),
        notes=(f"B10 asks it again with fresh seeds, from {AGAIN} on.",) if PUBLISHED in studies else (),
        limits=(*limits, *numbers.still_moving(curves)),
    )


def own_control(arm: Arm) -> Arm | None:
    """The MaskGIT of the same study that differs from a JEPA arm in nothing but the loss."""
    plain = lookup.matching(arm.study, lookup.MASKGIT)
    return next((base for base in plain if not lookup.differences(arm, base, ("jepa",))), None)


def _enough(arm: Arm, control: Arm) -> bool:
    """Whether a try of another study shares the seeds to be judged by; the search itself must."""
    return len(set(arm.seeds) & set(control.seeds)) >= FEWEST_SEEDS.value


def what_varied(arms: list[Arm]) -> set[str]:
    """The settings in which the arms are not all alike, in words."""
    settings = [flat(arm.settings) for arm in arms]
    paths = {path for one in settings for path in one}
    varied = {path for path in paths if len({repr(one.get(path)) for one in settings}) > 1}
    return {WORDS.get(path, path.split(".")[-1].replace("_", " ")) for path in varied}


def _confirm(
    studies: Mapping[str, StudyTable], kept: Mapping[str, tuple[Arm, Arm]], seen: set[int], measure: Measure
) -> tuple[Contrast | None, str]:
    """The gain of the confirming study on seeds that no try was made with; or why there is none."""
    if CONFIRM not in studies:
        return None, "not confirmed yet"
    study = studies[CONFIRM]
    for arm in lookup.matching(study, lookup.JEPA):
        control = own_control(arm)
        if control is None or measure.column not in study.columns:
            continue
        if numbers.unlearned({"it": arm, "its control": control}, measure.column):
            return None, f"not confirmed, since an arm of {CONFIRM} has not learned what it was trained on"
        fresh = [
            {seed: value for seed, value in far(one, measure).items() if seed not in seen} for one in (arm, control)
        ]
        same = [label for label, (other, _) in kept.items() if not lookup.differences(arm, other, ("training.steps",))]
        label = _fresh(same[0] if same else arm.name)
        try:
            return compare({label: (fresh[0], fresh[1])}, CONFIRM)[0], ""
        except Untested:
            count = len(set(fresh[0]) & set(fresh[1]))
            return None, (
                f"not confirmed, since {CONFIRM} has {count} fresh seeds and fewer than {FEWEST_SEEDS.value:.0f} are "
                "not judged"
            )
    return None, f"not confirmed, since {CONFIRM} has no JEPA arm with its own control"


def _fresh(label: str) -> str:
    return f"{label}{FRESH}"


def _word(
    count: int, contrasts: tuple[Contrast, ...], helping: list[str], confirmed: Contrast | None, again: bool
) -> tuple[str, Tone]:
    """`again`: it is the best try that was asked again."""
    if confirmed is not None and confirmed.word == "higher":
        return "helps in one setting", "clear"
    if helping and again and confirmed is not None:
        return "not confirmed", "open" if confirmed.word == "not clear" else "none"
    if helping:
        return "not confirmed yet", "open"
    ruled_out = not any(one.word in UNTOLD for one in contrasts)
    return f"{_no_help(contrasts)} in {count} settings", "none" if ruled_out else "open"


def _no_help(contrasts: tuple[Contrast, ...]) -> str:
    """Only where every comparison is clear is it said that there was no help."""
    return "did not clearly help" if any(one.word in UNTOLD for one in contrasts) else "did not help"


def _label(arm: Arm) -> str:
    return arm.name if arm.study.name == SEARCH else f"{arm.name} ({arm.study.name})"


def _without(label: str) -> str:
    return f"{label} without JEPA"


B7 = Question(
    id="B7",
    claim="C4",
    title="The search for a JEPA that helps",
    question="Is there a setting of the JEPA loss with which MaskGIT draws combinations it never saw?",
    compares="Level-2 of every setting tried, minus that of the same arm without JEPA",
    studies=(SEARCH,),
    beside=(*SEARCHED[1:], CONFIRM, PUBLISHED),
    judge=judge_search,
)
