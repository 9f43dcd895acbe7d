"""The images of one data set that a study attacks, and what they must be told from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from glasshouse.errors import StudyError
from glasshouse.store import Album, ImageRecord, Location, Store
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

    def save(self, album: Album) -> None:
        """Write the images, without loss."""
        for record, own in zip(self.records, self.pixels, strict=True):
            album.write(record.file, to_png(own))


def refuse_other_images(location: Location, subjects: Iterable[Subject], *, growing: bool) -> None:
    """Refuse a directory, or a database, whose study began with other images; one that is growing may get more."""
    if not location.exists():
        return
    store = Store(location.database)
    before = store.images()
    store.close()
    planned = {record.place: record for subject in subjects for record in subject.records}
    where = location.directory if location.storage.store is None else store.name
    if any(record != planned.get(record.place) for record in before):
        raise StudyError(f"{where} belongs to a study of other images: use another directory, or delete it.")
    if before and len(before) < len(planned) and not growing:
        raise StudyError(
            f"{where} began with {len(before)} images, and its networks were trained on others: leave 'images' as it "
            "was, or use another directory."
        )
