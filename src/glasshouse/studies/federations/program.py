"""Carry a study of federations out: train each, test it on clean and on protected images, ask it about its members."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from glasshouse import defenses
from glasshouse import membership as membership_room
from glasshouse.errors import GlasshouseError
from glasshouse.federated.clients import network, set_weights
from glasshouse.federated.holdings import dealt, open_pool
from glasshouse.federated.plan import Federation
from glasshouse.federated.records import Ledger
from glasshouse.federated.run import federate
from glasshouse.files import sole_owner, write_atomic
from glasshouse.functional.intervals import share_interval
from glasshouse.functional.roc import measure
from glasshouse.membership.queries import View, views
from glasshouse.studies.federation import strangers
from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.runner import RunProgress, Summary
from glasshouse.training import Samples
from glasshouse.types import JSON, Interval, finite_or_none

VERSION = 1  # counts changes that change what is measured
SCHEMA = 1
FOLDER = "federations"
MEASURED = "measured.json"
RESULT_FILE = "study.json"
BATCH = 256


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A trained federation: members and others, and the ways in which its models can be asked."""

    plan: Federation
    ledger: Ledger
    model: nn.Module
    members: Samples
    others: Samples
    views: dict[str, View]

    @classmethod
    def of(cls, plan: Federation, directory: Path, root: Path | None) -> Asked:
        """Gather what the clients trained on, and test images that none of them has."""
        test = open_pool(plan.test or plan.dataset, "test", plan.size, root)
        names = plan.class_names(test.class_names)
        holdings = [dealt(plan, client, names, root) for client in range(plan.clients)]
        held = [holding.in_epoch(0) for holding in holdings]
        members = Samples(torch.cat([one.images for one in held]), torch.cat([one.targets for one in held]))
        model = network(plan, holdings[0].spec)
        return cls(
            plan,
            Ledger(directory),
            model,
            members,
            strangers(plan, test, root),
            views(defenses.create(plan.defense), plan.seed),
        )

    def after(self, rounds: int) -> nn.Module:
        """The global model after so many rounds."""
        set_weights(self.model, self.ledger.sent(rounds))
        return self.model.eval()

    def accuracy(self, rounds: int) -> JSON:
        """How often the model is right, on training and on other images, in each way that it can be asked."""
        model = self.after(rounds)
        return {
            query: {
                part: _interval(_accuracy(view(model), samples))
                for part, samples in (("train", self.members), ("test", self.others))
            }
            for query, view in self.views.items()
        }

    def membership(self, rounds: int, attacks: tuple[str, ...]) -> JSON:
        """How well attacks tell members from others, in each way that the model can be asked."""
        model = self.after(rounds)
        images = torch.cat([self.members.images, self.others.images])
        labels = torch.cat([self.members.targets, self.others.targets])
        count, found = len(self.members.images), {}
        for query, view in self.views.items():
            public = membership_room.Public(images[:0], labels[:0], view=view)
            for text in attacks:
                rng = torch.Generator().manual_seed(self.plan.seed)
                scores = membership_room.create(text)(model, images, labels, public=public, rng=rng).numpy()
                values = measure(scores[:count], scores[count:])
                found[f"{text}, {query}"] = {name: _interval(value) for name, value in values.items()}
        return found


def carry_out(
    plan: Federations,
    directory: Path,
    *,
    root: Path | None = None,
    deadline: float = float("inf"),
    progress: RunProgress = lambda done, total: None,
) -> Summary:
    """Train and measure every federation that is not measured yet; no further one begins at the deadline."""
    with sole_owner(directory):
        every = list(plan.federations())
        found = done = failed = 0
        for number, federation in enumerate(every):
            folder = directory / FOLDER / name_of(federation)
            if _read(folder, plan) is not None:
                found += 1
            elif time.monotonic() < deadline:
                try:
                    _measure(plan, federation, folder, root)
                    _failure(folder).unlink(missing_ok=True)
                    done += 1
                except GlasshouseError as error:
                    write_atomic(_failure(folder), _dump({"failed": str(error)}))
                    failed += 1
            progress(number + 1, len(every))
        write_atomic(directory / RESULT_FILE, _dump(gathered(plan, directory)))
    return Summary(len(every), found, done, failed)


def gathered(plan: Federations, directory: Path) -> JSON:
    """All that is measured, a row for each federation; one that failed says why, and is tried again by the next run."""
    rows = []
    for federation in plan.federations():
        same = {key: getattr(federation, key) for key in ("dataset", "model", "defense", "seed")}
        folder = directory / FOLDER / name_of(federation)
        rows.append({**same, **(_read(folder, plan) or _json(_failure(folder)) or {"pending": True})})
    return {"schema": SCHEMA, "settings": dataclasses.asdict(plan), "rows": rows}


def name_of(federation: Federation) -> str:
    """Where a federation lies in the study's directory: the hash of its plan."""
    return hashlib.sha256(json.dumps(dataclasses.asdict(federation), sort_keys=True).encode()).hexdigest()[:24]


def _measure(plan: Federations, federation: Federation, folder: Path, root: Path | None) -> None:
    began = time.perf_counter()
    result = federate(federation, folder, root=root)
    took = time.perf_counter() - began
    asked = Asked.of(federation, folder, root)
    last = len(result.rounds)
    found: JSON = {
        "version": VERSION,
        "parameters": result.parameters,
        "promise": result.promise,
        "seconds": took,
        "bytes": sum(one.bytes_sent for one in result.rounds),
        "curve": [finite_or_none(one.accuracy) for one in result.rounds],
        "accuracy": asked.accuracy(last),
        "membership": {str(number): asked.membership(number, plan.membership) for number in _rounds(plan)},
    }
    write_atomic(folder / MEASURED, _dump(found))


def _rounds(plan: Federations) -> list[int]:
    return sorted({*plan.watched, plan.rounds})


def _read(folder: Path, plan: Federations) -> JSON | None:
    """What was measured of a federation, if it is all that the plan asks for."""
    found = _json(folder / MEASURED)
    if found is None or found.get("version") != VERSION:
        return None
    asked = [found["membership"].get(str(number), {}) for number in _rounds(plan)]
    attacks = [{text.rpartition(", ")[0] for text in one} for one in asked]
    return found if all(set(plan.membership) <= known for known in attacks) else None


def _failure(folder: Path) -> Path:
    """Where it is kept why a federation failed: beside its directory, which must hold nothing else."""
    return folder.with_suffix(".failed.json")


def _json(file: Path) -> JSON | None:
    """What a file of ours holds; nothing where it is not there or damaged, so that it is made again."""
    try:
        found: JSON = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def _accuracy(model: nn.Module, samples: Samples) -> Interval:
    with torch.no_grad():
        pairs = zip(samples.images.split(BATCH), samples.targets.split(BATCH), strict=True)
        right = sum(int((model(images).argmax(1) == labels).sum()) for images, labels in pairs)
    return share_interval(right, len(samples.images))


def _interval(value: Interval | None) -> JSON | None:
    if value is None:
        return None
    return {name: finite_or_none(getattr(value, name)) for name in ("mean", "low", "high")} | {"images": value.images}


def _dump(found: JSON) -> bytes:
    return json.dumps(found, indent=1, allow_nan=False).encode()
