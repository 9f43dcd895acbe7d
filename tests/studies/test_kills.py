"""Whoever is killed, whenever: what is finished stays as it is, and the same command ends with the same numbers.

``make soak`` makes 100 kills of each kind.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.soak import EVERY, SHARE, count, first, piece

from glasshouse.files import write_atomic
from glasshouse.store import DATABASE_FILE
from glasshouse.studies.audit import Running, audit_plan
from glasshouse.studies.grid.plan import to_toml

KILLS = count(2, 100)
PLACES = ("file.before_fsync", "file.before_rename", "file.after_rename", "store.before_commit", "store.after_commit")
ROOT = Path(__file__).parents[2]
COMMAND = "from glasshouse.cli.main import main; main()"
FEDERATION = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.federated.local import carry_out
from glasshouse.federated import Federation
carry_out(Federation(images=60, clients=2, rounds=6, batch=20, model="mlp:width=8"), Path(sys.argv[1]))
"""
FEDERATIONS = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.federated.local import federate
from glasshouse.studies.audit import Running
from glasshouse.studies.federations import program
from glasshouse.studies.federations.plan import Federations
program.federate = federate
plan = Federations(models=("mlp:width=8",), clients=2, rounds=2, images=60, batch=20, membership=("loss",))
program.carry_out(plan, Path(sys.argv[1]), Running())
"""


@dataclass(frozen=True)
class Work:
    """Something that goes on where it stopped: program and words, the files of what is finished, what it came to."""

    program: str
    words: Callable[[Path], list[str]]
    finished: Callable[[Path], list[Path]]
    results: Callable[[Path], object]
    places: tuple[str, ...] = PLACES


def rows(directory: Path, query: str) -> list[tuple]:
    """What the database of a study holds; nothing where it is not made yet."""
    if not (directory / DATABASE_FILE).exists():
        return []
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(directory / DATABASE_FILE)) as connection:
        return connection.execute(query).fetchall()
    return []


def finished_cases(directory: Path) -> list[Path]:
    """The pictures of finished cases, and the weights of trained networks."""
    pictures = [directory / file for (file,) in rows(directory, "SELECT file FROM reconstructions")]
    trained = rows(directory, "SELECT outcome FROM targets WHERE state = 'done'")
    names = [name for (outcome,) in trained for name in json.loads(outcome)["weights"].values()]
    return [*pictures, *(directory / "models" / f"{name}.safetensors" for name in names)]


def finished_rounds(directory: Path) -> list[Path]:
    """All files of finished rounds."""
    return [file for facts in directory.glob("**/rounds/*/round.json") for file in facts.parent.iterdir()]


def found(file: str, *parts: str) -> Callable[[Path], object]:
    """Reads parts of a result file."""
    return lambda directory: [json.loads((directory / file).read_text())[part] for part in parts]


def last_model(directory: Path) -> object:
    return (directory / "rounds" / "006" / "global.safetensors").read_bytes()


def measured(directory: Path) -> object:
    """What a study of federations found, but for how long that took."""
    return [{**row, "seconds": 0} for row in json.loads((directory / "study.json").read_text())["rows"]]


LONG = pytest.mark.skipif(not SHARE, reason="trains again and again: make soak")


@pytest.fixture(
    params=["audit", pytest.param("study", marks=LONG), "federation", pytest.param("federations", marks=LONG)]
)
def work(request, plan, grid) -> Work:
    if request.param.startswith("federation"):
        pytest.importorskip("flwr", reason="Flower is not installed: pip install 'glasshouse[federated]'")
    if request.param == "federation":  # which keeps no database
        places = tuple(place for place in PLACES if place.startswith("file"))
        return Work(FEDERATION, lambda out: [str(out)], finished_rounds, last_model, places)
    if request.param == "federations":
        return Work(FEDERATIONS, lambda out: [str(out)], finished_rounds, measured)
    if request.param == "audit":
        options = "--data photos:size=16 --images 2 --model lenet:width=4 --metric mse --defense none --engine inline"
        attacks = [word for steps in range(2, 8) for word in ("--attack", f"invgrad:steps={steps}")]  # a task for each
        words = ["audit", *options.split(), *attacks, "--out"]
        return Work(COMMAND, lambda out: [*words, str(out)], finished_cases, found("audit.json", "rows", "per_image"))

    def planned(out: Path) -> list[str]:
        if not (out / "study.toml").exists():
            write_atomic(out / "study.toml", to_toml(replace(grid, datasets=grid.datasets[:1])).encode())
        return ["study", "run", str(out), "--engine", "inline", "--quiet"]

    return Work(COMMAND, planned, finished_cases, found("study.json", "rows", "identified"))


@pytest.mark.soak
def test_drivers_killed_at_random_moments(work, started, tmp_path, record_property):
    def run(out: Path):
        return started(work.program, *work.words(out))

    began = time.monotonic()
    done = run(tmp_path / "whole").ended()
    took = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    whole = work.results(tmp_path / "whole")
    dice = random.Random(7 + piece())
    kills = kept = studies = 0
    while kills < KILLS:
        out = tmp_path / f"study {studies}"
        before: dict[Path, int] = {}
        ended = False
        while not ended:
            began = time.monotonic()
            one = run(out)
            one.process.join(dice.uniform(0, took) if kills < KILLS else None)
            spent = time.monotonic() - began
            one.process.kill()
            said = one.ended()
            assert said.returncode in (0, -9), said.stderr
            ended = said.returncode == 0  # it may have ended just before it was killed
            took = min(took, spent) if ended else took  # the first one waited for torch
            kills += not ended
            assert written(list(before)) == before, "what was finished was made again"
            before = written(work.finished(out))
            kept += 0 if ended else len(before)
        assert work.results(out) == whole
        studies += 1
    record_property("kills", kills)
    record_property("finished files kept", kept)
    record_property("studies ended alike", studies)


def written(files: list[Path]) -> dict[Path, int]:
    """When files were written."""
    return {file: file.stat().st_mtime_ns for file in files}


@pytest.mark.soak
@pytest.mark.skipif(not SHARE, reason="runs a study for each of its writes: make soak")
@pytest.mark.parametrize("place", PLACES)
def test_drivers_killed_at_every_write(work, place, forked, tmp_path, record_property):
    if place not in work.places:
        pytest.skip(f"nothing is written at {place}")
    assert forked(work.program, *work.words(tmp_path / "whole")).returncode == 0
    whole = work.results(tmp_path / "whole")
    kills = 0
    for visit in itertools.count(1 + first(), EVERY):
        out = tmp_path / str(visit)
        if forked(work.program, *work.words(out), GLASSHOUSE_FAILPOINT=f"{place}:{visit}").returncode == 0:
            break
        before = written(work.finished(out))
        again = forked(work.program, *work.words(out))
        assert again.returncode == 0, again.stderr
        assert written(list(before)) == before, "what was finished was made again"
        assert work.results(out) == whole
        kills += 1
    assert kills or EVERY > 1, f"{place} is never passed: nobody was killed there"
    record_property("kills and as many studies ended alike", kills)


class Killer(threading.Thread):
    """Kills so many of this process's workers, each at a random moment, until it is told that the work is over."""

    def __init__(self, count: int, dice: random.Random) -> None:
        super().__init__()
        self.count, self.dice, self.killed = count, dice, 0
        self.over = threading.Event()

    def run(self) -> None:
        while self.killed < self.count and not self.over.wait(self.dice.uniform(0, 0.5)):
            if workers := multiprocessing.active_children():
                self.dice.choice(workers).kill()
                self.killed += 1

    def __enter__(self) -> Killer:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.join()


@pytest.mark.soak
def test_workers_killed_at_random_moments(plan, tmp_path, record_property):
    """Two in a run: only a case in whose middle a worker dies three times is given up."""
    plan = replace(plan, images=3, defenses=("none",), metrics=("mse",))
    audit_plan(plan, tmp_path / "whole", Running())
    results = found("audit.json", "rows", "per_image")
    dice = random.Random(8 + piece())
    kills = runs = 0
    while kills < KILLS:
        with Killer(min(2, KILLS - kills), dice) as killer:
            _, summary = audit_plan(plan, tmp_path / str(runs), Running(engine="local", workers=2))
        assert (summary.done, summary.failed) == (3, 0)
        assert results(tmp_path / str(runs)) == results(tmp_path / "whole")
        kills += killer.killed
        runs += 1
    record_property("kills", kills)
    record_property("audits ended alike", runs)
