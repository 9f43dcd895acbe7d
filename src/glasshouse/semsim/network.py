"""Networks that turn images into vectors of length one; SemSim is the distance between two of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse import checks
from glasshouse.errors import ModelError
from glasshouse.models import trunks
from glasshouse.models.base import create
from glasshouse.types import ImageSpec

PATCH = 7  # sides of the windows in which the structure of an image is compared
SIGMA = 1.5  # of the Gaussian that weighs a window's places, as in SSIM
FLAT = 0.03  # contrast below which a window counts as flat, as in SSIM
SIDES = (32, 16)  # at which sizes structure is compared
STRUCTURE = 0.1  # how much a place of a window counts at first, beside the channels of LPIPS
LEAST = 1e-3  # how much a channel counts at first at least, times their number, so that it can learn to
HAZE = 48  # a pixel's place is as uncertain as one part in so many of the side: people see through noise
HUMBLE = -3.0  # a head that has learned nothing yet counts little
SIZE = 92  # of what AlexNet sees: its layers have 10 x 10 places, and a quarter less work than at 96 pixels
GRID = 2  # the semantic head reads the last layer averaged down to so many places each way
AT_ONCE = 64  # images that go through the trunk together

#: The form in which the distance of two unit vectors is told, given the length of their difference.
Form = Literal["l2", "cosine"]
FORMS: Mapping[Form, Callable[[Tensor], Tensor]] = {
    "l2": lambda lengths: lengths,  # Eq. 6
    "cosine": lambda lengths: lengths.square() / 2,  # 1 - cosine, Eq. 7
}

#: Images (N, C, H, W), or of many sizes (C, H, W) each.
Images = Tensor | Sequence[Tensor]


class Network(nn.Module, ABC):
    """Embeds images (N, C, H, W) in [0, 1] of any size, grey or colour, as unit vectors (N, D).

    ``calibration`` is (a, b): a judge recognises a pair at distance d with probability sigmoid(a - b d).
    """

    kind: ClassVar[str]
    lr: ClassVar[float] = 3e-4  # of Adam, where a recipe names none
    epochs: ClassVar[int] = 60  # at most, where a recipe names none
    pairs: ClassVar[int] = 2**16  # most that are learned from at once, or as many as one original has
    calibration: Tensor

    def __init__(self, backbone: str, size: int) -> None:
        super().__init__()
        checks.between("size", size, 16, 512)
        self.backbone = backbone
        self.size = size
        self.register_buffer("calibration", torch.zeros(2))

    @abstractmethod
    def features(self, images: Tensor) -> Tensor:
        """Vectors (N, D) of any length of images (N, 3, size, size) in [0, 1]."""

    def forward(self, images: Tensor) -> Tensor:
        """Unit vectors (N, D)."""
        return F.normalize(self.features(self.prepare(images)), dim=1)

    def prepare(self, images: Tensor) -> Tensor:
        """Colour images (N, 3, size, size); grey is repeated."""
        colour = images.expand(-1, 3, -1, -1)
        if colour.shape[-2:] == (self.size, self.size):
            return colour
        return F.interpolate(colour, size=(self.size, self.size), mode="bilinear", align_corners=False, antialias=True)

    def distances(self, truth: Tensor, guess: Tensor) -> Tensor:
        """SemSim of pairs, (N,) in [0, 2] (Eq. 6); with cosines c it equals sqrt(2 (1 - c)) (Eq. 7).

        Truths and guesses go through in two calls of one shape, so that equal images are at distance 0 exactly.
        """
        lengths: Tensor = (self(truth) - self(guess)).norm(dim=1)
        return lengths

    def some(self, images: Images, places: Tensor) -> Tensor:
        """The images at some places, prepared."""
        if isinstance(images, Tensor):
            return self.prepare(images[places])
        return torch.cat([self.prepare(images[place][None]) for place in places.tolist()])

    @abstractmethod
    def measure(self, originals: Images, guesses: Images, owners: Tensor) -> Callable[[Tensor], Tensor]:
        """A function that gives the distances of the guesses at some places to their originals, for training."""

    def probabilities(self, distances: Tensor) -> Tensor:
        """How likely a judge recognises pairs at these distances."""
        slope = self.calibration[1]
        return torch.sigmoid(self.calibration[0] - slope * distances)


class Embedding(Network):
    """The paper's network: a classifier without its last layer, all of it trained."""

    kind: ClassVar[str] = "embedding"
    pairs: ClassVar[int] = 256  # all layers of each are kept for the way back: those of ResNet50 take 26 MB

    def __init__(self, backbone: str = "resnet50", size: int = 32, seed: int = 0) -> None:
        super().__init__(backbone, size)
        self.network = create(backbone, ImageSpec(3, size, size, 2), seed=seed)
        _without_classifier(self.network)

    @classmethod
    def begun(cls, backbone: str, published: str, size: int = 32, seed: int = 0) -> Embedding:
        """As fresh, but for layers that begin with the weights of another SPEC of the same network."""
        network = cls(backbone, size, seed)
        taught = create(published, ImageSpec(3, size, size, 2), seed=seed).state_dict()
        network.network.load_state_dict({name: taught[name] for name in network.network.state_dict()})
        return network

    def measure(self, originals: Images, guesses: Images, owners: Tensor) -> Callable[[Tensor], Tensor]:
        """As its base says; each original is looked at once, however many guesses it has."""

        def distances(places: Tensor) -> Tensor:
            own, back = owners[places].unique(return_inverse=True)
            lengths: Tensor = (self(self.some(originals, own))[back] - self(self.some(guesses, places))).norm(dim=1)
            return lengths

        return distances

    def features(self, images: Tensor) -> Tensor:
        """What the last layer would have classified."""
        found: Tensor = self.network(images)
        return found.flatten(1)


