"""What tests share and is made once in a test run: one store, for the tokenizer, probe and judge of the small studies,
and the invented studies that the report is made of."""

import os
from pathlib import Path

from recombine.busy_cores import cores, wait_without_spinning

# Before torch is imported: cores are divided between the workers of pytest-xdist, or another run may be at work.
if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // workers)))
wait_without_spinning()

import pytest

from fake_study import write_fake_study, write_twelve_arms
from pages import page_of
from recombine.studies.spec import Study, make_study


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared") / "store"


@pytest.fixture(scope="session")
def small_study() -> Study:
    """MaskGIT with a JEPA and DiT, two members, four evaluations, on the tokenizer that shrunk studies have."""
    return make_study(
        {
            "name": "small",
            "question": "Does the runner run?",
            "world": {"kind": "shapes2d", "image_size": 12},
            "split": "hamming",
            "tokenizer": {
                "kind": "vqvae",
                "factor": 2,
                "codes": 64,
                "channels": 8,
                "width": 32,
                "depth": 1,
                "steps": 600,
                "batch": 64,
            },
            "training": {"size": "xs", "steps": 120, "batch": 8, "images": 64},
            "judging": {"samples": 8, "evaluations": 4},
            "members": 2,
            "arms": {
                "maskgit": {"generator": {"kind": "maskgit", "sampling_steps": 4}, "jepa": {}},
                "dit": {"generator": {"kind": "dit", "sampling_steps": 4}},
            },
        }
    )


@pytest.fixture(scope="session")
def three_arms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an invented study with all that the report shows, for tests that leave it as it is."""
    return write_fake_study(tmp_path_factory.mktemp("three"), monitors=True, quality=True)


@pytest.fixture(scope="session")
def three_page(three_arms: Path) -> str:
    return page_of(three_arms)


@pytest.fixture(scope="session")
def twelve_arms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an invented study with many arms, for tests that leave it as it is."""
    return write_twelve_arms(tmp_path_factory.mktemp("twelve"))
