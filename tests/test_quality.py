"""The judges of quality, judged: closed forms, and planted generators whose fault each number must show."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from torch import Tensor

from recombine.errors import UserError
from recombine.judges import fit_probe
from recombine.judges.inception import INCEPTION, inception
from recombine.judges.quality import Moments, frechet, mean_distance, moments, nearest, neighbourhoods
from recombine.judges.rerender import soften
from recombine.randomness import Draws, seeds_tensor
from recombine.splits import code
from recombine.studies.arms import evaluation_steps, measures_quality, setting_of, training_images
from recombine.studies.quality import Quality
from recombine.studies.quality_table import ABOUT, NAME, SCHEMA, read_quality, write_quality
from recombine.studies.spec import Study, make_study
from recombine.studies.stages import FittedTokenizer, Setting, open_setting
from recombine.studies.store import Store
from recombine.tokenizers import fit_tokenizer
from recombine.worlds import make_images


def points(*shape: int, purpose: str = "points") -> Tensor:
    return Draws(seeds_tensor([3]), purpose).normal(*shape)[0]


# --- closed forms -----------------------------------------------------------------------------------------------------


def test_frechet_distance_of_known_gaussians() -> None:
    """In one dimension (m - m')^2 + (s - s')^2; in general what scipy's matrix root gives; 0 for equal moments."""
    one = Moments(torch.tensor([[1.0]]).double(), torch.tensor([[[4.0]]]).double())
    other = Moments(torch.tensor([[-2.0]]).double(), torch.tensor([[[9.0]]]).double())
    assert frechet(one, other).item() == pytest.approx(9 + 1)
    a, b = moments(points(500, 5) @ points(5, 5, purpose="mix")), moments(points(400, 5, purpose="other") + 1)
    expected = (a.mean - b.mean).square().sum() + (
        a.covariance + b.covariance - 2 * torch.tensor(np.real(sqrtm((a.covariance @ b.covariance).numpy())))
    ).trace()
    assert frechet(a, b).item() == pytest.approx(expected.item(), rel=1e-9)
    assert frechet(a, a).item() == pytest.approx(0, abs=1e-9)
    together = Moments(torch.stack([a.mean, b.mean]), torch.stack([a.covariance, b.covariance]))
    assert torch.allclose(frechet(together, b), torch.stack([frechet(a, b), frechet(b, b)]), atol=1e-9)


def test_frechet_distance_of_few_samples_is_too_large_and_finite() -> None:
    """Fewer points than dimensions leave the covariance singular; the bias is why real images stand beside it."""
    real = moments(points(4000, 40))
    few, many = frechet(moments(points(20, 40, purpose="few")), real), frechet(moments(points(2000, 40)), real)
    assert 1 < few.item() < 40 and many.item() < 0.1 * few.item()
    assert math.isfinite(frechet(moments(points(1, 40)), real).item())


def test_neighbourhoods_of_a_line_worked_out_by_hand() -> None:
    """Real images at 0..9 on a line: an inner one reaches its third neighbour at 2 and its fifth at 3."""
    real = torch.arange(10.0)[:, None]
    found = neighbourhoods(torch.tensor([[4.5], [4.5], [4.5], [100.0]]), real)
    assert found["precision"] == 0.75  # the stray one lies near no real image
    # 4.5 is within the fifth-neighbour reach of 2..7 (3), of 0 (5: yes), of 1 (4: yes), of 8 (4: yes) and 9 (5: yes).
    assert found["density"].item() == pytest.approx(0.75 * 10 / 5)
    assert found["coverage"] == 1
    # The three equal samples reach the stray one as their third neighbour: recall is fooled by strays, coverage is not.
    assert found["recall"] == 1
    far = neighbourhoods(real + 50, real)
    assert all(far[name] == 0 for name in ("precision", "recall", "density", "coverage"))
    same = neighbourhoods(real, real)
    assert all(same[name] == 1 for name in ("precision", "recall", "coverage"))


def test_neighbourhoods_keep_leading_axes_apart() -> None:
    samples, real = points(3, 20, 4), points(20, 4, purpose="real")
    together = neighbourhoods(samples, real)
    for member in range(3):
        alone = neighbourhoods(samples[member], real)
        assert all(together[name][member] == alone[name] for name in alone)


def test_mean_distance_counts_pairs_of_different_points() -> None:
    assert mean_distance(torch.tensor([[0.0], [3.0], [6.0]])).item() == pytest.approx((3 + 3 + 6) / 3)
    assert mean_distance(torch.ones(4, 2, 7)).tolist() == [0, 0, 0, 0] and mean_distance(torch.ones(1, 5)) == 0


