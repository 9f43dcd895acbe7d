"""How an attacker asks a model: with images as they are, or protected as the model saw them in training."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import torch
from torch import Tensor, nn

from glasshouse import devices
from glasshouse.defenses import Chain, Defense
from glasshouse.functional.threads import AT_ONCE, outputs
from glasshouse.membership.shadows import derived
from glasshouse.training import Samples

VERSIONS = 8  # of each protected query, under different keys

#: How the attacker looks at a model: the model itself, or one that changes its input first.
View = Callable[[nn.Module], nn.Module]


def plainly(model: nn.Module) -> nn.Module:
    """Look at a model with images as they are."""
    return model


class Protected(nn.Module):
    """A model asked about protected images: the mean log-probability over a few versions under drawn keys.

    A model that was trained on protected images is less sure of clean ones, and so gives less away about them. Who
    asks for a class does not know it, so each image is protected as if it were the only one of its own: mixed with
    images of other classes it would show none of them. Links of a chain that need labels are left out.

    What is drawn for an image without a key depends on nothing but the image. Under a key its place in the batch may
    count (``csvar_exchange``), so whoever compares two models asks them about the same images in the same order.
    """

    def __init__(self, model: nn.Module, defense: Defense, *, seed: int = 0, versions: int = VERSIONS) -> None:
        super().__init__()
        self.model = model
        self.guards = _of_images(defense)
        self.seed = seed
        self.versions = versions

    def forward(self, images: Tensor) -> Tensor:
        """Log-probabilities (N, classes), which are logits of themselves."""
        rng = torch.Generator().manual_seed(self.seed)
        guards = [guard.with_key(rng) for guard in self.guards]
        found = []
        for version in range(self.versions):
            sent = images.cpu()  # as a client protects them
            for guard in guards:
                sent = self._sent(guard.in_epoch(version), sent, version)
            found.append(self.model(sent.to(images.device)).log_softmax(1))
        return torch.stack(found).mean(0)

    def _sent(self, guard: Defense, images: Tensor, version: int) -> Tensor:
        """Images behind one link: under its key all at once, without a key each by draws of its own."""
        parts = images.split(1) if _draws(guard) else (images,)
        changed = []
        for part in parts:
            rng = torch.Generator().manual_seed(derived("query", self.seed, version, _names(part[:1])))
            changed.append(guard.on_samples(Samples(part, torch.arange(len(part))), rng=rng).images)
        return torch.cat(changed)


class Recalled(nn.Module):
    """A model that was asked about some images at once, and answers for them from memory when it is asked again."""

    def __init__(self, model: nn.Module, images: Tensor) -> None:
        super().__init__()
        self.model = model
        self.known = dict(zip(_names(images), logits(model, images), strict=True))

    def forward(self, images: Tensor) -> Tensor:
        """Logits (N, classes) in double precision; only what was not asked at first is computed."""
        names = _names(images)
        new = [place for place, name in enumerate(names) if name not in self.known]
        known = self.known
        if new:
            known = known | dict(zip((names[place] for place in new), self.model(images[new]).double(), strict=True))
        return torch.stack([known[name].to(images.device) for name in names])


def _names(images: Tensor) -> list[bytes]:
    return [hashlib.sha256(image.numpy().tobytes()).digest() for image in images.cpu()]


def views(defense: Defense, seed: int) -> dict[str, View]:
    """The ways to ask a model that was trained behind a defense, by name; the worst of them counts."""
    found: dict[str, View] = {"clean": plainly}
    if _of_images(defense):
        found["protected"] = lambda model: Protected(model, defense, seed=seed).eval()
    return found


def editions(defense: Defense) -> tuple[int, ...]:
    """Versions of the way to ask that changed answers behind a defense."""
    guards = _of_images(defense)
    return tuple(version for version, changed in EDITIONS.items() if any(map(changed, guards)))


def _mixes(guard: Defense) -> bool:
    """Whether images trade values: version 1 let queries trade with others of another class."""
    return type(guard).partners is not Defense.partners


def _draws(guard: Defense) -> bool:
    """Whether no key decides what becomes of an image: up to version 2 its place among the others did."""
    return type(guard).with_key is Defense.with_key


EDITIONS = {2: _mixes, 3: _draws}


def _of_images(defense: Defense) -> list[Defense]:
    """The links of a defense that change images without their labels."""
    links = defense.links if isinstance(defense, Chain) else (defense,)
    return [link for link in links if type(link).on_images is not Defense.on_images]


def logits(model: nn.Module, images: Tensor) -> Tensor:
    """What a model in eval mode says of images: (N, classes), in double precision."""
    with torch.no_grad(), devices.placed(model) as device:
        if device == devices.CPU:
            return outputs(model, images).double()
        return torch.cat([model(part.to(device)).cpu() for part in images.split(AT_ONCE)]).double()


def of_label(values: Tensor, labels: Tensor) -> Tensor:
    """The entry of each image's label: (..., N, classes) and (N,) to (..., N)."""
    return values.gather(-1, labels.expand(values.shape[:-1])[..., None])[..., 0]
