"""No defense."""

from __future__ import annotations

import torch

from glasshouse.defenses import create


def test_changes_nothing():
    rng = torch.Generator().manual_seed(0)
    gradients, images = {"a": torch.randn(5)}, torch.rand(1, 3, 4, 4)
    none = create("none")
    assert none.on_gradients(gradients, rng=rng) is gradients
    assert none.on_training(gradients, rng=rng) is gradients
    assert none.on_images(images, rng=rng) is images
    assert none.acts_on == "nothing"