def test_nearest_equals_brute_force_and_copies_are_at_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    bank = points(50, 12)
    samples = torch.cat([points(30, 12, purpose="samples"), bank[[7, 3]]])
    brute = (samples[:, None] - bank[None]).square().mean(2).sqrt().amin(1)
    monkeypatch.setattr("recombine.judges.quality.PAIRS_AT_ONCE", 170)  # several parts, the last one smaller
    assert torch.allclose(nearest(samples, bank), brute) and nearest(samples, bank)[-2:].tolist() == [0, 0]


# --- planted generators -----------------------------------------------------------------------------------------------


def study(**judging: Any) -> Study:
    return make_study(
        {
            "name": "planted",
            "question": "Is the fault seen?",
            "world": {"kind": "shapes2d", "image_size": 12},
            "split": "hamming",
            "tokenizer": {"kind": "pixels", "patch": 4},
            "generator": "dit",
            "training": {"size": "xs", "images": 150},
            "judging": {"samples": 48, "evaluations": 3} | judging,
            "members": 2,
            "arms": {"dit": None},
        }
    )


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    return open_setting(study(), Store(tmp_path_factory.mktemp("store")), torch.device("cpu"))


@pytest.fixture(scope="module")
def quality(setting: Setting) -> Quality:
    arm = setting.study.arms["dit"]
    training = training_images(setting, arm)
    tokenizer, log = fit_tokenizer(arm.tokenizer, training.images, 0)
    probe = fit_probe(setting.world, 0)[0]
    return Quality(setting, FittedTokenizer("pixels", arm.tokenizer, {}, tokenizer, log), probe, training)


def drawn(setting: Setting, seed: int = 5) -> Tensor:
    """What a perfect generator would draw: (2, K * n, 3, P, P), another one for each member."""
    each = setting.study.judging.samples
    return torch.stack(
        [make_images(setting.world, setting.split.compositions, each, seed + m, "planted").images for m in range(2)]
    )


Level = dict[str, dict[str, float]]


def measured(quality: Quality, images: Tensor) -> dict[Any, dict[str, dict[str, float]]]:
    """{level or composition: {metric: {value (mean over members), real, rebuilt}}}."""
    rows = quality.look(images, 10)
    found: dict[Any, dict[str, dict[str, float]]] = {}
    for row in rows:
        own = found.setdefault(row["level"] if row["composition"] is None else row["composition"], {})
        cell = own.setdefault(row["metric"], {"value": 0.0, "real": row["real"], "rebuilt": row["rebuilt"]})
        cell["value"] += row["value"] / 2
    return found


@pytest.fixture(scope="module")
def perfect(quality: Quality, setting: Setting) -> dict[Any, dict[str, dict[str, float]]]:
    return measured(quality, drawn(setting))


def test_real_images_get_what_stands_beside_them(perfect: dict[Any, dict[str, dict[str, float]]]) -> None:
    """Real against real: each number near its reference, at every level and composition; hardly anything is copied."""
    for place, own in perfect.items():
        assert 0.4 < own["frechet"]["value"] / own["frechet"]["real"] < 2.5, place  # 48 images vary much
        for metric in ("precision", "recall", "coverage"):
            assert own[metric]["value"] == pytest.approx(own[metric]["real"], abs=0.15), (place, metric)
        assert own["diversity"]["value"] == pytest.approx(1, abs=0.15)
        assert own["copied"]["value"] < 0.08
    assert perfect[0]["frechet"]["value"] == pytest.approx(perfect[0]["frechet"]["real"], rel=0.3)
    assert perfect[0]["nearest"]["value"] == pytest.approx(1, abs=0.15)
    # An image of a combination never trained on is farther from all training images than a fresh trained one.
    assert perfect[2]["nearest"]["value"] > 1.2
    # Pixels are their own tokens: rebuilt is real.
    assert all(own[m]["real"] == pytest.approx(own[m]["rebuilt"]) for own in perfect.values() for m in own)


def test_blur_is_seen(quality: Quality, setting: Setting, perfect: dict[Any, dict[str, dict[str, float]]]) -> None:
    images = drawn(setting)
    for _ in range(3):
        images = soften(images)
    blurred = measured(quality, images)
    for level in (0, 1, 2):
        assert blurred[level]["frechet"]["value"] > 3 * perfect[level]["frechet"]["value"]
        assert blurred[level]["precision"]["value"] < perfect[level]["precision"]["value"] - 0.2


