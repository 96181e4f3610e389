"""Studies of the library with planted shares, for tests of what lies beyond the papers (nothing here is a result).

Unlike `planted.plant`, every arm has the compositions and levels of its own split, as a study writes them. `asked` and
`words` are an entry of theirs and what it says.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from folders import facts_of
from planted import LEVELS, Plan, plant
from planted_cells import FACTORS, Draw, Shares, lean, plant_cells
from planted_planes import SMALL, Means, means, plane_study, plant_plane
from recombine.claims.beyond.entries import Entry
from recombine.claims.beyond.figures import draw_entry
from recombine.claims.beyond.questions import QUESTIONS, ask_beyond
from recombine.claims.ledger import open_studies
from recombine.splits import code, fewer, make_split
from recombine.studies.results import write_results
from recombine.studies.spec import Study, load_study
from recombine.worlds import build_world

Share = Callable[[str, str, int, int], float]
"""(arm, composition, its level for that arm, seed) to the share right and valid at the end."""

BY_ID = {one.id: one for one in QUESTIONS}


def asked(which: str, *folders: Path) -> Entry:
    return ask_beyond(BY_ID[which], open_studies(folders))


def words(entry: Entry) -> dict[str, str]:
    assert entry.found is not None, entry.why
    return {one.label: one.word for one in entry.found.contrasts}


def drawn(entry: Entry, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Figure:
    """An entry's figure, to be looked into."""
    figures: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda one, *to, **how: figures.append(one) or save(one, *to, **how))
    draw_entry(entry, folder / f"{entry.id}.png")
    return figures[0]


def levels_of(study: Study, arm: str) -> dict[str, int]:
    """The level of every composition as the arm counts them."""
    factors = [(factor.name, len(factor.values)) for factor in build_world(study.world).factors]
    split = fewer(make_split(study.split, factors), study.arms[arm].training.compositions)
    return {code(composition): level for composition, level in split.levels.items()}


