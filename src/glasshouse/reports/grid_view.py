"""What the page of a grid study shows, as plain values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scipy.stats import kendalltau

from glasshouse.functional.intervals import share_interval
from glasshouse.metrics import metrics
from glasshouse.registry import parse_spec
from glasshouse.reports.gallery import note
from glasshouse.reports.grid_balance import PERCEPTUAL, accuracy_of, network_of, shown
from glasshouse.reports.thumbnails import LARGE, beside, inline
from glasshouse.reports.view import Cell, cell, columns
from glasshouse.store import Album
from glasshouse.studies.grid.lines import Line
from glasshouse.types import JSON

SHOWN = 12  # pictures at each end
HEADS = ("data", "model", "network", "defense", "attack")
MEASURES = ("accuracy", "seen", "told apart")
PEOPLE = "recognised by people"
FEWEST_RANKED = 3  # setups below which two metrics always agree, or never


@dataclass(frozen=True, slots=True)
class Sortable:
    """A value of the leaderboard: what is shown, and the number that the table is sorted by."""

    cell: Cell
    order: float


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """One setup of the leaderboard: what is measured beside metrics, then these."""

    names: tuple[str, ...]
    values: tuple[Sortable, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """An original and what was made of it."""

    truth: str
    guess: str
    file: str
    title: str
    note: str


def network(row: JSON) -> str:
    """The network of a row in words."""
    trained = f"{row['recipe']}, {row['epoch']} epochs" if row["epoch"] else "before training"
    return f"{trained}, seed {row['training_seed']}"


def key(row: JSON) -> tuple[object, ...]:
    """What tells one setup of a study from another."""
    threat = row["threat"]
    same = ("round", "batchnorm", "batch", "labels")
    return row["dataset"], row["model"], row["defense"], row["attack"], *(threat[name] for name in same)


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """Every setup, those where most was seen first; what is the same everywhere is no column, but said once."""

    heads: tuple[str, ...]
    measures: tuple[str, ...]
    same: str
    places: tuple[PlaceRow, ...]


def leaderboard(results: JSON, table: Sequence[Line] = ()) -> Leaderboard:
    """The leaderboard with the columns that tell its setups apart; reconstructions tell what people recognised."""
    people = _people(table)
    found = _places(results, people)
    telling = [at for at in range(len(HEADS)) if len({place.names[at] for place in found}) > 1]
    rows = tuple(replace(place, names=tuple(place.names[at] for at in telling)) for place in found)
    same = [f"{HEADS[at]} {found[0].names[at]}" for at in range(len(HEADS)) if found and at not in telling]
    measures = (*MEASURES, PEOPLE) if people else MEASURES
    return Leaderboard(tuple(HEADS[at] for at in telling), measures, ", ".join(same), rows)


def _people(table: Sequence[Line]) -> dict[tuple[object, ...], JSON]:
    """Of the images of each setup that people voted on, the share that they recognised."""
    votes: dict[tuple[object, ...], list[bool]] = {}
    for line in table:
        if line.recognised is not None:
            network = line.dataset, line.model, line.recipe, line.training_seed, line.epoch
            setup = *network, line.defense, line.attack, line.batchnorm
            votes.setdefault(setup, []).append(line.recognised)
    return {setup: dataclasses.asdict(share_interval(sum(own), len(own))) for setup, own in votes.items()}


def _places(results: JSON, people: Mapping[tuple[object, ...], JSON]) -> list[PlaceRow]:
    by_setup: dict[tuple[object, ...], dict[str, JSON]] = {}
    for row in results["rows"]:
        by_setup.setdefault(key(row), {})[row["metric"]] = row
    seen = {key(one): one for one in results["identified"]}
    found = []
    for name, rows in by_setup.items():
        place = _place(rows, seen.get(name), results, people)
        found.append(((place.values[MEASURES.index("seen")].order, shown(rows)), place))
    return [place for _, place in sorted(found, key=lambda one: one[0], reverse=True)]


def _place(
    rows: dict[str, JSON], seen: JSON | None, results: JSON, people: Mapping[tuple[object, ...], JSON]
) -> PlaceRow:
    first = next(iter(rows.values()))
    names = first["dataset"], first["model"], network(first), first["defense"], first["attack"]
    setup = *network_of(first), first["defense"], first["attack"], first["threat"]["batchnorm"]
    measured = [_share(first["accuracy"], first.get("tested")), _counted(seen), _counted(seen and seen["told"])]
    if people:
        measured.append(_counted(people[setup]) if setup in people else Sortable(Cell("nobody asked"), -math.inf))
    return PlaceRow(names, (*measured, *(_sortable(rows.get(column.metric)) for column in columns(results))))


def _sortable(row: JSON | None) -> Sortable:
    if row is None or not row["images"]:
        return Sortable(cell(row), -math.inf)
    return Sortable(cell(row), math.inf if row["mean"] is None else row["mean"])  # what is identical has no end


def _share(value: float | None, tested: int | None) -> Sortable:
    if value is None:
        return Sortable(Cell("n/a"), -math.inf)
    ends = accuracy_of(value, tested)
    interval = "" if ends["low"] is None else f"{ends['low']:.1%} to {ends['high']:.1%}"
    return Sortable(Cell(f"{value:.1%}", interval), value)


def _counted(one: JSON | None) -> Sortable:
    if one is None:
        return Sortable(Cell("none finished"), -math.inf)
    interval = f"{one['low']:.0%} to {one['high']:.0%}"
    return Sortable(Cell(f"{one['mean']:.0%} of {one['images']}", interval), one["mean"])


def agreement(results: JSON) -> list[tuple[str, list[str]]]:
    """Kendall's tau between metrics over the setups, each turned so that high means leaks: a row for each metric."""
    ranked = {column.metric: _leaks(results, column.metric) for column in columns(results)}
    labels = {column.metric: column.label for column in columns(results)}
    return [(labels[one], [_tau(ranked[one], ranked[two]) for two in ranked]) for one in ranked]


