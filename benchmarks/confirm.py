"""The study that confirms a search: its best try and that try's own control, on seeds that no try was made with.

    python benchmarks/confirm.py results/jepa jepa-confirm.yaml

Which try is best is said by B7 (`recombine.claims.beyond.jepa`): the largest mean gain over its own control, counted by
right and valid at level-2 over the last fifth of the evaluations. The rule was written before the search was run.
"""

import sys
from pathlib import Path

import yaml

from recombine.claims.beyond.jepa import CONFIRM, judge_search
from recombine.claims.tables import Measure, open_study
from recombine.files import write_atomic

SEEDS = 16
"""Twice the search's: one comparison is left, and it should not miss what is there."""


def confirming(folder: Path) -> str:
    """The study file."""
    search = open_study(folder)
    found = judge_search({search.name: search}, Measure())
    asked = search.finished.facts["study"]
    first = max(asked["seeds"]) + 1
    best, control = found.arms.values()
    study = {
        "name": CONFIRM,
        "question": f"Does the best try of the study {search.name}, {best}, draw more combinations it never saw than "
        "its control, on fresh seeds?",
        "limits": f"One setting, the best of those that the study {search.name} tried, beside its own control.",
        **{word: asked[word] for word in ("world", "split", "judging")},
        "seeds": list(range(first, first + SEEDS)),
        "arms": {name: asked["arms"][name] for name in (best, control)},
    }
    return yaml.safe_dump(study, sort_keys=False, width=120)


if __name__ == "__main__":
    write_atomic(Path(sys.argv[2]), confirming(Path(sys.argv[1])))
