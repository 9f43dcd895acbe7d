"""The real simulation on Ray: interrupted and gone on with, quiet, and nothing left behind."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'glasshouse[federated]'")
pytest.importorskip("ray", reason="Ray is not installed: pip install 'glasshouse[federated]'")

from tests.federated import traces
from tests.soak import SHARE

from glasshouse.federated import Federation, federate
from glasshouse.federated.records import Ledger, read_tensors

PATIENCE = 300
ENDLESS = 100_000  # rounds: no machine ends them before the interrupt arrives


def next_line(process: subprocess.Popen) -> str:
    """What a process says next; one that says nothing for too long is killed."""
    if not select.select([process.stderr], [], [], PATIENCE)[0]:
        os.killpg(process.pid, signal.SIGKILL)
    return process.stderr.readline()


def begun(command: list[str], options: dict) -> subprocess.Popen:
    """A process group that minds Ctrl-C; who runs tests in the background may have told all children to ignore it."""
    hears = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    return subprocess.Popen(command, start_new_session=True, preexec_fn=hears, **options)


@pytest.mark.soak
@pytest.mark.skipif(not SHARE, reason="starts Flower and Ray once more: make soak")
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_clients_that_train_do_not_outlive_an_interrupt(tmp_path):
    words = f"federate --images 60 --clients 2 --cores 1 --model mlp:width=8 --local-epochs {ENDLESS} --quiet --out"
    command = [sys.executable, "-m", "glasshouse", *words.split(), str(tmp_path / "out")]
    options = {"env": {**os.environ, traces.MARK: tmp_path.name}, "stderr": subprocess.PIPE, "text": True}
    process = begun(command, options | {"stdout": subprocess.PIPE})
    deadline = time.monotonic() + PATIENCE
    while not any("ClientAppActor.run" in line for line in traces.processes(tmp_path.name).values()):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    for _ in range(2):  # who is in a hurry presses twice
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    out, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGINT, said
    assert "Interrupted." in said
    assert not out
    assert traces.left(tmp_path.name, {}) == ({}, {})


FATAL = """
import os, signal, time
from pathlib import Path
from torch import nn


class Fatal(nn.Sequential):
    def forward(self, images):
        if self.training:
            for act in (self.dies, self.hangs, self.raises):
                try:
                    (Path(__file__).parent / act.__name__).touch(exist_ok=False)
                except FileExistsError:
                    continue
                act()
        return super().forward(images)

    def dies(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def hangs(self):
        time.sleep(1e9)

    def raises(self):
        raise ValueError("there is no more paper")


def make_model():
    return Fatal(nn.Flatten(), nn.Linear(64, 10))
"""


@pytest.mark.soak
@pytest.mark.skipif(not SHARE, reason="starts Flower and Ray once more: make soak")
def test_a_worker_that_dies_and_one_that_hangs_cost_no_more_than_their_clients(tmp_path, record_property):
    """One client kills the only worker, and when asked again never replies; one raises; then all take part again."""
    (tmp_path / "net.py").write_text(FATAL)
    plan = Federation(images=90, clients=3, rounds=3, batch=30, model=f"{tmp_path}/net.py:make_model", timeout=15)
    result = federate(plan, tmp_path / "out", cores=1)
    first, second, third = result.rounds
    assert first.heard == ()
    assert all(fault.reason.startswith("did not reply within 15 s") for fault in first.faults)
    assert {one.name for one in tmp_path.iterdir()} >= {"dies", "hangs", "raises"}
    assert [fault.reason for fault in second.faults] == ["there is no more paper"]
    assert [len(one.heard) for one in (second, third)] == [2, 3]
    record_property("counted", "a worker that died, a client that hung and one that raised cost their own part alone")


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_interrupted_and_gone_on_with(carry_out, glasshouse, tmp_path):
    words = "federate --images 60 --clients 2 --batch 20 --model mlp:width=8 --defense csvar --json --out"
    command = [sys.executable, "-m", "glasshouse", *words.split(), str(tmp_path / "out"), "--rounds"]
    environment = {**os.environ, traces.MARK: tmp_path.name}
    options = {"env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}

    alone = [*command, str(ENDLESS), "--cores", "1"]  # the second run has a worker per core, and ends the same
    first = begun(alone, options)
    assert next_line(first).startswith("Starting Flower")
    assert next_line(first).startswith(f"Round 1 of {ENDLESS}: accuracy")
    running, opened = " ".join(traces.processes(tmp_path.name).values()), traces.ports(tmp_path.name)
    assert "raylet" in running  # so that nothing of it is missed below
    assert "gcs_server" in running
    assert opened
    assert not traces.open_to_others(tmp_path.name)
    os.killpg(first.pid, signal.SIGINT)  # as a terminal does
    said = first.communicate(timeout=PATIENCE)[1]
    assert first.returncode == 130, said
    assert "Interrupted. Every finished round is kept" in said
    assert "Traceback" not in said
    assert traces.left(tmp_path.name, opened) == ({}, {})

    kept = len(Ledger(tmp_path / "out").finished())
    assert 1 <= kept < ENDLESS
    rounds = kept + 3  # what is left is too much for a test, so the plan is cut short
    study = tmp_path / "out" / "study.toml"
    study.write_text(study.read_text().replace(f"rounds = {ENDLESS}", f"rounds = {rounds}"))
    second = glasshouse(*command[3:], str(rounds), **{traces.MARK: tmp_path.name})
    assert second.returncode == 0, second.stderr
    assert traces.left(tmp_path.name, {}) == ({}, {})  # and whoever listened was one of them
    before, *lines = second.stderr.splitlines()
    assert before.startswith(f"{kept} of {rounds} rounds were finished before.")
    assert [line.partition(":")[0] for line in lines] == [f"Round {n + 1} of {rounds}" for n in range(kept, rounds)]
    found = json.loads(second.stdout)
    assert [one["number"] for one in found["history"]] == list(range(rounds))
    assert (tmp_path / "out" / "report" / "index.html").is_file()

    plan = Federation(images=60, clients=2, rounds=rounds, batch=20, model="mlp:width=8", defense="csvar")
    reference = carry_out(plan, tmp_path / "reference")
    assert [one["accuracy"] for one in found["history"]] == [one.accuracy for one in reference.finished()]
    final = read_tensors(tmp_path / "out" / "models" / "global.safetensors")
    assert all(torch.equal(value, final[name]) for name, value in reference.sent(rounds).items())
