"""The table of monitors: the schema it always has, what is not finite, and files that are damaged."""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recombine.errors import UserError
from recombine.studies.monitors import ABOUT, NAME, SCHEMA, about, read_monitors, write_monitors


def row(**changes: Any) -> dict[str, Any]:
    whole = {"study": "s", "arm": "dit", "member": 1, "seed": 7, "step": 500, "monitor": "rank_me"}
    return whole | {"layer": 2, "level": None, "value": 3.5} | changes


def test_rows_come_back_as_written(tmp_path: Path) -> None:
    rows = [row(), row(monitor="linear_shape", level=1, value=1), row(layer=None, monitor="guidance_refused")]
    assert write_monitors(tmp_path, rows) == tmp_path / NAME
    assert read_monitors(tmp_path).to_pylist() == rows
    assert [path.name for path in tmp_path.iterdir()] == [NAME]  # nothing is left beside it


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None])
def test_what_is_not_finite_is_null(tmp_path: Path, value: float | None) -> None:
    write_monitors(tmp_path, [row(value=value), row(member=2)])
    assert read_monitors(tmp_path).column("value").to_pylist() == [None, 3.5]


def test_layer_and_level_may_be_left_out_and_nothing_else(tmp_path: Path) -> None:
    short = {key: value for key, value in row().items() if key not in ("layer", "level")}
    write_monitors(tmp_path, [short])
    assert read_monitors(tmp_path).to_pylist() == [row(layer=None)]
    with pytest.raises(ValueError, match="seed"):
        write_monitors(tmp_path, [{key: value for key, value in row().items() if key != "seed"}])
    with pytest.raises(ValueError, match="depth"):
        write_monitors(tmp_path, [row(depth=3)])
    assert read_monitors(tmp_path).num_rows == 1  # the table before stays


def test_the_schema_is_the_same_with_no_rows_no_layers_and_no_file(tmp_path: Path) -> None:
    assert read_monitors(tmp_path).schema.equals(SCHEMA) and read_monitors(tmp_path).num_rows == 0
    write_monitors(tmp_path, [])
    assert read_monitors(tmp_path).schema.equals(SCHEMA) and read_monitors(tmp_path).num_rows == 0
    write_monitors(tmp_path, [row(layer=None, value=math.nan)])
    assert read_monitors(tmp_path).schema.equals(SCHEMA)


def test_damaged_and_foreign_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    path = write_monitors(tmp_path, [row()])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"monitors\.parquet is damaged"):
        read_monitors(tmp_path)
    pq.write_table(pa.table({"value": [1.0]}), path)
    with pytest.raises(UserError, match="columns"):
        read_monitors(tmp_path)
    with pytest.raises(UserError, match="no folder"):
        read_monitors(tmp_path / "nowhere")


def test_every_monitor_has_its_words() -> None:
    assert about("linear_size") is ABOUT["linear_<factor>"] and about("linear_size").share
    assert about("rank_me") is ABOUT["rank_me"]
    assert about("something_new").title == "something_new" and not about("something_new").sentence
    assert all(one.title and one.sentence.endswith(".") for one in ABOUT.values())


def test_the_page_has_every_monitor_in_its_own_words():
    page = (Path(__file__).resolve().parent.parent / "docs" / "monitors.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("| `")] == [
        f"| `{name}` | {about.sentence} |" for name, about in ABOUT.items()
    ]
