"""How an attacker asks a model: with images as they are, or protected as the model saw them in training."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from glasshouse import devices
from glasshouse.defenses import Chain, Defense

BATCH = 256
VERSIONS = 8  # of each protected query, under different keys

#: How the attacker looks at a model: the model itself, or one that changes its input first.
View = Callable[[nn.Module], nn.Module]


def plainly(model: nn.Module) -> nn.Module:
    """Look at a model with images as they are."""
    return model


class Protected(nn.Module):
    """A model asked about protected images: the mean log-probability over a few versions under drawn keys.

    A model that was trained on protected images is less sure of clean ones, and so gives less away about them.
    """

    def __init__(self, model: nn.Module, defense: Defense, *, seed: int = 0, versions: int = VERSIONS) -> None:
        super().__init__()
        self.model = model
        self.defense = defense
        self.seed = seed
        self.versions = versions

    def forward(self, images: Tensor) -> Tensor:
        """Log-probabilities (N, classes), which are logits of themselves."""
        rng = torch.Generator().manual_seed(self.seed)
        guard = self.defense.with_key(rng)
        plain = images.cpu()  # where a client protects them
        sent = (guard.in_epoch(version).on_images(plain, rng=rng) for version in range(self.versions))
        return torch.stack([self.model(one.to(images.device)).log_softmax(1) for one in sent]).mean(0)


def views(defense: Defense, seed: int) -> dict[str, View]:
    """The ways to ask a model that was trained behind a defense, by name; the worst of them counts."""
    links = defense.links if isinstance(defense, Chain) else (defense,)
    found: dict[str, View] = {"clean": plainly}
    if any(type(link).on_images is not Defense.on_images for link in links):
        found["protected"] = lambda model: Protected(model, defense, seed=seed).eval()
    return found


def logits(model: nn.Module, images: Tensor) -> Tensor:
    """What a model in eval mode says of images: (N, classes), in double precision."""
    with torch.no_grad(), devices.placed(model) as device:
        return torch.cat([model(part.to(device)).cpu() for part in images.split(BATCH)]).double()


def of_label(values: Tensor, labels: Tensor) -> Tensor:
    """The entry of each image's label: (..., N, classes) and (N,) to (..., N)."""
    return values.gather(-1, labels.expand(values.shape[:-1])[..., None])[..., 0]
