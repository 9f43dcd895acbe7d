"""``glasshouse semsim`` on the command line, from votes to scores."""

from __future__ import annotations

import csv
import io
import json

import pytest
from tests.judged_study import make_study, vote
from typer.testing import CliRunner

from glasshouse import cli
from glasshouse.cli.main import app
from glasshouse.errors import DataError, GlasshouseError
from glasshouse.semsim.files import SHIPPED, digest
from glasshouse.studies import judging, teaching
from glasshouse.studies.pictures import to_pixels, to_png
from glasshouse.studies.semsim import Lesson


def invoke(*words: object):
    result = CliRunner().invoke(app, ["semsim", *map(str, words)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    room = tmp_path_factory.mktemp("judged")
    made = []
    for place, dataset in enumerate(("first.npz", "second.npz")):
        made.append(make_study(room / dataset, dataset=dataset, first=40 * place))
        vote(made[-1], ("alexnet lineup 4",))
        vote(made[-1], ("efficientnet_lite0 lineup 4", "inception_v3 lineup 4"))
    return made


@pytest.fixture(autouse=True)
def cheap_lpips(monkeypatch):
    monkeypatch.setattr(teaching, "SIGNS", ("mse", "ssim"))


def test_train_says_whose_judgements_and_overwrites_nothing(studies, tmp_path):
    file = tmp_path / "own.safetensors"
    words = ("train", *studies, "--out", file, "--backbone", "lenet", "--epochs", 1, "--leave-out", "second.npz")
    output = invoke(*words).output
    assert "Judges: classifier: alexnet lineup 4. Data sets: first.npz." in output
    assert "of pairs of guesses of held-out originals in the right order" in output
    assert file.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    before = file.read_bytes()
    with pytest.raises(GlasshouseError, match="is there already"):
        invoke(*words)
    assert file.read_bytes() == before
    with pytest.raises(GlasshouseError, match="judges=robots"):
        invoke("train", *studies, "--out", tmp_path / "b.safetensors", "--judges", "robots")
    with pytest.raises(GlasshouseError, match="no human votes"):
        invoke("train", *studies, "--out", tmp_path / "b.safetensors", "--judges", "human")


@pytest.mark.parametrize("chance", [-1.0, 1.0])
def test_a_network_that_learned_little_is_called_so(studies, tmp_path, monkeypatch, chance):
    monkeypatch.setattr(cli.semsim, "CHANCE", chance)
    words = ("train", *studies, "--out", tmp_path / "own.safetensors", "--backbone", "lenet", "--epochs", 1)
    assert ("That may be chance" in invoke(*words).output) == (chance == 1)


def test_train_writes_nothing_over_anything(studies, tmp_path, monkeypatch):
    monkeypatch.setattr(Lesson, "learn", lambda *anything: pytest.fail("it was trained"))
    with pytest.raises(GlasshouseError, match=r"net\.png does not end in \.safetensors"):
        invoke("train", *studies, "--out", tmp_path / "net.png")
    (tmp_path / "own.png").write_bytes(b"precious")
    with pytest.raises(GlasshouseError, match=r"own\.png is there already"):
        invoke("train", *studies, "--out", tmp_path / "own.safetensors", "--backbone", "lenet")
    assert (tmp_path / "own.png").read_bytes() == b"precious"
    with pytest.raises(GlasshouseError, match=r"Cannot write to .*own\.png \(File exists\): choose another --out"):
        invoke("train", *studies, "--out", tmp_path / "own.png" / "own.safetensors", "--backbone", "lenet")
    assert [path.name for path in tmp_path.iterdir()] == ["own.png"]


def test_score_in_three_forms(tmp_path, photos):
    for name, images in (("truth", photos), ("guess", photos.flip(3))):
        (tmp_path / name).mkdir()
        for number, image in enumerate(images):
            (tmp_path / name / f"{number}.png").write_bytes(to_png(to_pixels(image)))
    folders = tmp_path / "truth", tmp_path / "guess"
    found = json.loads(invoke("score", *folders, "--json").stdout)
    pairs = found["pairs"]
    assert found["network"] == digest(SHIPPED)
    assert found["mean"] == pytest.approx(sum(one["semsim"] for one in pairs) / 4)
    assert found["mean_low"] < found["mean"] < found["mean_high"]
    rows = list(csv.DictReader(io.StringIO(invoke("score", *folders, "--csv").stdout)))
    assert [row["name"] for row in rows] == [pair["name"] for pair in pairs]
    assert [float(row["semsim"]) for row in rows] == pytest.approx([pair["semsim"] for pair in pairs])
    assert "of 4 pairs; low values leak" in invoke("score", *folders).output
    with pytest.raises(GlasshouseError, match="two forms of one answer"):
        invoke("score", *folders, "--json", "--csv")
    (tmp_path / "guess" / "1.png").unlink()
    with pytest.raises(GlasshouseError, match="lacks 1 of 4 pictures"):
        invoke("score", *folders)


def test_evaluate_and_ablate_write_pictures(studies, tmp_path):
    common = (*studies, "--backbone", "lenet", "--epochs", 1)
    out = tmp_path / "evaluation"
    printed = json.loads(
        invoke("evaluate", *common, "--axes", "data set", "--metrics", "psnr", "--out", out, "--json").stdout
    )
    written = json.loads((out / "evaluation.json").read_text())
    assert written.pop("asked")["axes"] == ["data set"]
    assert written == printed
    assert [test["left_out"] for test in printed["tests"]] == ["first.npz", "second.npz"]
    names = sorted(path.name for path in (out / "data-set-first.npz").iterdir())
    assert names == ["metric-against-classifiers.png", "metric-against-metric.png", "order-0.png", "order-1.png"]
    tried = ("--sizes", "10,500", "--backbones", "lenet", "--losses", "", "--margins", "0.5")
    output = invoke("ablate", *common, *tried, "--out", tmp_path / "ablation").output
    assert "Tested on first.npz" in output
    assert "Sizes above 12 were not tried: there are no more originals." in output
    assert (tmp_path / "ablation" / "ablation.png").read_bytes().startswith(b"\x89PNG")
    rows = json.loads((tmp_path / "ablation" / "ablation.json").read_text())["rows"]
    assert [row["value"] for row in rows] == ["0", "10", "12", "lenet", "0.5"]
    with pytest.raises(GlasshouseError, match="axes=colour"):
        invoke("evaluate", *common, "--axes", "colour")
    with pytest.raises(GlasshouseError, match="no list of numbers"):
        invoke("ablate", *common, "--margins", "wide")


def test_what_is_asked_for_is_looked_at_before_the_first_training(studies, monkeypatch):
    monkeypatch.setattr(Lesson, "learn", lambda *anything: pytest.fail("it was trained"))
    for words, said in (
        (("evaluate", "--metrics", "psnrr"), "Unknown metric 'psnrr'"),
        (("evaluate", "--backbone", "lenett"), "backbone=lenett is not known"),
        (("ablate", "--backbones", "lenet,lenett"), "backbone=lenett is not known"),
        (("ablate", "--sizes", "nan"), "sizes=nan is no list of whole numbers"),
        (("ablate", "--sizes=-3"), "sizes=-3 is out of range"),
        (("ablate", "--sizes", "", "--backbones", "", "--losses", "", "--margins", ""), "nothing to try"),
    ):
        with pytest.raises(GlasshouseError, match=said):
            invoke(*words, *studies)


def test_an_ablation_that_is_cut_short_keeps_what_it_found_and_goes_on(studies, tmp_path, monkeypatch):
    learn, lessons = Lesson.learn, []

    def interrupted(self, some):
        lessons.append(self)
        if len(lessons) > 1:
            raise OSError("power cut")
        return learn(self, some)

    monkeypatch.setattr(Lesson, "learn", interrupted)
    words = ("ablate", *studies, "--backbone", "lenet", "--sizes", "", "--backbones", "", "--losses", "rank,triplet")
    words = (*words, "--margins", "", "--out", tmp_path)
    kept = lambda: json.loads((tmp_path / "ablation.json").read_text())["rows"]  # noqa: E731
    with pytest.raises(OSError, match="power cut"):
        invoke(*words, "--epochs", 1)
    (first,) = kept()
    with pytest.raises(GlasshouseError, match="of one with other lesson: choose another --out"):
        invoke(*words, "--epochs", 2)
    with pytest.raises(GlasshouseError, match="of one with other originals: choose another --out"):
        invoke(*words, "--epochs", 1, "--originals", 10)
    monkeypatch.setattr(Lesson, "learn", learn)
    invoke(*words, "--epochs", 1)
    assert kept()[0] == first
    assert [row["value"] for row in kept()] == ["rank", "triplet"]
    monkeypatch.setattr(Lesson, "learn", lambda *anything: pytest.fail("it was trained again"))
    assert "Tested on first.npz" in invoke(*words, "--epochs", 1).output
    (tmp_path / "ablation.json").write_text("{}")
    with pytest.raises(GlasshouseError, match="cannot be gone on with"):
        invoke(*words, "--epochs", 1)


def test_an_evaluation_that_is_cut_short_keeps_what_it_found_and_goes_on(studies, tmp_path, monkeypatch):
    learn, lessons = Lesson.learn, []

    def interrupted(self, some, *given):
        lessons.append(self)
        if len(lessons) > 1:
            raise OSError("power cut")
        return learn(self, some, *given)

    monkeypatch.setattr(Lesson, "learn", interrupted)
    words = ("evaluate", *studies, "--backbone", "lenet", "--axes", "data set", "--metrics", "psnr", "--out", tmp_path)
    kept = lambda: json.loads((tmp_path / "evaluation.json").read_text())["tests"]  # noqa: E731
    with pytest.raises(OSError, match="power cut"):
        invoke(*words, "--epochs", 1)
    (first,) = kept()
    with pytest.raises(GlasshouseError, match="is there already, of one with other lesson: choose another --out"):
        invoke(*words, "--epochs", 2)
    assert len(lessons) == 2  # it was refused before anything was trained
    monkeypatch.setattr(Lesson, "learn", learn)
    printed = json.loads(invoke(*words, "--epochs", 1, "--json").stdout)
    assert [test["left_out"] for test in kept()] == ["first.npz", "second.npz"]
    assert printed["tests"] == kept()
    assert kept()[0] == first
    monkeypatch.setattr(Lesson, "learn", lambda *anything: pytest.fail("it was trained again"))
    assert "data set second.npz" in invoke(*words, "--epochs", 1).output
    (tmp_path / "evaluation.json").write_text("[]")
    with pytest.raises(GlasshouseError, match="cannot be gone on with"):
        invoke(*words, "--epochs", 1)


def test_an_evaluation_without_any_test_is_an_error(studies, monkeypatch):
    def hopeless(self, some, *given):
        raise DataError("The votes are one-sided.")

    monkeypatch.setattr(Lesson, "learn", hopeless)
    with pytest.raises(DataError, match=r"No test could be made\. first\.npz: The votes are one-sided\."):
        invoke("evaluate", *studies, "--axes", "data set", "--metrics", "psnr")


def test_judge_tells_what_judges_can_do(studies, monkeypatch):
    skill = {"dataset": "d", "eye": "alexnet", "teaches": True, "way": "probe", "accuracy": {"mean": 0.5}}
    monkeypatch.setattr(judging, "judge", lambda study, **settings: judging.Cast(3, 4))
    monkeypatch.setattr(judging, "skills", lambda study: [skill])
    output = invoke("judge", studies[0], "--eyes", "alexnet, vgg16").output
    assert "3 votes of 2 eyes now, 4 pictures were judged already" in output
    assert "d alexnet (teaches): probe, 50% of clean images right" in output
