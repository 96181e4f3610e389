"""What was measured of a rendering study's decoders, for its page: superposition, kernels, volume, factorization.

Numbers come from `measures.parquet`, maps from `maps.safetensors`; a study without them has no such part. Shapes: M
members, C cells, K held-out cells, P pixels a side.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from recombine.anatomy.kernels import FAMILIES, GRADIENT_CELLS, GRADIENT_PARAMETERS, gradient_is_small
from recombine.anatomy.measures import GRADIENT, PICTURE, read_measures
from recombine.errors import UserError
from recombine.judges.statistics import Interval, interval
from recombine.report import plane_figures
from recombine.report.contours import MOST_ARMS, shown_cells
from recombine.report.rendering_reading import ArmNumbers, FinishedRendering, within

MAPS = "maps.safetensors"
MOST_LAYERS = 7  # of a deep decoder that are drawn, from the first to the last
MOST_ROWS = 7  # arms in one figure of pictures

SUPERPOSED = {
    "superposition_memory": "cosine with the memory",
    "superposition_truth": "with the true image",
    "superposition_control": "with other memories",
    "superposition_share": "share of the memory",
    "superposition_explained": "explained by both",
}
SHAPE = {
    "factorization": "factorization",
    "overlap": "overlap of the tangents",
    "log_volume": "log10 volume",
    "read_out_r2": "x and y read off (R²)",
}
RANK = "effective rank"


def _bounds(measure: str) -> tuple[float, float]:
    """Where the truth of a measure must lie; every R² is at most 1."""
    if measure.endswith(("_share", "_explained")) or measure in ("factorization", "overlap"):
        return 0.0, 1.0
    if measure.endswith(("_memory", "_truth", "_control")):  # cosines
        return -1.0, 1.0
    return -math.inf, 1.0 if "_r2" in measure else math.inf


@dataclass(frozen=True)
class Measures:
    """The measures of a study."""

    rows: list[dict[str, object]]
    maps: Mapping[str, np.ndarray]

    @cached_property
    def _values(self) -> dict[tuple[str, str, str, str], list[float]]:
        found: dict[tuple[str, str, str, str], list[float]] = {}
        for row in self.rows:
            key = (str(row["arm"]), str(row["layer"]), str(row["measure"]), str(row["region"]))
            found.setdefault(key, []).append(float(row["value"]))  # type: ignore[arg-type]
        return found

    def values(self, arm: str, layer: str, measure: str, region: str) -> np.ndarray | None:
        """One number per member, (M,); None where it was not measured."""
        found = self._values.get((arm, layer, measure, region))
        return None if found is None else np.array(found)

    def mean(self, arm: str, layer: str, measure: str, region: str) -> Interval | None:
        """Over the members that have a value."""
        found = self.values(arm, layer, measure, region)
        known = found[np.isfinite(found)] if found is not None else np.array([])
        return within(interval(known), *_bounds(measure)) if len(known) else None

    def layers(self, arm: str) -> list[str]:
        """input, layer 1, ..., output, as far as they were measured."""
        order = {"input": -1, "output": 10**6}
        named = {layer for own, layer, _, _ in self._values if own == arm}
        names = {layer for layer in named if layer in order or layer.startswith("layer ")}  # not those of pictures
        return sorted(names, key=lambda name: order[name] if name in order else int(name.split()[1]))


def read_inside(folder: Path) -> Measures | None:
    """What was measured of a study; None where nothing was."""
    rows = read_measures(Path(folder))
    if rows is None:
        return None
    path = Path(folder) / MAPS
    try:
        maps = load_file(path) if path.is_file() else {}
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is damaged; run the study again with the same --out to write it anew.") from error
    return Measures(rows, maps)


def superposition_lines(study: FinishedRendering, found: Measures) -> list[list[str]]:
    """A line per arm: deep inside the hole where there is such a place, all of the hole otherwise."""
    lines = []
    for name in study.arms:
        deep = found.values(name, PICTURE, "superposition_memory", "deep") is not None
        region = "deep" if deep else "held_out"
        cells = [found.mean(name, PICTURE, measure, region) for measure in SUPERPOSED]
        if any(cell is not None for cell in cells):
            lines.append(
                [study.arms[name].label, "depth 2 and more" if deep else "all", *(text(cell) for cell in cells)]
            )
    return lines


def shape_lines(name: str, found: Measures) -> list[list[str]]:
    """A line per layer of an arm: trained and held-out means of every measure of its shape."""
    lines = []
    for layer in [*found.layers(name), "truth"]:
        cells = [
            text(found.mean(name, layer, measure, region), ends=False)
            for measure in SHAPE
            for region in ("trained", "held_out")
        ]
        rank = text(found.mean(name, layer, "rank_effective", "all"), ends=False)
        if any(cell for cell in cells):
            lines.append(["true images" if layer == "truth" else layer, *cells, rank])
    return lines


def text(cell: Interval | None, ends: bool = True) -> str:
    """0.84 (0.82 to 0.86), with a real minus; empty where there is none."""
    if cell is None:
        return ""

    def show(value: float) -> str:
        return f"{round(value, 2) + 0.0:.2f}" if abs(value) < 100 else f"{value:.0f}"  # + 0.0: no minus before a zero

    words = show(cell.mean)
    if ends and cell.low is not None and cell.high is not None:
        words = f"{words} ({show(cell.low)} to {show(cell.high)})"
    return words.replace("-", "\u2212")


def draw_inside(study: FinishedRendering, found: Measures) -> dict[str, Path]:
    """Draw the figures into the study's folder; their paths by name. Those of one arm are NAME-ARM.

    A number may be missing (a hole of one cell has no other memories, a member that diverged has nothing): it is left
    blank, which numpy need not tell the reader of a terminal.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice|All-NaN", RuntimeWarning)
        return _draw(study, found)


