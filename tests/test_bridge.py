"""Generators where a decoder would stand: planted samplers, the code they are told, running, resuming, refusals."""

import json
import re

import pytest
import torch

import recombine
from interrupting import kill_and_run_again
from recombine.anatomy.measures import read_measures
from recombine.anatomy.superposition import memory_weights
from recombine.curated import make_data, make_plane
from recombine.errors import UserError
from recombine.judges.plane import Judged, judge_plane, judge_samples, summarise
from recombine.report.rendering_reading import read_rendering
from recombine.report.sample_figures import sample_figure, sampled_arms
from recombine.runner import run_study
from recombine.studies import bridge, rendering_run
from recombine.studies.bridge_measures import measure_samples
from recombine.studies.spec import load_study, make_study, parse_study, shrink
from recombine.studies.store import Store
from recombine.worlds.bumps import Bumps, BumpsSettings
from recombine.worlds.supports import DonutSupport, support_mask

SIZE = 14
STUDY = """
kind: rendering
name: tiny
question: Does it draw what it never saw?
world: {kind: bumps, image_size: 8}
support: {kind: donut, low: 3, high: 4}
encoding: onehot
data: {images: 200}
judging: {evaluations: 2, samples: 3}
members: 2
arms:
  cnn: {decoder: {kind: cnn, depth: 2, width: 8}, training: {steps: 6, batch: 8}}
  dit:
    generator: {kind: dit, sampling_steps: 4}
    tokenizer: {kind: pixels, patch: 4}
    training: {steps: 12, batch: 8, size: xs, ema_width: 0.05}
  maskgit:
    generator: {kind: maskgit, sampling_steps: 4}
    tokenizer: {kind: vqvae, factor: 4, codes: 16, width: 8, depth: 1, steps: 20}
    training: {steps: 12, batch: 8, size: xs}
"""


def plane_of(size=SIZE, low=4, high=9):
    world = Bumps(BumpsSettings(image_size=size))
    return make_plane(world, torch.from_numpy(support_mask(DonutSupport(low=low, high=high), size)).flatten())


def noisy(pictures, samples, scale=1e-4):
    """Samples (1, C, n, P, P) of pictures (C, P, P)."""
    noise = torch.randn(1, len(pictures), samples, *pictures.shape[1:], generator=torch.Generator().manual_seed(0))
    return pictures[None, :, None] + scale * noise


def measured(samples, plane):
    found, maps = measure_samples(samples, judge_samples(samples, plane), plane)
    keys = [(one.layer, one.measure, one.region) for one in found]
    assert len(set(keys)) == len(keys)
    held = int((~plane.trained).sum())
    assert maps["superposition.share"].shape == (len(samples), held) and maps["superposition.depth"].shape == (held,)
    return {key: one.values[0].item() for key, one in zip(keys, found, strict=True)}


def test_a_planted_perfect_sampler_scores_as_one():
    plane = plane_of()
    found = measured(noisy(plane.images, 3), plane)
    for layer in ("picture", "mean picture"):
        assert found[layer, "superposition_share", "deep"] < 0.02 and found[layer, "superposition_truth", "deep"] > 0.99
    assert found["picture", "joint", "held_out"] == 1 and found["picture", "relative", "held_out"] < 1e-4
    assert found["picture", "position_error", "deep"] == 0 and found["picture", "sample_spread", "held_out"] < 1e-4
    for region in ("trained", "held_out"):
        true = found["true picture", "factorization", region]
        assert found["picture", "factorization", region] == pytest.approx(true, abs=1e-3)


def test_a_planted_superposing_sampler_scores_as_one():
    """Every sample of a held-out cell is the mean of the trained pictures that share x or y with it."""
    plane = plane_of()
    pictures = plane.images.clone()
    memory = memory_weights(plane.cells, plane.trained).float() @ plane.images[plane.trained].flatten(1)
    pictures[~plane.trained] = memory.view(-1, SIZE, SIZE)
    found = measured(noisy(pictures, 3, 1e-5), plane)
    for layer in ("picture", "mean picture"):
        assert found[layer, "superposition_share", "deep"] > 0.98
        assert found[layer, "superposition_memory", "deep"] > 0.98
    assert found["picture", "valid", "held_out"] == 0 and found["picture", "joint", "trained"] == 1
    assert found["picture", "hit", "deep"] == 0 and found["picture", "sample_spread", "held_out"] < 1e-4


