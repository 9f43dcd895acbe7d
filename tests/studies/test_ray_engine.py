"""Ray: the same numbers as in one process, also where a node dies in the middle."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from tests.soak import SHARE
from tests.studies.test_kills import COMMAND, finished_cases, written

from glasshouse import devices
from glasshouse.cli import screen
from glasshouse.errors import DeviceError, MissingExtraError, StudyError
from glasshouse.files import write_atomic
from glasshouse.studies import ray_engine
from glasshouse.studies.audit import Running
from glasshouse.studies.federations import program
from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.grid.plan import to_toml
from glasshouse.studies.grid.program import carry_out
from glasshouse.studies.ray_engine import Ray, _Crew

CLIENTS = 10001  # the port where drivers elsewhere connect
KILLS = 4  # of drivers; each takes seconds to join the cluster


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one core each, on this machine."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'glasshouse[ray]'")
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "include_dashboard": False}
    found = Cluster(initialize_head=True, head_node_args=small)
    found.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    ray.init(address=found.address, log_to_driver=False)
    yield found
    ray.shutdown()
    found.shutdown()


def test_workers_tell_how_far_they_are(tmp_path, cluster):
    """The worker goes on only when the driver knows, and leaves the sign that it waits for."""
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    seen = []

    def watch(key, share):
        seen.append((key, share))
        (tmp_path / "seen").touch()

    work = Ray(1).work([(Waiting("a"),)], Bench(tmp_path / "seen"), watch=watch, deadline=float("inf"))
    assert [outcomes for _, outcomes in work] == [["seen"]]
    assert seen[0] == ("a", 0.25)


@dataclass(frozen=True)
class Waiting:
    """A job by its name."""

    name: str

    def key(self):
        return self.name


@dataclass
class Bench:
    """Works on a job until a file is there, for five minutes at the most: the machine may be busy."""

    file: Path
    module: None = None

    def packed(self):
        return self

    def perform(self, jobs, progress):
        progress(0.25)
        for _ in range(3000):
            if self.file.exists():
                return ["seen"]
            time.sleep(0.1)
        return ["not seen"]


def test_a_node_that_dies_costs_nothing_but_time(grid, finished, tmp_path, cluster, monkeypatch, capsys):
    """Watched as the command does, whose lines tell rate and time left."""
    monkeypatch.setattr(screen, "PLAIN_EVERY", 0)
    dead = []
    with screen.stages() as shown:
        advance = shown.stage("Attacking", "cases")

        def kill_once(done, total):
            advance(done, total)
            if done >= 2 and not dead:
                dead.append(cluster.worker_nodes.copy().pop())
                cluster.remove_node(dead[0], allow_graceful=False)

        done = carry_out(grid, tmp_path / "study", Running(engine="ray", progress=kill_once))
    assert dead
    assert re.search(r"Attacking: [\d.]+ of 12 cases \(\d+\.\d/min, \d+ s left\)", capsys.readouterr().err)
    assert (done.training.done, done.attacking.done, done.attacking.failed) == (4, 12, 0)
    here, there = (json.loads((folder / "study.json").read_text())["rows"] for folder in (tmp_path / "study", finished))
    assert here == there


@pytest.mark.soak
@pytest.mark.skipif(not SHARE, reason="starts Flower's simulation: make soak")
def test_clients_of_federations_train_on_the_cluster(tmp_path, cluster, monkeypatch, record_property):
    """Where the cluster has room: with as many clients as it has cores there is one on each of its nodes."""
    pytest.importorskip("flwr", reason="needs glasshouse[federated]")
    import ray
    from tests.federated.local import federate

    cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    plan = Federations(models=("mlp:width=8",), defenses=("none", "csvar"), rounds=2, clients=2, images=60)
    real, asked = program.federate, []

    def watched(*words, **settings):
        asked.append(ray.get_runtime_context().gcs_address)
        return real(*words, **settings)

    monkeypatch.setattr(program, "federate", watched)
    there, summary = program.carry_out(plan, tmp_path / "there", Running(engine="ray", address=cluster.address))
    assert (summary.done, summary.failed) == (2, 0)
    assert asked == [cluster.address] * 2
    monkeypatch.setattr(program, "federate", federate)
    here, _ = program.carry_out(plan, tmp_path / "here", Running())
    assert [{**row, "seconds": 0} for row in there["rows"]] == [{**row, "seconds": 0} for row in here["rows"]]
    record_property("counted", "2 federations on 2 nodes, the same numbers as in one process")


@pytest.fixture
def head():
    """A node as 'ray start' begins it, with its door for drivers elsewhere."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'glasshouse[ray]'")
    words = (
        f"start --head --block --port 6399 --ray-client-server-port {CLIENTS} --num-cpus 1 --include-dashboard=false"
    )
    command = [str(Path(sys.executable).with_name("ray")), *words.split(), "--object-store-memory", str(100 * 2**20)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert any("Ray runtime started" in line for line in process.stdout)
        yield process
        process.terminate()


@pytest.mark.soak
@pytest.mark.skipif(not SHARE, reason="starts drivers beside a cluster: make soak")
def test_a_driver_elsewhere_connects_by_ray_s_client(grid, finished, tmp_path, head, started, record_property):
    def run(name, port):
        write_atomic(tmp_path / name / "study.toml", to_toml(grid).encode())
        words = "study", "run", str(tmp_path / name), "--quiet", "--engine", "ray", "--address"
        return started(COMMAND, *words, f"ray://127.0.0.1:{port}").ended()

    done = run("study", CLIENTS)
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "study") == found(finished)
    assert "There is no Ray cluster at 'ray://127.0.0.1:9'" in run("other", 9).stderr
    record_property("counted", "1 study by Ray's client, the same numbers as in one process")


