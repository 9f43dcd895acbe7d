"""What each defense of a grid study leaves of accuracy, what leaks behind it all the same, and what it costs."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from glasshouse.attacks.base import InversionAttack
from glasshouse.functional.intervals import share_interval
from glasshouse.metrics import metrics
from glasshouse.registry import parse_spec
from glasshouse.reports.view import columns, with_interval
from glasshouse.studies.grid.plan import meant_for
from glasshouse.types import JSON

PERCEPTUAL = ("semsim", "lpips", "ssim", "psnr", "mse")  # the first that a study has tells how much leaks
UNDEFENDED = "none"
NOTHING = "n/a"
WAITING = "not yet"
#: Data set, model, then the network, last the defense.
Setup = tuple[object, ...]
HEADS = (
    "accuracy",
    "seen",
    "membership AUC",
    "TPR at 1 % FPR",
    "re-identified",
    "versions linked",
    "bytes of a message",
    "training step",
    "attack, s per image",
)


@dataclass(frozen=True, slots=True)
class Balance:
    """One trained network behind one defense, attacked in one way; a measure that there is not is None.

    Values have ``mean``, ``low`` and ``high``. A network can be asked about images as they are or protected as it
    learned from them: ``accuracy`` and ``auc`` are those of the way that makes each larger. ``linkable`` says whether
    images leave the client changed, so that there is something to link. Attacks of the plan that are ``unfit`` cannot
    work here, and where no other is planned it is ``hopeless`` to wait for one. ``adversary`` is who attacks.
    """

    dataset: str
    model: str
    network: str
    defense: str
    attack: str
    linkable: bool
    accuracy: JSON | None
    asked: str
    metrics: dict[str, JSON | None]
    seen: JSON | None
    auc: JSON | None
    tpr: JSON | None
    identified: JSON | None
    linked: JSON | None
    message_bytes: JSON | None
    step: JSON | None
    seconds: JSON | None
    unfit: Sequence[str] = ()
    hopeless: bool = False
    adversary: str = ""

    @property
    def curious(self) -> bool:
        """Whether whoever attacks follows the protocol of an ordinary federation."""
        return self.adversary in ("", InversionAttack.adversary)

    def cells(self) -> list[str]:
        """The values under ``HEADS``, then one for each metric."""
        attacked = NOTHING if self.hopeless else WAITING
        return [
            percent(self.accuracy) + (f" ({self.asked})" if self.asked == "protected" else ""),
            percent(self.seen, attacked),
            number(self.auc),
            percent(self.tpr) if self.auc is None or self.tpr is not None else "not estimable",
            percent(self.identified) if self.linkable else NOTHING,
            percent(self.linked) if self.linkable else NOTHING,
            attacked if self.message_bytes is None else f"{self.message_bytes['mean']:,.0f}",
            WAITING
            if self.step is None
            else f"{self.step['mean']:.2f}x [{self.step['low']:.2f}, {self.step['high']:.2f}]",
            number(self.seconds, attacked),
            *(number(value, attacked) for value in self.metrics.values()),
        ]


def percent(value: JSON | None, missing: str = WAITING) -> str:
    """A share with its interval."""
    if value is None or value["mean"] is None:
        return missing
    return with_interval(value, ".0%")


def number(value: JSON | None, missing: str = WAITING) -> str:
    """A mean with its interval; of images that are identical there is none, nor where a measure is not defined."""
    if value is None:
        return missing
    if value["mean"] is None:
        return (value.get("reason") or "identical") if value.get("images") else NOTHING
    return with_interval(value, ".3g")


def balances(results: JSON) -> list[Balance]:
    """Every trained network behind each of its defenses, in the order of the plan."""
    probes = _Probes(results.get("probes", []))
    return [
        balance
        for target in results["targets"]
        if target["state"] == "done"
        for epoch in target["checkpoints"]
        if epoch
        for defense in _defenses(results["settings"], target["recipe"])
        for balance in _balances(results, probes, target, epoch, defense)
    ]


def leakage(found: Iterable[Balance]) -> tuple[str, int] | None:
    """The most perceptual metric that was measured, and its sign: 1 where high values leak."""
    names = dict.fromkeys(name for one in found for name, value in one.metrics.items() if value)
    known = {parse_spec(name)[0]: name for name in reversed(names)}
    best = next((name for name in PERCEPTUAL if name in known), None)
    return None if best is None else (known[best], 1 if metrics.get(best).leaks_when == "high" else -1)


def strongest(found: Sequence[Balance]) -> list[Balance]:
    """Of every network behind its defense the attack by which most was seen, and by each metric the worst of all.

    A defense is as good as against the attack that does best. Where one failed or is still to come that was done on
    undefended gradients, nothing is said yet: it could be the best.
    """
    setups: dict[Setup, list[Balance]] = {}
    for one in found:
        setups.setdefault((one.dataset, one.model, one.network, one.defense), []).append(one)
    full = complete(
        {setup: _done(own[0].unfit, {one.attack: _images(one.seen) for one in own}) for setup, own in setups.items()}
    )
    return [_worst(own) if setup in full else _unknown(own[0]) for setup, own in setups.items()]


def judged(results: JSON) -> dict[Setup, list[JSON]]:
    """What each attack saw of every network behind its defense, where all were done that fit."""
    setups: dict[Setup, list[JSON]] = {}
    for one in results["identified"]:
        setups.setdefault((*network_of(one), one["defense"]), []).append(one)
    full = complete(
        {
            setup: _done(unfit_at(results, own[0], own[0]["defense"]), {one["attack"]: _images(one) for one in own})
            for setup, own in setups.items()
        }
    )
    return {setup: own for setup, own in setups.items() if setup in full}


def most_seen(found: Iterable[JSON]) -> JSON:
    """The share by the attack that saw most."""
    return max(found, key=lambda one: float(one["mean"]))


def complete(done: Mapping[Setup, Mapping[str, float]]) -> set[Setup]:
    """The setups that every attack was done on that was done undefended on the same data and model, on as many images.

    ``done`` counts the images of each attack on each setup: what failed on some images may have failed on those that
    show most.
    """
    wanted: dict[tuple[object, ...], dict[str, float]] = {}
    for setup, attacks in done.items():
        if setup[-1] == UNDEFENDED:
            known = wanted.setdefault(setup[:2], {})
            for name, count in attacks.items():
                if math.isfinite(count):  # what cannot work on one network may on another
                    known[as_planned(name)] = max(count, known.get(as_planned(name), 0))
    return {setup for setup, attacks in done.items() if _covers(attacks, wanted.get(setup[:2], {}))}


def unfit_at(results: JSON, network: JSON, defense: str) -> list[str]:
    """The attacks that cannot work on a network behind a defense."""
    recipe = network["recipe"] if network["epoch"] else _begun(results["settings"], network["model"], defense)
    place = network["dataset"], network["model"], recipe, defense
    return [
        one["attack"]
        for one in results.get("unfit", [])
        if (one["dataset"], one["model"], one["recipe"], one["defense"]) == place
    ]


def _begun(settings: JSON, model: str, defense: str) -> str:
    """The recipe whose networks a fresh one stands for: the first that the model is trained by behind a defense."""
    left_out = [meant_for(row) for row in settings.get("without", [])]
    return next(
        str(recipe)
        for recipe in settings["recipes"]
        if (model, recipe) not in left_out and defense in _defenses(settings, recipe)
    )


def _done(unfit: Iterable[str], images: Mapping[str, int]) -> dict[str, float]:
    """How many images each attack was done on; one that cannot work has nothing left to do."""
    return {**dict.fromkeys(unfit, math.inf), **images}


def _covers(attacks: Mapping[str, float], wanted: Mapping[str, float]) -> bool:
    counts = {as_planned(name): count for name, count in attacks.items()}
    return all(counts.get(name, 0) >= count for name, count in wanted.items())


def _images(seen: JSON | None) -> int:
    """How many images a share is of; none where nothing was finished."""
    return 0 if seen is None else int(seen["images"])


def as_planned(attack: str) -> str:
    """The name of an attack as the plan writes it."""
    return attack.removesuffix(" (tuned)")


def _worst(own: Sequence[Balance]) -> Balance:
    most = max(own, key=lambda one: (-1.0 if one.seen is None else float(one.seen["mean"]), shown(one.metrics)))
    return replace(
        most, metrics={name: _leakiest(name, [one.metrics.get(name) for one in own]) for name in most.metrics}
    )


def shown(values: Mapping[str, JSON | None]) -> float:
    """How much pictures show by the most perceptual metric that they have: what is higher leaks more."""
    known = {parse_spec(name)[0]: value for name, value in values.items() if value is not None and value["images"]}
    best = next((name for name in PERCEPTUAL if name in known), None)
    if best is None:
        return -math.inf
    mean = known[best]["mean"]
    # a mean that is None though there are images is infinite: as high as it can be
    return math.inf if mean is None else float(mean) if metrics.get(best).leaks_when == "high" else -float(mean)


def _leakiest(name: str, values: Sequence[JSON | None]) -> JSON | None:
    sign = 1 if metrics.get(parse_spec(name)[0]).leaks_when == "high" else -1
    known = [value for value in values if value is not None]
    # a mean that is None though there are images is infinite: as high as it can be
    return max(known, key=lambda value: math.inf if value["mean"] is None else sign * value["mean"], default=None)


def _unknown(one: Balance) -> Balance:
    return replace(one, attack="", seen=None, seconds=None, metrics=dict.fromkeys(one.metrics))


def _defenses(settings: JSON, recipe: str) -> list[str]:
    """What a recipe's networks share behind."""
    if not settings["paired"]:
        return list(settings["defenses"])
    return [settings["defenses"][settings["recipes"].index(recipe)]]


