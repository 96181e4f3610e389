"""What the entries compare, and how it is told: arms of a family, one number per seed, comparisons made together.

A family is a group of arms that differ in one setting alone, the one that a study turns. An arm that has not learned
what it was trained on (*learned*) is left out of all comparisons and named: it tells nothing about new compositions.
Shapes: E evaluations, S seeds.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from recombine.claims import lookup
from recombine.claims.beyond.entries import Contrast, Line, Numbers, Over, Said, Tone
from recombine.claims.tables import FAR, Arm, Curve, Measure, StudyTable, fifth
from recombine.claims.testing import COMPOSES, FEWEST_SEEDS, LEARNED, MATTERS, RISING, share_text
from recombine.claims.verdicts import Untested
from recombine.judges.statistics import Interval, holm, interval, paired
from recombine.report.reading import some
from recombine.report.words import join, percent, points

UNLEARNED = " of the trained compositions and is not compared."
NAMES = {
    "dit": "DiT",
    "maskgit": "MaskGIT",
    "givt": "GIVT",
    "mar": "MAR",
    "autoregressive": "autoregressive",
    "discrete_diffusion": "discrete diffusion",
    "regression": "regression",
}
TOKENS = {"vqvae": "VQ tokens", "vae": "VAE tokens", "pixels": "pixels"}
COLOURS = {"dit": "blue", "maskgit": "red", "givt": "violet", "mar": "ochre"}
JEPA_COLOUR = "pink"
OTHERS = ("green", "grey", "pink", "ochre")

Family = list[Arm]
Called = Callable[[str, float], str]
Share = Callable[[Arm], Numbers]


def families(study: StudyTable, setting: str) -> dict[str, Family]:
    """Arms that differ in `setting` alone, by the family's name; only groups of two and more."""
    groups: list[Family] = []
    for arm in study.arms:
        own = next((group for group in groups if not lookup.differences(arm, group[0], (setting,))), None)
        if own is None:
            groups.append([arm])
        else:
            own.append(arm)
    groups = [group for group in groups if len(group) > 1]
    names = label_all([group[0] for group in groups])
    return dict(zip(names, groups, strict=True))


def label_all(arms: Sequence[Arm]) -> list[str]:
    """ "DiT" or "MaskGIT + JEPA", with its tokens where another arm has the same on others, and its own name where that
    is not enough."""
    kinds = [_kind(arm) for arm in arms]
    found = []
    for arm, kind in zip(arms, kinds, strict=True):
        tokens = TOKENS.get(str(arm.setting("tokenizer.kind")), "")
        found.append(kind + (f" on {tokens}" if kinds.count(kind) > 1 else ""))
    return [arm.name if found.count(name) > 1 else name for arm, name in zip(arms, found, strict=True)]


def _kind(arm: Arm) -> str:
    kind = str(arm.setting("generator.kind"))
    return NAMES.get(kind, kind) + (" + JEPA" if arm.setting("jepa") else "")


def colours(arms: Mapping[str, Arm]) -> dict[str, str]:
    """A colour per family: that of its generator in all figures, and another for a second family of the same one."""
    found: dict[str, str] = {}
    spare = iter(OTHERS * len(arms))
    for label, arm in arms.items():
        own = JEPA_COLOUR if arm.setting("jepa") else COLOURS.get(str(arm.setting("generator.kind")), "")
        found[label] = own if own and own not in found.values() else next(c for c in spare if c not in found.values())
    return found


