"""Everything measured of a decoder over its plane, as rows of one tidy table: what the claims on rendering read.

One row per (study, arm, seed, layer, measure, region):

    study, arm   names
    seed         the member's
    layer        "input", "layer 1", ..., "output"; "picture" for what is measured of pictures alone; "gradient" for the
                 gradient kernel of the whole decoder, which has kernel_r2_FAMILY only
    measure      one of the names below
    region       trained, held_out, deep (held out, depth >= 2) or all; of kernels also across
    value        a number, NaN where it is not defined

    superposition_memory, _truth, _control, _share, _explained, _strength, _undefined    `superposition`
    additive_...                                                    the same against the additive prediction
    factorization, overlap, log_volume                              `factorization`, `manifold`
    rank_effective, rank_above, rank_energy                         `factorization.activation_ranks`
    read_out_r2, read_out_error                                     `factorization.read_out`, mean of x and y
    kernel_r2_FAMILY                                                `kernels.compare_kernels`
    regression_FAMILY                                               `kernels.kernel_regression`

    mse, relative, ssim, dissimilarity, position_error, hit, valid, joint    `judges.plane.summarise`; entries of the
                                                                    store from before `dissimilarity` go without it
    sample_spread                                                   of a generator, `studies.bridge_measures`

A region of a kernel's R^2 is that of its pairs of cells: trained, held_out, or across. The layer "truth" is the world's
own pictures, whose geometry a decoder's is compared with; "true picture" is the same by differences between cells, to
compare "picture" with. Of a generator "picture" is each of its samples, "mean picture" the mean of a cell's.

What is drawn as a map or by depth needs a value at every cell. A function that is given a dictionary `keep` puts these
there, on the CPU in float32:

    superposition.WORD    (M, K) at held-out cells, WORD memory, truth, control, share; superposition.depth is (K,)
    volume.LAYER          (M, C) log10 of the volume element
    kernel.LAYER          (M, C) the representational (or gradient) kernel between one cell and every cell

Shapes: M members, C cells, P pixels, D features of a layer.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from recombine.anatomy.factorization import (
    Regions,
    activation_ranks,
    factorization,
    read_out,
    region_means,
    tangent_overlap,
)
from recombine.anatomy.kernels import (
    compare_kernels,
    kernel_regression,
    normalised_kernel,
    representational_kernel,
    sampled_gradient_kernel,
)
from recombine.anatomy.manifold import Geometry, geometry, grid_geometry
from recombine.anatomy.superposition import DEEP, Superposition, additive_weights, edge_weights, superposition
from recombine.curated import Plane
from recombine.errors import UserError
from recombine.files import write_atomic
from recombine.judges.plane import Judged, summarise
from recombine.worlds.supports import connected

NAME = "measures.parquet"
PICTURE = "picture"
GRADIENT = "gradient"  # the layer under which the gradient kernel stands

Maps = dict[str, Tensor]


@dataclass(frozen=True)
class Measured:
    """One measure of one layer in one region: values (M,)."""

    layer: str
    measure: str
    region: str
    values: Tensor


def rows(study: str, arm: str, seeds: Sequence[int], measured: Iterable[Measured]) -> list[dict[str, Any]]:
    """The tidy rows of what was measured of an arm's members."""
    names = {"study": study, "arm": arm}
    return [
        {
            **names,
            "seed": seed,
            "layer": one.layer,
            "measure": one.measure,
            "region": one.region,
            "value": float(value),
        }
        for one in measured
        for seed, value in zip(seeds, one.values.tolist(), strict=True)
    ]


def write_measures(folder: Path, table: list[dict[str, Any]]) -> Path:
    """Put the rows in a study's folder, whole or not at all."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(table), sink)
    write_atomic(folder / NAME, sink.getvalue().to_pybytes())
    return folder / NAME


def read_measures(folder: Path) -> list[dict[str, Any]] | None:
    """The rows in a study's folder; None where there is no such table."""
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path} is damaged; run the study again with the same --out to write it anew.") from error
    return found


def _split(layer: str, measure: str, found: Regions) -> list[Measured]:
    return [Measured(layer, measure, region, getattr(found, region)) for region in ("all", "trained", "held_out")]


