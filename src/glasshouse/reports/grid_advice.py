"""What a grid study lets one advise, in plain words, and no more than its numbers carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from glasshouse.reports.grid_balance import (
    UNDEFENDED,
    Balance,
    as_planned,
    balances,
    judged,
    most_seen,
    network_name,
    shown,
)
from glasshouse.reports.view import at_fixed_settings, untuned
from glasshouse.studies.materials import GALLERY
from glasshouse.studies.scoring import TIMES_CHANCE
from glasshouse.types import JSON

HALF = 0.5
NO_BATCHNORM = "none"  # what threat cards say of a network without
#: A data set and a model: defenses are compared on these alone.
Ground = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Stand:
    """How one defense stands: the worst that was seen behind it, and how right networks behind it are when trained.

    ``bare`` is the worst that the same attacks saw undefended, None where nothing was attacked so. ``told`` is the
    largest share that was told apart, whatever it looks like; ``fixed`` says whether an attack was at fixed settings
    that tuning could have changed.
    """

    defense: str
    seen: JSON
    bare: JSON | None
    right: float | None
    told: JSON
    fixed: bool

    @property
    def accuracy(self) -> str:
        """How right networks are, in words."""
        return "unknown" if self.right is None else f"{self.right:.0%}"

    @property
    def hides(self) -> bool:
        """Whether its interval lies below that of undefended gradients, by the attacks that both met."""
        return self.bare is not None and bool(self.seen["high"] < self.bare["low"])

    @property
    def untried(self) -> bool:
        """Whether no attack that it met sees anything even undefended."""
        return self.bare is None or self.bare["mean"] == 0


def stands(results: JSON) -> dict[Ground, dict[str, Stand]]:
    """For each data set and model the worst case behind each defense, whatever the seed, epoch and attack.

    Accuracy is that of the last epoch, over seeds: what is seen of a network that has learned nothing costs nothing.
    What was attacked in fewer ways than undefended gradients, on fewer images or on fewer networks is left out: an
    attack that failed earns no credit.
    """
    behind: dict[Ground, dict[str, list[JSON]]] = {}
    for own in judged(results).values():
        for one in own:
            behind.setdefault((one["dataset"], one["model"]), {}).setdefault(one["defense"], []).append(one)
    asked, paired = _accuracies(results), results["settings"]["paired"]
    found: dict[Ground, dict[str, Stand]] = {}
    for ground, defenses in behind.items():
        bare = defenses.get(UNDEFENDED, [])
        wanted = {_network(one, paired) for one in bare}
        found[ground] = {
            name: _stand(own, bare, asked)
            for name, own in defenses.items()
            if _covers({_network(one, paired) for one in own}, wanted)
        }
    return found


def _stand(own: Sequence[JSON], bare: Sequence[JSON], asked: Mapping[tuple[object, ...], float | None]) -> Stand:
    """How a defense stands by what attacks saw behind it, and by what they saw undefended."""
    attacks = {as_planned(one["attack"]) for one in own}
    same = [one for one in bare if as_planned(one["attack"]) in attacks]
    return Stand(
        defense=own[0]["defense"],
        seen=most_seen(own),
        bare=most_seen(same) if same else None,
        right=_right(own, asked),
        told=most_seen(one["told"] for one in own),
        fixed=any(at_fixed_settings(one) for one in own),
    )


def _accuracies(results: JSON) -> dict[tuple[object, ...], float | None]:
    """How right each network is, asked about images as it learned from them where that makes it more so."""
    return {
        (one.dataset, one.model, one.network, one.defense): None if one.accuracy is None else one.accuracy["mean"]
        for one in balances(results)
    }


def _right(found: Sequence[JSON], asked: Mapping[tuple[object, ...], float | None]) -> float | None:
    """How right the networks behind a defense are at the last epoch, on average; None where that is not known."""
    last = max(one["epoch"] for one in found)
    known = {_key(one): asked.get(_key(one), one["accuracy"]) for one in found if one["epoch"] == last}
    shares = [share for share in known.values() if share is not None]
    return fmean(shares) if shares else None


def _key(one: JSON) -> tuple[object, ...]:
    name = network_name(one["recipe"], one["epoch"], one["training_seed"])
    return one["dataset"], one["model"], name, one["defense"]


def _network(one: JSON, paired: bool) -> tuple[object, ...]:
    """What networks behind different defenses have in common; a recipe only where all defenses have the same ones."""
    recipe = "" if paired else one["recipe"]
    return recipe, one["training_seed"], one["epoch"], one["threat"]["batchnorm"]


def _covers(own: set[tuple[object, ...]], wanted: set[tuple[object, ...]]) -> bool:
    """Whether all networks were attacked that are wanted; where a defense takes batch norm away there is one mode."""
    return all(one in own or (*one[:-1], NO_BATCHNORM) in own for one in wanted)


def _attacked(results: JSON) -> dict[Ground, list[str]]:
    """Every defense that something is known of, by data set and model."""
    found: dict[Ground, dict[str, None]] = {}
    for one in (*results["rows"], *results["identified"], *results.get("unfit", [])):
        found.setdefault((one["dataset"], one["model"]), {})[one["defense"]] = None
    return {ground: list(names) for ground, names in found.items()}


def headline(results: JSON) -> str:
    """The study in one sentence; of setups in which as much was seen, the one whose pictures show most."""
    found = results["identified"]
    if not found:
        return "Nothing was finished yet, so nothing can be said."
    worst = max(found, key=lambda one: (one["mean"], _shown(results, one)))
    if worst["mean"] == 0:
        return "No private image could be seen by these attacks at these settings."
    return (
        f"At worst {worst['mean']:.0%} of {worst['images']} private images could be seen: {worst['dataset']}, "
        f"{worst['model']}, defense {worst['defense']}, by {worst['attack'].partition(':')[0]}."
    )


def _shown(results: JSON, one: JSON) -> float:
    """How much the pictures of a setup show."""
    same = ("dataset", "model", "recipe", "training_seed", "epoch", "defense", "attack", "threat")
    return shown({row["metric"]: row for row in results["rows"] if all(row[name] == one[name] for name in same)})


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do on one data set with one model."""

    title: str
    sentences: tuple[str, ...]


