"""The real SuperLink, two SuperNodes and ``flwr run``, over TLS on loopback, and the walk-through word for word."""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'glasshouse[federated]'")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.federated import traces
from tests.soak import SHARE
from typer.testing import CliRunner

from glasshouse import data
from glasshouse.cli.main import app
from glasshouse.federated import Federation
from glasshouse.federated.deployed import plan_of
from glasshouse.federated.holdings import dealt
from glasshouse.federated.records import Ledger, read_tensors

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not SHARE, reason="seven processes that each read Flower and torch take a minute: make soak"),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc"),
]
ROOT = Path(__file__).parents[2]
DIGITS = tuple(str(digit) for digit in range(10))
PATIENCE = 300
CONFIG = {"dataset": "digits", "clients": 2, "rounds": 2, "batch": 20, "model": "mlp:width=8", "lr": 0.1, "out": ""}
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}


def certificate(folder: Path) -> dict[str, Path]:
    """A certificate of our own for this machine's loopback."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = {"cert": folder / "cert.pem", "key": folder / "key.pem"}
    files["cert"].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files["key"].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def simulated(config: dict) -> Federation:
    """The plan of a simulation whose clients have as many images as the nodes."""
    return dataclasses.replace(plan_of(config), images=30 * config["clients"])


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def listening(port: int) -> bool:
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


class Terminals:
    """Terminals in one directory, each with a log; leaving ends what runs in them as Ctrl-C does."""

    def __init__(self, home: Path, **more: str) -> None:
        self.home, self.started = home, dict[str, subprocess.Popen]()
        tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", traces.MARK: home.name, "PATH": tools, **more}

    def __enter__(self) -> Terminals:
        return self

    def start(self, name: str, line: list[str]) -> subprocess.Popen:
        # who runs the tests in the background may have told all children to ignore the interrupt
        hears = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
        with (self.home / f"{name}.log").open("w") as log:
            options = {"cwd": self.home, "env": self.environment, "stdout": log, "stderr": log}
            self.started[name] = subprocess.Popen(line, start_new_session=True, preexec_fn=hears, **options)
        return self.started[name]

    def __exit__(self, *_: object) -> None:
        """End what was started; who does not hear is killed."""
        for one in (signal.SIGINT, signal.SIGKILL):
            for process in self.started.values():
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, one)
            for process in self.started.values():
                with suppress(subprocess.TimeoutExpired):
                    process.wait(20)

    def wait_for(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not ready():
            failed = [name for name, process in self.started.items() if process.poll()]
            assert not failed, f"{failed}: {self.said()}"
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.2)

    def said(self) -> str:
        """The end of what was said in all of them."""
        logs = "\n".join((self.home / f"{name}.log").read_text() for name in self.started)
        return re.sub(r"\x1b\[[0-9;]*m", "", logs)[-6000:]

    def killed(self) -> set[str]:
        return {name for name, process in self.started.items() if process.returncode == -signal.SIGKILL}


def deploy(home: Path, terminals: Terminals, config: dict, link: int) -> None:
    """Terminal one: the SuperLink on port ``link``; the next: SuperNodes with data of their own; then ``flwr run``."""
    files, digits, plan = certificate(home), data.load("digits:split=train"), simulated(config)
    (home / "flwr").mkdir()
    (home / "flwr" / "config.toml").write_text(
        f'[superlink.loopback]\naddress = "127.0.0.1:{link}"\nroot-certificates = "{files["cert"]}"\n'
    )
    line = f"flower-superlink --disable-runtime-dependency-installation --port {link}"
    line += f" --ssl-certfile {files['cert']} --ssl-keyfile {files['key']} --ssl-ca-certfile {files['cert']}"
    terminals.start("link", line.split())
    for client in range(plan.clients):  # what a simulation with the same seed would deal to it
        places = dealt(plan, client, DIGITS, None).places
        pixels, labels = np.stack([digits.read(place) for place in places]), [digits.labels[place] for place in places]
        np.savez(home / f"node_{client}.npz", x_train=pixels, y_train=labels, class_names=DIGITS)
        line = f"flower-supernode --root-certificates {files['cert']} --superlink 127.0.0.1:{link}"
        line += f" --port {free_port()} --node-config"
        terminals.start(f"node_{client}", [*line.split(), f'partition-id={client} data="{home}/node_{client}.npz"'])
    terminals.wait_for(lambda: listening(link))
    words = " ".join(f"{key}={value!r}" for key, value in {**config, "out": str(home / "out")}.items())
    flower_app = str(ROOT / "examples" / "flower_app")
    terminals.start("run", ["flwr", "run", flower_app, "loopback", "--stream", "--run-config", words.replace("'", '"')])


def in_terminals(home: Path) -> Terminals:
    return Terminals(home, **QUIET, FLWR_HOME=str(home / "flwr"))


def test_the_model_is_that_of_a_simulation(tmp_path, carry_out, record_property):
    link = free_port()
    with in_terminals(tmp_path) as terminals:
        deploy(tmp_path, terminals, CONFIG, link)
        terminals.wait_for((tmp_path / "out" / "federation.json").exists)
        running, opened = traces.processes(tmp_path.name), traces.ports(tmp_path.name)
    assert {terminals.started[name].pid for name in ("link", "node_0", "node_1")} <= set(running)
    assert link in set(opened.values())
    assert traces.left(tmp_path.name, opened) == ({}, {})
    assert not terminals.killed()
    reference = carry_out(simulated(CONFIG), tmp_path / "reference")
    final = read_tensors(tmp_path / "out" / "models" / "global.safetensors")
    for name, value in reference.sent(2).items():
        assert torch.allclose(value, final[name], atol=1e-6), name
    assert [len(one.heard) for one in Ledger(tmp_path / "out").finished()] == [2, 2]
    record_property("counted", "2 rounds of 2 SuperNodes over TLS, the model of the simulation, nothing left running")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_node_that_leaves_in_mid_round_stops_nobody_else(how, tmp_path, record_property):
    """Flower itself then replies for it; behind Ctrl-C at once, behind a kill when its heartbeat has been missed."""
    config = {**CONFIG, "clients": 3, "local-epochs": 1000}
    with in_terminals(tmp_path) as terminals:
        deploy(tmp_path, terminals, config, free_port())
        terminals.wait_for((tmp_path / "out" / "rounds" / "000").is_dir)
        os.killpg(terminals.started.pop("node_2").pid, how)
        terminals.wait_for((tmp_path / "out" / "federation.json").exists)
    first, second = Ledger(tmp_path / "out").finished()
    for facts in (first, second):
        assert [one.client for one in facts.heard] == [0, 1]
        assert [fault.client for fault in facts.faults] == ["client 2"]
    assert "has left" in second.faults[0].reason
    page = CliRunner().invoke(app, ["report", str(tmp_path / "out")])
    assert page.exit_code == 0, page.output
    assert "client 2" in (tmp_path / "out" / "report" / "index.html").read_text()
    record_property("counted", f"2 rounds without a SuperNode that got {how.name} in the first; the report names it")


def walk_through() -> list[tuple[str, str]]:
    """The blocks of the page's chapter in their order, with their languages."""
    page = (ROOT / "docs" / "federate.md").read_text(encoding="utf-8")
    chapter = page.partition("\n## Deploy\n")[2].partition("\n## ")[0]
    return re.findall(r"^```(bash|python)\n(.*?)^```", chapter, re.MULTILINE | re.DOTALL)


