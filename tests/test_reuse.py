"""Arms of finished studies: what is the same in everything is taken over, and nothing else is."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from typer.testing import CliRunner

from recombine.cli import app
from recombine.errors import UserError
from recombine.runner import run_study
from recombine.studies import arms
from recombine.studies.base import WORDING, study_hash
from recombine.studies.monitors import read_monitors
from recombine.studies.pictures import NAME
from recombine.studies.quality_table import read_quality
from recombine.studies.results import read_results
from recombine.studies.spec import Study, load_study, parse_study
from recombine.studies.store import Store
from recombine.training import Trainer

LIBRARY = Path(__file__).parent.parent / "results"


@pytest.fixture(scope="module")
def finished(small_study: Study, shared_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "out"
    run_study(small_study, out, shared_store, "cpu")
    return out


@pytest.fixture
def store(finished: Path, shared_store: Path, tmp_path: Path) -> Path:
    """Tokenizer, probe and judge are there, no arm is."""
    return Path(shutil.copytree(shared_store, tmp_path / "store", ignore=shutil.ignore_patterns("arm-*", "weights-*")))


def as_file(study: Study, folder: Path) -> Path:
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(study.resolved(), sort_keys=False))
    return path


def renamed(study: Study, **changes: Any) -> Study:
    """The same arms under other names, as another study has them."""
    words = study.resolved() | {"name": "other"} | changes
    words["arms"] = {f"{name}-again": arm for name, arm in words["arms"].items()}
    return Study.model_validate(words)


def test_what_a_folder_has_is_not_trained_again(
    small_study: Study, finished: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("a reused arm was trained")

    monkeypatch.setattr(arms, "make_trainer", never)
    out = tmp_path / "out"
    run_study(renamed(small_study), out, store, "cpu", [finished])
    for read in (read_results, read_monitors, read_quality):
        old, new = read(finished).to_pylist(), read(out).to_pylist()
        assert len(old) > 0
        assert [row | {"study": "other", "arm": f"{row['arm']}-again"} for row in old] == new
    made = json.loads((out / "study.json").read_text())["arms"]
    first = json.loads((finished / "study.json").read_text())["arms"]
    for name in first:
        again = made[f"{name}-again"]
        assert again.pop("taken_from") == "small"
        assert again == first[name]


def test_a_finished_folder_without_its_store_is_not_made_again_unsaid(
    small_study: Study,
    finished: Path,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(arms, "make_trainer", stop)
    out = Path(shutil.copytree(finished, tmp_path / "an out"))
    kept = read_results(out)
    for folder, told in ((out, True), (tmp_path / "new", False)):
        with pytest.raises(KeyboardInterrupt):
            run_study(small_study, folder, store, "cpu")
        said = " ".join("".join(capsys.readouterr()).split())
        assert ("has this study finished, made on a CPU, and the store has none of its arms" in said) == told
        assert ("/an out'` draws it." in said) == told
    assert read_results(out) == kept


def test_arms_of_a_gpu_are_put_together_without_one(
    small_study: Study,
    finished: Path,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where the store has all of them; one that lacks is no reason to mix precisions, and all are trained here."""
    kept = Store(store)
    run_study(small_study, tmp_path / "here", store, "cpu", [finished])  # the arms of this study, and no others
    own = [json.loads((path / "recipe.json").read_text()) for path in kept.folder.glob("arm-*[0-9a-f]")]
    assert len(own) == len(small_study.arms)
    for recipe in own:
        there = recipe | {"dtype": "torch.bfloat16"}
        kept.save("arm", there, *kept.load("arm", recipe, torch.device("cpu")))
        shutil.rmtree(kept.folder / f"arm-{kept.key('arm', recipe)}")

    path = as_file(small_study, tmp_path)
    asked = CliRunner().invoke(app, ["run", str(path), "--dry-run", "--device", "cpu", "--store", str(store)])
    assert "# the store has all arms as a GPU has trained them" in asked.output and "All arms are there" in asked.output
    assert parse_study(asked.output) == small_study  # it stays a study file
    capsys.readouterr()

    def begin(*_: Any) -> None:
        raise InterruptedError

    monkeypatch.setattr(arms, "make_trainer", begin)
    run_study(small_study, tmp_path / "out", kept.folder, "cpu")
    assert "the store has all arms as a GPU has trained them" in capsys.readouterr().out
    assert (tmp_path / "out" / "results.parquet").read_bytes() == (finished / "results.parquet").read_bytes()
    shutil.rmtree(kept.folder / f"arm-{kept.key('arm', own[0] | {'dtype': 'torch.bfloat16'})}")
    with pytest.raises(InterruptedError):
        run_study(small_study, tmp_path / "again", kept.folder, "cpu")
    said = " ".join(capsys.readouterr().out.split())
    assert "put together from these" not in said
    assert "the store has arms that a GPU has trained, but lacks the arm " in said and "all are trained here" in said