class _Probes:
    """What was measured beside attacks, by what it is about."""

    def __init__(self, probes: Iterable[JSON]) -> None:
        done = [one for one in probes if one["state"] == "done"]
        self.planned = {(one["dataset"], one["defense"]) for one in probes if one["kind"] == "linkage"}
        self.membership = {network_of(one): one["queries"] for one in done if one["kind"] == "membership"}
        self.linkage = {(one["dataset"], one["defense"]): one["shares"] for one in done if one["kind"] == "linkage"}
        self.cost = {
            (one["dataset"], one["model"], one["recipe"]): one["ratio"] for one in done if one["kind"] == "cost"
        }

    def shares(self, dataset: str, defense: str, words: str) -> JSON | None:
        """The share of the method that links most."""
        found = self.linkage.get((dataset, defense), {})
        return _most(value for name, value in found.items() if name.startswith(words))


def _plain(one: JSON | None) -> JSON | None:
    """The value of a row without what it is about."""
    return None if one is None else {name: one.get(name) for name in ("mean", "low", "high", "images", "reason")}


def network_of(one: JSON) -> tuple[object, ...]:
    """What a row is about: data set, model, recipe, seed and epoch of one trained network."""
    return one["dataset"], one["model"], one["recipe"], one["training_seed"], one["epoch"]


