"""What a federation writes down: for every round the model sent out, what the server saw of each client, and facts."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors
from torch import Tensor

from glasshouse.errors import StudyError
from glasshouse.files import sweep, write_atomic
from glasshouse.types import JSON, finite_or_none

log = logging.getLogger(__name__)

GLOBAL = "global.safetensors"
FACTS = "round.json"
CLIENTS = "client_*.safetensors"
SUM = "sha256"  # under which a file of a round holds the checksum of all else in it


@dataclass(frozen=True, slots=True)
class Fault:
    """A client that did not take part in a round, and why."""

    client: str
    reason: str


@dataclass(frozen=True, slots=True)
class Heard:
    """A client that took part in a round: what it told the server beside its update, never masked."""

    client: int
    examples: int
    loss: float


@dataclass(frozen=True, slots=True)
class Round:
    """The facts of a finished round; ``bytes_sent`` counts what travelled in both directions."""

    number: int
    accuracy: float
    loss: float
    bytes_sent: int
    seconds: float
    heard: tuple[Heard, ...]
    faults: tuple[Fault, ...]

    def to_json(self) -> JSON:
        """The facts as plain JSON."""
        heard = [{**dataclasses.asdict(one), "loss": finite_or_none(one.loss)} for one in self.heard]
        faults = [dataclasses.asdict(one) for one in self.faults]
        return {**dataclasses.asdict(self), "loss": finite_or_none(self.loss), "heard": heard, "faults": faults}

    @classmethod
    def from_json(cls, found: JSON) -> Round:
        """Read the facts back."""
        heard = tuple(Heard(**{**one, "loss": _number(one["loss"])}) for one in found["heard"])
        faults = tuple(Fault(**one) for one in found["faults"])
        return cls(**{**found, "loss": _number(found["loss"]), "heard": heard, "faults": faults})


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


class Ledger:
    """The ``rounds`` of a directory. A round is finished once its facts are there, and never changed again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "rounds"

    def folder(self, number: int) -> Path:
        """Where a round is kept."""
        return self.directory / f"{number:03d}"

    def finished(self) -> list[Round]:
        """All finished rounds, from the first on."""
        found: list[Round] = []
        while (path := self.folder(len(found)) / FACTS).is_file():
            found.append(_read_facts(path))
        return found

    def mend(self) -> None:
        """Open the first damaged round again, and all behind it, which began with what it ended with."""
        number = 0
        while self._is_whole(number):
            number += 1
        self.reopen(number)

    def reopen(self, number: int) -> None:
        """Have a round done again, and all behind it."""
        for path in self.directory.glob(f"*/{FACTS}"):
            if int(path.parent.name) >= number:
                log.warning("%s or what belongs to it is damaged: its round is done again.", path)
                path.unlink()

    def _is_whole(self, number: int) -> bool:
        """Whether all that a finished round wrote down is as it was written."""
        try:
            _read_facts(self.folder(number) / FACTS)
            for path in (*sorted(self.folder(number).glob("*.safetensors")), self.folder(number + 1) / GLOBAL):
                read_tensors(path)
        except StudyError:
            return False
        return True

    def open(self, number: int, weights: Mapping[str, Tensor]) -> None:
        """Begin a round with the weights that clients are sent; what a killed run left of it is removed."""
        folder = self.folder(number)
        sweep(folder)
        for path in folder.glob(CLIENTS):
            path.unlink()
        write_tensors(folder / GLOBAL, weights)

    def keep(self, number: int, client: int, seen: Mapping[str, Tensor]) -> None:
        """Keep what the server saw of a client."""
        write_tensors(self.folder(number) / f"client_{client}.safetensors", seen)

    def close(self, facts: Round) -> None:
        """Finish a round."""
        found = facts.to_json()
        text = json.dumps({**found, SUM: _sum_of(found)}, indent=1, allow_nan=False)
        write_atomic(self.folder(facts.number) / FACTS, text.encode())

    def sent(self, number: int) -> dict[str, Tensor]:
        """The weights that clients were sent in a round; after the last round, the final ones."""
        return read_tensors(self.folder(number) / GLOBAL)

    def clients(self, number: int) -> list[int]:
        """The clients of which the server saw something in a round."""
        names = (path.stem.partition("_")[2] for path in self.folder(number).glob(CLIENTS))
        return sorted(int(name) for name in names if name.isdecimal())

    def seen(self, number: int, client: int) -> dict[str, Tensor]:
        """What the server saw of a client in a round."""
        path = self.folder(number) / f"client_{client}.safetensors"
        if not path.exists():
            raise StudyError(
                f"{path} is not there. Studies keep clients' updates of the last round alone: choose that, or run "
                "the federation by itself with 'glasshouse federate'."
            )
        return read_tensors(path)

    def forget_clients(self, before: int) -> None:
        """Remove what the server saw of clients in all rounds before one; global models stay."""
        for number in range(before):
            for path in self.folder(number).glob(CLIENTS):
                path.unlink()


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Keep named tensors with a sum by which a later change is noticed."""
    whole = {name: value.contiguous() for name, value in tensors.items()}
    write_atomic(path, to_safetensors(whole, metadata={SUM: _sum_of_tensors(whole)}))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Named tensors of a safetensors file; one that changed since the ledger wrote it is refused."""
    try:
        found = load_file(path)
        with safe_open(path, "pt") as file:
            written = (file.metadata() or {}).get(SUM)
    except (OSError, SafetensorError) as error:
        raise StudyError(f"{path} cannot be read ({error}): is this the directory of a federation?") from error
    if written not in (None, _sum_of_tensors(found)):
        raise StudyError(f"{path} was changed since it was written: run the same command again to mend it.")
    return found


def _read_facts(path: Path) -> Round:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found.pop(SUM, None) not in (None, _sum_of(found)):
            raise StudyError(f"{path} was changed since it was written: run the same command again to mend it.")
        return Round.from_json(found)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise StudyError(f"{path} cannot be read ({error}): run the same command again to mend it.") from error


def _sum_of(found: JSON) -> str:
    """SHA-256 of facts, however they are written down."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def _sum_of_tensors(tensors: dict[str, Tensor]) -> str:
    """SHA-256 of tensors with their names and shapes."""
    return hashlib.sha256(to_safetensors(tensors)).hexdigest()


def named(faults: Iterable[Fault]) -> list[str]:
    """Faults as lines for people."""
    return [f"{fault.client}: {fault.reason}" for fault in faults]