def _draw(study: FinishedRendering, found: Measures) -> dict[str, Path]:
    folder = study.folder / "figures"
    drawn: dict[str, Path] = {}
    left = {name: arm for name, arm in study.arms.items() if not arm.lost}  # of the others nothing can be drawn
    curves = {name: lines for name in left if (lines := _by_depth(name, found)) is not None}
    shown = dict(list(curves.items())[:MOST_ARMS])
    if shown:
        unit = "cells" if all(study.arms[name].is_plane for name in shown) else "degrees"
        shown = {study.arms[name].label: lines for name, lines in shown.items()}
        drawn["superposition-depth"] = plane_figures.superposition_panels(
            folder / "superposition-depth.png", shown, "Is an output its memory or the true image?", unit
        )
    if (path := _pictures(study, found, folder / "superposition.png")) is not None:
        drawn["superposition"] = path
    for name, arm in list(left.items())[:MOST_ARMS]:
        if not arm.is_plane:
            continue
        trained = arm.trained.reshape(arm.side, arm.side)
        layers = _some(found.layers(name))
        kernels = {layer: _map(found, f"{name}.kernel.{layer}", arm) for layer in [*layers, GRADIENT]}
        known = {layer: values for layer, values in kernels.items() if values is not None}
        if known:
            scores = {
                layer: {
                    family: values
                    for family in FAMILIES
                    if (values := found.values(name, layer, f"kernel_r2_{family}", "trained")) is not None
                }
                for layer in known
            }
            cell = _middle(arm)
            drawn[f"kernels-{name}"] = plane_figures.kernel_panels(
                folder / f"kernels-{name}.png",
                known,
                scores,
                trained,
                cell,
                f"Kernels of {arm.label}",
                _of_gradient(study, name, GRADIENT in known),
            )
        volumes = {layer: _map(found, f"{name}.volume.{layer}", arm) for layer in [*layers, "truth"]}
        there = {
            "true images" if layer == "truth" else layer: values
            for layer, values in volumes.items()
            if values is not None
        }
        if there:
            drawn[f"volume-{name}"] = plane_figures.volume_maps(
                folder / f"volume-{name}.png", there, trained, f"Local volume in the layers of {arm.label}"
            )
    return drawn


