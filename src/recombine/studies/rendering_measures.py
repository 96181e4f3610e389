"""Measure the trained decoders of a rendering study over their planes: `measures.parquet`, which the claims read, and
`maps.safetensors`, which the page draws.

What each measure is stands in `recombine.anatomy.measures`. Derivatives are taken where the code has them; with a
one-hot code differences between cells are, for the decoder and for the true pictures alike.

What is measured is kept in the store in parts: the pictures of all members of an arm, and the layers of each member. So
a measuring that was stopped goes on where it was, and members are looked into one at a time: the states of a whole
plane of one wide decoder are gigabytes. Where the pictures of all members do not fit into memory, they are measured
fewer at a time: the numbers are the same but for rounding.

The gradient kernel is measured of small arms only (`anatomy.kernels.gradient_is_small`), and came later than the rest.
It stands in the recipe of an arm's layers where it is measured: those were measured again when it came, which takes
seconds, and what is stored of larger arms, minutes for each member, holds as it is. So VERSION was not raised for it.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from recombine import files
from recombine.anatomy.kernels import DIRECTIONS, GRADIENT_CELLS, GRADIENT_PARAMETERS, gradient_is_small
from recombine.anatomy.measures import (
    Maps,
    Measured,
    measure_gap,
    measure_gradient,
    measure_grid,
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
from recombine.nets.decoders import build_decoder
from recombine.out_of_memory import in_batches, must_fit
from recombine.progress import say, track
from recombine.studies.bridge_measures import measure_samples
from recombine.studies.rendering import RenderingArm, RenderingStudy
from recombine.studies.rendering_run import KIND as ARM
from recombine.studies.rendering_run import OpenedArm, finished_arm, finished_recipe, open_arm
from recombine.studies.store import Store

VERSION = 1  # of our own code; raised when a change alters what is measured
KIND = "rendering-measures"  # of entries in the store
MAPS = "maps.safetensors"

Found = tuple[list[Measured], Maps]


def measure_arm(settings: RenderingArm, opened: OpenedArm, inside: bool = True) -> list[Measured]:
    """Everything measured of an arm's members; without `inside` only what can be said of their pictures."""
    found = measure_outputs(settings, opened, inside)[0]
    if not inside or opened.plane.cells.shape[1] == 1:
        return found
    members = next(opened.decoder.parameters()).shape[0]
    each = [measure_inside(settings, solo(settings, opened, m))[0] for m in range(members)]
    return found + _together(each)


def measure_outputs(settings: RenderingArm, opened: OpenedArm, inside: bool = True) -> Found:
    """What can be said of the pictures of all members: the judge's numbers and superposition; with `inside` kernel
    regression and the geometry of the true pictures too."""
    plane, pictures, maps = opened.plane, opened.outputs(), Maps()  # (M, C, P, P)
    found = measure_judged(judge_plane(pictures, plane), plane)
    outputs, truths = pictures.flatten(2), plane.images.flatten(1)
    if plane.cells.shape[1] == 1:
        return found + measure_gap(outputs, truths, plane.cells[:, 0], plane.trained, plane.depth, maps), maps
    found += measure_pictures(outputs, truths, plane.cells, plane.trained, regression=inside, keep=maps)
    if inside:
        render = settings.build_world().render
        found += measure_truth(render, plane.cells, plane.trained, len(pictures), _smooth(settings), maps)
        maps["volume.truth"] = maps["volume.truth"].mean(0)
        found += measure_grid(outputs, plane)
    return found, maps