@dataclass(frozen=True)
class Turned:
    """Families over the values of what a study turns; `called` names a family's arm at a value."""

    families: Mapping[str, Mapping[float, Arm]]  # {family: {value: arm}}, values ascending
    called: Called

    @classmethod
    def of(
        cls, groups: Mapping[str, Family], value: Callable[[Arm], float], called: Called, base: float | None = None
    ) -> "Turned":
        """The families in `groups`; with a `base`, only those that have an arm at this value."""
        found = {label: dict(sorted({value(arm): arm for arm in group}.items())) for label, group in groups.items()}
        return cls({label: group for label, group in found.items() if base is None or base in group}, called)

    @property
    def arms(self) -> dict[str, Arm]:
        return {self.called(label, at): arm for label, group in self.families.items() for at, arm in group.items()}

    @property
    def tried(self) -> list[float]:
        """The values at which some family has an arm, ascending."""
        return sorted({at for group in self.families.values() for at in group})

    @property
    def ticks(self) -> tuple[str, ...]:
        return tuple(f"{at:g}" for at in self.tried)

    def lines(self, share: Share) -> tuple[Line, ...]:
        """Each family over the values, in a colour of its own."""
        own = colours({label: next(iter(group.values())) for label, group in self.families.items()})
        return tuple(
            Line(label, own[label], {f"{at:g}": values(share(arm)) for at, arm in group.items()})
            for label, group in self.families.items()
        )

    def over(self, title: str, axis: str, share: Share) -> Over:
        return Over(title, axis, self.ticks, self.lines(share))

    def ends(self, share: Share, out: Collection[str]) -> dict[str, tuple[Numbers, Numbers]]:
        """{family: (its numbers at the largest value, at the smallest)}; not where one of these arms is left `out`."""
        return {
            label: (share(group[max(group)]), share(group[min(group)]))
            for label, group in self.families.items()
            if not {self.called(label, at) for at in (max(group), min(group))} & set(out)
        }


def at_level(arm: Arm, level: int, column: str) -> Curve | None:
    """The curves of an arm at a level; None where it was not judged there."""
    return arm.study.curve(arm.name, level, column)


def over_codes(arm: Arm, codes: Collection[str], column: str) -> Curve:
    """The curves of an arm's members, the mean over some compositions."""
    found: dict[tuple[int, int], list[float]] = {}
    for row in arm.study.finished.rows:
        if row["arm"] == arm.name and row["composition"] in codes:
            found.setdefault((row["step"], row["seed"]), []).append(row[column])
    steps, seeds = (sorted({key[i] for key in found}) for i in (0, 1))
    values = np.array([[np.mean(found[step, seed]) for seed in seeds] for step in steps])
    return Curve(np.array(steps), tuple(seeds), values)


def numbers(curve: Curve, measure: Measure) -> Numbers:
    """One number per seed, at the moment that is asked for."""
    return dict(zip(curve.seeds, curve.at(measure.when, curve.seeds, measure.until).tolist(), strict=True))


def far(arm: Arm, measure: Measure, level: int = FAR) -> Numbers:
    """The share of pictures drawn right, of level-2 where no other level is asked for."""
    curve = at_level(arm, level, measure.column)
    if curve is None:
        raise Untested(f"arm {arm.name} of {arm.study.name} has no composition of level {level}")
    return numbers(curve, measure)


def far_curves(arms: Mapping[str, Arm], measure: Measure) -> dict[str, Curve]:
    """The curves of level-2, of the arms that were judged there."""
    return {label: curve for label, arm in arms.items() if (curve := at_level(arm, FAR, measure.column))}


def values(found: Numbers) -> tuple[float, ...]:
    return tuple(found[seed] for seed in sorted(found))


def mean_text(found: Numbers) -> str:
    """The mean of shares over seeds, with its interval."""
    return share_text(interval(values(found), share=True))


def trained_share(arm: Arm, column: str, codes: Collection[str] | None = None) -> float:
    """Mean share of the trained compositions (or of some of them) drawn right in the last fifth."""
    curve = at_level(arm, 0, column) if codes is None else over_codes(arm, codes, column)
    if curve is None:
        raise Untested(f"arm {arm.name} of {arm.study.name} was not judged on what it was trained on")
    return float(curve.at("last fifth", curve.seeds).mean())


def unlearned(arms: Mapping[str, Arm], column: str, codes: Collection[str] | None = None) -> dict[str, str]:
    """{label: a sentence} for every arm that has not learned what it was trained on."""
    shares = {label: trained_share(arm, column, codes) for label, arm in arms.items()}
    return {
        label: f"{label} draws only {percent(share)}{UNLEARNED}"
        for label, share in shares.items()
        if share < LEARNED.value
    }


def left_out(dull: Mapping[str, str]) -> list[str]:
    """The sentences of `unlearned`, as one where there are many."""
    if len(dull) < 3:
        return list(dull.values())
    shares = [text.removesuffix(UNLEARNED).replace(" draws only ", " ") for text in dull.values()]
    return [f"Not compared, since too few of the trained compositions are drawn: {join(shares)}."]


