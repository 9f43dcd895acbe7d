"""One image behind a biased linear layer is read off exactly; all that makes it otherwise is refused or hurts."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from glasshouse import defenses, models
from glasshouse.attacks import attacks
from glasshouse.attacks.fc_inversion import layer_input, pixel_layers
from glasshouse.errors import AttackError, CapabilityError, ModelError, SettingError
from glasshouse.metrics import create as create_metric
from glasshouse.types import ImageSpec, Observation, SharedUpdate

SPEC = ImageSpec(3, 16, 16, 10)
LABEL = torch.tensor([3])


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def psnr(truth: torch.Tensor, guess: torch.Tensor) -> float:
    return float(create_metric("psnr")(truth, guess))


def defended(seen: Observation, spec: str) -> Observation:
    gradients = defenses.create(spec).on_gradients(dict(seen.rounds[0].tensors), rng=rng(5))
    return dataclasses.replace(seen, rounds=(SharedUpdate(gradients),))


class Own(nn.Module):
    """Somebody's own model: its own normalization per channel, flattened by hand."""

    def __init__(self, *, mixed: bool = False, norm: bool = False, bias: bool = True) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3) if norm else nn.Identity()
        self.first = nn.Linear(768, 20, bias=bias)
        self.last = nn.Linear(20, 10)
        self.mixed = mixed

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scaled = (images - torch.tensor([0.4, 0.5, 0.6])[:, None, None]) / torch.tensor([0.1, 0.2, 0.3])[:, None, None]
        if self.mixed:
            scaled = scaled.flip(-1)
        return self.last(torch.tanh(self.first(self.norm(scaled).flatten(1))))


@pytest.mark.parametrize("spec", ["mlp", "mlp:activation=sigmoid,width=16", "mlp:width=4", "imprinted"])
@pytest.mark.parametrize("channels", [1, 3])
def test_one_image_is_exact_in_grey_and_colour(spec, channels, small_photos, observe):
    truth = small_photos[1:2, :channels]
    model = models.create(spec, ImageSpec(channels, 16, 16, 10), seed=1)
    result = attacks.create("fc_inversion")(model, observe(model, truth, LABEL), rng=rng())
    assert psnr(truth, result.images) > 100
    assert result.objective < 1e-6
    assert result.labels is None


@pytest.mark.parametrize("settings", ["rows=1", "rows=3", "passes=1"])
def test_one_row_and_one_pass_are_enough_for_an_untouched_gradient(settings, small_photos, observe):
    model = models.create("mlp:width=32", SPEC)
    seen = observe(model, small_photos[:1], LABEL)
    assert psnr(small_photos[:1], attacks.create(f"fc_inversion:{settings}")(model, seen, rng=rng()).images) > 100


def test_the_ratio_of_the_largest_row_says_the_same(small_photos, observe):
    model = models.create("mlp:width=32", SPEC)
    seen = observe(model, small_photos[:1], LABEL)
    weight, bias = (seen.rounds[0].tensors[f"network.1.{kind}"] for kind in ("weight", "bias"))
    row = int(bias.abs().argmax())
    by_hand = (weight[row] / bias[row]).view(1, *SPEC.shape) * 0.25 + 0.5
    found = attacks.create("fc_inversion")(model, seen, rng=rng()).images
    assert torch.allclose(found, by_hand.clamp(0, 1), atol=1e-5)


def test_without_zeros_the_fit_is_the_best_of_rank_one():
    rows = torch.outer(torch.randn(12, generator=rng()), torch.randn(31, generator=rng(1))).double()
    noisy = rows + 0.05 * torch.randn(12, 31, generator=rng(2))
    right = torch.linalg.svd(noisy)[2][0]
    found, misfit = layer_input(noisy[:, :-1], noisy[:, -1], passes=200)
    assert torch.allclose(found, right[:-1] / right[-1], rtol=1e-4)
    assert 0.01 < misfit < 0.2


def test_noise_hurts_but_rows_outvote_it_and_pruning_leaves_holes(small_photos, observe):
    truth, model = small_photos[:1], models.create("mlp", SPEC)
    seen = observe(model, truth, LABEL)

    def quality(defense: str, attack: str = "fc_inversion") -> float:
        return psnr(truth, attacks.create(attack)(model, defended(seen, defense), rng=rng()).images)

    weak, strong = quality("gaussian:sigma=1e-3"), quality("gaussian:sigma=1")
    assert 40 < weak < 80
    assert strong < 15
    assert quality("gaussian:sigma=1e-3", "fc_inversion:rows=1") < weak - 5
    assert quality("clip:norm=0.01") > 100
    assert quality("prune:percent=99") < quality("prune:percent=50")


