"""Measure the trained decoders of a rendering study over their planes: `measures.parquet`, which the claims read.

What each measure is stands in `recombine.anatomy.measures`. Derivatives are taken where the code has them; with a
one-hot code differences between cells are, for the decoder and for the true pictures alike.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recombine.anatomy.measures import (
    Measured,
    measure_gap,
    measure_judged,
    measure_layers,
    measure_pictures,
    measure_truth,
    named_layers,
    rows,
    write_measures,
)
from recombine.encodings import OneHotEncoding
from recombine.judges.plane import judge_plane
from recombine.progress import say
from recombine.studies.rendering import RenderingArm, RenderingStudy
from recombine.studies.rendering_run import OpenedArm, open_arm
from recombine.studies.store import Store


def measure_arm(settings: RenderingArm, opened: OpenedArm, inside: bool = True) -> list[Measured]:
    """Everything measured of an arm's members; without `inside` only what the judge says of their pictures."""
    plane, pictures = opened.plane, opened.outputs()  # (M, C, P, P)
    members = len(pictures)
    found = measure_judged(judge_plane(pictures, plane), plane)
    if not inside:
        return found
    outputs, truths = pictures.flatten(2), plane.images.flatten(1)
    if plane.cells.shape[1] == 1:
        return found + measure_gap(outputs, truths, plane.cells[:, 0], plane.trained, plane.depth)
    smooth = not isinstance(settings.encoding, OneHotEncoding)

    def layers(cells: Tensor) -> dict[str, Tensor]:
        code = opened.encoding(cells).expand(members, -1, -1)
        return named_layers(opened.decoder.states(code), code)

    found += measure_pictures(outputs, truths, plane.cells, plane.trained)
    found += measure_truth(settings.build_world().render, plane.cells, plane.trained, members, smooth)
    return found + measure_layers(layers, plane.cells, plane.trained, smooth=smooth)


def measure_study(
    study: RenderingStudy, out: Path, store: Store | Path, device: torch.device | str = "cpu", inside: bool = True
) -> Path:
    """Measure every arm of a finished study and write the table into its folder `out`."""
    table: list[dict[str, Any]] = []
    for name, settings in study.arms.items():
        opened = open_arm(study, name, store, device)
        table += rows(study.name, name, study.seeds, measure_arm(settings, opened, inside))
        say(f"arm {name}: measured")
    return write_measures(out, table)
