"""What ordinary training does against membership inference: fewer rounds, or shifted and mirrored images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glasshouse.reports.federations_view import last_round, together
from glasshouse.studies.federations.results import behind
from glasshouse.types import JSON, Interval

EARLY = "stopped early"
#: Vanilla training stopped as soon as it is as accurate as behind this defense: does it leak less then, too.
MATCHED = "csvar"


@dataclass(frozen=True, slots=True)
class Control:
    """One way to train over all its seeds: after how many rounds, how often the model is right, how far it leaks."""

    way: str
    rounds: tuple[int, ...]
    accuracy: Interval
    auc: Interval


def controls(rows: Sequence[JSON]) -> list[Control]:
    """Every way in which one network was trained on one data set: to the end, and stopped early where watched.

    The best way of asking counts, for accuracy and for the attack each by itself.
    """
    found = []
    for way in dict.fromkeys(map(behind, rows)):
        alike = [row for row in rows if behind(row) == way and row.get("watched")]
        if alike:
            found.append(_control(way, [(row, last_round(row)) for row in alike]))
            found.append(_control(f"{way}, {EARLY}", [(row, best_round(row)) for row in alike]))
    as_good = matched(rows)
    if as_good:
        found.append(
            _control(f"none, stopped when as accurate as {MATCHED}", [(plain, at) for plain, at, _ in as_good])
        )
    return found


def matched(rows: Sequence[JSON]) -> list[tuple[JSON, int, JSON]]:
    """Of every seed: training without a defense, its first watched round that is as accurate as the defense, and that.

    Seeds whose training never is are left out. Less leakage than that of a training which was cut short is a
    defense's merit; the rest comes of learning less.
    """
    plain, defended = (
        {row["seed"]: row for row in rows if behind(row) == way and row.get("watched")} for way in ("none", MATCHED)
    )
    pairs = [(plain[seed], defended[seed]) for seed in sorted(plain.keys() & defended.keys())]
    rounds = [_first_as_right(one, _right(two, last_round(two))) for one, two in pairs]
    return [(one, at, two) for (one, two), at in zip(pairs, rounds, strict=True) if at is not None]


def _first_as_right(row: JSON, goal: JSON) -> int | None:
    numbers = sorted(map(int, row["watched"]))
    return next((number for number in numbers if _right(row, number)["mean"] >= goal["mean"]), None)


def best_round(row: JSON) -> int:
    """The watched round after which the model was right most often on test images; the first of equals."""
    return int(max(sorted(row["watched"], key=int), key=lambda number: _right(row, int(number))["mean"]))


def _control(way: str, chosen: Sequence[tuple[JSON, int]]) -> Control:
    right = [_right(row, number) for row, number in chosen]
    leaks = [most_told(row, number) for row, number in chosen]
    return Control(way, tuple(number for _, number in chosen), together(right), together(leaks))


def _right(row: JSON, number: int) -> JSON:
    """Accuracy on test images after a watched round, asked in the better way."""
    asked = [parts["test"] for parts in row["watched"][str(number)].values()]
    best: JSON = max(asked, key=lambda one: one["mean"])
    return best


def most_told(row: JSON, number: int) -> JSON:
    """The area under the ROC curve after a watched round, of the attack and way of asking that told most."""
    worst: JSON = max((one["auc"] for one in row["membership"][str(number)].values()), key=lambda one: one["mean"])
    return worst
