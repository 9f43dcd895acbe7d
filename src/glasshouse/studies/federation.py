"""The audit of a federation: what the server saw in a round is attacked, and the global model asked who trained it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from glasshouse import attacks as attack_room
from glasshouse import checks, data, defenses
from glasshouse import membership as membership_room
from glasshouse import metrics as metric_room
from glasshouse.attacks import InversionAttack
from glasshouse.collection import is_protected
from glasshouse.errors import GlasshouseError, SettingError, StudyError, about
from glasshouse.federated.clients import network, set_weights
from glasshouse.federated.digests import data_digest
from glasshouse.federated.holdings import Holding, Pool, dealt, open_test
from glasshouse.federated.plan import Federation
from glasshouse.federated.records import Ledger
from glasshouse.federated.run import PLAN_FILE, read_result, refuse_other_images
from glasshouse.files import sole_owner, sweep, write_atomic
from glasshouse.functional.roc import measure
from glasshouse.membership.queries import views
from glasshouse.metrics import Metric
from glasshouse.registry import setting
from glasshouse.studies.forgery import Forgery, gather
from glasshouse.studies.materials import public_like, unlike
from glasshouse.studies.shelf import FOLDER as ROWS
from glasshouse.studies.shelf import AuditShelf
from glasshouse.studies.sightings import Row, Scene, Victim, measured, victims
from glasshouse.training import Samples
from glasshouse.types import JSON, Interval, Progress, finite_json, no_progress

SCHEMA = 2  # rounds are counted from 1
RESULT_FILE = "federation_audit.json"
AT_ONCE = 1000  # images that all test images are compared with in one go


@dataclass(frozen=True, kw_only=True)
class FederationAudit:
    """The settings of an audit of a federation."""

    round: int | None = setting(None, "which round is attacked, from 1 on; None: the first that is kept")
    attacks: tuple[str, ...] = setting(("invgrad:steps=300,tv=0.001",), "attack SPECs")
    membership: tuple[str, ...] = setting(("loss",), "membership attack SPECs, of those that need no shadow models")
    metrics: tuple[str, ...] = setting(("mse", "psnr", "ssim", "lpips", "semsim"), "metric SPECs")
    clients: int = setting(2, "most clients whose updates are attacked")
    images: int = setting(8, "most images that are reconstructed from one update")
    labels: str = setting("recovered", "whether the attacker is given the labels or recovers them")
    public: str | None = setting(None, "images that attackers may learn from, a data set's SPEC, file or folder")
    seed: int = setting(0, "seed of everything random")

    def __post_init__(self) -> None:
        checks.at_least("round", 1 if self.round is None else self.round, 1)
        checks.at_least("clients", self.clients, 1)
        checks.at_least("images", self.images, 1)
        checks.one_of("labels", self.labels, ("given", "recovered"))
        _ = self.judges
        for text in self.membership:
            if membership_room.create(text).shadow_count:
                raise SettingError(
                    f"Attack '{text}' trains shadow models: use it with 'glasshouse audit --membership'."
                )

    @property
    def judges(self) -> dict[str, Metric]:
        """The metrics by their SPECs."""
        found = {text: metric_room.create(text) for text in self.metrics}
        single = {text: metric for text, metric in found.items() if isinstance(metric, Metric)}
        if len(single) < len(found):
            wrong = min(set(found) - set(single))
            raise SettingError(f"Metric '{wrong}' compares whole sets, and an update has few images: use psnr or ssim.")
        return single


@dataclass(frozen=True, slots=True)
class Told:
    """How well a membership attack told training images of the global model from test images."""

    attack: str
    query: str
    values: dict[str, Interval | None]


@dataclass(frozen=True, slots=True, eq=False)
class FederationAuditResult:
    """What was found, and where it is kept."""

    directory: Path
    plan: Federation
    settings: FederationAudit
    rows: tuple[Row, ...]
    told: tuple[Told, ...]
    forgery: Forgery | None
    failures: tuple[str, ...]

    def to_json(self) -> JSON:
        """The result as plain JSON."""
        same = {"dataset": self.plan.dataset, "model": self.plan.model, "defense": self.plan.defense}
        rows = [{**same, **dataclasses.asdict(row)} for row in self.rows]
        told = [{**same, **dataclasses.asdict(one)} for one in self.told]
        forgery = None if self.forgery is None else {**same, **dataclasses.asdict(self.forgery)}
        found = {"rows": rows, "told": told, "forgery": forgery}
        plain: JSON = finite_json({"schema": SCHEMA, **dataclasses.asdict(self.settings), **found})
        return {**plain, "failures": list(self.failures)}


def audit_federation(
    directory: Path,
    out: Path,
    settings: FederationAudit,
    *,
    root: Path | None = None,
    progress: Progress = no_progress,
) -> FederationAuditResult:
    """Attack what the server of a simulated federation saw in one round, and score it against the clients' images.

    Under secure aggregation the server saw only the mean of all clients' changes, so that is what is attacked. The
    global model asked about membership is the one that the round ended with. What an adversary among the clients made
    of all rounds is scored beside it. Each attack is kept in ``out`` once it is over, so the same call goes on.
    """
    plan, rounds = read_result(directory)
    ledger = Ledger(directory)
    kept = (one for one in range(len(rounds)) if ledger.clients(one))
    number = next(kept, 0) if settings.round is None else settings.round - 1
    settings = dataclasses.replace(settings, round=number + 1)
    if number >= len(rounds):
        raise StudyError(f"{directory} has {len(rounds)} finished rounds: --round goes from 1 to {len(rounds)}.")
    if (out / PLAN_FILE).exists():
        raise StudyError(f"{out} holds another study: choose another --out.")
    attack_list = {text: attack_room.create(text) for text in settings.attacks}
    test = open_test(plan, root)
    class_names = plan.class_names(test.class_names)
    refuse_other_images(directory, plan, data_digest(plan, root))
    held = _holdings(plan, directory, number, class_names, root)
    image = next(iter(held.values())).spec
    model = network(plan, image)
    set_weights(model, ledger.sent(number))
    others = strangers(plan, test, root)
    source = settings.public
    public = None if source is None else _public(source, plan, class_names, settings.seed, root)
    scene = Scene(model, image, plan.lr, others.images, settings.judges, out, public, plan.defense)
    seen = victims(plan, ledger, number, held, model)[: settings.clients]
    seen = [measured(plan, ledger, held, model, one) for one in seen]
    with sole_owner(out):
        sweep(out, out / ROWS)
        rows, failures = _attacked(scene, seen, attack_list, settings, progress)
        set_weights(model, ledger.sent(number + 1))
        trained = [one.in_epoch(number * plan.local_epochs) for one in held.values()]
        told = _told(plan, settings, trained, others, model)
        evidence = gather(plan, directory, len(rounds), root)
        forgery = None if evidence is None else evidence.judged(others, settings.judges, out=out, seed=settings.seed)
        result = FederationAuditResult(out, plan, settings, rows, told, forgery, failures)
        write_atomic(out / RESULT_FILE, json.dumps(result.to_json(), indent=1, allow_nan=False).encode())
    return result


def _attacked(
    scene: Scene,
    seen: Sequence[Victim],
    attack_list: Mapping[str, InversionAttack],
    settings: FederationAudit,
    progress: Progress,
) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """Every attack on every victim, those of an earlier run found again, and why others failed."""
    rows, failures = list[Row](), list[str]()
    shelf = AuditShelf(scene, (settings.images, settings.labels, settings.seed, settings.metrics))
    attacked = partial(scene.attacked, images=settings.images, labels=settings.labels, seed=settings.seed)
    work = [(victim, text) for victim in seen for text in attack_list]
    for number, (victim, text) in enumerate(work):
        key = shelf.key(victim, attack_list[text])
        row = shelf.get(key)
        try:
            if row is None:
                row = attacked(victim, text, attack_list[text])
                shelf.put(key, row)
            rows.append(dataclasses.replace(row, attack=text))  # which may have been written in another way
        except GlasshouseError as error:
            failures.append(f"{text} on {victim.name}: {error}")
        progress((number + 1) / len(work))
    return tuple(rows), tuple(failures)


def _holdings(
    plan: Federation, directory: Path, number: int, class_names: tuple[str, ...], root: Path | None
) -> dict[int, Holding]:
    """The images of every client that took part in a round, checked against what it said it had."""
    found = {}
    for heard in Ledger(directory).finished()[number].heard:
        found[heard.client] = dealt(plan, heard.client, class_names, root)
        if len(found[heard.client]) != heard.examples:
            raise StudyError(
                f"Client {heard.client} trained on {heard.examples} images, but the plan deals "
                f"{len(found[heard.client])} to it: only a simulation on the same data can be scored."
            )
    if not found:
        raise StudyError(f"No client took part in round {number + 1}: choose another --round.")
    return found


def _public(source: str, plan: Federation, class_names: tuple[str, ...], seed: int, root: Path | None) -> Tensor:
    """The images that attackers may learn from, in the shape of the clients' and without any of theirs."""
    if is_protected(Path(plan.dataset)):
        raise StudyError(
            f"The clients of '{plan.dataset}' hold protected images alone, so nobody can see whether '{source}' has "
            "their originals, which an attacker may not: leave out --public."
        )
    private = [dealt(plan, client, class_names, root).in_epoch(0).images for client in range(plan.clients)]
    with about("public"):
        return public_like(data.load(source, root=root), torch.cat(private), (), seed)[0]


