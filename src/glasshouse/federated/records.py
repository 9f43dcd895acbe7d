"""What a federation writes down: for every round the model sent out, what the server saw of each client, and facts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors
from torch import Tensor

from glasshouse.errors import StudyError
from glasshouse.files import sweep, write_atomic
from glasshouse.types import JSON, finite_or_none

GLOBAL = "global.safetensors"
FACTS = "round.json"


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
    """The ``rounds`` of a directory. A round is finished once its facts are there, and never touched again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "rounds"

    def folder(self, number: int) -> Path:
        """Where a round is kept."""
        return self.directory / f"{number:03d}"

    def finished(self) -> list[Round]:
        """All finished rounds, from the first on."""
        found: list[Round] = []
        while (path := self.folder(len(found)) / FACTS).is_file():
            try:
                found.append(Round.from_json(json.loads(path.read_text(encoding="utf-8"))))
            except (OSError, ValueError, TypeError, KeyError) as error:
                raise StudyError(f"{path} cannot be read ({error}): choose another directory, or delete it.") from error
        return found

    def open(self, number: int, weights: Mapping[str, Tensor]) -> None:
        """Begin a round with the weights that clients are sent; what a killed run left of it is removed."""
        folder = self.folder(number)
        sweep(folder)
        for path in folder.glob("client_*.safetensors"):
            path.unlink()
        self._keep(folder / GLOBAL, weights)

    def keep(self, number: int, client: int, seen: Mapping[str, Tensor]) -> None:
        """Keep what the server saw of a client."""
        self._keep(self.folder(number) / f"client_{client}.safetensors", seen)

    def close(self, facts: Round) -> None:
        """Finish a round."""
        text = json.dumps(facts.to_json(), indent=1, allow_nan=False)
        write_atomic(self.folder(facts.number) / FACTS, text.encode())

    def sent(self, number: int) -> dict[str, Tensor]:
        """The weights that clients were sent in a round; after the last round, the final ones."""
        return read_tensors(self.folder(number) / GLOBAL)

    def clients(self, number: int) -> list[int]:
        """The clients of which the server saw something in a round."""
        names = (path.stem.partition("_")[2] for path in self.folder(number).glob("client_*.safetensors"))
        return sorted(int(name) for name in names if name.isdecimal())

    def seen(self, number: int, client: int) -> dict[str, Tensor]:
        """What the server saw of a client in a round."""
        return read_tensors(self.folder(number) / f"client_{client}.safetensors")

    def _keep(self, path: Path, tensors: Mapping[str, Tensor]) -> None:
        write_atomic(path, to_safetensors({name: value.contiguous() for name, value in tensors.items()}))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Named tensors of a safetensors file."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise StudyError(f"{path} cannot be read ({error}): is this the directory of a federation?") from error


def named(faults: Iterable[Fault]) -> list[str]:
    """Faults as lines for people."""
    return [f"{fault.client}: {fault.reason}" for fault in faults]