def test_one_memory_at_a_time_is_superposed_in_the_mean_alone():
    """Each sample is one whole trained picture that shares x or y: valid, in the wrong place, and a superposition only
    when averaged. The error of the samples is that of their mean plus their spread."""
    plane = plane_of()
    weights = memory_weights(plane.cells, plane.trained)
    count = int((weights > 0).sum(1).max())
    chosen = weights.argsort(1, descending=True)[:, :count]  # (K, n): every trained cell that shares a value
    samples = plane.images[None, :, None].repeat(1, 1, count, 1, 1)
    samples[0, ~plane.trained] = plane.images[plane.trained][chosen]
    found = measured(samples, plane)
    assert found["mean picture", "superposition_share", "deep"] > 0.98
    assert (
        found["mean picture", "superposition_memory", "deep"] > found["picture", "superposition_memory", "deep"] + 0.3
    )
    assert found["picture", "valid", "deep"] == 1 and found["picture", "hit", "deep"] == 0
    whole = summarise(judge_plane(samples.mean(2), plane), plane, ~plane.trained)["relative"].item()
    spread = found["picture", "sample_spread", "held_out"]
    assert spread > 0.5 and found["picture", "relative", "held_out"] == pytest.approx(whole + spread, rel=1e-4)


def test_the_numbers_of_samples_are_means_and_shares():
    plane = plane_of(8, 3, 4)
    blank = torch.full_like(plane.images, plane.background)
    judged = judge_samples(torch.stack([plane.images, blank, plane.images, plane.images], 1)[None], plane)
    assert judged.samples == 4 and judged.mse.shape == (4, 1, 64)
    means = judged.means()
    torch.testing.assert_close(means["joint"], torch.full((1, 64), 0.75))
    torch.testing.assert_close(means["mse"][0], plane.blank / 4)
    assert summarise(judged, plane, plane.trained)["relative"].item() == pytest.approx(0.25)
    again = Judged.from_tensors(judged.tensors())
    assert torch.equal(again.means()["right"], means["right"])
    alone = judge_plane(plane.images[None], plane)
    assert alone.samples == 1 and torch.equal(alone.means()["mse"], alone.mse)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bridge")
    study = parse_study(STUDY)
    run_study(study, folder / "out", folder / "store", "cpu")
    return study, folder


def test_results_keep_the_contract(finished):
    study, folder = finished
    rows = recombine.read_results(folder / "out").to_pylist()
    assert len(rows) == 3 * 2 * 2 * 64  # arms, members, evaluations, cells
    assert {row["n"] for row in rows if row["arm"] == "cnn"} == {1}
    assert {row["n"] for row in rows if row["arm"] != "cnn"} == {3}
    for row in rows:
        assert row["joint"] <= min(row["valid"], row["joint_probe_only"], row["factor_x"], row["factor_y"]) + 1e-6
    arm = rendering_run.finished_arm(study, "maskgit", folder / "store")
    assert arm.samples is not None and arm.samples.shape == (2, 64, 3, 8, 8)
    drawn = (arm.samples / 255.0 - arm.plane.images[:, None]).square().mean((2, 3, 4))
    kept = [row["mse"] for row in rows if row["arm"] == "maskgit" and row["step"] == 12]
    torch.testing.assert_close(drawn, torch.tensor(kept).view(2, 64), atol=2e-3, rtol=2e-2)
    facts = json.loads((folder / "out" / "study.json").read_text())["arms"]
    assert facts["cnn"]["tokenizer"] is None
    assert set(facts["maskgit"]["tokenizer"]["ceiling"]) == {"trained", "held_out"}
    assert facts["dit"]["tokenizer"]["ceiling"]["held_out"]["joint"] == 1  # pixels lose nothing


def test_all_arms_stand_in_one_table_of_measures(finished):
    _, folder = finished
    table = read_measures(folder / "out")
    shared = {"superposition_share", "factorization", "hit", "valid", "relative"}
    for name in ("cnn", "dit", "maskgit"):
        own = {(r["layer"], r["measure"]) for r in table if r["arm"] == name}
        assert {("picture", measure) for measure in shared} <= own and ("true picture", "factorization") in own
        assert (("mean picture", "superposition_share") in own) == (name != "cnn")


