"""Accuracy beside leakage, as SVG that takes the colour of the page's text."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

from glasshouse.metrics import metrics
from glasshouse.registry import parse_spec
from glasshouse.reports.figures import INK, MARKERS, THEME, svg
from glasshouse.reports.grid_balance import Balance, as_planned, judged, leakage, most_seen, strongest
from glasshouse.types import JSON

ACROSS = 2  # panels in a line
LINES = ("-", "--", ":")
STAR = "*"  # marks a column whose adversary is another

Point = tuple[float, float]
#: How leaky a setup is by one measure, with its interval; None where that was not measured.
Leak = Callable[[Balance], JSON | None]


def tradeoff(results: JSON) -> str:
    """Every network by its accuracy and what the strongest attack saw of it, with the front that no other beats.

    Data sets and models have panels of their own: an accuracy on one says nothing of another.
    """
    points = [one for one in map(most_seen, judged(results).values()) if one["accuracy"] is not None]
    if not points:
        return ""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    defenses = list(dict.fromkeys(one["defense"] for one in points))
    subjects = list(dict.fromkeys((one["dataset"], one["model"]) for one in points))
    with mpl.rc_context(THEME):
        figure = Figure(layout="constrained")
        for (dataset, model), axes in _side_by_side(figure, subjects).items():
            alike = [one for one in points if (one["dataset"], one["model"]) == (dataset, model)]
            for number, defense in enumerate(defenses):
                own = [(one["accuracy"], one["mean"]) for one in alike if one["defense"] == defense]
                if own:
                    marker, color = MARKERS[number % len(MARKERS)], f"C{number % 10}"
                    axes.plot(*zip(*own, strict=True), marker, color=color, fillstyle="none", ms=8, label=defense)
            best = front([(one["accuracy"], one["mean"]) for one in alike])
            axes.plot(*zip(*best, strict=True), "-", color=INK, alpha=0.5, label="nothing is better in both")
            axes.set(title=f"{dataset}, {model}", ylim=(-0.05, 1.05))
            axes.set(xlabel="accuracy of the network", ylabel="share of images seen")
            axes.grid(alpha=0.2, color=INK)
        _common_legend(figure)
        return svg(figure)


def _side_by_side(figure: Any, subjects: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Any]:
    """A panel for each data set and model."""
    across = min(ACROSS, len(subjects))
    down = math.ceil(len(subjects) / across)
    figure.set_size_inches(8 if across == 1 else 11, 4.6 * down + 1.2)
    panels = figure.subplots(down, across, squeeze=False).flat
    found = dict(zip(subjects, panels, strict=False))
    for axes in figure.axes[len(subjects) :]:
        axes.remove()
    return found


def front(points: Sequence[Point]) -> list[Point]:
    """The points that no other beats in both, by rising accuracy: more accuracy and less seen are better."""
    kept: list[Point] = []
    for accuracy, seen in sorted(set(points), key=lambda one: (-one[0], one[1])):
        if not kept or seen < kept[-1][1]:
            kept.append((accuracy, seen))
    return kept[::-1]


def pareto(found: Sequence[Balance]) -> str:
    """Accuracy against what leaks, as SVG for the page; empty where nothing has both."""
    import matplotlib as mpl

    with mpl.rc_context(THEME):
        figure = draw_pareto(found)
        return "" if figure is None else svg(figure)


def pareto_png(found: Sequence[Balance]) -> bytes:
    """The same as PNG."""
    return _png(draw_pareto(found))


def _png(figure: Any) -> bytes:
    """A figure as PNG, nothing of none."""
    buffer = io.BytesIO()
    if figure is not None:
        figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()


def draw_pareto(found: Sequence[Balance]) -> Any:
    """A line of panels for each data set and model: reconstruction by the most perceptual metric, then membership.

    Each defense stands where the strongest attack on it puts it.
    """
    from matplotlib.figure import Figure

    measured = [one for one in strongest(found) if one.accuracy is not None]
    panels = _panels(measured)
    subjects = list(dict.fromkeys((one.dataset, one.model) for one in measured))
    if not panels or not subjects:
        return None
    several = len({model for _, model in subjects}) > 1
    defenses = list(dict.fromkeys(one.defense for one in measured))
    figure = Figure(figsize=(6.5 * len(panels), 4.2 * len(subjects) + 1.6), layout="constrained")
    grid = figure.subplots(len(subjects), len(panels), squeeze=False)
    for line, (dataset, model) in zip(grid, subjects, strict=True):
        own = [one for one in measured if (one.dataset, one.model) == (dataset, model)]
        for axes, (title, sign, leak) in zip(line, panels, strict=True):
            _panel(axes, own, defenses, leak, sign)
            axes.set_title(f"{dataset}, {model}" if several else dataset)
            axes.set_xlabel("accuracy of the network")
            axes.set_ylabel(title)
            axes.grid(alpha=0.2)
    _common_legend(figure)
    return figure


def matrix(found: Sequence[Balance]) -> str:
    """What every attack saw behind every defense, as SVG for the page; empty where one model met one attack."""
    import matplotlib as mpl

    with mpl.rc_context(THEME):
        figure = draw_matrix(found)
        return "" if figure is None else svg(figure)


def matrix_png(found: Sequence[Balance]) -> bytes:
    """The same as PNG."""
    return _png(draw_matrix(found))


def draw_matrix(found: Sequence[Balance]) -> Any:
    """A panel for each data set: a line for each defense, a column for each attack on a model, the share seen in each.

    Of several networks behind a defense that counts through which most was seen. Columns of adversaries who do more
    than watch are marked, for they do not compare with the others.
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    known = [(one, one.seen["mean"]) for one in found if one.seen is not None and one.seen["mean"] is not None]
    datasets = list(dict.fromkeys(one.dataset for one, _ in known))
    defenses = list(dict.fromkeys(one.defense for one in found))
    columns = list(dict.fromkeys((one.model, one.attack) for one, _ in known))
    if len(columns) < 2:
        return None
    figure = Figure(
        figsize=(3 + 0.75 * len(columns), (1 + 0.3 * len(defenses)) * len(datasets) + 1.6), layout="constrained"
    )
    panels = figure.subplots(len(datasets), 1, squeeze=False, sharex=True)[:, 0]
    glow = LinearSegmentedColormap.from_list("seen", [(0.85, 0.2, 0.1, 0.0), (0.85, 0.2, 0.1, 0.75)])
    for axes, dataset in zip(panels, datasets, strict=True):
        shares: dict[tuple[int, int], float] = {}
        for one, share in known:
            if one.dataset == dataset:
                place = defenses.index(one.defense), columns.index((one.model, one.attack))
                shares[place] = max(share, shares.get(place, 0.0))
        cells = [
            [shares.get((line, column), math.nan) for column, _ in enumerate(columns)]
            for line, _ in enumerate(defenses)
        ]
        axes.imshow(cells, cmap=glow, vmin=0, vmax=1, aspect="auto")
        for (line, column), share in shares.items():
            axes.text(column, line, f"{share:.0%}", ha="center", va="center", fontsize=8)
        axes.set_yticks(range(len(defenses)), defenses, fontsize=8)
        axes.set_title(f"{dataset}: images seen", fontsize=10)
        axes.tick_params(length=0)
    others = {(one.model, one.attack): one.adversary for one, _ in known if not one.curious}
    stars = [STAR if column in others else "" for column in columns]
    models, attacks = (_short(specs) for specs in zip(*columns, strict=True))
    names = [f"{attack}{star}\n{model}" for attack, star, model in zip(attacks, stars, models, strict=True)]
    told = [f"{attack}: {others[column]}" for attack, column in zip(attacks, columns, strict=True) if column in others]
    panels[-1].set_xlabel(f"{STAR} {'; '.join(dict.fromkeys(told))}" if told else "", fontsize=8)
    panels[-1].set_xticks(range(len(columns)), names, fontsize=8, rotation=40, ha="right", rotation_mode="anchor")
    return figure


