"""A federation from beginning to end, or on from where it stopped."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import save as to_safetensors

from glasshouse import checks
from glasshouse.errors import StudyError
from glasshouse.federated.adversaries.findings import Findings
from glasshouse.federated.clients import guarded, network, refuse_single
from glasshouse.federated.digests import data_digest
from glasshouse.federated.holdings import dealt
from glasshouse.federated.host import Host, Told, nobody
from glasshouse.federated.plan import Federation, from_toml, to_toml
from glasshouse.federated.records import Ledger, Round
from glasshouse.federated.simulation import QUIET, end_busy_clients, need_flower, silent, simulate
from glasshouse.files import is_unused, sole_owner, sweep, write_atomic
from glasshouse.models import own
from glasshouse.rays import environment
from glasshouse.types import JSON

SCHEMA = 1
PLAN_FILE = "study.toml"
DATA_FILE = "images.sha256"
RESULT_FILE = "federation.json"
MODEL_FILE = "models/global.safetensors"


@dataclass(frozen=True, slots=True, eq=False)
class FederationResult:
    """What a federation came to, and where it is kept; ``promise`` is what its defense guarantees, if anything."""

    directory: Path
    plan: Federation
    rounds: tuple[Round, ...]
    parameters: int
    examples: tuple[int, ...]
    promise: str

    @property
    def accuracy(self) -> float:
        """How often the final model is right on the test images."""
        return self.rounds[-1].accuracy

    def to_json(self) -> JSON:
        """The result as plain JSON."""
        return {
            "schema": SCHEMA,
            **dataclasses.asdict(self.plan),
            "parameters": self.parameters,
            "examples": list(self.examples),
            "promise": self.promise,
            "accuracy": self.accuracy,
            "history": [one.to_json() for one in self.rounds],
        }


def federate(
    plan: Federation,
    out: Path,
    *,
    root: Path | None = None,
    cores: int | None = None,
    tell: Told = nobody,
    begin: Callable[[], None] = lambda: None,
    deadline: float = math.inf,
) -> FederationResult:
    """Train a model over clients that keep their images, simulated by Flower on Ray; the same call goes on.

    ``out`` becomes a study's directory. ``tell`` hears of each finished round, also of those of an earlier run;
    ``begin`` is called between those and the others, before Flower starts, if there are rounds left. Past the
    ``deadline``, a reading of ``time.monotonic``, it ends with an error after the round that it is in.
    """
    if cores is not None:
        checks.at_least("cores", cores, 1)
    with environment(QUIET):
        need_flower()
        class_names = Host.prepare(plan, out, root=root).class_names
        for client in {0, 0 if plan.malicious is None else plan.malicious.client}:
            holding = dealt(plan, client, class_names, root)  # refused here, not by every client
            refuse_single(network(plan, holding.spec), holding)
        images = data_digest(plan, root)
        with begun(plan, out, root=root, tell=tell) as host:
            keep_images(host, images)
            host.deadline = deadline
            if host.first_round() < plan.rounds:
                begin()
                _simulate(host, root, cores or os.cpu_count() or 1)
            return write_down(host)


@contextmanager
def begun(plan: Federation, out: Path, *, root: Path | None = None, tell: Told = nobody) -> Iterator[Host]:
    """Begin a federation in a directory of its own, or go on with it; ``tell`` hears of the rounds there are."""
    _refuse_foreign(out, plan)
    host = Host.prepare(plan, out, root=root, tell=tell)
    with sole_owner(out):
        sweep(out)
        write_atomic(out / PLAN_FILE, to_toml(plan).encode())
        host.ledger.mend()
        damaged = Findings(out).damaged(host.first_round())
        if damaged is not None:
            host.ledger.reopen(damaged)
        for one in host.ledger.finished():
            tell(one)
        yield host


def _simulate(host: Host, root: Path | None, cores: int) -> None:
    from glasshouse.federated import apps

    stopping = threading.Event()
    with silent("flwr", "ray"):
        client = apps.client_app(apps.simulated(host.plan, root, host.directory.resolve()))
        server = apps.server_app(lambda context: host, stopping, end_busy_clients)
        simulate(client, server, host.plan.clients, stopping, cores)


def write_down(host: Host, *, promised: bool = True) -> FederationResult:
    """Keep the final model and the result; a federation that nobody took part in has none.

    ``promised`` says whether every client is known to have the plan's defense.
    """
    rounds = host.ledger.finished()
    if not any(one.heard for one in rounds):
        faults = [fault for one in rounds for fault in one.faults]
        first = f" The first: {faults[0].client}: {faults[0].reason}" if faults else ""
        raise StudyError(f"No client took part in any round.{first}")
    sizes = {heard.client: heard.examples for one in rounds for heard in one.heard}
    examples = tuple(sizes[client] for client in sorted(sizes))
    weights = host.ledger.sent(len(rounds))
    write_atomic(host.directory / MODEL_FILE, to_safetensors(weights))
    promise = guarded(host.plan, min(examples)).promise if promised else ""
    result = FederationResult(
        host.directory,
        host.plan,
        tuple(rounds),
        sum(value.numel() for value in weights.values()),
        examples,
        promise and f"{promise}, for each image of a client, while its secret is one (in a simulation, the seed)",
    )
    write_atomic(host.directory / RESULT_FILE, json.dumps(result.to_json(), indent=1, allow_nan=False).encode())
    return result


def keep_images(host: Host, images: str) -> None:
    """Note the digest of the images, or refuse to go on with others: a model of both would be nobody's."""
    if host.first_round():
        refuse_other_images(host.directory, host.plan, images)
    write_atomic(host.directory / DATA_FILE, images.encode())


