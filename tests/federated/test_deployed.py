"""The real SuperLink, two SuperNodes and ``flwr run``, over TLS on loopback: the same model as a simulation."""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import os
import re
import signal
import socket
import subprocess
import sys
import time
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
from flwr.app import Context, RecordDict
from tests.federated import traces
from tests.soak import SHARE

from glasshouse import data
from glasshouse.collection import new_key
from glasshouse.errors import SettingError, StudyError, UnknownNameError
from glasshouse.federated import Federation, deployed
from glasshouse.federated.apps import answer_once
from glasshouse.federated.deployed import participant, plan_of
from glasshouse.federated.holdings import dealt
from glasshouse.federated.records import Ledger, read_tensors
from glasshouse.federated.run import DATA_FILE

APP = Path(__file__).parents[2] / "examples" / "flower_app"
DIGITS = tuple(str(digit) for digit in range(10))
PATIENCE = 300
CONFIG = {"dataset": "digits", "clients": 2, "rounds": 2, "batch": 20, "model": "mlp:width=8", "lr": 0.1, "out": ""}


def test_plans_from_a_run_configuration():
    assert plan_of({"local-epochs": 3, "lr": 1, "test": "", "out": "/x"}) == Federation(local_epochs=3, lr=1.0)
    with pytest.raises(UnknownNameError, match="Did you mean 'rounds'"):
        plan_of({"round": 3})
    for config in ({"rounds": "3"}, {"lr": "fast"}, {"secure-aggregation": 1}):
        with pytest.raises(SettingError, match=f"{min(config)} = .* has the wrong type: write "):
            plan_of(config)


def node(**config) -> Context:
    return Context(1, 1, {name.replace("_", "-"): value for name, value in config.items()}, RecordDict(), CONFIG)


@pytest.mark.parametrize(("run", "own"), [(False, True), (True, False), (True, True), (False, False)])
def test_a_client_can_ask_for_more_protection_and_not_for_less(run, own):
    run_config = {**CONFIG, "clients": 3, "secure-aggregation": run}
    config = {"partition-id": 0, "data": "digits", "secure-aggregation": own}
    asked = participant(Context(1, 1, config, RecordDict(), run_config))
    assert asked.plan.secure_aggregation is (run or own)


def test_a_round_is_answered_once_and_none_beyond_the_plan():
    context = node(partition_id=0, data="digits")
    plan = participant(context).plan
    for number in (0, 1):
        answer_once(number, plan, context)
    with pytest.raises(SettingError, match="round 0 again"):
        answer_once(0, plan, context)
    for number in (-1, 2):
        with pytest.raises(SettingError, match="plan has 2, from 0 on"):
            answer_once(number, plan, context)


def test_flowers_own_keys_pass():
    assert participant(node(partition_id=0, num_partitions=2, data="digits")).member.number == 0


def test_a_client_has_the_last_word(tmp_path):
    new_key(tmp_path / "key")
    own = participant(node(partition_id=1, data="digits", defense="csvar", key_file=str(tmp_path / "key")))
    assert own.plan == dataclasses.replace(plan_of(CONFIG), defense="csvar")
    assert own.member.number == 1
    assert len(own.open(list(DIGITS))) == 1500
    assert own.member.secret != participant(node(partition_id=1, data="digits")).member.secret


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"partition_id": 0}, "has no data"),
        ({"data": "digits"}, "partition-id is None"),
        ({"partition_id": 0, "data": "digits", "defence": "csvar"}, "'defence'. Did you mean 'defense'"),
        ({"partition_id": 0, "data": "digits", "secure_aggregation": "true"}, "give true or false, without quotes"),
        ({"partition_id": 0, "data": "digits", "secure_aggregation": True}, "2 clients cannot aggregate securely"),
        ({"partition_id": 0, "data": "digits", "defense": "csvar"}, "needs a secret that the server does not know"),
    ],
)
def test_nodes_that_cannot_take_part(config, match):
    with pytest.raises(SettingError, match=match):
        participant(node(**config))