def compare(
    pairs: Mapping[str, tuple[Numbers, Numbers]], where: str, plain: Collection[str] = (), floor: float | None = None
) -> tuple[Contrast, ...]:
    """a - b for every pair, Holm-corrected together; `plain` are labels whose numbers are no shares of pictures.

    Where the means of a and b over the shared seeds are both below a given `floor`, "alike" is not said.
    Raises Untested where there is no pair, or one shares too few seeds. `where` names the studies.
    """
    if not pairs:
        raise Untested(f"no two arms of {where} that differ as asked have learned what they were trained on")
    shared = {label: sorted(set(a) & set(b)) for label, (a, b) in pairs.items()}
    fewest = min(map(len, shared.values()))
    if fewest < FEWEST_SEEDS.value:
        raise Untested(
            f"the arms of {where} share {fewest} seed{'' if fewest == 1 else 's'}, and fewer than "
            f"{FEWEST_SEEDS.value:.0f} are not judged"
        )
    tests = {
        label: paired([a[seed] for seed in shared[label]], [b[seed] for seed in shared[label]])
        for label, (a, b) in pairs.items()
    }
    corrected = holm([test.p for test in tests.values()])
    return tuple(
        Contrast(
            label,
            {seed: pairs[label][0][seed] - pairs[label][1][seed] for seed in shared[label]},
            test,
            1.0 if p is None else p,
            label not in plain,
            floor is not None and all(np.mean([side[seed] for seed in shared[label]]) < floor for side in pairs[label]),
        )
        for (label, test), p in zip(tests.items(), corrected, strict=True)
    )


def listing(contrasts: Iterable[Contrast], short: str = "") -> str:
    """The comparisons as the end of a sentence: "higher for A, +58 points (...); no clear difference for B, ...".

    `short` is a part of the labels that the sentence has said already.
    """
    contrasts = list(contrasts)
    margin = f"{100 * MATTERS.value:.0f} points" if all(one.in_points for one in contrasts) else f"{MATTERS.value:g}"
    words: dict[Said, str] = {
        "higher": "higher for",
        "lower": "lower for",
        "alike": f"within {margin} for",
        "not clear": "no clear difference for",
        "neither composes": "below half either way (neither composes) for",
    }
    groups: dict[Said, list[str]] = {word: [] for word in words}
    for one in contrasts:
        groups[one.word].append(f"{one.label.replace(short, '') if short else one.label}, {one.text}")
    return "; ".join(f"{words[word]} {join(texts)}" for word, texts in groups.items() if texts)


def with_word(one: Contrast) -> str:
    """ "+58 points (+46 to +70, higher)"; a comparison has an interval, since one of few seeds is not made."""
    return f"{one.text[:-1]}, {one.word})"


def over_half(line: Line, of: str) -> str:
    """From where on a family draws more than half: its first tick, with what ticks are `of`; or the most it draws."""
    most: tuple[Interval, str] | None = None
    for place, (tick, own) in enumerate(line.values.items()):
        share = interval(own, share=True)
        if share.mean > COMPOSES.value:
            when = "first draws more than half" if place else "draws more than half already"
            return f"{line.label} {when} with {tick} {of} ({share_text(share)})"
        if most is None or share.mean > most[0].mean:
            most = share, tick
    assert most is not None
    return f"{line.label} never draws more than half (at most {share_text(most[0])}, with {most[1]} {of})"


def chip(contrasts: Sequence[Contrast], yes: str, no: str, *effects: Said) -> tuple[str, Tone]:
    """`yes` where some comparison has one of the `effects`; `no` where all are clearly without; else it is open."""
    said = {one.word for one in contrasts}
    if said & set(effects):
        return yes, "clear"
    return (no, "none") if "not clear" not in said else ("cannot tell", "open")


def lead(tone: Tone) -> str:
    return {"clear": "Yes", "none": "No", "open": "The seeds cannot tell"}[tone]


def still_moving(curves: Mapping[str, Curve]) -> list[str]:
    """A sentence that names arms whose last fifth clearly lies above or below the fifth before, by *still rising*."""
    moving = []
    for label, curve in curves.items():
        n = fifth(len(curve.steps))
        if len(curve.steps) < 2 * n:
            continue
        change = interval(curve.values[-n:].mean(axis=0) - curve.values[-2 * n : -n].mean(axis=0))
        if change.low is None or change.high is None or abs(change.mean) < RISING.value:
            continue
        if change.low > 0 or change.high < 0:
            moving.append(f"{label} ({points(change.mean)})")
    if not moving:
        return []
    return [f"The last fifth of the evaluations clearly differs, in points, from the fifth before it: {some(moving)}."]