def _put(keep: Maps | None, name: str, values: Tensor) -> None:
    if keep is not None:
        keep[name] = values.detach().float().cpu().contiguous()


def _superposed(name: str, found: Superposition, keep: Maps | None = None) -> list[Measured]:
    """The summary over all held-out cells, and over deep ones where there are any."""
    for word in ("memory", "truth", "control", "share", "depth"):
        _put(keep, f"superposition.{word}", getattr(found, word))
    depths = {"held_out": 0.0, "deep": float(DEEP)} if (found.depth >= DEEP).any() else {"held_out": 0.0}
    return [
        Measured(PICTURE, f"{name}_{measure}", region, values)
        for region, at_least in depths.items()
        for measure, values in found.summary(at_least).items()
    ]


def measure_gap(
    outputs: Tensor, truths: Tensor, angles: Tensor, trained: Tensor, depth: Tensor, keep: Maps | None = None
) -> list[Measured]:
    """Superposition in a gap of angles (C,) in degrees: the memory is the cross-fade of the outputs at both edges."""
    weights = edge_weights(angles, trained, period=360.0)
    found = superposition(outputs, truths, angles[:, None], trained, weights, depth)
    return _superposed("superposition", found, keep)


def measure_pictures(
    outputs: Tensor,
    truths: Tensor,
    cells: Tensor,
    trained: Tensor,
    regression: bool = True,
    keep: Maps | None = None,
) -> list[Measured]:
    """What can be said from pictures (M, C, P) alone, of any generator: superposition and kernel regression.

    Of a generator that samples, a cell may have several rows; kernel regression needs one, so it is left out then. The
    additive prediction is left out where the trained cells do not fix it (`supports.connected`).
    """
    found = _superposed("superposition", superposition(outputs, truths, cells, trained), keep)
    if connected(cells, trained):
        sums = superposition(outputs, truths, cells, trained, additive_weights(cells, trained))
        found += _superposed("additive", sums)
    if regression:
        for family, fit in kernel_regression(outputs, cells, trained).items():
            found.append(Measured(PICTURE, f"regression_{family}", "trained", fit.left_out))
            found.append(Measured(PICTURE, f"regression_{family}", "held_out", fit.held_out))
    return found


def regions_of(plane: Plane) -> dict[str, Tensor]:
    """Which cells (C,) bool are trained, held out and deep, where there are any."""
    regions = {"trained": plane.trained, "held_out": ~plane.trained, "deep": plane.depth >= DEEP}
    return {region: where for region, where in regions.items() if where.any()}


def measure_judged(judged: Judged, plane: Plane) -> list[Measured]:
    """The judge's means over trained cells, held-out cells, and deep ones where there are any."""
    return [
        Measured(PICTURE, name, region, values)
        for region, where in regions_of(plane).items()
        for name, values in summarise(judged, plane, where).items()
    ]


def measure_truth(
    render: Callable[[Tensor], Tensor],
    cells: Tensor,
    trained: Tensor,
    members: int,
    smooth: bool = True,
    keep: Maps | None = None,
) -> list[Measured]:
    """The geometry of the world's own pictures, under the layer "truth", the same for every member.

    `render` maps cells (B, 2) to pictures (B, ...). `smooth` as in `measure_layers`: like is compared with like.
    """
    if smooth:
        found = geometry(lambda some: {"truth": render(some)[None]}, cells.float())["truth"]
    else:
        side = math.isqrt(len(cells))
        found = grid_geometry(render(cells.float()).flatten(1).view(1, side, side, -1))
    same = Geometry(found.metric.expand(members, -1, -1, -1), found.volume.expand(members, -1))
    return measure_geometry({"truth": same}, trained, keep)


def measure_grid(pictures: Tensor, plane: Plane) -> list[Measured]:
    """The geometry of pictures (M, C, P) by differences between the plane's cells, under the layer "picture"; that of
    the true ones, taken alike, under "true picture". All that draws can be compared so, whatever its code and layers.
    """
    side = math.isqrt(len(plane.cells))
    true = plane.images.flatten(1).expand(len(pictures), -1, -1)
    layers = {PICTURE: pictures, "true picture": true}
    found = {layer: grid_geometry(own.unflatten(1, (side, side))) for layer, own in layers.items()}
    return measure_geometry(found, plane.trained)


