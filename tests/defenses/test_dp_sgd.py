"""DP-SGD clips every image by itself, adds the noise that its promise costs, and leaves the model as it was."""

from __future__ import annotations

import json
import logging
import math
import sys

import pytest
import torch
from scipy.stats import norm as normal
from tests.soak import SHARE
from torch import nn
from torch.nn import functional as F

from glasshouse import data, models
from glasshouse.cli.train import train
from glasshouse.defenses import DefendedClient, create, dp_sgd
from glasshouse.errors import ModelError, SettingError
from glasshouse.studies.audit import check_plan
from glasshouse.studies.plan import Plan
from glasshouse.studies.victim import share
from glasshouse.training import Recipe, Samples, accuracy, fit, plain_gradients
from glasshouse.types import ImageSpec

SPEC = ImageSpec(3, 16, 16, 10)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def samples(photos) -> Samples:
    return Samples(F.interpolate(photos, size=(16, 16), mode="area").double(), torch.tensor([1, 4, 4, 9]))


def network(name: str = "lenet:width=4") -> nn.Module:
    return dp_sgd.grouped(models.create(name, SPEC)).double()


def one_by_one(model: nn.Module, samples: Samples) -> list[torch.Tensor]:
    """The gradient of every image as one long row."""
    rows = []
    for image, target in zip(samples.images.split(1), samples.targets.split(1), strict=True):
        gradients = torch.autograd.grad(F.cross_entropy(model(image), target), list(model.parameters()))
        rows.append(torch.cat([gradient.flatten() for gradient in gradients]))
    return rows


def flat(gradients) -> torch.Tensor:
    return torch.cat([gradient.flatten() for gradient in gradients.values()])


LARGE = (pytest.mark.soak, pytest.mark.skipif(not SHARE, reason="millions of weights for every image: make soak"))


@pytest.mark.parametrize(
    "name",
    [
        "lenet",
        "resnet20:width=4",
        "convnet8:width=4",
        pytest.param("resnet18", marks=LARGE),
        "mobilenet_v2",
        "shufflenet_v2",
        pytest.param("densenet121", marks=LARGE),
    ],
)
def test_every_image_is_clipped_by_itself(name, samples, caplog):
    """Against a slow loop, in networks that change what they computed in place, and none needs the slow loop itself."""
    model = network(name)
    rows = one_by_one(model, samples)
    bound = float(torch.stack([row.norm() for row in rows]).median()) * 1.0001  # some are clipped, some are not
    expected = sum(row * min(1.0, bound / float(row.norm())) for row in rows) / len(rows)
    with caplog.at_level(logging.DEBUG, logger="glasshouse"):
        found = create(f"dp_sgd:epsilon=inf,norm={bound!r}").compute(model, samples, rng=rng())
    assert float((flat(found.gradients) - expected).norm()) < 1e-5 * float(expected.norm())
    assert float((sum(rows) / len(rows) - expected).norm()) > 1e-2 * float(expected.norm())
    assert list(found.gradients) == [key for key, _ in model.named_parameters()]
    assert found.loss == pytest.approx(float(F.cross_entropy(model(samples.images), samples.targets).detach()))
    assert "one at a time" not in caplog.text


def test_the_control_is_the_plain_gradient(samples):
    model = network("resnet20:width=4")
    found = create("dp_sgd:epsilon=inf,norm=inf").compute(model, samples, rng=rng())
    torch.testing.assert_close(flat(found.gradients), flat(plain_gradients(model, samples).gradients))


def test_noise_is_the_multiplier_times_the_norm_over_the_expected_batch(samples):
    model = network("lenet:width=12")
    defense = create("dp_sgd:norm=3,batch=20")
    quiet = create("dp_sgd:epsilon=inf,norm=3,batch=20").compute(model, samples, rng=rng())
    noise = flat(defense.compute(model, samples, rng=rng()).gradients) - flat(quiet.gradients)
    assert float(noise.std()) == pytest.approx(defense.noise * 3 / 20, rel=0.03)
    assert abs(float(noise.mean())) < 4 * float(noise.std()) / math.sqrt(noise.numel())


def test_the_sum_is_divided_by_the_expected_batch(samples):
    model = network()
    itself, twenty = (
        create(f"dp_sgd:epsilon=inf{batch}").compute(model, samples, rng=rng()).gradients for batch in ("", ",batch=20")
    )
    torch.testing.assert_close(flat(itself) * 4 / 20, flat(twenty))


