"""Where a study keeps its results and pictures: in its directory, or elsewhere by URLs that it remembers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from glasshouse import plans
from glasshouse.errors import StudyError
from glasshouse.files import write_atomic
from glasshouse.registry import setting
from glasshouse.store.album import Album
from glasshouse.store.database import DATABASE_FILE, Database
from glasshouse.store.mending import mend
from glasshouse.urls import has_password, without_password

STORAGE_FILE = "storage.toml"
SCHEMA = 1
SQLITE = "sqlite:///"
HEAD = "Where this study keeps its results and pictures. Passwords stand in PGPASSWORD or ~/.pgpass, not here."


@dataclass(frozen=True, kw_only=True)
class Storage:
    """What a study's directory remembers of the places where it keeps things."""

    store: str | None = setting(None, f"URL of the database; none: {DATABASE_FILE} beside this file")
    pictures: str | None = setting(None, "directory or URL of the pictures; none: images beside this file")


@dataclass(frozen=True, slots=True)
class Location:
    """The database and the pictures of the study in a directory."""

    directory: Path
    storage: Storage = Storage()

    @classmethod
    def of(cls, directory: Path) -> Location:
        """Where the study of a directory says that its things are."""
        file = directory / STORAGE_FILE
        return cls(directory, plans.from_toml(file, Storage, schema=SCHEMA) if file.exists() else Storage())

    @classmethod
    def asked(cls, directory: Path, store: str | None, pictures: str | None) -> Location:
        """Where a run is told to keep things; a study that has begun stays where it is, and what is not said is known.

        What cannot be used is refused, and nothing is written yet.
        """
        if pictures is not None and has_password(pictures):
            raise StudyError(
                f"{without_password(pictures)} was given with a password, which others would read: leave it out, and "
                "give it to fsspec by its configuration or by a variable such as FSSPEC_FTP_PASSWORD."
            )
        known = cls.of(directory)
        given = replace(
            known.storage,
            store=known.storage.store if store is None else _lasting(store),
            pictures=known.storage.pictures if pictures is None else _lasting(pictures),
        )
        if known._began() and given.pictures != known.storage.pictures:
            raise StudyError(_elsewhere(directory, "pictures", known.storage.pictures))
        if known._began() and _bare(given.store) != known.storage.store:
            raise StudyError(_elsewhere(directory, "store", known.storage.store))
        found = cls(directory, given)
        found.album.refuse()
        if found.storage.store is not None:
            Database(found.storage.store).close()
        return found

    @property
    def database(self) -> Path | str:
        """What to open as a database."""
        return self.storage.store or self.directory / DATABASE_FILE

    @property
    def album(self) -> Album:
        """The pictures."""
        return Album.of(self.directory) if self.storage.pictures is None else Album(self.storage.pictures)

    def exists(self) -> bool:
        """Whether there is a database; a server that a study names is taken to have one."""
        return self.storage.store is not None or (self.directory / DATABASE_FILE).is_file()

    def mend(self) -> None:
        """Take what is damaged out of the database beside the plan; a server minds its own disks."""
        if self.storage.store is None:
            mend(self.directory / DATABASE_FILE)

    def save(self) -> None:
        """Remember what lies elsewhere, without passwords."""
        bare = replace(self.storage, store=_bare(self.storage.store))
        if bare != Storage():
            write_atomic(self.directory / STORAGE_FILE, plans.to_toml(bare, schema=SCHEMA, head=HEAD).encode())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold a database on a server for one run alone; a file lies in a directory that is held already."""
        if self.storage.store is None:
            yield
            return
        database = Database(self.storage.store)
        try:
            with database.held():
                yield
        finally:
            database.close()

    def _began(self) -> bool:
        """Whether a run has settled where things are."""
        return (self.directory / STORAGE_FILE).exists() or (self.directory / DATABASE_FILE).is_file()


def _bare(store: str | None) -> str | None:
    return None if store is None else without_password(store)


def _lasting(place: str) -> str:
    """A place that is found again from any directory: files and directories by their whole path."""
    if place.startswith(SQLITE):
        return f"{SQLITE}{Path(place.removeprefix(SQLITE)).resolve()}"
    return place if "://" in place else str(Path(place).resolve())


def _elsewhere(directory: Path, what: str, where: str | None) -> str:
    place = f"at {where}" if where else "in its directory"
    return f"{directory} keeps its {what} {place}: leave --{what} out, or begin in another directory."