def strangers(plan: Federation, test: Pool, root: Path | None) -> Samples:
    """The test images that no client trained on: data without a test part are tested on their training images."""
    images = test.read(range(len(test.labels)), 0)
    known = torch.zeros(len(images), dtype=torch.bool)
    for client in range(plan.clients):
        members = dealt(plan, client, test.class_names, root).in_epoch(0).images
        for own in members.split(AT_ONCE):
            known |= ~torch.tensor(unlike(images, own))
    if bool(known.all()):
        raise StudyError(
            f"All {len(images)} test images of {plan.test or plan.dataset} are images that clients trained on, so "
            "nothing can be told from them: federate with --test naming images that no client has, or with fewer "
            "--images."
        )
    return Samples(images[~known], torch.tensor(test.labels)[~known], len(test.class_names))


def _told(
    plan: Federation, settings: FederationAudit, trained: list[Samples], others: Samples, model: nn.Module
) -> tuple[Told, ...]:
    """Ask the global model about images that it was trained on in the round and about others, in every way."""
    members = sum(len(one.images) for one in trained)
    images = torch.cat([one.images for one in (*trained, others)])
    labels = torch.cat([one.targets for one in (*trained, others)])
    found = []
    for query, view in views(defenses.create(plan.defense), settings.seed).items():
        for text in settings.membership:
            rng = torch.Generator().manual_seed(settings.seed)
            public = membership_room.Public(images[:0], labels[:0], view=view)
            scores = membership_room.create(text)(model, images, labels, public=public, rng=rng).numpy()
            found.append(Told(text, query, measure(scores[:members], scores[members:])))
    return tuple(found)
