"""The command line. Heavy imports are inside the commands, so that `--help` answers at once."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recombine.busy_cores import wait_without_spinning
from recombine.errors import UserError

if TYPE_CHECKING:
    from recombine.studies.spec import AnyStudy

BAD_INPUT = 2
STOPPED = 130  # what a shell gives a command ended by Ctrl-C
NOT_WHOLE = 75  # as sysexits.h has it: try again later

app = typer.Typer(
    name="recombine",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Can a generative model draw combinations of factors it has never seen?\n\n"
    "Begin with [bold]recombine demo[/bold]: MaskGIT against DiT, in minutes on a laptop, with a page to look at.",
)


class Device(StrEnum):
    """Where to compute."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class Demo(StrEnum):
    """Which study shows itself."""

    generators = "generators"
    rendering = "rendering"


StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        help="Folder of finished parts, shared between studies; processes at work on one study share it out. Where it "
        "has all arms of a study as a GPU trained them, a machine without one puts the study together from these.",
        show_default="in --out",
    ),
]
DeviceOption = Annotated[Device, typer.Option("--device", help="auto takes a GPU if there is one.")]
ShrinkOption = Annotated[bool, typer.Option("--shrink", help="A smoke test of the same shape: all stages, no science.")]


def _version_and_exit(asked: bool) -> None:
    if asked:
        _print_version()
        raise typer.Exit


@app.callback()
def recombine(
    version: Annotated[
        bool, typer.Option("--version", callback=_version_and_exit, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """What every command shares; the help is the app's own."""


@app.command()
def run(
    study: Annotated[str, typer.Argument(help="A study file, or the name of a study in the library.")],
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the results.", show_default="runs/NAME")] = None,
    store: StoreOption = None,
    device: DeviceOption = Device.auto,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check the study, print it in full and how long it would take; run nothing."),
    ] = False,
    with_forecast: Annotated[
        bool, typer.Option("--forecast/--no-forecast", help="Time a few steps of each part for --dry-run.")
    ] = True,
    shrink: ShrinkOption = False,
    reuse: Annotated[
        list[Path] | None,
        typer.Option(
            "--reuse",
            help="Folder of a study, or of several: finished arms they have are not trained again. Repeatable.",
        ),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait",
            help="Wait for arms that other processes on the same --store are training; or end, with code 75, when "
            "no other is left.",
        ),
    ] = True,
) -> None:
    """Run a study: train every arm with every seed, judge, and write the report.

    The file is checked in full first. Stopped (Ctrl-C, or killed), the same command goes on where it was; the arms that
    are finished are in --out at any time, for `recombine report`.

    Example: [bold]recombine run objectives --out runs/objectives[/bold]
    """
    from recombine.studies.sources import library
    from recombine.studies.spec import load_study

    if Path(study).is_dir() and (Path(study).name != study or study not in library()):
        raise UserError(
            f"{study} is a folder; give a study file or the name of a study in the library, and a folder as --out."
        )
    loaded = load_study(study, shrink)
    if dry_run:
        import yaml

        from recombine.studies.outside import check_outside

        check_outside(loaded)
        kept = _say_kept(loaded, out or Path("runs") / loaded.name, store, device)
        reused = _say_reused(loaded, device, reuse) if reuse else []
        typer.echo(yaml.safe_dump(loaded.resolved(), sort_keys=False, allow_unicode=True), nl=False)
        if with_forecast:
            _say_forecast(loaded, device, kept, reused)
        return
    _run(loaded, out, store, device, reuse or [], wait)


@app.command()
def demo(
    which: Annotated[
        Demo,
        typer.Argument(
            help="generators: MaskGIT against DiT. rendering: a decoder that is told everything, and a remedy."
        ),
    ] = Demo.generators,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the results.", show_default="runs/demo")] = None,
    store: StoreOption = None,
    device: DeviceOption = Device.auto,
    shrink: ShrinkOption = False,
) -> None:
    """Compare MaskGIT with DiT on small pictures, or two decoders: a whole study in minutes on two CPU cores.

    Example: [bold]recombine demo[/bold], then open runs/demo/report.html in a browser
    """
    from recombine.studies.spec import load_study

    _run(load_study("demo" if which == Demo.generators else "demo-rendering", shrink), out, store, device)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a study, its --out.")],
) -> None:
    """Write the report of a study, as one HTML file that opens offline: of a finished one again, of one that is at
    work or was stopped with the arms that are finished so far.

    Example: [bold]recombine report runs/demo[/bold]
    """
    from recombine.report.page import write_report

    if folder.is_file():
        raise UserError(f"{folder} is a file; give the folder of a study that was run, the --out of `recombine run`.")
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; give the --out of a study that was run.")
    write_report(folder)
    typer.echo(f"report: {folder / 'report.html'}")


