"""A memory that is too small, planted: the same numbers in smaller parts, or one sentence that says what to lower."""

from pathlib import Path

import numpy as np
import pytest
import torch

from interrupting import only_so_many_fit
from recombine import cli
from recombine.anatomy.measures import read_measures
from recombine.errors import UserError
from recombine.files import load_tensors
from recombine.judges import build_probe, calibrate, negatives, probe, rerender
from recombine.judges.probe import initialise
from recombine.out_of_memory import in_batches, must_fit
from recombine.randomness import seeds_tensor
from recombine.runner import run_study
from recombine.studies import arms, rendering_measures, rendering_run, stages
from recombine.studies.forecast import forecast
from recombine.studies.memory import in_parts, timed_in_parts
from recombine.studies.rendering import RenderingStudy
from recombine.studies.rendering_measures import MAPS, measure_study
from recombine.studies.rendering_run import run_arm
from recombine.studies.spec import Study
from recombine.studies.store import Store
from recombine.studies.unfinished import Spent
from recombine.tokenizers import VAESettings, VQVAESettings, fit_tokenizer
from recombine.tokenizers.fitting import build_tokenizer
from recombine.tokenizers.pixels import PixelsSettings
from recombine.tokenizers.vae import VAE
from recombine.tokenizers.vqvae import VQVAE
from recombine.training import Trainer
from recombine.worlds import Shapes2D, Shapes2DSettings, make_images
from small import trainer

WORLD = Shapes2D(Shapes2DSettings(image_size=12))
COMPOSITIONS = [(0, 0, 0), (1, 1, 1), (0, 1, 0)]
CPU = torch.device("cpu")


def test_batches_are_halved_until_they_fit():
    items, tried = torch.arange(23), []

    def double(part: torch.Tensor) -> torch.Tensor:
        tried.append(len(part))
        if len(part) > 4:
            raise torch.OutOfMemoryError("no memory for five")
        return 2 * part

    parts = in_batches(double, items, 16)
    assert torch.equal(torch.cat(parts), 2 * items)
    assert tried == [16, 8, 4, 4, 4, 4, 4, 3]
    assert in_batches(double, items[:0], 16)[0].shape == (0,)  # as of a split
    assert in_batches(len, range(5), 2) == [2, 2, 1]


def test_only_a_full_memory_is_met_with_smaller_batches():
    def broken(part: torch.Tensor) -> None:
        raise RuntimeError("shapes do not match")

    def full(part: torch.Tensor) -> None:
        raise torch.OutOfMemoryError("not even for one")

    with pytest.raises(RuntimeError, match="shapes"):
        in_batches(broken, torch.arange(4), 4)
    with pytest.raises(torch.OutOfMemoryError):
        in_batches(full, torch.arange(4), 4)
    with pytest.raises(RuntimeError, match="shapes"), must_fit("this", "take less"):
        broken(torch.arange(4))


@pytest.mark.parametrize("words", ["CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"])
def test_out_of_memory_has_many_words(words: str):
    with pytest.raises(UserError, match=r"^this does not fit into memory: take less\.$"), must_fit("this", "take less"):
        raise RuntimeError(words)


def test_a_cpu_says_it_in_its_own_words():
    with pytest.raises(UserError, match="take less"), must_fit("this", "take less"):
        torch.empty(2**60, dtype=torch.uint8)


@pytest.mark.parametrize("error", [MemoryError("none"), np._core._exceptions._ArrayMemoryError((9,), np.dtype(float))])
def test_a_full_memory_of_python_or_numpy_is_met_too(error: MemoryError, capsys):
    made: set[tuple[int, ...]] = set()

    def double(part: range) -> list[int]:
        if len(part) > 2:
            raise error
        return [2 * one for one in part]

    def make(seeds: tuple[int, ...]) -> None:
        double(range(len(seeds)))
        made.add(seeds)

    assert in_batches(double, range(5), 5) == [[0, 2], [4, 6], [8]]
    assert in_parts("dit", (0, 1, 2, 3), made.__contains__, make) == [(0, 1), (2, 3)]
    assert timed_in_parts("dit", (0, 1, 2, 3), lambda seeds: float(sum(double(range(len(seeds)))))) == (4.0, 2)
    with pytest.raises(UserError, match="take less"), must_fit("this", "take less"):
        raise error


