"""The networks that SemSim can be built on, by the names that people type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from glasshouse import checks
from glasshouse.errors import SettingError
from glasshouse.semsim.network import Embedding, Network, Perceptual

DEFAULT = "alexnet"

#: A fresh network by seed, trained as a whole as in the paper (Figure 7B).
FRESH: Mapping[str, Callable[[int], Network]] = {
    "lenet": lambda seed: Embedding("lenet:spread=0.1", seed=seed),  # the attacked LeNet's own spread trains badly
    "resnet18": lambda seed: Embedding("resnet18", seed=seed),
    "resnet50": lambda seed: Embedding("resnet50", seed=seed),
    "mobilenet_v2": lambda seed: Embedding("mobilenet_v2", seed=seed),
}
#: A network by seed whose published weights stay as they are, and of which only what it adds is trained.
PRETRAINED: Mapping[str, Callable[[int], Network]] = {"alexnet": partial(Perceptual.pretrained, 96)}


def build(backbone: str = DEFAULT, *, pretrained: bool | None = None, seed: int = 0) -> Network:
    """A network on a backbone; without a word on weights, published ones where there are some."""
    checks.one_of("backbone", backbone, (*PRETRAINED, *FRESH))
    known = PRETRAINED if (backbone in PRETRAINED if pretrained is None else pretrained) else FRESH
    if backbone not in known:
        which = "with published weights" if known is PRETRAINED else "from fresh weights"
        raise SettingError(f"backbone={backbone} cannot be trained {which}: use {', '.join(known)} for that.")
    return known[backbone](seed)
