"""Figures 1 and 7 of the CSVAR paper, from what federations told of their members."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from federations_claimed import LOSS, WORDS
from matplotlib.figure import Figure

from glasshouse.reports.federations_claims import CLEAN, PROTECTED
from glasshouse.reports.federations_controls import most_told
from glasshouse.studies.federations.results import behind, told

ACROSS = 3  # panels beside one another
Draw = Callable[[Any, list[dict], str, str], None]
Networks = dict[tuple[str, str], list[dict]]


def draw(file: Path, found: Networks, lines: Draw, across: str, upward: str) -> None:
    """A panel for each network on each data set, a colour for each way to train."""
    if not found:
        return
    ways = list(dict.fromkeys(behind(row) for own in found.values() for row in own))
    columns = min(ACROSS, len(found))
    down = -(-len(found) // columns)
    figure = Figure(figsize=(max(4.2 * columns, 7.5), 3.4 * down + 0.8), layout="constrained")
    panels = list(figure.subplots(down, columns, squeeze=False).flat)
    for axes, ((dataset, model), own) in zip(panels, found.items(), strict=False):
        for way in dict.fromkeys(map(behind, own)):
            lines(axes, [row for row in own if behind(row) == way], way, f"C{ways.index(way) % 10}")
        axes.set(title=f"{dataset}\n{model}", xlabel=across, ylabel=upward, ylim=(0, 1.02))
        axes.title.set_size(9)
        axes.grid(alpha=0.2)
    for axes in panels[len(found) :]:
        axes.remove()
    drawn = {label: line for axes in figure.axes for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(drawn.values(), drawn.keys(), loc="outside lower center", ncols=3, frameon=False, fontsize=7)
    figure.savefig(file, dpi=100, facecolor="white", metadata={"Software": None})


def draw_roc(axes: Any, rows: list[dict], way: str, colour: str) -> None:
    """Figure 7: the loss attack after the last round, mean over seeds; dashed where asked with protected images."""
    if not axes.lines:
        axes.plot([0, 1], [0, 1], ":", color="black", lw=0.8, label="chance")
    for query, style in ((CLEAN, "-"), (PROTECTED, "--")):
        curves = [told(row)[f"{LOSS}, {query}"]["roc"] for row in rows if f"{LOSS}, {query}" in told(row)]
        if curves:
            tpr = np.mean([one["tpr"] for one in curves], axis=0)
            label = way if query == CLEAN else f"{way}, protected queries"
            axes.plot(curves[0]["fpr"], tpr, style, color=colour, lw=1.1, label=label)


def draw_rounds(axes: Any, rows: list[dict], way: str, colour: str) -> None:
    """Figure 1: accuracy on training and test images and the AUC over the watched rounds, mean over seeds."""
    watched = [row for row in rows if row.get("watched")]
    if way not in WORDS or not watched:
        return
    numbers = sorted(map(int, watched[0]["watched"]))
    axes.set_xticks(numbers)
    for part, style in (("train", "--"), ("test", "-")):
        shares = [[asked(row, one)[part]["mean"] for one in numbers] for row in watched]
        axes.plot(numbers, np.mean(shares, axis=0), style, color=colour, lw=1.1, label=f"{way}, {part} accuracy")
    areas = [[most_told(row, one)["mean"] for one in numbers] for row in watched]
    axes.plot(numbers, np.mean(areas, axis=0), "o:", color=colour, ms=3, label=f"{way}, MIA AUC")


def asked(row: dict, when: int) -> dict:
    """Accuracies after a watched round, asked as the model was trained: with protected images where there are any."""
    found = row["watched"][str(when)]
    return found.get(PROTECTED, found[CLEAN])
