"""F1 to F9 by name, each with its thresholds, in the shape that the ledger asks."""

from collections.abc import Callable, Mapping

from recombine.claims.planes.failures import (
    f1_failure,
    f2_superposition,
    f3_kernels,
    f4_collapse,
    f7_codes,
    f8_rotation,
)
from recombine.claims.planes.parts import (
    AS_BLANK,
    ENTANGLES,
    EXPLAINS,
    MISSES,
    REACH,
    REPAIRED,
    SHARED,
    SHRINKS,
    SUPERPOSED,
    Answer,
)
from recombine.claims.planes.remedies import f5_low_rank, f6_stripes, f9_coordinates, sizes_table
from recombine.claims.planes.table import PlaneTable
from recombine.claims.tables import Measure, StudyTable
from recombine.claims.testing import MATTERS, whole_limit
from recombine.claims.verdicts import Finding, Judge, Threshold

JUDGES: dict[str, Callable[[PlaneTable], Answer]] = {
    "F1": f1_failure,
    "F2": f2_superposition,
    "F3": f3_kernels,
    "F4": f4_collapse,
    "F5": f5_low_rank,
    "F6": f6_stripes,
    "F7": f7_codes,
    "F8": f8_rotation,
    "F9": f9_coordinates,
}
SCALING = "rendering-scaling"  # the study that F6's exponent comes from


def judge_of(claim: str) -> Judge:
    """A claim's function in the shape that the ledger asks. The measure is not asked for: tables hold one moment, the
    end of training."""

    def judge(study: StudyTable, others: Mapping[str, StudyTable], measure: Measure) -> Finding:
        table = PlaneTable.of(study)
        beside = (others[SCALING],) if claim == "F6" and SCALING in others else ()
        if claim == "F8":
            found = f8_rotation(table, study.folder)
        else:
            found = f6_stripes(table, *map(sizes_table, beside)) if claim == "F6" else JUDGES[claim](table)
        parts = (*found.parts, *map(whole_limit, (study, *beside)))
        return Finding(study, parts, found.ours, found.arms, found.notes, beside=beside)

    return judge


THRESHOLDS: dict[str, tuple[Threshold, ...]] = {
    "F1": (*SHARED, AS_BLANK, MISSES),
    "F2": (*SHARED, SUPERPOSED),
    "F3": (*SHARED, EXPLAINS),
    "F4": (*SHARED, SHRINKS, ENTANGLES),
    "F5": (*SHARED, AS_BLANK, MISSES, REPAIRED, MATTERS),
    "F6": (*SHARED, AS_BLANK, REPAIRED, MATTERS, REACH),
    "F7": (*SHARED, AS_BLANK, MISSES),
    "F8": (*SHARED, SUPERPOSED),
    "F9": (*SHARED, AS_BLANK, REPAIRED, MATTERS),
}
