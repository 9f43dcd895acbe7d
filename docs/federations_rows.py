"""Rows of the CSVAR paper's evaluation: every federation once, by network, in the order of the presets."""

from __future__ import annotations

from federations_claimed import CLASSES, CSVAR, NONE, claimed, name

from glasshouse.reports.federations_claims import best_accuracy
from glasshouse.reports.federations_view import together
from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.federations.results import behind
from glasshouse.studies.learned import enough_for
from glasshouse.studies.presets import csvar, csvar_dp, csvar_pretrained

PRESETS: tuple[Federations, ...] = (csvar.laptop(), csvar_pretrained.laptop(), csvar_dp.laptop())

Networks = dict[tuple[str, str], list[dict]]


def named(row: dict) -> tuple[object, ...]:
    """What tells a federation from the others of its study."""
    return row["dataset"], row["model"], row["defense"], row["augment"], row["seed"]


def known(studies: list[dict]) -> dict[tuple[object, ...], dict]:
    """Every federation once: the finished before the unfinished, of several that are the one of the later study."""
    found: dict[tuple[object, ...], dict] = {}
    for one in studies:
        for row in one["rows"]:
            if "accuracy" in row or "accuracy" not in found.get(named(row), {}):
                found[named(row)] = {**row, "batch": one["settings"]["batch"]}
    return found


def ordered(studies: list[dict]) -> list[dict]:
    """What was measured, in the order of the presets whatever was run first; behind it what they have no more."""
    order = [named(vars(one)) for preset in PRESETS for one in preset.federations()]
    rows = [row for row in known(studies).values() if "accuracy" in row]
    rows.sort(key=lambda row: order.index(named(row)) if named(row) in order else len(order))
    for (dataset, model), own in compared(rows).items():
        if len({len(row["curve"]) for row in own}) > 1:
            raise SystemExit(f"{dataset}, {model}: federations of different lengths are no comparison; keep one kind.")
    return rows


def networks(rows: list[dict]) -> Networks:
    """Rows by data set and network, in the order of the plan."""
    return {
        (dataset, model): [row for row in rows if (row["dataset"], row["model"]) == (dataset, model)]
        for dataset, model in dict.fromkeys((row["dataset"], row["model"]) for row in rows)
    }


def compared(rows: list[dict]) -> Networks:
    """Networks that were trained with CSVAR and without."""
    return {place: own for place, own in networks(rows).items() if {NONE, CSVAR} <= set(map(behind, own))}


def split(rows: list[dict]) -> tuple[list[dict], list[dict]]:
    """Networks that DP-SGD never trained, and those that it did: each are compared with one another alone."""
    private = {(row["dataset"], row["model"]) for row in rows if row["defense"].startswith("dp_sgd")}
    parts: tuple[list[dict], list[dict]] = ([], [])
    for row in rows:
        parts[(row["dataset"], row["model"]) in private].append(row)
    return parts


def of_way(rows: list[dict], way: str) -> list[dict]:
    """The rows of one way to train."""
    return [row for row in rows if behind(row) == way]


def planned(rows: list[dict]) -> Networks:
    """Rows of every network of table I that the presets ask for or that was trained, run or not."""
    asked = dict.fromkeys((one.dataset, one.model) for preset in PRESETS for one in preset.federations())
    trained = networks(rows)
    return {place: trained.get(place, []) for place in {**asked, **dict.fromkeys(trained)} if claimed(*place)}


def learned(dataset: str, rows: list[dict]) -> bool:
    """Whether training without a defense taught enough for a comparison; unknown counts as yes."""
    plain = of_way(rows, NONE)
    return not plain or together([best_accuracy(row) for row in plain]).mean >= enough_for(CLASSES[name(dataset)])
