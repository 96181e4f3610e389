"""F1 to F9 in the ledger, in the terminal, as JSON and in RESULTS.md, from planted folders of studies of decoders."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from folders import folders_of
from planted import OBJECTIVES, REPRODUCED, plant
from planted_planes import RENDERING, means, plant_plane, plant_planes
from recombine.claims.ledger import CLAIMS, make_ledger, open_studies
from recombine.claims.page import ours_text, page_text, published_text, write_page
from recombine.claims.planes.judges import JUDGES
from recombine.claims.planes.remedies import INNER, scaling
from recombine.claims.planes.table import PlaneTable
from recombine.claims.tables import open_study
from recombine.claims.verdicts import Claim, Verdict
from recombine.cli import app
from recombine.errors import UserError
from recombine.studies.pictures import NAME
from recombine.studies.spec import load_study


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results/ of all studies of decoders and one of generators."""
    home = tmp_path_factory.mktemp("planes")
    plant_planes(home / "results")
    plant(home / "results" / "objectives", OBJECTIVES, REPRODUCED["objectives"])
    return home


def ledger(home: Path) -> dict[str, Verdict]:
    return {one.id: one for one in make_ledger(open_studies(folders_of(home)))}


def test_all_are_reproduced_where_they_are_planted(planted: Path) -> None:
    found = ledger(planted)
    assert {i: found[f"F{i}"].verdict for i in range(1, 10)} == dict.fromkeys(range(1, 10), "reproduced")
    assert found["C1"].verdict == "reproduced"  # both kinds of study stand side by side
    assert found["F5"].finding.study.name == "rendering-remedies"
    exponents = next(part for part in found["F6"].finding.parts if part.name == "from cubic to linear")
    assert exponents.state == "held" and "as N^3." in exponents.sentence


def test_one_picture_of_a_cell_is_no_limit(planted: Path) -> None:
    assert not any("pictures per evaluation" in limit for one in ledger(planted).values() for limit in one.limits)


def test_numbers_have_their_unit(planted: Path) -> None:
    found = ledger(planted)
    texts = {i: ours_text(found[f"F{i}"]) for i in range(1, 10)}
    for i, unit in {2: "cosine", 3: "R²", 4: "log10", 8: "cosine"}.items():
        assert texts[i].endswith(f" {unit}") and found[f"F{i}"].to_json()["unit"] == unit
    assert texts[4].startswith("\u22120.9") and texts[2].startswith("+0.")
    assert texts[1].startswith("+7") and "%" in texts[7] and not any("%" in texts[i] for i in (1, 2, 3, 4))
    assert published_text(found["F1"]) == "+71" and published_text(found["F2"]) == "+0.80 cosine"
    assert published_text(found["F5"]) == "+96" and published_text(found["F9"]) == ""
    assert found["F1"].to_json()["unit"] == "points"


def test_a_plane_of_many_rows_is_read_as_two_regions(planted: Path) -> None:
    """And its curves are the means over the cells."""
    study = open_study(planted / "results" / "rendering")
    assert study.is_plane and not study.incomplete
    assert {row["composition"] for row in study.finished.rows} == {"trained", "held out"}
    assert len(study.finished.rows) == 3 * 6 * 2
    curve = study.curve("cnn", 0, "joint")
    assert curve is not None and curve.values.shape == (1, 6) and curve.values.min() == 1.0
    held = study.curve("cnn", 1, "joint")
    assert held is not None and 0.1 < held.values.mean() < 0.5
    assert {row["n"] for row in study.finished.rows} == {36, 144 - 36}


def test_the_commands(planted: Path) -> None:
    done = CliRunner().invoke(app, ["claims", *map(str, folders_of(planted))])
    assert done.exit_code == 0, done.output
    assert done.output.count("reproduced") == 11  # F1 to F9, C1, and C4 by the same study
    done = CliRunner().invoke(app, ["claims", *map(str, folders_of(planted)), "--json"])
    assert {one["id"]: one["verdict"] for one in json.loads(done.output)}["F3"] == "reproduced"


