"""The page of an audit of protected images."""

from __future__ import annotations

import math
from pathlib import Path

from glasshouse.files import write_atomic
from glasshouse.reports.page import template
from glasshouse.reports.thumbnails import inline
from glasshouse.store import Album
from glasshouse.studies.protected import ProtectedResult
from glasshouse.studies.shuffled import Part
from glasshouse.types import Interval

PICTURES = ("psnr", "ssim", "lpips", "semsim", "blocks in place")
FACES = {
    "A thumbnail": "The mean of each region and channel, which no order of blocks changes.",
    "B channels un-mixed": "Blocks of the three channels matched by their patterns (assignment).",
    "C jigsaw": "Blocks put back by how they fit at their seams.",
    "D learned inverse": "A small network trained on other images under other keys.",
    "E versions combined": "The learned inverse of every epoch's version, averaged.",
}


def write_protected_report(result: ProtectedResult) -> Path:
    """Write ``report/index.html`` beside ``protected.json`` and return where it is."""
    pictures = {
        name: [inline(Album.of(result.directory), file) for file in files]
        for name, files in result.facts["pictures"].items()
    }
    page = template("protected.html").render(
        facts=result.facts,
        columns=PICTURES,
        pictured=[
            (part.name, FACES.get(part.name, ""), cells(part, result)) for part in result.parts if pictured(part)
        ],
        believed=[(part.name, number(part.scores["share"], percent=True)) for part in told(result)],
        pictures=pictures,
        worst=worst(result),
    )
    path = result.directory / "report" / "index.html"
    write_atomic(path, page.encode())
    return path


def pictured(part: Part) -> bool:
    """Whether a part makes pictures; the others tell images apart."""
    return "share" not in part.scores and part.name != "original"


def told(result: ProtectedResult) -> list[Part]:
    """The parts that tell which image is which."""
    return [part for part in result.parts if "share" in part.scores]


def cells(part: Part, result: ProtectedResult) -> list[str]:
    """The scores of a part in the order of the columns; n/a where a metric is not defined."""
    empty = dict.fromkeys(result.facts["not_defined"], "n/a")
    return [
        number(part.scores[name], percent=name == "blocks in place") if name in part.scores else empty.get(name, "")
        for name in PICTURES
    ]


def number(value: Interval, *, percent: bool = False) -> str:
    """A mean with its interval; there is none where a picture equals its original, whose PSNR is infinite."""
    if math.isinf(value.mean):
        return "infinite"
    return f"{value:.0%}" if percent else f"{value:.3g}"


def worst(result: ProtectedResult) -> dict[str, str]:
    """The best that any part did, column by column: that is what counts."""
    attacks = [part for part in result.parts if pictured(part) and not part.name.startswith("baseline")]
    sharpest = min(attacks, key=lambda part: part.scores["lpips"].mean)
    lpips, psnr = (number(sharpest.scores[name]) for name in ("lpips", "psnr"))
    found = {"sharpest": f"{sharpest.name}, LPIPS {lpips}, PSNR {psnr} dB"}
    nearest = min(attacks, key=lambda part: part.scores["semsim"].mean)
    found["nearest"] = f"{nearest.name}, {number(nearest.scores['semsim'])}"
    for key, start in (("identified", "re-identified: "), ("linked", "F linked: ")):
        parts = [part for part in told(result) if part.name.startswith(start)]
        if parts:
            best = max(parts, key=lambda part: part.scores["share"].mean)
            found[key] = f"{number(best.scores['share'], percent=True)} by {best.name.removeprefix(start)}"
    return found
