"""The real simulation on Ray: interrupted and gone on with, quiet, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'glasshouse[federated]'")
pytest.importorskip("ray", reason="Ray is not installed: pip install 'glasshouse[federated]'")

from glasshouse.federated import Federation
from glasshouse.federated.records import read_tensors

MARK = "GLASSHOUSE_TEST_MARK"
PATIENCE = 300


def left(mark: str) -> list[str]:
    """Processes that this test started, directly or not, and that are still there."""
    found = []
    for place in Path("/proc").iterdir():
        try:
            if place.name.isdecimal() and f"{MARK}={mark}".encode() in (place / "environ").read_bytes():
                found.append((place / "cmdline").read_text())
        except OSError:
            continue
    return found


def gone(mark: str) -> bool:
    """Whether all of them end within a while."""
    deadline = time.monotonic() + 30
    while left(mark) and time.monotonic() < deadline:
        time.sleep(0.2)
    return not left(mark)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_interrupted_and_gone_on_with(carry_out, tmp_path):
    plan = Federation(images=60, clients=2, rounds=12, batch=20, model="mlp:width=8", defense="csvar")
    words = "federate --images 60 --clients 2 --rounds 12 --batch 20 --model mlp:width=8 --defense csvar --json --out"
    command = [sys.executable, "-m", "glasshouse", *words.split(), str(tmp_path / "out")]
    environment = {**os.environ, MARK: tmp_path.name}
    options = {"env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}

    first = subprocess.Popen(command, start_new_session=True, **options)
    assert first.stderr.readline().startswith("Round 1 of 12: accuracy")
    os.killpg(first.pid, signal.SIGINT)  # as a terminal does
    said = first.communicate(timeout=PATIENCE)[1]
    assert first.returncode == 130, said
    assert "Interrupted. Finished rounds are kept" in said
    assert "Traceback" not in said
    assert gone(tmp_path.name)

    second = subprocess.run(command, timeout=PATIENCE, check=False, **options)
    assert second.returncode == 0, second.stderr
    assert gone(tmp_path.name)
    lines = second.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"Round {n} of 12" for n in range(1, 13)]
    found = json.loads(second.stdout)
    assert [one["number"] for one in found["history"]] == list(range(12))
    assert (tmp_path / "out" / "report" / "index.html").is_file()

    reference = carry_out(plan, tmp_path / "reference")
    assert [one["accuracy"] for one in found["history"]] == [one.accuracy for one in reference.finished()]
    final = read_tensors(tmp_path / "out" / "models" / "global.safetensors")
    assert all(torch.equal(value, final[name]) for name, value in reference.sent(12).items())
