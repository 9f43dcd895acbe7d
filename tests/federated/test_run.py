"""A federation from beginning to end, by Python and by the command line; Ray is stood in for (see test_simulation)."""

from __future__ import annotations

import dataclasses
import json
import random
import re
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'glasshouse[federated]'")

from flwr.app import Context, Error, Message, RecordDict

from glasshouse.cli.main import app
from glasshouse.data import load
from glasshouse.errors import GlasshouseError, ModelError, SettingError, StudyError
from glasshouse.federated import federate
from glasshouse.federated.clients import network, refuse_single
from glasshouse.federated.holdings import dealt, open_pool
from glasshouse.federated.plan import from_toml
from glasshouse.federated.records import FACTS, Ledger, read_tensors
from glasshouse.federated.run import DATA_FILE, read_result, refuse_simulated
from glasshouse.federated.simulation import silent
from glasshouse.rays import environment
from glasshouse.types import ImageSpec

WORDS = ["federate", "--images", "120", "--clients", "3", "--rounds", "2", "--batch", "20", "--model", "mlp:width=16"]


def interrupt(*given):
    raise KeyboardInterrupt


@pytest.fixture
def in_process(monkeypatch, local_grid):
    """Both apps in this process; ``faults`` may name a client that fails."""
    faults = {"client": None}

    def tamper(client, asked, reply):
        fails = client == faults["client"] and asked.metadata.message_type == "train"
        return Message(Error(1, "X Message: no power'>"), reply_to=asked) if fails else reply

    def simulate(client, server, clients, stopping, cores):
        server(local_grid(client, clients, tamper=tamper), Context(1, 0, {}, RecordDict(), {}))

    monkeypatch.setattr("glasshouse.federated.run.simulate", simulate)
    return faults


def test_a_client_with_one_image_is_refused_where_batch_norm_has_one_value_of_it(small, in_process, tmp_path):
    plan = dataclasses.replace(small, images=3, model="shufflenet_v2")
    with pytest.raises(ModelError, match=r"cannot train on a client's only image .* two images or more"):
        federate(plan, tmp_path / "refused")
    model = network(dataclasses.replace(plan, model="resnet20:width=4"), ImageSpec(1, 8, 8, 10))
    holding = dealt(plan, 0, tuple(map(str, range(10))), None)
    refuse_single(model, holding)  # whose last layers still have places to look at


def test_result_files_and_the_same_call_again(small, in_process, tmp_path):
    told = []
    result = federate(small, tmp_path / "out", tell=told.append)
    assert [one.number for one in told] == [0, 1]
    assert result.examples == (40, 40, 40)
    assert result.promise == ""
    assert result.parameters == 64 * 16 + 16 + 16 * 10 + 10 + 2
    assert from_toml(tmp_path / "out" / "study.toml") == small
    assert json.loads((tmp_path / "out" / "federation.json").read_text()) == result.to_json()
    final = read_tensors(tmp_path / "out" / "models" / "global.safetensors")
    assert all(value.equal(final[name]) for name, value in Ledger(tmp_path / "out").sent(2).items())
    again = []
    assert federate(small, tmp_path / "out", tell=again.append).to_json() == result.to_json()
    assert again == told
    assert read_result(tmp_path / "out") == (small, told)


def test_command_prints_lines_a_table_and_names_who_failed(in_process, tmp_path):
    in_process["client"] = 1
    done = CliRunner().invoke(app, [*WORDS, "--out", str(tmp_path / "out")], env={"COLUMNS": "140"})
    assert done.exit_code == 0, done.exception
    assert "Round 1 of 2: accuracy" in done.stderr
    assert "MB sent" in done.stderr
    assert "1 of the clients failed" in done.stderr
    assert "round 2: client 1: no power" in done.stdout
    page = (tmp_path / "out" / "report" / "index.html").read_text()
    assert "client 1: no power" in page
    assert page.count("<svg") == 1


def test_rounds_are_told_with_rate_and_time_left_also_in_the_log_and_not_when_quiet(in_process, tmp_path):
    words = [*WORDS, "--out", str(tmp_path / "out"), "--log", str(tmp_path / "log")]
    done = CliRunner().invoke(app, words)
    begun, first, last = done.stderr.splitlines()
    assert begun.startswith("Starting Flower")
    assert re.search(r"^Round 1 of 2: accuracy .* s \(\d+\.\d/min, \d+ s left\)$", first)
    assert re.search(r"^Round 2 of 2: accuracy .* s \(\d+\.\d/min\)$", last)
    assert all(line in (tmp_path / "log").read_text() for line in (begun, first, last))
    assert CliRunner().invoke(app, [*words, "--quiet"]).stderr == ""


