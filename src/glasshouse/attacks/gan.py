"""The GAN attack: a participant of a federation learns what another participant's class looks like."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse import checks
from glasshouse.errors import ModelError
from glasshouse.registry import setting
from glasshouse.training import Samples
from glasshouse.types import ImageSpec

SCALE = 4  # height and width of the generator's first layer are so many times smaller than the image's


def with_fake_class(image: ImageSpec) -> ImageSpec:
    """The same images for a classifier with one more class, the last, for what the attacker makes up."""
    return dataclasses.replace(image, classes=image.classes + 1)


class Generator(nn.Module):
    """Latent vectors (N, latent) to images (N, C, H, W) in [0, 1]: a linear layer and two up-sampled convolutions."""

    def __init__(self, image: ImageSpec, latent: int, width: int) -> None:
        super().__init__()
        self.image = image
        self.base = 2 * width, -(-image.height // SCALE), -(-image.width // SCALE)
        self.first = nn.Linear(latent, self.base[0] * self.base[1] * self.base[2])
        self.layers = nn.Sequential(
            nn.LeakyReLU(0.2),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(2 * width, width, 3, padding=1),
            nn.LeakyReLU(0.2),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(width, width, 3, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, image.channels, 3, padding=1),
            nn.Sigmoid(),
        )

    def forward(self, latent: Tensor) -> Tensor:
        """Images of latent vectors."""
        images: Tensor = self.layers(self.first(latent).view(-1, *self.base))
        return images[..., : self.image.height, : self.image.width]


@dataclass(frozen=True, kw_only=True)
class GANAttack:
    """Trains a generator against the global model, and teaches that model to see through it, round by round.

    It is no attack on a message: an adversary takes part in the rounds of a federation, and yields prototypes of a
    class that it does not hold. ``join`` makes one.
    """

    name: ClassVar[str] = "gan"
    paper: ClassVar[str] = "Hitaj et al. 2017, Deep Models Under the GAN"
    adversary: ClassVar[str] = "malicious participant"
    version: ClassVar[int] = 1

    target: int = setting(0, "the class of another participant that is to be seen")
    latent: int = setting(32, "numbers from which the generator makes an image")
    width: int = setting(16, "channels of the generator")
    steps: int = setting(50, "steps of the generator in every round, 64 samples each")
    lr: float = setting(1e-3, "step size of Adam for the generator")
    fakes: int = setting(16, "samples of every round that are labelled fake and trained on")
    local_lr: float = setting(0.05, "step size of the adversary's own local training")
    epochs: int = setting(1, "passes of that training over the adversary's images and its fakes")
    batch: int = setting(32, "images per step of that training")

    def __post_init__(self) -> None:
        checks.at_least("target", self.target, 0)
        for name in ("latent", "width", "steps", "fakes", "epochs", "batch"):
            checks.at_least(name, getattr(self, name), 1)
        for name in ("lr", "local_lr"):
            checks.at_least(name, getattr(self, name), 1e-9)

    def join(self, image: ImageSpec, *, rng: torch.Generator) -> Adversary:
        """An adversary in a federation on such images, whose model has the extra class as its last."""
        checks.between("target", self.target, 0, image.classes - 2)
        return Adversary(self, image, rng)


class Adversary:
    """One participant with a generator that goes on from round to round; ``image`` counts the fake class."""

    SAMPLES = 64

    def __init__(self, attack: GANAttack, image: ImageSpec, rng: torch.Generator) -> None:
        self.attack = attack
        self.image = image
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (1,), generator=rng)))
            self.generator = Generator(image, attack.latent, attack.width)
        self.optimizer = torch.optim.Adam(self.generator.parameters(), lr=attack.lr)

    @property
    def fake(self) -> int:
        """The number of the extra class."""
        return self.image.classes - 1

    def take_part(self, model: nn.Module, own: Samples, *, rng: torch.Generator) -> nn.Module:
        """One round: learn from the global model, then train a copy of it on own images and fakes, to upload."""
        discriminator = copy.deepcopy(model).eval().requires_grad_(False)
        self.train_generator(discriminator, rng=rng)
        local = copy.deepcopy(model).train()
        made = self.samples(self.attack.fakes, rng=rng)
        labels = torch.full((len(made),), self.fake)
        self._train(local, torch.cat([own.images, made]), torch.cat([own.targets, labels]), rng)
        return local.eval()

    def train_generator(self, discriminator: nn.Module, *, rng: torch.Generator) -> float:
        """Make samples that the discriminator takes for the target; return the last loss."""
        loss = torch.zeros(())
        for _ in range(self.attack.steps):
            logits = discriminator(self.generator(self._latent(self.SAMPLES, rng)))
            if logits.shape[1] != self.image.classes:
                raise ModelError(
                    f"The global model has {logits.shape[1]} classes, and this attack needs {self.image.classes}, the "
                    "last for fakes: build it for with_fake_class(image)."
                )
            loss = F.cross_entropy(logits, torch.full((self.SAMPLES,), self.attack.target))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return float(loss.detach())

    def samples(self, count: int, *, rng: torch.Generator) -> Tensor:
        """What the target class looks like to the adversary: (count, C, H, W) in [0, 1]."""
        with torch.no_grad():
            made: Tensor = self.generator(self._latent(count, rng))
        return made

    def _latent(self, count: int, rng: torch.Generator) -> Tensor:
        return torch.randn(count, self.attack.latent, generator=rng)

    def _train(self, model: nn.Module, images: Tensor, labels: Tensor, rng: torch.Generator) -> None:
        """Plain local training, as every participant's."""
        optimizer = torch.optim.SGD(model.parameters(), lr=self.attack.local_lr)
        for _ in range(self.attack.epochs):
            for chosen in torch.randperm(len(images), generator=rng).split(self.attack.batch):
                optimizer.zero_grad()
                F.cross_entropy(model(images[chosen]), labels[chosen]).backward()
                optimizer.step()