def advice(results: JSON) -> list[Advice]:
    """What to do on each data set and model, from the worst case behind each defense."""
    known, attacked, probed = stands(results), _attacked(results), balances(results)
    several = len({model for _, model in attacked}) > 1
    told = []
    for (dataset, model), names in attacked.items():
        found = known.get((dataset, model), {})
        measured = [one for one in probed if (one.dataset, one.model) == (dataset, model)]
        paired = results["settings"]["paired"]
        lone = _lone(results, dataset, model)
        sentences = [*_judged(found, paired), *lone, *_caveats(found, measured), *_unjudged(names, found)]
        told.append(Advice(f"{dataset}, {model}" if several else dataset, tuple(sentences)))
    return told


def _lone(results: JSON, dataset: str, model: str) -> Iterator[str]:
    """That a network met one attack alone, where the study has more of them."""
    every = {one["attack"] for one in results["identified"]}
    own = {one["attack"] for one in results["identified"] if (one["dataset"], one["model"]) == (dataset, model)}
    if len(own) == 1 < len(every):
        yield f"Only {own.pop().partition(':')[0]} was tried here: another attack may see what it did not."


def _judged(found: dict[str, Stand], paired: bool) -> Iterator[str]:
    bare = found.get(UNDEFENDED)
    if bare is None:
        yield "Nothing was attacked without a defense, so no defense can be credited."
        return
    if bare.seen["mean"] == 0:
        yield (
            f"Even undefended nothing could be seen: {_seen(bare)}. Try stronger attacks (tune = true, more steps) and "
            "more images before you trust that."
        )
        if bare.told["low"] > TIMES_CHANCE / (GALLERY + 1):
            yield (
                f"Yet {_share(bare.told)} of these reconstructions point to their originals among {GALLERY} others: a "
                "machine tells them apart where little can be seen."
            )
        return
    yield f"Do not share undefended: {_seen(bare)} could be seen (accuracy {bare.accuracy})."
    yield from _credited([one for name, one in found.items() if name != UNDEFENDED], paired)


def _credited(others: list[Stand], paired: bool) -> Iterator[str]:
    """A defense is credited only where attacks saw something undefended, and its interval lies below that.

    Which leaves most accuracy can be asked only where each defense has networks that were trained behind it.
    """
    untried = [one for one in others if one.untried]
    tried = [one for one in others if not one.untried]
    hides = [one for one in tried if one.hides]
    unclear = [one for one in tried if one.bare and not one.hides and one.seen["mean"] < one.bare["mean"]]
    if hides:
        caveat = untuned(any(one.fixed for one in hides))
        best = max(hides, key=lambda one: (one.right or 0.0) if paired else -one.seen["mean"])
        good = f"leaves most accuracy ({best.accuracy})" if paired else "hid most"
        yield (
            f"Of the defenses that hid more than chance explains ({_names(hides)}), {best.defense} {good}; "
            f"{_seen(best)} could still be seen{caveat}."
        )
    elif tried:
        yield "No defense here hid more than chance explains: attack more images, or defend harder."
    if unclear:
        yield f"There are too few images to tell whether these helped: {_names(unclear)}."
    if untried:
        yield f"Nothing can be said of these, behind which no attack fits that sees undefended: {_names(untried)}."


def _caveats(found: dict[str, Stand], probed: Sequence[Balance]) -> Iterator[str]:
    """What leaks all the same behind defenses that hid images from attacks on gradients."""
    hides = {name for name, one in found.items() if one.hides}
    linked = {one.defense: one.identified for one in probed if one.identified and one.identified["mean"] > HALF}
    members = {one.defense: one.auc for one in probed if one.auc and one.auc["low"] > HALF}
    links = [f"{name} ({value['mean']:.0%})" for name, value in linked.items() if name in hides]
    if links:
        yield f"But protected images themselves are found in a gallery of originals behind {', '.join(links)}."
    told = [f"{name} (AUC {value['mean']:.2f})" for name, value in members.items() if name in hides]
    if told:
        yield f"But members of the training data can be told from others by the loss behind {', '.join(told)}."


def _unjudged(names: Sequence[str], found: dict[str, Stand]) -> Iterator[str]:
    left = [name for name in names if name not in found]
    if left:
        yield f"Not judged, because no attack fits, or one failed or is still to come: {', '.join(left)}."


def _seen(stand: Stand) -> str:
    return _share(stand.seen)


def _share(one: JSON) -> str:
    return f"{one['mean']:.0%} (95 % interval {one['low']:.0%} to {one['high']:.0%}, {one['images']} images)"


def _names(found: list[Stand]) -> str:
    return ", ".join(one.defense for one in found)
