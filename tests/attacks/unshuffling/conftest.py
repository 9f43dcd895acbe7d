"""Public images to practise on, and others that were protected under a key of their own."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from glasshouse.attacks.unshuffling.practice import Practice, as_a_client
from glasshouse.data.crops import photo_crops
from glasshouse.defenses import create
from glasshouse.training import Samples
from glasshouse.types import ImageSpec


@dataclass(frozen=True)
class World:
    """Crops of photographs: 80 public ones, and 40 secret ones in two versions."""

    public: Samples
    truth: torch.Tensor
    versions: tuple[torch.Tensor, torch.Tensor]

    def practice(self) -> Practice:
        """The attacker's practice, whose keys start anew at every call of this."""
        keys = torch.Generator().manual_seed(5)
        return Practice(self.public, as_a_client(create("csvar"), keys))


@pytest.fixture(scope="session")
def world() -> World:
    crops = photo_crops(ImageSpec(3, 16, 16, 1), 120, 0)
    first, second = (create("csvar").on_images(crops[80:], rng=torch.Generator().manual_seed(n)) for n in (9, 10))
    return World(Samples(crops[:80], torch.zeros(80, dtype=torch.long)), crops[80:], (first, second))
