"""The images a study attacks, and the hundred others that each must be told from."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from glasshouse import checks, data
from glasshouse.data import ImageSet
from glasshouse.data.crops import photo_crops, photographs_in
from glasshouse.errors import DataError, about
from glasshouse.types import ImageSpec

log = logging.getLogger(__name__)

GALLERY = 100
PUBLIC = 10_000  # as many public images are enough for what is learned here
FEW = 100  # public images below which little is learned
COPY = 0.02  # root mean squared difference of pixels in [0, 1] up to which two images are one


@dataclass(frozen=True, slots=True, eq=False)
class Materials:
    """Images (N, C, H, W) with labels, identities and class names, and a gallery of other images.

    ``public`` images have ``public_labels`` where their classes are those of the attacked ones.
    """

    images: Tensor
    labels: Tensor
    identities: tuple[str, ...]
    class_names: tuple[str, ...]
    spec: ImageSpec
    gallery: Tensor
    gallery_origin: str
    terms: str
    skipped: tuple[str, ...] = ()
    public: Tensor | None = None
    public_labels: Tensor | None = None

    def __post_init__(self) -> None:
        if self.spec.height * self.spec.width == 1:
            raise DataError(
                "Images have one pixel, which shows nothing but its colour: use larger ones (--size 8 or more)."
            )

    @property
    def public_count(self) -> int | None:
        """How many images the attacker may learn from; None where nobody named any."""
        return None if self.public is None else len(self.public)

    def unattacked_crops(self, count: int, seed: int) -> Tensor:
        """Crops of the embedded photographs that are not attacked themselves, under their name or without it."""
        attacked = photographs_in(self.images).union(self.identities)
        return photo_crops(self.spec, count, seed, without=attacked)


def from_dataset(
    source: str,
    count: int,
    seed: int,
    *,
    size: int | None,
    root: Path | None,
    download: bool,
    public: str | None = None,
) -> Materials:
    """Draw ``count`` images of a data set, as many classes as possible; ``public`` is one that attackers may know."""
    found = data.load(source, root=root, size=size, download=download)
    with about("images"):
        places = found.spread(count, seed)
    images, labels = found.batch(places)
    known: tuple[Tensor | None, Tensor | None] = (None, None)
    if public is not None:
        with about("public"):
            known = public_like(data.load(public, root=root, download=download), images, found.class_names, seed)
    return Materials(
        images,
        labels,
        tuple(found.ids[place] for place in places),
        tuple(found.class_names[int(label)] for label in labels),
        found.spec,
        *_others(found, places, seed),
        found.terms,
        found.skipped,
        *known,
    )


def from_tensors(
    images: Tensor,
    labels: Tensor,
    seed: int,
    *,
    others: Tensor | None = None,
    classes: int | None = None,
    public: Tensor | None = None,
) -> Materials:
    """Take images and labels, and others of their kind, as a caller hands them over."""
    checks.images("images", images)
    if images.shape[1] not in (1, 3):
        raise DataError(f"images have {images.shape[1]} channels: give grey (1) or colour (3) images.")
    needed = int(labels.max()) + 1 if labels.numel() else 1
    spec = ImageSpec(images.shape[1], images.shape[2], images.shape[3], classes or needed)
    checks.labels(labels, spec, len(images))
    gallery, origin = photo_crops(spec, GALLERY, seed), f"{GALLERY} crops of photographs"
    if others is not None:
        gallery = others.float()[_unknown("others", others, images)]
        origin = f"{len(gallery)} others handed over"
    return Materials(
        images.float(),
        labels.long(),
        tuple(f"images/{index:06d}" for index in range(len(images))),
        tuple(str(int(label)) for label in labels),
        spec,
        gallery,
        origin,
        "the caller's own",
        public=None if public is None else public.float()[_unknown("public", public, images)],
    )


def public_like(
    found: ImageSet, images: Tensor, class_names: tuple[str, ...], seed: int
) -> tuple[Tensor, Tensor | None]:
    """Images that anyone may have, in the shape of the attacked ones and without any of them, and their labels."""
    channels, height, width = images.shape[1:]
    square = height if height == width else None
    fitted = found.fitted(square if found.spec.shape[1:] != (height, width) else None, channels)
    if found.spec.shape != images.shape[1:]:
        log.warning(
            "public images of shape %s are fitted to %s of the attacked ones: an attacker learns more from images "
            "of their kind.",
            found.spec.shape,
            tuple(images.shape[1:]),
        )
    known, labels = fitted.batch(fitted.spread(min(len(fitted), PUBLIC), seed))
    new = _unknown("public", known, images)
    count = int(new.sum())
    if count < FEW:
        log.warning("There are only %d public images: an attacker learns little from fewer than %d.", count, FEW)
    return known[new], labels[new] if found.class_names == class_names else None


def _unknown(name: str, candidates: Tensor, images: Tensor) -> Tensor:
    """Which images, of the shape of the attacked ones, are no copies of these, (N,); all may not be."""
    checks.images(name, candidates)
    if candidates.shape[1:] != images.shape[1:]:
        raise DataError(f"{name} have shape {tuple(candidates.shape[1:])}, images {tuple(images.shape[1:])}: use one.")
    new = torch.tensor(unlike(candidates.float(), images.float()))
    if not bool(new.any()):
        raise DataError(
            f"All {len(new)} {name} images are copies of attacked ones, which the attacker is to find: name others."
        )
    if not bool(new.all()):
        log.warning("%d of %d %s images are copies of attacked ones and left out.", int((~new).sum()), len(new), name)
    return new


def _others(found: ImageSet, taken: list[int], seed: int) -> tuple[Tensor, str]:
    """Other images of the same data set, made up with crops of photographs where it has too few; and which."""
    drawn = found.spread(min(len(found), GALLERY + len(taken)), seed + 1)
    others = [place for place in drawn if place not in taken][:GALLERY]
    if others:
        originals, candidates = found.batch(taken)[0], found.batch(others)[0]
        others = [place for place, new in zip(others, unlike(candidates, originals), strict=True) if new]
    parts = [found.batch(others)[0]] if others else []
    origin = f"{len(others)} of the same data set"
    if len(others) < GALLERY:
        parts.append(photo_crops(found.spec, GALLERY - len(others), seed))
        origin += f", {GALLERY - len(others)} crops of photographs"
    return torch.cat(parts), origin


def unlike(candidates: Tensor, originals: Tensor) -> list[bool]:
    """Which candidates are no copy of an original: a copy would tie with it and hide that it was seen."""
    if not len(originals):
        return [True] * len(candidates)
    first, second = (part.flatten(1).double() for part in (candidates, originals))
    nearest = torch.cdist(first, second).amin(1) / first.shape[1] ** 0.5
    return [bool(distance > COPY) for distance in nearest]