def test_the_page_and_its_figures(planted: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    shutil.copytree(planted / "results", other / "results", ignore=shutil.ignore_patterns("figures"))
    write_page(planted / "RESULTS.md", folders_of(planted))
    write_page(other / "RESULTS.md", folders_of(other)[::-1])
    text = (planted / "RESULTS.md").read_text(encoding="utf-8")
    assert text == (other / "RESULTS.md").read_text(encoding="utf-8") and str(planted) not in text
    for i in range(1, 10):
        picture = planted / "results" / "figures" / f"F{i}.png"
        assert f"results/figures/F{i}.png" in text and picture.stat().st_size > 20_000
        assert picture.read_bytes() == (other / "results" / "figures" / f"F{i}.png").read_bytes()
    assert "every cell of the plane" in text and "nan" not in text
    scaling = next(line for line in text.splitlines() if "<b>rendering-scaling</b>: " in line)
    assert "No claim is judged from it" not in scaling
    assert "and [rendering-scaling](" in next(line for line in text.splitlines() if "mixture is `" in line)


def test_without_maps_and_pictures_a_figure_is_drawn_still(tmp_path: Path) -> None:
    folder = plant_plane(tmp_path / "results" / "rendering", RENDERING, {name: means() for name in RENDERING.arms})
    for name in ("maps.safetensors", NAME):
        (folder / name).unlink()
    write_page(tmp_path / "RESULTS.md", [folder])
    assert {path.stem for path in (tmp_path / "results" / "figures").iterdir()} == {"F1", "F2", "F3", "F4", "F7"}


def test_what_has_not_fitted_is_not_judged(tmp_path: Path) -> None:
    plans = {name: means(inside=0.8) for name in RENDERING.arms}
    studies = open_studies([plant_plane(tmp_path / "rendering", RENDERING, plans)])
    for one in make_ledger(studies):
        if one.id in ("F1", "F2", "F3", "F4", "F7"):
            assert one.verdict == "untested" and "has not fitted" in " ".join(one.evidence)
    assert "nan" not in page_text(make_ledger(studies), studies, tmp_path)


def test_an_unfinished_scaling_study_is_as_none(planted: Path, tmp_path: Path) -> None:
    for name in ("rendering-remedies", "rendering-scaling"):
        shutil.copytree(planted / "results" / name, tmp_path / "results" / name)
    path = tmp_path / "results" / "rendering-scaling" / "study.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps(facts | {"finished": None}))
    found = ledger(tmp_path)["F6"]
    shutil.rmtree(path.parent)
    without = ledger(tmp_path)["F6"]
    assert found.finding is not None and not found.finding.beside
    assert (found.verdict, found.evidence, found.limits) == (without.verdict, without.evidence, without.limits)


def test_a_table_without_its_columns_is_refused(planted: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    folder = tmp_path / "rendering"
    shutil.copytree(planted / "results" / "rendering", folder)
    table = pq.read_table(folder / "results.parquet").drop_columns(["joint_probe_only"])
    pq.write_table(table, folder / "results.parquet")
    with pytest.raises(UserError, match="cannot be read") as caught:
        open_study(folder)
    assert "\n" not in str(caught.value)


def test_texts_of_units() -> None:
    def claim(unit: str) -> Claim:
        return Claim("X1", "t", "s", "p", unit=unit)  # type: ignore[arg-type]

    assert claim("points").text(-0.583) == "\u221258" and claim("points").unit_text == " points"
    assert claim("share").text(0.29) == "29\u00a0%" and claim("share").unit_text == ""
    assert claim("cosine").text(0.796) == "+0.80" and claim("log10").text(-0.87) == "\u22120.87"
    assert sum(one.id.startswith("F") for one in CLAIMS) == 9


def test_the_library_has_the_arms_that_the_claims_look_for() -> None:
    """With the numbers of a failing CNN and of remedies that work, every claim is answered by the study it names."""
    fixed = means(hit=0.98, relative=0.03)

    def table(name: str) -> PlaneTable:
        study = load_study(name)
        found = []
        for arm in study.arms:
            works = name == "rendering-remedies" and not arm.startswith("plain") and not arm.endswith("-free")
            for (layer, measure, region), mean in (fixed if works else means()).items():
                row = {"arm": arm, "layer": layer, "measure": measure, "region": region}
                found += [row | {"seed": seed, "value": mean + 1e-3 * (seed % 3)} for seed in study.seeds]
        return PlaneTable(name, study.resolved()["arms"], found)

    tables = {name: table(name) for name in ("rendering", "rendering-remedies", "rotation")}
    for claim in CLAIMS:
        if claim.id.startswith("F"):
            answer = JUDGES[claim.id](tables[claim.studies[0]])
            assert all(part.state != "open" or part.name == "from cubic to linear" for part in answer.parts), claim.id
    assert JUDGES["F1"](tables["rendering"]).arms == {"CNN": "cnn", "MLP": "mlp", "transformer": "transformer"}
    assert set(JUDGES["F7"](tables["rendering"]).arms.values()) == {"cnn", "cnn-onehot", "cnn-wide-code", "cnn-ramp"}
    assert JUDGES["F9"](tables["rendering-remedies"]).arms == {"coordinate": "coordinate", "CNN": "plain"}
    assert JUDGES["F6"](tables["rendering-remedies"]).arms["curriculum"] == "stripes-curriculum"
    sizes = load_study("rendering-scaling")
    planted = PlaneTable(
        sizes.name,
        sizes.resolved()["arms"],
        [
            {"arm": arm, "layer": "picture", "measure": measure, "region": region, "seed": seed, "value": share}
            for measure, region in (("hit", "held_out"), ("joint", INNER))
            for arm, settings in sizes.arms.items()
            for seed in sizes.seeds
            for share in [min(1.0, (settings.data.images or 0) / settings.world.image_size**2 / 1.5)]
        ],
    )
    assert scaling(planted, stripes=False).exponent == pytest.approx(2, abs=0.2)
    assert scaling(planted, stripes=True).exponent == pytest.approx(2, abs=0.2)
