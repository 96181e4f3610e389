"""The study that confirms a search is made from its table."""

import runpy
from pathlib import Path

import yaml

from planted_beyond import by_arm, of_library, plant_shares
from recombine.studies.spec import load_study

ROOT = Path(__file__).resolve().parent.parent


def test_the_best_try_and_its_own_control_on_fresh_seeds(tmp_path: Path) -> None:
    """Best is the largest gain over its own control, not the largest share."""
    ends = {"more-codes": 0.6, "more-codes-without": 0.55, "all-tokens": 0.3, "all-tokens-without": 0.05}
    folder = plant_shares(tmp_path / "jepa", of_library("jepa"), by_arm(ends, others=0.05))
    confirming = runpy.run_path(str(ROOT / "benchmarks" / "confirm.py"))["confirming"]
    path = tmp_path / "jepa-confirm.yaml"
    path.write_text(confirming(folder), encoding="utf-8")
    study, search = load_study(str(path)), of_library("jepa")
    assert study.name == "jepa-confirm" and list(study.arms) == ["all-tokens", "all-tokens-without"]
    assert study.arms == {name: search.arms[name] for name in study.arms} and study.judging == search.judging
    assert len(study.seeds) == 16 and not set(study.seeds) & set(search.seeds)
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["world"] == search.resolved()["world"]