def plant_shares(
    folder: Path,
    study: Study,
    share: Share,
    *,
    seeds: Sequence[int] = tuple(range(8)),
    evaluations: int = 10,
    samples: int = 128,
    probe: float = 0.0,
    peak: float = 0.0,
    ceilings: Mapping[str, float | None] | None = None,
    near: float | None = None,
    noise: float = 0.01,
) -> Path:
    """Write the folder of a finished study whose arms draw as told, flat but for a first evaluation that is higher by
    `peak` beyond training; the probe alone sees `probe` more there. `ceilings` of level-2 are by arm, None where not
    measured; those of level-1 are then all `near`."""
    plant(folder, study, dict.fromkeys(study.arms, Plan()), seeds=seeds, evaluations=1)
    rows: list[dict[str, Any]] = []
    for arm in study.arms:
        steps = study.arms[arm].training.steps
        for text, level in levels_of(study, arm).items():
            for member, seed in enumerate(seeds):
                end = share(arm, text, level, seed) + (noise * lean(seed, arm) if level else 0)
                for evaluation in range(1, evaluations + 1):
                    more = peak if evaluation == 1 and level else 0.0
                    right = float(np.clip(end + more, 0, 1))
                    named = float(np.clip(right + (probe if level else 0), 0, 1))
                    row = {"study": study.name, "arm": arm, "member": member, "seed": seed, "composition": text}
                    row |= {"step": steps * evaluation // evaluations, "level": level, "n": samples, "joint": right}
                    rows.append(row | {"valid": right, "joint_probe_only": named})
    write_results(folder, rows)
    first = levels_of(study, next(iter(study.arms)))
    with facts_of(folder) as facts:
        facts["split"] = {"levels": first}
        for arm, top in (ceilings or {}).items():
            of = {text: {1: near, 2: top}.get(level) for text, level in first.items()}
            ceiling = {text: {"joint": one} for text, one in of.items() if one is not None}
            facts["tokenizers"][arm] = {"ceiling": ceiling}
            facts["arms"][arm]["tokenizer"] = arm
    return folder


def by_arm(ends: Mapping[str, float], trained: float = 0.97, others: float = 0.5) -> Share:
    """What is held out is drawn as often as told by the arm's name, what is trained always."""
    return lambda arm, text, level, seed: trained if level == 0 else ends.get(arm, others)


def some_arms(study: Study, name: str, arms: Sequence[str]) -> Study:
    """The same study under another name, with some of its arms."""
    words = study.resolved()
    return Study.model_validate(words | {"name": name, "arms": {arm: words["arms"][arm] for arm in arms}})


def told_loudly(study: Study) -> Study:
    """The study loud with the arms of another: vectors begin with 1."""
    words = study.resolved()
    arms = {name: arm | {"conditioning": arm["conditioning"] | {"spread": 1.0}} for name, arm in words["arms"].items()}
    return Study.model_validate(words | {"name": "loud", "arms": arms})


def of_library(name: str) -> Study:
    study = load_study(name)
    assert isinstance(study, Study)
    return study


SPREAD = {"dit-small": 0.1, "dit-equal": 0.5, "dit-large": 0.9, "maskgit-small": 0.05, "maskgit-equal": 0.05}
SPREAD |= {"maskgit-large": 0.05, "givt-small": 0.2, "givt-equal": 0.4, "dit-vae-small": 0.3, "dit-vae-equal": 0.3}


def spread_study() -> Study:
    """The library's, with more families and sizes than it trains."""
    words = of_library("spread").resolved()
    arms = words["arms"]
    for name, base, size in (("dit-large", "dit-equal", 1), ("dit-vae-small", "dit-vae-equal", 0.02)):
        arms[name] = arms[base] | {"conditioning": arms[base]["conditioning"] | {"spread": size}}
    givt = of_library("objectives").resolved()["arms"]["givt"]
    for name, size in (("givt-small", 0.02), ("givt-equal", 0.2)):
        arms[name] = givt | {"conditioning": givt["conditioning"] | {"spread": size}}
    return Study.model_validate(words | {"arms": {name: arms[name] for name in SPREAD}})


def plant_spread(folder: Path, share: Share | None = None, **more: Any) -> Path:
    """The study spread, whose arms draw as SPREAD says unless told otherwise."""
    return plant_shares(folder, spread_study(), share or by_arm(SPREAD), **more)


def coverage(**factor: float) -> Share:
    """Held-out compositions are drawn in proportion to those trained, level-2 worse than level-1."""

    def share(arm: str, text: str, level: int, seed: int) -> float:
        family, n = arm.split("-")
        return 0.97 if level == 0 else factor[family] * int(n) / 20 - 0.02 * level

    return share


def plant_values(folder: Path, values: int, **more: Any) -> Path:
    """A study of so many values per factor: DiT draws more the more there are, MaskGIT does not."""
    name = f"coverage-values-{values}"
    ends = {"dit": 0.22 * values, "maskgit": 0.1}
    return plant_shares(folder / name, of_library(name), by_arm(ends), **more)


def search(folder: Path, ends: Mapping[str, float], **more: Any) -> Path:
    """The study jepa: what is not named draws 10 %."""
    return plant_shares(folder, of_library("jepa"), by_arm(ends, others=0.1), **more)


def confirm(folder: Path, ends: Mapping[str, float], seeds: range = range(8, 16), chosen: str = "early-layers") -> Path:
    """The study that asks one setting of the search again, and its control."""
    study = some_arms(of_library("jepa"), "jepa-confirm", [chosen, "maskgit"])
    return plant_shares(folder, study, by_arm(ends, others=0.1), seeds=seeds)


def _bridged(tokenizer: Mapping[str, Any], generator: str) -> dict[str, Any]:
    training = {"size": "xs", "steps": 10, "batch": 4}
    return {
        **SMALL,
        "decoder": None,
        "generator": {"kind": generator},
        "tokenizer": dict(tokenizer),
        "training": training,
    }


PIXELS, VQ = {"kind": "pixels", "patch": 4}, {"kind": "vqvae", "factor": 4, "codes": 16}
BRIDGE = plane_study(
    "bridge",
    {
        "cnn": {},
        "dit-pixels": _bridged(PIXELS, "dit"),
        "dit-vq": _bridged(VQ, "dit"),
        "regression-pixels": _bridged(PIXELS, "regression"),
        "maskgit-vq": _bridged(VQ, "maskgit"),
    },
)


def plant_bridge(folder: Path, hits: Mapping[str, float], inside: Mapping[str, float] | None = None) -> Path:
    """The study bridge, with the share of held-out bumps in place by arm; what is not in place is memory."""
    plans: dict[str, Means] = {}
    for arm in BRIDGE.arms:
        hit = hits.get(arm, 0.3)
        plan = means(hit=hit, relative=1 - hit, share=1 - hit, inside=(inside or {}).get(arm, 0.02))
        plan["mean picture", "superposition_share", "deep"] = 0.5
        plans[arm] = plan
    return plant_plane(folder, BRIDGE, plans)


LOST: Mapping[str, Mapping[str, float]] = {"shape": {"shape": 0.5}, "colour": {"colour": 0.3}, "size": {}}
"""{withheld: {factor: by how much its share in held-out compositions is lower}}."""


def losing(arm: str, lost: Mapping[str, float], trained: float = 1.0) -> Draw:
    """An arm that names factors right less often in held-out compositions, few of whose pictures are valid."""

    def draw(code: str, time: float, seed: int) -> Shares:
        if LEVELS[code] == 0:
            return {"valid": trained}
        return {name: 1 - part + 0.02 * lean(seed, arm + name) for name, part in lost.items()} | {"valid": 0.1}

    return draw


def plant_withheld(folder: Path, name: str = "withheld-again", lost: Mapping[str, Mapping[str, float]] = LOST) -> Path:
    """A study whose arms withhold one factor each, and its arm that withholds none, if it has one."""
    study = of_library(name)
    arms = {f"{word}-withheld": losing(word, lost[word]) for word in FACTORS}
    arms |= {arm: losing(arm, {}) for arm in study.arms if arm not in arms}
    return plant_cells(folder, study, arms)