def measure_inside(settings: RenderingArm, opened: OpenedArm) -> Found:
    """What is measured of the layers, and the gradient kernel where it is small enough."""
    plane, maps = opened.plane, Maps()
    members = next(opened.decoder.parameters()).shape[0]

    def layers(cells: Tensor) -> dict[str, Tensor]:
        code = opened.encoding(cells).expand(members, -1, -1)
        return named_layers(opened.decoder.states(code), code)

    cell = middle_cell(plane.cells, plane.trained, plane.depth)
    with sdpa_kernel(SDPBackend.MATH):  # torch's fast attention has no forward derivative
        found = measure_layers(layers, plane.cells, plane.trained, smooth=_smooth(settings), keep=maps, cell=cell)
        if has_gradient(settings):
            codes = opened.encoding(plane.cells).expand(members, -1, -1)
            weights: dict[str, Tensor] = dict(opened.decoder.named_parameters())
            found += measure_gradient(
                lambda own, code: functional_call(opened.decoder, own, (code,)),
                weights,
                codes,
                plane.cells,
                plane.trained,
                keep=maps,
                cell=cell,
            )
    return found, maps


def has_gradient(settings: RenderingArm) -> bool:
    """Whether the gradient kernel of an arm's members is measured: of decoders of bumps that are small enough."""
    if settings.decoder is None or settings.world.kind != "bumps":
        return False
    size, widths = settings.world.image_size, settings.code().widths
    one = build_decoder(settings.decoder, widths, size, (0,))
    return gradient_is_small(len(settings.plane().cells), sum(own.numel() for own in one.parameters()))


def _smooth(settings: RenderingArm) -> bool:
    """Whether the code has derivatives."""
    return not isinstance(settings.encoding, OneHotEncoding)


def middle_cell(cells: Tensor, trained: Tensor, depth: Tensor) -> int:
    """The number of the deepest held-out cell, of several the one nearest to the middle of the hole."""
    held = (~trained).nonzero()[:, 0]
    deepest = held[depth[held] == depth[held].max()]
    away = (cells[deepest] - cells[held].float().mean(0)).square().sum(1)
    return int(deepest[away.argmin()])


def solo(settings: RenderingArm, opened: OpenedArm, member: int) -> OpenedArm:
    """One member of an arm as an arm of its own."""
    return some_of(settings, opened, range(member, member + 1))


def some_of(settings: RenderingArm, opened: OpenedArm, members: range) -> OpenedArm:
    """Some members of an arm, without a gap between them, as an arm of their own, on the device of the plane."""
    assert settings.decoder is not None
    decoder = build_decoder(settings.decoder, opened.encoding.widths, settings.world.image_size, tuple(members))
    whole = opened.decoder.state_dict()
    own = {
        name: whole[name] if whole[name].shape == fresh.shape else whole[name][members.start : members.stop]
        for name, fresh in decoder.state_dict().items()
    }
    decoder.load_state_dict(own)
    return replace(opened, decoder=decoder.to(opened.plane.cells.device).eval())


def measure_study(
    study: RenderingStudy, out: Path, store: Store | Path, device: torch.device | str = "cpu", inside: bool = True
) -> dict[str, float]:
    """Measure every arm of a finished study and write both files into its folder `out`.

    Returns the seconds that each arm took when it was measured, be it by an earlier call.
    """
    kept, place = store if isinstance(store, Store) else Store(store), torch.device(device)
    table: list[dict[str, Any]] = []
    maps: dict[str, Tensor] = {}
    seconds: dict[str, float] = {}
    for name, settings in study.arms.items():
        found, drawn, seconds[name] = _arm(study, name, settings, kept, place, inside)
        table += rows(study.name, name, study.seeds, found)
        maps |= {f"{name}.{key}": values for key, values in drawn.items()}
    write_measures(out, table)
    files.save_tensors_atomic(out / MAPS, maps)
    return seconds


