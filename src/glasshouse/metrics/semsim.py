"""SemSim: a distance that learned from judgements whether a reconstruction shows its original."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from glasshouse import checks
from glasshouse.metrics.base import Leaks, Metric, metrics, through
from glasshouse.registry import setting
from glasshouse.semsim import Network, load, shipped
from glasshouse.semsim.files import SHIPPED, digest
from glasshouse.semsim.network import FORMS, Form

CHUNK = 32  # pairs; fewer read the weights too often, more leave the caches


@metrics.register("semsim")
@dataclass(frozen=True, kw_only=True)
class SemSim(Metric):
    """Distance of the unit vectors of truth and guess: l2 in [0, 2] (Eq. 6) or 1 - cosine in [0, 2] (Eq. 7).

    Images are resized to the network's size; grey ones are repeated over three channels.
    """

    paper: ClassVar[str] = "Sun et al. 2023, Privacy Assessment on Reconstructed Images, section 4.3"
    label: ClassVar[str] = "SemSim"
    leaks_when: ClassVar[Leaks] = "low"
    bounds: ClassVar[tuple[float, float]] = (0.0, 2.0)

    form: Form = setting("l2", "l2: length of the difference (Eq. 6); cosine: 1 - cosine (Eq. 7)")
    file: str | None = setting(None, "a network of your own from 'glasshouse semsim train'; none for the shipped one")

    def __post_init__(self) -> None:
        checks.one_of("form", self.form, tuple(FORMS))

    @property
    def path(self) -> Path:
        """The network's file."""
        return SHIPPED if self.file is None else Path(self.file)

    @property
    def edition(self) -> str:
        """Another network gives other scores, whatever its file is called."""
        return f"v{self.version} {digest(self.path)}"

    @property
    def network(self) -> Network:
        """The network that looks."""
        return shipped() if self.file is None else _own(self.file, digest(self.path))

    def per_image(self, truth: Tensor, guess: Tensor) -> Tensor:
        """Return (N,) values."""
        network = self.network
        return FORMS[self.form](through(network, network.distances, truth, guess, CHUNK))


def recognised(truth: Tensor, guess: Tensor, *, file: str | None = None) -> Tensor:
    """How likely a judge recognises each truth in its guess, (N,) in [0, 1]: SemSim, calibrated on judgements."""
    metric = SemSim(file=file)
    return metric.network.probabilities(metric(truth, guess))


@lru_cache(maxsize=2)
def _own(file: str, content: str) -> Network:
    """The network in a file, as long as its content stays."""
    return load(Path(file))
