"""Whose rise E3 looks at: which generator's, which seeds', and by what is counted."""

from collections.abc import Mapping
from dataclasses import dataclass

from recombine.claims import testing
from recombine.claims.tables import NAMED, Arm, Measure, StudyTable
from recombine.claims.testing import COMPOSES
from recombine.claims.tokenizer import on_both, risen
from recombine.claims.verdicts import Threshold
from recombine.claims.why.answers import NothingToExplain
from recombine.report.words import percent

RISES = Threshold(
    "rises",
    0.20,
    "where too few seeds compose on both tokens, E3 takes those that end with at least so much right and valid on "
    "both; ours, from what 128 pictures per evaluation can show",
)
"""A width is a share of a seed's own end, so that it may be asked of an end below half as long as the pictures that are
counted are many enough. Drawn from known curves (33 evaluations of 128 pictures; a jump, steep and slow straight lines,
1 - exp), the widths of single seeds have these standard deviations, and lie below the true ones by at most:

    end              0.10         0.20         0.30         0.50
    deviation        0.05-0.12    0.03-0.08    0.02-0.07    0.01-0.05
    too narrow by    0.11         0.05         0.04         0.02

With eight seeds of one and the same shape on both tokens, at ends of 0.2 to 0.5 alike or unlike, the test says that VAE
tokens are more gradual in at most 3 of 100 draws; a jump against a line is found in all of 200. Steps of half an end
come too early by up to 16 % at 0.2, 7 % at 0.5 (the slowest line), so that a lag errs towards none.

It is not asked of what the probe names right: garbage may be named so by chance.
"""
GENERATORS = {"dit": "DiT", "givt": "GIVT"}
"""The published curves are DiT's; GIVT's stand in where a study has no DiT on both tokens."""
COUNTED = "as the probe names pictures, valid or not"


def generator_on_both(study: StudyTable) -> tuple[str, dict[str, Arm]]:
    """The name of a generator and its arms on both kinds of tokens; raises Untested where none has both."""
    found = {name: on_both(study, kind) for kind, name in GENERATORS.items()}
    whole = [name for name, arms in found.items() if all(arms.values())]
    name = whole[0] if whole else "DiT"
    return name, testing.need(found[name], study)


@dataclass(frozen=True)
class Followed:
    """The seeds that are followed, by a column, and what each has of it at the end on both tokens at least."""

    generator: str
    column: str
    seeds: list[int]
    least: float = COMPOSES.value
    few: str = ""  # how many compose right and valid, where those are too few

    @property
    def by_naming(self) -> bool:
        """Whether the probe's naming is followed for want of seeds that draw enough right and valid."""
        return bool(self.few) and self.column == NAMED

    @property
    def end(self) -> str:
        return "half" if self.least == COMPOSES.value else percent(self.least)

    @property
    def whose(self) -> str:
        """What an answer begins with."""
        if self.by_naming:
            return f"With {self.generator}, by the probe's naming alone, valid or not"
        below = f", over the {len(self.seeds)} seeds that end with at least {self.end} of level-2 on both"
        return f"With {self.generator}{below if self.few else ''}"

    @property
    def before(self) -> str:
        """What a reason for no answer begins with."""
        if self.by_naming:
            return f"{self.few}, and of those that do by the probe's naming alone "
        return f"{self.few}, and of those that end with at least {self.end} of level-2 " if self.few else ""


def followed(
    study: StudyTable, measure: Measure, generator: str, arms: Mapping[str, Arm], seeds: list[int]
) -> Followed:
    """Seeds that compose; where they are too few, those that rise, right and valid; else those that compose by the
    probe's naming. Raises NothingToExplain where all of these are too few."""
    up = risen(arms, measure.column, seeds)
    if _enough(up):
        return Followed(generator, measure.column, up)
    few = f"{len(up)} of {len(seeds)} seeds compose on both tokens"
    beside = ""
    if measure.column != NAMED:
        few += ", right and valid"
        low = risen(arms, measure.column, seeds, RISES.value)
        if _enough(low):
            return Followed(generator, measure.column, low, RISES.value, few)
        few += f", and {len(low)} end with at least {percent(RISES.value)}" if len(low) > len(up) else ""
        named = risen(arms, NAMED, seeds) if NAMED in study.columns else []
        if _enough(named):
            return Followed(generator, NAMED, named, few=few)
        beside = f" ({len(named)} by the probe's naming alone)" if NAMED in study.columns else ""
    raise NothingToExplain(
        f"with {generator} in the study {study.name} {few}{beside}, too few to see how level-2 rises",
        arms=list(arms.values()),
    )


def _enough(seeds: list[int]) -> bool:
    return len(seeds) >= testing.FEWEST_SEEDS.value


def rising_note(followed: Followed, seeds: list[int]) -> str:
    """That seeds below half are followed, where they are."""
    if not followed.few or followed.by_naming:
        return ""
    return (
        f"Only {followed.few}, so the {len(followed.seeds)} of {len(seeds)} seeds are followed that end with at least "
        f"{followed.end} of level-2 on both; the fewer pictures are right, the more chance is in a width."
    )