def _short(specs: Sequence[str]) -> list[str]:
    """SPECs without their settings, but where another of the same name has other settings."""
    names = [parse_spec(as_planned(spec))[0] for spec in specs]
    several = {name for name in names if len({spec for spec in specs if parse_spec(as_planned(spec))[0] == name}) > 1}
    return [spec if name in several else name for spec, name in zip(specs, names, strict=True)]


def curves(results: JSON) -> str:
    """ROC curves of membership, a panel for each data set and model, each network by the way to ask that tells more."""
    asked = [one for one in results.get("probes", []) if one["kind"] == "membership" and one["state"] == "done"]
    told = [(one, max(one["queries"].values(), key=lambda query: query["auc"]["mean"]).get("roc")) for one in asked]
    known = [(one, curve) for one, curve in told if curve]
    if not known:
        return ""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    subjects = list(dict.fromkeys((one["dataset"], one["model"]) for one, _ in known))
    recipes = list(dict.fromkeys(one["recipe"] for one, _ in known))
    with mpl.rc_context(THEME):
        figure = Figure(layout="constrained")
        panels = _side_by_side(figure, subjects)
        for one, curve in known:
            number = recipes.index(one["recipe"])
            panels[one["dataset"], one["model"]].plot(
                curve["fpr"],
                curve["tpr"],
                LINES[number // 10 % len(LINES)],
                drawstyle="steps-post",
                color=f"C{number % 10}",
                label=one["recipe"],
            )
        for (dataset, model), axes in panels.items():
            axes.axline((0, 0), slope=1, color=INK, lw=0.6, alpha=0.4)
            axes.set(title=f"{dataset}, {model}", xlim=(0, 1), ylim=(0, 1))
            axes.set(xlabel="others taken for members", ylabel="members found")
        _common_legend(figure)
        return svg(figure)


def _common_legend(figure: Any) -> None:
    """One legend below all panels, each name once."""
    handles = {
        label: mark for axes in figure.axes for mark, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, fontsize=8, frameon=False)


def _panels(found: Sequence[Balance]) -> list[tuple[str, int, Leak]]:
    """Title, sign (1 where high values leak) and measure of every panel that has values."""
    panels: list[tuple[str, int, Leak]] = []
    measure = leakage(found)
    if measure is not None:
        name, sign = measure
        label = metrics.get(parse_spec(name)[0]).label
        title = f"{label} of the reconstruction ({'higher' if sign > 0 else 'lower'} leaks more)"
        panels.append((title, sign, lambda one: one.metrics.get(name)))
    panels.append(("membership: AUC (0.5 is guessing)", 1, lambda one: one.auc))
    return [panel for panel in panels if any(panel[2](one) is not None for one in found)]


def _panel(axes: Any, found: Sequence[Balance], defenses: Sequence[str], leak: Leak, sign: int) -> None:
    """Every setup with its intervals, and the front that no other beats in both."""
    points = [(one, one.accuracy, leak(one)) for one in found]
    known = [(one, x, y) for one, x, y in points if x is not None and y is not None and y["mean"] is not None]
    for one, x, y in known:
        number = defenses.index(one.defense)
        axes.errorbar(
            [x["mean"]],
            [y["mean"]],
            xerr=_spread(x),
            yerr=_spread(y),
            fmt=MARKERS[number % len(MARKERS)],
            fillstyle="none",
            color=f"C{number % 10}",
            capsize=2,
            elinewidth=0.7,
            label=one.defense,
        )
    best = [(x, sign * y) for x, y in front([(x["mean"], sign * y["mean"]) for _, x, y in known])]
    if best:
        axes.plot(*zip(*best, strict=True), "-", color=INK, alpha=0.5, label="nothing is better in both")


def _spread(value: JSON) -> list[list[float]] | None:
    """The interval as lengths below and above the mean."""
    if value["low"] is None:
        return None
    return [[max(value["mean"] - value["low"], 0)], [max(value["high"] - value["mean"], 0)]]
