"""The stages of a study up to the arms: tokenizers, probe, judge, ceilings. Each is found in the store or made and put
there, by one process where several are at work on the study (`sharing.py`).

A recipe names everything a result depends on; RECIPES counts the versions of our own code. Raise a number when a change
alters what that stage gives (the golden tests tell), and old entries are simply no longer found.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recombine.conditioning import ConditioningSettings, condition
from recombine.generators import Generator, TokenShape, build_generator
from recombine.generators.dit import DiTSettings
from recombine.generators.maskgit import MaskGIT, MaskGITSettings
from recombine.judges import Judge, Probe, build_judge, build_probe, calibrate, fit_probe
from recombine.nets.backbone import SIZES
from recombine.out_of_memory import must_fit
from recombine.progress import say
from recombine.randomness import Draws
from recombine.splits import Split, code, make_split
from recombine.studies.sharing import share_out
from recombine.studies.spec import Arm, Study
from recombine.studies.store import Store
from recombine.tokenizers import VQVAE, Tokenizer, TokenizerSettings, build_tokenizer, fit_tokenizer
from recombine.training import Trainer, TrainingData, TrainingSettings
from recombine.worlds import Images, World, build_world, make_images

RECIPES = {"tokenizer": 2, "probe": 1, "judge": 2, "arm": 4}
SHARED_SEED = 0  # of what all arms share: their members differ in the generator alone
TOKENIZER_IMAGES = 8000  # in all, over the compositions the tokenizer sees
HALF_TRAINED_STEPS = 30  # enough to leave noise behind, far too few to draw a valid image
CEILING_IMAGES = 256  # per composition


@dataclass
class Setting:
    """What every stage of one study shares."""

    study: Study
    world: World
    split: Split
    store: Store
    device: torch.device
    seconds: dict[str, float]  # that each stage took, by whichever run made it
    trained_on: torch.device | None = None  # where the arms were trained, if not here: see reuse.as_trained


def open_setting(study: Study, store: Store, device: torch.device) -> Setting:
    world = build_world(study.world)
    split = make_split(study.split, [(factor.name, len(factor.values)) for factor in world.factors])
    return Setting(study, world, split, store, device, {})


@dataclass
class FittedTokenizer:
    """A tokenizer with the name it has in the study."""

    name: str
    settings: TokenizerSettings
    recipe: dict[str, Any]
    tokenizer: Tokenizer
    log: dict[str, Any]


def fit_tokenizers(setting: Setting) -> dict[str, FittedTokenizer]:
    """Every tokenizer of the study, by name."""
    return {name: fit_one(setting, name, settings) for name, settings in named_tokenizers(setting.study).items()}


def fit_tokenizers_and_probe(setting: Setting) -> tuple[dict[str, FittedTokenizer], tuple[Probe, dict[str, Any]]]:
    """What `fit_tokenizers` and `train_probe` give. None needs another, so those that another process is at work on
    come last."""
    tokenizers = named_tokenizers(setting.study)

    def fit(name: str, wait: bool) -> Any:
        return train_probe(setting, wait) if name == "probe" else fit_one(setting, name, tokenizers[name], wait)

    fitted = share_out([*tokenizers, "probe"], fit)
    probe = fitted.pop("probe")
    return fitted, probe


def named_tokenizers(study: Study) -> dict[str, TokenizerSettings]:
    """Every tokenizer that an arm asks for, once each, by name: its kind, numbered where a kind comes with several
    settings."""
    named: dict[str, TokenizerSettings] = {}
    for arm in study.arms.values():
        if arm.tokenizer in named.values():
            continue
        same_kind = sum(settings.kind == arm.tokenizer.kind for settings in named.values())
        named[arm.tokenizer.kind + (f"-{same_kind + 1}" if same_kind else "")] = arm.tokenizer
    return named


def tokenizer_of(fitted: Mapping[str, FittedTokenizer], arm: Arm) -> FittedTokenizer:
    return next(entry for entry in fitted.values() if entry.settings == arm.tokenizer)


def seen_compositions(setting: Setting, settings: TokenizerSettings) -> Sequence[tuple[int, ...]]:
    """What a tokenizer is fitted on: all compositions, or the trained ones."""
    return setting.split.train if getattr(settings, "sees", "all") == "train" else setting.split.compositions


def tokenizer_recipe(setting: Setting, settings: TokenizerSettings, seed: int = SHARED_SEED) -> dict[str, Any]:
    """All that a fitted tokenizer depends on. The images do not depend on the seed."""
    return {
        "version": RECIPES["tokenizer"],
        "world": setting.study.world.model_dump(mode="json"),
        "compositions": [code(c) for c in seen_compositions(setting, settings)],
        "scaled": [code(c) for c in setting.split.train],
        "tokenizer": settings.model_dump(mode="json"),
        "seed": seed,
    }


def fit_one(
    setting: Setting, name: str, settings: TokenizerSettings, wait: bool = True, seed: int = SHARED_SEED
) -> FittedTokenizer:
    """A tokenizer of the study: with the seed that its arms share, or, to see what differs between seeds, another."""
    compositions = seen_compositions(setting, settings)
    recipe = tokenizer_recipe(setting, settings, seed)

    def fit() -> None:
        per_composition = max(TOKENIZER_IMAGES // len(compositions), 50)
        images = make_images(setting.world, compositions, per_composition, SHARED_SEED, "tokenizer", setting.device)
        fitted, log = fit_tokenizer(settings, images.images, seed)
        # Generators start from unit scale, so that of what they train on: held-out compositions would shift it.
        trained = make_images(
            setting.world, setting.split.train, per_composition, SHARED_SEED, "tokenizer scale", setting.device
        )
        fitted.set_scale(trained.images)
        log["scale"] = fitted.scale.item()
        setting.store.save("tokenizer", recipe, fitted.state_dict(), log)
        say(f"tokenizer {name}: fitted in {log['seconds']:.0f} s, mean error of a pixel {log['absolute_error']:.4f}")

    setting.store.once("tokenizer", recipe, f"tokenizer {name}", fit, wait)
    tensors, log = setting.store.load("tokenizer", recipe, setting.device)
    tokenizer = build_tokenizer(settings, setting.world.image_size, setting.world.channels).to(setting.device)
    tokenizer.load_state_dict(tensors)
    tokenizer.eval().requires_grad_(False)
    setting.seconds[f"tokenizer {name}"] = log["seconds"]
    return FittedTokenizer(name, settings, recipe, tokenizer, log)


def probe_recipe(setting: Setting) -> dict[str, Any]:
    """All that the probe depends on."""
    return {"version": RECIPES["probe"], "world": setting.study.world.model_dump(mode="json"), "seed": SHARED_SEED}


@must_fit("the training of the probe", "take a smaller world.image_size")
def train_probe(setting: Setting, wait: bool = True) -> tuple[Probe, dict[str, Any]]:
    """The probe and its facts; raises where it fails its gate."""
    recipe = probe_recipe(setting)

    def train() -> None:
        started = time.perf_counter()
        fitted, made = fit_probe(setting.world, SHARED_SEED, setting.device)
        made["seconds"] = time.perf_counter() - started
        setting.store.save("probe", recipe, fitted.state_dict(), made)
        worst = min(made["accuracy"].values())
        say(
            f"probe: trained in {made['seconds']:.0f} s, right on at least {worst:.1%} of any composition's real images"
        )

    setting.store.once("probe", recipe, "probe", train, wait)
    tensors, facts = setting.store.load("probe", recipe, setting.device)
    probe = build_probe(setting.world, setting.device)
    probe.load_state_dict(tensors)
    setting.seconds["probe"] = facts["seconds"]
    return probe.eval().requires_grad_(False), facts


def judge_recipe(setting: Setting, tokenizers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All that the judge depends on; `tokenizers`: the recipes of the study's."""
    return {
        "version": RECIPES["judge"],
        "probe": probe_recipe(setting),
        "tokenizers": list(tokenizers),
        "train": [code(c) for c in setting.split.train],  # half-trained models saw these
        "seed": SHARED_SEED,
    }