def test_models_of_ones_own_are_probed_for_what_their_first_layer_sees(small_photos, observe):
    model = Own().eval()
    result = attacks.create("fc_inversion")(model, observe(model, small_photos[:1], LABEL), rng=rng())
    assert psnr(small_photos[:1], result.images) > 90


def test_batch_norm_before_the_layer_can_be_undone_only_with_known_statistics(small_photos, observe):
    model = Own(norm=True).eval()
    result = attacks.create("fc_inversion")(model, observe(model, small_photos[:1], LABEL), rng=rng())
    assert psnr(small_photos[:1], result.images) > 90
    with pytest.raises(ModelError, match="flattened pixels"):
        attacks.create("fc_inversion")(model, observe(model, small_photos[:1], LABEL, mode="train"), rng=rng())


@pytest.mark.parametrize(
    "model",
    [
        models.create("lenet:width=8", SPEC),
        models.create("rgapnet", SPEC),
        Own(mixed=True).eval(),
        Own(bias=False).eval(),
        nn.Sequential(nn.Flatten(), nn.Linear(768, 10).requires_grad_(False), nn.Linear(10, 10)),
    ],
    ids=["features", "no such layer", "moved pixels", "no bias", "frozen"],
)
def test_other_models_are_refused_before_any_work(model, small_photos, observe):
    seen = observe(model, small_photos[:1], LABEL)
    with pytest.raises(ModelError, match=r"needs a fully connected layer with a bias.*use invgrad or idlg.*mlp"):
        attacks.create("fc_inversion").refuse(model, seen)
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_a_batch_is_refused_before_any_work(small_photos, observe):
    model = models.create("mlp:width=8", SPEC)
    with pytest.raises(CapabilityError, match="of one image, not of 2"):
        attacks.create("fc_inversion").refuse(model, observe(model, small_photos[:2], torch.tensor([1, 2])))


def test_a_gradient_without_bias_says_so(small_photos, observe):
    model = models.create("mlp:width=8", SPEC)
    seen = observe(model, small_photos[:1], LABEL)
    nothing = {name: torch.zeros_like(value) for name, value in seen.rounds[0].tensors.items()}
    with pytest.raises(AttackError, match="bias gradient of the layer is zero"):
        attacks.create("fc_inversion")(model, dataclasses.replace(seen, rounds=(SharedUpdate(nothing),)), rng=rng())


def test_its_own_layer_is_all_that_must_be_shared(small_photos, observe):
    model, truth = models.create("mlp", SPEC), small_photos[1:2]
    seen, attack = observe(model, truth, LABEL), attacks.create("fc_inversion")

    def sharing(layer: str) -> Observation:
        part = {name: value for name, value in seen.rounds[0].tensors.items() if name.startswith(layer)}
        return dataclasses.replace(seen, rounds=(SharedUpdate(part),))

    assert psnr(truth, attack(model, sharing("network.1."), rng=rng()).images) > 100
    with pytest.raises(CapabilityError, match=r"network\.1\..* is not shared"):
        attack(model, sharing("network.3."), rng=rng())


def test_the_layer_is_found_by_name():
    (layer,) = pixel_layers(models.create("mlp:width=8", SPEC), SPEC, "eval")
    assert layer.name == "network.1"
    assert torch.allclose(layer.factor, torch.tensor(4.0).double())
    assert torch.allclose(layer.offset, torch.tensor(-2.0).double())


@pytest.mark.parametrize("spec", ["fc_inversion:rows=0", "fc_inversion:passes=0"])
def test_senseless_settings_are_refused(spec):
    with pytest.raises(SettingError, match="out of range"):
        attacks.create(spec)


def test_noise_averages_out_over_observations(small_photos, observe):
    truth, model = small_photos[:1], models.create("mlp:width=32", SPEC)
    seen, noise = observe(model, truth, LABEL), defenses.create("gaussian:sigma=1e-2")
    source, gradients = rng(5), dict(seen.rounds[0].tensors)
    rounds = tuple(SharedUpdate(noise.on_gradients(gradients, rng=source)) for _ in range(64))
    one, many = (
        psnr(truth, attacks.create("fc_inversion")(model, dataclasses.replace(seen, rounds=some), rng=rng()).images)
        for some in (rounds[:1], rounds)
    )
    assert many > one + 12  # 64 messages have an eighth of the noise: 18 dB
