"""Tables for the terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from glasshouse.cli.fitting import fitted
from glasshouse.studies.rows import ONE_IMAGE, TUNED

if TYPE_CHECKING:
    from rich.table import Table

    from glasshouse.studies.results import AuditResult
    from glasshouse.studies.rows import Identified, Row, Setup
    from glasshouse.types import Interval

WIDE = 120
CONDITIONS = {"round": "round", "batchnorm": "batch norm"}  # of a threat card, and how columns call them


def result_table(result: AuditResult, width: int) -> Table:
    """One line per setup, one column per metric; with 95 % intervals where the terminal is wide enough."""
    metrics = result.plan.metrics
    wide = width >= WIDE
    conditions = telling(result.setups)
    shown = {one.setup: one for one in result.identified}
    values = {(row.setup, row.metric): row for row in result.rows}
    floor = {row.metric: row for row in result.floor}
    tuning = sorted({setup.threat.tuning for setup in result.setups})
    rows = []
    for setup in result.setups:
        seen = counts(shown.get(setup))
        cells = [cell(values.get((setup, metric)), wide) for metric in metrics]
        attack = f"{setup.attack}\n{setup.settings}" if TUNED in tuning else setup.attack
        rows.append([setup.defense, attack, *(getattr(setup.threat, one) for one in conditions), *seen, *cells])
    cells = [cell(floor.get(metric), wide) for metric in metrics]
    rows.append(["floor", "mean color", *("" for _ in conditions), "", "", *cells])
    title = f"What could be seen (mean{', 95 % interval' if wide else ''}; attacks: {', '.join(tuning)})"
    heads = ("defense", "attack", *(CONDITIONS[one] for one in conditions), "seen", "told apart", *metrics)
    return fitted(title, heads, rows, width, spare=metrics, dim=[len(rows) - 1])


def counts(found: Identified | None) -> tuple[str, str]:
    """How many images were seen, and how many told apart from others; nothing where no case is finished."""
    if found is None:
        return "", ""
    seen, told = (f"{round(one.mean * one.images)} of {one.images}" for one in (found.share, found.told))
    return seen, told


def telling(setups: tuple[Setup, ...]) -> list[str]:
    """The conditions that differ between setups; one that is the same everywhere tells nothing."""
    return [one for one in CONDITIONS if len({getattr(setup.threat, one) for setup in setups}) > 1]


def reasons(result: AuditResult) -> list[str]:
    """Why some metrics have no value, and some values no interval, each reason once."""
    missing = [f"n/a: {row.metric}: {row.reason}" for row in result.rows if row.value is None]
    alone = [ONE_IMAGE for row in result.rows if row.value is not None and row.value.images == 1]
    return list(dict.fromkeys(missing + alone))


def cell(row: Row | None, wide: bool) -> str:
    """What a table prints of a row: its value, or why there is no number."""
    value = None if row is None else row.value
    if row is None or value is None:
        return "n/a"
    return (row.reason or "identical") if math.isinf(value.mean) else number(value, wide)


def number(value: Interval, wide: bool) -> str:
    """A mean, with its interval where there is room."""
    return f"{value:.3g}" if wide else f"{value.mean:.3g}"