def test_an_empty_batch_is_noise_alone():
    model = network("lenet:width=12")
    empty = Samples(torch.zeros(0, 3, 16, 16).double(), torch.zeros(0, dtype=torch.long))
    defense = create("dp_sgd:norm=2,batch=5")
    found = defense.compute(model, empty, rng=rng())
    assert float(flat(found.gradients).std()) == pytest.approx(defense.noise * 2 / 5, rel=0.03)
    assert found.loss == 0
    assert not flat(create("dp_sgd:epsilon=inf").compute(model, empty, rng=rng()).gradients).any()


def test_same_seed_same_gradient(samples):
    model = network()
    first, second, third = (
        flat(create("dp_sgd").compute(model, samples, rng=rng(seed)).gradients) for seed in (3, 3, 4)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


def test_a_batch_too_large_for_memory_is_computed_in_parts(samples, monkeypatch):
    model = network()
    whole = create("dp_sgd").compute(model, samples, rng=rng())
    monkeypatch.setattr(dp_sgd, "NUMBERS_AT_ONCE", 3 * sum(p.numel() for p in model.parameters()))
    parts = create("dp_sgd").compute(model, samples, rng=rng())
    torch.testing.assert_close(flat(parts.gradients), flat(whole.gradients))
    assert parts.loss == pytest.approx(whole.loss)


def test_targets_may_be_probabilities(samples):
    model = network()
    soft = Samples(samples.images, F.one_hot(samples.targets, 10).double())
    numbers, shares = (create("dp_sgd").compute(model, one, rng=rng()) for one in (samples, soft))
    torch.testing.assert_close(flat(shares.gradients), flat(numbers.gradients))


class Past(nn.Module):
    """Uses the weights of a layer past the layer, where no hook sees it."""

    def __init__(self, also_as_layer: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(768, 10), nn.Linear(10, 10)
        self.unused = nn.Linear(3, 3)
        self.also_as_layer = also_as_layer

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.first(images.flatten(1)).tanh()
        past = F.linear(hidden, self.last.weight, self.last.bias)
        return past + self.last(hidden) if self.also_as_layer else past


@pytest.mark.parametrize("also_as_layer", [False, True])
def test_what_opacus_cannot_see_is_computed_one_image_at_a_time(also_as_layer, samples, caplog):
    torch.manual_seed(0)
    model = Past(also_as_layer).double()
    with caplog.at_level(logging.DEBUG, logger="glasshouse"):
        found = create("dp_sgd:epsilon=inf,norm=inf").compute(model, samples, rng=rng())
    torch.testing.assert_close(flat(found.gradients), flat(plain_gradients(model, samples).gradients))
    assert "do not add up" in caplog.text


def condition(model: nn.Module) -> list[object]:
    """All that hooks and gradients could leave behind on a model."""
    modules = [
        (
            sorted(vars(module)),
            module.training,
            *(len(getattr(module, name)) for name in vars(module) if "hooks" in name),
        )
        for module in model.modules()
    ]
    return modules + [(sorted(vars(p)), p.requires_grad, id(p), id(p.grad)) for p in model.parameters()]


@pytest.mark.parametrize("name", ["lenet:width=4", "resnet20:width=4"])
@pytest.mark.parametrize("training", [False, True])
def test_the_model_is_left_as_it_was(name, training, samples, caplog):
    model = network(name).train(training)
    frozen, graded = list(model.parameters())[:2]
    frozen.requires_grad_(False)
    graded.grad = torch.ones_like(graded)
    before, weights = condition(model), [value.clone() for value in model.state_dict().values()]
    with caplog.at_level(logging.DEBUG, logger="glasshouse"):
        found = create("dp_sgd").compute(model, samples, rng=rng())
    assert "one at a time" not in caplog.text
    assert condition(model) == before
    assert all(torch.equal(a, b) for a, b in zip(weights, model.state_dict().values(), strict=True))
    assert torch.equal(graded.grad, torch.ones_like(graded))
    assert list(found.gradients) == [key for key, p in model.named_parameters() if p.requires_grad]


def test_dropout_keeps_its_mode(samples):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(768, 10)).double().eval()
    control = create("dp_sgd:epsilon=inf,norm=inf")
    still = flat(control.compute(model, samples, rng=rng()).gradients)
    torch.testing.assert_close(still, flat(plain_gradients(model, samples).gradients))
    assert not torch.allclose(flat(control.compute(model.train(), samples, rng=rng()).gradients), still)


def test_batch_norm_becomes_group_norm_on_a_copy(caplog):
    model = models.create("resnet20:width=4", SPEC)
    with torch.no_grad():
        model.network[1].weight.fill_(3)
    dp_sgd._warn.cache_clear()
    changed = create("dp_sgd").on_model(model)
    assert "21 batch norm layers were replaced by group norm" in caplog.text
    assert not dp_sgd.batchnorm_layers(changed)
    assert len(dp_sgd.batchnorm_layers(model)) == 21
    norms = [layer for layer in changed.modules() if isinstance(layer, nn.GroupNorm)]
    assert len(norms) == 21
    assert all(norm.num_channels // norm.num_groups >= 4 for norm in norms)
    assert [key for key, _ in changed.named_parameters()] == [key for key, _ in model.named_parameters()]
    for old, new in zip(model.parameters(), changed.parameters(), strict=True):
        assert torch.equal(old, new)
        assert old is not new


def test_a_shared_batch_norm_stays_shared():
    layer = nn.BatchNorm1d(8, affine=False)
    changed = dp_sgd.grouped(nn.Sequential(layer, nn.Linear(8, 8), layer))
    assert isinstance(changed[0], nn.GroupNorm)
    assert changed[0] is changed[2]


def test_a_model_without_batch_norm_stays_itself(caplog):
    model = models.create("lenet", SPEC)
    assert create("dp_sgd").on_model(model) is model
    assert not caplog.text


def test_batch_norm_is_refused_where_it_was_not_replaced(samples):
    with pytest.raises(ModelError, match="on_model"):
        create("dp_sgd").compute(models.create("resnet20:width=4", SPEC).double(), samples, rng=rng())


def exact_delta(epsilon: float, sigma: float, steps: int) -> float:
    """The delta of Gaussian noise on all images at every step (Balle and Wang 2018, theorem 8)."""
    mu = math.sqrt(steps) / sigma
    return normal.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize(("epsilon", "steps"), [(8.0, 100), (1.0, 10), (0.05, 3)])
def test_the_noise_keeps_the_promise_where_it_can_be_computed_exactly(epsilon, steps):
    sigma = dp_sgd.noise_multiplier(epsilon, 1e-5, 1.0, steps)
    assert exact_delta(epsilon, sigma, steps) <= 1e-5
    assert exact_delta(epsilon, 0.8 * sigma, steps) > 1e-5


def renyi_epsilon(sigma: float, rate: float, steps: int, delta: float) -> float:
    """Epsilon of the sampled Gaussian mechanism, by the sum over integer orders (Mironov et al. 2019, section 3.3)."""
    found = []
    for order in range(2, 65):
        terms = [
            math.log(math.comb(order, k))
            + k * math.log(rate)
            + (order - k) * math.log1p(-rate)
            + k * (k - 1) / (2 * sigma**2)
            for k in range(order + 1)
        ]
        renyi = steps * torch.logsumexp(torch.tensor(terms, dtype=torch.float64), 0).item() / (order - 1)
        found.append(renyi + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1))
    return min(found)


@pytest.mark.parametrize(("epsilon", "rate", "steps"), [(8.0, 0.01, 1000), (2.0, 0.05, 200)])
def test_the_noise_keeps_the_promise_under_sampling(epsilon, rate, steps):
    from opacus.accountants import PRVAccountant

    sigma = dp_sgd.noise_multiplier(epsilon, 1e-5, rate, steps)
    assert renyi_epsilon(sigma, rate, steps, 1e-5) == pytest.approx(epsilon, rel=0.03)
    tight = PRVAccountant()
    tight.history = [(sigma, rate, steps)]
    assert 0.8 * epsilon < tight.get_epsilon(1e-5) <= epsilon


def test_the_promise_is_in_figures():
    defense = create("dp_sgd").for_training(225, 0.1, 64)
    assert defense.spec == "dp_sgd:steps=225,sample_rate=0.1,batch=64"
    assert create(defense.complete_spec) == defense
    guarantee = "(epsilon, delta) = (8, 1e-05) over 225 steps at sampling rate 0.1"
    assert defense.promise == f"{guarantee}: noise multiplier {defense.noise:.3g}, clip 1"
    assert create("dp_sgd").noise < defense.noise < create("dp_sgd:steps=900,sample_rate=0.1").noise
    assert create("dp_sgd:epsilon=inf").promise.startswith("no privacy promised")
    assert create("gaussian/pixelate/dp_sgd").for_training(225, 0.1, 64).promise == defense.promise


@pytest.mark.parametrize("mixing", ["mixup", "instahide", "csvar_exchange"])
def test_nothing_is_promised_where_images_are_mixed_with_each_other(mixing):
    assert create(f"{mixing}/dp_sgd").promise == f"no privacy promised: images are mixed with each other by {mixing}"


def test_training_learns_when_much_is_allowed_and_not_when_little_is():
    train_set, test_set = (data.load(f"digits:split={split}") for split in ("train", "test"))
    images, labels = train_set.batch(range(600))
    recipe = Recipe(epochs=5, batch=64, lr=0.5, augment=False)
    reached = []
    for epsilon in (1000, 0.05):
        defense = create(f"dp_sgd:epsilon={epsilon}").for_training(recipe.steps(600), 64 / 600, 64)
        torch.manual_seed(0)
        model = defense.on_model(nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10)))
        fit(model, images, labels, recipe, client=DefendedClient(defense, rng(1)))
        reached.append(accuracy(model, *test_set.batch(range(200))))
    assert reached[0] > 0.7
    assert reached[1] < 0.5


