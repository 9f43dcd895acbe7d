"""The small network with tanh and max-pooling, and batch norm, whose running statistics help attackers."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from glasshouse.models.base import models
from glasshouse.models.tanhnet import TanhNet


@models.register("tanhnet_bn")
@dataclass(frozen=True, kw_only=True)
class TanhNetBN(TanhNet):
    """TanhNet with batch norm between each convolution and its tanh."""

    def norm(self, channels: int) -> list[nn.Module]:
        """Batch norm of the convolution's channels."""
        return [nn.BatchNorm2d(channels)]
