"""The report: right numbers, honest words, safe text, one file; and in a real browser, curves that work."""

import html
import json
import re
import shutil
import struct
import subprocess
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fake_study import CODES, LEVELS, fake_monitors, fake_quality, write_fake_study
from recombine.errors import UserError
from recombine.judges.statistics import Interval, interval, summarize
from recombine.report import summary_figure, words, write_report
from recombine.report.figures import HIGH, WIDE, accuracy_of, coarsen, encode_sets, png, shrink
from recombine.report.inside import readings
from recombine.report.page import embed
from recombine.report.reading import read_study
from recombine.report.terminal import print_summary, table_lines
from recombine.studies.monitors import ABOUT, write_monitors
from recombine.studies.quality_table import ABOUT as METRICS
from recombine.studies.quality_table import write_quality


def page_of(folder: Path) -> str:
    return write_report(folder).read_text(encoding="utf-8")


def text_of(page: str) -> str:
    """The words a reader sees, without tags, script and style."""
    bare = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", bare)))


def curve_data(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="curve-data">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found.group(1))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fake_study(tmp_path_factory.mktemp("study"), monitors=True, quality=True)


@pytest.fixture(scope="module")
def page(study: Path) -> str:
    return page_of(study)


# --- what the page says -------------------------------------------------------------------------------------------


def test_table_shows_the_statistics_of_every_arm_and_level(study: Path, page: str) -> None:
    text = text_of(page)
    rows = pq.read_table(study / "results.parquet").to_pylist()
    summaries = summarize(rows)
    assert len(summaries) == 9
    for one in summaries:
        assert one.interval.low is not None and one.interval.high is not None
        shown = f"{words.percent(one.interval.mean)} {words.span(one.interval.low, one.interval.high)}"
        assert re.sub(r"\s+", " ", shown) in text, (one.arm, one.level)


def test_curves_hold_every_member_at_every_step(study: Path, page: str) -> None:
    data = curve_data(page)
    assert [arm["name"] for arm in data["arms"]] == ["maskgit", "dit", "dit-ddpm"]
    for row in pq.read_table(study / "results.parquet").to_pylist():
        arm = next(a for a in data["arms"] if a["name"] == row["arm"])
        at = arm["steps"].index(row["step"])
        for measure in ("joint", "joint_raw", "joint_probe_only", "joint_probe_only_raw"):
            assert arm["values"][measure][row["composition"]][at][row["member"]] == pytest.approx(
                row[measure], abs=1e-4
            )


def test_page_is_one_small_file_without_outside_resources(page: str) -> None:
    assert len(page.encode()) < 2_000_000
    for address in re.findall(r'(?:src|href)\s*=\s*"([^"]*)"', page):
        assert address.startswith(("data:", "#")), address
    assert (
        "@import" not in page and "url(" not in page and "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    )
    assert "https://" not in page


def test_each_generated_picture_has_its_verdict(study: Path, page: str) -> None:
    pictures = read_study(study).pictures
    for arm in ("maskgit", "dit"):
        right, valid = pictures[f"{arm}.right"], pictures[f"{arm}.valid"]
        counts = [(right & valid).sum(), (right & (1 - valid)).sum(), (1 - right).sum()]
        spoken = re.findall(
            rf'aria-label="{arm}: of 8 pictures (\d+) right and valid, (\d+) right by [^"]*?, (\d+) wrong"', page
        )
        assert len(spoken) == len(CODES)
        assert [sum(int(one[i]) for one in spoken) for i in range(3)] == counts


def test_user_text_is_escaped(tmp_path: Path) -> None:
    evil = "</script><script>document.documentElement.dataset.evil=1</script>\"'&"
    folder = write_fake_study(tmp_path / "s", arms=("dit",), evaluations=2, count=1, name=evil, question=f"Q {evil}?")
    facts = json.loads((folder / "study.json").read_text())
    facts["world"]["factors"][0]["values"][0] = evil  # reaches the script's data through the compositions' words
    (folder / "study.json").write_text(json.dumps(facts))
    page = page_of(folder)
    assert "<script>document" not in page
    assert page.count("</script") == 3  # the error listener, the data, the program
    assert evil in curve_data(page)["compositions"][0]["words"]
    assert evil in html.unescape(page)


def test_embedded_json_cannot_leave_its_element() -> None:
    data = {"a": "</script><!--<script>", "b": "\u2028&amp;"}
    text = str(embed(data))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == data
    with pytest.raises(ValueError):
        embed(float("nan"))


# --- the words of the answer --------------------------------------------------------------------------------------


def rewrite(folder: Path, ends: dict[tuple[str, int], list[float]]) -> Path:
    """Set joint of every row of (arm, level) to its member's number."""
    table = pq.read_table(folder / "results.parquet")
    joint = [ends[row["arm"], row["level"]][row["member"]] for row in table.to_pylist()]
    at = table.column_names.index("joint")
    pq.write_table(table.set_column(at, "joint", [joint]), folder / "results.parquet")
    return folder


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (Interval(0.96, 0.93, 0.99, 3), "yes"),
        (Interval(0.96, 0.70, 1.0, 3), "mostly yes"),
        (Interval(0.96, 0.40, 1.0, 3), "cannot tell"),
        (Interval(0.50, 0.35, 0.63, 3), "sometimes"),
        (Interval(0.30, 0.20, 0.40, 3), "mostly no"),
        (Interval(0.03, 0.0, 0.06, 3), "no"),
        (Interval(1.0, None, None, 1), "one seed: cannot tell"),
    ],
)
def test_ability_follows_the_interval_not_the_mean(cell: Interval, expected: str) -> None:
    assert words.ability("dit", cell).words == expected


