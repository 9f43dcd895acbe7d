"""Networks with weights from a file, as the defense left them behind which they were trained."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from glasshouse import defenses
from glasshouse.models import own
from glasshouse.types import ImageSpec


def trained_network(text: str, image: ImageSpec, weights: Path, seed: int = 0) -> nn.Module:
    """Build a model and load weights; one trained behind a defense that changes networks is changed first.

    DP-SGD, for example, puts group norm in the place of batch norm, so its weights fit no other network.
    """
    network = own.build(text, image, seed=seed)
    behind = own.trained_behind(weights)
    if behind is not None:
        network = defenses.create(behind).on_model(network)
    own.load_weights(network, weights)
    return network
