"""Recombine: can a generative model draw combinations of factors it has never seen, and what decides that?

import recombine

study = recombine.load_study("demo")            # a file, or a study of the library
recombine.run_study(study, "runs/demo")         # the same call goes on where it stopped
table = recombine.read_results("runs/demo")     # one row per arm, member, step and composition
"""

import os
from typing import TYPE_CHECKING, Any

# Some virtual machines announce Intel's AMX and do not allow it: bfloat16 convolutions of torch on such a CPU end the
# process ("illegal instruction"). Nothing here is faster with it (on a CPU we train in float32), so it is left out
# unless the user says otherwise. oneDNN reads this when it is first used, which is after this import.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

__version__ = "0.1.0"

if TYPE_CHECKING:
    from recombine.errors import UserError
    from recombine.judges.statistics import compare_arms, summarize
    from recombine.report.page import write_report
    from recombine.runner import run_study
    from recombine.studies.monitors import read_monitors
    from recombine.studies.quality_table import read_quality
    from recombine.studies.results import read_results
    from recombine.studies.spec import load_study, make_study

# Where each public name lives. They are imported when first used: torch takes seconds, `recombine --help` should not.
_PLACES = {
    "UserError": "recombine.errors",
    "compare_arms": "recombine.judges.statistics",
    "load_study": "recombine.studies.spec",
    "make_study": "recombine.studies.spec",
    "read_monitors": "recombine.studies.monitors",
    "read_quality": "recombine.studies.quality_table",
    "read_results": "recombine.studies.results",
    "run_study": "recombine.runner",
    "summarize": "recombine.judges.statistics",
    "write_report": "recombine.report.page",
}

__all__ = [
    "UserError",
    "compare_arms",
    "load_study",
    "make_study",
    "read_monitors",
    "read_quality",
    "read_results",
    "run_study",
    "summarize",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'recombine' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
