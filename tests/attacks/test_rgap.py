"""R-GAP undoes its network exactly, agrees with plain least squares, and refuses what cannot be undone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from glasshouse import data, defenses, models
from glasshouse.attacks import attacks
from glasshouse.attacks.rgap import LARGEST, Convolution
from glasshouse.errors import ModelError, SettingError
from glasshouse.functional.gradients import parameter_gradients, parameter_names
from glasshouse.metrics import create as create_metric
from glasshouse.models import Classifier
from glasshouse.types import ImageSpec, Observation, SharedUpdate

SPEC, TINY = ImageSpec(3, 16, 16, 10), ImageSpec(3, 8, 8, 10)
LABEL = torch.tensor([3])


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def psnr(truth: torch.Tensor, guess: torch.Tensor) -> float:
    return float(create_metric("psnr")(truth, guess))


def defended(seen: Observation, spec: str) -> Observation:
    gradients = defenses.create(spec).on_gradients(dict(seen.rounds[0].tensors), rng=rng(5))
    return dataclasses.replace(seen, rounds=(SharedUpdate(gradients),))


@pytest.fixture
def tiny(small_photos) -> torch.Tensor:
    """Every second pixel of every second line: (4, 3, 8, 8)."""
    return small_photos[:, :, ::2, ::2].contiguous()


@pytest.mark.parametrize(
    ("spec", "channels"), [("rgapnet", 1), ("rgapnet", 3), ("rgapnet:bias=true", 1), ("rgapnet:slope=0.5", 3)]
)
def test_one_image_is_exact_in_grey_and_colour(spec, channels, small_photos, observe):
    truth = small_photos[1:2, :channels]
    model = models.create(spec, ImageSpec(channels, 16, 16, 10), seed=1)
    result = attacks.create("rgap")(model, observe(model, truth, LABEL), rng=rng())
    assert psnr(truth, result.images) > 90
    assert result.objective < 1e-9
    assert result.labels.tolist() == [3]


def test_the_published_size_is_exact_as_well(photos, observe):
    model = models.create("rgapnet", ImageSpec(3, 32, 32, 10))
    result = attacks.create("rgap")(model, observe(model, photos[:1], LABEL), rng=rng())
    assert psnr(photos[:1], result.images) > 90


def test_digits_of_eight_pixels(observe):
    truth = data.load("digits").batch(range(1))[0]
    model = models.create("rgapnet", ImageSpec(1, 8, 8, 10))
    assert psnr(truth, attacks.create("rgap")(model, observe(model, truth, LABEL), rng=rng()).images) > 90


@pytest.mark.parametrize("label", [0, 1])
def test_two_classes(label, tiny):
    spec = ImageSpec(3, 8, 8, 2)
    model = models.create("rgapnet", spec)
    truth, labels = tiny[:1], torch.tensor([label])
    shared = dict(zip(parameter_names(model), parameter_gradients(model, truth, labels), strict=True))
    seen = Observation((SharedUpdate(shared),), spec, 1, labels=labels)
    assert psnr(truth, attacks.create("rgap")(model, seen, rng=rng()).images) > 90


def test_a_trained_network(tiny, observe):
    model, labels = models.create("rgapnet", TINY), torch.arange(4)
    before = F.cross_entropy(model(tiny), labels).item()
    for _ in range(15):
        gradients = parameter_gradients(model, tiny, labels)
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter -= 1e-3 * gradient.sign()
    assert F.cross_entropy(model(tiny), labels).item() < before / 2
    result = attacks.create("rgap")(model, observe(model, tiny[:1], labels[:1]), rng=rng())
    assert psnr(tiny[:1], result.images) > 60


def test_hidden_linear_layers_nested_parts_and_a_network_without_normalization(small_photos, observe):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.LeakyReLU(0.3), nn.Identity()),
        nn.Conv2d(12, 24, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)),
        nn.LeakyReLU(0.1),
        nn.Flatten(),
        nn.Linear(24 * 8 * 14, 40),
        nn.LeakyReLU(0.2),
        nn.Linear(40, 10, bias=False),
    ).eval()
    result = attacks.create("rgap")(model, observe(model, small_photos[:1], LABEL), rng=rng())
    assert psnr(small_photos[:1], result.images) > 80


def test_the_normal_equations_are_those_of_plain_least_squares():
    layer = nn.Conv2d(2, 3, 3, stride=2, padding=1, bias=False).double()
    shape = torch.Size((2, 5, 6))
    truth = torch.randn(1, *shape, generator=rng(), dtype=torch.float64)
    pull = torch.randn(1, 3, 3, 3, generator=rng(1), dtype=torch.float64)

    def both(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        output = layer(values)
        return output.detach(), torch.autograd.grad((output * pull).sum(), layer.weight)[0]

    output, gradient = both(truth)
    basis = torch.eye(60, dtype=torch.float64).view(60, 1, *shape)
    matrix = torch.stack([torch.cat([part.flatten() for part in both(one)]) for one in basis], 1)
    noise = torch.randn(len(matrix), generator=rng(2), dtype=torch.float64)
    output, gradient = output + 0.1 * noise[:27].view_as(output), gradient + 0.1 * noise[27:].view_as(gradient)
    convolution = Convolution.of(layer, shape)
    # the share that leaves both kinds of equations as long as they are, as numpy takes them
    moved = matrix[27:].square().sum() / len(gradient.flatten())
    share = float(moved / (layer.weight.detach().square().sum() / 3))
    found = convolution.undone(output[0], pull[0], gradient, share, 1e-14)
    expected, *_ = np.linalg.lstsq(matrix.numpy(), torch.cat([output.flatten(), gradient.flatten()]).numpy())
    assert np.allclose(found.flatten().numpy(), expected, atol=1e-6)


def test_noise_and_pruning_hurt_and_clipping_does_not(tiny, observe):
    truth, model = tiny[:1], models.create("rgapnet", TINY)
    seen = observe(model, truth, LABEL)

    def quality(spec: str) -> float:
        return psnr(truth, attacks.create("rgap")(model, defended(seen, spec), rng=rng()).images)

    assert quality("gaussian:sigma=1e-5") < 30
    assert quality("prune:percent=10") < 40
    assert quality("clip:norm=0.01") > 60


def test_labels_that_are_given_are_used(tiny, observe):
    model = models.create("rgapnet", TINY)
    seen = observe(model, tiny[:1], LABEL)
    wrong = dataclasses.replace(seen, labels=torch.tensor([5]))
    assert attacks.create("rgap")(model, wrong, rng=rng()).labels.tolist() == [5]


LAST = [nn.Flatten(), nn.Linear(768, 10)]
REFUSED = {
    "has Sigmoid": models.create("lenet:width=8", SPEC).network,
    "has BatchNorm2d, MaxPool2d, ReLU": models.create("convnet8:width=2", SPEC).network,
    "ends in Linear or has no convolution": nn.Sequential(*LAST),
    "ends in LeakyReLU": nn.Sequential(nn.Conv2d(3, 3, 1), *LAST, nn.LeakyReLU()),
    "slope 0": nn.Sequential(nn.Conv2d(3, 3, 1), nn.LeakyReLU(0), *LAST),
    "with groups": nn.Sequential(nn.Conv2d(3, 3, 1, groups=3), *LAST),
    "other than a number of zeros": nn.Sequential(nn.Conv2d(3, 3, 3, padding="same"), *LAST),
    "gradient is not shared": nn.Sequential(nn.Conv2d(3, 3, 1).requires_grad_(False), *LAST),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_be_undone_is_refused_before_any_work(reason, small_photos, observe):
    model = Classifier(REFUSED[reason], 0.5, 0.25).eval()
    with pytest.raises(ModelError, match=rf"but this model .*{reason}.*Use invgrad, or a model such as rgapnet"):
        attacks.create("rgap").refuse(model, observe(model, small_photos[:1], LABEL))


def test_too_few_equations_are_refused_before_any_work(small_photos, observe):
    model = Classifier(nn.Sequential(nn.Conv2d(3, 12, 4, 4), nn.Flatten(), nn.Linear(192, 10)), 0.5, 0.25).eval()
    with pytest.raises(ModelError, match=r"16x16 pixels .*equations for 768 unknowns: use a model with more channels"):
        attacks.create("rgap").refuse(model, observe(model, small_photos[:1], LABEL))


def test_images_that_are_too_large_are_refused_before_any_work():
    image = ImageSpec(3, 64, 64, 10)
    model = models.create("rgapnet", image)
    shared = {name: torch.zeros_like(value) for name, value in model.named_parameters()}
    with pytest.raises(ModelError, match=rf"12288 unknowns at 64x64 pixels and may be {LARGEST}: use smaller images"):
        attacks.create("rgap").refuse(model, Observation((SharedUpdate(shared),), image, 1))


@pytest.mark.parametrize("spec", ["rgap:damping=0", "rgap:gradient_weight=-1"])
def test_senseless_settings_are_refused(spec):
    with pytest.raises(SettingError, match="out of range"):
        attacks.create(spec)


def test_all_observations_are_read(tiny, observe):
    """Noise that two messages have with opposite signs is gone from their mean."""
    model, truth = models.create("rgapnet", TINY), tiny[:1]
    seen = observe(model, truth, LABEL)
    noise = {name: 1e-2 * torch.randn(one.shape, generator=rng(5)) for name, one in seen.rounds[0].tensors.items()}
    both = [{name: one + sign * noise[name] for name, one in seen.rounds[0].tensors.items()} for sign in (1, -1)]
    rounds = tuple(SharedUpdate(one) for one in both)
    one, two = (
        psnr(truth, attacks.create("rgap")(model, dataclasses.replace(seen, rounds=some), rng=rng()).images)
        for some in (rounds[:1], rounds)
    )
    assert two > one + 20
