"""MobileNetV2 from torchvision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from glasshouse import weights
from glasshouse.errors import ModelError
from glasshouse.models.base import models
from glasshouse.models.vision import VisionNetwork, torchvision_network
from glasshouse.registry import setting
from glasshouse.types import ImageSpec

TRUNK = "features."
FIRST = "0.0.weight"


@models.register("mobilenet_v2")
@dataclass(frozen=True, kw_only=True)
class MobileNetV2(VisionNetwork):
    """MobileNetV2 with a stem that suits small images, or the published one."""

    paper: ClassVar[str] = "Sandler et al. 2018, MobileNetV2: Inverted Residuals and Linear Bottlenecks"

    pretrained: bool = setting(False, "begin with what ImageNet taught all layers but the last", later=True)

    def build(self, image: ImageSpec) -> nn.Module:
        """Return the bare network; without ``pretrained`` with fresh weights."""
        network = torchvision_network("mobilenet_v2", image)
        network.features[0][0] = self.first_convolution(image, 32, 3)
        if self.pretrained:
            network.features.load_state_dict(_published(image.channels))
        return network  # type: ignore[no-any-return]


def _published(channels: int) -> dict[str, Tensor]:
    """The layers before the last; grey images are seen as if all three colours were the grey."""
    state = weights.load("mobilenet_v2")
    trunk = {name.removeprefix(TRUNK): value for name, value in state.items() if name.startswith(TRUNK)}
    if channels == 1:
        trunk[FIRST] = trunk[FIRST].sum(1, keepdim=True)
    elif channels != trunk[FIRST].shape[1]:
        raise ModelError(f"pretrained=true is for colour or grey images, not with {channels} channels: leave it out.")
    return trunk