def test_answer_names_the_winner_only_when_it_is_clear(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path / "s", arms=("maskgit", "dit"), evaluations=2, pictures=False)
    same = {
        ("maskgit", 0): [0.99] * 3,
        ("dit", 0): [0.99] * 3,
        ("maskgit", 1): [0.5, 0.6, 0.7],
        ("dit", 1): [0.7, 0.5, 0.6],
    }
    clear = same | {("maskgit", 2): [0.02, 0.05, 0.03], ("dit", 2): [0.8, 0.82, 0.85]}
    answer = words.answer(read_study(rewrite(folder, clear)))
    assert "At level-2 dit beats maskgit by 79 points" in answer
    assert "60\u00a0% at level-1 and 3\u00a0% at level-2 for maskgit" in answer
    open_ = same | {("maskgit", 2): [0.1, 0.9, 0.4], ("dit", 2): [0.8, 0.3, 0.9]}
    answer = words.answer(read_study(rewrite(folder, open_)))
    assert "beats" not in answer and "At level-2 the seeds cannot tell which of maskgit and dit is better" in answer
    assert "At level-1 the seeds cannot tell" in answer
    worse = clear | {("maskgit", 2): clear["dit", 2], ("dit", 2): clear["maskgit", 2]}
    folder = rewrite(folder, worse)
    assert "At level-2 maskgit beats dit by 79 points" in words.answer(read_study(folder))
    text = text_of(page_of(folder))
    assert "maskgit − dit: +79 points" in text and "maskgit is better" in text


def test_all_comparisons_of_the_page_are_corrected_together(study: Path) -> None:
    pairs, failed = words.comparisons(read_study(study))
    assert not failed and len(pairs) == 6  # three pairs at two levels
    smallest = min(pairs, key=lambda one: one.difference.p or 1.0)
    assert smallest.p_corrected == pytest.approx(min(1.0, 6 * (smallest.difference.p or 1.0)))


def test_weak_training_and_low_ceiling_are_said(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path / "s", arms=("maskgit",), evaluations=2, pictures=False)
    assert not words.warnings(read_study(folder))
    rewrite(folder, {("maskgit", 0): [0.67] * 3, ("maskgit", 1): [0.3] * 3, ("maskgit", 2): [0.1] * 3})
    facts = json.loads((folder / "study.json").read_text())
    facts["tokenizers"]["vq"]["ceiling"]["111"]["joint"] = 0.002
    (folder / "study.json").write_text(json.dumps(facts))
    text = text_of(page_of(folder))
    assert "maskgit gets only 67 % of the trained combinations right" in text
    assert "Tokenizer vq itself reproduces only 0.2 % of real level-2 images" in text


# --- many arms ----------------------------------------------------------------------------------------------------