def test_the_page_is_written_again_for_whoever_deployed(small, carry_out, in_process, tmp_path):
    words = [*WORDS, "--out", str(tmp_path / "out")]
    in_process["client"] = 1
    CliRunner().invoke(app, words)
    page = tmp_path / "out" / "report" / "index.html"
    before = page.read_text()
    page.unlink()
    assert CliRunner().invoke(app, ["report", str(tmp_path / "out")]).exit_code == 0
    assert page.read_text() == before
    assert "no power" in before
    (tmp_path / "out" / "federation.json").write_text("{}")
    for directory, match in ((tmp_path / "out", "is damaged"), (tmp_path / "unfinished", "is not finished")):
        (tmp_path / "unfinished" / "rounds").mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / "out" / "study.toml", tmp_path / "unfinished")
        done = CliRunner().invoke(app, ["report", str(directory)])
        assert isinstance(done.exception, StudyError)
        assert match in str(done.exception)


@pytest.mark.parametrize("cores", [0, -1])
def test_cores_are_one_or_more(cores, small, tmp_path):
    with pytest.raises(SettingError, match=f"cores={cores}"):
        federate(small, tmp_path / "out", cores=cores)
    assert not (tmp_path / "out").exists()


def test_only_new_rounds_are_told_when_it_goes_on(in_process, tmp_path):
    words = [*WORDS, "--out", str(tmp_path / "out")]
    CliRunner().invoke(app, words)
    (Ledger(tmp_path / "out").folder(1) / FACTS).unlink()
    before, last = CliRunner().invoke(app, words).stderr.splitlines()
    assert before.startswith("1 of 2 rounds were finished before. Starting Flower")
    assert last.startswith("Round 2 of 2")
    assert CliRunner().invoke(app, words).stderr == ""


def test_json_is_all_there_is(in_process, tmp_path):
    done = CliRunner().invoke(app, [*WORDS, "--json", "--secure-aggregation", "--out", str(tmp_path / "out")])
    found = json.loads(done.stdout, parse_constant=pytest.fail)
    assert found["secure_aggregation"] is True
    assert [len(one["heard"]) for one in found["history"]] == [3, 3]
    page = (tmp_path / "out" / "report" / "index.html").read_text()
    assert "Image counts and losses of each client travelled unmasked" in page


def test_dp_sgd_says_what_it_promises(small, in_process, tmp_path):
    pytest.importorskip("opacus", reason="Opacus is not installed: pip install 'glasshouse[dp]'")
    plan = dataclasses.replace(small, defense="dp_sgd:epsilon=8,delta=1e-3", rounds=2, batch=40)
    promise = federate(plan, tmp_path / "out").promise
    assert "(8, 0.001) over 2 steps at sampling rate 1:" in promise
    assert "for each image of a client, while its secret is one" in promise


@pytest.mark.parametrize(("stop", "code"), [(interrupt, 130), (lambda *_: signal.raise_signal(signal.SIGTERM), 143)])
def test_interrupted_says_how_to_go_on(in_process, tmp_path, monkeypatch, stop, code):
    monkeypatch.setattr("glasshouse.federated.run.simulate", stop)
    done = CliRunner().invoke(app, [*WORDS, "--out", str(tmp_path / "out")])
    assert done.exit_code == code
    assert "Every finished round is kept" in done.stderr


def test_other_directories_are_refused(small, in_process, tmp_path):
    federate(small, tmp_path / "out")
    with pytest.raises(StudyError, match=r"belongs to another federation .* has seed = 0 and not 1"):
        federate(dataclasses.replace(small, seed=1), tmp_path / "out")
    federate(dataclasses.replace(small, timeout=9), tmp_path / "out")  # patience may differ
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(StudyError, match="holds no federation"):
        federate(small, tmp_path / "full")
    with pytest.raises(StudyError, match="is not a federation's directory"):
        read_result(tmp_path / "full")
    (tmp_path / "out" / "rounds" / "000" / "round.json").write_text("{}")
    with pytest.raises(StudyError, match="cannot be read"):
        read_result(tmp_path / "out")