def test_a_deployment_does_not_go_on_where_a_simulation_stopped(carry_out, tmp_path):
    carry_out(plan_of({**CONFIG, "images": 60}), tmp_path / "out")
    (tmp_path / "out" / DATA_FILE).write_text("what a simulation writes")
    with pytest.raises(StudyError, match="was begun by 'glasshouse federate'"):
        deployed.main(None, dataclasses.replace(node(), run_config={**CONFIG, "out": str(tmp_path / "out")}))


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


def stop(processes: list[subprocess.Popen]) -> None:
    """End processes that were started here as Ctrl-C in their terminals does; who does not hear is killed."""
    for one in (signal.SIGINT, signal.SIGKILL):
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, one)
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)


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


@pytest.mark.soak
@pytest.mark.skipif(not SHARE, reason="seven processes that each read Flower and torch take a minute: make soak")
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_superlink_supernodes_and_flwr_run(home, carry_out, record_property):
    """Terminal one: the SuperLink; two and three: SuperNodes; then ``flwr run``."""
    files, ports = certificate(home), [free_port() for _ in range(3)]
    tools = Path(sys.executable).parent
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "OMP_NUM_THREADS": "1"}
    quiet[traces.MARK] = home.name
    environment = {**os.environ, **quiet, "FLWR_HOME": str(home / "flwr"), "PATH": f"{tools}:{os.environ['PATH']}"}
    (home / "flwr").mkdir()
    (home / "flwr" / "config.toml").write_text(
        f'[superlink.loopback]\naddress = "127.0.0.1:{ports[0]}"\nroot-certificates = "{files["cert"]}"\n'
    )
    link = (
        f"flower-superlink --disable-runtime-dependency-installation --port {ports[0]} --ssl-certfile {files['cert']} "
    )
    link += f"--ssl-keyfile {files['key']} --ssl-ca-certfile {files['cert']}"
    started: list[subprocess.Popen] = []
    # who runs the tests in the background may have told all children to ignore the interrupt
    hears = partial(signal.signal, signal.SIGINT, signal.default_int_handler)

    def start(line: list[str], name: str) -> subprocess.Popen:
        with (home / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                line, env=environment, stdout=log, stderr=log, start_new_session=True, preexec_fn=hears
            )
        started.append(process)
        return process

    try:
        start(link.split(), "link")
        for client in range(2):
            line = f"flower-supernode --root-certificates {files['cert']} --superlink 127.0.0.1:{ports[0]}"
            line += f" --port {ports[1 + client]} --node-config"
            start([*line.split(), f'partition-id={client} data="{home}/node_{client}.npz"'], f"node_{client}")
        deadline = time.monotonic() + PATIENCE
        while not listening(ports[0]) and time.monotonic() < deadline:
            time.sleep(0.2)
        config = " ".join(f"{key}={value!r}" for key, value in {**CONFIG, "out": str(home / "out")}.items())
        run = start(["flwr", "run", str(APP), "loopback", "--stream", "--run-config", config.replace("'", '"')], "run")
        while (
            not (home / "out" / "federation.json").exists() and time.monotonic() < deadline and run.poll() in (None, 0)
        ):
            time.sleep(0.2)
        running, opened = traces.processes(home.name), traces.ports(home.name)
    finally:
        stop(started)
    logs = "\n".join((home / f"{name}.log").read_text() for name in ("link", "node_0", "node_1", "run"))
    assert (home / "out" / "federation.json").exists(), re.sub(r"\x1b\[[0-9;]*m", "", logs)[-6000:]
    assert {process.pid for process in started[:3]} <= set(running)
    assert set(ports) <= set(opened.values())
    assert traces.left(home.name, opened) == ({}, {})
    assert -signal.SIGKILL not in {process.returncode for process in started}
    reference = carry_out(plan_of({**CONFIG, "images": 60}), home / "reference")
    final = read_tensors(home / "out" / "models" / "global.safetensors")
    for name, value in reference.sent(2).items():
        assert torch.allclose(value, final[name], atol=1e-6), name
    assert [len(one.heard) for one in Ledger(home / "out").finished()] == [2, 2]
    record_property("counted", "2 rounds of 2 SuperNodes over TLS, the model of the simulation, nothing left running")
