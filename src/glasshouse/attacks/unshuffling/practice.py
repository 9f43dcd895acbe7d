"""Practice: public images that the attacker protects as the victim does, under keys of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glasshouse.defenses import Defense
from glasshouse.training import Samples

#: Makes several epochs' versions of all images, under one new key at every call.
Protect = Callable[[Samples, int], list[Tensor]]


@dataclass(frozen=True, slots=True, eq=False)
class Practice:
    """Public images with labels, and a way to protect all of them as a client does."""

    public: Samples
    protect: Protect

    def batches(
        self, size: int, steps: int, rng: torch.Generator, *, versions: int = 1
    ) -> Iterator[tuple[Tensor, list[Tensor]]]:
        """Batches of raw images with versions of them; half are mirrored, and the key changes with every pass."""
        images = self.public.images
        size = min(size, len(images))
        order: list[Tensor] = []
        for _ in range(steps):
            if not order:
                mirrored = torch.rand(len(images), 1, 1, 1, generator=rng) < 0.5
                raw = torch.where(mirrored, images.flip(-1), images)
                made = self.protect(replace(self.public, images=raw), versions)
                parts = torch.randperm(len(images), generator=rng).split(size)
                order = [part for part in parts if len(part) == size]
            chosen = order.pop()
            yield raw[chosen], [one[chosen] for one in made]


def plainly(defense: Defense, samples: Samples, rng: torch.Generator) -> Tensor:
    """Protected images of samples, at their own resolution."""
    return defense.on_samples(samples, rng=rng).images


def as_a_client(
    defense: Defense, rng: torch.Generator, apply: Callable[[Defense, Samples, torch.Generator], Tensor] = plainly
) -> Protect:
    """Protect as a client of a defense does: one key for all epochs, and every image of the set at once."""

    def protect(samples: Samples, versions: int) -> list[Tensor]:
        keyed = defense.with_key(rng)
        return [apply(keyed.in_epoch(epoch), samples, rng) for epoch in range(versions)]

    return protect