MANY = ("maskgit", "dit", *(f"arm-with-a-long-name-{i}" for i in range(10)))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve arms, of which two are trained for longer; only dit is clearly better than the others, at level-2."""
    folder = write_fake_study(
        tmp_path_factory.mktemp("many"), arms=MANY, evaluations=2, count=2, monitors=True, longer=MANY[-2:]
    )
    noise = np.random.default_rng(3).uniform(0, 0.04, (len(MANY), 3, 3))
    ends = {(arm, k): [(0.95, 0.3, 0.01)[k] + x for x in noise[a, k]] for a, arm in enumerate(MANY) for k in range(3)}
    ends["dit", 2] = [0.92, 0.93, 0.91]
    ends["maskgit", 0], ends["dit", 0] = [0.6] * 3, [1.0] * 3
    return rewrite(folder, ends)


def pairs_of(fragment: str) -> list[tuple[str, ...]]:
    """(level, first arm, second arm, verdict) of every pair in a piece of the page."""
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", fragment))
    return re.findall(r"level-(\d) (\S+) − (\S+): .*? points \(.*?\) ((?:\S+ is better)|(?:cannot tell))", text)


def test_pairs_that_tell_are_shown_and_the_others_folded(many: Path) -> None:
    table = re.search(r'<section id="table">.*?</section>', page_of(many), re.S)
    assert table
    open_part, fold = table.group(0).split("<details>")
    shown, folded = pairs_of(open_part), pairs_of(fold)
    pairs, _ = words.comparisons(read_study(many))
    assert len(shown) + len(folded) == len(pairs) == 132
    assert len({(k, frozenset((a, b))) for k, a, b, _ in shown + folded}) == 132  # each once
    told = [one for one in pairs if words.better(one)]
    assert len(told) == 11 and all("dit" in (one.arm_a, one.arm_b) and one.level == 2 for one in told)
    assert [verdict for *_, verdict in shown] == ["dit is better"] * 11 + ["cannot tell"] * 5
    assert {verdict for *_, verdict in folded} == {"cannot tell"}
    smallest = sorted((one for one in pairs if not words.better(one)), key=lambda one: one.difference.p or 0.0)[:5]
    assert [{a, b} for _, a, b, _ in shown[11:]] == [{one.arm_a, one.arm_b} for one in smallest]
    text = text_of(table.group(0))
    assert "116 more pairs the seeds cannot tell apart" in text
    assert "The seeds tell 11 of the 132 pairs apart; then follow the 5 with the smallest p before correction." in text


def test_few_pairs_are_all_shown(page: str) -> None:
    table = re.search(r'<section id="table">.*?</section>', page, re.S)
    assert table and "<details>" not in table.group(0) and len(pairs_of(table.group(0))) == 6


def test_many_pairs_of_which_none_tells(many: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(many, tmp_path / "s")
    rewrite(folder, {(arm, k): [0.95, 0.95, 0.95] for arm in MANY for k in range(3)})
    text = text_of(page_of(folder))
    assert "The seeds tell none of the 132 pairs apart; shown are the 5" in text and "127 more pairs" in text
    answer = words.answer(read_study(folder))
    assert "All arms draw the trained combinations: 95\u00a0% right." in answer
    assert answer.endswith("The seeds cannot tell any two arms apart at level-1 or level-2.")
    assert "95\u00a0% at level-1 and 95\u00a0% at level-2." in answer and "most by" not in answer


def test_answer_on_many_arms_gives_ranges_and_the_best(many: Path) -> None:
    study = read_study(many)
    answer = words.answer(study)
    assert answer.startswith("11 of 12 arms draw the trained combinations: ")
    assert "to 100\u00a0% right; maskgit only 60\u00a0%. Of the combinations never trained on" in answer
    shown = words.cells(study, "joint")
    for level, best in ((1, ""), (2, " (most by dit)")):
        means = [shown[arm, level].mean for arm in MANY]
        low, high = (f"{100 * end:.0f}" for end in (min(means), max(means)))
        assert f"{low} to {high}\u00a0% at level-{level}{best}" in answer
    assert "At level-2 the seeds tell 11 of 66 pairs of arms apart; the widest: dit beats " in answer
    assert answer.count("beats") == 3 and len(answer) < 600


def test_terminal_says_the_same(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(many)
    printed = re.sub(r"\s+", " ", capsys.readouterr().out)
    study = read_study(many)
    for text in (words.answer(study), words.lengths(study)):
        assert text and re.sub(r"\s+", " ", text) in printed
    assert table_lines(study, [0])[0] == ["maskgit", "60 % (agree)"] and "agree: all seeds gave the same" in printed


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ({"dit": 0.99}, "dit draws the trained combinations: 99\u00a0% right."),
        ({"dit": 0.5}, "dit draws only 50\u00a0% of the trained combinations right."),
        ({"dit": 0.99, "maskgit": 0.92}, "Both arms draw the trained combinations: 92 to 99\u00a0% right."),
        ({"dit": 0.99, "maskgit": 0.5}, "dit draws the trained combinations: 99\u00a0% right; maskgit only 50\u00a0%."),
        ({"dit": 0.3, "maskgit": 0.5}, "No arm draws the trained combinations well: 30 to 50\u00a0% right."),
        (
            {"a": 0.99, **{name: 0.1 * i for i, name in enumerate("fedcb", 3)}},
            "a draws the trained combinations: 99\u00a0% right; "
            "f only 30\u00a0%, e only 40\u00a0% and 3 others less than 90\u00a0%.",
        ),
    ],
)
def test_answer_begins_with_the_trained_combinations(tmp_path: Path, ends: dict[str, float], text: str) -> None:
    folder = write_fake_study(tmp_path, arms=tuple(sorted(ends)), evaluations=1, pictures=False)
    rewrite(folder, {(arm, k): [end] * 3 for arm, end in ends.items() for k in range(3)})
    assert words.answer(read_study(folder)).startswith(f"{text} Of the combinations never trained on")


def test_warnings_name_the_worst_two_of_many(many: Path, tmp_path: Path) -> None:
    assert "maskgit gets only 60\u00a0% of the trained" in words.warnings(read_study(many))[0]  # one is named alone
    folder = shutil.copytree(many, tmp_path / "s")
    trained = {(arm, 0): [0.05 * (a + 1)] * 3 for a, arm in enumerate(reversed(MANY))}
    rewrite(folder, trained | {(arm, k): [0.1] * 3 for arm in MANY for k in (1, 2)})
    table = pq.read_table(folder / "results.parquet")
    at = table.column_names.index("joint_probe_only")
    credit = [min(1.0, row["joint"] + 0.2 + 0.05 * MANY.index(row["arm"])) for row in table.to_pylist()]
    pq.write_table(table.set_column(at, "joint_probe_only", [credit]), folder / "results.parquet")
    notes = words.warnings(read_study(folder))
    a, b = MANY[-1], MANY[-2]
    assert notes[0].startswith(
        f"{a} gets only 5\u00a0%, {b} gets only 10\u00a0% and 10 other arms less than 90\u00a0% of the trained"
    )
    assert (
        f"At level-2 the probe alone would credit {a} with 85\u00a0% instead of 10\u00a0%, {b} with 80\u00a0% "
        "instead of 10\u00a0% and 10 other arms with over 15 points too many: " in notes[-1]
    )
    assert all(sum(note.count(arm) for arm in MANY[2:-2]) == 0 for note in notes)


def test_lengths_by_design_are_a_remark_and_no_warning(many: Path) -> None:
    study = read_study(many)
    assert not study.missing
    a, b = MANY[-2:]
    text = f"different numbers of steps: 2,000 for {a} and {b}, 1,000 for the other 10."
    page = page_of(many)
    assert text in text_of(page) and "What is missing" not in text_of(page)
    assert '<p class="remark">By design' in page and "step 2,000" in text_of(page)


def test_arms_behind_their_own_settings_are_missing(many: Path, tmp_path: Path) -> None:
    """An arm trained for longer that stands where the others end has not finished, though all steps are the same."""
    folder = shutil.copytree(many, tmp_path / "s")
    table = pq.read_table(folder / "results.parquet")
    pq.write_table(table.filter([row["step"] <= 1000 for row in table.to_pylist()]), folder / "results.parquet")
    a, b = MANY[-2:]
    assert read_study(folder).missing == [
        f"Not trained to the end yet: {a} at step 1,000 of 2,000 and {b} at step 1,000 of 2,000."
    ]
    pq.write_table(table.filter([row["step"] <= 500 for row in table.to_pylist()]), folder / "results.parquet")
    (note,) = (note for note in read_study(folder).missing if note.startswith("Not trained"))
    assert note == f"Not trained to the end yet: {MANY[0]} at step 500 of 1,000, dit at step 500 of 1,000 and 8 others."
    facts = json.loads((folder / "study.json").read_text())
    for arm in facts["arms"].values():
        del arm["settings"]["training"]
    (folder / "study.json").write_text(json.dumps(facts))
    pq.write_table(table, folder / "results.parquet")
    assert "The arms stand at different steps" in read_study(folder).missing[0]  # the settings do not say


def test_what_all_arms_share_is_said_once(many: Path, study: Path, page: str) -> None:
    table = text_of(page_of(many).partition('<section id="table">')[2].partition("</section>")[0])
    assert "over 3 seeds" in table and "· 3 seeds" not in table
    assert table.count("812,345 parameters") == 12
    assert text_of(page).count("step 3,000 · 3 seeds") == 3  # few arms: each row says it


@pytest.mark.parametrize("arms", [3, 12])
def test_names_in_the_summary_figure_do_not_overlap(arms: int, many: Path, study: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDE, HIGH))
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0.2, 0.17, 0.3, 0.64))
    draw = accuracy_of(arms)
    draw(axes, read_study(many if arms == 12 else study))
    canvas.draw()
    labels = axes.get_yticklabels() if arms == 12 else axes.get_xticklabels()
    boxes = [label.get_window_extent() for label in labels]
    assert len(boxes) == arms and not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.parametrize(
    ("share", "text"), [(1.0, "100"), (0.9996, "> 99.9"), (0.996, "99.6"), (0.5, "50"), (0.004, "0.4"), (0, "0")]
)
def test_percent_never_rounds_to_all_or_nothing(share: float, text: str) -> None:
    assert words.percent(share) == f"{text}\u00a0%"


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.04996, "p = 0.04996"), (0.0502, "p = 0.0502"), (0.0499, "p = 0.0499"), (0.3, "p = 0.30"), (1e-9, "p < 0.001")],
)
def test_p_value_stays_on_its_side_of_the_line(p: float, text: str) -> None:
    shown = words.p_value(p)
    number = float(shown.split()[-1])
    assert (number < words.CLEAR) == (p < words.CLEAR)
    assert shown.startswith(text[:8])


# --- what is missing ----------------------------------------------------------------------------------------------


def test_one_member_without_pictures(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path / "s", arms=("maskgit", "dit"), members=1, evaluations=1, pictures=False)
    text = text_of(page_of(folder))
    assert "Only one seed of maskgit and dit" in text and "pictures.safetensors is not there" in text
    assert "cannot tell which is better" in text and "beats" not in text


def test_partly_finished_study(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path / "s", arms=("maskgit", "dit"), evaluations=3)
    rows = pq.read_table(folder / "results.parquet")
    keep = [r["arm"] == "maskgit" and not (r["step"] == 1500 and r["member"] == 2) for r in rows.to_pylist()]
    pq.write_table(rows.filter(keep), folder / "results.parquet")
    facts = json.loads((folder / "study.json").read_text())
    del facts["finished"], facts["seconds"], facts["judge"]
    (folder / "study.json").write_text(json.dumps(facts))
    text = text_of(page_of(folder))
    assert "The study has not finished" in text and "No results yet for dit" in text
    assert "maskgit at step 1,000 of 1,500" in text
    assert "Some evaluations lack a seed" in text and "step 1,000 · 3 seeds" in text  # step 1500 lacks member 2


def not_judged(folder: Path) -> Path:
    """The same study before its first evaluation: without results.parquet, and not finished."""
    (folder / "results.parquet").unlink()
    facts = json.loads((folder / "study.json").read_text())
    (folder / "study.json").write_text(json.dumps(facts | {"finished": None}))
    return folder


def test_facts_alone_give_a_page(tmp_path: Path) -> None:
    folder = not_judged(write_fake_study(tmp_path / "s", arms=("dit",), evaluations=2, pictures=False))
    text = text_of(page_of(folder))
    assert "What is missing" in text and "no arm has been judged" in text


def test_no_study_and_damaged_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no study"):
        write_report(tmp_path)
    for name in ("study.json", "results.parquet", "pictures.safetensors", "monitors.parquet"):
        folder = write_fake_study(tmp_path / name, arms=("dit",), evaluations=1, count=1, monitors=True)
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(UserError, match=name):
            write_report(folder)
        assert not list(folder.glob("*report.html*"))


def test_written_whole_over_an_older_page(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path / "s", arms=("dit",), evaluations=1, pictures=False)
    (folder / "report.html").write_text("old")
    assert page_of(folder).rstrip().endswith("</html>")
    assert sorted(p.name for p in folder.iterdir()) == ["report.html", "results.parquet", "study.json"]


# --- pictures -----------------------------------------------------------------------------------------------------


def decode_png(data: bytes) -> np.ndarray:
    """A reader for the three filters our writer uses, (3, H, W)."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body = 8, b""
    width = height = 0
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        name, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(name + content)
        if name == b"IHDR":
            width, height = struct.unpack(">II", content[:8])
        body += content if name == b"IDAT" else b""
        at += 12 + length
    lines = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + 3 * width)
    rows = lines[:, 1:].reshape(height, width, 3).astype(np.int64)
    assert len(set(lines[:, 0])) == 1
    rows = {0: lambda r: r, 1: lambda r: r.cumsum(1), 2: lambda r: r.cumsum(0)}[int(lines[0, 0])](rows) % 256
    return rows.astype(np.uint8).transpose(2, 0, 1)


