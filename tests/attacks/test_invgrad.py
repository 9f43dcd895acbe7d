"""InvGrad beats the floor, a defense hurts it, and one step is the published step."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from glasshouse import models
from glasshouse.attacks import attacks
from glasshouse.defenses import create as create_defense
from glasshouse.functional.gradients import parameter_names
from glasshouse.metrics import create as create_metric
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
