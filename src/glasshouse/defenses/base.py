"""The contract of defenses: identity everywhere, except where a defense says it acts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from glasshouse.errors import SettingError
from glasshouse.registry import Registry, complete_spec, setting, to_spec
from glasshouse.training import Client, Computed, Gradients, Samples, plain_gradients
from glasshouse.types import Place, Stage


class Defense(ABC):
    """Changes what is shared. Every hook is the identity unless a subclass overrides it.

    In the order in which a client comes to them: ``on_model`` sees the network, ``on_samples`` all images and
    labels the client computes with (``on_images`` is its short form for a defense that leaves labels alone),
    ``compute`` makes a gradient of some of them, ``on_gradients`` sees the gradient that is about to be shared,
    and ``on_training`` each gradient the client trains with.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    version: ClassVar[int] = 1
    moves_blocks: ClassVar[bool] = False  # whether it does nothing but let blocks of a region trade places
    poisson: ClassVar[bool] = False  # whether its promise needs batches drawn at random instead of dealt out
    stages: ClassVar[frozenset[Stage]] = frozenset()  # where it acts, for decisions
    follows_device: ClassVar[bool] = True  # whether it computes, and changes what is trained with, where that lies

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

    @property
    def idle_in_training(self) -> bool:
        """Whether it, or a link of it, acts on the shared gradient only and so leaves a trained model as it is."""
        return self.stages == {Stage.SHARING}

    @property
    def promise(self) -> str:
        """What this defense guarantees in figures; nothing unless it is proved."""
        return ""

    @property
    def changes_model(self) -> bool:
        """Whether the client computes with another network than the given one."""
        return type(self).on_model is not Defense.on_model

    def for_training(self, steps: int, sample_rate: float, batch: int) -> Defense:
        """This defense, set up for a training of so many steps that each see such a share of the images.

        ``batch`` is how many images that share makes on average.
        """
        return self

    def region_side(self, height: int, width: int) -> int | None:
        """Side of the regions that this defense leaves values in, where it has regions of its own."""
        return None

    def partners(self, samples: Samples) -> Tensor:
        """For each image (N,) the number of its group, whose images may hold its values; alone unless it trades."""
        return torch.arange(len(samples.images))

    def with_key(self, rng: torch.Generator) -> Defense:
        """This defense under a key of its own that stays, where it needs one."""
        return self

    def in_epoch(self, epoch: int) -> Defense:
        """This defense as it is in one epoch of training."""
        return self

    def on_model(self, model: nn.Module) -> nn.Module:
        """The network the client computes with: the given one, or a changed copy."""
        return model

    def on_images(self, images: Tensor, *, rng: torch.Generator) -> Tensor:
        """Change the images (N, C, H, W) in [0, 1] that the client computes with."""
        return images

    def on_samples(self, samples: Samples, *, rng: torch.Generator) -> Samples:
        """Change the images, and the targets with them, that the client computes with."""
        images = self.on_images(samples.images, rng=rng)
        return samples if images is samples.images else replace(samples, images=images)

    def compute(self, model: nn.Module, samples: Samples, *, rng: torch.Generator) -> Computed:
        """Compute the gradient of a batch."""
        return plain_gradients(model, samples)

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

    @property
    def stages(self) -> frozenset[Stage]:  # type: ignore[override]
        """Where this defense acts, for decisions."""
        return {
            "gradient": frozenset({Stage.SHARING}),
            "training": frozenset({Stage.TRAINING}),
            "both": frozenset({Stage.TRAINING, Stage.SHARING}),
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

    def __post_init__(self) -> None:
        own = self._computing()
        if len(own) > 1:
            raise SettingError(
                f"{' and '.join(one.name for one in own)} each compute gradients in their own way: chain one of them."
            )

    def _computing(self) -> list[Defense]:
        """The links that compute gradients in their own way."""
        return [link for link in self.links if type(link).compute is not Defense.compute]

    @property
    def idle_in_training(self) -> bool:
        """Whether a link acts on the shared gradient only."""
        return any(link.idle_in_training for link in self.links)

    @property
    def stages(self) -> frozenset[Stage]:  # type: ignore[override]
        """Where any link acts."""
        return frozenset[Stage]().union(*(link.stages for link in self.links))

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
    def promise(self) -> str:
        """What the links guarantee; nothing where one mixes images, for then an image is in several gradients."""
        promises = [link.promise for link in self.links if link.promise]
        mixing = [link.name for link in self.links if type(link).on_samples is not Defense.on_samples]
        if promises and mixing:
            return f"no privacy promised: images are mixed with each other by {' and '.join(mixing)}"
        return "; ".join(promises)

    @property
    def acts_on(self) -> str:
        """Where the links act, in order."""
        return ", then ".join(link.acts_on for link in self.links)

    @property
    def changes_model(self) -> bool:
        """Whether a link changes the network."""
        return any(link.changes_model for link in self.links)

    @property
    def poisson(self) -> bool:  # type: ignore[override]
        """Whether a link needs batches drawn at random."""
        return any(link.poisson for link in self.links)

    @property
    def follows_device(self) -> bool:  # type: ignore[override]
        """Whether every link does."""
        return all(link.follows_device for link in self.links)

    def for_training(self, steps: int, sample_rate: float, batch: int) -> Defense:
        """Set up every link."""
        return Chain(tuple(link.for_training(steps, sample_rate, batch) for link in self.links))

    def region_side(self, height: int, width: int) -> int | None:
        """The regions of the first link that has its own."""
        sides = (link.region_side(height, width) for link in self.links)
        return next((side for side in sides if side is not None), None)

    def partners(self, samples: Samples) -> Tensor:
        """The groups of the first link; what later links trade is not known from the images as they are."""
        return self.links[0].partners(samples)

    def with_key(self, rng: torch.Generator) -> Defense:
        """Give every link that needs one a key."""
        return Chain(tuple(link.with_key(rng) for link in self.links))

    def in_epoch(self, epoch: int) -> Defense:
        """Every link as it is in one epoch."""
        return Chain(tuple(link.in_epoch(epoch) for link in self.links))

    def on_model(self, model: nn.Module) -> nn.Module:
        """Pass the network through every link."""
        for link in self.links:
            model = link.on_model(model)
        return model

    def on_images(self, images: Tensor, *, rng: torch.Generator) -> Tensor:
        """Pass the images through every link."""
        for link in self.links:
            images = link.on_images(images, rng=rng)
        return images

    def on_samples(self, samples: Samples, *, rng: torch.Generator) -> Samples:
        """Pass the samples through every link."""
        for link in self.links:
            samples = link.on_samples(samples, rng=rng)
        return samples

    def compute(self, model: nn.Module, samples: Samples, *, rng: torch.Generator) -> Computed:
        """Compute the gradient as the one link does that has its own way."""
        own = self._computing()
        return own[0].compute(model, samples, rng=rng) if own else plain_gradients(model, samples)

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


class DefendedClient(Client):
    """A client that trains behind a defense, under one key, anew for every epoch from a first one on."""

    def __init__(self, defense: Defense, rng: torch.Generator, *, epoch: int = 0) -> None:
        self.defense = defense.with_key(rng)
        self.rng = rng
        self.poisson = defense.poisson
        self.follows_device = defense.follows_device
        self.epoch = epoch

    def begin(self, steps: int, sample_rate: float, batch: int) -> None:
        """Set the defense up for the training to come, so that its promise is about that training."""
        self.defense = self.defense.for_training(steps, sample_rate, batch)

    def samples(self, samples: Samples) -> Samples:
        """What the client trains on in the next epoch."""
        self.epoch += 1
        return self.defense.in_epoch(self.epoch - 1).on_samples(samples, rng=self.rng)

    def gradients(self, model: nn.Module, samples: Samples) -> Computed:
        """The gradient of one batch, as the defense lets the client train with it."""
        found = self.defense.compute(model, samples, rng=self.rng)
        return Computed(found.loss, self.defense.on_training(found.gradients, rng=self.rng))
