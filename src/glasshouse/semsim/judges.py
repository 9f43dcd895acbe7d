"""Classifiers that judge whether a reconstruction shows its original: no people, and never called so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn import functional as F

from glasshouse.files import write_atomic
from glasshouse.semsim.degradations import degraded, empty
from glasshouse.semsim.eyes import EYES, Way

PENALTY = 0.01  # inverse strength of the probe's L2 penalty
COPIES = 2  # degraded copies of every image that a judge learns from, at least
PRACTICE = 256  # degraded copies that a lineup practises on, at least
MOST = 0.7  # the degree to which they are degraded at most; beyond it little can be seen
FLAT = 1e-9  # a spread below which there is none
NOTHING = -1  # the class of pictures that show nothing
LINEUP = 20  # an original must be told from so many others, and from as many pictures of nothing
SHARPNESS = (4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)  # how quickly likeness may fall off with an angle


def voter_name(eye: str, way: Way, learned: str | None = None) -> str:
    """What a judge is called among voters; whoever judges otherwise than before is somebody else.

    ``learned`` is a word for what it learned from, for judges of one make who learned from different things.
    """
    return " ".join([eye, way, str(EYES[eye].version), *([] if learned is None else [learned])])


def make_of(name: str) -> str:
    """The name that all judges of one make share, whatever they learned from; of other voters their own."""
    judge = re.fullmatch(rf"(\S+ (?:{'|'.join(get_args(Way))}) \d+) \S+", name)
    return name if judge is None else judge[1]


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """A linear map from what an eye sees to classes, one of which is nothing: the judge of objects."""

    eye: str
    weight: Tensor
    bias: Tensor
    centre: Tensor
    scale: Tensor
    classes: Tensor

    def probabilities(self, seen: Tensor) -> Tensor:
        """How likely each class is, (N, classes), given what the eye sees, (N, D)."""
        return (((seen - self.centre) / self.scale) @ self.weight.T + self.bias).softmax(1)

    def __call__(self, images: Tensor) -> Tensor:
        """The classes (N,) that images (N, C, H, W) in [0, 1] seem to show."""
        return self.classes[self.probabilities(EYES[self.eye](images, "probe")).argmax(1)]

    def save(self, file: Path) -> None:
        """Keep the judge, so that every row of a table has the same."""
        tensors = {name: getattr(self, name).contiguous() for name in TENSORS}
        write_atomic(file, to_safetensors(tensors, metadata={"eye": self.eye}))

    @classmethod
    def load(cls, eye: str, file: Path) -> Probe | None:
        """Read a judge back; None where there is none, or what is there is no judge."""
        try:
            found = cls(eye, **load_file(file))
        except (OSError, SafetensorError, TypeError):
            return None
        return found if found.weight.shape == (len(found.classes), len(found.centre)) else None


TENSORS = ("weight", "bias", "centre", "scale", "classes")


def train_probe(eye: str, images: Tensor, labels: Tensor, seed: int) -> Probe:
    """Fit a probe to raw images, to degraded copies of them, and to pictures that show nothing.

    Judges that have seen degraded images agree better with people on reconstructions than those that have not, and
    one that may say "nothing" does not take noise for the class that looks most like it.
    """
    rng = torch.Generator().manual_seed(seed)
    shown = [images, *(degraded(images, MOST, rng) for _ in range(COPIES)), empty(images, rng)]
    found = torch.cat([EYES[eye](one, "probe") for one in shown])
    named = np.concatenate([np.tile(labels.numpy(), 1 + COPIES), np.full(len(images), NOTHING)])
    centre, scale = found.mean(0), found.std(0).clamp_min(1e-6)
    probe = LogisticRegression(C=PENALTY, max_iter=300, random_state=seed)
    probe.fit(((found - centre) / scale).numpy(), named)
    weight, bias = (torch.from_numpy(one).float() for one in (probe.coef_, probe.intercept_))
    return Probe(eye, weight, bias, centre, scale, torch.from_numpy(probe.classes_))


@dataclass(frozen=True, slots=True, eq=False)
class Lens:
    """A linear map (D, D) that looks away from some directions (D, K), orthonormal: those in which copies differ.

    All others are multiplied by ``plain``, these by ``scales`` (K,). The whole matrix would hold little else.
    """

    directions: Tensor
    scales: Tensor
    plain: float

    @classmethod
    def of(cls, differences: Tensor) -> Lens:
        """After it differences (N, D) have about the same size in every direction (whitening, shrunk: Ledoit, Wolf)."""
        values = differences.double()
        shrunk = ledoit_wolf_shrinkage(values.numpy(), assume_centered=True)
        _, lengths, directions = torch.linalg.svd(values, full_matrices=False)
        spread = lengths.square() / len(values)
        floor = shrunk * float(spread.sum()) / values.shape[1]
        scales = ((1 - shrunk) * spread + floor).clamp_min(FLAT).rsqrt()
        return cls(directions.T.float(), scales.float(), max(floor, FLAT) ** -0.5)

    def __call__(self, seen: Tensor) -> Tensor:
        """What is left of vectors (N, D)."""
        return self.plain * seen + (seen @ self.directions) * (self.scales - self.plain) @ self.directions.T


@dataclass(frozen=True, slots=True, eq=False)
class Lineup:
    """Originals, then pictures of nothing, as unit vectors (M + LINEUP, D): the judge of individuals.

    What an eye sees is centred and seen through a ``lens`` that takes away the directions in which degraded copies
    differ from their originals, whatever these show.
    """

    eye: str
    centre: Tensor
    lens: Lens
    known: Tensor
    sharpness: float

    @classmethod
    def of(cls, eye: str, originals: Tensor, seed: int) -> Lineup:
        """Line up originals (M, C, H, W) and practise on degraded copies of them.

        Half of the copies make the lens, and the others say how sharp it is: it knows its own by heart.
        """
        rng = torch.Generator().manual_seed(seed)
        seen = EYES[eye](originals, "lineup")
        times = max(COPIES, -(-PRACTICE // len(originals)))
        copies = [EYES[eye](degraded(originals, MOST, rng), "lineup") for _ in range(times)]
        blanks = empty(originals.repeat(-(-LINEUP // len(originals)), 1, 1, 1)[:LINEUP], rng)
        nothing = EYES[eye](blanks, "lineup")
        known_by_heart, fresh = copies[: times // 2], copies[times // 2 :]
        lens = Lens.of(torch.cat([copy - seen for copy in known_by_heart]))
        centre = seen.mean(0)
        known = F.normalize(lens(torch.cat([seen, nothing]) - centre), dim=1)
        practice = F.normalize(lens(torch.cat(fresh) - centre), dim=1) @ known.T
        right = torch.arange(len(originals)).repeat(len(fresh))
        sharpness = min(SHARPNESS, key=lambda sharp: float(F.cross_entropy(sharp * practice, right)))
        return cls(eye, centre, lens, known, sharpness)

    def chances(self, seen: Tensor, candidates: Tensor) -> Tensor:
        """How likely what the eye sees (N, D) is taken for each of its candidates, places (N, K) in the lineup.

        What remains to 1 is the chance that it is taken for nothing.
        """
        ours = F.normalize(self.lens(seen - self.centre), dim=1)
        nothing = torch.arange(len(self.known) - LINEUP, len(self.known)).expand(len(seen), -1)
        likeness: Tensor = (self.known[torch.cat([candidates, nothing], 1)] * ours[:, None]).sum(2)
        return (self.sharpness * likeness).softmax(1)[:, : candidates.shape[1]]