def test_the_walk_through_word_for_word(tmp_path, record_property):
    """Clients with keys, CSVAR and paths as the page has them; only ports are other ones, for these may be taken."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    ports = {number: free_port() for number in (8000, 9094, 9095)}
    (_, exports), *blocks = walk_through()
    assert exports.startswith("export ")
    with Terminals(tmp_path) as terminals:
        for number, (language, text) in enumerate(blocks):
            moved = re.sub(r"\b(8000|9094|9095)\b", lambda found: str(ports[int(found[0])]), text)
            words = ["bash", "-ec", exports + moved] if language == "bash" else [sys.executable, "-c", moved]
            process = terminals.start(f"block_{number}", words)
            stays = "flower-super" in text
            terminals.wait_for(
                (lambda: listening(ports[8000])) if stays else (lambda process=process: process.poll() is not None)
            )
        terminals.wait_for((tmp_path / "federation" / "federation.json").exists)
        opened = traces.ports(tmp_path.name)
    assert traces.left(tmp_path.name, opened) == ({}, {})
    assert not terminals.killed()
    assert [len(one.heard) for one in Ledger(tmp_path / "federation").finished()] == [2, 2]
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("one.key", "two.key")} == {0o600}
    record_property("counted", "every command of the walk-through, two clients behind CSVAR with their own keys")