def network_name(recipe: str, epoch: int, seed: int) -> str:
    """What tables call a trained network of a data set and a model."""
    return f"{recipe}, {epoch} epochs, seed {seed}"


def accuracy_of(share: float, tested: int | None) -> JSON:
    """A share of images that were named rightly, with its interval where it is known how many were asked about."""
    if tested is None:
        return {"mean": share, "low": None, "high": None}
    return {**dataclasses.asdict(share_interval(round(share * tested), tested)), "mean": share}


def _most(values: Iterable[JSON | None]) -> JSON | None:
    return max((value for value in values if value is not None), key=lambda value: value["mean"], default=None)


def _balances(results: JSON, probes: _Probes, target: JSON, epoch: int, defense: str) -> Iterator[Balance]:
    """One balance for each way in which a network was attacked; one without attack where it was not yet."""
    name = target["dataset"], target["model"], target["recipe"], target["seed"], epoch
    setups = {
        (row["attack"], row["threat"]["batchnorm"]): row
        for row in results["rows"]
        if network_of(row) == name and row["defense"] == defense and row["images"]
    }
    queries = probes.membership.get(name, {})
    asked = max(queries, key=lambda query: queries[query]["test_accuracy"]["mean"], default="clean")
    plain = accuracy_of(target["accuracy"][str(epoch)], target.get("tested"))
    unfit = unfit_at(results, {**target, "epoch": epoch}, defense)
    planned = {
        spec
        for model, spec in map(meant_for, results["settings"].get("attacks", []))
        if model in (None, target["model"])
    }
    for (attack, batchnorm), first in (setups or {("", ""): {}}).items():
        own = [
            [one for one in results.get(part, []) if _is(one, name, defense, attack, batchnorm)]
            for part in ("rows", "identified", "spent")
        ]
        rows, seen, spent = own
        values = {row["metric"]: row for row in rows}
        yield Balance(
            dataset=target["dataset"],
            model=target["model"],
            network=network_name(target["recipe"], epoch, target["seed"]),
            defense=defense,
            attack=attack,
            linkable=(target["dataset"], defense) in probes.planned,
            accuracy=queries[asked]["test_accuracy"] if queries else plain,
            asked=asked,
            metrics={column.metric: _plain(values.get(column.metric)) for column in columns(results)},
            seen=_plain(next(iter(seen), None)),
            auc=_most(query["auc"] for query in queries.values()),
            tpr=_most(query["tpr_at_fpr_0.01"] for query in queries.values()),
            identified=probes.shares(target["dataset"], defense, "re-identified"),
            linked=probes.shares(target["dataset"], defense, "F linked"),
            message_bytes=next((one["message_bytes"] for one in spent if one["message_bytes"]["mean"]), None),
            step=probes.cost.get((target["dataset"], target["model"], target["recipe"])),
            seconds=next((one["seconds"] for one in spent), None),
            unfit=unfit,
            hopeless=bool(planned) and planned <= set(unfit),
            adversary=first.get("threat", {}).get("adversary", ""),
        )


def _is(one: JSON, name: tuple[object, ...], defense: str, attack: str, batchnorm: str) -> bool:
    asked = one["defense"], one["attack"], one["threat"]["batchnorm"]
    return network_of(one) == name and asked == (defense, attack, batchnorm)


def table(found: Sequence[Balance]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: what tells setups apart, then every value."""
    names = ("dataset", "model", "network", "defense", "attack")
    telling = [name for name in names if len({getattr(one, name) for one in found}) > 1 or name == "defense"]
    paired = len({(one.dataset, one.model, one.defense) for one in found}) == len(found)
    shown = [name for name in telling if not paired or name != "network"]
    metrics = list(dict.fromkeys(itertools.chain.from_iterable(one.metrics for one in found)))
    rows = [[*(getattr(one, name) for name in shown), *one.cells()] for one in found]
    return [*("data" if name == "dataset" else name for name in shown), *HEADS, *metrics], rows
