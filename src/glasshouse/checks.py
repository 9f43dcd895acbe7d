"""The only input validation: small functions that return what they were given or raise an error that teaches."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, SupportsIndex

from glasshouse.errors import AttackError, DataError, MissingExtraError, SettingError
from glasshouse.types import ImageSpec

if TYPE_CHECKING:
    from torch import Tensor

MOST_SEED = 2**32 - 1  # what numpy, scikit-learn and torch all take


@contextmanager
def from_extra(name: str, what: str) -> Iterator[None]:
    """Around imports that come with an extra of the installation: where one is missing, say which to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(what, str(error.name).partition(".")[0], name) from error


def at_least(name: str, value: float, low: float) -> None:
    """Refuse a setting below ``low`` or not finite."""
    if not math.isfinite(value) or value < low:
        raise SettingError(f"{name}={value:g} is out of range: use a finite number of at least {low:g}.")


def whole(name: str, value: object, low: int, high: int) -> None:
    """Refuse anything but a whole number in [low, high]; true and 1.0 are none."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or not low <= operator.index(value) <= high:
        raise SettingError(f"{name}={value} is out of range: use a whole number from {low} to {high}.")


def between(name: str, value: float, low: float, high: float) -> None:
    """Refuse a setting outside [low, high]."""
    if not math.isfinite(value) or not low <= value <= high:
        raise SettingError(f"{name}={value:g} is out of range: use a number from {low:g} to {high:g}.")


def one_of(name: str, value: str, choices: Collection[str]) -> None:
    """Refuse a setting that is not one of the choices."""
    if value not in choices:
        raise SettingError(f"{name}={value} is not known: use one of {', '.join(choices)}.")


def printable(where: object, names: Iterable[str]) -> None:
    """Refuse names that would do something to a terminal."""
    for name in names:
        if not name.isprintable():
            raise DataError(f"{where}: the name {name[:40]!r} holds characters that cannot be printed: rename it.")


def images(name: str, value: Tensor) -> None:
    """Refuse anything but a non-empty float tensor (N, C, H, W) with finite values in [0, 1]."""
    if not hasattr(value, "is_floating_point"):  # torch is not imported for a check
        raise DataError(f"{name} is of type {type(value).__name__}: give a tensor (torch.from_numpy makes one).")
    if value.ndim != 4 or 0 in value.shape:
        raise DataError(f"{name} has shape {tuple(value.shape)}: give a non-empty tensor (N, C, H, W).")
    if not value.is_floating_point():
        raise DataError(f"{name} has dtype {value.dtype}: give floats in [0, 1] (divide 8-bit images by 255).")
    low, high = (float(end) for end in value.aminmax())  # one pass; NaN anywhere makes both NaN
    if not math.isfinite(low) or not math.isfinite(high):
        raise DataError(f"{name} holds NaN or infinite values: remove those images first.")
    if low < 0 or high > 1:
        raise DataError(f"{name} lies in [{low:g}, {high:g}]: scale it to [0, 1] first.")


def pairs(truth: Tensor, guess: Tensor) -> None:
    """Refuse image batches that cannot be compared one by one."""
    images("truth", truth)
    images("guess", guess)
    if truth.shape != guess.shape:
        raise DataError(
            f"truth {tuple(truth.shape)} and guess {tuple(guess.shape)} differ in shape: "
            "resize one to the other before comparing."
        )


def colours(value: Tensor) -> None:
    """Refuse images (N, C, H, W) that are neither grey nor in colour, which is all that published networks know."""
    if value.shape[1] not in (1, 3):
        raise DataError(f"Images have {value.shape[1]} channels: a network looks at grey (1) or colour (3) ones.")


def labels(value: Tensor, spec: ImageSpec, count: int) -> None:
    """Refuse labels that are not ``count`` whole numbers in [0, classes)."""
    if value.ndim != 1 or len(value) != count:
        raise DataError(f"labels have shape {tuple(value.shape)}: give one label for each of {count} images.")
    if value.is_floating_point() or value.is_complex():
        raise DataError(f"labels have dtype {value.dtype}: give whole numbers.")
    if count and (int(value.min()) < 0 or int(value.max()) >= spec.classes):
        raise DataError(
            f"labels range from {int(value.min())} to {int(value.max())}, but there are {spec.classes} "
            f"classes: use 0 to {spec.classes - 1}, or a model with more outputs."
        )


def reconstruction(attack: str, value: Tensor, spec: ImageSpec, count: int) -> None:
    """Refuse what an attack returned unless it is ``count`` finite images of the right shape in [0, 1]."""
    if tuple(value.shape) != (count, *spec.shape):
        raise AttackError(
            f"Attack '{attack}' returned shape {tuple(value.shape)} instead of {(count, *spec.shape)}: "
            "this is a bug in the attack."
        )
    if not bool(value.isfinite().all()):
        raise AttackError(
            f"Attack '{attack}' diverged to NaN: try a smaller learning rate, more restarts or another seed."
        )
    if float(value.min()) < 0 or float(value.max()) > 1:
        raise AttackError(f"Attack '{attack}' returned pixels outside [0, 1]: this is a bug in the attack.")