@pytest.mark.parametrize("kind", ["noise", "rows", "columns", "flat"])
def test_png_gives_the_picture_back(kind: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (3, 12, 9)).astype(np.uint8)
    picture = {
        "noise": noise,
        "rows": noise[:, :, :1] + 0 * noise,
        "columns": noise[:, :1] + 0 * noise,
        "flat": 0 * noise + 7,
    }[kind]
    assert (decode_png(png(picture)) == picture).all()


def test_pictures_are_made_to_fit() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3, 128, 128)).astype(np.uint8)
    small = shrink(noise, 56)
    assert small.shape[-1] == 32 and abs(small.mean() - noise.mean()) < 1
    ramp = np.arange(256, dtype=np.uint8)
    assert abs(coarsen(ramp, 5).astype(int) - ramp).max() <= 5 and coarsen(ramp, 5)[[0, -1]].tolist() == [0, 255]
    sets = encode_sets({"real": noise, "dit": noise}, 8, 300_000)
    assert sum(len(uri) for rows in sets.values() for row in rows for uri in row) <= 300_000
    assert [len(rows) for rows in sets.values()] == [8, 8] and len(sets["dit"][0]) >= 1


def test_large_worlds_are_sampled_per_level(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path / "s", arms=("dit",), evaluations=1, pictures=False)
    facts = json.loads((folder / "study.json").read_text())
    facts["split"]["levels"] = {f"{i:03d}": i % 5 for i in range(1000)}
    facts["world"]["factors"] = [{"name": n, "values": [str(v) for v in range(10)]} for n in "abc"]
    (folder / "study.json").write_text(json.dumps(facts))
    assert page_of(not_judged(folder)).count("<code>") < 150


