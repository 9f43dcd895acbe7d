"""GradAttack: its prior is the authors' sum, its presets are theirs, and models without batch norm are refused."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from glasshouse import models
from glasshouse.attacks import attacks
from glasshouse.attacks.gradattack import GradAttack
from glasshouse.attacks.invgrad import InvGrad
from glasshouse.errors import CapabilityError, SettingError
from glasshouse.metrics import create as create_metric
from glasshouse.models.batchnorm import batchnorm_layers, batchnorm_mode, watched
from glasshouse.training import Recipe, fit
from glasshouse.types import ImageSpec, Observation

SPEC = ImageSpec(3, 16, 16, 10)


@pytest.fixture(scope="module")
def resnet(photos):
    """A network whose running statistics have seen images."""
    model = models.create("resnet20:width=4", SPEC, seed=0)
    crops = torch.nn.functional.interpolate(photos, size=(16, 16), mode="area").repeat(8, 1, 1, 1)
    fit(model, crops, torch.arange(len(crops)) % 10, Recipe(epochs=2, batch=8, lr=0.01))
    return model.eval()


def test_the_prior_is_the_sum_over_layers(resnet, small_photos):
    inputs: dict[int, torch.Tensor] = {}
    layers = batchnorm_layers(resnet)
    handles = [
        layer.register_forward_pre_hook(lambda layer, given, at=number: inputs.__setitem__(at, given[0]))
        for number, layer in enumerate(layers)
    ]
    with torch.no_grad():
        resnet(small_photos)
        with watched(resnet, 2) as found:
            resnet(small_photos)
    for handle in handles:
        handle.remove()
    for problem in range(len(small_photos) // 2):
        for number, layer in enumerate(layers):
            own = inputs[number][2 * problem : 2 * problem + 2]
            mean = torch.stack([own[:, channel].mean() for channel in range(own.shape[1])])
            variance = torch.stack([own[:, channel].var(unbiased=False) for channel in range(own.shape[1])])
            wanted = torch.dist(mean, layer.running_mean) + torch.dist(variance, layer.running_var)
            distance = torch.dist(found[number].mean[problem], layer.running_mean)
            distance += torch.dist(found[number].variance[problem], layer.running_var)
            torch.testing.assert_close(distance, wanted)
    assert not any(layer._forward_pre_hooks for layer in layers)


def test_presets_are_the_published_weights(resnet):
    x = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    texts = ("preset=strong", "preset=own,tv=0.1,bn=0.005", "preset=own,tv=0.1,bn=0")
    priors = [attacks.create(f"gradattack:steps=1,{text}").prior for text in texts]
    strong, own, rough = (float(prior(resnet, [Observation((), SPEC, 1)], x, x).detach()) for prior in priors)
    assert strong == own > rough > 0


def test_layers_that_have_seen_no_image_expect_nothing(resnet, small_photos):
    """Mean 0 and variance 1 are not what images do to a fresh network: held to them, it would rather see grey."""
    fresh = models.create("resnet20:width=4", SPEC, seed=0)
    half = models.create("resnet20:width=4", SPEC, seed=0)
    last = batchnorm_layers(half)[-1]
    last.running_mean.fill_(0.5)
    images = small_photos[:1]
    seen = [Observation((), SPEC, 1)]
    attack = GradAttack(preset="own", tv=0, bn=1)
    with torch.no_grad(), watched(half, 1) as found:
        half(images)
    with torch.no_grad():
        nothing, one, all_of_them = (attack.prior(model, seen, images, images) for model in (fresh, half, resnet))
    wanted = torch.dist(found[-1].mean, last.running_mean) + torch.dist(found[-1].variance, last.running_var)
    assert float(nothing) == 0.0
    torch.testing.assert_close(one[0], wanted)
    assert float(all_of_them) > 0


def test_the_prior_brings_the_statistics_nearer(resnet, small_photos, observe):
    seen = observe(resnet, small_photos[:1], torch.tensor([3]), give=True)
    distances = []
    for attack in (InvGrad(steps=40, tv=0.01), GradAttack(steps=40, preset="own", tv=0.01, bn=1.0)):
        found = attack(resnet, seen, rng=torch.Generator().manual_seed(0))
        distances.append(float(GradAttack(preset="own", tv=0, bn=1).prior(resnet, [seen], *[found.images] * 2)))
    assert distances[1] < 0.8 * distances[0]


def test_train_mode_tells_no_running_statistics(resnet, small_photos, observe):
    seen = observe(resnet, small_photos[:2], torch.tensor([3, 4]), mode="train")
    seen = dataclasses.replace(seen, running_statistics=False)
    with batchnorm_mode(resnet, "train"), pytest.raises(CapabilityError, match="running statistics"):
        GradAttack(steps=1)(resnet, seen, rng=torch.Generator().manual_seed(0))


def test_weights_beside_a_preset_are_refused():
    with pytest.raises(SettingError, match="preset=own"):
        attacks.create("gradattack:bn=0.5")


def test_exact_statistics_are_met_by_the_truth_and_need_to_be_given_away(resnet, small_photos, observe):
    seen = observe(resnet, small_photos[:2], torch.tensor([3, 4]), mode="train", give=True)
    exact, running = (GradAttack(steps=2, preset="own", tv=0, bn=1, statistics=kind) for kind in ("exact", "running"))
    with pytest.raises(CapabilityError, match="--statistics batch"):
        exact(resnet, seen, rng=torch.Generator().manual_seed(0))
    with torch.no_grad(), batchnorm_mode(resnet, "train"), watched(resnet, 2) as found:
        resnet(small_photos[:2])
    told = dataclasses.replace(seen, batch_statistics=tuple((one.mean[0], one.variance[0]) for one in found))
    with torch.no_grad(), batchnorm_mode(resnet, "train"):
        right, wrong = (one.prior(resnet, [told], *[small_photos[:2]] * 2) for one in (exact, running))
    assert float(right) < 1e-3 < float(wrong)
    assert exact(resnet, told, rng=torch.Generator().manual_seed(0)).images.shape == (2, 3, 16, 16)


def test_each_observation_is_held_to_its_own_statistics(resnet, small_photos, observe):
    each = []
    for number in range(2):
        image = small_photos[number : number + 1]
        with torch.no_grad(), watched(resnet, 1) as found:
            resnet(image)
        known = tuple((one.mean[0], one.variance[0]) for one in found)
        each.append(dataclasses.replace(observe(resnet, image, torch.tensor([3])), batch_statistics=known))
    attack = GradAttack(preset="own", tv=0, bn=1, statistics="exact")
    with torch.no_grad():
        right, swapped = (attack.prior(resnet, order, *[small_photos[:2]] * 2) for order in (each, each[::-1]))
    assert float(right.max()) < 1e-3 < float(swapped.min())


@pytest.mark.parametrize("kind", ["running", "exact"])
def test_in_train_mode_a_prior_does_not_depend_on_other_problems(resnet, small_photos, observe, kind):
    each = []
    for images in small_photos.split(2):
        with torch.no_grad(), batchnorm_mode(resnet, "train"), watched(resnet, 2) as found:
            resnet(images)
        known = tuple((one.mean[0], one.variance[0]) for one in found)
        seen = observe(resnet, images, torch.tensor([3, 4]), mode="train")
        each.append(dataclasses.replace(seen, batch_statistics=known))
    attack = GradAttack(preset="own", tv=0, bn=1, statistics=kind)
    with torch.no_grad(), batchnorm_mode(resnet, "train"):
        together = attack.prior(resnet, each, *[small_photos] * 2)
        alone = [attack.prior(resnet, [one], *[own] * 2) for one, own in zip(each, small_photos.split(2), strict=True)]
    torch.testing.assert_close(together, torch.cat(alone))


def test_with_exact_statistics_it_beats_the_mean_color_and_finds_its_original(small_photos, observe):
    model = models.create("convnet8:width=8", SPEC, seed=0)
    truth = small_photos[3:4]
    with torch.no_grad(), watched(model, 1) as found:
        model(truth)
    known = tuple((one.mean[0], one.variance[0]) for one in found)
    seen = dataclasses.replace(observe(model, truth, torch.tensor([1])), batch_statistics=known)
    attack = GradAttack(preset="own", annealed=False, steps=150, tv=1e-4, bn=1e-4, statistics="exact")
    guess = attack(model, seen, rng=torch.Generator().manual_seed(0)).images
    floor = truth.mean((2, 3), keepdim=True).expand_as(truth)
    ssim = create_metric("ssim")
    assert ssim(truth, guess) > ssim(truth, floor) + 0.15
    assert int(ssim(small_photos, guess.expand_as(small_photos)).argmax()) == 3
