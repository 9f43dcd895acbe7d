"""Tables of studies for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from glasshouse.cli.fitting import fitted
from glasshouse.cli.tables import CONDITIONS, WIDE, cell, counts, number, telling
from glasshouse.studies.federations.comparison import Difference as FederatedDifference
from glasshouse.studies.federations.estimate import Estimate as FederatedEstimate
from glasshouse.studies.federations.results import behind
from glasshouse.studies.grid.comparison import Compared, Difference
from glasshouse.studies.grid.estimate import Estimate
from glasshouse.studies.grid.results import GridResult
from glasshouse.studies.grid.status import Count, Status
from glasshouse.studies.rows import Setup
from glasshouse.types import JSON

MOST_FAILURES = 10  # lines; the rest is counted
NOT_COUNTED = "what is done already is not taken off"
#: Columns that say what a value is about.
NAMED = ("data", "model", "network", "defense", "attack", "batch norm", "round", "asked")
MEGABYTE, GIGABYTE = 2**20, 2**30


def show_status(found: Status) -> None:
    """Counts, failures and disk."""
    console = Console()
    table = Table("", "done", "failed", "left", title=Text(found.title))
    _count(table, found.unit, found.targets)
    if found.probes != Count(0, 0, 0):
        _count(table, "probes", found.probes)
    if found.cases is not None:
        _count(table, "cases", found.cases)
    console.print(table)
    if found.cases is None and found.unit == "networks":
        console.print("Cases are counted once every network is trained; 'study run --dry-run' says how many.")
    _failures(console, [f"{what}: {reason}" for what, reason in found.failures])
    console.print(f"Disk: {size(found.disk)}", markup=False)


def show_estimate(found: Estimate) -> None:
    """Counts, time and disk."""
    counts = f"{found.targets} networks to train, {found.cases} cases to attack"
    probes = f", {found.probes} probes to make" if found.probes else ""
    print(f"{counts}{probes}, about {size(found.disk)}.")
    parts = {
        "training": found.training_hours,
        "probing": found.probing_hours,
        "tuning": found.tuning_hours,
        "attacking": found.attacking_hours,
    }
    print(f"On one core: {', '.join(f'{name} {duration(hours)}' for name, hours in parts.items())}.")
    print(f"{_together(found.workers)} about {duration(found.hours)}, {NOT_COUNTED}; scoring is not in it.")
    for line in found.left_out:
        print(f"Left out: {line}")


def show_federated_estimate(found: FederatedEstimate) -> None:
    """Counts, time and disk of federations."""
    shadows = f" and {found.shadows} shadows" if found.shadows else ""
    print(f"{found.federations} federations{shadows} to train, about {size(found.disk)}.")
    print(f"On one core: training {duration(found.training_hours)}.")
    print(f"{_together(found.workers)} about {duration(found.hours)}, {NOT_COUNTED}; testing is not in it.")


def _together(workers: int) -> str:
    return "With one worker" if workers == 1 else f"With {workers} workers"


def size(count: int) -> str:
    """Bytes in the unit that people would choose."""
    unit, name = (GIGABYTE, "GB") if count >= GIGABYTE else (MEGABYTE, "MB")
    return f"{count / unit:.1f} {name}"


def duration(hours: float) -> str:
    """A time in the unit that people would choose."""
    for unit, count in (("hours", 1), ("minutes", 60)):
        if hours * count >= 1:
            return f"{hours * count:.1f} {unit}"
    return f"{hours * 3600:.0f} seconds"


def show_result(result: GridResult) -> None:
    """One line per setup with the accuracy of its network, one column per metric; then what failed."""
    console = Console()
    wide = console.width >= WIDE
    grid = result.grid
    several = [name for name in ("datasets", "models") if len(getattr(grid, name)) > 1]
    heads = [name.removesuffix("s") for name in several]
    rows = []
    shown = {one.setup: one for one in result.identified}
    values = {(row.setup, row.metric): row for row in result.rows}
    setups = tuple(dict.fromkeys(row.setup for row in result.rows))
    modes = [one for one in telling(setups) if one != "round"]  # which names the network
    for setup in setups:
        cells = [cell(values.get((setup, metric)), wide) for metric in grid.metrics]
        own = [getattr(setup, name) for name in heads]
        told = [getattr(setup.threat, one) for one in modes]
        names = [setup.threat.round, _accuracy(result, setup), setup.defense, setup.attack, *told]
        rows.append([*own, *names, *counts(shown.get(setup)), *cells])
    title = f"{grid.title}: what could be seen (mean{', 95 % interval' if wide else ''})"
    told = [CONDITIONS[one] for one in modes]
    heads += ["network", "accuracy", "defense", "attack", *told, "seen", "told apart", *grid.metrics]
    console.print(fitted(title, heads, rows, console.width, spare=grid.metrics))
    lost = [one for one in result.targets if one.state == "failed"]
    _failures(console, [f"{one.target.dataset}, {one.target.model}, {one.target.recipe}: {one.reason}" for one in lost])
    odd = [one for one in result.probes if one.state == "failed"]
    _failures(console, [f"{one.described['kind']}, {one.described['dataset']}: {one.reason}" for one in odd])
    _failures(console, [f"{one.setup.model}, {one.setup.defense}: {one.reason}" for one in result.failures])


def show_federations(found: JSON) -> None:
    """One line per federation: how often its model is right on test images, in each way that it can be asked."""
    console = Console()
    rows = []
    for row in found["rows"]:
        asked = row.get("accuracy", {}).items()
        right = ", ".join(f"{query} {parts['test']['mean']:.1%}" for query, parts in asked)
        names = row["dataset"], row["model"], behind(row), str(row["seed"])
        rows.append([*names, right or row.get("failed", "pending")])
    heads = ("data", "model", "defense", "seed", "accuracy")
    console.print(fitted(found["settings"]["title"], heads, rows, console.width))


def show_differences(found: Sequence[Difference]) -> None:
    """One line per setup and metric."""
    about = ("data", "model", "network", "defense", "attack", "batch norm", "metric")
    heads = (*about, "first", "second", "second - first", "images")
    rows = []
    for one in found:
        network = f"{one.recipe}, seed {one.training_seed}, epoch {one.epoch}"
        names = one.dataset, one.model, network, one.defense, one.attack, one.batchnorm, one.metric
        change = number(one.difference, wide=True)
        rows.append([*names, _mean(one.first), _mean(one.second), change, str(one.difference.images)])
    _differences("paired by image", heads, rows, found, spare=("images", "first", "second"))


def _mean(value: float) -> str:
    """A mean over images, which one picture makes infinite that is identical to its original."""
    return "some identical" if math.isinf(value) else f"{value:.3g}"


def show_federated_differences(found: Sequence[FederatedDifference]) -> None:
    """One line per setup and measure."""
    heads = ("data", "model", "defense", "round", "asked", "measure", "first", "second", "second - first", "seeds")
    rows = []
    for one in found:
        measure = f"{one.measure}, {one.attack}" if one.attack else one.measure
        way = behind({"defense": one.defense, "augment": one.augment})
        names = one.dataset, one.model, way, str(one.round), one.query, measure
        change = number(one.difference, wide=True)
        rows.append([*names, f"{one.first:.3g}", f"{one.second:.3g}", change, str(one.difference.images)])
    _differences("paired by seed", heads, rows, found, spare=("seeds", "first", "second"))


def _differences(
    paired: str, heads: Sequence[str], rows: Sequence[Sequence[str]], found: Sequence[Compared], spare: Sequence[str]
) -> None:
    """How many differ, then a line for each; what is the same in all lines is said once."""
    console = Console()
    more, less = (sum(one.surely == sign for one in found) for sign in (1, -1))
    clear = f"{more} higher and {less} lower in the second beyond chance" if more or less else "none beyond chance"
    console.print(f"Of {len(found)} values both studies have: {clear}.", markup=False)
    columns = dict(zip(heads, zip(*rows, strict=True), strict=True))
    same = [head for head, texts in columns.items() if len(rows) > 1 and len(set(texts)) == 1 and head in NAMED]
    if same:
        console.print(f"All: {', '.join(f'{head} {columns[head][0]}' for head in same)}.", markup=False)
    kept = {head: texts for head, texts in columns.items() if head not in same}
    title = f"Differences, {paired} (95 % interval)"
    console.print(fitted(title, list(kept), list(zip(*kept.values(), strict=True)), console.width, spare=spare))


def _accuracy(result: GridResult, setup: Setup) -> str:
    share = result.origin(setup)["accuracy"]
    return "n/a" if share is None else f"{share:.0%}"


def _count(table: Table, what: str, count: Count) -> None:
    table.add_row(what, str(count.done), str(count.failed), str(count.left))


def _failures(console: Console, reasons: Sequence[str]) -> None:
    for reason in reasons[:MOST_FAILURES]:
        console.print(f"failed: {reason}", style="red", markup=False)
    if len(reasons) > MOST_FAILURES:
        console.print(f"and {len(reasons) - MOST_FAILURES} more failures", style="red", markup=False)