def found(directory):
    """What a study measured."""
    return json.loads((directory / "study.json").read_text())["rows"]


class Lost:
    """A cluster that goes away at some question."""

    def __init__(self, question, error):
        self.question, self.error = question, error
        self.exceptions = pytest.importorskip("ray", reason="needs glasshouse[ray]").exceptions

    def __getattr__(self, name):
        if name == self.question:
            return MagicMock(side_effect=self.error)
        return MagicMock()

    def cluster_resources(self):
        if self.question == "cluster_resources":
            raise self.error
        return {"CPU": 1}

    def wait(self, references, **settings):
        if self.question == "wait":
            raise self.error
        return references, []

    def is_initialized(self):
        return False

    def cancel(self, *arguments, **settings):
        pytest.fail("to cancel a task begins a cluster anew where there is none")


WORDS = "Channel closed\nand much more"


@pytest.mark.parametrize("question", ["put", "cluster_resources", "wait", "get"])
@pytest.mark.parametrize("kind", ["ConnectionError", "RaySystemError", "RpcError"])
def test_a_cluster_that_goes_away_is_told_in_one_line(question, kind, monkeypatch):
    ray = pytest.importorskip("ray", reason="needs glasshouse[ray]")
    error = getattr(ray.exceptions, kind, ConnectionError)(WORDS)
    monkeypatch.setattr(ray_engine, "connected", lambda address, workers: nullcontext(Lost(question, error)))
    monkeypatch.setattr(_Crew, "_news", lambda self: {})
    work = Ray(1, "auto").work([(Waiting("a"),)], Bench(Path("x")), watch=lambda key, share: None, deadline=math.inf)
    with pytest.raises(StudyError, match=r"at 'auto' is gone \(.*Channel closed\): what is finished is kept") as told:
        list(work)
    assert "\n" not in str(told.value)


def test_nobody_connects_when_the_time_is_over(monkeypatch):
    monkeypatch.setattr(ray_engine, "connected", lambda *cluster: pytest.fail("connected"))
    work = Ray(1, "auto").work([(Waiting("a"),)], Bench(Path("x")), watch=lambda key, share: None, deadline=0)
    assert list(work) == []


@pytest.mark.soak
@pytest.mark.skipif(not SHARE, reason="starts drivers beside a cluster: make soak")
def test_drivers_of_a_cluster_are_killed_and_started_again(grid, finished, tmp_path, cluster, started, record_property):
    """What was finished before a kill is found again; the cluster outlives its drivers."""
    out = tmp_path / "study"
    write_atomic(out / "study.toml", to_toml(grid).encode())
    words = ["study", "run", str(out), "--engine", "ray", "--address", cluster.address, "--quiet"]
    before: dict[Path, int] = {}
    kills = 0
    while kills < KILLS:
        one = started(COMMAND, *words)
        wait_for_more(out, before, one.process)
        one.process.kill()
        killed = one.ended().returncode == -9
        assert written(list(before)) == before, "what was finished was made again"
        before = written(finished_cases(out))
        kills += killed
        if not killed:
            break
    assert kills >= 2
    assert started(COMMAND, *words).ended().returncode == 0
    assert written(list(before)) == before
    here, there = (json.loads((folder / "study.json").read_text())["rows"] for folder in (out, finished))
    assert here == there
    record_property("counted", f"{kills} kills of drivers of one cluster, one study ended alike")


def wait_for_more(out: Path, before: dict[Path, int], process: BaseProcess) -> None:
    """Wait until a driver has finished something that was not there, or has ended."""
    while process.exitcode is None and len(finished_cases(out)) <= len(before) + 1:
        time.sleep(0.05)


def test_without_ray_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"glasshouse\[ray\]"):
        list(Ray(1).work([(None,)], Empty(), watch=lambda key, share: None, deadline=float("inf")))


class Empty:
    """A bench that is never worked on."""

    module = None


@pytest.mark.parametrize(
    ("there", "asked", "expected"),
    [({"CPU": 4}, "", (0, 4)), ({"CPU": 4, "GPU": 2}, "", (1, 2)), ({"CPU": 4, "GPU": 2}, "cpu", (0, 4))],
)
def test_tasks_ask_for_a_gpu_where_the_cluster_has_any(monkeypatch, there, asked, expected):
    monkeypatch.setenv(devices.VARIABLE, asked)
    ray = MagicMock(cluster_resources=lambda: there)
    crew = _Crew(ray, Bench(Path()))
    asked_of_ray = ray.remote.call_args_list[0].kwargs
    assert (asked_of_ray["num_gpus"], crew.cores()) == expected


def test_a_gpu_that_no_cluster_has_is_refused(monkeypatch):
    monkeypatch.setenv(devices.VARIABLE, "cuda")
    with pytest.raises(DeviceError, match=r"no machine of the cluster .* GLASSHOUSE_DEVICE=cpu"):
        _Crew(MagicMock(cluster_resources=lambda: {"CPU": 4}), Bench(Path()))
