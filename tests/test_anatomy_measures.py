"""The tidy table of everything measured, on a decoder of the study with fresh weights and on planted pictures."""

import math

import pytest
import torch
from torch import Tensor

from recombine.anatomy.measures import (
    measure_judged,
    measure_layers,
    measure_pictures,
    measure_truth,
    named_layers,
    rows,
)
from recombine.anatomy.plane import plane_cells
from recombine.anatomy.superposition import memory_weights
from recombine.curated import make_plane
from recombine.encodings import Encoding, PopulationEncoding
from recombine.judges.plane import judge_plane
from recombine.nets.decoders import build_decoder
from recombine.nets.decoders.cnn import CNNSettings
from recombine.worlds.bumps import Bumps, BumpsSettings

SIZE = 12
CELLS = plane_cells(SIZE)
TRAINED = ~((CELLS >= 3) & (CELLS <= 8)).all(1)


def value(table: list[dict[str, object]], seed: int, **wanted: str) -> float:
    found = [row for row in table if row["seed"] == seed and all(row[k] == v for k, v in wanted.items())]
    assert len(found) == 1
    return float(found[0]["value"])  # type: ignore[arg-type]


def test_a_decoder_of_the_study_is_measured_in_every_layer() -> None:
    encoding = Encoding(PopulationEncoding(), (SIZE, SIZE))
    seeds = (4, 9)
    decoder = build_decoder(CNNSettings(width=4, depth=2), encoding.widths, SIZE, seeds)

    def layers(cells: Tensor) -> dict[str, Tensor]:
        code = encoding(cells).expand(2, -1, -1)
        return named_layers(decoder.states(code), code)

    measured = measure_layers(layers, CELLS, TRAINED)
    table = rows("rendering", "plain", seeds, measured)
    assert {row["layer"] for row in table} == {"input", "layer 1", "layer 2", "layer 3", "output"}
    keys = {(r["seed"], r["layer"], r["measure"], r["region"]) for r in table}
    assert len(keys) == len(table) and all(isinstance(row["value"], float) for row in table)
    for seed in seeds:
        for region in ("trained", "held_out"):
            inputs = value(table, seed, layer="input", measure="factorization", region=region)
            assert inputs == pytest.approx(1)  # the code is disentangled, and that is computed
            last = value(table, seed, layer="output", measure="factorization", region=region)
            assert 0.5 <= last < 1
        assert value(table, seed, layer="input", measure="kernel_r2_factorized", region="trained") > 0.9
        assert value(table, seed, layer="input", measure="read_out_r2", region="trained") > 0.99
    # Member 1 is what seed 9 alone gives.
    solo = build_decoder(CNNSettings(width=4, depth=2), encoding.widths, SIZE, (9,))

    def alone(cells: Tensor) -> dict[str, Tensor]:
        code = encoding(cells)[None]
        return named_layers(solo.states(code), code)

    single = rows("rendering", "plain", (9,), measure_layers(alone, CELLS, TRAINED))
    pair = {(r["layer"], r["measure"], r["region"]): r["value"] for r in table if r["seed"] == 9}
    for row in single:
        there = pair[row["layer"], row["measure"], row["region"]]
        assert (math.isnan(there) and math.isnan(row["value"])) or there == pytest.approx(
            row["value"], rel=1e-3, abs=1e-4
        )


def test_pictures_of_planted_decoders() -> None:
    world = Bumps(BumpsSettings(image_size=SIZE))
    truths = world.render(CELLS.float()).flatten(1)
    memory = truths.clone()
    memory[~TRAINED] = memory_weights(CELLS, TRAINED).float() @ truths[TRAINED]
    table = rows("s", "a", (0, 1), measure_pictures(torch.stack([memory, truths]), truths, CELLS, TRAINED))
    for region in ("held_out", "deep"):
        wanted = {"measure": "superposition_share", "region": region, "layer": "picture"}
        assert value(table, 0, **wanted) == pytest.approx(1, abs=1e-5)
        assert value(table, 1, **wanted) == pytest.approx(0, abs=1e-5)
    assert value(table, 0, measure="additive_memory", region="deep") > 0.9
    assert value(table, 1, measure="additive_memory", region="deep") < 0.2
    assert {row["region"] for row in table if str(row["measure"]).startswith("regression")} == {"trained", "held_out"}
    # The true pictures' own geometry, and the judge's numbers, are rows of the same table.
    true = rows("s", "a", (0, 1), measure_truth(world.render, CELLS, TRAINED, 2))
    centre = value(true, 1, layer="truth", measure="log_volume", region="held_out")
    assert centre == pytest.approx(math.log10(math.pi / 2), abs=1e-2)
    plane = make_plane(world, TRAINED)
    judged = judge_plane(torch.stack([memory, truths]).view(2, -1, SIZE, SIZE), plane)
    table = rows("s", "a", (0, 1), measure_judged(judged, plane))
    assert value(table, 1, measure="hit", region="deep") == 1 and value(table, 0, measure="hit", region="deep") < 0.2
    assert value(table, 0, measure="relative", region="trained") == 0
    shallow = ~((CELLS >= 5) & (CELLS <= 6)).all(1)
    short = measure_pictures(truths[None], truths, CELLS, shallow, regression=False)
    assert {one.region for one in short} == {"held_out"}  # nothing lies deep in a hole of 2 by 2