def test_wrong_combinations_are_seen_in_each_and_not_in_a_level_taken_together(
    quality: Quality, setting: Setting, perfect: dict[Any, dict[str, dict[str, float]]]
) -> None:
    """The four trained combinations in a circle: good images, each of another combination than was asked for."""
    each, trained = setting.study.judging.samples, [setting.split.compositions.index(c) for c in setting.split.train]
    blocks = list(drawn(setting).split(each, 1))
    moved = list(blocks)
    for here, there in zip(trained, trained[1:] + trained[:1], strict=True):
        moved[here] = blocks[there]
    shuffled = measured(quality, torch.cat(moved, 1))
    for composition in map(code, setting.split.train):
        assert shuffled[composition]["frechet"]["value"] > 10 * perfect[composition]["frechet"]["value"]
        assert shuffled[composition]["precision"]["value"] < 0.1 and shuffled[composition]["coverage"]["value"] < 0.1
    assert shuffled[0]["frechet"]["value"] == pytest.approx(perfect[0]["frechet"]["value"], rel=1e-6)
    assert shuffled[1] == perfect[1]


def test_copies_are_seen_though_all_else_is_right(quality: Quality, setting: Setting) -> None:
    """Training images in the place of samples of the trained combinations; of level-2, images of a trained one."""
    each, images = setting.study.judging.samples, drawn(setting).clone()
    training = training_images(setting, setting.study.arms["dit"]).images.view(4, -1, 3, 12, 12)
    for place, composition in enumerate(setting.split.compositions):
        if composition in setting.split.train:
            own = setting.split.train.index(composition)
        elif setting.split.level(composition) == 2:
            own = 0
        else:
            continue
        images[:, place * each : (place + 1) * each] = training[own, :each]
    copied = measured(quality, images)
    for level in (0, 2):
        assert copied[level]["copied"]["value"] == 1 and copied[level]["nearest"]["value"] == 0
    assert copied[1]["copied"]["value"] < 0.08
    own = copied[0]
    assert own["frechet"]["value"] < 1.5 * own["frechet"]["real"] and own["precision"]["value"] > 0.7
    assert copied[2]["precision"]["value"] < 0.1  # a copy of a trained combination is not the one that was asked for


def test_collapse_is_seen_where_precision_is_perfect(
    quality: Quality, setting: Setting, perfect: dict[Any, dict[str, dict[str, float]]]
) -> None:
    """One good image again and again, the world's own middle of each class."""
    labels = torch.tensor(setting.split.compositions).repeat_interleave(setting.study.judging.samples, 0)
    same = setting.world.render(setting.world.canonical(labels))
    collapsed = measured(quality, torch.stack([same, same]))
    for level in (0, 1, 2):
        own = collapsed[level]
        assert own["diversity"]["value"] < 1e-3 and own["diversity_pixels"]["value"] < 1e-3
        assert own["recall"]["value"] < 0.1 and own["coverage"]["value"] < perfect[level]["coverage"]["value"] - 0.3
        assert own["precision"]["value"] > 0.9
        assert own["frechet"]["value"] > 3 * perfect[level]["frechet"]["value"]


def test_members_are_measured_apart_and_the_same_every_time(quality: Quality, setting: Setting) -> None:
    images = drawn(setting)
    rows = quality.look(images, 10)
    assert rows == quality.look(images, 10)
    swapped = quality.look(images.flip(0), 10)
    values = {(row["member"], row["metric"], row["level"], row["composition"]): row["value"] for row in rows}
    for row in swapped:
        other = values[1 - row["member"], row["metric"], row["level"], row["composition"]]
        assert row["value"] == pytest.approx(other, abs=1e-6)


def test_rows_are_whole(quality: Quality, setting: Setting, tmp_path: Path) -> None:
    rows = quality.look(drawn(setting), 7)
    metrics = [metric for metric in ABOUT if metric != "fid"]
    places = [(level, None) for level in range(3)]
    places += [(setting.split.level(c), code(c)) for c in setting.split.compositions]
    keys = {(row["metric"], row["level"], row["composition"], row["member"], row["seed"]) for row in rows}
    assert keys == {(metric, *place, member, member) for metric in metrics for place in places for member in range(2)}
    assert len(rows) == len(keys) and {(row["n"], row["step"]) for row in rows} == {(48, 7)}
    write_quality(tmp_path, [{"study": "s", "arm": "a", **row} for row in rows])
    assert read_quality(tmp_path).num_rows == len(rows)


