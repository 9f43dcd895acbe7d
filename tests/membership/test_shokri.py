"""Shokri's attack: what its classifiers see, one for each class, and that they tell members."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glasshouse.membership import create
from glasshouse.membership import shokri as module
from glasshouse.membership.shokri import LEAST, features, log_odds


def test_features_are_the_label_then_the_largest_in_order():
    logits = torch.tensor([[0.0, 2.0, 1.0], [99.0, 0.0, 0.0]], dtype=torch.float64)
    found = features(logits, torch.tensor([2, 1]), 2)
    logs = logits.log_softmax(1)
    torch.testing.assert_close(found[0], torch.stack([logs[0, 2], logs[0, 1], logs[0, 2]]))
    assert found[1, 0] == LEAST
    assert features(logits, torch.tensor([2, 1]), 9).shape == (2, 4)
    assert features(logits.expand(5, 2, 3), torch.tensor([2, 1]), 0).shape == (5, 2, 1)


def test_log_odds_do_not_mind_how_many_of_each_kind_there_are():
    random = np.random.default_rng(0)
    members, others = random.normal(1, 1, (300, 1)), random.normal(-1, 1, (3000, 1))
    known = np.repeat([True, False], [300, 3000])
    found = log_odds(np.concatenate([members, others]), known, np.array([[-1.0], [0.0], [1.0]]))
    assert found[1] == pytest.approx(0, abs=0.3)
    assert found[0] < -1.5 < 1.5 < found[2]  # the exact odds are 2 and -2


def test_a_class_with_enough_examples_has_a_classifier_of_its_own(world, monkeypatch):
    sizes = []

    def watched(examples, member, asked):
        sizes.append((len(examples), len(asked)))
        return log_odds(examples, member, asked)

    monkeypatch.setattr(module, "log_odds", watched)
    world.scores(create("shokri:shadows=8"))
    assert len(sizes) == 11  # one for all, one for each digit
    assert sum(asked for _, asked in sizes[1:]) == len(world.candidates)
    assert max(examples for examples, _ in sizes[1:]) < sizes[0][0] / 5
    sizes.clear()
    monkeypatch.setattr(module, "FEWEST", 10**6)
    world.scores(create("shokri:shadows=8"))
    assert len(sizes) == 1


@pytest.mark.parametrize("top", [0, 3, 10])
def test_members_are_told(top, world):
    attack = create("shokri", shadows=8, top=top)
    assert world.auc(attack) > 0.65  # this world: 0.81
    assert world.auc(attack, world.stranger) == pytest.approx(0.5, abs=0.15)
