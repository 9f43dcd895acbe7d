"""The command line as people use it: real processes, real exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from glasshouse.attacks import attacks
from glasshouse.cli.main import app, main
from glasshouse.errors import GlasshouseError

SMALL = ["--data", "photos:size=16", "--images", "1", "--model", "lenet:width=4", "--attack", "invgrad:steps=3"]
QUICK = [*SMALL, "--defense", "none", "--metric", "psnr", "--engine", "inline"]


def invoke(*words: str):
    """Run a command in this process; a GlasshouseError comes out as such."""
    result = CliRunner().invoke(app, list(words))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_audit_json_goes_to_standard_output_and_nothing_else(glasshouse, tmp_path):
    done = glasshouse("audit", *QUICK, "--out", str(tmp_path / "study"), "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == json.loads((tmp_path / "study" / "audit.json").read_text())
    assert (tmp_path / "study" / "report" / "index.html").is_file()


def test_audit_prints_a_table_and_says_where_the_report_is(tmp_path):
    done = invoke("audit", *QUICK, "--out", str(tmp_path / "study"))
    assert "psnr" in done.output
    assert str(tmp_path / "study" / "report" / "index.html") in done.output.replace("\n", "")
    again = invoke("report", str(tmp_path / "study"))
    assert "index.html" in again.output.replace("\n", "")


def test_errors_are_one_line_and_exit_code_two(glasshouse, tmp_path):
    done = glasshouse("audit", "--attack", "invgard", "--out", str(tmp_path / "study"))
    assert done.returncode == 2
    assert done.stdout == ""
    known = ", ".join(attacks.names())
    assert done.stderr == f"glasshouse: Unknown attack 'invgard'. Did you mean 'invgrad'? Known: {known}.\n"


@pytest.mark.parametrize(
    "wrong",
    [
        ("--attack", "dlg", "--local-lr", "0.1"),
        ("--data", "phots"),
        ("--memory", "0.01", "--attack", "invgrad:restarts=5000"),
    ],
)
def test_an_audit_that_is_refused_leaves_nothing(tmp_path, wrong):
    with pytest.raises(GlasshouseError):
        invoke("audit", *QUICK, *wrong, "--out", str(tmp_path / "outer" / "study"))
    assert not list(tmp_path.iterdir())


def test_other_exceptions_are_bugs_and_show_themselves(monkeypatch):
    monkeypatch.setattr("glasshouse.cli.main.app", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main()


#: The command line of a person at a terminal: who starts processes from a server has them ignore the interrupt.
AT_A_TERMINAL = """
import os, signal
os.setpgrp()
signal.signal(signal.SIGINT, signal.default_int_handler)
from glasshouse.cli.main import main
main()
"""


def test_interrupted_says_how_to_go_on(started, tmp_path):
    words = ["audit", *SMALL[:-1], "invgrad:steps=100000", "--defense", "none", "--metric", "psnr"]
    command = started(AT_A_TERMINAL, *words, "--out", str(tmp_path / "study"))
    deadline = time.monotonic() + 60
    while not (tmp_path / "study" / "glasshouse.db").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(2)
    os.kill(command.process.pid, signal.SIGINT)
    done = command.ended()
    assert done.returncode == 130
    assert "To go on:" in done.stderr
    assert "invgrad:steps=100000" in done.stderr
    assert "Traceback" not in done.stderr


def test_minutes_says_how_to_go_on(tmp_path):
    done = invoke("audit", *QUICK, "--out", str(tmp_path / "study"), "--minutes", "0")
    assert "1 of 1 cases are left" in done.output


def test_an_own_model_with_weights_on_a_folder_with_bad_files(tmp_path):
    pictures = tmp_path / "pictures" / "cat"
    pictures.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number in range(3):
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(pictures / f"{number}.png")
    (pictures / "bad.png").write_bytes(b"")
    (tmp_path / "net.py").write_text(
        "from torch import nn\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(768, 5))\n"
    )
    words = ["audit", "--model", f"{tmp_path}/net.py:make", "--data", str(tmp_path / "pictures"), "--images", "2"]
    words += ["--attack", "invgrad:steps=2", "--defense", "none", "--metric", "mse", "--engine", "inline"]
    done = invoke(*words, "--out", str(tmp_path / "o"))
    assert "skipped cat/bad.png" in done.output
    found = json.loads((tmp_path / "o" / "audit.json").read_text())
    assert found["skipped"] == ["cat/bad.png: bad.png is empty (0 bytes): remove it or copy it again."]


@pytest.mark.parametrize("what", ["attacks", "defenses", "metrics", "models", "datasets"])
def test_list_and_show_everything(what):
    names = json.loads(invoke("list", what, "--json").stdout)
    assert len(invoke("list", what).output.splitlines()) == len(names)
    for name in names:
        shown = json.loads(invoke("show", what.removesuffix("s"), name, "--json").stdout)
        assert shown["name"] == name
        assert "settings" in invoke("show", what, name).output


def test_show_says_what_the_attacker_must_know():
    text = invoke("show", "attack", "invgrad").output
    for part in ("Geiping", "needs: gradient", "honest-but-curious server", "tv (float, default 0.0001)"):
        assert part in text
    assert "takes updates: yes" in text
    assert "takes updates: no" in invoke("show", "attack", "dlg").output
    assert [line.split()[0] for line in invoke("list", "attacks").output.splitlines() if "weight updates" in line] == [
        "gradattack",
        "invgrad",
        "unshuffle",
    ]


def test_unknown_kinds_and_names():
    with pytest.raises(GlasshouseError, match="Did you mean 'attacks'"):
        invoke("list", "atacks")
    with pytest.raises(GlasshouseError, match="Did you mean 'psnr'"):
        invoke("show", "metric", "psn")


def test_doctor(tmp_path):
    found = json.loads(invoke("doctor", "--json", "--data-root", str(tmp_path)).stdout)
    assert found["versions"]["torch"]
    assert found["data"]["photos"] == "embedded"
    assert found["data"]["cifar10"].startswith("missing: wants cifar10.npz")
    assert set(found["weights"]) >= {"alexnet", "lpips_alex", "inception_fid"}
    assert "weights:" in invoke("doctor").output


def test_weights_list_and_install_what_is_here():
    from glasshouse.weights import where

    assert "lpips_alex" in invoke("weights", "list").output
    if where("lpips_alex") is None:
        pytest.skip("the weights are not here: run 'glasshouse weights install'")
    assert "lpips_alex: " in invoke("weights", "install", "lpips_alex").output
    with pytest.raises(GlasshouseError, match="Unknown weights"):
        invoke("weights", "install", "lpips_alexx")


def test_gate_exit_codes(tmp_path):
    out = str(tmp_path / "study")
    invoke("audit", *QUICK, "--out", out)
    assert invoke("gate", out, "--max", "psnr=90").exit_code == 0
    closed = invoke("gate", out, "--max", "psnr=1")
    assert closed.exit_code == 1
    assert closed.output.count("\n") == 1


def test_train_then_audit_beside_the_fresh_model(tmp_path):
    weights = tmp_path / "digits.safetensors"
    words = ["train", str(weights), "--model", "lenet:width=4", "--data", "digits", "--images", "200", "--epochs", "2"]
    trained = json.loads(invoke(*words, "--lr", "0.01", "--json").stdout)
    assert 0 <= trained["test_accuracy"] <= 1
    assert "test accuracy" in invoke(*words, "--defense", "gaussian:sigma=0.1,at=training").output
    out = tmp_path / "study"
    words = ["audit", "--model", "lenet:width=4", "--weights", str(weights), "--data", "digits", "--images", "1"]
    words += ["--attack", "invgrad:steps=2", "--defense", "none", "--metric", "mse", "--engine", "inline"]
    invoke(*words, "--out", str(out))
    rounds = {row["threat"]["round"] for row in json.loads((out / "audit.json").read_text())["rows"]}
    assert rounds == {"0", "trained"}
    with pytest.raises(GlasshouseError, match="safetensors"):
        invoke("train", str(tmp_path / "weights.pt"))
    with pytest.raises(GlasshouseError, match="add at=training"):
        invoke("train", str(weights), "--defense", "gaussian")


def commands(group: object, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    named = getattr(group, "commands", {}).items()
    return [words, *(found for name, one in named for found in commands(one, (*words, name)))]


@pytest.mark.parametrize("words", commands(typer.main.get_command(app)), ids=" ".join)
def test_help_is_there_for_every_command(words):
    text = invoke(*words, "--help").output
    assert "Usage" in text
    assert "\\" not in text


def test_the_written_help_is_true():
    """docs/cli.md is generated by docs/generate_cli.py; a change of an option must change it."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(root / "docs" / "generate_cli.py"), "--check"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_audit_of_which_every_case_failed_is_an_error(glasshouse, tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch\nfrom torch import nn\n\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(768, 10)\n"
        "    def forward(self, x):\n        return torch.sqrt(self.fc(x.flatten(1)).abs() * 0)\n"
    )
    words = [
        "audit",
        "--model",
        f"{tmp_path}/net.py:Net",
        "--data",
        "photos:size=16",
        "--images",
        "1",
        "--engine",
        "inline",
    ]
    done = glasshouse(
        *words, "--attack", "invgrad:steps=1", "--defense", "none", "--metric", "mse", "--out", str(tmp_path / "o")
    )
    assert done.returncode == 2
    assert "Every case failed. The first: The gradient of fc.weight is NaN or infinite" in done.stderr
