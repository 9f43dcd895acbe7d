"""Pilots of the study behind SemSim: how much judges recognise after how many steps, on images of training parts."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

from page_tables import table

from glasshouse.studies.reading import read_grid
from glasshouse.studies.semsim import whose
from glasshouse.studies.voted import by_testers

HEADS = ["data set", "network", "attack", "originals", "recognised", "judges"]
TEXT = (
    "How much is recognised after how many steps: one network of each kind, trained without a defense by a seed of its "
    "own, and images of the training part that it did not learn from. By this share, which is that of the judges who "
    "test, and by no metric, settings were given to the attacks on CIFAR-100 and to InvGrad on Imagenette; what "
    "other data sets were attacked with was older. Twenty classes of Caltech-101 were piloted for a run to come. "
    "Behind some recipes less is recognised than without a defense: of GradAttack a third here, a fifth in the study."
)


def is_pilot(study: Path) -> bool:
    """Whether a study attacks images of training parts: nobody's test."""
    return all("split=train" in name for name in read_grid(study).datasets)


def rows(study: Path) -> list[dict]:
    """For each network and attack of a pilot: the share of votes that recognised its reconstructions."""
    found = by_testers([study], "classifier")
    ways = sorted({tuple(str(guess.facts[fact]) for fact in ("dataset", "model", "attack")) for guess in found.guesses})
    kept = []
    for dataset, model, attack in ways:
        way = {"dataset": dataset, "model": model, "attack": attack}
        some = found.only(lambda guess, way=way: all(str(guess.facts[fact]) == one for fact, one in way.items()))
        share = statistics.mean(guess.share for guess in some.guesses)
        kept.append(way | {"originals": len(some.originals), "judges": whose(some), "share": share})
    return kept


def section(found: list[dict]) -> list[str]:
    """The table of pilots; nothing where none was kept."""
    lines = []
    for one in sorted(found, key=lambda one: _by_numbers(f"{one['dataset']} {one['model']} {one['attack']}")):
        way = (f"`{one[fact]}`" for fact in ("dataset", "model", "attack"))
        lines.append([*way, str(one["originals"]), f"{one['share']:.0%}", one["judges"]])
    return ["### Pilots", "", TEXT, "", *table(HEADS, lines), ""] if lines else []


def _by_numbers(text: str) -> list[tuple[float, str]]:
    """What puts 50 before 100."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [(float(part), "") if place % 2 else (0.0, part) for place, part in enumerate(parts)]
