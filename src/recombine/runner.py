"""Run a study from its first tokenizer to its report: the one place that joins the stages, the arms and the page.

The same call goes on where an earlier one stopped.
"""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

import torch
from torch import Tensor

from recombine import files, provenance
from recombine.errors import UserError
from recombine.peak_memory import begin_peak
from recombine.progress import say
from recombine.report.page import write_report
from recombine.report.terminal import print_summary
from recombine.splits import code
from recombine.studies import stages
from recombine.studies.arms import PICTURES, ArmResult, run_arm
from recombine.studies.facts import read_facts
from recombine.studies.memory import study_must_fit
from recombine.studies.monitors import write_monitors
from recombine.studies.outside import check_outside
from recombine.studies.pictures import write_pictures
from recombine.studies.quality_table import write_quality
from recombine.studies.results import NAME as RESULTS
from recombine.studies.results import write_results
from recombine.studies.reuse import as_trained, in_store, take_over
from recombine.studies.so_far import SoFar
from recombine.studies.spec import AnyStudy, RenderingStudy
from recombine.studies.store import Store, claim_folder, store_folder
from recombine.worlds import make_images


@study_must_fit
def run_study(
    study: AnyStudy,
    out: Path,
    store: Path | None = None,
    device: str = "auto",
    reuse: Sequence[Path] = (),
    wait: bool = True,
) -> Path:
    """Run `study` into the folder `out`; returns the path of its report.

    Finished parts are kept in `store`, which several studies may share, and several processes at work on one study
    (`studies/sharing.py`); by default it is $RECOMBINE_STORE, or `out`/store. `reuse`: folders of studies, whose
    finished arms are not trained again. Without `wait` raises Busy once all arms that are left are being trained by
    other processes; the same call goes on.
    """
    out = Path(out)
    started, clock = datetime.now(UTC), time.perf_counter()
    provenance.code_version()  # of now, whatever changes in the checkout while this is at work
    chosen = pick_device(device)
    begin_peak(chosen)
    kept = store_folder(out, store)
    check_outside(study)
    if isinstance(study, RenderingStudy):
        if reuse:
            say("Nothing is reused: studies of decoders share arms by --store alone.")
        from recombine.studies.rendering_run import run_rendering

        return run_rendering(study, out, kept, chosen, wait)
    with claim_folder(out, study.hash, study.name):
        setting = stages.open_setting(study, Store(kept), chosen)
        if kept_arms := in_store(setting):
            say(f"in the store already, and not trained again: {', '.join(kept_arms)}")
        take_over(setting, reuse)
        setting = as_trained(setting)
        if not in_store(setting):
            _say_made_again(out)
        fitted, (probe, probe_facts) = stages.fit_tokenizers_and_probe(setting)
        judge, judge_facts, judge_recipe = stages.calibrate_judge(setting, probe, fitted)
        ceilings = stages.measure_ceilings(setting, judge, fitted)

        shared = _facts(setting, fitted, {"probe": probe_facts, **judge_facts}, ceilings)

        def write(arms: dict[str, ArmResult], finished: bool = False) -> None:
            """The tables, pictures and facts of these arms."""
            write_results(out, [row for arm in arms.values() for row in arm.rows])
            write_monitors(out, [row for arm in arms.values() for row in arm.monitors])
            write_quality(out, [row for arm in arms.values() for row in arm.quality])
            write_pictures(out, _pictures(setting, fitted, arms))
            facts = {
                **provenance.opening(study, chosen, started, finished),
                "recipes": stages.RECIPES,
                # What each part took when it was made, be it by an earlier call; the last call alone is beside.
                "seconds": setting.seconds | {"total": sum(setting.seconds.values())},
                "seconds_of_last_call": time.perf_counter() - clock,
                **shared,
                "arms": {
                    name: {
                        "settings": study.arms[name].model_dump(mode="json"),
                        "tokenizer": stages.tokenizer_of(fitted, study.arms[name]).name,
                        **arm.facts,
                    }
                    for name, arm in arms.items()
                },
            }
            files.save_json_atomic(out / "study.json", facts)

        so_far = SoFar(out, study.arms, write, lambda: in_store(setting))

        def make(name: str, wait: bool) -> ArmResult:
            arm = study.arms[name]
            entry = stages.tokenizer_of(fitted, arm)
            return run_arm(setting, name, arm, entry, judge, judge_recipe, wait, so_far.write)

        write(so_far.make_all(make, wait), finished=True)
        report = write_report(out)
    print_summary(out)
    say(f"results: {out / RESULTS}\nreport:  {report}")
    return report


def _say_made_again(out: Path) -> None:
    """That a folder has its study finished already, say one of `results`, whose store is elsewhere."""
    try:
        facts = read_facts(out)
    except UserError:  # a damaged folder is made anew
        return
    if facts.get("finished"):
        on = (facts.get("hardware") or {}).get("gpu") or "a CPU"
        say(
            f"{out} has this study finished, made on {on}, and the store has none of its arms: all are trained again, "
            f"and replace what is there. To keep that, stop and give another --out; `recombine report "
            f"{quote(str(out))}` draws it."
        )


def pick_device(word: str) -> torch.device:
    """auto is a CUDA GPU where there is one."""
    if word == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if word == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "there is no CUDA GPU that torch can use here; run with --device cpu, or see `recombine doctor`."
        )
    return torch.device(word)


def _facts(
    setting: stages.Setting,
    fitted: dict[str, stages.FittedTokenizer],
    judge: dict[str, Any],
    ceilings: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """What study.json says of all that the arms share."""
    return {
        "world": {
            "name": setting.world.name,
            "image_size": setting.world.image_size,
            "factors": [{"name": f.name, "values": list(f.values)} for f in setting.world.factors],
        },
        "split": {
            "train": [code(c) for c in setting.split.train],
            "levels": {code(c): level for c, level in setting.split.levels.items()},
        },
        "judge": judge,
        "tokenizers": {
            name: {"settings": entry.settings.model_dump(mode="json"), "log": entry.log, "ceiling": ceilings[name]}
            for name, entry in fitted.items()
        },
    }


def _pictures(
    setting: stages.Setting, fitted: dict[str, stages.FittedTokenizer], arms: dict[str, ArmResult]
) -> dict[str, Tensor]:
    """Real images, their reconstructions and each arm's first samples, per composition, as bytes."""
    kinds = len(setting.split.compositions)
    real = make_images(
        setting.world, setting.split.compositions, PICTURES, stages.SHARED_SEED, "pictures", setting.device
    )

    def grid(images: Tensor) -> Tensor:
        return (images * 255).round().to(torch.uint8).cpu().view(kinds, PICTURES, *images.shape[1:])

    tensors = {"real": grid(real.images)}
    for name, entry in fitted.items():
        tensors[f"reconstruction.{name}"] = grid(entry.tokenizer.decode(entry.tokenizer.encode(real.images).mean))
    for name, arm in arms.items():
        tensors |= {
            name: arm.pictures["images"],
            f"{name}.valid": arm.pictures["valid"],
            f"{name}.right": arm.pictures["right"],
            f"{name}.joint": arm.pictures["joint"],
        }
    return tensors
