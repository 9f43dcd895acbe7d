"""Metrics against people as tables and pictures: figures 3A and 3B of the SemSim paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glasshouse.files import write_atomic
from glasshouse.reports.drawing import png
from glasshouse.studies.correlation import Correlation, Difference, MetricResult
from glasshouse.types import Interval

COLUMNS = (
    "metric",
    "leaks when",
    "rho",
    "tau",
    "p (tau)",
    "AUC",
    "AUC within original",
    "AUC within model",
    "resolved pairs",
)
MODELS = ("model", "recognised")
DIFFERENCES = ("first", "second", "rho", "tau", "AUC within original")
MATRIX = "metric-against-metric.png"
#: By whose judgements they are.
SCATTERS = {"people": "metric-against-human.png", "classifiers": "metric-against-classifiers.png"}
CEILINGS = {"people": "Human ceiling", "classifiers": "Ceiling of these classifiers"}
PANEL = 2.1  # inches
ACROSS = 3  # panels in a line
MANY = 10  # models from which resampling them says how far their ranking may be off


def number(value: Interval | None, *, intervals: bool = True) -> str:
    """A value, with its interval where there is room."""
    if value is None or np.isnan(value.mean):
        return "n/a"
    return f"{value:.3f}" if intervals else f"{value.mean:.3f}"


def cells(metric: MetricResult, *, intervals: bool = True) -> list[str]:
    """The row of one metric, in the order of the columns."""
    areas = (metric.auc, metric.auc_within_original, metric.auc_within_model)
    return [
        metric.name,
        metric.leaks_when if metric.known else "unknown: taken as high",
        *(number(one, intervals=intervals) for one in (metric.rho, metric.tau)),
        f"{metric.p_tau:.4f}",
        *(number(one, intervals=intervals) for one in areas),
        "n/a" if np.isnan(metric.resolved) else f"{metric.resolved:.3f}",
    ]


def difference_cells(one: Difference) -> list[str]:
    """The row of a pair of metrics."""
    return [one.first, one.second, number(one.rho), number(one.tau), number(one.auc_within_original)]


def model_cells(found: Correlation) -> list[list[str]]:
    """A row for each model."""
    seen = found.recognition
    return [[model, number(one)] for model, one in zip(seen.models, seen.intervals, strict=True)]


def too_narrow() -> str:
    """What is said of intervals over few models."""
    return (
        f"Intervals of rho and tau over fewer than {MANY} models, of which checkpoints of one training are one, are "
        "too narrow: rank more of them."
    )


def remarks(found: Correlation, whose: str = "people") -> list[str]:
    """What people (or classifiers) themselves can do, and on what all of it rests, one sentence each."""
    resolved, pairs = found.recognition.pairs
    people, original = found.ceiling, found.difficulty
    lines = [
        f"{found.images} images of {len(found.recognition.models)} models, {found.annotators} annotators, judged by "
        f"{found.judge}; Fleiss' kappa of recognised or not {number(found.kappa)}.",
        f"Votes resolve {resolved} of {pairs} pairs of models (the 95 % interval of the difference, over originals, "
        "leaves out 0).",
    ]
    if found.trainings < MANY:
        lines.append(too_narrow())
    if people.tau is not None:
        lines.append(
            f"{CEILINGS[whose]}: half of the annotators against the others, over {people.splits} splits: "
            f"tau {people.tau:.3f}, rho {people.rho:.3f}."
        )
    if people.auc is not None:
        within = people.auc_within_original
        inside = "" if within is None else f", within original {within:.3f}"
        lines.append(f"One annotator's vote from the others' votes on the image: AUC {people.auc:.3f}{inside}.")
    if original.auc is not None:
        lines.append(
            f"Item difficulty (how often the original was recognised through the other models): AUC "
            f"{number(original.auc)}, within model {number(original.auc_within_model)}."
        )
    if found.without_votes:
        lines.append(f"{found.without_votes} images without a vote were left out.")
    return lines


def write_figures(found: Correlation, folder: Path, whose: str = "people") -> tuple[Path, Path]:
    """Write the pictures of figures 3A and 3B into a folder; ``whose`` judgements they are stands on the second."""
    paths = folder / MATRIX, folder / SCATTERS[whose]
    for path, picture in zip(paths, (draw_matrix(found), draw_scatter(found, whose)), strict=True):
        write_atomic(path, picture)
    return paths


def draw_matrix(found: Correlation) -> bytes:
    """Metric against metric (figure 3A): the models' ranks below the diagonal, rho and tau above it."""
    from matplotlib import colormaps

    metrics = found.metrics
    side = len(metrics)
    figure, grid = _grid(side, side, PANEL * 0.8)
    for line, one in enumerate(metrics):
        for column, two in enumerate(metrics):
            axes = grid[line][column]
            axes.set(xticks=[], yticks=[])
            if line == column:
                _write(axes, one.name, fontsize=13, parse_math=False)
            elif line > column:
                axes.plot(_ranks(two.means), _ranks(one.means), "o", color="C0", markersize=4)
            else:
                rho, tau = found.between(one, two)
                axes.set_facecolor(colormaps["PuOr"](0.5 + tau / 2.5))
                _write(axes, f"$\\rho$ = {rho:.2f}\n$\\tau$ = {tau:.2f}", fontsize=10)
    figure.suptitle("Ranks of models by two metrics", fontsize=11)
    return png(figure)


def draw_scatter(found: Correlation, whose: str = "people") -> bytes:
    """Metric against judges (figure 3B): each model's mean against the share of its images that was recognised."""
    lines = -(-len(found.metrics) // ACROSS)
    across = min(len(found.metrics), ACROSS)
    figure, grid = _grid(lines, across, PANEL * 1.3)
    shares = np.array(found.recognition.shares)
    spread = np.abs(np.array([[one.low, one.high] for one in found.recognition.intervals]).T - shares)
    panels = [axes for line in grid for axes in line]
    for axes, metric in zip(panels, found.metrics, strict=False):
        axes.errorbar(metric.means, shares, yerr=spread, fmt="o", markersize=4, capsize=2, linewidth=0.8)
        axes.set_title(f"$\\rho$ = {metric.rho.mean:.2f}, $\\tau$ = {metric.tau.mean:.2f}", fontsize=10)
        axes.set_xlabel(f"{metric.name} ({metric.leaks_when} leaks{'' if metric.known else '?'})", parse_math=False)
        axes.grid(alpha=0.3)
    for axes in panels[len(found.metrics) :]:
        axes.set_axis_off()
    for line in grid:
        line[0].set_ylabel(f"recognised by {whose}")
    return png(figure)


def _grid(lines: int, columns: int, side: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(side * columns + 0.4, side * lines + 0.4), layout="constrained")
    return figure, figure.subplots(lines, columns, squeeze=False)


def _ranks(values: Sequence[float]) -> Any:
    """How many are smaller less how many are larger."""
    return np.sign(np.subtract.outer(values, values)).sum(1)


def _write(axes: Any, text: str, **style: Any) -> None:
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, **style)
