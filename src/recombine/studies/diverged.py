"""Members that diverged: the one sentence that is said of them wherever their arm is shown.

A member has diverged when its training loss is not a finite number at the last evaluation. Such a member stays in
every table: its seed was asked for, and a mean without it would be one over the seeds that went well.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def diverged_seeds(rows: Iterable[Mapping[str, Any]]) -> list[int]:
    """The seeds whose loss is missing in the rows of one arm at its last step; tables without losses say nothing."""
    return sorted({int(row["seed"]) for row in rows if row.get("loss", 0.0) is None})


def diverged_sentence(arm: str, seeds: Sequence[int]) -> str:
    """seeds 0 and 1 of arm a diverged (their loss is not a number): lower training.rate"""
    numbers = [str(seed) for seed in seeds]
    if len(numbers) == 1:
        return f"seed {numbers[0]} of arm {arm} diverged (its loss is not a number): lower training.rate"
    listed = f"{', '.join(numbers[:-1])} and {numbers[-1]}"
    return f"seeds {listed} of arm {arm} diverged (their loss is not a number): lower training.rate"
