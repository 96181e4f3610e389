"""scripts/queue_studies.sh: goes on in the background, packs what is finished, and takes it up on another machine."""

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from recombine.runner import run_study
from recombine.studies.spec import Study

ROOT = Path(__file__).parents[1]


def machine(folder: Path, study: Study) -> Path:
    """A copy of the project with its script, its code, and one study."""
    (folder / "scripts").mkdir(parents=True)
    (folder / "results").mkdir()
    shutil.copy(ROOT / "scripts" / "queue_studies.sh", folder / "scripts")
    (folder / "src").symlink_to(ROOT / "src")
    (folder / "small.yaml").write_text(yaml.safe_dump(study.resolved(), sort_keys=False))
    return folder


def queue(folder: Path, *words: str, **settings: str) -> str:
    done = subprocess.run(
        ["bash", str(folder / "scripts" / "queue_studies.sh"), *words],
        env=os.environ | {"PYTHON": sys.executable} | settings,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return f"{done.returncode} {done.stdout}{done.stderr}"


def in_place_of_python(folder: Path, script: str) -> str:
    """A program that the queue runs instead of Python: its sixth word is the folder of a study."""
    path = folder / "stand_in.sh"
    path.write_text(f"#!/usr/bin/env bash\n{script}")
    path.chmod(0o755)
    return str(path)


def names(archive: Path) -> list[str]:
    with tarfile.open(archive) as packed:
        return packed.getnames()


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid, which this system has not")
def test_the_queue_goes_on_packs_and_is_taken_up_elsewhere(
    small_study: Study, shared_store: Path, tmp_path: Path
) -> None:
    run_study(small_study, tmp_path / "before", shared_store, "cpu")  # tokenizer, probe, judge and arms are made once
    first = machine(tmp_path / "first", small_study)
    (first / "packed").mkdir()
    with tarfile.open(first / "packed" / "store.tar.gz", "w:gz") as packed:
        packed.add(shared_store, "store", filter=lambda one: None if "/weights-" in one.name else one)
    assert "The queue goes on" in queue(first, "0", "small.yaml", "no-such-study")
    said = queue(first, "300", "small.yaml", "no-such-study")
    assert "small: finished after" in said and "no-such-study: stopped with code 2" in said
    assert "done, but for what failed: no-such-study." in said and said.startswith(
        "1 "
    )  # one has failed, and the end of its log is shown
    assert "no study named 'no-such-study'" in said
    inside = names(first / "packed" / "small.tar.gz")
    assert "small/study.json" in inside and "small/results.parquet" in inside and "small/report.html" not in inside
    kept = names(first / "packed" / "store.tar.gz")
    assert any(name.startswith("store/arm-") for name in kept) and not any("weights-" in name for name in kept)
    log = (first / "runs" / "queue" / "small.log").read_text()
    assert "steps of" not in log  # no arm was trained again
    assert not list((first / "packed").glob(".*"))


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid, which this system has not")
def test_two_lanes_work_at_a_time_and_take_what_waits(tmp_path: Path, small_study: Study) -> None:
    there = machine(tmp_path / "there", small_study)
    # In place of Python: a study that finishes once two were begun, and gives up when it stays alone.
    stand_in = in_place_of_python(
        there,
        'touch "begun-$(basename "$6")"\n'
        "for _ in $(seq 100); do [ $(ls begun-* | wc -l) -ge 2 ] && exit 0; sleep 0.1; done\n"
        "exit 1\n",
    )
    said = queue(there, "60", "one", "two", "three", PYTHON=stand_in, LANES="2")
    assert all(f"{name}: finished after" in said for name in ("one", "two", "three")) and "The queue is done." in said
    for begun in there.glob("begun-*"):
        begun.unlink()
    assert "one: stopped with code 1" in queue(there, "60", "one", PYTHON=stand_in)
    # Given twice, a study is shared out between the lanes.
    said = queue(there, "60", "one", "one", PYTHON=stand_in, LANES="2")
    assert "one: finished after" in said and "one-2: finished after" in said


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid, which this system has not")
def test_a_lane_does_not_wait_while_a_study_waits(tmp_path: Path, small_study: Study) -> None:
    there = machine(tmp_path / "there", small_study)
    # In place of Python: `one` ends once `two` was begun, its second has nothing to do, and `two` ends after `one`.
    stand_in = in_place_of_python(
        there,
        'name=$(basename "$6") && echo "$name ${*: -1}" >>begun\n'
        'until_seen() { for _ in $(seq 200); do grep -q "$1" $2 && exit 0; sleep 0.1; done; exit 1; }\n'
        "case $name in\n"
        "  one) until_seen '^two' begun ;;\n"
        '  one-2) [ "${*: -1}" = --no-wait ] && exit 75 ;;\n'
        "  two) until_seen '^one: finished' runs/queue/done.txt ;;\n"
        "esac\n",
    )
    said = queue(there, "60", "one", "one", "two", PYTHON=stand_in, LANES="2")
    assert "one-2: left to another lane for now after" in said and "The queue is done." in said
    assert "one: finished after" in said and "two: finished after" in said and "one-2: finished" not in said
    begun = sorted((there / "begun").read_text().splitlines())
    assert [line.split()[0] for line in begun] == ["one", "one-2", "two"]  # so `one` is not run again
    assert begun[1:] == ["one-2 --no-wait", "two --no-wait"]  # the first lane may look when nothing else waits any more


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid, which this system has not")
def test_a_study_that_its_first_lane_left_ends_in_its_own_folder(tmp_path: Path, small_study: Study) -> None:
    there = machine(tmp_path / "there", small_study)
    # In place of Python: `one` leaves its last arm to its second, which then finishes; so `one` is to come again.
    stand_in = in_place_of_python(
        there,
        'name=$(basename "$6") && echo "$name" >>begun\n'
        '[ "$name ${*: -1}" = "one --no-wait" ] && { sleep 1; exit 75; }\n'
        "[ $name != one-2 ] || until grep -q left runs/queue/done.txt; do sleep 0.1; done\n"
        "exit 0\n",
    )
    said = queue(there, "60", "one", "one", "two", PYTHON=stand_in, LANES="2")
    assert "one: left to another lane for now after" in said and "one-2: finished after" in said
    assert "one: finished after" in said and (there / "begun").read_text().split().count("one") == 2


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid, which this system has not")
def test_what_the_second_lane_finished_is_packed(tmp_path: Path, small_study: Study) -> None:
    """Where time is over before the first lane comes back to the study that it left."""
    there = machine(tmp_path / "there", small_study)
    stand_in = in_place_of_python(
        there,
        'name=$(basename "$6") && mkdir -p "$6"\n'
        "case $name in\n"
        "  my-one) until [ -d runs/also/my-one-2 ]; do sleep 0.1; done; exit 75 ;;\n"
        "  my-one-2) until grep -q left runs/queue/done.txt; do sleep 0.1; done; echo {} >$6/study.json ;;\n"
        "  *) sleep 60 ;;\n"
        "esac\n",
    )
    said = queue(there, "5", "my-one", "my-one", "long", "longer", PYTHON=stand_in, LANES="2")
    os.killpg(int((there / "runs" / "queue" / "pid").read_text()), signal.SIGKILL)
    assert "my-one: left to another lane for now" in said and "my-one-2: finished" in said and "goes on" in said
    assert names(there / "packed" / "my-one.tar.gz") == ["my-one", "my-one/study.json"]
    arm = '"members_at_once": 8\n'  # as study.json says of every finished arm
    own, also = (there / "runs" / name / "study.json" for name in ("my-one", "also/my-one-2"))
    own.write_text(arm)
    also.write_text(arm + arm)  # the second lane is further
    (there / "runs" / "queue" / "pid").unlink()
    queue(there, "5", "my-one", PYTHON=in_place_of_python(there, "exit 0\n"))
    with tarfile.open(there / "packed" / "my-one.tar.gz") as packed:
        found = packed.extractfile("my-one/study.json")
        assert found is not None and found.read().decode() == arm + arm
    shutil.rmtree(also.parent)  # what was packed stays, where less is there now
    (there / "runs" / "queue" / "pid").unlink()
    queue(there, "5", "my-one", PYTHON=in_place_of_python(there, "exit 0\n"))
    with tarfile.open(there / "packed" / "my-one.tar.gz") as packed:
        found = packed.extractfile("my-one/study.json")
        assert found is not None and found.read().decode() == arm + arm
    own.write_text(arm + arm)  # once the first has finished, its own is packed
    (there / "runs" / "my-one" / "results.parquet").write_text("")
    (there / "runs" / "queue" / "pid").unlink()
    queue(there, "5", "my-one", PYTHON=in_place_of_python(there, "exit 0\n"))
    assert "my-one/results.parquet" in names(there / "packed" / "my-one.tar.gz")


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid, which this system has not")
@pytest.mark.parametrize(("code", "replaced"), [(0, True), (1, True), (2, False)])
def test_a_folder_that_changes_while_it_is_packed(
    tmp_path: Path, small_study: Study, code: int, replaced: bool
) -> None:
    """tar ends with 1 where a lane saves an arm meanwhile, and what it wrote is good; with 2 it is not."""
    there = machine(tmp_path / "there", small_study)
    (there / "runs" / "store" / "arm-1").mkdir(parents=True)
    (there / "packed").mkdir()
    (there / "packed" / "store.tar.gz").write_text("an earlier one")
    tar = tmp_path / "programs" / "tar"
    tar.parent.mkdir()
    tar.write_text(f'#!/bin/sh\n{shutil.which("tar")} "$@" && exit {code}\n')
    tar.chmod(0o755)
    queue(there, "5", "one", PYTHON=in_place_of_python(there, "exit 0\n"), PATH=f"{tar.parent}:{os.environ['PATH']}")
    packed = there / "packed" / "store.tar.gz"
    assert (packed.read_bytes() != b"an earlier one") is replaced and not list(packed.parent.glob(".*"))
    if replaced:
        assert "store/arm-1" in names(packed)


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid, which this system has not")
@pytest.mark.parametrize(
    ("answers", "said"),
    [("4242", "use the GPU at the same time"), ("Cannot find MPS control daemon process", "take turns on the GPU")],
)
def test_how_lanes_share_a_gpu_is_said(tmp_path: Path, small_study: Study, answers: str, said: str) -> None:
    there = machine(tmp_path / "there", small_study)
    service = tmp_path / "programs" / "nvidia-cuda-mps-control"
    service.parent.mkdir()
    service.write_text(f'#!/bin/sh\ngrep -q get_server_list && echo "{answers}"\n')
    service.chmod(0o755)
    work = {"PYTHON": in_place_of_python(there, "sleep 60\n"), "PATH": f"{service.parent}:{os.environ['PATH']}"}
    try:
        assert said in queue(there, "1", "one", "two", LANES="2", **work)
        assert said not in queue(there, "1", "one", "two", **work)  # one lane has it to itself
    finally:
        os.killpg(int((there / "runs" / "queue" / "pid").read_text()), signal.SIGKILL)


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid, which this system has not")
def test_a_queue_that_was_stopped_says_so(tmp_path: Path, small_study: Study) -> None:
    there = machine(tmp_path / "there", small_study)
    stand_in = in_place_of_python(there, '[ "$(basename "$6")" != one ] && sleep 60\nexit 0\n')
    given = ("one", "two", "three")
    assert "The queue goes on" in queue(there, "2", *given, PYTHON=stand_in)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(queue, there, "60", *given, PYTHON=stand_in)
        time.sleep(5)
        os.killpg(int((there / "runs" / "queue" / "pid").read_text()), signal.SIGKILL)
        said = waiting.result()
    assert said.startswith("1 ") and said.endswith(
        "The queue was stopped; not finished: three two. The same command goes on.\n"
    )


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid, which this system has not")
def test_a_queue_that_is_ending_is_begun_again(tmp_path: Path, small_study: Study) -> None:
    """What was stopped takes a moment to end; the same command, given meanwhile, does not wait for that."""
    there = machine(tmp_path / "there", small_study)
    stand_in = in_place_of_python(there, "trap 'sleep 1.5; exit 1' TERM\n[ -f quick ] || { sleep 60 & wait; }\n")
    assert "The queue goes on" in queue(there, "1", "one", PYTHON=stand_in)
    (there / "quick").touch()
    os.killpg(int((there / "runs" / "queue" / "pid").read_text()), signal.SIGTERM)
    said = queue(there, "30", "one", PYTHON=stand_in)
    assert said.startswith("0 ") and said.endswith("The queue is done.\n") and "one: finished" in said


def test_a_wrong_call_is_told_how(tmp_path: Path, small_study: Study) -> None:
    there = machine(tmp_path / "there", small_study)
    for words in ((), ("small.yaml",), ("soon", "small.yaml"), ("10",)):
        assert queue(there, *words).startswith("2 usage: [LANES=N] bash scripts/queue_studies.sh SECONDS STUDY")
    assert "several of the studies are named small" in queue(there, "10", "small.yaml", "other/small.yaml")
    assert queue(there, "10", "small.yaml", LANES="0").startswith("2 usage: ")
    assert not (there / "runs").exists()


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid, which this system has not")
def test_another_list_is_refused_while_a_queue_is_at_work(tmp_path: Path, small_study: Study) -> None:
    there = machine(tmp_path / "there", small_study)
    stand_in = in_place_of_python(there, "sleep 60\n")
    assert "The queue goes on" in queue(there, "1", "one", PYTHON=stand_in)
    pid = int((there / "runs" / "queue" / "pid").read_text())
    try:
        said = queue(there, "1", "two", PYTHON=stand_in)
        assert said.startswith(
            f"2 a queue is at work on one: give these to wait for it, or stop it first (kill -- -{pid})"
        )
        os.kill(pid, signal.SIGTERM)  # the one process alone: what it began is still at work
        assert queue(there, "1", "two", PYTHON=stand_in).startswith("2 a queue is at work on one")
    finally:
        os.killpg(pid, signal.SIGKILL)
