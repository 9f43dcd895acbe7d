"""Where a study keeps its results and pictures: in its directory, or elsewhere by URLs that it remembers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from glasshouse import plans
from glasshouse.errors import StudyError
from glasshouse.files import sole_owner, sole_user, write_once
from glasshouse.registry import setting
from glasshouse.store.album import Album
from glasshouse.store.database import DATABASE_FILE, Database, file_of
from glasshouse.store.mending import Owner, mend, owner_of
from glasshouse.store.store import Store
from glasshouse.urls import has_password, without_password

STORAGE_FILE = "storage.toml"
SCHEMA = 1
SQLITE = "sqlite:///"
UNNAMED = "the study of this directory"  # what a database says that lies beside its plan, with all else
HEAD = "Where this study keeps its results and pictures. Passwords stand in PGPASSWORD or ~/.pgpass, not here."


@dataclass(frozen=True, kw_only=True)
class Storage:
    """What a study's directory remembers of the places where it keeps things."""

    store: str | None = setting(None, f"URL of the database; none: {DATABASE_FILE} beside this file")
    pictures: str | None = setting(None, "directory or URL of the pictures; none: images beside this file")
    study: str | None = setting(None, "name that these places know the study by")
    marked: bool = setting(False, "whether they do; one that does not is then another's, or not mounted")

    @property
    def elsewhere(self) -> bool:
        """Whether anything lies outside of the study's directory."""
        return self.store is not None or self.pictures is not None


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

        What cannot be is refused, and nothing is written yet.
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
        if given.elsewhere and given.study is None:
            given = replace(given, study=secrets.token_hex(8))
        found = cls(directory, given)
        found.album.refuse()
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
        file = file_of(self.database)
        return file is None or file.is_file()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the database for one run alone, mended; places that are not this study's, or not there, are refused."""
        if self.storage.store is not None and self.storage.marked and not self.exists():
            raise StudyError(self._forgotten(self.storage.store))  # before a lock is laid where nothing is mounted
        file = file_of(self.database)
        with ExitStack() as held:
            if file is None:
                held.enter_context(held.enter_context(closing(Database(self.database))).held())
            else:
                held.enter_context(self._lock(file))
            self._refuse_others()
            if file is not None:  # a server minds its own disks
                self._mend(file)
            yield

    def _lock(self, file: Path) -> AbstractContextManager[None]:
        """What every run holds that works on a file, whichever study's it is and however the file was named."""
        if file.name != DATABASE_FILE:
            return sole_user(file)
        if file.parent.resolve() == self.directory.resolve():  # held with the study's directory
            return nullcontext()
        return sole_owner(file.parent, "--store")  # as a study holds it whose directory that is

    def _mend(self, file: Path) -> None:
        """Mend a file that is this study's, and write its name anew where that was damaged."""
        mend(file)
        if self.storage.marked:
            self._claim()

    def settle(self) -> None:
        """Make database and pictures this study's own, and remember what lies elsewhere, without passwords.

        Our name is written here first: a run that is killed before the last line finds it there and goes on.
        """
        self._save(self.storage)
        self._claim()
        if self.storage.pictures is not None:
            self.album.claim(self._name)
        self._refuse_others()  # one that began at the same time was first
        self.album.prepare()
        self._save(replace(self.storage, marked=True))

    @property
    def _name(self) -> str:
        return self.storage.study or UNNAMED

    def _claim(self) -> None:
        with closing(Store(self.database)) as store:
            store.claim(self._name)

    def _save(self, storage: Storage) -> None:
        if storage.elsewhere:
            bare = replace(storage, store=_bare(storage.store))
            write_once(self.directory / STORAGE_FILE, plans.to_toml(bare, schema=SCHEMA, head=HEAD).encode())

    def _refuse_others(self) -> None:
        """Refuse places of another study, and places elsewhere that have forgotten this one."""
        for place, owner in self._owners():
            if not owner.readable and not self.storage.marked:
                raise StudyError(
                    f"{place} is damaged, and does not say any more whose it is: run the study again "
                    "that keeps its results there, which mends it, or give this one a place of its own (--store)."
                )
            if owner == Owner() and self.storage.marked:
                raise StudyError(self._forgotten(place))
            if owner.name not in (None, self._name):
                raise StudyError(
                    f"{place} belongs to another study: go on in the directory of that one, or give this one a place "
                    "of its own (--store, --pictures)."
                )

    def _owners(self) -> Iterator[tuple[str, Owner]]:
        """Database and pictures with the study that they know."""
        if self.exists():
            owner = self._owner()
            if owner.name is not None or self.storage.store is not None:  # beside its plan it cannot be another disk's
                yield without_password(str(self.database)), owner
        if self.storage.pictures is not None:
            yield self.storage.pictures, Owner(self.album.owner())

    def _owner(self) -> Owner:
        file = file_of(self.database)
        if file is not None:
            return owner_of(file)
        with closing(Store(self.database)) as store:
            return Owner(store.owner())

    def _forgotten(self, place: str) -> str:
        return (
            f"{without_password(place)} does not know this study any more: is it mounted? If what it held is lost for "
            f"good, delete the line 'marked' in {self.directory / STORAGE_FILE}, and the same command computes it anew."
        )

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