def test_a_dry_run_leaves_out_what_the_store_has(
    small_study: Study, finished: Path, store: Path, tmp_path: Path
) -> None:
    """Nothing of it where the store has no arm; one arm less where it has one; and no forecast where it has all."""
    path = as_file(small_study, tmp_path)
    first, second = small_study.arms

    def said(*words: str) -> str:
        done = CliRunner().invoke(app, ["run", str(path), "--dry-run", "--device", "cpu", *words])
        assert done.exit_code == 0, done.output
        return done.output

    none = said("--store", str(store))
    assert "not trained again" not in none and all(
        f"#   {part}: " in none for part in (f"arm {first}", "tokenizer vqvae")
    )
    reused = said("--store", str(store), "--reuse", str(finished))
    assert "#   arm " not in reused and "#   tokenizer vqvae: " in reused
    run_study(small_study, tmp_path / "out", store, "cpu", [finished])
    whole = said("--store", str(store))
    assert (
        f"and not trained again: {first}, {second}\n" in whole
        and "All arms are there" in whole
        and "About" not in whole
    )
    recipe = next(
        path.parent
        for path in store.glob("arm-*/recipe.json")
        if json.loads(path.read_text())["arm"]["generator"]["kind"] == first
    )
    shutil.rmtree(recipe)
    some = said("--store", str(store))
    assert f"and not trained again: {second}\n" in some and f"#   arm {first}: " in some
    assert f"#   arm {second}" not in some and "tokenizer vqvae:" not in some and "probe and judge" not in some


def test_a_folder_of_studies_gives_what_it_can(
    small_study: Study,
    finished: Path,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of decoders or of other code: passed over where the folder above was named, refused where it was itself."""
    several = tmp_path / "results"
    shutil.copytree(finished, several / "small")
    shutil.copytree(LIBRARY / "rendering", several / "rendering")
    shutil.copytree(LIBRARY / "precision", several / "precision")
    facts = json.loads((several / "precision" / "study.json").read_text())
    facts["recipes"]["arm"] -= 1
    (several / "precision" / "study.json").write_text(json.dumps(facts))

    def never(*_: Any) -> None:
        raise AssertionError("a reused arm was trained")

    monkeypatch.setattr(arms, "make_trainer", never)
    run_study(renamed(small_study), tmp_path / "out", store, "cpu", [several])
    said = capsys.readouterr()
    told = " ".join((said.out + said.err).split())
    assert "small: maskgit-again, dit-again" in told and "none of its arms" not in told
    run_study(renamed(small_study), tmp_path / "out", store, "cpu", [several])
    assert f"from {several}: all that it could give" in "".join(capsys.readouterr()).replace("\n", " ")
    with pytest.raises(UserError, match="gives other results"):
        run_study(renamed(small_study), tmp_path / "no", store, "cpu", [several / "precision"])
    with pytest.raises(UserError, match="absent does not exist"):
        run_study(renamed(small_study), tmp_path / "nothing", store, "cpu", [tmp_path / "absent"])


def test_other_seeds_and_other_settings_are_trained(
    small_study: Study, finished: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = []

    class Seen(Exception):
        pass

    def stop(setting: Any, arm: Any, entry: Any) -> Trainer:
        trained.append(arm)
        raise Seen

    monkeypatch.setattr(arms, "make_trainer", stop)
    other = small_study.resolved()
    other["arms"]["dit"]["training"]["rate"] = 5e-4
    for place, study in enumerate((renamed(small_study, seeds=[5, 6]), Study.model_validate(other))):
        with pytest.raises(Seen):
            run_study(study, tmp_path / f"out{place}", store, "cpu", [finished])
    # Of the second, MaskGIT was taken over and DiT was not.
    assert [arm.generator.kind for arm in trained] == ["maskgit", "dit"]


def edited(folder: Path, tmp_path: Path, forged: bool = False, **changes: Any) -> Path:
    copy = Path(shutil.copytree(folder, tmp_path / "edited"))
    facts = json.loads((copy / "study.json").read_text())
    for word, value in changes.items():
        target = facts
        *path, last = word.split("__")
        for step in path:
            target = target[step]
        target[last] = value
    if forged:  # as code with other settings would have written it
        for name, arm in facts["study"]["arms"].items():
            facts["arms"][name]["settings"] = arm
        facts["hash"] = study_hash(facts["study"], WORDING)
    (copy / "study.json").write_text(json.dumps(facts))
    return copy


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"recipes": {"arm": 0}}, "gives other results"),
        ({"study__arms__dit__training__steps": 240}, "its hash differs"),
        ({"arms__dit__settings__training__steps": 240}, "its hash differs"),
        ({"name": "objectives"}, "its hash differs"),  # claims go by the name
        ({"study__arms__dit__training__steps": -1, "forged": True}, "cannot be read"),
        ({"study__arms__dit__conditioning": {"kind": "quantized"}, "forged": True}, "or by code with other settings"),
    ],
)
def test_a_folder_of_other_code_or_edited_is_refused(
    small_study: Study, finished: Path, store: Path, tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(UserError, match=says):
        run_study(renamed(small_study), tmp_path / "out", store, "cpu", [edited(finished, tmp_path, **changes)])


def test_a_folder_that_lost_its_pictures_is_refused(
    small_study: Study, finished: Path, store: Path, tmp_path: Path
) -> None:
    copy = edited(finished, tmp_path)
    (copy / NAME).unlink()
    with pytest.raises(UserError, match=r"pictures\.safetensors\.gz is missing; leave .* out of --reuse"):
        run_study(renamed(small_study), tmp_path / "out", store, "cpu", [copy])


def test_studies_of_decoders_are_refused(small_study: Study, store: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="study of decoders"):
        run_study(renamed(small_study), tmp_path / "out", store, "cpu", [LIBRARY / "rendering"])


def test_a_study_of_decoders_says_that_it_reuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("recombine.studies.rendering_run.run_rendering", lambda *_: tmp_path)
    assert run_study(load_study("demo-rendering"), tmp_path / "out", tmp_path / "store", "cpu", [LIBRARY]) == tmp_path
    assert "share arms by --store alone" in " ".join("".join(capsys.readouterr()).split())
