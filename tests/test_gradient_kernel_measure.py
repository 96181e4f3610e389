"""The gradient kernel as a measure: the sampled kernel is the whole one on average, small studies have it and its map,
large ones say that it was left out, and a study without it is read as before."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.func import functional_call

from recombine.anatomy import kernels
from recombine.anatomy.kernels import (
    compare_kernels,
    gradient_is_small,
    gradient_kernel,
    normalised_kernel,
    representational_kernel,
    sampled_gradient_kernel,
)
from recombine.anatomy.measures import Maps, measure_gradient, read_measures
from recombine.nets.decoders import build_decoder
from recombine.nets.decoders.cnn import CNNSettings
from recombine.nets.decoders.transformer import TransformerSettings
from recombine.nets.layers import Linear, SeedStream
from recombine.report.rendering_inside import draw_inside, read_inside
from recombine.report.rendering_reading import read_rendering
from recombine.runner import run_study
from recombine.studies import rendering_measures
from recombine.studies.rendering import RenderingStudy
from recombine.studies.rendering_measures import MAPS, measure_study
from recombine.studies.store import Store

SIDE = 8
CELLS = torch.stack(torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="xy"), dim=-1).reshape(-1, 2)
TRAINED = ~((CELLS >= 2) & (CELLS <= 5)).all(1)


def onehot(members: int) -> torch.Tensor:
    """Codes (M, C, 2 * SIDE) of all cells."""
    rows = torch.eye(SIDE)
    return torch.cat([rows[CELLS[:, 0]], rows[CELLS[:, 1]]], dim=1).expand(members, -1, -1)


def test_the_sampled_kernel_is_the_gradient_kernel_on_average() -> None:
    """Of a linear map it is P (a . b + 1), P independent outputs: the error of n directions is near 1 / sqrt(n P). Of a
    CNN one direction may hold most of the kernel: near sqrt(2 / n), three times which is allowed."""
    layer = Linear(2 * SIDE, SIDE * SIDE, SeedStream([0, 1]))
    net = build_decoder(CNNSettings(depth=2, width=4), (SIDE, SIDE), SIDE, (0, 1))
    codes = onehot(2)[:, ::9]
    closed = SIDE * SIDE * (codes @ codes.mT + 1).double()

    def error(module: torch.nn.Module, exact: torch.Tensor | None, directions: int) -> torch.Tensor:
        def network(own: dict[str, torch.Tensor], code: torch.Tensor) -> torch.Tensor:
            return functional_call(module, own, (code,))

        weights = dict(module.named_parameters())
        if exact is None:
            exact = gradient_kernel(network, weights, codes)
        found = sampled_gradient_kernel(network, weights, codes, directions)
        return (found - exact).square().mean((1, 2)).sqrt() / exact.square().mean((1, 2)).sqrt()

    few, many = error(layer, closed, 4), error(layer, closed, 256)
    assert (many < 0.03).all() and (many < few / 3).all()
    assert (error(net, None, 256) < 3 * (2 / 256) ** 0.5).all()


def test_members_of_a_sampled_kernel_do_not_mix_and_every_kind_of_layer_is_taken() -> None:
    for settings in (CNNSettings(depth=2, width=4), TransformerSettings(depth=1, width=16, heads=2)):
        both = build_decoder(settings, (SIDE, SIDE), SIDE, (3, 4))
        for member in range(2):
            solo = build_decoder(settings, (SIDE, SIDE), SIDE, (3 + member,))
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                together, alone = (
                    sampled_gradient_kernel(
                        lambda own, code, net=net: functional_call(net, own, (code,)),
                        dict(net.named_parameters()),
                        onehot(m),
                    )
                    for net, m in ((both, 2), (solo, 1))
                )
            assert alone.abs().max() > 0
            torch.testing.assert_close(together[member], alone[0], rtol=1e-4, atol=1e-4 * float(alone.abs().max()))


def test_a_linear_decoder_of_a_onehot_code_is_found_binary_factorized() -> None:
    """Its gradient kernel is P (shared values + 1): x shared or y shared, whatever the weights."""
    layer = Linear(2 * SIDE, SIDE * SIDE, SeedStream([0, 1]))
    keep: Maps = {}
    found = measure_gradient(
        lambda own, code: functional_call(layer, own, (code,)),
        dict(layer.named_parameters()),
        onehot(2),
        CELLS,
        TRAINED,
        keep,
        cell=27,
    )
    table = {(one.layer, one.measure, one.region): one.values for one in found}
    assert {layer for layer, _, _ in table} == {"gradient"}
    for region in ("trained", "across", "held_out"):
        assert (table["gradient", "kernel_r2_binary_factorized", region] > 0.9).all()
        assert (table["gradient", "kernel_r2_conjunction", region] < 0.5).all()
    assert keep["kernel.gradient"].shape == (2, len(CELLS))
    shares_x = keep["kernel.gradient"][:, (CELLS[:, 0] == CELLS[27, 0]) & (CELLS[:, 1] != CELLS[27, 1])]
    apart = keep["kernel.gradient"][:, (CELLS[27] != CELLS).all(1)]
    assert (shares_x.mean(1) > apart.mean(1) + 0.1).all()


def test_a_kernel_is_normalised_as_that_of_features_is() -> None:
    features = torch.randn(2, len(CELLS), 5, generator=torch.Generator().manual_seed(0)).double() + 3.0
    raw = features @ features.mT
    torch.testing.assert_close(normalised_kernel(raw, TRAINED), representational_kernel(features, TRAINED))
    one = compare_kernels(raw, CELLS, TRAINED)["radial"].trained
    two = compare_kernels(normalised_kernel(raw, TRAINED), CELLS, TRAINED)["radial"].trained
    torch.testing.assert_close(one, two)


def test_the_limit_is_on_cells_and_on_parameters() -> None:
    assert gradient_is_small(256, 68_033)  # the demo
    assert not gradient_is_small(257, 1) and not gradient_is_small(1, 2**18 + 1)


def tiny() -> RenderingStudy:
    arm = {
        "world": {"kind": "bumps", "image_size": 8},
        "support": {"kind": "donut", "low": 2, "high": 5},
        "training": {"steps": 2, "batch": 4},
        "data": {"images": 30},
        "decoder": {"kind": "cnn", "width": 4, "depth": 2},
    }
    words = {"name": "tiny", "question": "Is it there?", "seeds": (0, 1), "judging": {"evaluations": 1}}
    return RenderingStudy.model_validate({**words, "arms": {"small": arm}})


def r2_rows(folder: Path) -> set[tuple[str, str]]:
    table = read_measures(folder)
    assert table is not None
    return {(row["measure"], row["region"]) for row in table if row["layer"] == "gradient"}


def test_small_studies_have_it_and_large_ones_say_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, store = tmp_path / "out", tmp_path / "store"
    with monkeypatch.context() as limited:
        limited.setattr(kernels, "GRADIENT_CELLS", 63)
        run_study(tiny(), out, store, "cpu")
        assert not r2_rows(out)
        said = " ".join(capsys.readouterr().out.split())
        assert "arm small: no gradient kernel, the arm is too large for it" in said
        titles = drawn_notes(out, limited)
        assert any(note.startswith("no gradient kernel: left out because of size") for note in titles)
    notes = drawn_notes(out, monkeypatch)  # as a study from before there was one: nothing is missing or claimed
    assert notes == [""]
    calls: list[int] = []
    real = rendering_measures.measure_outputs
    monkeypatch.setattr(rendering_measures, "measure_outputs", lambda *given: calls.append(1) or real(*given))
    measure_study(tiny(), out, Store(store))
    assert not calls  # the pictures' part is kept; only the layers of a small arm are measured anew
    wanted = {(f"kernel_r2_{f}", region) for f in kernels.FAMILIES for region in ("trained", "across", "held_out")}
    assert r2_rows(out) == wanted
    maps = read_inside(out)
    assert maps is not None and maps.maps["small.kernel.gradient"].shape == (64,) and (out / MAPS).is_file()
    assert "gradient" not in maps.layers("small")  # it has no states, ranks or volume
    assert drawn_notes(out, monkeypatch)[0].startswith("gradient: of the whole decoder")


def drawn_notes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The notes that the kernels' figures of a study get; the figures are drawn."""
    from recombine.report import plane_figures

    notes: list[str] = []
    real = plane_figures.kernel_panels

    def noted(*given: object) -> Path:
        notes.append(str(given[6]))
        return real(*given)  # type: ignore[arg-type]

    with monkeypatch.context() as spied:
        spied.setattr(plane_figures, "kernel_panels", noted)
        measured = read_inside(folder)
        assert measured is not None
        assert draw_inside(read_rendering(folder), measured)["kernels-small"].is_file()
    assert json.loads((folder / "study.json").read_text())["finished"]
    return notes


def test_a_diverged_member_is_nan_and_spoils_no_other() -> None:
    layer = Linear(2 * SIDE, SIDE * SIDE, SeedStream([0, 1]))
    weights = {name: value.detach().clone() for name, value in layer.named_parameters()}
    broken = {name: value.clone() for name, value in weights.items()}
    codes = onehot(2).clone()
    codes[0] = float("nan")

    def network(own: dict[str, torch.Tensor], code: torch.Tensor) -> torch.Tensor:
        return functional_call(layer, own, (code,))

    spoiled = measure_gradient(network, broken, codes, CELLS, TRAINED)
    whole = measure_gradient(network, weights, onehot(2), CELLS, TRAINED)
    for a, b in zip(spoiled, whole, strict=True):
        assert np.isnan(float(a.values[0])) and float(a.values[1]) == pytest.approx(float(b.values[1]), abs=1e-9)
