"""Rows of a federation's audit, each kept as soon as it is finished, so that a killed audit goes on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from glasshouse.attacks import InversionAttack
from glasshouse.files import write_atomic
from glasshouse.registry import complete_spec
from glasshouse.studies.sightings import Row, Scene, Victim
from glasshouse.types import JSON, Interval, Threat

log = logging.getLogger(__name__)

VERSION = 1  # counts changes that change a row
FOLDER = "rows"


@dataclass(frozen=True, slots=True, eq=False)
class Shelf:
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
        return found.hexdigest()[:32]

    def get(self, key: str) -> Row | None:
        """A finished row with its pictures; one that is damaged, or has lost them, is not finished."""
        path = self._file(key)
        if not path.is_file():
            return None
        try:
            row = _row(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            log.warning("%s is damaged: its attack is run again.", path)
            return None
        whole = all((self.scene.out / name).is_file() for pair in row.pictures for name in pair)
        return row if whole else None

    def put(self, key: str, row: Row) -> None:
        """Keep a row, after its pictures; infinite values stay what they are, for only ``get`` reads them."""
        write_atomic(self._file(key), json.dumps(dataclasses.asdict(row)).encode())

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
