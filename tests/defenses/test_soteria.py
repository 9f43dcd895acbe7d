"""Soteria prunes the classifier's gradient where the paper says, hurts attacks, and is undone by leaving it out."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from glasshouse import models
from glasshouse.attacks import attacks
from glasshouse.cli.train import train
from glasshouse.defenses import create
from glasshouse.defenses.soteria import classifier, sensitivities
from glasshouse.errors import ModelError, SettingError
from glasshouse.metrics import create as create_metric
from glasshouse.studies.audit import check_plan
from glasshouse.studies.plan import Plan
from glasshouse.studies.victim import share
from glasshouse.training import Samples, plain_gradients
from glasshouse.types import ImageSpec

SPEC = ImageSpec(3, 16, 16, 10)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def samples(photos) -> Samples:
    return Samples(F.interpolate(photos, size=(16, 16), mode="area"), torch.tensor([1, 4, 4, 9]))


def slow_scores(body: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """One image, one feature at a time."""
    rows = []
    for image in images.split(1):
        image = image.clone().requires_grad_()
        features = body(image)[0]
        norms = [torch.autograd.grad(one, image, retain_graph=True)[0].norm() for one in features]
        rows.append(torch.stack(norms) / features.detach().abs())
    return torch.stack(rows).sum(0)


@pytest.mark.parametrize("name", ["lenet:width=4", "resnet20:width=4"])
def test_scores_against_a_slow_loop(name, samples):
    model = models.create(name, SPEC)
    body = nn.Sequential(*model.network[:-1])
    expected = slow_scores(lambda image: body((image - model.mean) / model.std), samples.images)
    found = sensitivities(model, classifier(model), samples.images)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("percent", [0, 30, 80, 100])
def test_exactly_the_smallest_share_is_pruned(percent, samples):
    model = models.create("lenet:width=4", SPEC)
    name = classifier(model)
    plain = plain_gradients(model, samples)
    found = create(f"soteria:percent={percent}").compute(model, samples, rng=rng())
    before, after = (one.gradients[f"{name}.weight"] for one in (plain, found))
    gone = ~after.any(0)
    assert int(gone.sum()) == int(before.shape[1] * percent / 100)
    assert torch.equal(after[:, ~gone], before[:, ~gone])
    scores = sensitivities(model, name, samples.images)
    if 0 < percent < 100:
        assert float(scores[gone].max()) <= float(scores[~gone].min())
    assert found.loss == plain.loss
    assert list(found.gradients) == list(plain.gradients)
    for key, gradient in plain.gradients.items():
        assert key == f"{name}.weight" or torch.equal(found.gradients[key], gradient)


def test_features_that_say_nothing_are_the_first_to_go(samples):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 6), nn.ReLU(), nn.Linear(6, 10))
    with torch.no_grad():
        model[1].bias.fill_(1000)
        model[1].bias[2] = -1000  # never wakes
    scores = sensitivities(model, "3", samples.images)
    assert bool(scores.isfinite().all())
    assert int(scores.argmin()) == 2
    assert float(scores[2]) == 0


@pytest.mark.parametrize("training", [False, True])
def test_the_model_is_left_as_plain_gradients_leave_it(training, samples):
    defended, plain = (models.create("resnet20:width=4", SPEC).train(training) for _ in range(2))
    create("soteria").compute(defended, samples, rng=rng())
    plain_gradients(plain, samples)
    for first, second in zip(defended.state_dict().values(), plain.state_dict().values(), strict=True):
        assert torch.equal(first, second)
    assert all(parameter.requires_grad and parameter.grad is None for parameter in defended.parameters())
    assert not any(module._forward_pre_hooks for module in defended.modules())


def test_the_classifier_is_the_last_linear_layer_that_is_trained():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False), nn.ReLU())
    assert classifier(model) == "1"


def test_a_model_without_a_classifier_is_refused(samples):
    model = nn.Sequential(nn.Conv2d(3, 10, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(ModelError, match=r"ends in torch\.nn\.Linear"):
        create("soteria").compute(model, samples, rng=rng())


def test_a_classifier_that_sees_more_than_features_is_refused(samples):
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(16, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.last(images).mean((1, 2))

    with pytest.raises(ModelError, match="once with features"):
        create("soteria").compute(Rows(), samples, rng=rng())


def test_it_hurts_an_attack_that_does_not_know_it_and_no_other(samples):
    """Leaving the pruned layer out of the matching undoes it, as Balunovic et al. (2022) say."""
    model = models.create("lenet:width=8", SPEC, seed=0)
    truth = samples.images[1:2]
    attack = attacks.create("invgrad:steps=200,tv=0.01")

    def observed(spec: str):
        return share(
            model, truth, torch.tensor([1]), create(spec), image=SPEC, batchnorm="eval", give_labels=True, rng=rng()
        ).seen

    without_layer = copy.deepcopy(model)
    without_layer.get_submodule(classifier(model)).weight.requires_grad_(False)
    psnr = create_metric("psnr")
    clear, hidden, undone = (
        float(psnr(truth, attack(network, observed(spec), rng=rng()).images))
        for network, spec in ((model, "none"), (model, "soteria"), (without_layer, "soteria"))
    )
    assert hidden < clear - 8
    assert undone > clear - 2


def test_it_is_taken_by_audits_and_by_trainings(tmp_path):
    check_plan(Plan(defenses=("soteria", "soteria/prune")))
    train(tmp_path / "w.safetensors", model="lenet:width=2", images=20, epochs=1, batch=10, defense="soteria")
    assert (tmp_path / "w.safetensors").is_file()


def test_bad_settings():
    for percent in (-1, 101):
        with pytest.raises(SettingError, match=f"percent={percent}"):
            create(f"soteria:percent={percent}")
