"""Tables beside the results that always have the same columns: written whole or not at all, read with a clear sentence
where they cannot be."""

import math
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from recombine import files
from recombine.errors import UserError


def write(
    path: Path, schema: pa.Schema, rows: Iterable[Mapping[str, Any]], optional: Set[str], numbers: Set[str]
) -> Path:
    """Put the rows in their place; without rows, an empty table. A row may leave out the `optional` columns; `numbers`
    that are not finite are written as null."""
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pylist([_checked(row, schema, optional, numbers, path.stem) for row in rows], schema=schema)
    pq.write_table(table, sink)
    files.write_atomic(path, sink.getvalue().to_pybytes())
    return path


def _checked(
    row: Mapping[str, Any], schema: pa.Schema, optional: Set[str], numbers: Set[str], name: str
) -> dict[str, Any]:
    """The row with values that can be stored. A wrong key is an error: pyarrow would drop it without a word."""
    wrong = (set(row) - set(schema.names)) | (set(schema.names) - optional - set(row))
    if wrong:
        raise ValueError(f"a row of {name} has other keys than {', '.join(schema.names)}: {', '.join(sorted(wrong))}")
    return {**row, **{key: _finite(row.get(key)) for key in numbers}}


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def read(path: Path, schema: pa.Schema) -> pa.Table:
    """The table at `path`; an empty one where there is none."""
    if not path.parent.is_dir():
        raise UserError(f"{path.parent} is no folder; give the folder of a study (`recombine run STUDY --out DIR`).")
    if not path.exists():
        return schema.empty_table()
    again = "run the study again with the same --out to write it anew."
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path} is damaged or cut short; {again}") from error
    if not table.schema.equals(schema):
        raise UserError(f"{path} does not have the columns of a table of {path.stem}; {again}")
    return table