@must_fit(
    "the calibration of the judge",
    "take a smaller world.image_size or fewer tokens (a larger tokenizer.factor or patch)",
)
def calibrate_judge(
    setting: Setting, probe: Probe, fitted: Mapping[str, FittedTokenizer]
) -> tuple[Judge, dict[str, Any], dict[str, Any]]:
    """The judge of the whole study, its facts and its recipe: one threshold, whatever the tokenizer; tested against
    garbage before it judges anything."""
    recipe = judge_recipe(setting, [entry.recipe for entry in fitted.values()])

    def make() -> None:
        started = time.perf_counter()
        made, found = _calibrate(setting, probe, fitted)
        found["seconds"] = time.perf_counter() - started
        setting.store.save("judge", recipe, made.state(), found)
        accepted, refused = min(found["accepted"].values()), min(found["refused"].values())
        say(
            f"judge: calibrated in {found['seconds']:.0f} s, accepts at least {accepted:.1%} of real images and of "
            f"reconstructions, refuses at least {refused:.1%} of every kind of garbage"
        )

    setting.store.once("judge", recipe, "judge", make)
    tensors, facts = setting.store.load("judge", recipe, setting.device)
    setting.seconds["judge"] = facts["seconds"]
    return build_judge(setting.world, probe, tensors, facts, setting.device), facts, recipe


