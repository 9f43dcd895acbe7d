"""What a study of federations lets one advise, in plain words, and no more than its numbers carry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from glasshouse.reports.federations_view import COIN, Place, Told, number, percent


def headline(places: Sequence[Place]) -> str:
    """The study in one sentence."""
    asked = [(one.worst, one) for one in places if one.worst is not None]
    if not asked:
        return "Nothing was finished yet, so nothing can be said."
    worst, place = max(asked, key=lambda one: one[0].strength)
    behind = f"{place.dataset}, {place.model}, defense {place.defense}"
    if worst.auc.low <= COIN:
        return f"No attack told members of the training data from others better than a coin would ({behind})."
    return f"At worst members of the training data are told from others with AUC {_area(worst)}: {behind}."


def advice(places: Sequence[Place]) -> list[str]:
    """What to do for each network on each data set; the defense that is named first is the reference."""
    networks = dict.fromkeys((one.dataset, one.model) for one in places)
    return [
        sentence
        for network in networks
        for sentence in _advice([one for one in places if (one.dataset, one.model) == network])
    ]


def _advice(places: Sequence[Place]) -> Iterator[str]:
    reference, *others = places
    name = f"{reference.dataset}, {reference.model}"
    yield f"{name}: with {reference.defense} {_right(reference)}{_members(reference)}."
    for one in others:
        lost = 100 * (reference.accuracy.mean - one.accuracy.mean)
        cost = f"{abs(lost):.1f} points {'less' if lost > 0 else 'more'} than {reference.defense}"
        yield f"{name}: with {one.defense} {_right(one)}, {cost}{_members(one)}."
    if reference.worst is None or not others:
        return
    hides = [one for one in others if _hides(reference.worst, one.worst)]
    if hides:
        best = max(hides, key=lambda one: one.accuracy.mean)
        yield (
            f"{name}: of what hid members more than chance explains ({', '.join(one.defense for one in hides)}), "
            f"{best.defense} leaves most accuracy. Whether images can be seen is another question: audit for it."
        )
    else:
        yield (
            f"{name}: no defense here hid members more than chance explains, so none is worth its accuracy on their "
            "account."
        )


def _hides(bare: Told, behind: Told | None) -> bool:
    """A defense is credited only where its interval lies below that of the reference."""
    return behind is not None and behind.auc.high < bare.auc.low


def _right(place: Place) -> str:
    share, interval = percent(place.accuracy)
    return f"{share} of test images are recognised (95 % interval {interval}, asked with {place.query} images)"


def _members(place: Place) -> str:
    if place.worst is None:
        return ""
    coin = ", which cannot be told from a coin" if place.worst.auc.low <= COIN else ""
    return f"; members are told with AUC {_area(place.worst)}{coin}"


def _area(told: Told) -> str:
    value, interval = number(told.auc)
    return f"{value} ({interval}) by {told.attack}, asked with {told.query} images"
