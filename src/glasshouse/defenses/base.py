"""The contract of defenses: identity everywhere, except where a defense says it acts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from glasshouse.registry import Registry, complete_spec, setting, to_spec
from glasshouse.types import Place

Gradients = Mapping[str, Tensor]


class Defense(ABC):
    """Changes what is shared. Every hook is the identity unless a subclass overrides it.

    ``on_images`` sees (N, C, H, W) images in [0, 1] before the gradient is computed; ``on_gradients`` sees
    the gradient that is about to be shared; ``on_training`` sees each gradient the client trains with.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    version: ClassVar[int] = 1

    @property
    def spec(self) -> str:
        """The SPEC that builds this defense."""
        return to_spec(self)

    @property
    def complete_spec(self) -> str:
        """The SPEC with every setting written out."""
        return complete_spec(self)

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions of the algorithms inside."""
        return (self.version,)

    @property
    def acts_on(self) -> str:
        """Where this defense acts, for tables."""
        return "nothing"

    def on_images(self, images: Tensor, *, rng: torch.Generator) -> Tensor:
        """Change the images that the client computes with."""
        return images

    def on_gradients(self, gradients: Gradients, *, rng: torch.Generator) -> Gradients:
        """Change the gradient that the client shares."""
        return gradients

    def on_training(self, gradients: Gradients, *, rng: torch.Generator) -> Gradients:
        """Change each gradient that the client trains with."""
        return gradients


@dataclass(frozen=True, kw_only=True)
class GradientDefense(Defense):
    """A defense that changes gradients: those shared, those trained with, or both, as ``at`` says."""

    at: Place = setting("gradient", "where it acts: on the shared gradient, while training, or both")

    @property
    def acts_on(self) -> str:
        """Where this defense acts, for tables."""
        return {
            "gradient": "shared gradient",
            "training": "training",
            "both": "training and shared gradient",
        }[self.at]

    @abstractmethod
    def change(self, gradient: Tensor, *, rng: torch.Generator) -> Tensor:
        """Return a changed copy of one parameter's gradient."""

    def on_gradients(self, gradients: Gradients, *, rng: torch.Generator) -> Gradients:
        """Change the gradient that the client shares, unless the defense acts while training only."""
        return gradients if self.at == "training" else self._changed(gradients, rng)

    def on_training(self, gradients: Gradients, *, rng: torch.Generator) -> Gradients:
        """Change each gradient that the client trains with, unless the defense acts on the shared one only."""
        return gradients if self.at == "gradient" else self._changed(gradients, rng)

    def _changed(self, gradients: Gradients, rng: torch.Generator) -> Gradients:
        return {name: self.change(gradient, rng=rng) for name, gradient in gradients.items()}


@dataclass(frozen=True)
class Chain(Defense):
    """Several defenses one after another; written ``first/second`` in a SPEC."""

    links: tuple[Defense, ...]
    name: ClassVar[str] = "chain"
    paper: ClassVar[str] = ""

    @property
    def spec(self) -> str:
        """The SPEC that builds this chain."""
        return "/".join(link.spec for link in self.links)

    @property
    def complete_spec(self) -> str:
        """The SPEC with every setting of every link written out."""
        return "/".join(link.complete_spec for link in self.links)

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions of the links."""
        return tuple(link.version for link in self.links)

    @property
    def acts_on(self) -> str:
        """Where the links act, in order."""
        return ", then ".join(link.acts_on for link in self.links)

    def on_images(self, images: Tensor, *, rng: torch.Generator) -> Tensor:
        """Pass the images through every link."""
        for link in self.links:
            images = link.on_images(images, rng=rng)
        return images

    def on_gradients(self, gradients: Gradients, *, rng: torch.Generator) -> Gradients:
        """Pass the shared gradient through every link."""
        for link in self.links:
            gradients = link.on_gradients(gradients, rng=rng)
        return gradients

    def on_training(self, gradients: Gradients, *, rng: torch.Generator) -> Gradients:
        """Pass a training gradient through every link."""
        for link in self.links:
            gradients = link.on_training(gradients, rng=rng)
        return gradients


defenses: Registry[Defense] = Registry("defense", "glasshouse.defenses")


def create(spec: str) -> Defense:
    """Build a defense, or a chain of them, from ``name:key=value/name:key=value``."""
    links = [defenses.create(part) for part in spec.split("/")]
    return links[0] if len(links) == 1 else Chain(tuple(links))
