"""Rows of a federation's audit, each kept as soon as it is finished, so that a killed audit goes on."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from glasshouse.attacks import InversionAttack
from glasshouse.registry import complete_spec
from glasshouse.store.seals import read_sealed, write_sealed
from glasshouse.studies.sightings import Row, Scene, Victim
from glasshouse.types import JSON, Capability, Interval, Threat

log = logging.getLogger(__name__)

VERSION = 6  # counts changes that change a row
FOLDER = "rows"
DIGESTS = "sha256"  # of its pictures, in the file of a row


@dataclass(frozen=True, slots=True, eq=False)
class AuditShelf:
    """The finished rows of an audit; ``settings`` are those that decide a row beside what was seen."""

    scene: Scene
    settings: tuple[object, ...]

    def key(self, victim: Victim, attack: InversionAttack) -> str:
        """A hash of all that decides a row: what the server saw, the images behind it, the attack and how it is run."""
        scene = self.scene
        judges = [(complete_spec(one), one.edition) for one in scene.judges.values()]
        specs = [complete_spec(attack), attack.version, judges]
        facts = (VERSION, specs, self.settings, scene.learning_rate, scene.image, victim.name, victim.round)
        found = hashlib.sha256(repr((facts, victim.local_steps, victim.clients)).encode())
        sent = scene.model.state_dict().values()
        _add(found, (*victim.change.values(), victim.truth, victim.labels, *sent, scene.others))
        if scene.public is not None and Capability.PUBLIC_IMAGES in attack.uses:
            _add(found, (scene.public,))
        return found.hexdigest()[:32]

    def get(self, key: str) -> Row | None:
        """A finished row with its pictures; one that is damaged, or whose pictures are, is not finished."""
        path = self._file(key)
        if not path.is_file():
            return None
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):  # another make, or a lost picture
            found = read_sealed(path) or {}
            digests, row = found.pop(DIGESTS), _row(found)
            if digests == self._digests(row):
                return row
        log.warning("%s or one of its pictures is damaged: its attack is run again.", path)
        return None

    def put(self, key: str, row: Row) -> None:
        """Keep a row, after its pictures, with the checksums of both."""
        write_sealed(self._file(key), {**dataclasses.asdict(row), DIGESTS: self._digests(row)}, infinite=True)

    def _digests(self, row: Row) -> list[str]:
        names = [name for pair in row.pictures for name in pair]
        return [hashlib.sha256((self.scene.out / name).read_bytes()).hexdigest() for name in names]

    def _file(self, key: str) -> Path:
        return self.scene.out / FOLDER / f"{key}.json"


def _row(found: JSON) -> Row:
    values, floor = ({name: Interval(**one) for name, one in found[part].items()} for part in ("values", "floor"))
    pictures = tuple((str(truth), str(guess)) for truth, guess in found["pictures"])
    whole = {"values": values, "floor": floor, "home": Interval(**found["home"]), "threat": Threat(**found["threat"])}
    return Row(**{**found, **whole, "pictures": pictures})


def _add(content: hashlib._Hash, tensors: Iterable[Tensor]) -> None:
    for one in tensors:
        content.update(f"{tuple(one.shape)} {one.dtype}".encode())
        content.update(one.detach().cpu().contiguous().numpy().tobytes())