def test_summary_figure(study: Path, tmp_path: Path) -> None:
    path = summary_figure(study, tmp_path / "new" / "figure.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    (width,) = struct.unpack(">I", path.read_bytes()[16:20])
    assert width >= 1600 and [p.name for p in path.parent.iterdir()] == ["figure.png"]


def test_summary_figure_is_higher_with_many_arms(study: Path, many: Path, tmp_path: Path) -> None:
    """As wide, and each row of pictures keeps at least 60 of its 150 pixels an inch."""
    few, more = (summary_figure(one, tmp_path / f"{i}.png").read_bytes()[16:24] for i, one in enumerate((study, many)))
    (wide, high), (same, higher) = struct.unpack(">II", few), struct.unpack(">II", more)
    assert (wide, high) == (round(150 * WIDE), round(150 * HIGH)) and same == wide
    assert higher - high >= 60 * (len(MANY) + 1 - 7)


# --- inside the models --------------------------------------------------------------------------------------------


def inside_of(page: str) -> str:
    found = re.search(r'<section id="inside">.*?</section>', page, re.S)
    return found.group(0) if found else ""


def with_monitors(folder: Path, rows: list[dict[str, Any]], arms: tuple[str, ...] = ("maskgit", "dit")) -> Path:
    write_fake_study(folder, arms=arms, evaluations=1, pictures=False)
    write_monitors(folder, rows)
    return folder


def chart_of(section: str, label: str) -> dict[str, list[tuple[float, float]]]:
    """Arm to the places of its marks, in the chart that is spoken as `label`."""
    svg = re.search(rf'<svg class="layers[^>]*aria-label="{label}: one line.*?</svg>', section, re.S)
    assert svg, label
    places = {}
    for arm, body in re.findall(r'<g class="curve[^>]*aria-label="([^:"]+): [^>]*>(.*?)</g>', svg.group(0), re.S):
        places[arm] = [(float(x), float(y)) for x, y in re.findall(r"translate\(([-\d.]+) ([-\d.]+)\)", body)]
    return places


def test_no_monitors_no_section(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path, arms=("dit",), evaluations=1, pictures=False)
    for _ in range(2):
        page = page_of(folder)
        assert not inside_of(page) and "#inside" not in re.sub(r"<style>.*?</style>", "", page, flags=re.S)
        write_monitors(folder, [])


def test_section_shows_the_interval_over_members_at_the_last_step(study: Path, page: str) -> None:
    rows = read_study(study).monitors
    last = max(row["step"] for row in rows)
    text = text_of(inside_of(page))
    found = readings(read_study(study))
    assert (
        len(found) == len({(r["monitor"], r["layer"], r["level"]) for r in rows})
        and min(r["step"] for r in rows) < last
    )
    for (monitor, layer, level), own in found.items():
        for arm, reading in own.items():
            wanted = {"monitor": monitor, "layer": layer, "level": level, "arm": arm, "step": last}
            values = [row["value"] for row in rows if wanted.items() <= row.items()]
            share = monitor.startswith("linear") or monitor in ("scales_at_floor", "guidance_refused")
            assert len(values) == 3 and reading.interval == interval(values, share=share)
            low, high = reading.interval.low, reading.interval.high
            assert low is not None and high is not None
            ends = words.span(low, high) if share else f"{words.number(low)} to {words.number(high)}"
            mean = (words.percent if share else words.number)(reading.interval.mean)
            assert re.sub(r"\s+", " ", f"{mean} {ends}") in text, (monitor, layer, level, arm)
    for name in {row["monitor"] for row in rows}:
        assert ABOUT["linear_<factor>" if name.startswith("linear") else name].sentence in text


def test_lines_lie_where_the_numbers_are(study: Path, page: str) -> None:
    """A chart's marks are one linear map away from the means, the same for every arm; higher is up."""
    found = readings(read_study(study))
    for label, monitor, level in (("RankMe", "rank_me", None), ("colour, level-2", "linear_colour", 2)):
        places = chart_of(inside_of(page), label)
        assert list(places) == ["maskgit", "dit", "dit-ddpm"]
        means = np.array([[found[monitor, k, level][arm].interval.mean for k in range(1, 5)] for arm in places])  # type: ignore[union-attr]
        y = np.array([[at[1] for at in own] for own in places.values()])
        slope, middle = np.polyfit(means.ravel(), y.ravel(), 1)
        assert slope < 0 and abs(slope * means + middle - y).max() < 0.11  # places have one decimal
        x = np.array([[at[0] for at in own] for own in places.values()])
        assert (x == x[0]).all() and np.allclose(np.diff(x[0]), x[0, 1] - x[0, 0], atol=0.11)
    assert list(chart_of(inside_of(page), "JEPA loss")) == ["maskgit"]  # the only arm that has it


def test_numbers_that_are_not_finite_are_left_out_and_said(tmp_path: Path) -> None:
    rows = fake_monitors(("maskgit", "dit"), 3)
    for row in rows:
        if row["monitor"] == "rank_me" and row["arm"] == "dit" and (row["layer"] == 2 or row["member"] == 0):
            row["value"] = float("nan")
    page = page_of(with_monitors(tmp_path, rows))
    text = text_of(inside_of(page))
    assert "Some numbers of dit are not finite" in text and "1 of 3 seeds left out" in text and "not a number" in text
    places = chart_of(inside_of(page), "RankMe")
    assert len(places["dit"]) == 3 and len(places["maskgit"]) == 4


def test_one_seed_one_layer_many_arms_and_unknown_monitors(tmp_path: Path) -> None:
    one = page_of(with_monitors(tmp_path / "one", fake_monitors(("dit",), 1, layers=1), ("dit",)))
    assert "one seed each" in text_of(inside_of(one)) and 'class="band"' not in inside_of(one)
    assert len(chart_of(inside_of(one), "RankMe")["dit"]) == 1
    arms = tuple(f"arm{i}" for i in range(12))
    rows = fake_monitors(arms, 2, layers=12)
    rows += [{**rows[0], "monitor": "novel", "layer": None, "level": None, "value": -12345.678}]
    many = inside_of(page_of(with_monitors(tmp_path / "many", rows)))
    looks = re.findall(r'<li class="([^"]*)">.*?stroke-dasharray="([^"]*)".*?class="mark" d="([^"]*)"', many, re.S)
    assert len(looks) == len(set(looks)) == 12  # no two arms are drawn alike
    assert set(chart_of(many, "RankMe")) == set(arms)
    assert "novel" in text_of(many) and "−12,346 one seed" in text_of(many)


def test_names_from_the_table_are_escaped_in_the_charts(tmp_path: Path) -> None:
    evil = '"><script>document.documentElement.dataset.evil=1</script>'
    rows = [row | {"arm": evil} for row in fake_monitors(("dit",), 2)]
    rows += [row | {"monitor": f"{evil}2"} for row in rows if row["monitor"] == "rank_me"]
    page = page_of(with_monitors(tmp_path, rows))
    assert evil in html.unescape(inside_of(page)) and "<script>document" not in page


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12.345, "12.3"),
        (-0.5, "−0.5"),
        (1234567, "1.2e+06"),
        (999.6, "1,000"),
        (0.00123, "0.00123"),
        (2e-5, "2e−05"),
    ],
)
def test_numbers_in_three_digits(value: float, text: str) -> None:
    assert words.number(value) == text


