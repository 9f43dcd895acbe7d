"""Practice: public images that the attacker protects as the victim does, under keys of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from glasshouse.training import Samples


@dataclass(frozen=True, slots=True, eq=False)
class Practice:
    """Public images with labels, and a way to protect all of them as a client does, anew at every call."""

    public: Samples
    protect: Callable[[Samples], Tensor]

    def batches(
        self, size: int, steps: int, rng: torch.Generator, *, versions: int = 1
    ) -> Iterator[tuple[Tensor, list[Tensor]]]:
        """Batches of raw images with versions of them; half are mirrored, and keys change with every pass."""
        images = self.public.images
        size = min(size, len(images))
        order: list[Tensor] = []
        for _ in range(steps):
            if not order:
                mirrored = torch.rand(len(images), 1, 1, 1, generator=rng) < 0.5
                raw = torch.where(mirrored, images.flip(-1), images)
                made = [self.protect(Samples(raw, self.public.targets)) for _ in range(versions)]
                parts = torch.randperm(len(images), generator=rng).split(size)
                order = [part for part in parts if len(part) == size]
            chosen = order.pop()
            yield raw[chosen], [one[chosen] for one in made]