@app.command()
def claims(
    folders: Annotated[list[Path], typer.Argument(help="Folders of finished studies.", metavar="DIR...")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the ledger as JSON, and nothing else.")] = False,
    write: Annotated[
        Path | None, typer.Option("--write", help="Write RESULTS.md here, and its figures in results/figures beside.")
    ] = None,
) -> None:
    """Say which claims of the papers hold in these results: reproduced, partly, not reproduced or untested.

    Example: [bold]recombine claims results/*[/bold]
    """
    from recombine.claims import ledger, page
    from recombine.claims.asking import of_no_claim, unfinished
    from recombine.claims.beyond import questions, sections
    from recombine.claims.why import explanations

    left_out: list[str] = []  # in RESULTS.md it is said beside the study
    if write:
        found, answers, entries = page.write_page(write, folders)
    else:
        studies = ledger.open_studies(folders)
        found, answers = ledger.make_ledger(studies), explanations.explain(studies)
        entries = questions.look_beyond(studies)
        left_out = [*filter(None, [of_no_claim(studies, page.read_from())]), *unfinished(studies)]
    if as_json:
        import json

        objects = questions.with_beyond(explanations.with_why(found, answers), entries)
        typer.echo(json.dumps(objects, indent=1, ensure_ascii=False, allow_nan=False))
        return
    page.print_ledger(found)
    page.print_why(answers)
    sections.print_beyond(entries)
    for sentence in left_out:
        typer.echo(sentence)
    if write:
        typer.echo(f"results: {write}")


@app.command()
def ceiling(
    study: Annotated[str, typer.Argument(help="A study file, or the name of a study in the library.")],
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=1024, help="How often each tokenizer is fitted.")] = 3,
    out: Annotated[
        Path | None, typer.Option("--out", help="The JSON file to write.", show_default="runs/NAME-ceiling.json")
    ] = None,
    store: StoreOption = None,
    device: DeviceOption = Device.auto,
    shrink: ShrinkOption = False,
) -> None:
    """Say what the tokenizers of a study can write at all: real images, encoded, decoded and judged, level by level. No
    model on such tokens can be expected to draw more. Minutes, where the study itself may take hours.

    Example: [bold]recombine ceiling tokenizers-seen --seeds 8[/bold]
    """
    from rich.table import Table

    from recombine.progress import console
    from recombine.report.redrawn import draw_redrawn, table_lines
    from recombine.report.words import level_name
    from recombine.runner import pick_device
    from recombine.studies.ceilings import measure
    from recombine.studies.spec import Study, load_study
    from recombine.studies.store import store_folder

    loaded = load_study(study, shrink)
    if not isinstance(loaded, Study):
        raise UserError(
            f"{loaded.name} is a study of decoders, which has no tokenizers to judge; name one of generators."
        )
    path = out or Path("runs") / f"{loaded.name}-ceiling.json"
    if path.is_dir():
        raise UserError(f"{path} is a folder; give a file whose name ends in .json as --out.")
    kept = store_folder(path.with_suffix(""), store)
    with _stoppable("the same command goes on"):
        found, redrawn = measure(loaded, path, kept, pick_device(device.value), seeds)
    table = Table(title=f"{found.name}: real images, right and valid when decoded again")
    for head in ("tokenizer", "saw"):
        table.add_column(head, no_wrap=True)
    for level in sorted(set(found.levels.values())):
        table.add_column(level_name(level), justify="right", no_wrap=True)
    for line in table_lines(found):
        table.add_row(*line)
    console().print(table)
    typer.echo(f"ceilings: {path}")
    if redrawn.real.shape[2] == 3:
        draw_redrawn(redrawn, path.with_suffix(".png"))
        typer.echo(f"pictures: {path.with_suffix('.png')}")


