"""What local training makes of weights: the same as torch's own SGD, and differentiable by the images."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F

from glasshouse.functional.local import batches_in_order, local_steps, local_update


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Sigmoid(), nn.Flatten(), nn.Linear(32, 3)).double()


def test_the_update_is_what_sgd_does_over_two_epochs_of_uneven_batches():
    model, rng = network(), torch.Generator().manual_seed(1)
    images, labels = torch.rand(5, 1, 6, 6, generator=rng, dtype=torch.float64), torch.tensor([0, 2, 1, 1, 0])
    moved = local_update(model, images, labels, learning_rate=0.3, steps=6, batch=2)
    twin = copy.deepcopy(model)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.3)
    for _ in range(2):
        for inputs, targets in zip(images.split(2), labels.split(2), strict=True):
            optimizer.zero_grad()
            F.cross_entropy(twin(inputs), targets).backward()
            optimizer.step()
    for (name, before), after in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(moved[name], before - after)
        assert before.grad is None


def test_its_derivative_by_the_images_is_right():
    model, rng = network(), torch.Generator().manual_seed(1)
    images = torch.rand(2, 1, 6, 6, generator=rng, dtype=torch.float64).requires_grad_()
    direction = {name: torch.randn(p.shape, generator=rng, dtype=p.dtype) for name, p in model.named_parameters()}

    def along(x: torch.Tensor) -> torch.Tensor:
        moved = local_update(model, x, torch.tensor([0, 2]), learning_rate=0.5, steps=3, batch=1)
        return sum((moved[name] * own).sum() for name, own in direction.items())

    assert torch.autograd.gradcheck(along, (images,))


def test_batches_come_in_order_epoch_after_epoch():
    assert [(part.start, part.stop) for part in batches_in_order(5, 2, 4)] == [(0, 2), (2, 4), (4, 6), (0, 2)]
    assert local_steps(5, 2, 3) == 9
    assert local_steps(5, None, 3) == 3
