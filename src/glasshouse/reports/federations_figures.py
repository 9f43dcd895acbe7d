"""Curves of a study of federations, as SVG that takes the colour of the page's text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glasshouse.reports.federations_view import COIN, last_round
from glasshouse.reports.figures import INK, THEME, svg
from glasshouse.studies.federations.results import behind, told
from glasshouse.types import JSON

ACROSS = 3  # pictures beside one another

#: Draws what is known of one defense, in a colour of its own.
Draw = Callable[[Any, Sequence[JSON], str, str], None]


def learning(rows: Sequence[JSON]) -> str:
    """Accuracy on clean test images over the rounds, a line for each defense, the mean over its seeds."""

    def draw(axes: Any, alike: Sequence[JSON], defense: str, colour: str) -> None:
        values = np.array([[np.nan if share is None else share for share in row["curve"]] for row in alike])
        axes.plot(range(1, values.shape[1] + 1), values.mean(0), "-", color=colour, label=defense)
        axes.xaxis.get_major_locator().set_params(integer=True)

    return _panels(rows, draw, xlabel="round", ylabel="accuracy, clean test images", ylim=(0, 1))


def membership(rows: Sequence[JSON]) -> str:
    """The area under the ROC curve over the rounds that were watched, by the attack that told most in each."""

    def draw(axes: Any, alike: Sequence[JSON], defense: str, colour: str) -> None:
        numbers = sorted(int(number) for number in alike[0]["membership"])
        areas = [np.mean([_most(row["membership"][str(number)]) for row in alike]) for number in numbers]
        axes.plot(numbers, areas, "o-", color=colour, label=defense)
        axes.xaxis.get_major_locator().set_params(integer=True)

    return _panels(rows, draw, xlabel="round", ylabel="AUC of the worst attack", coin=True)


def curves(rows: Sequence[JSON]) -> str:
    """ROC curves after the last round, a line for each seed of each defense, of the attack that told most."""

    def draw(axes: Any, alike: Sequence[JSON], defense: str, colour: str) -> None:
        for place, row in enumerate(alike):
            curve = max(told(row).values(), key=lambda one: one["auc"]["mean"])["roc"]
            label = defense if place == 0 else None
            axes.plot(curve["fpr"], curve["tpr"], drawstyle="steps-post", color=colour, alpha=0.8, label=label)
        axes.axline((0, 0), slope=1, color=INK, lw=0.6, alpha=0.4)

    return _panels(rows, draw, xlabel="others taken for members", ylabel="members found", xlim=(0, 1), ylim=(0, 1))


FIGURES: dict[str, Callable[[Sequence[JSON]], str]] = {
    "learning": learning,
    "membership": membership,
    "curves": curves,
}


def _most(asked: JSON) -> float:
    return max(float(one["auc"]["mean"]) for one in asked.values())


def _panels(rows: Sequence[JSON], draw: Draw, *, coin: bool = False, **frame: object) -> str:
    """One picture for each network on each data set, a colour for each defense, the same in all of them."""
    alike: defaultdict[tuple[str, str], defaultdict[str, list[JSON]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        alike[row["dataset"], row["model"]][behind(row)].append(row)
    if not alike or not all(row["membership"][str(last_round(row))] for row in rows):
        return ""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    defenses = list(dict.fromkeys(map(behind, rows)))
    across = min(ACROSS, len(alike))
    down = -(-len(alike) // across)
    with mpl.rc_context(THEME):
        figure = Figure(figsize=(max(3.6 * across, 5), 3.2 * down + 0.8), layout="constrained")
        panels = figure.subplots(down, across, squeeze=False).flat
        for axes, ((dataset, model), found) in zip(panels, alike.items(), strict=False):
            for defense, here in found.items():
                draw(axes, here, defense, f"C{defenses.index(defense) % 10}")
            if coin:
                axes.axhline(COIN, color=INK, lw=0.6, alpha=0.4)
            axes.set(title=f"{dataset}, {model}", **frame)
            axes.grid(alpha=0.2, color=INK)
        for axes in list(figure.axes)[len(alike) :]:
            axes.remove()
        lines = {
            label: line for axes in figure.axes for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            lines.values(), lines.keys(), loc="outside lower center", ncols=3, frameon=False, fontsize="small"
        )
        return svg(figure)
