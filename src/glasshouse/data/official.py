"""Data sets that others publish: first NAME.npz under the data root, then the official file layout."""

from __future__ import annotations

import logging
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path

from glasshouse.data.base import Dataset, ImageSet, data_root
from glasshouse.data.npz import open_npz
from glasshouse.errors import DataError

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class OfficialDataset(Dataset):
    """A published data set; an author says how its official layout is recognised and read."""

    def open(self, root: Path | None, *, download: bool) -> ImageSet:
        """Find NAME.npz, else the official layout, else download it if that was asked for."""
        folder = data_root(root)
        if folder is None:
            raise DataError(
                f"Where is '{self.name}'? Give --data-root DIR or set GLASSHOUSE_DATA to a directory that holds "
                f"{self.name}.npz or the official files ({self.source})."
            )
        packed = folder / f"{self.name}.npz"
        if packed.is_file():
            return open_npz(packed, self.split, name=self.name, terms=self.terms)
        if download and not self.present(folder):
            log.info("Downloading %s to %s", self.name, folder)
            self.download(folder)
        if not self.present(folder):
            raise DataError(
                f"'{self.name}' is not under {folder}: it wants {packed.name} or {self.layout()}. "
                f"Get it from {self.source}, or, where its terms allow, by 'glasshouse audit --data {self.name} "
                "--download'."
            )
        return self.read(folder)

    @abstractmethod
    def layout(self) -> str:
        """The official files, for the error that asks for them."""

    @abstractmethod
    def present(self, root: Path) -> bool:
        """Whether the official files are under the root."""

    @abstractmethod
    def read(self, root: Path) -> ImageSet:
        """Read the official files."""

    def download(self, root: Path) -> None:
        """Fetch the official files; a set that needs a person to accept its terms cannot."""
        raise DataError(f"'{self.name}' cannot be downloaded automatically: get it from {self.source}.")