def _calibrate(setting: Setting, probe: Probe, fitted: Mapping[str, FittedTokenizer]) -> tuple[Judge, dict[str, Any]]:
    """The judge and its facts, from the study's tokenizers and from models stopped too early."""
    reconstruct = {
        name: (entry.tokenizer, seen_compositions(setting, entry.settings)) for name, entry in fitted.items()
    }
    half_trained = {
        f"half-trained {family} on {name}": images
        for name, entry in fitted.items()
        for family, images in _half_trained(setting, entry).items()
    }
    return calibrate(setting.world, probe, reconstruct, half_trained, SHARED_SEED, setting.device)


def _half_trained(setting: Setting, entry: FittedTokenizer) -> dict[str, Tensor]:
    """Samples of models stopped long before they can draw: the garbage a probe is tempted to call some composition."""
    shape = token_shape(entry.tokenizer)
    families = {"dit": DiTSettings(sampling_steps=20)} | ({"maskgit": MaskGITSettings()} if shape.codes else {})
    conditioning = ConditioningSettings(kind="quantized")
    images = make_images(setting.world, setting.split.train, 100, SHARED_SEED, "half-trained", setting.device)
    compositions = torch.tensor(setting.split.compositions, device=setting.device)
    compositions = compositions.repeat_interleave(-(-256 // len(compositions)), 0)
    cond = condition(setting.world, "quantized", compositions, setting.world.canonical(compositions))
    drawn = {}
    for family, settings in families.items():
        generator = build_generator(settings, shape, conditioning, setting.world.factors, SIZES["xs"], [SHARED_SEED])
        data = training_data(setting.world, entry.tokenizer, conditioning, images, generator.takes)
        training = TrainingSettings(size="xs", batch=64, steps=HALF_TRAINED_STEPS, warmup=10)
        trainer = Trainer(ready(generator, entry.tokenizer, setting.device), data, training)
        trainer.run(HALF_TRAINED_STEPS)
        tokens = generator.sample(cond[None], Draws(trainer.seeds, "half-trained"))
        drawn[family] = to_images(entry.tokenizer, tokens)[0]
    return drawn


def token_shape(tokenizer: Tokenizer) -> TokenShape:
    return TokenShape(tokenizer.grid, tokenizer.channels, tokenizer.codes)


def ready(generator: Generator, tokenizer: Tokenizer, device: torch.device) -> Generator:
    """The generator on its device, with the codebook where its targets need one."""
    generator.to(device)
    if isinstance(generator, MaskGIT) and isinstance(tokenizer, VQVAE):
        generator.use_codebook(tokenizer.codebook)
    return generator


def training_data(
    world: World, tokenizer: Tokenizer, conditioning: ConditioningSettings, images: Images, takes: str
) -> TrainingData:
    """Images as the tokens and conditions a generator trains on."""
    tokens = tokenizer.encode(images.images)
    cond = condition(world, conditioning.kind, images.labels, images.values)
    if takes == "ids":
        assert tokens.ids is not None
        return TrainingData(tokens.ids, None, cond)
    return TrainingData(tokens.mean, tokens.std, cond)


def to_images(tokenizer: Tokenizer, tokens: Tensor) -> Tensor:
    """Sampled tokens (M, B, T) or (M, B, T, C) as images (M, B, 3, P, P)."""
    latents = tokenizer.embed(tokens) if tokens.dtype == torch.int64 else tokens
    images = tokenizer.decode(latents.flatten(0, 1))
    return images.view(*tokens.shape[:2], *images.shape[1:])


def measure_ceilings(
    setting: Setting, judge: Judge, fitted: Mapping[str, FittedTokenizer]
) -> dict[str, dict[str, Any]]:
    """Per tokenizer and composition, how its reconstructions of fresh real images are judged. A generator of codes
    cannot be expected to do better; one of free latents might, but has only seen latents of real images."""
    real = make_images(
        setting.world, setting.split.compositions, CEILING_IMAGES, SHARED_SEED, "ceiling", setting.device
    )
    ceilings: dict[str, dict[str, Any]] = {}
    for name, entry in fitted.items():
        rebuilt = entry.tokenizer.decode(entry.tokenizer.encode(real.images).mean)
        verdicts = judge.judge(rebuilt, real.labels)
        ceilings[name] = {}
        for place, composition in enumerate(setting.split.compositions):
            rows = slice(place * CEILING_IMAGES, (place + 1) * CEILING_IMAGES)
            ceilings[name][code(composition)] = {
                word: getattr(verdicts, word)[rows].float().mean().item()
                for word in ("joint", "valid", "joint_probe_only")
            }
    return ceilings