def measure_geometry(found: Mapping[str, Geometry], trained: Tensor, keep: Maps | None = None) -> list[Measured]:
    """Factorization, overlap of tangents and mean log10 volume of every layer."""
    measured = []
    for layer, shape in found.items():
        _put(keep, f"volume.{layer}", shape.log_volume)
        measured += _split(layer, "factorization", factorization(shape.metric, trained))
        measured += _split(layer, "overlap", tangent_overlap(shape.metric, trained))
        measured += _split(layer, "log_volume", region_means(shape.log_volume, trained))
    return measured


@torch.no_grad()
def measure_layers(
    layers: Callable[[Tensor], dict[str, Tensor]],
    cells: Tensor,
    trained: Tensor,
    batch: int = 64,
    kernels: bool = True,
    smooth: bool = True,
    keep: Maps | None = None,
    cell: int = 0,
) -> list[Measured]:
    """What is measured inside a decoder: geometry, ranks, read-out and kernels of every layer.

    `layers` maps cells (B, 2) to named activations (M, B, ...), the encoding included. Where that is `smooth` its
    tangents are derivatives; a one-hot code has none at whole numbers, and differences between cells are taken (all
    cells of a square plane, in the order of pixels). `cell` is the number of the one whose kernel is kept as a map.
    """
    place = cells.float()
    measured = measure_geometry(geometry(layers, place, batch), trained, keep) if smooth else []
    parts = [layers(some) for some in place.split(batch)]
    for layer in parts[0]:
        states = torch.cat([part[layer].flatten(2) for part in parts], dim=1)  # (M, C, D)
        if not smooth:
            side = math.isqrt(len(cells))
            measured += measure_geometry({layer: grid_geometry(states.unflatten(1, (side, side)))}, trained, keep)
        ranks = activation_ranks(states)
        for name in ("effective", "above", "energy"):
            measured.append(Measured(layer, f"rank_{name}", "all", getattr(ranks, name)))
        reading = read_out(states, cells, trained)
        for region in ("trained", "held_out"):
            measured.append(Measured(layer, "read_out_r2", region, getattr(reading, f"{region}_r2").mean(1)))
            measured.append(Measured(layer, "read_out_error", region, getattr(reading, f"{region}_error").mean(1)))
        if kernels:
            measured += _kernel(layer, representational_kernel(states, trained), cells, trained, keep, cell)
    return measured


def _kernel(layer: str, kernel: Tensor, cells: Tensor, trained: Tensor, keep: Maps | None, cell: int) -> list[Measured]:
    """How well every family describes a kernel (M, C, C)."""
    _put(keep, f"kernel.{layer}", kernel[:, cell])
    return [
        Measured(layer, f"kernel_r2_{family}", region, getattr(fit, region))
        for family, fit in compare_kernels(kernel, cells, trained).items()
        for region in ("trained", "across", "held_out")
    ]


@torch.no_grad()
def measure_gradient(
    network: Callable[[Any, Tensor], Tensor],
    parameters: dict[str, Tensor],
    codes: Tensor,
    cells: Tensor,
    trained: Tensor,
    keep: Maps | None = None,
    cell: int = 0,
) -> list[Measured]:
    """The gradient kernel of a decoder against the model kernels, as those of its layers: which pairs of cells does
    training move together? `network` and `parameters` as `kernels.gradient_kernel` has them; codes (M, C, W)."""
    kernel = normalised_kernel(sampled_gradient_kernel(network, parameters, codes), trained)
    return _kernel(GRADIENT, kernel, cells, trained, keep, cell)


def named_layers(states: Sequence[Tensor], code: Tensor) -> dict[str, Tensor]:
    """A decoder's states, the last being its pictures, with the names that the table has; `code` (M, B, W) first."""
    hidden = {f"layer {i}": state for i, state in enumerate(states[:-1], start=1)}
    return {"input": code, **hidden, "output": states[-1]}