def test_training_survives_empty_batches():
    images, labels = data.load("digits").batch(range(20))
    sizes = []

    class Watching(DefendedClient):
        def gradients(self, model, samples):
            sizes.append(len(samples.images))
            return super().gradients(model, samples)

    recipe = Recipe(epochs=3, batch=2, lr=0.01)
    defense = create("dp_sgd").for_training(recipe.steps(20), 0.1, 2)
    loss = fit(
        models.create("lenet:width=2", data.load("digits").spec),
        images,
        labels,
        recipe,
        client=Watching(defense, rng()),
    )
    assert 0 in sizes
    assert math.isfinite(loss)


def test_the_shared_gradient_is_mostly_noise(photos):
    model = models.create("lenet", ImageSpec(3, 32, 32, 10))

    def snr(spec: str) -> float:
        shared = share(
            model,
            photos[:1],
            torch.tensor([1]),
            create(spec),
            image=ImageSpec(3, 32, 32, 10),
            batchnorm="eval",
            give_labels=True,
            rng=rng(),
        )
        return shared.snr_db

    assert snr("dp_sgd:epsilon=inf,norm=inf") > 80
    assert snr("dp_sgd:epsilon=100000") > snr("dp_sgd") + 6
    assert snr("dp_sgd") < -5


def test_it_is_taken_by_audits_and_by_trainings(tmp_path, capsys):
    check_plan(Plan(defenses=("dp_sgd", "dp_sgd/prune")))
    train(
        tmp_path / "w.safetensors", model="lenet:width=2", images=40, epochs=1, batch=10, defense="dp_sgd", as_json=True
    )
    promise = json.loads(capsys.readouterr().out)["promise"]
    assert promise.startswith("(epsilon, delta) = (8, 1e-05) over 4 steps at sampling rate 0.25: noise multiplier")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("epsilon=0", "epsilon=0"),
        ("epsilon=-inf", "epsilon=-inf"),
        ("epsilon=nan", "epsilon=nan"),
        ("norm=0", "norm=0"),
        ("norm=inf", "norm=inf lets one image"),
        ("delta=0", "delta=0"),
        ("delta=1", "delta=1"),
        ("steps=0", "steps=0"),
        ("sample_rate=0", "sample_rate=0"),
        ("sample_rate=1.5", "sample_rate=1.5"),
        ("batch=0", "batch=0"),
    ],
)
def test_bad_settings(spec, message):
    with pytest.raises(SettingError, match=message):
        create(f"dp_sgd:{spec}")


def test_what_no_noise_can_reach_is_refused_before_any_work():
    defense = create("dp_sgd:epsilon=0.001,steps=100,sample_rate=1")
    with pytest.raises(SettingError, match="larger epsilon"):
        defense.on_model(models.create("lenet", SPEC))


def test_without_opacus_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus.accountants", None)
    dp_sgd.noise_multiplier.cache_clear()
    with pytest.raises(SettingError, match=r"pip install 'glasshouse\[dp\]'"):
        create("dp_sgd").on_model(models.create("lenet", SPEC))


class Patches(nn.Module):
    """Every layer sees the quarters of an image as rows."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 3)

    def forward(self, images):
        return self.fc(images.reshape(-1, 16)).view(len(images), -1, 3).mean(1)


def test_images_are_clipped_not_their_patches():
    torch.manual_seed(0)
    samples = Samples(10 * torch.rand(1, 1, 8, 8), torch.tensor([1]))
    found = create("dp_sgd:epsilon=inf,norm=0.01").compute(Patches(), samples, rng=torch.Generator().manual_seed(0))
    assert torch.cat([one.flatten() for one in found.gradients.values()]).norm() <= 0.01 * 1.001