def _of_gradient(study: FinishedRendering, name: str, there: bool) -> str:
    """What is to be said of the gradient kernel of an arm; nothing where it could have been measured and was not, as
    in a study older than it."""
    if there:
        return "gradient: of the whole decoder, how far a step of training at one cell moves the image of another"
    parameters = study.facts["arms"][name].get("parameters")
    if parameters is None or gradient_is_small(len(study.arms[name].cells), parameters):
        return ""
    most = f"{GRADIENT_CELLS} cells and {GRADIENT_PARAMETERS:,} parameters"
    return f"no gradient kernel: left out because of size, it is measured up to {most}"


def _some(layers: list[str]) -> list[str]:
    """A few of many layers, the first and the last among them."""
    if len(layers) <= MOST_LAYERS:
        return layers
    places = np.unique(np.linspace(0, len(layers) - 1, MOST_LAYERS).round().astype(int))
    return [layers[place] for place in places]


def _map(found: Measures, name: str, arm: ArmNumbers) -> np.ndarray | None:
    values = found.maps.get(name)
    if values is None or values.shape != (len(arm.cells),) or not np.isfinite(values).any():
        return None
    return values.reshape(arm.side, arm.side)


def _middle(arm: ArmNumbers) -> tuple[int, int]:
    """The deepest held-out cell, as `studies.rendering_measures.middle_cell` chooses it."""
    held = np.flatnonzero(~arm.trained)
    deepest = held[arm.depth[held] == arm.depth[held].max()]
    away = np.square(arm.cells[deepest] - arm.cells[held].mean(0)).sum(1)
    x, y = arm.cells[deepest[np.argmin(away)]]
    return int(x), int(y)


def _by_depth(name: str, found: Measures) -> tuple[np.ndarray, dict[str, np.ndarray]] | None:
    depth = found.maps.get(f"{name}.superposition.depth")
    words = {"memory": "its memory", "truth": "the true image", "control": "other memories"}
    values = {label: found.maps.get(f"{name}.superposition.{word}") for word, label in words.items()}
    known = {label: cosines for label, cosines in values.items() if cosines is not None}
    return None if depth is None or len(known) < len(words) else (depth, known)


def _pictures(study: FinishedRendering, found: Measures, path: Path) -> Path | None:
    """What the first seed draws at a few held-out cells, of the first arms that should draw the same."""
    measured = [name for name in study.arms if name in study.pictures and f"{name}.superposition.share" in found.maps]
    if not measured:
        return None
    first = study.arms[measured[0]]
    truths = study.pictures[f"{first.name}.real"]
    alike = [
        name
        for name in measured
        if np.array_equal(study.arms[name].trained, first.trained)
        and np.array_equal(study.pictures[f"{name}.real"], truths)
    ]
    chosen = [cell for cell in shown_cells(first) if not first.trained[cell]]
    places = {cell: place for place, cell in enumerate(np.flatnonzero(~first.trained).tolist())}
    rows = {f"memory of {first.label}": memory_pictures(first, study.pictures[first.name])[[places[c] for c in chosen]]}
    shares = {}
    for name in alike[:MOST_ROWS]:
        label = study.arms[name].label
        rows[label] = study.pictures[name][chosen] / 255.0
        own = found.maps[f"{name}.superposition.share"]
        if own.shape[1] == len(places):  # of a generator a cell has several samples
            shares[label] = [float(own[0, places[cell]]) for cell in chosen]
    return plane_figures.superposition_pictures(
        path,
        rows,
        truths[chosen] / 255.0,
        [tuple(first.cells[cell]) for cell in chosen],
        [float(first.depth[cell]) for cell in chosen],
        "What is drawn in the hole",
        shares,
    )


def memory_pictures(arm: ArmNumbers, pictures: np.ndarray) -> np.ndarray:
    """The memory of every held-out cell, (K, P, P) from 0 to 1: see `anatomy.superposition`."""
    import torch

    from recombine.anatomy.superposition import edge_weights, memory_weights

    cells, trained = torch.from_numpy(arm.cells), torch.from_numpy(arm.trained)
    weights = memory_weights(cells, trained) if arm.is_plane else edge_weights(cells[:, 0], trained, period=360.0)
    flat = pictures[arm.trained].reshape(int(arm.trained.sum()), -1) / 255.0
    mixed: np.ndarray = weights.numpy() @ flat
    return mixed.reshape(-1, *pictures.shape[1:])