def test_a_member_that_draws_black_is_measured(quality: Quality, setting: Setting) -> None:
    rows = quality.look(torch.zeros_like(drawn(setting)), 1)
    assert all(row["value"] is not None for row in rows)
    assert all(row["value"] == 0 for row in rows if row["metric"] in ("precision", "diversity", "copied"))


def test_fid_is_measured_by_level_with_a_given_network(quality: Quality, setting: Setting) -> None:
    """Mean colours in the place of Inception's features: of red and blue swapped it must be large."""
    training = training_images(setting, setting.study.arms["dit"])

    def colours(images: Tensor) -> Tensor:
        return images.mean((2, 3))

    own = Quality(setting, quality.entry, quality.probe, training, colours)
    right, wrong = (
        {row["level"]: row for row in own.look(images, 1) if row["metric"] == "fid" and row["member"] == 0}
        for images in (drawn(setting), drawn(setting).flip(2))
    )
    assert all(row["composition"] is None for row in right.values()) and sorted(right) == [0, 1, 2]
    assert right[2]["value"] < 3 * right[2]["real"] and wrong[2]["value"] > 50 * right[2]["value"]


def test_what_fid_lacks_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch_fidelity", None)
    with pytest.raises(UserError, match="FID needs the package torch-fidelity: pip install it"):
        inception()
    package: Any = type("package", (), {})
    monkeypatch.setattr("recombine.judges.inception.import_module", lambda _: package)
    monkeypatch.delenv(INCEPTION, raising=False)
    with pytest.raises(UserError, match="it is not set"):
        inception()
    monkeypatch.setenv(INCEPTION, str(tmp_path / "nothing"))
    with pytest.raises(UserError, match="nothing is no file"):
        inception()


# --- in a study -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "steps"), [("none", []), ("last", [9]), ("every", [3, 6, 9])], ids=lambda value: str(value)
)
def test_quality_is_measured_when_asked_for(word: str, steps: list[int], tmp_path: Path) -> None:
    asked = open_setting(study(quality=word), Store(tmp_path), torch.device("cpu"))
    stops = evaluation_steps(9, 3)
    assert [stop for stop in stops if measures_quality(asked, last=stop == stops[-1])] == steps


def test_fid_without_quality_is_refused() -> None:
    with pytest.raises(UserError, match="fid does nothing where quality is none"):
        study(quality="none", fid=True)


def test_an_arm_with_fewer_combinations_is_measured_against_its_own_training(tmp_path: Path) -> None:
    words = study().resolved()
    words["arms"]["dit"]["training"] |= {"compositions": 3}
    words["split"] = {"kind": "listed", "train": ["000", "011", "100", "010"]}
    asked = open_setting(make_study(words), Store(tmp_path), torch.device("cpu"))
    arm = asked.study.arms["dit"]
    own = setting_of(asked, arm)
    labels = training_images(own, arm).labels
    assert {tuple(row) for row in labels.tolist()} == set(own.split.train) and len(own.split.train) == 3
    assert own.split.levels != asked.split.levels


# --- the table --------------------------------------------------------------------------------------------------------


def row(**changes: Any) -> dict[str, Any]:
    whole = {"study": "s", "arm": "dit", "member": 1, "seed": 7, "step": 500, "level": 1, "composition": "011"}
    return whole | {"metric": "recall", "value": 0.5, "real": 0.9, "rebuilt": 0.8, "n": 64} | changes


def test_the_table_keeps_its_columns_and_what_is_not_finite_is_null(tmp_path: Path) -> None:
    assert read_quality(tmp_path).schema.equals(SCHEMA) and read_quality(tmp_path).num_rows == 0
    short = {key: value for key, value in row(value=math.nan).items() if key != "composition"}
    path: Callable[..., Any] = write_quality
    assert path(tmp_path, [row(), short]) == tmp_path / NAME
    first, second = read_quality(tmp_path).to_pylist()
    assert first == row() and (second["value"], second["composition"]) == (None, None)
    with pytest.raises(ValueError, match="a row of quality has other keys"):
        write_quality(tmp_path, [row(layer=3)])
    (tmp_path / NAME).write_bytes(b"PAR1 and nothing else")
    with pytest.raises(UserError, match=r"quality\.parquet is damaged"):
        read_quality(tmp_path)


def test_the_page_has_every_metric_in_its_own_words() -> None:
    page = (Path(__file__).resolve().parent.parent / "docs" / "quality.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("| `")] == [
        f"| `{name}` | {about.sentence} |" for name, about in ABOUT.items()
    ]
