"""The page of an audit of a federation: what the server and an adversary among the clients could see."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from glasshouse.collection import is_protected
from glasshouse.files import write_atomic
from glasshouse.functional.intervals import share_interval
from glasshouse.reports.federation import shield
from glasshouse.reports.page import template
from glasshouse.reports.thumbnails import inline
from glasshouse.store import Album
from glasshouse.studies.federation import FederationAuditResult, Told
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
        lines=[(row, cells(row.values, result), cells(row.floor, result), home(row)) for row in result.rows],
        walls=[
            (f"{row.victim}, {row.attack}", [[inline(album, one) for one in pair] for pair in row.pictures])
            for row in result.rows
        ],
        told=[(one.attack, asked(one, result), number(one.values["auc"])) for one in result.told],
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
    """Which round was attacked, counted as by --round."""
    return f"{result.settings.round} of {result.plan.rounds}"


def verdict(result: FederationAuditResult) -> str:
    """What counts: whether any attack shows the clients' images and not just such images."""
    if not result.rows:
        return "No attack could be tried on what this server saw: nothing is known of it."
    rows = {text: [row for row in result.rows if row.attack == text] for text in result.settings.attacks}
    shown = ", ".join(text for text, tried in rows.items() if beats_floor(tried))
    if shown:
        return f"What the server saw shows the clients' images: the floor is beaten by {shown}. Look at the pictures."
    return (
        "No attack beats the floor: that speaks neither for the defense nor for the network, for the attacks may be "
        "too weak, and a few guesses tell little. Try others, more steps, and more --images and --clients."
    )


def beats_floor(rows: Sequence[Row]) -> bool:
    """Whether the guesses of one attack are nearer to some client's images than mean colours, and those point home.

    To be near is not enough: the mean of a class is nearer to any image of the class than that image's colour.
    """
    near = [(row.home.images, row.home.mean, row.chance) for row in rows if row.nearer]
    guesses = sum(images for images, _, _ in near)
    found, noise = (sum(one[0] * one[place] for one in near) for place in (1, 2))
    return guesses > 0 and share_interval(found, guesses).low > noise / guesses


def asked(told: Told, result: FederationAuditResult) -> str:
    """With what images the global model was asked: of clients that hold protected ones nobody has the clean ones.

    Test images are as their owner gave them. Where those are not protected, an attack may tell that instead.
    """
    if not is_protected(Path(result.plan.dataset)):
        return f"{told.query} images"
    once_more = "" if told.query == "clean" else f", {told.query} once more"
    return f"clients' images as they hold them, test images as they are{once_more}"


def columns(result: FederationAuditResult) -> list[str]:
    """The metrics that are defined for these images."""
    return [text for text in result.settings.metrics if any(text in row.values for row in result.rows)]


def cells(values: dict[str, Interval], result: FederationAuditResult) -> list[str]:
    """Values in the order of the columns."""
    return [number(values.get(text)) for text in columns(result)]


def number(value: Interval | None) -> str:
    """A mean with its interval."""
    return "n/a" if value is None else f"{value:.3g}"


def home(row: Row) -> str:
    """How many guesses point home, and how much noise does."""
    return f"{row.home:.0%}; noise {row.chance:.0%}"


def percent(value: Interval) -> str:
    """A share with its interval."""
    return f"{value:.0%}"
