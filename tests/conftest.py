"""What all tests share: one torch thread, small photographs, real data only where GLASSHOUSE_DATA says so."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from glasshouse import data
from glasshouse.torchvision_cpu import allow_cpu_torchvision

torch.set_num_threads(1)
allow_cpu_torchvision()


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="session")
def photos() -> torch.Tensor:
    """Four photographs, (4, 3, 32, 32) in [0, 1]."""
    return data.load("photos").batch(range(4))[0]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The directory of real data sets, or a skip with the reason."""
    root = os.environ.get("GLASSHOUSE_DATA")
    if not root or not Path(root).is_dir():
        pytest.skip("real data is not here: set GLASSHOUSE_DATA to a directory with cifar10.npz and the others")
    return Path(root)


#: Runs the command line with words, an environment and files to print to; a text, so that it can be sent as it is.
RUN = """
import os, sys
os.environ.clear()
os.environ.update(environment)
for place, file in ((1, out), (2, errors)):
    os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), place)
sys.argv = ["glasshouse", *words]
from glasshouse.cli.main import main
main()
"""


@pytest.fixture
def glasshouse(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line in a process of its own, forked from a server that has imported torch once for all tests."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["glasshouse.studies.audit", "glasshouse.reports.page", "glasshouse.cli.main"])

    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        folder = tmp_path_factory.mktemp("printed")
        printed = {name: str(folder / name) for name in ("out", "errors")}
        given = {"words": words, "environment": {**os.environ, **environment}, **printed}
        process = context.Process(target=exec, args=(RUN, given))
        process.start()
        process.join()
        out, errors = (Path(file).read_text(encoding="utf-8") for file in printed.values())
        return subprocess.CompletedProcess(words, process.exitcode or 0, out, errors)

    return run
