"""What can be made of a study's results, for each kind of study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glasshouse.errors import StudyError

if TYPE_CHECKING:
    from glasshouse.studies.grid.status import Status
    from glasshouse.studies.reading import AnyPlan


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of study: how far it is, its lines and what they are, its page, and two beside one another."""

    status: Callable[[Any, Path], Status]
    lines: Callable[[Path], Sequence[Any]]
    line: type
    report: Callable[[Path], Path]
    compare: Callable[[Path, Path], Sequence[Any]]
    show_differences: Callable[[Sequence[Any]], None]


def plan_and_kind(directory: Path) -> tuple[AnyPlan, Kind]:
    """The plan of a study, and what can be made of its results."""
    from glasshouse.studies.grid.plan import Grid
    from glasshouse.studies.reading import read_plan

    plan = read_plan(directory)
    return plan, _grid() if isinstance(plan, Grid) else _federations()


def common_kind(first: Path, second: Path) -> Kind:
    """The kind of two studies that are to be compared; two kinds have nothing in common."""
    (one, kind), (two, _) = plan_and_kind(first), plan_and_kind(second)
    if type(one) is not type(two):
        raise StudyError(f"{first} and {second} are studies of two kinds: compare grids, or federations.")
    return kind


def _grid() -> Kind:
    from glasshouse.cli import study_tables
    from glasshouse.reports.grid import write_grid_report
    from glasshouse.studies.grid import comparison, lines, status

    show = study_tables.show_differences
    return Kind(status.status, lines.lines, lines.Line, write_grid_report, comparison.compare, show)


def _federations() -> Kind:
    from glasshouse.cli import study_tables
    from glasshouse.reports.federations import write_federations_report
    from glasshouse.studies.federations import comparison, results, status

    show = study_tables.show_federated_differences
    return Kind(status.status, results.lines, results.Line, write_federations_report, comparison.compare, show)