@pytest.mark.parametrize("error", [MemoryError, torch.OutOfMemoryError])
def test_too_many_training_images_are_named(small_study: Study, tmp_path: Path, monkeypatch, error):
    """Fewer members would not help, nor a smaller batch."""

    def full(*_: object) -> None:
        raise error("planted")

    setting = stages.open_setting(small_study, Store(tmp_path), CPU)
    arm = next(iter(small_study.arms.values()))
    monkeypatch.setattr(arms, "make_images", full)
    with pytest.raises(UserError, match=r"trained on does not fit into memory: take a smaller training\.images"):
        arms.make_trainer(setting, arm, None)


def test_images_are_drawn_in_parts(monkeypatch: pytest.MonkeyPatch):
    whole = make_images(WORLD, COMPOSITIONS, 7, 0, "test")
    rows = only_so_many_fit(monkeypatch, Shapes2D, "render", 6)
    parts = make_images(WORLD, COMPOSITIONS, 7, 0, "test")
    assert torch.equal(parts.images, whole.images) and rows == [21, 11, 6, 6, 6, 3]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (VAE, VAESettings(width=8, depth=0, steps=3, batch=4)),
        (VQVAE, VQVAESettings(width=8, depth=0, codes=8, steps=3, batch=4)),
    ],
)
def test_a_tokenizer_encodes_and_decodes_in_parts(monkeypatch: pytest.MonkeyPatch, kind, settings):
    """Its scale, its errors and its codes are then the same, but for rounding."""
    images = make_images(WORLD, COMPOSITIONS, 20, 0, "test").images
    whole, log = fit_tokenizer(settings, images, 0)
    tokens = whole.encode(images)
    pictures = whole.decode(tokens.mean)
    rows = only_so_many_fit(monkeypatch, kind, "analyse", 9), only_so_many_fit(monkeypatch, kind, "synthesise", 9)
    parts, own = fit_tokenizer(settings, images, 0)
    assert min(max(some) for some in rows) == 60  # the planted memory was met
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(parts.state_dict()[name], tensor)
    assert {k: v for k, v in own.items() if k != "seconds"} == pytest.approx(
        {k: v for k, v in log.items() if k != "seconds"}
    )
    torch.testing.assert_close(whole.encode(images).mean, tokens.mean)
    torch.testing.assert_close(whole.decode(tokens.mean), pictures)


