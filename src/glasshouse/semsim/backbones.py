"""The networks that SemSim can be built on, by the names that people type."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from glasshouse import checks
from glasshouse.errors import SettingError
from glasshouse.semsim.network import Embedding, Network, Perceptual

DEFAULT = "alexnet"

#: Networks that are trained as a whole from fresh weights, as in the paper (Figure 7B): the SPEC of each.
FRESH: Mapping[str, str] = {
    "lenet": "lenet:spread=0.1",  # the attacked LeNet's own spread trains badly
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "mobilenet_v2": "mobilenet_v2",
}
#: A network by seed that begins with published weights: AlexNet's stay as they are, beside what is added and trained.
PRETRAINED: Mapping[str, Callable[[int], Network]] = {
    "alexnet": lambda seed: Perceptual.pretrained(seed=seed),
    "mobilenet_v2": lambda seed: Embedding.begun("mobilenet_v2", "mobilenet_v2:pretrained=true", seed=seed),
}
BACKBONES = tuple(dict.fromkeys((*FRESH, *PRETRAINED)))


def build(backbone: str = DEFAULT, *, pretrained: bool | None = None, seed: int = 0) -> Network:
    """A network on a backbone; without a word on weights, fresh ones where it can learn from those."""
    return builder(backbone, pretrained)(seed)


def builder(backbone: str, pretrained: bool | None) -> Callable[[int], Network]:
    """What makes such a network from a seed; a backbone that cannot be had is refused before anything is made."""
    checks.one_of("backbone", backbone, BACKBONES)
    published = backbone not in FRESH if pretrained is None else pretrained
    if backbone not in (PRETRAINED if published else FRESH):
        which, others = ("with published weights", PRETRAINED) if published else ("from fresh weights", FRESH)
        raise SettingError(f"backbone={backbone} cannot be trained {which}: use {', '.join(others)} for that.")
    return PRETRAINED[backbone] if published else lambda seed: Embedding(FRESH[backbone], seed=seed)
