"""The benchmark: it compares like with like, and prints what others read."""

import json
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from recombine.bench import Case, PlainDiT, Row, flops, in_turn, print_table
from recombine.cli import app
from recombine.conditioning import ConditioningSettings
from recombine.generators import TokenShape, build_generator
from recombine.generators.dit import DiTSettings
from recombine.nets.backbone import SIZES
from recombine.worlds import Shapes2D, Shapes2DSettings


def test_the_plain_loop_trains_the_same_model():
    """As many numbers, and the same outputs once the weights are the same."""
    factors = Shapes2D(Shapes2DSettings()).factors
    ours = build_generator(
        DiTSettings(), TokenShape((3, 3), 16, None), ConditioningSettings(), factors, SIZES["xs"], [0]
    )
    plain = PlainDiT(SIZES["xs"], (3, 3))
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in plain.parameters())
    source = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in ours.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=source)

        def give(linear: torch.nn.Linear, own: torch.nn.Module) -> None:
            linear.weight.copy_(own.weight[0].T)
            linear.bias.copy_(own.bias[0, 0])

        give(plain.inputs, ours.inputs)
        give(plain.time[0], ours.time.layers[0])
        give(plain.time[2], ours.time.layers[2])
        for table, own in zip(plain.labels, ours.condition.tables.values(), strict=True):
            table.weight.copy_(own.weight[0])
        ada = ours.backbone.ada  # of all blocks, one after the other, then of the output
        done = 0
        for linear in [*(block.ada[1] for block in plain.blocks), plain.ada[1]]:
            some = slice(done, done + linear.out_features)
            linear.weight.copy_(ada.weight[0, :, some].T)
            linear.bias.copy_(ada.bias[0, 0, some])
            done += linear.out_features
        assert done == ada.weight.shape[2]
        for block, own in zip(plain.blocks, ours.backbone.blocks, strict=True):
            for theirs, mine in ((block.qkv, own.qkv), (block.out, own.out), (block.mlp[0], own.up)):
                give(theirs, mine)
            give(block.mlp[2], own.down)
        give(plain.head, ours.backbone.head)
    x, t = torch.randn(4, 9, 16, generator=source), torch.rand(4, generator=source)
    labels = torch.randint(2, (4, 3), generator=source)
    torch.testing.assert_close(
        plain(x, t, labels), ours.predict(x[None], t[None], labels[None].float())[0], rtol=1e-4, atol=1e-4
    )


def test_what_is_compared_is_timed_in_turn():
    """A while in which the machine is slow must fall on all alike."""
    calls: list[tuple[str, int]] = []

    def step(name: str, seconds: float):
        def run(count: int) -> None:
            calls.append((name, count))
            time.sleep(seconds * count)

        return run

    short, long = in_turn([step("a", 0.001), step("b", 0.003)], torch.device("cpu"), rounds=3, least=0.012)
    assert len(short) == len(long) == 3 and [name for name, _ in calls[4:]] == ["a", "b"] * 3
    assert all(a < b for a, b in zip(short, long, strict=True))
    assert all(2 <= count <= 12 for _, count in calls)


def test_the_work_is_counted_by_hand():
    """Size xs, 9 tokens, one image: per block 12 D^2 products per token and the two products of attention."""
    assert flops(Case("xs", 8, 3, 1)) == 3 * 4 * (2 * 9 * 12 * 64 * 64 + 2 * (2 * 9 * 9 * 64))


def test_the_command_prints_rows_that_others_read():
    words = ["bench", "--size", "xs", "--side", "2", "--batch", "2", "--members", "2", "--device", "cpu", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    wanted = {"name", "size", "members", "tokens", "ratio", "tflops", "peak_share", "device", "commit"}
    assert wanted <= set(row) == set(Row.__dataclass_fields__)
    assert row["members"] == 2 and row["tokens"] == 4 and row["ratio"] > 0 and 0 < row["peak_share"] < 1
    assert 0.05 < row["memory_gib"] < 64  # of the process, torch included


def test_the_table_says_what_it_compares_with():
    words = ["bench", "--size", "xs", "--side", "2", "--batch", "2", "--members", "2", "--device", "cpu"]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    for part in ("dit-xs-4", "2 x 2", "x plain", "x solo", "TFLOP/s", "a plain PyTorch loop (the same DiT", "GiB"):
        assert part in " ".join(done.output.split())
    assert "by the whole process" in " ".join(done.output.split()) and "autocast" not in done.output


def test_the_table_of_a_gpu_fits_in_80_columns(monkeypatch, capsys):
    rows = [Row(**row) for row in json.loads((Path(__file__).parent.parent / "benchmarks/bench.json").read_text())]
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("recombine.progress._console", None)
    print_table(rows)
    printed = capsys.readouterr().out
    assert "\u2026" not in printed and all(len(line) <= 80 for line in printed.splitlines())
    assert "bf16 autocast" in " ".join(printed.split()) and "whole process" not in " ".join(printed.split())
    assert "dit-b-256" in printed and "8 x 128" in printed and "40%" in printed


def test_words_of_a_case_need_its_size():
    done = CliRunner().invoke(app, ["bench", "--members", "2"])
    assert done.exit_code != 0 and "needs --size" in str(done.exception)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError])
def test_a_case_that_does_not_fit_is_one_sentence(monkeypatch, error):
    def no_memory(*_args: object) -> None:
        raise error("none")

    monkeypatch.setattr("recombine.bench.members_step", no_memory)
    done = CliRunner().invoke(app, ["bench", "--size", "xs", "--device", "cpu"])
    assert done.exit_code != 0 and "do not fit into memory: lower --members" in str(done.exception)


def test_an_unknown_size_is_refused_by_name():
    done = CliRunner().invoke(app, ["bench", "--size", "xl"])
    assert done.exit_code != 0 and "unknown size 'xl'" in str(done.exception)


def test_every_committed_table_of_timings_has_the_columns_that_others_read():
    wanted = {"name", "size", "members", "tokens", "ratio", "tflops", "peak_share", "device", "commit"}
    tables = sorted((Path(__file__).parent.parent / "benchmarks").glob("*.json"))
    assert tables
    for table in tables:
        rows = json.loads(table.read_text())
        assert rows and all(wanted <= set(row) for row in rows), table.name