@app.command()
def worlds(
    name: Annotated[str | None, typer.Argument(help="The world to draw; without it all are listed.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The picture to write.", show_default="NAME.png")] = None,
) -> None:
    """List the worlds, or draw a labelled sheet of one.

    Example: [bold]recombine worlds shapes2d --out sheet.png[/bold]
    """
    from recombine.studies.checking import nearest
    from recombine.worlds import WORLDS, build_world

    if name is None:
        for known, (_, line) in WORLDS.items():
            typer.echo(f"{known:<12} {line}")
        return
    if name not in WORLDS:
        raise UserError(f"unknown world {name!r}{nearest(name, list(WORLDS))}")
    from recombine.worlds.sheet import draw_sheet

    path = out or Path(f"{name}.png")
    if path.suffix not in (".png", ".pdf", ".svg"):
        raise UserError(f"cannot draw to {path}; end its name in .png, .pdf or .svg.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draw_sheet(build_world(WORLDS[name][0]()), path)
    except OSError as error:
        raise UserError(f"cannot write {path} ({error.strerror}); choose another --out.") from error
    typer.echo(f"sheet: {path}")


@app.command()
def words(
    section: Annotated[str | None, typer.Argument(help="The section to list; without it all are.")] = None,
) -> None:
    """List every word a study file may use, with its default, what it may be, and what it means.

    Example: [bold]recombine words generator[/bold]
    """
    import shutil

    from recombine.studies.words import listing

    typer.echo(listing(section, min(shutil.get_terminal_size().columns, 120)), nl=False)


@app.command()
def doctor() -> None:
    """Say what this machine has and what it can run.

    Example: [bold]recombine doctor[/bold]
    """
    from recombine.doctor import doctor as examine

    rows = examine()
    width = max(len(what) for what, _, _ in rows)
    for what, found, good in rows:
        typer.echo(f"{'ok' if good else '--'}  {what:<{width}}  {found}")


@app.command()
def bench(
    size: Annotated[
        str | None, typer.Option("--size", help="xs, s, b or l; without it, the cases that suit this machine.")
    ] = None,
    members: Annotated[
        int | None, typer.Option("--members", min=1, max=1024, help="Seeds trained at once.", show_default="8")
    ] = None,
    side: Annotated[
        int | None, typer.Option("--side", min=1, max=64, help="Tokens a side: 7 is 49 tokens.", show_default="7")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option("--batch", min=1, max=65_536, help="Images per member and step.", show_default="128"),
    ] = None,
    device: DeviceOption = Device.auto,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON, and nothing else.")] = False,
) -> None:
    """Time training here, against a plain PyTorch loop: the same DiT, one seed, in ordinary modules (bf16 autocast on a
    GPU, AdamW, clipping, averaged weights).

    Example: [bold]recombine bench --size xs --side 3 --batch 64[/bold]
    """
    import json
    from dataclasses import asdict

    from recombine.bench import Case, print_table, run_bench
    from recombine.nets.backbone import SIZES
    from recombine.progress import say
    from recombine.provenance import code_version
    from recombine.runner import pick_device
    from recombine.studies.checking import nearest

    if size is not None and size not in SIZES:
        raise UserError(f"unknown size {size!r}{nearest(size, list(SIZES))}")
    if size is None and (members, side, batch) != (None, None, None):
        raise UserError("--members, --side and --batch describe a case of your own, which needs --size too (xs, say).")
    cases = [Case(size, members or 8, side or 7, batch or 128)] if size is not None else None
    with _stoppable("nothing is kept"):
        rows = []
        for row in run_bench(pick_device(device.value), code_version(), cases):
            rows.append(row)
            if not as_json:
                say(f"{row.name}: {row.milliseconds:.2f} ms a step")
        if as_json:
            typer.echo(json.dumps([asdict(row) for row in rows], indent=1))
        else:
            print_table(rows)


@app.command()
def version() -> None:
    """Print the version.

    Example: [bold]recombine version[/bold]
    """
    _print_version()


def _print_version() -> None:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        typer.echo(installed("recombine"))
    except PackageNotFoundError:
        typer.echo("not installed (run from its source)")


def _say_reused(study: "AnyStudy", device: Device, folders: Sequence[Path]) -> list[str]:
    """Which arms would be taken over, said as a comment; refuses what a run would refuse."""
    from tempfile import TemporaryDirectory

    from recombine.runner import pick_device
    from recombine.studies.reuse import in_store, take_over
    from recombine.studies.spec import Study
    from recombine.studies.stages import open_setting
    from recombine.studies.store import Store

    if not isinstance(study, Study):
        return []
    with TemporaryDirectory() as empty:
        setting = open_setting(study, Store(empty), pick_device(device.value))
        take_over(setting, folders, _comment)
        return in_store(setting)


def _say_kept(study: "AnyStudy", out: Path, store: Path | None, device: Device) -> list[str]:
    """The arms that the store has already, said as a comment; of studies of decoders it is not asked."""
    from recombine.studies.spec import Study
    from recombine.studies.store import Store, store_folder

    folder = store_folder(out, store)
    if not isinstance(study, Study) or not folder.exists():
        return []
    from recombine.runner import pick_device
    from recombine.studies.reuse import as_trained, in_store
    from recombine.studies.stages import open_setting

    setting = open_setting(study, Store(folder), pick_device(device.value))
    kept = in_store(as_trained(setting, _comment))
    if kept:
        _comment(f"in the store {folder}, and not trained again: {', '.join(kept)}")
    return kept


def _comment(text: str) -> None:
    """What is printed beside a study, so that the whole is a study file still."""
    typer.echo(f"# {text}")


def _say_forecast(study: "AnyStudy", device: Device, kept: Sequence[str], reused: Sequence[str]) -> None:
    """As comments below the study, so that the whole is a study file still."""
    from recombine.progress import duration
    from recombine.runner import pick_device
    from recombine.studies.forecast import forecast

    if set(study.arms) <= set(kept):
        _comment("All arms are there: a run puts the study together from them.")
        return
    chosen = pick_device(device.value)
    _comment("Timing a few steps of each part (--no-forecast leaves that out).")
    sys.stdout.flush()
    with _stoppable("nothing is kept"):
        found = forecast(study, chosen, kept, reused)
    of = "GPU memory" if chosen.type == "cuda" else "memory"
    memory = "" if found.memory is None else f", with {found.memory / 2**30:.1f} GiB of {of}"
    _comment(f"About {duration(found.total)} on this machine ({chosen.type}){memory}, if it does nothing else:")
    for part, seconds in found.seconds.items():
        _comment(f"  {part}: {duration(seconds)}")


def _run(
    study: "AnyStudy",
    out: Path | None,
    store: Path | None,
    device: Device,
    reuse: Sequence[Path] = (),
    wait: bool = True,
) -> None:
    from recombine.runner import run_study
    from recombine.studies.store import Busy

    with _stoppable("the same command goes on"):
        try:
            run_study(study, out or Path("runs") / study.name, store, device.value, reuse, wait)
        except Busy as left:
            typer.echo(f"recombine: other processes are at work on {left}; the same command goes on", err=True)
            raise typer.Exit(NOT_WHOLE) from None


@contextmanager
def _stoppable(then: str) -> Iterator[None]:
    """Ctrl-C ends a command with a sentence, not with a traceback; `then`: what becomes of what was done."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"recombine: stopped; {then}", err=True)
        raise typer.Exit(STOPPED) from None


def main() -> None:
    """What the `recombine` command calls."""
    wait_without_spinning()  # before any command imports torch
    try:
        app()
    except UserError as error:
        typer.echo(f"recombine: {error}", err=True)
        sys.exit(BAD_INPUT)


if __name__ == "__main__":
    main()