def _without_classifier(network: nn.Module) -> None:
    """Replace the last linear layer, the classifier, by nothing."""
    linear = [name for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ModelError("The backbone has no linear layer that could be its classifier: choose another backbone.")
    parent, _, child = linear[-1].rpartition(".")
    setattr(network.get_submodule(parent), child, nn.Identity())


class Perceptual(Network):
    """Structure and AlexNet's features, weighted by how much each says to a judge, beside a learned semantic head.

    Weights begin where LPIPS ended, which learned from people how much each channel counts when pictures are compared.
    The features of every place are divided by their length, as in LPIPS, so that each place, a local region of the
    image, counts alike; the structure of a place is its window without its mean and contrast, as in SSIM. All parts
    stand in one vector, hence the distance is one of unit vectors as in the paper. Images are seen through a haze:
    AlexNet takes noise in single pixels for another picture, people look past it.
    """

    kind: ClassVar[str] = "perceptual"
    lr: ClassVar[float] = 1e-3
    epochs: ClassVar[int] = 4  # the head learns to please its teachers beyond that, and no longer a viewer
    mean: Tensor
    std: Tensor
    haze: Tensor

    def __init__(self, size: int = SIZE, dimensions: int = 128) -> None:
        super().__init__("alexnet", size)
        self.trunk = trunks.empty_alexnet()
        # as the images that it sees, or every convolution turns its weights around first
        nn.utils.convert_conv2d_weight_memory_format(self.trunk, torch.channels_last)
        learned = [layer.out_channels for layer in self.trunk.layers if isinstance(layer, nn.Conv2d)]
        self.channels = (*(PATCH**2 for _ in SIDES), *learned)
        self.weights = nn.Parameter(torch.zeros(sum(self.channels)))
        self.head = nn.Linear(learned[-1] * GRID**2, dimensions, bias=False)
        self.balance = nn.Parameter(torch.tensor(HUMBLE))
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))
        self.register_buffer("haze", _haze(size))

    @classmethod
    def pretrained(cls, size: int = SIZE, seed: int = 0) -> Perceptual:
        """With AlexNet's published ImageNet weights in the trunk, those of LPIPS on its channels, and a fresh head."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = cls(size)
        network.trunk.load_state_dict(trunks.alexnet().state_dict())
        places = torch.full((PATCH**2 * len(SIDES),), STRUCTURE)
        network.weigh(torch.cat([places, *trunks.lpips_weights("alex")]))
        return network

    @torch.no_grad()
    def weigh(self, importance: Tensor) -> None:
        """Let channels count as much as this says, (channels,), or hardly anything."""
        wanted = (importance * self._alike).clamp_min(LEAST)
        self.weights.copy_(wanted + torch.log(-torch.expm1(-wanted)))  # softplus the other way round

    def prepare(self, images: Tensor) -> Tensor:
        """As its base, through the haze; both at once are two products, less work than resizing alone."""
        small = images if max(images.shape[-2:]) <= self.size else super().prepare(images)
        height, width = small.shape[-2:]
        down = self._lens(height)
        across = down if width == height else self._lens(width)
        return (down @ small @ across.T).expand(-1, 3, -1, -1)

    def _lens(self, side: int) -> Tensor:
        """A matrix (size, side) that resizes a column of so many pixels and lays the haze over it."""
        pixels = torch.eye(side, device=self.haze.device)[None, None]
        resized = F.interpolate(pixels, size=(self.size, side), mode="bilinear", align_corners=False, antialias=True)
        return self.haze @ resized[0, 0]

    def features(self, images: Tensor) -> Tensor:
        """The weighted features of every layer and the semantic head's output, side by side."""
        layers = self.layers(images)
        scales = self.importance().sqrt().split(self.channels)
        local = [
            (layer * scale.view(1, -1, 1)).flatten(1) / layer.shape[2] ** 0.5
            for layer, scale in zip(layers, scales, strict=True)
        ]
        return torch.cat([*local, self.semantic(self.summary(layers))], 1)

    def distances(self, truth: Tensor, guess: Tensor) -> Tensor:
        """As its base, without writing both vectors down.

        Of vectors a and b, |a/|a| - b/|b||^2 = (|a - b|^2 - (|a| - |b|)^2) / (|a| |b|): 0 exactly for equal ones.
        """
        pairs = zip(self._parts(truth), self._parts(guess), strict=True)
        # the difference last, for it is written over the first
        lengths = [torch.stack([_length(one), _length(two), _length(one.sub_(two))]) for one, two in pairs]
        own, other, between = torch.stack(lengths).norm(dim=0)
        found: Tensor = ((between.square() - (own - other).square()) / (own * other)).clamp_min(0).sqrt()
        return found

    def _parts(self, images: Tensor) -> Iterator[Tensor]:
        """What stands in the vectors, (N, channels, places) each: every layer, and last the semantic head.

        One at a time: to have memory for all of them takes longer than the arithmetic.
        """
        shown = self.prepare(images)
        scales = iter(self.importance().sqrt().split(self.channels))
        for side in SIDES:
            yield _scaled(structure(shown, side), next(scales))
        layers = self._seen(shown)
        summary = self.semantic(self.summary(layers))[:, :, None]
        for layer, scale in zip(layers, scales, strict=True):
            yield _scaled(layer, scale)
        yield summary

    def layers(self, images: Tensor) -> list[Tensor]:
        """Of every layer (N, channels, places), each place of unit length at most."""
        return [*(structure(images, side) for side in SIDES), *self._seen(images)]

    def _seen(self, images: Tensor) -> list[Tensor]:
        """Those of the trunk alone."""
        # with channels innermost the trunk's pooling takes a tenth of the time
        shown = ((images - self.mean) / self.std).contiguous(memory_format=torch.channels_last)
        return [F.normalize(layer.flatten(2), dim=1) for layer in self.trunk(shown)]

    def summary(self, layers: list[Tensor]) -> Tensor:
        """The last layer in a few places only, (N, D), for the semantic head to read."""
        last = layers[-1]
        side = round(last.shape[2] ** 0.5)
        return F.normalize(F.adaptive_avg_pool2d(last.unflatten(2, (side, side)), GRID).flatten(1), dim=1)

    def semantic(self, summary: Tensor) -> Tensor:
        """The semantic head's part of the vector."""
        return F.normalize(self.head(summary), dim=1) * F.softplus(self.balance).sqrt()

    def importance(self) -> Tensor:
        """How much each channel of each layer counts, (channels,), never negative."""
        return F.softplus(self.weights) / self._alike

    @property
    def _alike(self) -> Tensor:
        """How many channels the layer of each channel has, (channels,)."""
        counts = torch.tensor(self.channels, device=self.weights.device)
        return counts.repeat_interleave(counts)

    def measure(self, originals: Images, guesses: Images, owners: Tensor) -> Callable[[Tensor], Tensor]:
        """As its base says, from what the frozen trunk saw once of every pair: an epoch takes a moment then."""
        seen = self.evidence(originals, guesses, owners)
        return lambda places: self.from_evidence(Evidence(*(part[places] for part in seen.parts())))

    def evidence(self, originals: Images, guesses: Images, owners: Tensor) -> Evidence:
        """What the trunk sees of pairs, averaged over places: enough for the distance at any weights."""
        found = []
        with torch.no_grad():
            for places in torch.arange(len(guesses)).split(AT_ONCE):
                first = self.layers(self.some(originals, owners[places]))
                second = self.layers(self.some(guesses, places))
                sums = (
                    torch.cat([(a * b).mean(2) for a, b in zip(one, other, strict=True)], 1)
                    for one, other in ((first, second), (first, first), (second, second))
                )
                found.append((*sums, self.summary(first), self.summary(second)))
        return Evidence(*(torch.cat(parts) for parts in zip(*found, strict=True)))

    def from_evidence(self, seen: Evidence) -> Tensor:
        """Distances (N,) of the pairs behind the evidence."""
        weights = self.importance()
        first, second = self.semantic(seen.truth), self.semantic(seen.guess)
        dot, own, other = (
            sums @ weights + (a * b).sum(1)
            for sums, a, b in ((seen.products, first, second), (seen.own, first, first), (seen.other, second, second))
        )
        return (2 - 2 * dot / (own * other).sqrt()).clamp_min(1e-12).sqrt()


