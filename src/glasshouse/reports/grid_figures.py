"""Accuracy beside leakage, as SVG that takes the colour of the page's text."""

from __future__ import annotations

from collections.abc import Sequence

from glasshouse.reports.figures import INK, MARKERS, THEME, svg
from glasshouse.types import JSON

Point = tuple[float, float]


def tradeoff(results: JSON) -> str:
    """Every setup by the accuracy of its network and the share seen, with the front that no other setup beats."""
    points = [one for one in results["identified"] if one["accuracy"] is not None]
    if not points:
        return ""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    defenses = list(dict.fromkeys(one["defense"] for one in points))
    with mpl.rc_context(THEME):
        figure = Figure(figsize=(8, 5), layout="constrained")
        axes = figure.add_subplot()
        for number, defense in enumerate(defenses):
            own = [(one["accuracy"], one["mean"]) for one in points if one["defense"] == defense]
            marker = MARKERS[number // 10 % len(MARKERS)]
            axes.plot(*zip(*own, strict=True), marker, color=f"C{number % 10}", alpha=0.8, label=defense)
        best = front([(one["accuracy"], one["mean"]) for one in points])
        axes.plot(*zip(*best, strict=True), "-", color=INK, alpha=0.5, label="nothing is better in both")
        axes.set_xlabel("accuracy of the network")
        axes.set_ylabel("share of images seen")
        axes.set_ylim(-0.05, 1.05)
        axes.grid(alpha=0.2, color=INK)
        axes.legend(fontsize="small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)
        return svg(figure)


def front(points: Sequence[Point]) -> list[Point]:
    """The points that no other beats in both, by rising accuracy: more accuracy and less seen are better."""
    kept: list[Point] = []
    for accuracy, seen in sorted(set(points), key=lambda one: (-one[0], one[1])):
        if not kept or seen < kept[-1][1]:
            kept.append((accuracy, seen))
    return kept[::-1]