def refuse_other_images(directory: Path, plan: Federation, images: str) -> None:
    """Refuse what did not begin as a simulation on images of this digest."""
    path = directory / DATA_FILE
    if not path.is_file():
        raise StudyError(
            f"{directory} was begun by 'flwr run', whose clients alone have their images, or by an older version: give "
            "the directory of a simulation."
        )
    if path.read_text(encoding="ascii", errors="replace") != images:
        raise StudyError(
            f"{directory} was begun with other images than '{plan.dataset}' has now{_or_network(plan)}: bring that "
            "back, or federate anew with another --out."
        )


def _or_network(plan: Federation) -> str:
    return f", or with another {plan.model}" if own.is_own(plan.model) else ""


def refuse_simulated(out: Path) -> None:
    """Refuse to deploy on from where a simulation stopped, whose clients had other images."""
    if (out / DATA_FILE).exists():
        raise StudyError(f"{out} was begun by 'glasshouse federate': go on with that, or choose another 'out'.")


def _refuse_foreign(out: Path, plan: Federation) -> None:
    """Refuse a directory that holds something else, or another federation, before anything is written to it."""
    if (out / PLAN_FILE).exists():
        if other := plan.hindrance(from_toml(out / PLAN_FILE)):
            raise StudyError(
                f"{out} belongs to another federation (its {PLAN_FILE} has {other}): choose another --out or delete it."
            )
    elif out.is_dir() and not is_unused(out):
        raise StudyError(f"{out} is not empty and holds no federation: choose another --out.")


def read_federation(directory: Path) -> FederationResult:
    """What a finished federation wrote down, for its page."""
    plan, rounds = read_result(directory)
    path = directory / RESULT_FILE
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        found = int(kept["parameters"]), tuple(int(one) for one in kept["examples"]), str(kept["promise"])
    except FileNotFoundError as error:
        raise StudyError(f"{directory} holds a federation that is not finished: let it end first.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise StudyError(f"{path} is damaged ({error}): run the federation's command again.") from error
    return FederationResult(directory, plan, tuple(rounds), *found)


def is_federation(directory: Path) -> bool:
    """Whether a directory holds a federation, simulated or deployed, and no study of another kind."""
    return Ledger(directory).directory.is_dir()


def read_result(directory: Path) -> tuple[Federation, list[Round]]:
    """The plan and the finished rounds of a federation's directory."""
    if not (directory / PLAN_FILE).is_file():
        raise StudyError(f"{directory} is not a federation's directory: give one that 'glasshouse federate' wrote.")
    return from_toml(directory / PLAN_FILE), Ledger(directory).finished()