# --- quality of the pictures --------------------------------------------------------------------------------------


def quality_of(page: str) -> str:
    found = re.search(r'<section id="quality">.*?</section>', page, re.S)
    return found.group(0) if found else ""


def test_no_quality_no_section(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path, arms=("dit",), evaluations=1, pictures=False)
    for _ in range(2):
        page = page_of(folder)
        assert not quality_of(page) and "#quality" not in re.sub(r"<style>.*?</style>", "", page, flags=re.S)
        write_quality(folder, [])


def test_quality_shows_the_last_step_with_intervals_and_the_numbers_of_real_images(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path, pictures=False, quality=True)
    rows = read_study(folder).quality
    last = max(row["step"] for row in rows)
    section = quality_of(page_of(folder))
    own = [
        row["value"]
        for row in rows
        if (row["arm"], row["metric"], row["level"], row["composition"], row["step"])
        == ("dit", "nearest", 2, None, last)
    ]
    expected = interval(own)
    assert len(own) == 3 and expected.low is not None and expected.high is not None
    cell = f"{words.number(expected.mean)} {words.number(max(expected.low, 0))} to {words.number(expected.high)}"
    assert cell in text_of(section)
    assert section.count("real images</th>") == 3 and section.count("rebuilt by vq</th>") == 3  # a table per level
    assert all(about.title in section and text_of(about.sentence) in text_of(section) for about in METRICS.values())
    assert section.count("<svg class=") == 3 and section.count('<g class="curve') == 9  # an arm's point in each chart


