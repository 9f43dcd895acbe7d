"""What a grid study lets one advise, in plain words, and no more than its numbers carry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from glasshouse.reports.grid_balance import UNDEFENDED, strongest_seen
from glasshouse.reports.view import untuned
from glasshouse.types import JSON


@dataclass(frozen=True, slots=True)
class Stand:
    """How one defense stands on one data set: the worst that was seen behind it, and the accuracy that goes with it."""

    defense: str
    seen: JSON

    @property
    def accuracy(self) -> str:
        """The accuracy of the network behind which most was seen."""
        value = self.seen["accuracy"]
        return "unknown" if value is None else f"{value:.0%}"


def stands(results: JSON) -> dict[str, dict[str, Stand]]:
    """For each data set, the worst case behind each defense, whatever the network and the attack.

    What was attacked in fewer ways than undefended gradients, or on fewer models, is left out: an attack that failed
    earns no credit.
    """
    found: dict[str, dict[str, Stand]] = {}
    models: dict[tuple[str, str], set[str]] = {}
    for one in strongest_seen(results):
        of_data = found.setdefault(one["dataset"], {})
        known = of_data.get(one["defense"])
        models.setdefault((one["dataset"], one["defense"]), set()).add(one["model"])
        if known is None or one["mean"] > known.seen["mean"]:
            of_data[one["defense"]] = Stand(one["defense"], one)
    return {
        dataset: {
            name: one for name, one in own.items() if models[dataset, name] >= models.get((dataset, UNDEFENDED), set())
        }
        for dataset, own in found.items()
    }


def headline(results: JSON) -> str:
    """The study in one sentence."""
    found = results["identified"]
    if not found:
        return "Nothing was finished yet, so nothing can be said."
    worst = max(found, key=lambda one: one["mean"])
    if worst["mean"] == 0:
        return "No private image could be seen by these attacks at these settings."
    return (
        f"At worst {worst['mean']:.0%} of {worst['images']} private images could be seen: {worst['dataset']}, "
        f"{worst['model']}, defense {worst['defense']}."
    )


def advice(results: JSON) -> list[str]:
    """What to do on each data set, from the worst case behind each defense."""
    return [sentence for dataset, found in stands(results).items() for sentence in _advice(dataset, found)]


def _advice(dataset: str, found: dict[str, Stand]) -> Iterator[str]:
    bare = found.get(UNDEFENDED)
    if bare is None:
        yield f"{dataset}: nothing was attacked without a defense, so no defense can be credited."
        return
    if bare.seen["mean"] == 0:
        yield (
            f"{dataset}: even undefended nothing could be seen. Try stronger attacks (tune = true, more steps) and "
            "more images before you trust that."
        )
        return
    yield f"{dataset}: do not share undefended; {_seen(bare)} could be seen (accuracy {bare.accuracy})."
    yield from _credited(dataset, bare, [one for name, one in found.items() if name != UNDEFENDED])


def _credited(dataset: str, bare: Stand, others: list[Stand]) -> Iterator[str]:
    """A defense is credited only where its interval lies below that of the undefended gradient."""
    hides = [one for one in others if one.seen["high"] < bare.seen["low"]]
    unclear = [one for one in others if one not in hides and one.seen["mean"] < bare.seen["mean"]]
    if hides:
        best = max(hides, key=lambda one: one.seen["accuracy"] or 0.0)
        yield (
            f"{dataset}: of the defenses that hid more than chance explains ({_names(hides)}), {best.defense} leaves "
            f"most accuracy ({best.accuracy}); {_seen(best)} could still be seen{untuned(one.seen for one in hides)}."
        )
    elif others:
        yield f"{dataset}: no defense here hid more than chance explains: attack more images, or defend harder."
    if unclear:
        yield f"{dataset}: too few images to tell whether these helped: {_names(unclear)}."


def _seen(stand: Stand) -> str:
    one = stand.seen
    return f"{one['mean']:.0%} (95 % interval {one['low']:.0%} to {one['high']:.0%}, {one['images']} images)"


def _names(found: list[Stand]) -> str:
    return ", ".join(one.defense for one in found)
