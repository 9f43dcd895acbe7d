"""Ways to ask a model."""

from __future__ import annotations

import torch
from torch import nn

from glasshouse.membership.queries import Recalled, logits


class Counting(nn.Module):
    """Remembers how many images it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.shown += len(images)
        return images.flatten(1)[:, :3]


def test_what_was_asked_before_is_answered_alike_and_not_computed_again():
    images = torch.rand(150, 1, 4, 4)
    model = Counting()
    recalled = Recalled(model, images)
    first = logits(recalled, images)
    assert torch.equal(first, images.flatten(1)[:, :3].double())
    mixed = torch.cat([images[100:], torch.rand(5, 1, 4, 4)])
    assert torch.equal(logits(recalled, mixed)[:50], first[100:])
    assert model.shown == 155