def test_the_page_shows_samples(finished):
    _, folder = finished
    study = read_rendering(folder / "out")
    assert sampled_arms(study) == ["dit", "maskgit"]
    assert len(sample_figure(study).axes) == 2 * 5 * len(study.arms["dit"].depths + [0, 0])
    assert "Samples of the generators" in (folder / "out" / "report.html").read_text()


def test_a_member_equals_its_solo_run(finished):
    study, folder = finished
    words = study.resolved() | {"seeds": [1]}
    for name in ("dit", "maskgit"):
        solo = make_study(words | {"arms": {name: words["arms"][name]}})
        alone = rendering_run.run_arm(solo, name, Store(folder / "store"), torch.device("cpu"))
        together = rendering_run.finished_arm(study, name, folder / "store")
        apart = (alone.samples[0].int() - together.samples[1].int()).abs()
        assert apart.max() <= 1  # rounding
        torch.testing.assert_close(alone.last.mse[:, 0], together.last.mse[:, 1])


def test_a_killed_study_goes_on_to_the_same_result(finished, tmp_path, monkeypatch):
    study, folder = finished
    study = study.model_copy(update={"measures": "none"})
    kill_and_run_again(study, tmp_path / "out", monkeypatch)
    assert recombine.read_results(tmp_path / "out") == recombine.read_results(folder / "out")


def test_averaged_weights_are_judged_and_kept(finished):
    """The stored weights draw the stored samples, also where they are averages."""
    study, folder = finished
    arm, place = study.arms["dit"], torch.device("cpu")
    stored = rendering_run.finished_arm(study, "dit", folder / "store")
    tokenizer = bridge.open_tokenizer(arm, stored.plane, Store(folder / "store"), place).tokenizer
    trainer = rendering_run.make_trainer(arm, study.seeds, stored.plane, arm.code(), place, tokenizer)
    fresh = bridge.draw_samples(trainer, tokenizer, arm.code()(stored.plane.cells), 3)
    store = Store(folder / "store")
    weights, _ = store.load(rendering_run.WEIGHTS, rendering_run.finished_recipe(study, "dit", store))
    trainer.generator.load_state_dict({key.partition(".")[2]: t for key, t in weights.items()}, strict=False)
    for flat in trainer.flats:  # the step is what the noise follows from
        flat.set(flat.weights)
    trainer.step.fill_(12)
    again = bridge.draw_samples(trainer, tokenizer, arm.code()(stored.plane.cells), 3)
    torch.testing.assert_close(again, stored.samples / 255.0, atol=3e-3, rtol=0)
    assert not torch.allclose(fresh, again, atol=0.05)


def test_a_generator_is_told_the_code_of_each_factor_apart(finished):
    study, folder = finished
    arm, place = study.arms["maskgit"], torch.device("cpu")
    tokenizer = bridge.open_tokenizer(arm, arm.plane(), Store(folder / "store"), place).tokenizer
    generator = bridge.make_generator(arm, (0, 1), arm.code(), tokenizer, place)
    assert generator.condition.widths == [8, 8] and set(generator.condition.networks) == {"x", "y"}
    codes = arm.code()(torch.tensor([[1.0, 2.0], [1.0, 5.0], [6.0, 2.0], [6.0, 5.0]])).expand(2, -1, -1)
    told = generator.condition(codes)  # a sum over factors: differences in x are the same at every y
    torch.testing.assert_close(told[:, 0] - told[:, 2], told[:, 1] - told[:, 3], atol=1e-5, rtol=1e-4)


def test_no_held_out_picture_is_trained_on(finished):
    study, folder = finished
    arm, place = study.arms["dit"], torch.device("cpu")
    plane = arm.plane()
    tokenizer = bridge.open_tokenizer(arm, plane, Store(folder / "store"), place).tokenizer
    trainer = rendering_run.make_trainer(arm, study.seeds, plane, arm.code(), place, tokenizer)
    shown, told = tokenizer.decode(trainer.data.x)[:, 0], trainer.data.cond
    nearest = torch.cdist(shown.flatten(1), plane.images.flatten(1)).argmin(1)
    assert plane.trained[nearest].all() and len(nearest.unique()) == int(plane.trained.sum())
    torch.testing.assert_close(told, arm.code()(plane.cells[nearest]))  # each with its own code


