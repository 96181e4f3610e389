"""The tidy table of a study: one row per (study, arm, member, step, composition)."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from recombine import files
from recombine.errors import UserError

NAME = "results.parquet"


def write_results(folder: Path, rows: list[dict[str, Any]]) -> Path:
    """Put the rows at their place in a study's folder, whole or not at all."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    files.write_atomic(folder / NAME, sink.getvalue().to_pybytes())
    return folder / NAME


def read_results(folder: Path | str) -> pa.Table:
    """The table of a study: of its finished arms."""
    path = Path(folder) / NAME
    if not path.exists():
        raise UserError(f"{folder} holds no {NAME}; give the folder of a study (`recombine run STUDY --out DIR`).")
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise UserError(
            f"{path} is damaged or cut short; run the study again with the same --out to write it anew."
        ) from error
