"""The results of a rendering study as a table: one row per arm, member, step and cell, and how it is packed."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from recombine.judges.plane import blank_ssim, cross_fade
from recombine.studies.rendering import RenderingStudy

if TYPE_CHECKING:
    from recombine.studies.rendering_run import RenderedArm


def table_of(study: RenderingStudy, name: str, arm: "RenderedArm") -> pa.Table:
    """The rows of an arm: one per member, step and cell.

    The contract's columns: composition ("x,y" or the angle), level (0 trained, 1 held out: every single value is seen,
    so a held-out pair differs from some trained one in one factor), n (1; the samples of a generator, over which every
    number is then a mean), joint, valid, joint_probe_only (right, valid or not), factor_<name>. Beside them: x, y (or
    angle), depth, mse, blank, ssim, blank_ssim, position_error, loss (null: the member diverged); of angles fade_mse
    and fade_blank, the error against the cross-fade and that of the cross-fade itself. Older tables
    have no blank_ssim: `report.rendering_reading` works it out from the settings.
    """
    plane = arm.plane
    cells, members = len(plane.cells), study.members
    names = ("x", "y") if plane.cells.shape[1] == 2 else ("angle",)
    values = plane.cells.tolist()
    alike = blank_ssim(plane).double().repeat(members).numpy()
    codes = [",".join(f"{value:g}" for value in cell) for cell in values]
    tables = []
    for step, result in arm.judged.items():
        judged = result.means()
        columns: dict[str, Any] = {
            "study": [study.name] * (members * cells),
            "arm": [name] * (members * cells),
            "member": [m for m in range(members) for _ in range(cells)],
            "seed": [seed for seed in study.seeds for _ in range(cells)],
            "step": [step] * (members * cells),
            "composition": codes * members,
            "level": (~plane.trained).long().repeat(members).numpy(),
            "n": [result.samples] * (members * cells),
            "joint": judged["joint"].flatten().double().numpy(),
            "valid": judged["valid"].flatten().double().numpy(),
            "joint_probe_only": judged["hit"].flatten().double().numpy(),
        }
        for f, factor in enumerate(names):
            columns[f"factor_{factor}"] = judged["right"][..., f].flatten().double().numpy()
        for f, factor in enumerate(names):
            columns[factor] = plane.cells[:, f].double().repeat(members).numpy()
        columns |= {
            "depth": plane.depth.double().repeat(members).numpy(),
            "mse": judged["mse"].flatten().double().numpy(),
            "blank": plane.blank.double().repeat(members).numpy(),
            "ssim": judged["ssim"].flatten().double().numpy(),
            "blank_ssim": alike,
            "position_error": judged["position_error"].flatten().double().numpy(),
            # Of a type even where no member has one.
            "loss": pa.array([arm.losses[step][m] for m in range(members) for _ in range(cells)], pa.float64()),
        }
        if names == ("angle",):
            columns["fade_mse"] = judged["fade_mse"].flatten().double().numpy()
            faded = (cross_fade(plane) - plane.images).square().mean((1, 2))
            columns["fade_blank"] = faded.double().repeat(members).numpy()  # what the cross-fade itself would score
        tables.append(pa.table(columns))
    return pa.concat_tables(tables)


def parquet(table: pa.Table) -> bytes:
    """The table as the bytes of a file. Measured numbers hardly repeat: their bytes are packed place by place, which
    halves the file."""
    measured = [word for word in ("mse", "ssim", "position_error", "fade_mse") if word in table.column_names]
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        compression_level=12,
        use_dictionary=[name for name in table.column_names if name not in measured],  # type: ignore[arg-type]
        use_byte_stream_split=measured,  # type: ignore[arg-type]
    )
    return bytes(sink.getvalue().to_pybytes())
