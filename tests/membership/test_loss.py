"""The loss attack and its variants against their definitions."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from glasshouse.membership import create
from glasshouse.membership.loss import certainty, confidence, log_complement, modified_certainty


@pytest.fixture
def predictions() -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(0)
    return 3 * torch.randn(20, 5, generator=rng, dtype=torch.float64), torch.randint(5, (20,), generator=rng)


def test_against_torch_and_the_definitions(predictions):
    logits, labels = predictions
    torch.testing.assert_close(confidence(logits, labels), -F.cross_entropy(logits, labels, reduction="none"))
    torch.testing.assert_close(certainty(logits, labels), -torch.distributions.Categorical(logits=logits).entropy())
    slow = []
    for row, label in zip(logits.softmax(1).tolist(), labels.tolist(), strict=True):
        p = torch.tensor(row, dtype=torch.float64)
        entropy = -(1 - p[label]) * p[label].log()
        entropy -= sum(p[other] * (1 - p[other]).log() for other in range(5) if other != label)
        slow.append(-entropy)
    torch.testing.assert_close(modified_certainty(logits, labels), torch.stack(slow))


def test_the_complement_stays_exact_where_the_prediction_is_certain():
    sure = torch.tensor([[800.0, 0.0, 1.0]], dtype=torch.float64)
    found = log_complement(sure)
    assert found[0, 0] == pytest.approx(-800 + math.log1p(math.e), rel=1e-12)
    for signal in (confidence, certainty, modified_certainty):
        assert signal(sure, torch.tensor([0])).isfinite().all()
        assert signal(sure, torch.tensor([1])).isfinite().all()


def test_sure_and_wrong_is_not_a_member_to_modified_entropy():
    logits, labels = torch.tensor([[9.0, 0, 0], [0, 9.0, 0]]).double(), torch.tensor([0, 0])
    assert certainty(logits, labels).diff() == pytest.approx(0)
    right, wrong = modified_certainty(logits, labels)
    assert right > wrong + 5


@pytest.mark.parametrize("signal", ["loss", "entropy", "modified_entropy"])
def test_every_signal_tells_members(signal, world):
    attack = create("loss", signal=signal)
    assert attack.shadow_count == 0
    assert world.auc(attack) > 0.65
    assert world.auc(attack, world.stranger) == pytest.approx(0.5, abs=0.15)