def test_quality_with_one_seed_unknown_metrics_and_holes(tmp_path: Path) -> None:
    folder = write_fake_study(tmp_path, arms=("dit", "maskgit"), members=1, pictures=False)
    rows = [row for row in fake_quality(["dit"], 1) if row["composition"] is None and row["level"] < 2]
    rows[0] |= {"value": None, "real": None}
    rows += [rows[-1] | {"metric": "<b>new</b>"}]
    write_quality(folder, rows)
    section = quality_of(page_of(folder))
    assert (
        "not a number" in section and "one seed" in section and "&lt;b&gt;new" in section and "maskgit" not in section
    )


def test_arms_that_count_levels_from_their_own_training_are_told_apart(tmp_path: Path) -> None:
    """One arm trained without 100: for it that is level-1, and 110 and 101 are level-2."""
    folder = write_fake_study(tmp_path, arms=("maskgit", "dit"), pictures=False)
    table = pq.read_table(folder / "results.parquet").to_pylist()
    own = {"100": 1, "110": 2, "101": 2, "111": 3}
    for row in table:
        row["level"] = own.get(row["composition"], row["level"]) if row["arm"] == "dit" else row["level"]
    pq.write_table(pa.Table.from_pylist(table), folder / "results.parquet")
    study = read_study(folder)
    assert study.levels["100"] == 0 and study.levels_of["dit"]["100"] == 1 and study.level_numbers == [0, 1, 2, 3]
    assert any("trained on different combinations" in note for note in words.warnings(study))
    assert "level-3" in text_of(page_of(folder))
    plain = read_study(write_fake_study(tmp_path / "plain", pictures=False))
    assert not any("different combinations" in note for note in words.warnings(plain))


