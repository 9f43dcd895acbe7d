"""The real SuperLink, two SuperNodes and ``flwr run``, over TLS on loopback, and the walk-through word for word."""

from __future__ import annotations

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

from glasshouse import data
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


@pytest.fixture
def home(tmp_path):
    """Two nodes' own data: what a simulation with the same seed would deal to its clients."""
    plan = plan_of({**CONFIG, "images": 60})
    digits = data.load("digits:split=train")
    for client in range(2):
        places = dealt(plan, client, DIGITS, None).places
        pixels, labels = np.stack([digits.read(place) for place in places]), [digits.labels[place] for place in places]
        np.savez(tmp_path / f"node_{client}.npz", x_train=pixels, y_train=labels, class_names=DIGITS)
    return tmp_path


def test_the_model_is_that_of_a_simulation(home, carry_out, record_property):
    """Terminal one: the SuperLink; two and three: SuperNodes; then ``flwr run``."""
    files, ports = certificate(home), [free_port() for _ in range(3)]
    (home / "flwr").mkdir()
    (home / "flwr" / "config.toml").write_text(
        f'[superlink.loopback]\naddress = "127.0.0.1:{ports[0]}"\nroot-certificates = "{files["cert"]}"\n'
    )
    link = f"flower-superlink --disable-runtime-dependency-installation --port {ports[0]}"
    link += f" --ssl-certfile {files['cert']} --ssl-keyfile {files['key']} --ssl-ca-certfile {files['cert']}"
    with Terminals(home, **QUIET, FLWR_HOME=str(home / "flwr")) as terminals:
        terminals.start("link", link.split())
        for client in range(2):
            line = f"flower-supernode --root-certificates {files['cert']} --superlink 127.0.0.1:{ports[0]}"
            line += f" --port {ports[1 + client]} --node-config"
            terminals.start(f"node_{client}", [*line.split(), f'partition-id={client} data="{home}/node_{client}.npz"'])
        terminals.wait_for(lambda: listening(ports[0]))
        config = " ".join(f"{key}={value!r}" for key, value in {**CONFIG, "out": str(home / "out")}.items())
        app = str(ROOT / "examples" / "flower_app")
        terminals.start("run", ["flwr", "run", app, "loopback", "--stream", "--run-config", config.replace("'", '"')])
        terminals.wait_for((home / "out" / "federation.json").exists)
        running, opened = traces.processes(home.name), traces.ports(home.name)
    assert {terminals.started[name].pid for name in ("link", "node_0", "node_1")} <= set(running)
    assert set(ports) <= set(opened.values())
    assert traces.left(home.name, opened) == ({}, {})
    assert not terminals.killed()
    reference = carry_out(plan_of({**CONFIG, "images": 60}), home / "reference")
    final = read_tensors(home / "out" / "models" / "global.safetensors")
    for name, value in reference.sent(2).items():
        assert torch.allclose(value, final[name], atol=1e-6), name
    assert [len(one.heard) for one in Ledger(home / "out").finished()] == [2, 2]
    record_property("counted", "2 rounds of 2 SuperNodes over TLS, the model of the simulation, nothing left running")


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
