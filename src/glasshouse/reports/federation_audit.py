"""The page of an audit of a federation: what the server and an adversary among the clients could see."""

from __future__ import annotations

from pathlib import Path

from glasshouse.files import write_atomic
from glasshouse.reports.federation import shield
from glasshouse.reports.page import template
from glasshouse.reports.thumbnails import inline
from glasshouse.store import Album
from glasshouse.studies.federation import FederationAudit, FederationAuditResult
from glasshouse.studies.forgery import Forgery
from glasshouse.studies.sightings import Row
from glasshouse.types import Interval


def write_federation_audit_report(result: FederationAuditResult) -> Path:
    """Write ``report/index.html`` beside the results and return where it is."""
    album = Album.of(result.directory)
    page = template("federation_audit.html").render(
        number=number,
        percent=percent,
        plan=result.plan,
        settings=result.settings,
        round=number_of(result),
        verdict=verdict(result),
        shield=shield(result.plan),
        columns=columns(result),
        lines=[(row, cells(row.values, result), cells(row.floor, result), number(row.home)) for row in result.rows],
        walls=[
            (f"{row.victim}, {row.attack}", [[inline(album, one) for one in pair] for pair in row.pictures])
            for row in result.rows
        ],
        told=[(one.attack, one.query, number(one.values["auc"])) for one in result.told],
        forgery=result.forgery,
        forged=[] if result.forgery is None else forged(result.directory, result.forgery),
        failures=result.failures,
    )
    path = result.directory / "report" / "index.html"
    write_atomic(path, page.encode())
    return path


def forged(directory: Path, forgery: Forgery) -> list[list[str]]:
    """Pairs of an image of the class and a sample of the adversary, for the page."""
    return [[inline(Album.of(directory), one) for one in pair] for pair in forgery.pictures]


def number_of(result: FederationAuditResult) -> str:
    """Which round was attacked, as --round and the directory count it."""
    return f"{result.settings.round} of {result.plan.rounds}, counted from 0"


def verdict(result: FederationAuditResult) -> str:
    """What counts: whether any attack came nearer to the images than their own mean colour does."""
    nearer = [f"{row.attack} on {row.victim}" for row in result.rows if beats_floor(row, result.settings)]
    if nearer:
        return f"Nearer than the floor by every metric: {', '.join(nearer)}. Look at the pictures."
    return (
        "No attack came nearer than the floor by every metric: that speaks neither for the defense nor for the "
        "network, for the attacks may be too weak. Try others, and more steps."
    )


def beats_floor(row: Row, settings: FederationAudit) -> bool:
    """Whether a guess is nearer to its image than that image's mean colour, on average, by all metrics there are."""
    high = {text: metric.leaks_when == "high" for text, metric in settings.judges.items()}
    gains = [(value.mean - row.floor[text].mean) * (1 if high[text] else -1) for text, value in row.values.items()]
    return bool(gains) and min(gains) > 0


def columns(result: FederationAuditResult) -> list[str]:
    """The metrics that are defined for these images."""
    return [text for text in result.settings.metrics if any(text in row.values for row in result.rows)]


def cells(values: dict[str, Interval], result: FederationAuditResult) -> list[str]:
    """Values in the order of the columns."""
    return [number(values.get(text)) for text in columns(result)]


def number(value: Interval | None) -> str:
    """A mean with its interval."""
    return "n/a" if value is None else f"{value:.3g}"


def percent(value: Interval) -> str:
    """A share with its interval."""
    return f"{value:.0%}"
