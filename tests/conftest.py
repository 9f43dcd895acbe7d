"""What all tests share: one torch thread, small photographs, real data only where GLASSHOUSE_DATA says so."""

from __future__ import annotations

import gc
import multiprocessing
import os
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.postgres import fresh_database, running_server
from typer.main import get_command

from glasshouse import data
from glasshouse.torchvision_cpu import allow_cpu_torchvision

torch.set_num_threads(1)
allow_cpu_torchvision()


#: What processes that tests start need and what takes long to import.
PRELOADED = (
    "__main__",
    "glasshouse.studies.audit",
    "glasshouse.studies.grid.program",
    "glasshouse.federated.apps",
    "glasshouse.reports.page",
    "glasshouse.cli.main",
    "glasshouse.cli.screen",
    "glasshouse.attacks.invgrad",
    "glasshouse.data.photos",
    "glasshouse.metrics.lpips",
    "skimage.data",
    "skimage.io",
    "sklearn.datasets",
    "matplotlib.figure",
    "glasshouse.annotate.serve",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
)


def pytest_collection_finish() -> None:
    """What was imported stays: to look through it for garbage again and again takes a little of every test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _one_server_for_all() -> Iterator[None]:
    """The workers of studies come from the same server as the processes of tests: there is one in each process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glasshouse.studies.executors.PRELOADED", PRELOADED)
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_made_once() -> Iterator[None]:
    """Typer's runner makes every command anew for each call, which takes longer than most commands do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(get_command))
        yield


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


@pytest.fixture(scope="session")
def voted(tmp_path_factory) -> Path:
    """A table of votes: 6 models x 20 originals x 4 annotators; psnr and lpips see what people see, other sees nothing.

    A few votes are missing, and one image has none.
    """
    random = np.random.default_rng(0)
    rows = ["config,set_index,gt_fine,gt_name,annot1,annot2,annot3,annot4,frac_recognized,psnr,lpips,other"]
    easy = random.normal(size=20)
    for model in range(6):
        for original in range(20):
            seen = 0.5 * model - 1.2 + easy[original] + random.normal()
            hits = seen + random.normal(size=4) > 0
            votes = [str(original) if hit else random.choice(["-1", "55"]) for hit in hits]
            votes = ["" if random.random() < 0.05 else vote for vote in votes]
            votes = [""] * 4 if (model, original) == (2, 3) else votes
            metrics = f"{12 + seen + 0.5 * random.normal():.3f},{0.5 - 0.1 * seen:.4f},{random.normal():.3f}"
            rows.append(f"model {model},{100 + original},{original},thing,{','.join(votes)},{hits.mean()},{metrics}")
    path = tmp_path_factory.mktemp("votes") / "votes.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """A PostgreSQL server, started once where it is first needed."""
    with running_server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Where votes lie: None for a study's own SQLite file, else the URL of an empty database of the server."""
    if request.param == "sqlite":
        yield None
    else:
        with fresh_database(request.getfixturevalue("postgresql"), f"votes_{secrets.token_hex(4)}") as url:
            yield url


#: Runs a program with words, an environment and files to print to; a text, so that it can be sent as it is.
RUN = """
import os, sys
os.environ.clear()
os.environ.update(environment)
for place, file in ((1, out), (2, errors)):
    os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), place)
sys.argv = words
exec(program, {"__name__": "__main__"})
"""


@pytest.fixture(scope="session")
def forks() -> ForkServerContext:
    """Starts processes from one server that has imported, once for all tests, what takes long."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


Run = Callable[..., subprocess.CompletedProcess[str]]


PATIENCE = 600  # seconds, on a busy machine


@dataclass(frozen=True)
class Started:
    """A program that runs in a process of its own."""

    words: tuple[str, ...]
    process: BaseProcess
    printed: dict[str, str]

    def ended(self) -> subprocess.CompletedProcess[str]:
        """Wait for its end; how it ended and what it said. Who has not ended by then never will, and is killed."""
        self.process.join(PATIENCE)
        self.process.kill()
        self.process.join()
        out, errors = (Path(file).read_text(encoding="utf-8") for file in self.printed.values())
        return subprocess.CompletedProcess(self.words, self.process.exitcode or 0, out, errors)


@pytest.fixture
def started(forks: ForkServerContext, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Started]:
    """Starts a Python program with its words (``sys.argv[1:]``) in a process of its own, to which torch is no news."""

    def start(program: str, *words: str, **environment: str) -> Started:
        folder = tmp_path_factory.mktemp("printed")
        printed = {name: str(folder / name) for name in ("out", "errors")}
        for file in printed.values():
            Path(file).touch()  # a kill may come before the process has opened them
        given = {"program": program, "words": ["glasshouse", *words], **printed}
        process = forks.Process(target=exec, args=(RUN, {**given, "environment": {**os.environ, **environment}}))
        process.start()
        return Started(words, process, printed)

    return start


@pytest.fixture
def forked(started: Callable[..., Started]) -> Run:
    """Runs a program in a process of its own until it ends."""
    return lambda program, *words, **environment: started(program, *words, **environment).ended()


@pytest.fixture
def glasshouse(forked: Run) -> Run:
    """The command line in a process of its own."""
    return partial(forked, "from glasshouse.cli.main import main; main()")


@pytest.fixture(scope="module")
def browser():
    """Chromium without a screen, for pages that people click on."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("Chromium is not installed: apt install chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()