def structure(images: Tensor, side: int) -> Tensor:
    """The window around every place of images made grey and small, without mean and contrast: (N, window, places).

    The product of two is the structure that SSIM compares; flat windows have none.
    """
    small = F.interpolate(images.mean(1, keepdim=True), size=(side, side), mode="area")
    padded = F.pad(small, (PATCH // 2,) * 4, mode="reflect")
    line = _bell(SIGMA, PATCH // 2).to(images.device)
    share = torch.outer(line, line)
    moments = F.conv2d(torch.cat([padded, padded.square()], 1), share.expand(2, 1, -1, -1), groups=2).flatten(2)
    mean, squares = moments.split(1, 1)
    contrast = ((squares - mean.square()).clamp_min(0) + FLAT**2).sqrt()
    # views, faster than F.unfold; then in place, because memory for this many windows costs more than the arithmetic
    windows = padded.unfold(2, side, 1).unfold(3, side, 1).reshape(len(images), PATCH**2, side**2)
    return windows.sub_(mean).mul_(share.sqrt().view(-1, 1)).div_(contrast)


def _bell(sigma: float, reach: int) -> Tensor:
    """Gaussian weights of the places of a line, (2 reach + 1,), that add up to one."""
    line = torch.exp(-((torch.arange(2 * reach + 1) - reach) ** 2) / (2 * sigma**2))
    return line / line.sum()


def _haze(size: int) -> Tensor:
    """A matrix (size, size) that blurs a column of an image."""
    sigma = size / HAZE
    reach = math.ceil(3 * sigma)
    places = F.pad(torch.eye(size)[:, None], (reach, reach), mode="reflect")
    return F.conv1d(places, _bell(sigma, reach)[None, None])[:, 0].T.contiguous()


def _scaled(layer: Tensor, scale: Tensor) -> Tensor:
    """A layer (N, channels, places) with its channels weighed, averaged over places in the end; in place."""
    return layer.mul_((scale / layer.shape[2] ** 0.5)[:, None])


def _length(part: Tensor) -> Tensor:
    """Lengths (N,) of vectors (N, channels, places)."""
    lengths: Tensor = torch.linalg.vector_norm(part, dim=(1, 2))
    return lengths


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Of pairs, per channel and averaged over places: products, squares of truth and guess; and both summaries."""

    products: Tensor
    own: Tensor
    other: Tensor
    truth: Tensor
    guess: Tensor

    def parts(self) -> tuple[Tensor, ...]:
        """All of it, in order."""
        return self.products, self.own, self.other, self.truth, self.guess
