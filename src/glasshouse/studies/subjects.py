"""The images of one data set that a study attacks, and what they must be told from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from glasshouse.errors import StudyError
from glasshouse.files import write_once
from glasshouse.store import DATABASE_FILE, ImageRecord, Store
from glasshouse.studies.materials import Materials
from glasshouse.studies.pictures import fingerprint, opaque_name, picture_file, to_pixels, to_png
from glasshouse.types import ImageSpec


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """One data set: its images at their places among all that the study attacks, and a gallery of others."""

    dataset: str
    image: ImageSpec
    records: tuple[ImageRecord, ...]
    pixels: tuple[np.ndarray, ...]
    gallery: Tensor
    gallery_origin: str
    terms: str = ""
    skipped: tuple[str, ...] = ()

    @classmethod
    def of(cls, dataset: str, image: ImageSpec, materials: Materials, first: int = 0) -> Subject:
        """Describe images under opaque names, counted from the ``first`` place on."""
        pixels = tuple(to_pixels(one) for one in materials.images)
        records = tuple(
            ImageRecord(
                first + number,
                materials.identities[number],
                int(materials.labels[number]),
                materials.class_names[number],
                picture_file(opaque_name("truth", str(first + number), fingerprint(own))),
                fingerprint(own),
            )
            for number, own in enumerate(pixels)
        )
        held = materials.gallery, materials.gallery_origin, materials.terms, materials.skipped
        return cls(dataset, image, records, pixels, *held)

    @property
    def places(self) -> tuple[int, ...]:
        """Where its images stand among all."""
        return tuple(record.place for record in self.records)

    def save(self, directory: Path) -> None:
        """Write the images, without loss."""
        for record, own in zip(self.records, self.pixels, strict=True):
            write_once(directory / record.file, to_png(own))


def refuse_other_images(directory: Path, subjects: Iterable[Subject]) -> None:
    """Refuse a directory whose study began with other images."""
    if not (directory / DATABASE_FILE).exists():
        return
    store = Store(directory / DATABASE_FILE)
    before = store.images()
    store.close()
    planned = {record.place: record for subject in subjects for record in subject.records}
    if any(record != planned.get(record.place) for record in before):
        raise StudyError(f"{directory} belongs to a study of other images: choose another --out, or delete it.")