def _arm(
    study: RenderingStudy, name: str, settings: RenderingArm, store: Store, device: torch.device, inside: bool
) -> tuple[list[Measured], Maps, float]:
    """One arm, from the store where its parts are there; maps but those of superposition are means over members."""
    recipe = {
        "version": VERSION,
        "arm": store.key(ARM, finished_recipe(study, name, store)),
        "inside": inside,
    }
    opened: list[OpenedArm] = []

    def arm() -> OpenedArm:  # opened when the first part of it has to be measured
        if not opened:
            whole = open_arm(study, name, store)  # members go to the device when they are measured
            opened.append(replace(whole, plane=whole.plane.to(device)))
        return opened[0]

    def pictures() -> Found:
        drawn = finished_arm(study, name, store) if settings.decoder is None else None

        def of(members: range) -> Found:
            if drawn is None:
                return measure_outputs(settings, some_of(settings, arm(), members), inside)
            assert drawn.samples is not None
            samples = drawn.samples[members.start : members.stop].to(device) / 255.0
            judged = drawn.last.of_members(members).to(device)
            return measure_samples(samples, judged, drawn.plane.to(device), inside)

        parts = in_batches(of, range(study.members), study.members)
        if len(parts) > 1:
            at_once = len(parts[0][0][0].values)
            say(f"arm {name}: {study.members} members do not fit into memory together; measured {at_once} at a time")
        # Maps have a row for each member, but for those (of the truth, of depths) that are the same for all.
        maps = {
            key: torch.cat([own[key] for _, own in parts]) if first.dim() == 2 else first
            for key, first in parts[0][1].items()
        }
        return _together([found for found, _ in parts]), maps

    layered = inside and settings.world.kind == "bumps" and settings.decoder is not None
    count = 1 + study.members * layered
    gradient = {"gradient": DIRECTIONS} if layered and has_gradient(settings) else {}
    spent = 0.0
    each: list[Found] = []
    with track(count, f"measuring {name}") as advance, measurable(name):
        outputs, took = _kept(store, recipe | {"part": "pictures"}, pictures)
        spent += took
        advance()
        for member in range(study.members * layered):
            part = recipe | {"part": f"layers of member {member}"} | gradient
            found, took = _kept(store, part, lambda m=member: measure_inside(settings, solo(settings, arm(), m)))  # type: ignore[misc]
            each.append(found)
            spent += took
            advance()
    measured, maps = outputs
    if each:
        measured = measured + _together([found for found, _ in each])
        maps = maps | {key: torch.cat([own[key] for _, own in each]).nanmean(0) for key in each[0][1]}
    if opened:
        say(f"arm {name}: measured in {spent:.0f} s")
        if layered and not gradient:
            most = f"{GRADIENT_CELLS} cells and {GRADIENT_PARAMETERS:,} parameters"
            say(f"arm {name}: no gradient kernel, the arm is too large for it (at most {most})")
    return measured, maps, spent


def measurable(name: str) -> AbstractContextManager[None]:
    """Around the measuring of an arm: what to do where even one member is too large."""
    fix = "set measures to outputs or none, or take a smaller decoder or world.image_size"
    return must_fit(f"the measuring of arm {name}", fix)


def _together(each: list[list[Measured]]) -> list[Measured]:
    """The same measures of several members, some by some, as measures of all."""
    return [
        replace(parts[0], values=torch.cat([part.values.cpu() for part in parts])) for parts in zip(*each, strict=True)
    ]


def _kept(store: Store, recipe: dict[str, Any], make: Callable[[], Found]) -> tuple[Found, float]:
    """A part from the store, measured if it is not there; and the seconds that measuring it took."""
    if not store.has(KIND, recipe):
        begun = time.perf_counter()
        found, maps = make()
        tensors = {f"{i}": one.values.double().cpu() for i, one in enumerate(found)}
        names = [[one.layer, one.measure, one.region] for one in found]
        took = time.perf_counter() - begun
        tensors |= {f"map.{key}": values for key, values in maps.items()}
        store.save(KIND, recipe, tensors, {"measures": names, "seconds": took})
    tensors, facts = store.load(KIND, recipe)
    found = [
        Measured(layer, measure, region, tensors[f"{i}"])
        for i, (layer, measure, region) in enumerate(facts["measures"])
    ]
    maps = {key.removeprefix("map."): values for key, values in tensors.items() if key.startswith("map.")}
    return (found, maps), float(facts["seconds"])
