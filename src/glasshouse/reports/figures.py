"""Figures as SVG that takes the colour of the page's text, so that they read in light and dark."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from glasshouse.reports.view import Column, columns
from glasshouse.types import JSON

INK = "#123456"  # replaced by the page's own text colour
MARKERS = "os^Dv<>Pp*Xh"  # the eleventh has the first's colour

#: How figures are drawn: words stay words, and everything takes the page's own ink.
THEME: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "glasshouse",
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def scatter(results: JSON) -> str:
    """Every reconstruction by two metrics, one colour per defense and one marker per attack."""
    chosen = _two(columns(results))
    if chosen is None:
        return ""
    values: dict[tuple[Any, ...], dict[str, float]] = {}
    for one in results["per_image"]:
        if one["value"] is not None:
            key = (
                one["defense"],
                one["attack"],
                one["threat"]["round"],
                one["threat"]["batchnorm"],
                one["image"],
            )
            values.setdefault(key, {})[one["metric"]] = one["value"]
    points = [(key, found) for key, found in values.items() if all(column.metric in found for column in chosen)]
    if not points:
        return ""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    defenses = list(dict.fromkeys(key[0] for key, _ in points))
    attacks = list(dict.fromkeys(key[1] for key, _ in points))
    with mpl.rc_context(
        {"svg.fonttype": "none", "text.color": INK, "axes.labelcolor": INK, "svg.hashsalt": "glasshouse"}
    ):
        figure = Figure(figsize=(8, 5), layout="constrained")
        axes = figure.add_subplot()
        for number, defense in enumerate(defenses):
            for mark, attack in enumerate(attacks):
                of_both = [found for key, found in points if key[:2] == (defense, attack)]
                axes.plot(
                    [found[chosen[0].metric] for found in of_both],
                    [found[chosen[1].metric] for found in of_both],
                    MARKERS[mark % len(MARKERS)],
                    color=f"C{number}",
                    alpha=0.8,
                    label=f"{defense}, {attack}",
                )
        _floor(axes, results, chosen)
        axes.set_xlabel(f"{chosen[0].label} ({chosen[0].hint})")
        axes.set_ylabel(f"{chosen[1].label} ({chosen[1].hint})")
        axes.tick_params(colors=INK)
        axes.grid(alpha=0.2, color=INK)
        for spine in axes.spines.values():
            spine.set_color(INK)
        axes.legend(fontsize="small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
        return svg(figure)


def _two(found: Sequence[Column]) -> tuple[Column, Column] | None:
    """The two metrics worth plotting against each other: a perceptual one upward, a pixel one across."""
    order = {"lpips": 0, "ssim": 1, "psnr": 2, "mse": 3}
    known = sorted(
        (c for c in found if c.metric.partition(":")[0] in order),
        key=lambda c: order[c.metric.partition(":")[0]],
    )
    if len(known) < 2:
        return None
    across = next((c for c in known[1:] if c.metric == "psnr"), known[1])
    return across, known[0]


def _floor(axes: Any, results: JSON, chosen: tuple[Column, Column]) -> None:
    """Mark what the truth's own mean colour would score."""
    floor = {row["metric"]: row["mean"] for row in results["floor"]}
    if all(floor.get(column.metric) is not None for column in chosen):
        axes.plot(
            floor[chosen[0].metric],
            floor[chosen[1].metric],
            "x",
            color=INK,
            markersize=9,
            label="floor: mean color",
        )


def svg(figure: Any) -> str:
    """A figure as SVG text without its XML head."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")
