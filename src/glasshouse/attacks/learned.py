"""Learned: practise on public images, defended as the victim's are, until gradients turn into images by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse import checks, defenses
from glasshouse.attacks.base import InversionAttack, LabelUse, attacks, part_of
from glasshouse.attacks.labels import last_layer
from glasshouse.attacks.targets import mean_gradient
from glasshouse.defenses import Defense
from glasshouse.errors import CapabilityError
from glasshouse.functional.hashing import Hashing
from glasshouse.functional.ridge import LinearMap, fit_ridge
from glasshouse.registry import setting
from glasshouse.training import Gradients, Samples
from glasshouse.types import Capability, ImageSpec, Observation, Progress, Reconstruction

BATCH = 32
FEWEST = 4  # two to fit, two to check
PRACTICE = 0.7  # share of the work that computing the gradients of public images takes


@dataclass(frozen=True, slots=True, eq=False)
class Inverse:
    """Gradients to images: what is read off them, a linear map of it, and a network that mends the picture.

    ``error`` is the mean squared error on public images that the linear map was not fitted to.
    """

    read: Reader
    linear: LinearMap
    mend: nn.Module
    image: ImageSpec
    error: float

    def __call__(self, gradients: Gradients) -> Tensor:
        """The image (1, C, H, W) in [0, 1] behind one gradient."""
        with torch.no_grad():
            return mended(self.mend, rough(self.linear, self.read(gradients)[None], self.image)).clamp(0, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """What is taken from a gradient: all of it, hashed, and what the last layer saw of the image."""

    hashing: Hashing
    last: tuple[str, str] | None

    def __call__(self, gradients: Gradients) -> Tensor:
        """The numbers read off one gradient: (features,)."""
        hashed = self.hashing(gradients)
        if self.last is None:
            return hashed
        weight, bias = (gradients[name] for name in self.last)
        # the gradient of one image is pull times input: its product with the pull, which is the bias gradient's
        inputs = bias @ weight / bias.square().sum().clamp_min(torch.finfo(bias.dtype).tiny)
        return torch.cat([hashed, inputs])


@attacks.register("learned")
@dataclass(frozen=True, kw_only=True)
class Learned(InversionAttack):
    """Ridge regression from hashed gradients to public images, and a small network that mends its pictures.

    It knows the defense, though not its key or random numbers, and practises behind it.
    """

    paper: ClassVar[str] = "Wu et al. 2023, Learning to Invert: Simple Adaptive Attacks for Gradient Inversion"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.GRADIENT, Capability.PUBLIC_IMAGES})
    label_use: ClassVar[LabelUse] = "unused"
    together: ClassVar[int] = 4096  # what it learned serves all images behind the same defense
    version: ClassVar[int] = 2

    images: int = setting(5000, "public images it practises on, at most")
    hashed: int = setting(1024, "numbers to which all entries of a gradient are hashed")
    steps: int = setting(300, "steps of the network that mends pictures, 32 images each")
    width: int = setting(32, "channels of that network")

    def __post_init__(self) -> None:
        checks.at_least("images", self.images, FEWEST)
        for name in ("hashed", "steps", "width"):
            checks.at_least(name, getattr(self, name), 1)

    def refuse(self, model: nn.Module, seen: Observation) -> None:
        """Refuse batches, and too few images to learn from."""
        super().refuse(model, seen)
        if seen.public is not None and len(seen.public) < FEWEST:
            raise CapabilityError(
                f"Attack '{self.name}' was given {len(seen.public)} public images: it needs at least {FEWEST}, and "
                "thousands to be any good; name more (--public SPEC)."
            )
        if seen.batch_size > 1:
            raise CapabilityError(
                f"Attack '{self.name}' needs a gradient of one image, not of {seen.batch_size}, because it practises "
                "on single ones: use a batch of 1, or invgrad."
            )

    def run(self, model: nn.Module, seen: Observation, *, rng: torch.Generator, progress: Progress) -> Reconstruction:
        """Practise, and apply what was learned."""
        return self.run_all(model, [seen], rngs=[rng], progress=progress)[0]

    def run_all(
        self, model: nn.Module, seen: Sequence[Observation], *, rngs: Sequence[torch.Generator], progress: Progress
    ) -> list[Reconstruction]:
        """Practise once behind every defense, and apply it to all observations behind that defense."""
        first = {one.defense: (one, rng) for one, rng in reversed(list(zip(seen, rngs, strict=True)))}
        inverses = {}
        for number, (defense, (one, rng)) in enumerate(first.items()):
            report = partial(part_of, progress, number, len(first))
            inverses[defense] = self._practise(model, one, defenses.create(defense), rng, report)
        return [Reconstruction(inverses[one.defense](mean_gradient(one)), inverses[one.defense].error) for one in seen]

    def _practise(
        self, model: nn.Module, seen: Observation, defense: Defense, rng: torch.Generator, progress: Progress
    ) -> Inverse:
        """Learn to invert: half of the public images fit the linear map, the other half checks and mends it."""
        public = self._drawn(seen, rng)
        labels = practice_labels(model, public, seen.image.classes, rng)
        length = sum(tensor.numel() for tensor in seen.rounds[0].tensors.values())
        read = Reader(Hashing.drawn(length, self.hashed, rng), _biased(last_layer(model, seen.image.classes)))
        rows = []
        for number, (image, label) in enumerate(zip(public, labels, strict=True), start=1):
            samples = Samples(image[None], label[None], seen.image.classes)
            rows.append(read(shared(model, defense, samples, rng)))
            progress(PRACTICE * number / len(public))
        features = torch.stack(rows)
        half = len(public) // 2
        linear = fit_ridge(features[:half], public[:half].flatten(1), (features[half:], public[half:].flatten(1)))
        guesses = rough(linear, features[half:], seen.image)
        error = float(F.mse_loss(guesses, public[half:]))
        mend = self._mender(guesses, public[half:], rng, lambda share: progress(PRACTICE + (1 - PRACTICE) * share))
        return Inverse(read, linear, mend, seen.image, error)

    def _drawn(self, seen: Observation, rng: torch.Generator) -> Tensor:
        """Public images in random order, as many as are practised on."""
        public = torch.empty(0) if seen.public is None else seen.public
        return public[torch.randperm(len(public), generator=rng)[: self.images]]

    def _mender(self, guesses: Tensor, truth: Tensor, rng: torch.Generator, progress: Progress) -> nn.Module:
        """Train a small convolutional network to correct guesses (N, C, H, W) of public images."""
        channels = truth.shape[1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (1,), generator=rng)))
            network = nn.Sequential(
                nn.Conv2d(channels, self.width, 5, padding=2),
                nn.ReLU(),
                nn.Conv2d(self.width, self.width, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(self.width, channels, 3, padding=1),
            )
        optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.steps)
        for step in range(self.steps):
            chosen = torch.randint(len(truth), (BATCH,), generator=rng)
            optimizer.zero_grad()
            F.mse_loss(mended(network, guesses[chosen]), truth[chosen]).backward()
            optimizer.step()
            schedule.step()
            progress((step + 1) / self.steps)
        return network.eval()


def shared(model: nn.Module, defense: Defense, samples: Samples, rng: torch.Generator) -> Gradients:
    """What a client behind a defense would share of samples, with random numbers of the attacker's own."""
    own = defense.on_samples(samples, rng=rng)
    return defense.on_gradients(defense.compute(model, own, rng=rng).gradients, rng=rng)


def practice_labels(model: nn.Module, images: Tensor, classes: int, rng: torch.Generator) -> Tensor:
    """Labels to practise with: half at random, half as the model sees the images; a victim's may be either. (N,)"""
    with torch.no_grad():
        seen_as = torch.cat([model(part).argmax(1) for part in images.split(BATCH)])
    drawn = torch.randint(classes, (len(images),), generator=rng)
    return torch.where(torch.rand(len(images), generator=rng) < 0.5, seen_as, drawn)


def rough(linear: LinearMap, features: Tensor, image: ImageSpec) -> Tensor:
    """Pictures (N, C, H, W) as the linear map makes them."""
    return linear(features).view(-1, *image.shape)


def mended(network: nn.Module, guesses: Tensor) -> Tensor:
    """Guesses (N, C, H, W) with what the network adds to them."""
    corrected: Tensor = guesses + network(guesses)
    return corrected


def _biased(last: tuple[str, str | None] | None) -> tuple[str, str] | None:
    """The names of weight and bias of a last layer that has both."""
    return None if last is None or last[1] is None else (last[0], last[1])
