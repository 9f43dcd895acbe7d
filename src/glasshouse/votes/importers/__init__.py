"""Importers: votes that were given elsewhere; one module for each format, chosen by looking at the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from glasshouse.errors import DataError
from glasshouse.votes.bundle import Bundle
from glasshouse.votes.importers import authors_folder, human_csv, label_studio, own_csv


@dataclass(frozen=True, slots=True)
class Importer:
    """A format: how it is called, whether a file looks like it, and how it is read.

    Pictures that lie beside a file are copied into the study's directory, which ``read`` gets second.
    """

    format: str
    recognises: Callable[[Path], bool]
    read: Callable[[Path, Path], Bundle]


IMPORTERS = tuple(
    Importer(module.FORMAT, module.recognises, module.read)
    for module in (own_csv, human_csv, authors_folder, label_studio)
)


def read_bundle(path: Path, study: Path) -> Bundle:
    """Read a file or folder of votes, whatever its format; refuse what looks like none that is known."""
    if not path.exists():
        raise DataError(f"There is no {path}: give a file or folder of votes.")
    for importer in IMPORTERS:
        if importer.recognises(path):
            return importer.read(path, study)
    known = "; ".join(importer.format for importer in IMPORTERS)
    raise DataError(f"{path} looks like no votes that we know. Known: {known}.")


__all__ = ["IMPORTERS", "Importer", "read_bundle"]