def test_tokens_of_the_training_sets():
    """A VAE's tokens are drawn anew at every visit; stripes are among what a tokenizer sees."""
    words = parse_study(STUDY).resolved()
    words["arms"] = {"dit": words["arms"]["dit"]}
    words["arms"]["dit"] |= {
        "tokenizer": {"kind": "vae", "factor": 4, "width": 8, "depth": 1, "steps": 3},
        "data": {"images": 60, "stripes": 16},
    }
    arm = make_study(words).arms["dit"]
    plane, code = arm.plane(), arm.code()
    assert (
        len(bridge.seen_images(arm, plane, False)) == 64 + 16 and len(bridge.seen_images(arm, plane, True)) == 60 + 16
    )
    tokenizer, facts = bridge.fit_on_plane(arm, plane)
    data = make_data(arm.data, arm.build_world(), plane, code, (0, 1), 12)
    tokens = bridge.tokenized(data, tokenizer, "latents")
    assert tokens.x.shape[0] == data.x.shape[0] and tokens.spread is not None
    draws = [recombine.randomness.Draws(tokens.seeds, "training", step) for step in (0, 1)]
    first, second = (tokens.batch(one, 4) for one in draws)
    assert torch.equal(first[1], second[1]) and not torch.equal(first[0], second[0])  # the same images, drawn anew
    assert facts["ceiling"]["trained"]["mse"] > 0


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("{kind: vqvae, factor: 4, codes: 16, width: 8, depth: 1, steps: 20}", "pixels", "maskgit predicts codes, so"),
        ("  dit:\n", "  dit:\n    decoder: cnn\n", "has a decoder or a generator, not both"),
        ("    generator: {kind: dit, sampling_steps: 4}\n", "    decoder: null\n", "needs a decoder or a generator"),
        ("cnn: {decoder", "cnn: {tokenizer: pixels, decoder", "a decoder draws pixels and has no tokenizer"),
        ("    tokenizer: {kind: pixels, patch: 4}\n", "", "a generator needs a tokenizer: write tokenizer: pixels"),
        ("patch: 4", "patch: 3", "is not a multiple of patch 3"),
        ("size: xs, ema_width", "ema_width", "a generator needs a size"),
        ("size: xs, ema_width", "size: xs, absolute: 1, ema_width", "absolute is part of a decoder's loss"),
        ("steps: 6, batch: 8", "steps: 6, batch: 8, size: xs", "size is that of a generator"),
        ("kind: dit, sampling_steps: 4", "kind: dit, guidance: 1", "guidance needs a model trained with factors"),
        ("kind: dit, sampling_steps: 4", "kind: dti", "unknown kind 'dti' in arms.dit.generator; did you mean 'dit'"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(old, new, sentence):
    assert old in STUDY
    with pytest.raises(UserError, match=re.escape(sentence)) as caught:
        parse_study(STUDY.replace(old, new), "study.yaml")
    assert re.match(r"study\.yaml:\d+: [^\n]*$", str(caught.value))  # one sentence, with its line


def test_a_generator_has_no_decoder_to_open(finished):
    study, folder = finished
    with pytest.raises(UserError, match="arm dit of tiny is a generator"):
        rendering_run.open_arm(study, "dit", folder / "store")


def test_the_library_file_puts_all_on_one_footing():
    study = load_study("bridge")
    assert study.members >= 8 and {"cnn", "dit-pixels", "dit-vq", "maskgit-vq"} <= set(study.arms)
    plain = study.arms["cnn"]
    for arm in study.arms.values():
        assert (arm.world, arm.support, arm.encoding, arm.data) == (
            plain.world, plain.support, plain.encoding, plain.data
        )  # fmt: skip
    assert study.arms["dit-vq"].tokenizer == study.arms["maskgit-vq"].tokenizer
    assert study.arms["dit-vq"].training == study.arms["maskgit-vq"].training
    small = shrink(study)
    assert all(arm.training.size in (None, "xs") for arm in small.arms.values())
