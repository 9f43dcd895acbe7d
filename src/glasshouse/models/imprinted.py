"""A model that a malicious server prepared: an imprint block in front of an ordinary network."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar

import torch
from torch import Tensor, nn

from glasshouse import checks
from glasshouse.errors import SettingError
from glasshouse.models.base import Architecture, models
from glasshouse.models.held import Held
from glasshouse.registry import setting
from glasshouse.types import ImageSpec

BELOW_BLACK = -0.01  # brightness that every image exceeds


class Imprint(Held):
    """Compares one number of every image, its mean, with rising thresholds, and goes on with the sum of the excess.

    All rows of ``measure`` are equal and all columns of ``back`` are equal: the loss pulls with the same force at
    every threshold that an image exceeds. ``gain`` divides the excess and multiplies what is made of it, which
    changes nothing but that force. With ``skip`` the image itself passes too.
    """

    def __init__(self, pixels: int, thresholds: Tensor, *, gain: float, skip: bool) -> None:
        super().__init__()
        bins = len(thresholds)
        self.skip = skip
        self.measure = nn.Linear(pixels, bins)
        self.rectify = nn.ReLU()
        self.back = nn.Linear(bins, pixels)
        with torch.no_grad():
            self.measure.weight.fill_(1 / pixels / gain)
            self.measure.bias.copy_(-thresholds / gain)
            # a pattern, not a flat colour: what the network behind makes of it must depend on the sum
            self.back.weight.copy_((gain * torch.randn(pixels, 1) / bins).expand(-1, bins))
            self.back.bias.zero_()

    def forward(self, images: Tensor) -> Tensor:
        """Images (N, C, H, W), normalized, to what the network behind sees, of the same shape."""
        excess = self.rectify(self.measure(images.flatten(1)))
        imprinted: Tensor = self.back(excess).view_as(images)
        return images + imprinted if self.skip else imprinted

    @property
    def thresholds(self) -> Tensor:
        """The means of normalized pixels above which each bin begins: (bins,)."""
        return -self.measure.bias.detach() / self.measure.weight.detach().sum(1)


@models.register("imprinted")
@dataclass(frozen=True, kw_only=True)
class Imprinted(Architecture):
    """An imprint block whose thresholds split the expected brightness of images into equally likely bins."""

    paper: ClassVar[str] = "Fowl et al. 2022, Robbing the Fed"
    version: ClassVar[int] = 2

    bins: int = setting(256, "thresholds of brightness; images alone in a bin are recovered exactly")
    center: float = setting(0.47, "expected mean brightness of an image, in [0, 1]")
    spread: float = setting(0.15, "expected standard deviation of the mean brightness over images")
    gain: float = setting(1024.0, "how much larger the block's gradient is than it would be by itself")
    skip: bool = setting(False, "whether the image passes beside the block, so that the network can still learn")
    network: str = setting("lenet", "name of the model behind the block, at its default settings")

    def __post_init__(self) -> None:
        checks.between("bins", self.bins, 2, 65536)
        checks.between("center", self.center, 0, 1)
        checks.between("spread", self.spread, 1e-4, 1)
        checks.between("gain", self.gain, 1e-6, 1e6)
        if self.network == self.name:
            raise SettingError(
                f"network={self.network} would put an imprint before itself: use lenet or another model."
            )
        models.get(self.network)

    def build(self, image: ImageSpec) -> nn.Module:
        """Return the block and the network behind it; the thresholds are those of normalized pixels."""
        thresholds = (torch.tensor(self._brightness()) - self.mean) / self.std
        pixels = image.channels * image.height * image.width
        block = Imprint(pixels, thresholds, gain=self.gain, skip=self.skip)
        return nn.Sequential(block, models.create(self.network).build(image))

    def _brightness(self) -> list[float]:
        """Rising thresholds in [0, 1]: one that every image exceeds, then quantiles of the expected brightness."""
        expected = NormalDist(self.center, self.spread)
        quantiles = [expected.inv_cdf(number / self.bins) for number in range(1, self.bins)]
        return [min(BELOW_BLACK, 2 * quantiles[0] - self.center), *quantiles]
