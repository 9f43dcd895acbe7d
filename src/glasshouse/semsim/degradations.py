"""Pictures between an original and nothing, as attacks and defenses leave them.

Judges learn to see through them, and SemSim learns from what judges still see in them. Every kind is a function of an
image (C, H, W) in [0, 1] and a degree in [0, 1]: at 0 it changes nothing, at 1 it leaves nothing to be recognised or
as little as it can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

NOISE = 0.8  # standard deviation of the strongest noise
COARSEST = 8.0  # how many times smaller the strongest blur makes an image
FARTHEST = 0.3  # of the image's side: how far places are scattered at most
SPOT = 4  # colour blotches are noise on a grid of so many places each way
MOST_AT_ONCE = 3  # kinds in one picture


class Degradation(Protocol):
    """One way in which a picture is lost by degrees."""

    def __call__(self, image: Tensor, degree: float, rng: torch.Generator) -> Tensor:
        """The image (C, H, W), less of it."""


def noise(image: Tensor, degree: float, rng: torch.Generator) -> Tensor:
    """Independent noise on every value; fine steps first, for people see through a little."""
    grain: Tensor = NOISE * degree**1.5 * torch.randn(image.shape, generator=rng)
    return image + grain


def blur(image: Tensor, degree: float, rng: torch.Generator | None = None) -> Tensor:
    """Made small and large again."""
    side = [max(round(length / (1 + (COARSEST - 1) * degree)), 1) for length in image.shape[-2:]]
    small = F.interpolate(image[None], size=side, mode="area")
    return F.interpolate(small, size=list(image.shape[-2:]), mode="bilinear", align_corners=False)[0]


def blotches(image: Tensor, degree: float, rng: torch.Generator) -> Tensor:
    """Wide spots of colour laid over it."""
    return image + 0.6 * degree * _smooth(image, rng)


def pale(image: Tensor, degree: float, rng: torch.Generator | None = None) -> Tensor:
    """Drawn together to its mean colour."""
    mean = image.mean((1, 2), keepdim=True)
    return mean + (image - mean) * (1 - 0.97 * degree)


def painted(image: Tensor, degree: float, rng: torch.Generator) -> Tensor:
    """Noise that was smoothed to flat patches, as total variation leaves it."""
    rough = noise(image, degree, rng)
    for _ in range(2):
        around = F.unfold(F.pad(rough[:, None], (1, 1, 1, 1), mode="replicate"), 3)
        rough = (1 - min(4 * degree, 1)) * rough + min(4 * degree, 1) * around.median(1).values.view(image.shape)
    return rough


def phases(image: Tensor, degree: float, rng: torch.Generator) -> Tensor:
    """Its waves shifted against one another: the same frequencies, something else to see."""
    height, width = image.shape[-2:]
    waves = torch.fft.rfft2(image)
    turns = torch.pi * degree * (2 * torch.rand(waves.shape[1:], generator=rng) - 1)
    turns[0, 0] = 0
    found: Tensor = torch.fft.irfft2(torch.polar(waves.abs(), waves.angle() + turns), s=(height, width))
    return found


def scattered(image: Tensor, degree: float, rng: torch.Generator) -> Tensor:
    """Every place takes the colour of one nearby, as shuffled blocks do."""
    reach = FARTHEST * degree * torch.tensor(image.shape[-2:])
    moves = ((2 * torch.rand(2, *image.shape[-2:], generator=rng) - 1) * reach.view(2, 1, 1)).round().long()
    rows, columns = (torch.arange(length) for length in image.shape[-2:])
    down = (rows[:, None] + moves[0]).clamp(0, len(rows) - 1)
    across = (columns + moves[1]).clamp(0, len(columns) - 1)
    return image[:, down, across]


def displaced(image: Tensor, degree: float, rng: torch.Generator) -> Tensor:
    """Bent by a smooth flow, as gradients that forget places leave it."""
    height, width = image.shape[-2:]
    still = F.affine_grid(torch.eye(2, 3)[None], [1, 1, height, width], align_corners=False)
    flow = F.interpolate(torch.randn((1, 2, SPOT, SPOT), generator=rng), size=(height, width), mode="bicubic")
    moved = still + 0.6 * degree * flow.permute(0, 2, 3, 1)
    return F.grid_sample(image[None], moved, padding_mode="reflection", align_corners=False)[0]


def cast(image: Tensor, degree: float, rng: torch.Generator) -> Tensor:
    """Channels brighter or darker, each by itself."""
    gain = 1 + degree * (2 * torch.rand((image.shape[0], 1, 1), generator=rng) - 1)
    return image * gain + 0.3 * degree * torch.randn((image.shape[0], 1, 1), generator=rng)


KINDS: Mapping[str, Degradation] = {
    one.__name__: one for one in (noise, blur, blotches, pale, painted, phases, scattered, displaced, cast)
}


def degraded(images: Tensor, most: float, rng: torch.Generator) -> Tensor:
    """Each image (N, C, H, W) degraded in one to three ways, to degrees of its own of at most ``most``."""
    return torch.stack([_mixed(image, most * _one(rng), rng) for image in images])


def empty(images: Tensor, rng: torch.Generator) -> Tensor:
    """Of each image (N, C, H, W) a picture in its colours that shows nothing, some smooth and some rough."""
    found = []
    for image in images:
        blank = image.mean((1, 2), keepdim=True).expand_as(image)
        bare = phases(image, 1.0, rng) if _one(rng) < 0.5 else blank + 0.3 * _one(rng) * _smooth(image, rng)
        found.append(_mixed(noise(bare, _one(rng), rng), 0.7, rng))
    return torch.stack(found)


def _mixed(image: Tensor, degree: float, rng: torch.Generator) -> Tensor:
    """Degraded in one to three ways that share the degree."""
    count = int(torch.randint(1, MOST_AT_ONCE + 1, (), generator=rng))
    order = torch.randperm(len(KINDS), generator=rng)[:count].tolist()
    parts = torch.rand(count, generator=rng) + 0.3
    names = tuple(KINDS)
    for place, part in zip(order, (parts / parts.max()).tolist(), strict=True):
        image = KINDS[names[place]](image, degree * part, rng)
    return image.clamp(0, 1)


def _smooth(image: Tensor, rng: torch.Generator) -> Tensor:
    """Noise without detail, of the image's shape and of standard deviation about 1."""
    coarse = torch.randn((1, image.shape[0], SPOT, SPOT), generator=rng)
    return F.interpolate(coarse, size=list(image.shape[-2:]), mode="bicubic", align_corners=False)[0]


def _one(rng: torch.Generator) -> float:
    return float(torch.rand((), generator=rng))
