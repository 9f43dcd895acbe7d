"""Ctrl-C and SIGTERM end a long command alike: nothing finished is lost, and the last line says how to go on."""

from __future__ import annotations

import signal

import pytest
from typer.testing import CliRunner

from glasshouse.cli.main import app
from glasshouse.signals import Terminated, sigterm_kept, terminable
from glasshouse.studies.grid.plan import Grid, to_toml

QUICK = ["--data", "photos:size=16", "--images", "1", "--model", "lenet:width=4", "--attack", "invgrad:steps=3"]
AUDIT = ["audit", *QUICK, "--defense", "none", "--metric", "mse", "--engine", "inline", "--out"]


def interrupt(*given, **options):
    raise KeyboardInterrupt


def terminate(*given, **options):
    signal.raise_signal(signal.SIGTERM)


@pytest.fixture(params=[(interrupt, 130), (terminate, 143)], ids=["Ctrl-C", "SIGTERM"])
def ended(request):
    return request.param


def go_on(words: list[str], code: int, monkeypatch) -> None:
    """Run a command that is ended by something, and see that it says how to go on."""
    monkeypatch.setattr("sys.argv", ["glasshouse", *words])
    before = signal.getsignal(signal.SIGTERM)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == code, done.exception
    assert "Interrupted. What is finished is kept in " in done.stderr
    assert done.stderr.endswith(f"To go on:\n  glasshouse {' '.join(words)}\n")
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_audit(tmp_path, monkeypatch, ended):
    stop, code = ended
    monkeypatch.setattr("glasshouse.studies.audit.attack", stop)
    go_on([*AUDIT, str(tmp_path / "study")], code, monkeypatch)
    assert (tmp_path / "study" / "audit.json").is_file()


def test_a_study(tmp_path, monkeypatch, ended):
    stop, code = ended
    sizes = {"training_images": 16, "training_batch": 16, "epochs": 1, "checkpoints": (1,), "images": 2}
    plan = Grid(title="t", datasets=("digits:size=16",), models=("lenet:width=4",), metrics=("mse",), **sizes)
    (tmp_path / "study.toml").write_text(to_toml(plan))
    monkeypatch.setattr("glasshouse.studies.grid.program.train", stop)
    go_on(["study", "run", str(tmp_path), "--engine", "inline"], code, monkeypatch)
    assert (tmp_path / "study.json").is_file()


def test_who_takes_sigterm_for_itself_gives_it_back():
    """Ray does as it begins, and would exit with 1 and without a word."""
    with terminable():
        handled = signal.getsignal(signal.SIGTERM)
        with sigterm_kept():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGTERM) is handled
        with pytest.raises(Terminated):
            terminate()
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Ray may have begun in this process
    with sigterm_kept():
        signal.signal(signal.SIGTERM, interrupt)
    assert signal.signal(signal.SIGTERM, before) is interrupt  # where nobody minded, Ray does