def _leaks(results: JSON, metric: str) -> dict[tuple[object, ...], float]:
    sign = 1 if metrics.get(parse_spec(metric)[0]).leaks_when == "high" else -1
    rows = (row for row in results["rows"] if row["metric"] == metric and row["mean"] is not None)
    return {key(row): sign * row["mean"] for row in rows}


def _tau(first: dict[tuple[object, ...], float], second: dict[tuple[object, ...], float]) -> str:
    shared = [name for name in first if name in second]
    if len(shared) < FEWEST_RANKED:
        return "n/a"
    value = float(kendalltau([first[name] for name in shared], [second[name] for name in shared]).statistic)
    return "n/a" if math.isnan(value) else f"{value:.2f}"


def ordered(table: Sequence[Line]) -> tuple[list[Line], str]:
    """Reconstructions by the most perceptual metric there is, what shows most first, and which metric that is."""
    known = {parse_spec(text)[0]: text for line in table for text, value in line.scores.items() if value is not None}
    name = next((one for one in PERCEPTUAL if one in known), None)
    if name is None:
        return [], ""
    sign = 1 if metrics.get(name).leaks_when == "high" else -1
    scored = [(line.scores[known[name]], line) for line in table]
    found = sorted(((sign * value, line) for value, line in scored if value is not None), key=lambda one: -one[0])
    return [line for _, line in found], known[name]


def extremes(found: Sequence[Line]) -> tuple[Sequence[Line], Sequence[Line]]:
    """Of reconstructions in their order those at both ends."""
    return found[:SHOWN], found[SHOWN:][-SHOWN:][::-1]


def pair(directory: Path, album: Album, line: Line) -> Pair:
    """An original and its reconstruction as pictures within the page."""
    truth, guess = (inline(album, file, LARGE) for file in (line.truth, line.guess))
    return Pair(truth, guess, beside(directory, album, line.guess), line.class_name, note(line))


def cards(results: JSON) -> list[JSON]:
    """The conditions under which each attack worked, with the epochs of its networks and its signal-to-noise ratios."""
    facts = ("adversary", "batchnorm", "statistics", "labels", "batch", "local_steps", "clients", "tuning")
    alike: dict[tuple[object, ...], list[JSON]] = {}
    for row in results["rows"]:
        alike.setdefault((row["attack"], *(row["threat"][name] for name in facts)), []).append(row)
    return [
        {**rows[0]["threat"], "attack": rows[0]["attack"], "epochs": _epochs(rows), "snr": _ratios(rows)}
        for rows in alike.values()
    ]


def _epochs(rows: Sequence[JSON]) -> str:
    return ", ".join(str(epoch) for epoch in sorted({row["epoch"] for row in rows}))


def _ratios(rows: Sequence[JSON]) -> str:
    """From the noisiest defense to the quietest; some touch nothing."""
    known = sorted({row["threat"]["snr_db"] for row in rows if row["threat"]["snr_db"] is not None})
    ends = dict.fromkeys(f"{value:.1f}" for value in (known[:1] + known[-1:]))
    untouched = ["untouched"] if any(row["threat"]["snr_db"] is None for row in rows) else []
    return ", ".join([f"{' to '.join(ends)} dB"] * bool(ends) + untouched)
