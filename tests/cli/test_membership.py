"""``glasshouse audit --membership``: table, JSON and report, and one-line errors for what cannot be meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glasshouse.cli import main as command
from glasshouse.cli.main import app

NET = "from torch import nn\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A place with a small network, and a finished audit of it."""
    home = tmp_path_factory.mktemp("cli")
    (home / "net.py").write_text(NET)
    done = CliRunner().invoke(app, words(home, "--out", home / "out", "--defense", "none", "--defense", "csvar"))
    assert done.exit_code == 0, done.exception
    return home


def words(home: Path, *more: object) -> list[str]:
    start = ["audit", "--membership", "loss", "--membership", "lira:shadows=4", "--model", f"{home}/net.py:make"]
    data = ["--data", "digits", "--images", 40, "--epochs", 2, "--batch", 8, "--lr", 0.05, "--no-augment"]
    return [str(word) for word in (*start, *data, *more)]


def run(*given: object, width: int = 160):
    return CliRunner().invoke(app, [str(word) for word in given], env={"COLUMNS": str(width)})


def test_the_table_and_the_report(home):
    done = run(*words(home, "--out", home / "out", "--defense", "none", "--defense", "csvar"))
    assert done.exit_code == 0, done.exception
    for part in ("20 members told from 20 others", "lira:shadows=4", "protected", "best balanced", "not estimable"):
        assert part in done.output, part
    assert "Without a defense: AUC" in done.output
    assert "Behind csvar: AUC" in done.output
    assert f"Report: {home / 'out' / 'report' / 'index.html'}" in done.output
    narrow = run(*words(home, "--out", home / "out", "--defense", "none", "--defense", "csvar"), width=100)
    assert "n/a" in narrow.output
    assert "TPR at 0.1 % FPR is not estimable with 20 non-members, 1000 are needed." in narrow.output


def test_json_goes_to_standard_output_and_nothing_else(home):
    done = run(*words(home, "--out", home / "out", "--defense", "none", "--defense", "csvar", "--json"))
    found = json.loads(done.stdout, parse_constant=pytest.fail)
    assert found == json.loads((home / "out" / "membership.json").read_text())
    assert found["training"] == {"epochs": 2, "lr": 0.05, "batch": 8, "augment": False}
    assert found["members"] == 20


def test_minutes_says_how_to_go_on(home, tmp_path):
    done = run(*words(home, "--out", tmp_path / "out", "--minutes", 0))
    assert "5 models are left to train. To go on:" in done.output
    assert (tmp_path / "out" / "report" / "index.html").is_file()


def test_interrupted_says_how_to_go_on(home, tmp_path, monkeypatch, capsys):
    def stop(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("glasshouse.studies.membership.train", stop)
    done = run(*words(home, "--out", tmp_path / "out"))
    assert done.exit_code == 130
    assert "What is finished is kept in" in done.stderr


def test_list_and_show():
    names = json.loads(run("list", "membership", "--json").stdout)
    assert set(names) == {"lira", "loss", "rmia", "shokri"}
    for name in names:
        shown = json.loads(run("show", "membership", name, "--json").stdout)
        assert shown["name"] == name
        assert shown["paper"]
    text = run("show", "membership", "lira").output
    for part in ("Carlini", "anyone who may query", "mode (online|offline, default online)"):
        assert part in text


def refusal(monkeypatch, capsys, given: list[object]) -> str:
    """What the program says on standard error, which must be one line, with exit code 2."""
    monkeypatch.setattr("sys.argv", ["glasshouse", *map(str, given)])
    with pytest.raises(SystemExit) as stopped:
        command.main()
    said = capsys.readouterr()
    assert stopped.value.code == 2
    assert said.out == ""
    assert said.err.startswith("glasshouse: ")
    assert said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["--attack", "invgrad"], "--attack"),
        (["--metric", "psnr", "--steps", 5], "--metric, --steps"),
        (["--bn", "eval"], "--bn"),
        (["--labels", "given"], "--labels"),
        (["--engine", "local", "--workers", 2], "--engine, --workers"),
    ],
)
def test_options_that_mean_nothing_here(home, tmp_path, monkeypatch, capsys, given, named):
    said = refusal(monkeypatch, capsys, words(home, "--out", tmp_path / "out", *given))
    assert f"{named} means nothing for membership: with --membership use --members" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("given", [["--members", "5"], ["--epochs", "3"], ["--lr", "0.1"], ["--no-augment"]])
def test_options_that_mean_nothing_elsewhere(monkeypatch, capsys, given):
    said = refusal(monkeypatch, capsys, ["audit", *given])
    assert f"{given[0].replace('no-', '')} means nothing without --membership" in said


def test_other_refusals(home, tmp_path, monkeypatch, capsys):
    out = ["--out", tmp_path / "out"]
    for given, match in (
        (["audit", "--membership", "lirra", *out], "Did you mean 'lira'"),
        (["audit", "--membership", "lira", "--data", "photos", *out], "too few for 20 candidates"),
        (["audit", "--membership", "lira", "--weights", "w.safetensors", *out], "go together"),
        (["audit", "--membership", "lira", "--protected", home, "--gallery", home, *out], "--membership means nothing"),
    ):
        assert match in refusal(monkeypatch, capsys, given)
    assert not (tmp_path / "out").exists()
