"""InvGrad beats the floor, a defense hurts it, and one step is the published step."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.nn import functional as F

from glasshouse import models
from glasshouse.attacks import attacks
from glasshouse.attacks.invgrad import InvGrad
from glasshouse.defenses import create as create_defense
from glasshouse.errors import CapabilityError
from glasshouse.functional.gradients import parameter_names
from glasshouse.metrics import create as create_metric
from glasshouse.studies.conditions import Conditions
from glasshouse.studies.victim import share
from glasshouse.types import ImageSpec, Observation, SharedUpdate


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_beats_the_mean_color_and_finds_its_original(lenet, small_photos, observe):
    truth = small_photos[1:2]
    result = attacks.create("invgrad:steps=300,tv=0.01")(lenet, observe(lenet, truth, torch.tensor([1])), rng=rng())
    floor = truth.mean((2, 3), keepdim=True).expand_as(truth)
    for name in ("psnr", "ssim"):
        metric = create_metric(name)
        assert metric(truth, result.images) > metric(truth, floor)
    others = create_metric("ssim")(small_photos, result.images.expand_as(small_photos))
    assert int(others.argmax()) == 1


def test_strong_noise_hurts_it(lenet, small_photos, observe):
    truth = small_photos[1:2]
    seen = observe(lenet, truth, torch.tensor([1]))
    noised = create_defense("gaussian:sigma=10").on_gradients(seen.rounds[0].tensors, rng=rng(1))
    hidden = Observation((SharedUpdate(noised),), seen.image, 1, labels=torch.tensor([1]))
    attack = attacks.create("invgrad:steps=200,tv=0.01")
    clear, blurred = (attack(lenet, one, rng=rng()).images for one in (seen, hidden))
    metric = create_metric("ssim")
    assert metric(truth, clear) > metric(truth, blurred) + 0.2


def test_labels_are_recovered_without_being_given(lenet, small_photos, observe):
    for label in (0, 4, 9):
        seen = observe(lenet, small_photos[:1], torch.tensor([label]))
        assert attacks.create("invgrad:steps=1")(lenet, seen, rng=rng()).labels.tolist() == [label]


def test_more_restarts_never_end_with_a_worse_objective(lenet, small_photos, observe):
    seen = observe(lenet, small_photos[:1], torch.tensor([1]))
    one, three = (attacks.create(f"invgrad:steps=20,restarts={n}")(lenet, seen, rng=rng()) for n in (1, 3))
    assert three.objective <= one.objective * 1.001  # three at once round otherwise than one


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_the_first_steps_are_the_published_ones(mode, small_photos, observe):
    """A slow, literal InvGrad in normalized pixels: Adam on the sign, clamped to the pixel box."""
    spec = ImageSpec(3, 16, 16, 10)
    model = models.create("resnet20:width=4", spec, seed=0)
    labels = torch.tensor([2, 5])
    seen = observe(model, small_photos[:2], labels, mode=mode, give=True)
    steps, tv, lr = 8, 0.01, 0.1
    result = attacks.create(f"invgrad:preset=paper,steps={steps},tv={tv}")(model, seen, rng=rng(4))

    mean, std = 0.5, 0.25
    target = [seen.rounds[0].tensors[name] for name in parameter_names(model)]
    x = torch.randn(2, 3, 16, 16, generator=rng(4)).requires_grad_()
    first, second = torch.zeros_like(x), torch.zeros_like(x)
    for module in model.modules():
        module.train(mode == "train" and "BatchNorm" in type(module).__name__)
        if hasattr(module, "track_running_stats"):
            module.track_running_stats = mode == "eval"
    for step in range(1, steps + 1):
        loss = F.cross_entropy(model(x * std + mean), labels)
        gradients = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        dot = sum((a * b).sum() for a, b in zip(gradients, target, strict=True))
        norms = [sum(t.pow(2).sum() for t in side).sqrt() for side in (gradients, target)]
        variation = (x[..., 1:] - x[..., :-1]).abs().mean() + (x[..., 1:, :] - x[..., :-1, :]).abs().mean()
        (pull,) = torch.autograd.grad(1 - dot / (norms[0] * norms[1]) + tv * variation, x)
        sign = pull.sign()
        first, second = 0.9 * first + 0.1 * sign, 0.999 * second + 0.001 * sign**2
        rate = lr * 0.1 ** sum(step - 1 >= int(steps * at) for at in (3 / 8, 5 / 8, 7 / 8))
        with torch.no_grad():
            x -= rate * (first / (1 - 0.9**step)) / ((second / (1 - 0.999**step)).sqrt() + 1e-8)
            x.clamp_(-mean / std, (1 - mean) / std)
    torch.testing.assert_close(result.images, (x * std + mean).detach().clamp(0, 1), rtol=1e-3, atol=1e-3)


def ssim_of(attack: str, model, seen: Observation, truth: torch.Tensor) -> float:
    return float(create_metric("ssim")(truth, attacks.create(attack)(model, seen, rng=rng()).images))


def behind(defense: str, model, truth, label, *, observations: int = 1) -> Observation:
    """What a server sees of one image behind a defense, label given."""
    found = share(
        model, truth, label, create_defense(defense), image=ImageSpec(3, 16, 16, 10), batchnorm="eval",
        give_labels=True, rng=rng(1), conditions=Conditions(observations=observations),
    )  # fmt: skip
    return found.seen


def test_averages_of_the_same_gradient_undo_noise(lenet, small_photos):
    truth, label = small_photos[1:2], torch.tensor([1])
    once, often = (behind("gaussian:sigma=0.3", lenet, truth, label, observations=n) for n in (1, 64))
    attack = "invgrad:steps=120,tv=0.01"
    assert ssim_of(attack, lenet, often, truth) > ssim_of(attack, lenet, once, truth) + 0.1


def test_a_mask_undoes_pruning(lenet, small_photos):
    truth, label = small_photos[1:2], torch.tensor([1])
    seen = behind("prune:percent=80", lenet, truth, label)
    plain, masked = (ssim_of(f"invgrad:steps=120,tv=0.01,masked={yes}", lenet, seen, truth) for yes in ("no", "yes"))
    assert masked > plain + 0.1


def test_leaving_the_classifier_out_undoes_soteria(lenet, small_photos):
    truth, label = small_photos[1:2], torch.tensor([1])
    seen = behind("soteria:percent=80", lenet, truth, label)
    plain, without = (
        ssim_of(f"invgrad:steps=120,tv=0.01{more}", lenet, seen, truth) for more in ("", ",skip=classifier")
    )
    assert without > plain + 0.05


@pytest.mark.parametrize(("epochs", "size"), [(3, None), (1, 1)])
def test_updates_after_local_training_are_inverted(lenet, small_photos, epochs, size):
    """Three steps on one image, and one pass over two images, one at a time."""
    count = 1 if size is None else 2
    truth, labels = small_photos[1 : 1 + count], torch.tensor([1, 4])[:count]
    conditions = Conditions(local_lr=0.05, local_epochs=epochs, local_batch=size)
    seen = share(
        lenet, truth, labels, create_defense("none"), image=ImageSpec(3, 16, 16, 10), batchnorm="eval",
        give_labels=True, rng=rng(), conditions=conditions,
    ).seen  # fmt: skip
    assert (seen.rounds[0].kind, seen.rounds[0].local_steps) == ("update", epochs * count)
    found = attacks.create("invgrad:steps=120,tv=0.01")(lenet, seen, rng=rng()).images
    floor = truth.mean((2, 3), keepdim=True).expand_as(truth)
    for name in ("psnr", "ssim"):
        metric = create_metric(name)
        assert metric(truth, found).mean() > metric(truth, floor).mean()


def test_some_layers_are_enough(lenet, small_photos):
    truth, label = small_photos[1:2], torch.tensor([1])
    seen = share(
        lenet, truth, label, create_defense("none"), image=ImageSpec(3, 16, 16, 10), batchnorm="eval",
        give_labels=True, rng=rng(), conditions=Conditions(layers=("network.0.*", "network.2.*")),
    ).seen  # fmt: skip
    assert len(seen.rounds[0].tensors) == 4
    floor = truth.mean((2, 3), keepdim=True).expand_as(truth)
    assert ssim_of("invgrad:steps=120,tv=0.01", lenet, seen, truth) > float(create_metric("ssim")(truth, floor)) + 0.1
    with pytest.raises(CapabilityError, match="which is not shared here"):
        attacks.create("dlg")(lenet, seen, rng=rng())


def test_labels_can_be_optimised_along(lenet, small_photos, observe):
    seen = observe(lenet, small_photos[1:2], torch.tensor([4]))
    found = attacks.create("invgrad:steps=60,tv=0.01,labels=optimised")(lenet, seen, rng=rng())
    assert found.labels.tolist() == [4]


def test_a_start_that_ends_in_nan_is_tried_anew(lenet, small_photos, observe, monkeypatch):
    seen = observe(lenet, small_photos[1:2], torch.tensor([4]), give=True)
    calls = []
    plain = InvGrad._descend

    def broken_at_first(self, model, attempts, progress):
        calls.append(len(attempts))
        found = plain(self, model, attempts, progress)
        return [dataclasses.replace(one, objective=float("nan")) for one in found] if len(calls) == 1 else found

    monkeypatch.setattr(InvGrad, "_descend", broken_at_first)
    assert attacks.create("invgrad:steps=2,restarts=2")(lenet, seen, rng=rng()).objective < 2
    assert calls == [2, 2]
