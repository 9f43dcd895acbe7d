"""ATS: transform every image by a policy that was searched for hiding it and keeping accuracy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from glasshouse.defenses.base import Defense, defenses
from glasshouse.errors import DataError, SettingError
from glasshouse.registry import setting
from glasshouse.types import Stage

LEVELS = 10
BLACK = (0, 0, 0)
GREY = (128, 128, 128)
WRITTEN = re.compile(r"\d{1,4}(-\d{1,4})*(\+\d{1,4}(-\d{1,4})*)*")

#: The authors' fifty sub-policies by index: an operation and its level from 0 to 9.
SUB_POLICIES: tuple[tuple[str, int], ...] = (
    ("invert", 7),
    ("contrast", 6),
    ("rotate", 2),
    ("translateX", 9),
    ("sharpness", 1),
    ("sharpness", 3),
    ("shearY", 2),
    ("translateY", 2),
    ("autocontrast", 5),
    ("equalize", 2),
    ("shearY", 5),
    ("posterize", 5),
    ("color", 3),
    ("brightness", 5),
    ("sharpness", 9),
    ("brightness", 9),
    ("equalize", 5),
    ("equalize", 1),
    ("contrast", 7),
    ("sharpness", 5),
    ("color", 5),
    ("translateX", 5),
    ("equalize", 7),
    ("autocontrast", 8),
    ("translateY", 3),
    ("sharpness", 6),
    ("brightness", 6),
    ("color", 8),
    ("solarize", 0),
    ("invert", 0),
    ("equalize", 0),
    ("autocontrast", 0),
    ("equalize", 8),
    ("equalize", 4),
    ("color", 5),
    ("equalize", 5),
    ("autocontrast", 4),
    ("solarize", 4),
    ("brightness", 3),
    ("color", 0),
    ("solarize", 1),
    ("autocontrast", 0),
    ("translateY", 3),
    ("translateY", 3),
    ("autocontrast", 1),
    ("solarize", 1),
    ("equalize", 5),
    ("invert", 0),
    ("translateY", 3),
    ("autocontrast", 1),
)


@dataclass(frozen=True, slots=True)
class Operation:
    """What an operation does to an RGB image at a magnitude, and its magnitudes at the first and last level."""

    apply: Callable[[Image.Image, float], Image.Image]
    first: float = 0.0
    last: float = 0.0
    signed: bool = False

    def magnitude(self, level: int) -> float:
        """The magnitude at a level from 0 to 9."""
        return self.first + (self.last - self.first) * level / (LEVELS - 1)


def _shear_y(image: Image.Image, magnitude: float) -> Image.Image:
    shear = (1, 0, 0, magnitude, 1, 0)
    return image.transform(image.size, Image.Transform.AFFINE, shear, Image.Resampling.BICUBIC, fillcolor=BLACK)


def _translate_x(image: Image.Image, magnitude: float) -> Image.Image:
    shift = (1, 0, magnitude * image.width, 0, 1, 0)
    return image.transform(image.size, Image.Transform.AFFINE, shift, fillcolor=BLACK)


def _translate_y(image: Image.Image, magnitude: float) -> Image.Image:
    shift = (1, 0, 0, 0, 1, magnitude * image.height)
    return image.transform(image.size, Image.Transform.AFFINE, shift, fillcolor=BLACK)


def _enhancement(kind: Callable[[Image.Image], ImageEnhance._Enhance]) -> Callable[[Image.Image, float], Image.Image]:
    return lambda image, magnitude: kind(image).enhance(1 + magnitude)


OPERATIONS: dict[str, Operation] = {
    "shearY": Operation(_shear_y, 0, 0.3, signed=True),
    "translateX": Operation(_translate_x, 0, 150 / 331, signed=True),
    "translateY": Operation(_translate_y, 0, 150 / 331, signed=True),
    "rotate": Operation(lambda image, magnitude: image.rotate(magnitude, fillcolor=GREY), 0, 30),
    "color": Operation(_enhancement(ImageEnhance.Color), 0, 0.5, signed=True),
    "contrast": Operation(_enhancement(ImageEnhance.Contrast), 0, 0.5, signed=True),
    "sharpness": Operation(_enhancement(ImageEnhance.Sharpness), 0, 0.5, signed=True),
    "brightness": Operation(_enhancement(ImageEnhance.Brightness), 0, 0.5, signed=True),
    "posterize": Operation(lambda image, magnitude: ImageOps.posterize(image, round(magnitude)), 8, 4),
    "solarize": Operation(lambda image, magnitude: ImageOps.solarize(image, math.ceil(magnitude)), 256, 0),
    "autocontrast": Operation(lambda image, magnitude: ImageOps.autocontrast(image)),
    "equalize": Operation(lambda image, magnitude: ImageOps.equalize(image)),
    "invert": Operation(lambda image, magnitude: ImageOps.invert(image)),
}


def transform(image: Image.Image, index: int, sign: int) -> Image.Image:
    """Apply one sub-policy to an RGB image; ``sign`` is 1 or -1 and counts where the operation has two directions."""
    name, level = SUB_POLICIES[index]
    operation = OPERATIONS[name]
    magnitude = operation.magnitude(level)
    return operation.apply(image, sign * magnitude if operation.signed else magnitude)


def read_policy(text: str) -> tuple[tuple[int, ...], ...]:
    """The sub-policies of every part of a policy: ``3-1-7+43-18-18`` is ((3, 1, 7), (43, 18, 18))."""
    if not WRITTEN.fullmatch(text):
        raise SettingError(
            f"policy={text} cannot be read: write sub-policies as 3-1-7, or several such lists as 3-1-7+43-18-18."
        )
    parts = tuple(tuple(int(index) for index in part.split("-")) for part in text.split("+"))
    worst = max(index for part in parts for index in part)
    if worst >= len(SUB_POLICIES):
        raise SettingError(
            f"policy={text} names sub-policy {worst}, but they are numbered 0 to {len(SUB_POLICIES) - 1}: "
            "choose some of those."
        )
    return parts


def described(policy: str) -> str:
    """What a policy does, for tables: ``translateX9, contrast6, translateY2``."""
    parts = ([SUB_POLICIES[index] for index in part] for part in read_policy(policy))
    return " or ".join(", ".join(f"{name}{level}" for name, level in part) for part in parts)


@defenses.register("ats")
@dataclass(frozen=True, kw_only=True)
class ATS(Defense):
    """Transforms images by the sub-policies of a policy in turn, as 8-bit images, every image anew."""

    paper: ClassVar[str] = "Privacy-preserving Collaborative Learning with Automatic Transformation Search"
    stages: ClassVar[frozenset[Stage]] = frozenset({Stage.IMAGES})

    policy: str = setting("3-1-7", "sub-policies applied in turn (0 to 49); one of several lists a-b-c+d-e-f per image")

    def __post_init__(self) -> None:
        read_policy(self.policy)

    @property
    def acts_on(self) -> str:
        """Where this defense acts, for tables."""
        return "images"

    def on_images(self, images: Tensor, *, rng: torch.Generator) -> Tensor:
        """Return transformed copies of the images; grey ones are transformed as three equal channels."""
        count, channels = images.shape[:2]
        if channels not in (1, 3):
            raise DataError(f"images have {channels} channels: ats transforms grey (1) or colour (3) images.")
        parts = read_policy(self.policy)
        chosen = torch.randint(len(parts), (count,), generator=rng).tolist()
        signs = torch.randint(2, (count, max(map(len, parts))), generator=rng).mul(2).sub(1).tolist()
        pixels = (images.detach() * 255).round().to(torch.uint8).expand(-1, 3, -1, -1).permute(0, 2, 3, 1).numpy()
        made = [_transformed(one, parts[part], order) for one, part, order in zip(pixels, chosen, signs, strict=True)]
        found = torch.from_numpy(np.stack(made)).permute(0, 3, 1, 2)[:, :channels]
        return found.to(images.dtype).div(255).contiguous()


def _transformed(pixels: np.ndarray, part: tuple[int, ...], signs: list[int]) -> np.ndarray:
    """One 8-bit image (H, W, 3) after some sub-policies."""
    image = Image.fromarray(np.ascontiguousarray(pixels))
    for index, sign in zip(part, signs, strict=False):
        image = transform(image, index, sign)
    return np.asarray(image)