# --- a real browser -----------------------------------------------------------------------------------------------

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome", "chrome") if (found := shutil.which(name))),
    None,
)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    "--window-size=1200,1600",
]
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or chrome on the PATH to open the page with")


def browse(address: str) -> dict[str, str]:
    """Open an address; the data attributes of <html> once scripts have run."""
    assert CHROMIUM
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "--dump-dom", address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    found = re.search(r"<html\b([^>]*)>", done.stdout)
    assert found, done.stderr[-500:]
    return {key: html.unescape(value) for key, value in re.findall(r'data-(\w+)="([^"]*)"', found.group(1))}


@needs_browser
def test_curves_draw_and_controls_work_in_a_browser(study: Path, page: str) -> None:
    seen = browse((study / "report.html").as_uri() + "#selftest")
    assert seen.get("error") is None
    assert seen["drawn"] == "3" and seen["selftest"] == "passed"


@needs_browser
def test_many_arms_in_a_browser(many: Path) -> None:
    seen = browse(write_report(many).as_uri() + "#selftest")
    assert seen.get("error") is None
    assert seen["drawn"] == "12" and seen["selftest"] == "passed"


@needs_browser
@pytest.mark.parametrize("width", [400, 520])
@pytest.mark.parametrize("arms", [3, 12])
def test_nothing_overflows_on_a_phone(arms: int, width: int, study: Path, many: Path, tmp_path: Path) -> None:
    """Chromium's window is at least 500 pixels wide, so the page is put into a narrower frame."""
    page = write_report(study if arms == 3 else many)
    frame = tmp_path / "frame.html"
    frame.write_text(
        "<!doctype html><script>addEventListener('message', function (e) {"
        "Object.assign(document.documentElement.dataset, {selftest: e.data.selftest, width: e.data.width})})</script>"
        f"<iframe width={width} height=900 style='border:0' src='{page.as_uri()}#selftest'></iframe>"
    )
    assert browse(frame.as_uri()) == {"selftest": "passed", "width": str(width)}


@needs_browser
def test_hostile_and_poor_pages_draw_without_errors(tmp_path: Path) -> None:
    mark = "document.documentElement.dataset.evil=1"
    evil = f"</script><script>{mark}</script><img src=x onerror={mark}>"
    folder = write_fake_study(
        tmp_path / "s", arms=("dit",), members=1, evaluations=1, pictures=False, name=evil, question=evil
    )
    seen = browse(write_report(folder).as_uri() + "#selftest")
    assert seen.get("evil") is None and seen.get("error") is None
    assert seen["drawn"] == "1" and seen["selftest"] == "passed"
    assert browse(write_report(not_judged(folder)).as_uri()) == {"drawn": "nothing"}


def test_levels_of_the_fake_study_are_hamming_distances() -> None:
    """The invented study must itself be right, or the tests above test nothing."""
    train = [code for code in CODES if LEVELS[code] == 0]
    for code in CODES:
        assert LEVELS[code] == min(sum(a != b for a, b in zip(code, other, strict=True)) for other in train)


def test_an_interval_inside_the_models_stays_where_the_number_can_be() -> None:
    """Two seeds far apart: Student's interval would reach below one dimension and beyond a cosine of 1."""
    from recombine.report.inside import _reading
    from recombine.studies.monitors import about

    for monitor, values, low, high in (
        ("rank_me", [2.0, 30.0], 1, None),
        ("spread", [0.1, 2.0], 0, None),
        ("mean_cosine", [-0.9, 0.9], -1, 1),
        ("linear_shape", [0.1, 0.9], 0, 1),
    ):
        found = _reading(values, about(monitor)).interval
        assert found is not None and found.low == low and (high is None or found.high == high)
    assert _reading([-1.0, 9.0], about("held_out_nll")).interval.low < -10  # a density's may be anything
