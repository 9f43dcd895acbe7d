"""Studies small enough to run many times."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.judged_study import make_studies

from glasshouse.studies import teaching
from glasshouse.studies.audit import Running
from glasshouse.studies.grid.plan import Grid
from glasshouse.studies.grid.program import carry_out
from glasshouse.studies.plan import Plan


@pytest.fixture(scope="session")
def plan() -> Plan:
    return Plan(
        dataset="photos:size=16",
        images=2,
        model="lenet:width=4",
        attacks=("invgrad:steps=4",),
        defenses=("none", "gaussian:sigma=0.5"),
        metrics=("mse", "psnr", "ssim"),
    )


@pytest.fixture(scope="session")
def grid() -> Grid:
    """Two data sets, two recipes, before and after training: four networks and twelve cases."""
    return Grid(
        title="small",
        datasets=("digits:size=16", "photos:size=16"),
        models=("lenet:width=4",),
        recipes=("none", "crop/gaussian:sigma=0.001,at=training"),
        training_images=32,
        training_batch=16,
        epochs=2,
        checkpoints=(0, 2),
        images=2,
        attacks=("invgrad:steps=3",),
        metrics=("mse", "psnr", "ssim"),
    )


@pytest.fixture(scope="session")
def finished(grid, tmp_path_factory) -> Path:
    """The directory of the small grid study, carried out once; copy it before you change it."""
    directory = tmp_path_factory.mktemp("grid") / "study"
    carry_out(grid, directory, Running())
    return directory


@pytest.fixture
def study(finished, tmp_path) -> Path:
    """A copy of the finished study."""
    return Path(shutil.copytree(finished, tmp_path / "study"))


@pytest.fixture(scope="session")
def studies(tmp_path_factory) -> list[Path]:
    """Two data sets that classifiers judged; nobody changes them."""
    return make_studies(tmp_path_factory.mktemp("judged"))


@pytest.fixture
def cheap_lpips(monkeypatch) -> None:
    """What is taught looks at MSE in the place of LPIPS."""
    monkeypatch.setattr(teaching, "SIGNS", ("mse", "ssim"))
