"""``glasshouse audit --protected``: table, JSON and report, and one-line errors for what cannot be meant."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from glasshouse.cli import main as command
from glasshouse.cli.main import app
from glasshouse.collection import protect
from glasshouse.data import load
from glasshouse.studies import protected as module

KEY = bytes(range(32))


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Eight digits of 8 pixels in classes with hostile names, protected in two versions."""
    from PIL import Image

    home = tmp_path_factory.mktemp("cli")
    images, labels = load("digits").batch(range(8))
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        path = home / "in" / f"<script>{int(label)}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image[0] * 255).round().byte().numpy()).save(path)
    protect(home / "in", home / "<script>protected", key=KEY, epochs=2)
    return home


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "FEWEST", 20)


def words(home: Path, *more: object) -> list[str]:
    start = ["audit", "--protected", home / "<script>protected", "--gallery", home / "in", "--steps", 2, "--images", 4]
    return [str(word) for word in (*start, *more)]


def test_the_table_and_the_report(home, tmp_path):
    done = CliRunner().invoke(app, words(home, "--out", tmp_path / "out"), env={"COLUMNS": "160"})
    assert done.exit_code == 0, done.exception
    text = done.output
    for part in ("A thumbnail", "C jigsaw", "D learned inverse", "baseline: blur", "n/a", "Who is who (gallery of 8)"):
        assert part in text, part
    assert "re-identified: region moments" in text
    assert "100% [51%, 100%]" in text  # four of four
    assert f"Report: {tmp_path / 'out' / 'report' / 'index.html'}" in text
    page = (tmp_path / "out" / "report" / "index.html").read_text(encoding="utf-8")
    assert page.count("<script") == 1  # what saves tables and figures, on every page
    assert "SSIM is not defined under 11 px" in page


def test_json_goes_to_standard_output_and_nothing_else(home, tmp_path):
    done = CliRunner().invoke(app, words(home, "--out", tmp_path / "out", "--json", "--seed", 3))
    assert done.exit_code == 0, done.exception
    found = json.loads(done.stdout, parse_constant=pytest.fail)
    assert found == json.loads((tmp_path / "out" / "protected.json").read_text())
    assert (found["schema"], found["images"], found["gallery"], found["seed"]) == (1, 4, 8, 3)
    assert (tmp_path / "out" / "report" / "index.html").is_file()


def test_more_images_than_the_usual_gallery_can_be_asked_for(home, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(module, "attack", lambda held, budget, **options: seen.append(held) or 1 / 0)
    for asked in (5000, 5):
        done = CliRunner().invoke(app, words(home, "--out", tmp_path / "out", "--images", asked))
        assert isinstance(done.exception, ZeroDivisionError), done.exception
    assert [len(held.versions[0]) for held in seen] == [8, 5]


def refusal(monkeypatch, capsys, given: list[str]) -> str:
    """What the program says on standard error, which must be one line, with exit code 2."""
    monkeypatch.setattr("sys.argv", ["glasshouse", *given])
    with pytest.raises(SystemExit) as stopped:
        command.main()
    said = capsys.readouterr()
    assert stopped.value.code == 2
    assert said.out == ""
    assert said.err.startswith("glasshouse: ")
    assert said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize("option", ["--protected", "--gallery"])
def test_one_without_the_other(home, monkeypatch, capsys, option):
    said = refusal(monkeypatch, capsys, ["audit", option, str(home / "in")])
    assert "--protected and --gallery go together" in said


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["--attack", "invgrad"], "--attack"),
        (["--defense", "csvar"], "--defense"),
        (["--model", "lenet"], "--model"),
        (["--data", "photos"], "--data"),
        (["--bn", "eval"], "--bn"),
        (["--size", "32", "--metric", "psnr"], "--size, --metric"),
        (["--engine", "local"], "--engine"),
        (["--workers", "2"], "--workers"),
        (["--minutes", "1"], "--minutes"),
        (["--data-root", "/tmp"], "--data-root"),
        (["--download"], "--download"),
    ],
)
def test_options_that_mean_nothing_here(home, tmp_path, monkeypatch, capsys, given, named):
    said = refusal(monkeypatch, capsys, words(home, "--out", tmp_path / "out", *given))
    assert f"{named} means nothing for protected images: with --protected use --images" in said
    assert not (tmp_path / "out").exists()


def test_wrong_places(home, tmp_path, monkeypatch, capsys):
    sent, raw, out = (str(one) for one in (home / "<script>protected", home / "in", tmp_path / "out"))
    (tmp_path / "none").mkdir()
    np.savez(tmp_path / "other.npz", x_train=np.zeros((2, 8, 8), np.uint8))
    for place, gallery, match in (
        (raw, raw, "is this a protected data set?"),
        (sent, str(tmp_path / "none"), "has the name of a protected one"),
        (sent, str(tmp_path / "other.npz"), "has the name of a protected one"),
        (sent, str(tmp_path / "missing"), "neither a directory nor an .npz file"),
    ):
        said = refusal(monkeypatch, capsys, ["audit", "--protected", place, "--gallery", gallery, "--out", out])
        assert match in said
    said = refusal(monkeypatch, capsys, words(home, "--out", sent))
    assert "lies in the protected data set" in said
    said = refusal(monkeypatch, capsys, [*words(home, "--out", out), "--images", "0"])
    assert "images=0 is out of range" in said
