"""The page of a membership audit: who can tell members, how surely, and the ROC curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from markupsafe import Markup

from glasshouse.files import write_atomic
from glasshouse.functional.roc import METRICS
from glasshouse.reports.figures import INK, THEME, svg
from glasshouse.reports.page import template
from glasshouse.studies.membership import MembershipResult
from glasshouse.studies.trained import Row
from glasshouse.types import Interval

COLUMNS = {
    "auc": "AUC",
    "tpr_at_fpr_0.01": "TPR at 1 % FPR",
    "tpr_at_fpr_0.001": "TPR at 0.1 % FPR",
    "balanced_accuracy": "balanced accuracy, best threshold",
}


def write_membership_report(result: MembershipResult) -> Path:
    """Write ``report/index.html`` beside ``membership.json`` and return where it is."""
    page = template("membership.html").render(
        facts=result.facts,
        pending=result.pending,
        columns=[*COLUMNS.values(), "train accuracy", "test accuracy"],
        lines=[
            (row.attack, row.attack_spec, row.defense, row.query, [_apart(cell) for cell in cells(row, result)])
            for row in result.rows
        ],
        missing=missing(result),
        worst=[verdict(row) for row in worst(result)],
        promises=sorted({f"{one.defense}: {one.promise}" for one in result.targets if one.promise}),
        protected=any(one.query != "clean" for one in result.targets),
        curves=Markup(curves(result.rows)),  # noqa: S704 - our own figure, names escaped by Matplotlib
    )
    path = result.directory / "report" / "index.html"
    write_atomic(path, page.encode())
    return path


def cells(row: Row, result: MembershipResult, *, intervals: bool = True) -> list[str]:
    """The values of a row in the order of the columns, then the accuracies of its target."""
    target = result.target(row)
    values = [*(row.values[metric] for metric in METRICS), target.train_accuracy, target.test_accuracy]
    return [number(value, intervals=intervals) for value in values]


def missing(result: MembershipResult) -> list[str]:
    """Why some columns have no values."""
    gone = [metric for metric in METRICS if any(row.values[metric] is None for row in result.rows)]
    return [f"{COLUMNS[metric]} is {result.reason(metric)}." for metric in gone]


def number(value: Interval | None, *, intervals: bool = True) -> str:
    """A value, with its interval where there is room."""
    if value is None:
        return "not estimable" if intervals else "n/a"
    return f"{value:.3f}" if intervals else f"{value.mean:.3f}"


def _apart(text: str) -> tuple[str, str]:
    """A value and its interval, which the page prints below it."""
    value, bracket, ends = text.partition(" [")
    return value, bracket.strip() + ends


def worst(result: MembershipResult) -> list[Row]:
    """For each defense the attack and query that tell members best: that is what counts."""
    found: dict[str, Row] = {}
    for row in result.rows:
        if row.defense not in found or _area(row) > _area(found[row.defense]):
            found[row.defense] = row
    return list(found.values())


def verdict(row: Row) -> str:
    """One sentence on the worst that was done to a defense."""
    name = "Without a defense" if row.defense == "none" else f"Behind {row.defense}"
    area, rare = row.values["auc"], row.values["tpr_at_fpr_0.01"]
    caught = "" if rare is None else f"; {rare.mean:.1%} of members are found at 1 % false alarms"
    few = area is not None and area.low <= 0.5
    sure = f" (cannot be told from a coin with these candidates; it may be as good as {area.high:.3f})" if few else ""  # type: ignore[union-attr]
    return f"{name}: AUC {number(area)} by {row.attack}, asked with {row.query} images{sure}{caught}."


def _area(row: Row) -> float:
    value = row.values["auc"]
    return 0.0 if value is None else value.mean


def curves(rows: tuple[Row, ...]) -> str:
    """ROC curves, plain and with logarithmic axes: a line of pictures per defense and query, a colour per attack."""
    if not rows:
        return ""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    attacks = list(dict.fromkeys(row.attack for row in rows))
    kinds = list(dict.fromkeys((row.defense, row.query) for row in rows))
    with mpl.rc_context(THEME):
        figure = Figure(figsize=(10, 4.2 * len(kinds) + 0.5), layout="constrained")
        for (defense, query), (plain, log) in zip(kinds, figure.subplots(len(kinds), 2, squeeze=False), strict=True):
            here = [row for row in rows if (row.defense, row.query) == (defense, query)]
            for row in here:
                curve = row.curve.thinned()
                for axes in (plain, log):
                    colour = f"C{attacks.index(row.attack)}"
                    axes.plot(curve.fpr, curve.tpr, drawstyle="steps-post", color=colour, label=row.attack)
            _framed(plain, "linear", 0.0)
            _framed(log, "log", min(float(row.curve.fpr[row.curve.fpr > 0].min()) for row in here))
            plain.set_title(f"{defense}, asked with {query} images", loc="left", fontsize="medium")
            plain.legend(loc="lower right", fontsize="small", frameon=False)
        return svg(figure)


def _framed(axes: Any, scale: str, low: float) -> None:
    """Name the axes, and draw what a coin would do."""
    axes.plot([low, 1], [low, 1], color=INK, lw=0.8, alpha=0.5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.axes.set(**{f"{axis.axis_name}scale": scale, f"{axis.axis_name}lim": (low, 1)})
        axis.set_major_formatter(lambda value, place: f"{value:g}")
    axes.minorticks_off()
    axes.set_xlabel("others taken for members")
    axes.set_ylabel("members found")
    axes.grid(alpha=0.2, color=INK)
