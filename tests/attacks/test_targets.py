"""What is matched: messages about the same images averaged, and only the layers that are trusted."""

from __future__ import annotations

import pytest
import torch

from glasshouse.attacks.targets import classifier, mean_gradient, trusted
from glasshouse.errors import SettingError
from glasshouse.types import ImageSpec, Observation, SharedUpdate

SPEC = ImageSpec(3, 16, 16, 10)


def of(*rounds: SharedUpdate) -> dict[str, torch.Tensor]:
    return mean_gradient(Observation(rounds, SPEC, 1))


def test_messages_about_the_same_images_are_averaged_and_others_are_not():
    one, two, other = (torch.full((2,), float(n)) for n in (1, 3, 100))
    assert of(SharedUpdate({"w": one}), SharedUpdate({"w": two}))["w"].tolist() == [2, 2]
    mixed = SharedUpdate({"w": one}, indices=(0,)), SharedUpdate({"w": other}, indices=(1,))
    assert of(*mixed)["w"].tolist() == [1, 1]


def test_an_update_counts_as_the_mean_gradient_of_its_steps():
    update = SharedUpdate({"w": torch.full((2,), 6.0)}, kind="update", local_steps=3, learning_rate=0.5)
    assert of(update)["w"].tolist() == [4, 4]


def test_patterns_choose_and_leave_out(lenet):
    shared = {name: torch.zeros_like(value) for name, value in lenet.named_parameters()}
    last = [name for name in shared if name.startswith(f"{classifier(lenet)}.")]
    assert len(last) == 2
    assert list(trusted(lenet, shared, "*", "none")) == list(shared)
    assert set(shared) - set(trusted(lenet, shared, "*", "classifier")) == set(last)
    assert set(trusted(lenet, shared, "classifier+*.0.*", "*.bias")) == {last[0], "network.0.weight"}
    with pytest.raises(SettingError, match="leaves no gradient"):
        trusted(lenet, shared, "*", "*")