def test_training_a_tokenizer_says_what_to_lower(
    small_study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    """From the command itself: no traceback."""
    only_so_many_fit(monkeypatch, VQVAE, "loss")
    monkeypatch.setattr("recombine.studies.spec.load_study", lambda *_: small_study)
    monkeypatch.setattr("sys.argv", ["recombine", "run", "small", "--out", str(tmp_path), "--device", "cpu"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == cli.BAD_INPUT
    assert capsys.readouterr().err == (
        "recombine: training the vqvae tokenizer does not fit into memory: take a smaller tokenizer.batch, "
        "tokenizer.width or world.image_size.\n"
    )
    with pytest.raises(UserError, match=r"tokenizer\.batch"):
        forecast(small_study, CPU)


def test_training_the_probe_says_what_to_lower(small_study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    only_so_many_fit(monkeypatch, probe, "_batch")
    setting = stages.open_setting(small_study, Store(tmp_path), CPU)
    with pytest.raises(UserError, match=r"training of the probe does not fit into memory: .*world\.image_size"):
        stages.train_probe(setting)


def test_calibrating_says_what_to_lower(small_study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where it has no smaller parts: half-trained models."""
    setting = stages.open_setting(small_study, Store(tmp_path), CPU)
    settings = PixelsSettings(patch=4)
    tokenizer = fit_tokenizer(settings, make_images(WORLD, COMPOSITIONS, 20, 0, "test").images, 0)[0]
    entry = stages.FittedTokenizer("pixels", settings, {}, tokenizer, {})
    only_so_many_fit(monkeypatch, Trainer, "run")
    with pytest.raises(UserError, match=r"calibration of the judge does not fit into memory: .*world\.image_size"):
        stages.calibrate_judge(setting, build_probe(WORLD), {"pixels": entry})


def test_a_judge_is_calibrated_in_parts_to_the_same_limits(monkeypatch: pytest.MonkeyPatch):
    """Reading, rebuilding, the search for the nearest real image, and naming."""
    tokenizer = build_tokenizer(PixelsSettings(patch=4), 12)
    every = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    namer = build_probe(WORLD)
    initialise(namer, seeds_tensor([0]))
    images = make_images(WORLD, every, 40, 0, "test")
    early = {"noise": 1.0 - images.images.flip(2) * 0.5}
    arguments = WORLD, namer, {"pixels": (tokenizer, every)}, early, 0, "cpu", 64
    judge, facts = calibrate(*arguments)
    verdicts = judge.judge(images.images, images.labels)
    planted = [
        only_so_many_fit(monkeypatch, rerender, "_read_chunk", 230),
        only_so_many_fit(monkeypatch, type(tokenizer), "analyse", 100),
        only_so_many_fit(monkeypatch, negatives.torch, "cdist", 100),
        only_so_many_fit(monkeypatch, probe.Probe, "forward", 100),
    ]
    again, found = calibrate(*arguments)
    assert found.keys() == facts.keys() and facts["half_trained_far"]["noise"][0] > 0
    for word, fact in facts.items():
        assert found[word] == (fact if word == "half_trained_far" else pytest.approx(fact))
    for own, other in zip(
        vars(again.judge(images.images, images.labels)).values(), vars(verdicts).values(), strict=True
    ):
        assert torch.equal(own, other)
    assert min(max(rows) for rows in planted) > 100  # each was met


def test_whatever_else_does_not_fit_is_a_sentence_too(small_study: Study, tmp_path: Path, monkeypatch):
    only_so_many_fit(monkeypatch, stages, "fit_tokenizers_and_probe")
    with pytest.raises(UserError, match="the study does not fit into memory"):
        run_study(small_study, tmp_path / "out", tmp_path / "store", "cpu")


def test_a_checkpoint_is_not_blamed_for_a_full_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its sentence says to delete the checkpoint; members in smaller parts are the answer."""
    run = trainer("maskgit", [0, 1])
    both = (
        (arms._Work(tmp_path / "a"), ({}, Spent(), "training"), (Spent(),)),
        (rendering_run._Work(tmp_path / "b"), ({}, {}, 1.0), ()),
    )
    for work, kept, more in both:
        work.save(run, *kept)
        with monkeypatch.context() as planted:
            only_so_many_fit(planted, Trainer, "load")
            with pytest.raises(torch.OutOfMemoryError):
                work.resume(run, *more)


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> tuple[RenderingStudy, Path]:
    """Four members of a decoder of bumps, one of digits and a generator, and the folder with their measures."""
    folder = tmp_path_factory.mktemp("rendered")
    bumps = {
        "world": {"kind": "bumps", "image_size": 8},
        "support": {"kind": "donut", "low": 2, "high": 5},
        "encoding": {"kind": "onehot"},
        "data": {"images": 30},
    }
    training = {"steps": 2, "batch": 4}
    digits = {"world": {"kind": "digits", "angles": 36}, "support": {"kind": "gap"}, "encoding": {"kind": "angle"}}
    study = RenderingStudy.model_validate(
        {
            "name": "tiny",
            "question": "Is it measured in parts?",
            "seeds": (0, 1, 2, 3),
            "judging": {"evaluations": 1, "samples": 3},
            "arms": {
                "cnn": {**bumps, "decoder": {"kind": "cnn", "width": 4, "depth": 2}, "training": training},
                "digit": {**digits, "decoder": {"kind": "rotator", "width": 4}, "training": training},
                "dit": {
                    **bumps,
                    "generator": {"kind": "dit", "sampling_steps": 2},
                    "tokenizer": {"kind": "pixels", "patch": 4},
                    "training": training | {"size": "xs"},
                },
            },
        }
    )
    for name in study.arms:
        run_arm(study, name, Store(folder / "store"), CPU)
    measure_study(study, folder / "whole", folder / "store")
    return study, folder


def without_measures(folder: Path, target: Path) -> Path:
    """A store in which every arm is trained and none is measured."""
    target.mkdir()
    for entry in (folder / "store").iterdir():
        if not entry.name.startswith(rendering_measures.KIND):
            (target / entry.name).symlink_to(entry)
    return target


def test_pictures_are_measured_fewer_members_at_a_time(rendered, tmp_path: Path, monkeypatch, capsys):
    study, folder = rendered
    planted = [
        only_so_many_fit(monkeypatch, rendering_measures, word, 2) for word in ("judge_plane", "measure_samples")
    ]
    store = without_measures(folder, tmp_path / "store")
    measure_study(study, tmp_path, store)
    said = capsys.readouterr().out
    assert said.count("do not fit") == 3 and planted == [[4, 2, 2, 4, 2, 2], [4, 2, 2]]
    for name in study.arms:  # once for each arm
        assert f"arm {name}: 4 members do not fit into memory together; measured 2 at a time" in said
    both = read_measures(tmp_path), read_measures(folder / "whole")
    for own, other in zip(*both, strict=True):
        assert own | {"value": 0} == other | {"value": 0}
        assert own["value"] == pytest.approx(other["value"], rel=1e-5, abs=1e-9, nan_ok=True)
    maps = load_tensors(tmp_path / MAPS), load_tensors(folder / "whole" / MAPS)
    assert maps[0].keys() == maps[1].keys() and "cnn.volume.truth" in maps[0] and "dit.superposition.depth" in maps[0]
    for key, values in maps[0].items():
        torch.testing.assert_close(values, maps[1][key], equal_nan=True)
    measure_study(study, tmp_path, store)  # and is kept as if measured together
    assert not capsys.readouterr().out


def test_a_forecast_measures_fewer_members_at_a_time(rendered, monkeypatch, capsys):
    study, _ = rendered
    rows = only_so_many_fit(monkeypatch, rendering_measures, "judge_plane", 2)
    seconds = forecast(study, CPU).seconds
    assert rows == [4, 2, 2, 4, 2, 2] and {"measuring cnn", "measuring digit", "measuring dit"} <= set(seconds)
    assert not capsys.readouterr().out  # what --dry-run prints is a study file


@pytest.mark.parametrize("word", ["measure_layers", "measure_judged"])
def test_measuring_that_never_fits_says_what_to_set(rendered, tmp_path: Path, monkeypatch, word):
    study, folder = rendered
    only_so_many_fit(monkeypatch, rendering_measures, word)
    sentence = r"measuring of arm cnn does not fit into memory: set measures to outputs or none"
    with pytest.raises(UserError, match=sentence):
        measure_study(study, tmp_path, without_measures(folder, tmp_path / "store"))
    with pytest.raises(UserError, match=sentence):
        forecast(study, CPU)


@pytest.mark.parametrize(
    ("fit", "tried"), [(16, [16]), (3, [16, 8, 4, 2, 2, 2, 2, 2, 2, 2, 2]), (4, [16, 8, 4, 4, 4, 4])]
)
def test_what_did_not_fit_is_not_tried_again(fit: int, tried: list[int], capsys):
    """Sixteen members of which some fit: the same parts whichever were made before, and each size fails once."""
    made: set[tuple[int, ...]] = set()
    sizes = []

    def make(seeds: tuple[int, ...]) -> None:
        sizes.append(len(seeds))
        if len(seeds) > fit:
            raise torch.OutOfMemoryError("planted")
        made.add(seeds)

    seeds = tuple(range(16))
    parts = in_parts("dit", seeds, made.__contains__, make)
    assert sizes == tried and sum(parts, ()) == seeds
    assert capsys.readouterr().out.count("do not fit") == len([size for size in tried if size > fit])
    made.discard(parts[-1])
    sizes.clear()
    assert in_parts("dit", seeds, made.__contains__, make) == parts
    assert sizes == [len(parts[-1])]  # and nothing else is made, or tried, again
