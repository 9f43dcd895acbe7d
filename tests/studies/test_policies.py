"""The policy search: scores against slow versions, what they mean, and files that go on."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from typer.testing import CliRunner

from glasshouse import data, models
from glasshouse.cli.main import app
from glasshouse.defenses import create
from glasshouse.errors import DataError, ModelError, SettingError, StudyError, WeightsError
from glasshouse.studies import policies as room
from glasshouse.studies.policies import (
    Search,
    accuracy_score,
    candidates,
    privacy_score,
    search,
)
from glasshouse.training import Recipe, fit

SMALL = Search(model="lenet:width=4", dataset="photos:size=16", images=2, epochs=1)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def half_trained():
    """A small residual network after one pass over a few hundred digits, and other digits."""
    found = data.load("digits:split=train")
    model = models.create("resnet20:width=8", found.spec)
    fit(model, *found.batch(range(512)), Recipe(epochs=2, batch=64, augment=False))
    return model, *data.load("digits").batch(range(8))


def test_privacy_against_a_slow_loop(photos):
    """As the authors' code computes it: every parameter's cosine by torch, trapezoids one by one."""
    model = models.create("lenet:width=4", data.load("photos").spec)
    labels, noise = torch.tensor([2, 5]), torch.rand(2, 3, 32, 32, generator=rng())

    def gradients(image, label):
        model.zero_grad()
        F.cross_entropy(model(image[None]), label[None]).backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    areas = []
    for image, label, start in zip(photos[:2], labels, noise, strict=True):
        own, curve = gradients(image, label), []
        for step in range(21):
            between = gradients(step / 20 * image + (20 - step) / 20 * start, label)
            pairs = zip(own, between, strict=True)
            curve.append(np.mean([float(F.cosine_similarity(a.view(1, -1), b.view(1, -1))) for a, b in pairs]))
        areas.append(np.trapezoid(curve, dx=1 / 20))
    assert privacy_score(model, photos[:2], labels, noise) == pytest.approx(np.mean(areas), abs=1e-5)


def test_accuracy_against_numpy(photos):
    model = models.create("resnet20:width=8", data.load("photos").spec)
    rows = []
    for image in photos:
        inputs = image[None].clone().requires_grad_()
        model(inputs).sum().backward()
        rows.append(inputs.grad.flatten().double().numpy())
    values = np.linalg.eig(np.corrcoef(np.stack(rows)))[0].real
    expected = -np.sum(np.log(values + 1e-5) + 1 / (values + 1e-5))
    assert accuracy_score(model, photos) == pytest.approx(expected, rel=1e-4)
    assert accuracy_score(model, photos) < -4


def test_what_the_scores_mean(half_trained):
    """An image itself shows the way to it best; a strong policy hides it; equal images leave nothing to learn."""
    model, images, labels = half_trained
    noise = torch.rand(images.shape, generator=rng())
    scores = {
        policy: privacy_score(model, create(f"ats:policy={policy}").on_images(images, rng=rng()), labels, noise)
        for policy in ("39-39-39", "3-3-3")
    }
    assert scores["3-3-3"] < scores["39-39-39"] - 0.05
    assert privacy_score(model, images, labels, images) == pytest.approx(1)
    assert accuracy_score(model, images[:1].repeat(8, 1, 1, 1)) < 100 * accuracy_score(model, images)
    assert np.isfinite(accuracy_score(model, torch.zeros_like(images)))


def test_candidates_are_different_and_a_longer_list_begins_alike():
    assert candidates(20, 3) == candidates(50, 3)[:20]
    assert candidates(20, 3) != candidates(20, 4)
    assert len(set(candidates(2000, 0))) == 2000
    numbers = {int(number) for policy in candidates(2000, 0) for number in policy.split("-")}
    assert numbers == set(range(50))
    with pytest.raises(SettingError, match="candidates=0"):
        candidates(0, 0)


def test_the_best_are_the_most_private_above_the_threshold(tmp_path):
    found = search(SMALL, tmp_path / "p.json", count=5, policies=["3-1-7", "39-39-39"], keep=2)
    assert [one.policy for one in found.scored] == ["3-1-7", "39-39-39", *candidates(5, 0)]
    by_name = {one.policy: one for one in found.scored}
    assert (by_name["39-39-39"].privacy, by_name["39-39-39"].accuracy) == (found.plain.privacy, found.plain.accuracy)
    assert found.threshold == np.median([one.accuracy for one in found.scored])
    able = [one.privacy for one in found.scored if one.accuracy >= found.threshold]
    assert len(able) == 4
    assert [one.privacy for one in found.best] == sorted(able)[:2]
    lowest = min(one.accuracy for one in found.scored)
    assert len(search(SMALL, tmp_path / "p.json", count=5, threshold=lowest - 1).best) == 5
    assert search(SMALL, tmp_path / "p.json", count=5, threshold=0).best == ()


def test_a_search_goes_on_and_repeats_by_seed(tmp_path, monkeypatch):
    whole = search(SMALL, tmp_path / "whole.json", count=4)
    part = search(SMALL, tmp_path / "part.json", count=4, minutes=0)
    assert part.left == 4
    worked = []
    score = room._Table.score
    monkeypatch.setattr(room._Table, "score", lambda self, *words: worked.append(words[0]) or score(self, *words))
    heard = []
    rest = search(SMALL, tmp_path / "part.json", count=4, advance=lambda done, total: heard.append((done, total)))
    assert worked == candidates(4, 0)
    assert rest == whole
    assert heard[-1] == (6, 6)
    assert (tmp_path / "part.json").read_text() == (tmp_path / "whole.json").read_text()
    other = search(Search(**{**SMALL.__dict__, "seed": 1}), tmp_path / "other.json", count=4)
    assert other.plain != whole.plain


def test_own_weights_and_few_images(tmp_path):
    search(SMALL, tmp_path / "p.json", count=1)
    weights = tmp_path / "p.json.safetensors"
    settings = Search(**{**SMALL.__dict__, "weights": str(weights), "batch": 4, "batches": 9})
    found = search(settings, tmp_path / "q.json", count=1)
    assert found.plain.privacy == search(SMALL, tmp_path / "p.json", count=1).plain.privacy
    assert -4 * 1000 < found.plain.accuracy <= -4
    assert not (tmp_path / "q.json.safetensors").exists()
    weights.unlink()
    with pytest.raises(WeightsError, match="no weights file"):
        search(SMALL, tmp_path / "p.json", count=1)


def test_other_searches_and_other_files_are_refused(tmp_path):
    out = tmp_path / "p.json"
    search(SMALL, out, count=1)
    with pytest.raises(StudyError, match="belongs to another search"):
        search(Search(**{**SMALL.__dict__, "images": 3}), out, count=1)
    weights = tmp_path / "other.safetensors"
    search(Search(**{**SMALL.__dict__, "epochs": 2}), tmp_path / "other", count=1)
    with pytest.raises(StudyError, match="other weights or images"):
        search(Search(**{**SMALL.__dict__, "weights": str(weights)}), out, count=1)
    for text in ("", "[]", "{}", '{"schema": 1, "scores": [{"policy": 1}]}'):
        out.write_text(text)
        with pytest.raises(StudyError, match="holds no policy search"):
            search(SMALL, out, count=1)
        assert out.read_text() == text


def test_bad_input(tmp_path):
    out = tmp_path / "p.json"
    with pytest.raises(SettingError, match="batch=1"):
        Search(batch=1)
    with pytest.raises(SettingError, match="sub-policy 77"):
        search(SMALL, out, count=1, policies=["77"])
    with pytest.raises(SettingError, match="images=99"):
        search(Search(**{**SMALL.__dict__, "images": 99}), out, count=1)
    with pytest.raises(DataError, match="no file"):
        search(Search(**{**SMALL.__dict__, "dataset": "nothing.npz"}), out, count=1)
    assert list(tmp_path.iterdir()) == []


def test_a_training_that_diverges_says_what_to_do(tmp_path, monkeypatch):
    def diverge(*words, **options):
        raise ModelError("Training diverged.")

    monkeypatch.setattr(room, "fit", diverge)
    with pytest.raises(ModelError, match="glasshouse train"):
        search(SMALL, tmp_path / "p.json", count=1)


def test_command(tmp_path):
    out = tmp_path / "p.json"
    words = ["policies", "--out", str(out), "--model", "lenet:width=4", "--data", "photos:size=16"]
    words += ["--candidates", "2", "--images", "1", "--epochs", "1", "--policy", "3-1-7"]
    shown = CliRunner().invoke(app, words).output
    assert "3-1-7" in out.read_text()
    assert "glasshouse audit --defense ats:policy=" in shown.replace("\n", " ")
    assert "none" in shown
    done = CliRunner().invoke(app, [*words, "--json", "--minutes", "0"])
    assert json.loads(done.stdout) == json.loads(out.read_text())
    assert json.loads(done.stdout)["left"] == 0


def test_the_command_says_how_to_go_on(tmp_path, monkeypatch):
    words = ["policies", "--out", str(tmp_path / "p.json"), "--model", "lenet:width=4", "--data", "photos:size=16"]
    words += ["--candidates", "2", "--images", "1", "--epochs", "1"]
    assert "2 policies are left. To go on:" in CliRunner().invoke(app, [*words, "--minutes", "0"]).output

    def interrupt(*words, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(room, "search", interrupt)
    stopped = CliRunner().invoke(app, words)
    assert stopped.exit_code == 130
    assert "Interrupted" in stopped.output