@pytest.mark.soak
def test_any_damaged_file_of_a_round_is_noticed_and_its_round_done_again(small, in_process, tmp_path, record_property):
    whole = federate(small, tmp_path / "whole")
    files = sorted(path.relative_to(whole.directory) for path in whole.directory.glob("rounds/*/*"))
    final = (tmp_path / "whole" / "models" / "global.safetensors").read_bytes()
    dice = random.Random(4)
    for file in files:
        out = Path(shutil.copytree(whole.directory, tmp_path / "out"))
        content = bytearray((out / file).read_bytes())
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        (out / file).write_bytes(content)
        again = federate(small, out)
        assert [one.accuracy for one in again.rounds] == [one.accuracy for one in whole.rounds]
        assert (out / "models" / "global.safetensors").read_bytes() == final
        for one in files:
            if one.name != "round.json":  # which says how long a round took
                assert (out / one).read_bytes() == (whole.directory / one).read_bytes()
        shutil.rmtree(out)
    record_property("counted", f"{len(files)} files with one bit changed")


def test_images_that_changed_are_another_federation(small, in_process, tmp_path):
    digits, labels = load("digits").batch(range(60))
    pixels = (digits * 255).round().byte().permute(0, 2, 3, 1).numpy()
    np.savez(tmp_path / "own.npz", x_train=pixels, y_train=labels.numpy(), x_test=pixels, y_test=labels.numpy())
    plan = dataclasses.replace(small, dataset=str(tmp_path / "own.npz"), images=None, rounds=1)
    federate(plan, tmp_path / "out")
    federate(plan, tmp_path / "out")  # nothing has changed
    np.savez(tmp_path / "own.npz", x_train=255 - pixels, y_train=labels.numpy(), x_test=pixels, y_test=labels.numpy())
    open_pool.cache_clear()  # as in another process
    with pytest.raises(StudyError, match="was begun with other images than"):
        federate(plan, tmp_path / "out")


def test_a_network_that_changed_is_another_federation(small, in_process, tmp_path):
    """Another activation has the same weights, which would go on in silence."""
    file = tmp_path / "net.py"
    text = "from torch import nn\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.{}(), nn.Linear(64, 10))\n"
    file.write_text(text.format("ReLU"))
    plan = dataclasses.replace(small, model=f"{file}:make", rounds=1)
    federate(plan, tmp_path / "out")
    file.write_text(text.format("Sigmoid"))
    with pytest.raises(StudyError, match=r"or with another .*net\.py:make"):
        federate(plan, tmp_path / "out")


def test_a_simulation_and_a_deployment_do_not_go_on_with_each_other(small, in_process, tmp_path):
    federate(small, tmp_path / "out")
    with pytest.raises(StudyError, match="was begun by 'glasshouse federate'"):
        refuse_simulated(tmp_path / "out")
    refuse_simulated(tmp_path / "new")
    (tmp_path / "out" / DATA_FILE).unlink()  # which a deployment does not write
    with pytest.raises(StudyError, match="was begun by 'flwr run'"):
        federate(small, tmp_path / "out")


def test_nobody_took_part(small, in_process, tmp_path):
    plan = dataclasses.replace(small, clients=1, rounds=1)
    in_process["client"] = 0
    with pytest.raises(StudyError, match=r"No client took part in any round\. The first: client 0: no power"):
        federate(plan, tmp_path / "out")


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--split", "fair"], "Unknown split 'fair'"),
        (["--clients", "0"], "clients=0"),
        (["--momentum", "2"], "momentum=2"),
        (["--defense", "csvarr"], "Did you mean 'csvar'"),
        (["--clients", "2000", "--secure-aggregation"], "2000 clients cannot aggregate securely"),
        (["--clients", "2000"], "1500 images are too few for 2000 clients"),
        (["--model", "convnet8"], "at least 9 px"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(in_process, tmp_path, words, match):
    done = CliRunner().invoke(app, ["federate", "--out", str(tmp_path / "out"), *words])
    assert isinstance(done.exception, GlasshouseError)
    assert match in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_without_flower_it_says_what_to_install(small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "flwr", None)
    with pytest.raises(SettingError, match=r"pip install 'glasshouse\[federated\]'"):
        federate(small, tmp_path / "out")


def test_the_environment_and_loggers_are_given_back(monkeypatch):
    import logging
    import os

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")
    before = dict(os.environ)
    with environment({"RAY_USAGE_STATS_ENABLED": "0", "NEW_ONE": "1"}), silent("flwr"):
        os.environ["PYTHONPATH"] = "changed by Flower"
        assert not logging.getLogger("flwr").isEnabledFor(logging.CRITICAL)
    assert dict(os.environ) == before
    assert logging.getLogger("flwr").isEnabledFor(logging.CRITICAL)
