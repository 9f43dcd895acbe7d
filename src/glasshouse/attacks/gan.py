"""The GAN attack: a participant of a federation learns what another participant's class looks like."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse.functional.variation import total_variation
from glasshouse.types import ImageSpec

SCALE = 4  # height and width of the generator's first layer are so many times smaller than the image's
AT_ONCE = 32  # samples that the generator learns from in one step
MOMENTA = (0.5, 0.999)  # of Adam, as in the DCGAN paper: more than half of the past makes the game swing


class Generator(nn.Module):
    """Latent vectors (N, latent) to images (N, C, H, W) in [0, 1]: a linear layer and two transposed convolutions.

    Radford et al. 2016, DCGAN, with two steps up instead of four. Batch norm always uses the batch that it is given,
    so that nothing but weights goes from round to round.
    """

    def __init__(self, image: ImageSpec, latent: int, width: int) -> None:
        super().__init__()
        self.image = image
        self.base = 2 * width, -(-image.height // SCALE), -(-image.width // SCALE)
        self.first = nn.Linear(latent, self.base[0] * self.base[1] * self.base[2])
        self.layers = nn.Sequential(
            nn.BatchNorm2d(2 * width, track_running_stats=False),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1),
            nn.BatchNorm2d(width, track_running_stats=False),
            nn.ReLU(),
            nn.ConvTranspose2d(width, image.channels, 4, stride=2, padding=1),
            nn.Sigmoid(),
        )

    def forward(self, latent: Tensor) -> Tensor:
        """Images of latent vectors."""
        images: Tensor = self.layers(self.first(latent).view(-1, *self.base))
        return images[..., : self.image.height, : self.image.width]


class Forger:
    """Trains a generator against one classifier after another; ``state`` is all that it takes from round to round.

    Hitaj et al. 2017, Deep Models Under the GAN. The classifiers are the global models of a federation, which learn
    what the target looks like from those who hold it, and from the forger's fakes what it does not look like.
    """

    def __init__(self, image: ImageSpec, *, latent: int, width: int, lr: float, seed: int) -> None:
        self.latent = latent
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.generator = Generator(image, latent, width)
        self.optimizer = torch.optim.Adam(self.generator.parameters(), lr=lr, betas=MOMENTA)

    def learn(
        self, discriminator: nn.Module, target: int, *, steps: int, rng: torch.Generator, tv: float = 0.0
    ) -> float:
        """Make samples that the discriminator takes for the target; return the last loss. Only the generator learns.

        ``tv`` weighs their total variation: who knows that photographs are smooth need not learn it from a classifier.
        """
        weights = list(self.generator.parameters())
        wanted = torch.full((AT_ONCE,), target)
        loss = torch.zeros(())
        for _ in range(steps):
            made = self.generator(self._drawn(AT_ONCE, rng))
            loss = F.cross_entropy(discriminator(made), wanted) + tv * total_variation(made)
            for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
                weight.grad = gradient
            self.optimizer.step()
        return float(loss.detach())

    def samples(self, count: int, *, rng: torch.Generator) -> Tensor:
        """What the target looks like to the forger: (count, C, H, W) in [0, 1]."""
        with torch.no_grad():
            made: Tensor = self.generator(self._drawn(count, rng))
        return made

    def state(self) -> dict[str, Tensor]:
        """The generator's weights, and what Adam keeps of each, by name."""
        kept = {f"generator.{name}": value.detach().clone() for name, value in self.generator.state_dict().items()}
        for number, values in self.optimizer.state_dict()["state"].items():
            kept |= {f"adam.{number}.{name}": value.clone() for name, value in values.items()}
        return kept

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what ``state`` gave."""
        kept: dict[int, dict[str, Tensor]] = {}
        weights: dict[str, Tensor] = {}
        for name, value in state.items():
            owner, _, rest = name.partition(".")
            if owner == "generator":
                weights[rest] = value
            else:
                number, _, quantity = rest.partition(".")
                kept.setdefault(int(number), {})[quantity] = value
        self.generator.load_state_dict(weights)
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": kept, "param_groups": groups})

    def _drawn(self, count: int, rng: torch.Generator) -> Tensor:
        return torch.randn(count, self.latent, generator=rng)
