"""LiRA: stable logit scaling, normal distributions against scipy, online and offline."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch

from glasshouse.errors import SettingError
from glasshouse.membership import create
from glasshouse.membership.lira import FLOOR, Normal, likelihood_scores, scaled_confidence


@pytest.fixture
def told() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Statistics of a target (N,) and of shadows (S, N), and who saw what."""
    rng = torch.Generator().manual_seed(0)
    shadows = torch.randn(12, 30, generator=rng, dtype=torch.float64) * 2 + 1
    inside = torch.stack([torch.randperm(12, generator=rng) < 6 for _ in range(30)], 1)
    return torch.randn(30, generator=rng, dtype=torch.float64), shadows + inside, inside


def slow(told, mode: str, fixed: bool) -> np.ndarray:
    """The same test with scipy, image by image."""
    target, shadows, inside = (one.numpy() for one in told)
    parts = {True: [], False: []}
    for image in range(len(target)):
        for kind in (True, False):
            parts[kind].append(shadows[inside[:, image] == kind, image])
    common = {kind: np.sqrt(np.mean([np.var(one, ddof=1) for one in parts[kind]])) for kind in (True, False)}
    scores = []
    for image, value in enumerate(target):
        means = {kind: parts[kind][image].mean() for kind in (True, False)}
        scales = common if fixed else {kind: parts[kind][image].std(ddof=1) for kind in (True, False)}
        if mode == "online":
            logs = [scipy.stats.norm.logpdf(value, means[kind], scales[kind]) for kind in (True, False)]
            scores.append(logs[0] - logs[1])
        else:
            scores.append(1 - scipy.stats.norm.sf(value, means[False], scales[False]))
    return np.array(scores)


@pytest.mark.parametrize("fixed", [True, False])
def test_online_is_the_log_likelihood_ratio_of_scipy(told, fixed):
    found = likelihood_scores(*told, mode="online", fixed_variance=fixed)
    np.testing.assert_allclose(found, slow(told, "online", fixed), rtol=1e-10)


@pytest.mark.parametrize("fixed", [True, False])
def test_offline_orders_images_as_the_one_sided_test_of_scipy(told, fixed):
    found = likelihood_scores(*told, mode="offline", fixed_variance=fixed)
    np.testing.assert_allclose(scipy.stats.norm.cdf(found), slow(told, "offline", fixed), rtol=1e-10)


def test_offline_does_not_look_at_shadows_that_saw_the_image(told):
    target, shadows, inside = told
    changed = torch.where(inside, shadows + 100, shadows)
    for mode, same in (("offline", True), ("online", False)):
        first, second = (
            likelihood_scores(target, one, inside, mode=mode, fixed_variance=True) for one in (shadows, changed)
        )
        assert torch.equal(first, second) == same


def test_logit_scaling_is_the_formula_where_that_can_be_computed():
    logits = torch.randn(50, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    labels = torch.arange(50) % 4
    p = logits.softmax(1)[torch.arange(50), labels]
    torch.testing.assert_close(scaled_confidence(logits, labels), (p / (1 - p)).log())


def test_logit_scaling_is_stable_where_a_probability_is_one_or_zero():
    logits = torch.tensor([[90.0, 0.0, 0.0], [-90.0, 0.0, 0.0], [1e4, -1e4, 0.0]], dtype=torch.float32)
    found = scaled_confidence(logits, torch.zeros(3, dtype=torch.long))
    two = torch.tensor(2.0, dtype=torch.float64).log()
    torch.testing.assert_close(found, torch.stack([90 - two, -90 - two, torch.tensor(1e4).double()]))
    naive = logits.double().softmax(1)[:, 0]
    assert not (naive / (1 - naive)).log().isfinite().all()
    shifted = scaled_confidence(logits + 7, torch.zeros(3, dtype=torch.long))
    torch.testing.assert_close(shifted, found, rtol=1e-6, atol=1e-3)


def test_every_shadow_at_once():
    logits = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([0, 1, 2, 3, 0])
    together = scaled_confidence(logits, labels)
    assert together.dtype == torch.float64
    torch.testing.assert_close(together, torch.stack([scaled_confidence(one, labels) for one in logits]))


def test_too_few_shadows_to_tell():
    values, none = torch.rand(4, 3), torch.zeros(4, 3, dtype=torch.bool)
    with pytest.raises(SettingError, match="in all shadow models or in none"):
        Normal.fitted(values, none, True)
    one = none.clone()
    one[0] = True
    with pytest.raises(SettingError, match="one shadow model only"):
        Normal.fitted(values, one, False)
    equal = Normal.fitted(torch.ones(4, 3), ~none, False)
    assert torch.equal(equal.variance, torch.full((3,), FLOOR))


@pytest.mark.parametrize("mode", ["online", "offline"])
@pytest.mark.parametrize("more", ["fixed_variance=true", "fixed_variance=false", "mirror=true"])
def test_every_mode_tells_members(mode, more, world):
    attack = create(f"lira:shadows=8,mode={mode},{more}")
    assert world.auc(attack) > 0.7  # this world: 0.83 to 0.90
    assert world.auc(attack, world.stranger) == pytest.approx(0.5, abs=0.15)


def test_shadows_beat_the_loss(world):
    assert world.auc(create("lira:shadows=8")) > world.auc(create("loss")) + 0.05
