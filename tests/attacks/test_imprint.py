"""A malicious server reads most images of a batch exactly, from the model that it prepared and from no other."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from glasshouse import data, defenses, models
from glasshouse.attacks import attacks
from glasshouse.errors import ModelError, SettingError, UnknownNameError
from glasshouse.metrics import create as create_metric
from glasshouse.studies.assignment import assigned
from glasshouse.training import Recipe, fit
from glasshouse.types import ImageSpec, Observation, Reconstruction, SharedUpdate

EXACT = 40  # dB


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def crops() -> torch.Tensor:
    """32 crops of ten photographs: (32, 3, 32, 32)."""
    large = data.load("photos:size=128").batch(range(10))[0]
    corners = torch.randint(0, 96, (32, 2), generator=rng()).tolist()
    return torch.stack([large[n % 10, :, y : y + 32, x : x + 32] for n, (y, x) in enumerate(corners)])


def attack(model, seen: Observation, spec: str = "imprint") -> Reconstruction:
    return attacks.create(spec)(model, seen, rng=rng())


def per_image(truth: torch.Tensor, result: Reconstruction) -> torch.Tensor:
    return create_metric("psnr").per_image(truth, assigned(truth, result.images))


def labels(count: int) -> torch.Tensor:
    return torch.arange(count) % 10


def defended(seen: Observation, spec: str) -> Observation:
    gradients = defenses.create(spec).on_gradients(dict(seen.rounds[0].tensors), rng=rng(5))
    return dataclasses.replace(seen, rounds=(SharedUpdate(gradients),))


@pytest.mark.parametrize(
    ("batch", "spec", "least"),
    [
        (1, "imprinted", 1),
        (8, "imprinted", 7),
        (16, "imprinted", 13),
        (32, "imprinted", 22),
        (16, "imprinted:skip=true", 13),
        (16, "imprinted:network=mlp,gain=1", 12),
        (32, "imprinted:bins=1024,center=0.38,spread=0.2", 29),
    ],
)
def test_most_photographs_of_a_batch_are_exact(batch, spec, least, crops, observe):
    model = models.create(spec, ImageSpec(3, 32, 32, 10))
    result = attack(model, observe(model, crops[:batch], labels(batch)))
    assert int((per_image(crops[:batch], result) > EXACT).sum()) >= least
    assert result.labels is None


def test_grey_digits_with_brightness_estimated_from_public_images(observe):
    digits = data.load("digits")
    public, truth = digits.batch(range(100, 250))[0].mean((1, 2, 3)), digits.batch(range(16))[0]
    estimate = f"center={float(public.mean()):.3f},spread={float(public.std()):.3f}"
    found = {}
    for spec in ("imprinted", f"imprinted:{estimate}"):
        model = models.create(spec, ImageSpec(1, 8, 8, 10))
        found[spec] = int((per_image(truth, attack(model, observe(model, truth, labels(16)))) > EXACT).sum())
    assert found[f"imprinted:{estimate}"] >= 10  # 64 pixels of 17 levels: some are equally bright
    assert found[f"imprinted:{estimate}"] > found["imprinted"]


def test_batch_norm_behind_the_block_does_not_matter(crops, observe):
    model = models.create("imprinted:network=resnet20", ImageSpec(3, 32, 32, 10))
    for mode in ("eval", "train"):
        result = attack(model, observe(model, crops[:8], labels(8), mode=mode))
        assert int((per_image(crops[:8], result) > EXACT).sum()) >= 6


def test_two_images_in_one_bin_give_their_mixture_and_what_is_missing_is_the_mean(crops, observe):
    model = models.create("imprinted", ImageSpec(3, 32, 32, 10))
    twins = torch.stack([crops[0], crops[0].flip(-1), crops[1]])
    result = attack(model, observe(model, twins, torch.tensor([3, 3, 4])))
    assert int((per_image(twins, result) > EXACT).sum()) == 1
    mixture = (crops[0] + crops[0].flip(-1)) / 2
    assert float((result.images - mixture).abs().amax((1, 2, 3)).min()) < 1e-3
    assert torch.allclose(result.images[2], result.images[:2].mean(0), atol=1e-5)


def test_the_objective_is_the_share_of_images_not_read(crops, observe):
    model = models.create("imprinted:bins=1024,center=0.38,spread=0.2", ImageSpec(3, 32, 32, 10))
    seen = observe(model, crops[:8], labels(8))
    assert attack(model, seen).objective == 0
    assert attack(model, defended(seen, "gaussian:sigma=1")).objective == 1


def test_nothing_in_the_gradient_gives_grey(crops, observe):
    model = models.create("imprinted", ImageSpec(3, 32, 32, 10))
    seen = observe(model, crops[:2], labels(2))
    nothing = {name: torch.zeros_like(value) for name, value in seen.rounds[0].tensors.items()}
    result = attack(model, dataclasses.replace(seen, rounds=(SharedUpdate(nothing),)))
    assert torch.equal(result.images, torch.full_like(result.images, 0.5))
    assert result.objective == 1


def test_noise_and_pruning_hurt_and_clipping_does_not(crops, observe):
    model = models.create("imprinted", ImageSpec(3, 32, 32, 10))
    seen = observe(model, crops[:16], labels(16))

    def median(spec: str) -> float:
        return float(per_image(crops[:16], attack(model, defended(seen, spec))).median())

    weak, strong = median("gaussian:sigma=1e-3"), median("gaussian:sigma=1e-1")
    assert 25 < weak < 60
    assert strong < 15
    assert median("prune:percent=90") < 25
    assert median("clip:norm=1") > 100


def test_the_gain_beats_noise_without_changing_the_logits(crops, observe):
    plain, loud = (models.create(f"imprinted:gain={gain}", ImageSpec(3, 32, 32, 10)) for gain in (1, 1024))
    assert torch.allclose(plain(crops), loud(crops), atol=1e-4)
    scores = [
        float(per_image(crops[:8], attack(m, defended(observe(m, crops[:8], labels(8)), "gaussian"))).median())
        for m in (plain, loud)
    ]
    assert scores[1] > scores[0] + 20


def test_every_image_is_brighter_than_the_lowest_threshold():
    for spec in ("imprinted", "imprinted:center=0.05,spread=0.2,bins=16"):
        model = models.create(spec, ImageSpec(1, 8, 8, 10))
        block = model.network[0]
        assert bool((block.thresholds.diff() > 0).all())
        assert bool((block.measure((torch.zeros(1, 64) - model.mean) / model.std)[0, 0] > 0).all())


def test_it_is_labelled_as_a_malicious_server():
    assert attacks.get("imprint").adversary == "malicious server"


@pytest.mark.parametrize("spec", ["mlp:width=8", "lenet:width=8", "rgapnet"])
def test_models_without_the_block_are_refused_before_any_work(spec, small_photos, observe):
    model = models.create(spec, ImageSpec(3, 16, 16, 10))
    with pytest.raises(ModelError, match=r"malicious server prepared.*use the model imprinted, or invgrad"):
        attacks.create("imprint").refuse(model, observe(model, small_photos[:2], labels(2)))


def test_a_block_that_was_trained_is_refused(small_photos, observe):
    model = models.create("imprinted", ImageSpec(3, 16, 16, 10))
    with torch.no_grad():
        model.network[0].measure.weight[3] += 1e-6
    with pytest.raises(ModelError, match=r"was trained.*use fresh weights"):
        attacks.create("imprint").refuse(model, observe(model, small_photos[:2], labels(2)))


def test_the_server_sends_its_block_anew_so_that_a_trained_network_is_read_as_well(small_photos, observe):
    model = models.create("imprinted:skip=true", ImageSpec(3, 16, 16, 10))
    fresh = {name: value.clone() for name, value in model.state_dict().items()}
    recipe = Recipe(epochs=2, batch=4, lr=0.01, augment=False)
    fit(model, small_photos, labels(len(small_photos)), recipe)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, fresh[name])}
    assert changed == {name for name in fresh if name.startswith("network.1.")}
    result = attack(model, observe(model, small_photos[:1], labels(1)))
    assert per_image(small_photos[:1], result).min() > EXACT


def test_senseless_settings_are_refused():
    with pytest.raises(SettingError, match="out of range"):
        attacks.create("imprint:floor=2")
    with pytest.raises(SettingError, match="imprint before itself"):
        models.create("imprinted:network=imprinted", ImageSpec(3, 16, 16, 10))
    with pytest.raises(UnknownNameError, match="Did you mean 'lenet'"):
        models.create("imprinted:network=lenot", ImageSpec(3, 16, 16, 10))


def test_all_observations_are_read(crops, observe):
    """Noise that two messages have with opposite signs is gone from their mean."""
    model, truth = models.create("imprinted", ImageSpec(3, 32, 32, 10)), crops[:4]
    seen = observe(model, truth, labels(4))
    noise = {name: 1e-2 * torch.randn(one.shape, generator=rng(5)) for name, one in seen.rounds[0].tensors.items()}
    both = [{name: one + sign * noise[name] for name, one in seen.rounds[0].tensors.items()} for sign in (1, -1)]
    rounds = tuple(SharedUpdate(one) for one in both)
    one, two = (
        float(per_image(truth, attack(model, dataclasses.replace(seen, rounds=some))).median())
        for some in (rounds[:1], rounds)
    )
    assert two > one + 20
