"""SemSim in pictures and tables: how far its probability can be trusted, and how it holds up on what it never saw."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from glasshouse.files import write_atomic
from glasshouse.functional.intervals import Array, mean_interval
from glasshouse.reports.correlation import MANY, too_narrow, write_figures
from glasshouse.reports.drawing import png
from glasshouse.studies.ablation import SIZES_PANEL
from glasshouse.studies.evaluation import Evaluation
from glasshouse.studies.ordering import Contradiction, Ordering
from glasshouse.types import JSON

EVALUATED = ("left out", "metric", "rho", "tau", "AUC within original", "AUC within model", "resolved pairs")
ABLATED = ("changed", "value", "originals", "rho", "tau", "AUC within original")
EVALUATION, ABLATION = "evaluation.json", "ablation.json"
BINS = 10
FEWEST = 5  # originals in a bin; of fewer a share says little


def reliability(predicted: Array, judged: Array, owners: Array) -> list[tuple[float, float, float, float, int]]:
    """Of bins of predicted probabilities: their mean, the judged share with its 95 % interval, and how many originals.

    Guesses of one original are not independent: each original counts once in a bin.
    """
    edges = np.linspace(0, 1, BINS + 1)
    places = np.clip(np.digitize(predicted, edges) - 1, 0, BINS - 1)
    found = []
    for place in range(BINS):
        inside = places == place
        own = np.unique(owners[inside], return_inverse=True)[1]
        if len(own) and own.max() + 1 >= FEWEST:
            mean, said = (np.bincount(own, values[inside]) / np.bincount(own) for values in (predicted, judged))
            share = mean_interval(said.tolist(), within=(0, 1))
            found.append((float(mean.mean()), share.mean, share.low, share.high, share.images))
    return found


def draw_reliability(predicted: Array, judged: Array, owners: Array) -> bytes:
    """Judged share against predicted probability on held-out originals; on the diagonal it can be taken at its word."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2, 4.6), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=(3, 1), sharex=True)
    bins = reliability(predicted, judged, owners)
    above.plot([0, 1], [0, 1], "--", color="grey", linewidth=1)
    if bins:
        x, share, low, high, _ = (np.array(column) for column in zip(*bins, strict=True))
        above.errorbar(x, share, yerr=(np.maximum(share - low, 0), np.maximum(high - share, 0)), fmt="o-", capsize=2)
    above.set(ylabel="recognised by judges", xlim=(0, 1), ylim=(0, 1))
    below.hist(predicted, bins=BINS, range=(0, 1), color="C0")
    below.set(xlabel="probability that SemSim gives", ylabel="guesses")
    return png(figure)


def draw_order(shown: Ordering) -> bytes:
    """The same reconstructions from the best to the worst by PSNR and by SemSim, recognised ones framed (figure 6)."""
    from matplotlib.figure import Figure

    across = len(shown.guesses) + 1
    figure = Figure(figsize=(1.1 * across, 3.0), layout="constrained")
    grid = figure.subplots(2, across, squeeze=False)
    for line, (name, scores, best) in zip(grid, (("PSNR", shown.psnr, -1), ("SemSim", shown.semsim, 1)), strict=True):
        _picture(line[0], shown.original, "original")
        line[0].set_ylabel(name)
        for axes, place in zip(line[1:], np.argsort(best * scores, kind="stable"), strict=True):
            seen = bool(shown.recognised[place])
            _picture(axes, shown.guesses[place], f"{scores[place]:.3g}", "green" if seen else None)
    figure.suptitle("Best to worst; in a green frame: recognised by the judges", fontsize=9)
    return png(figure)


def draw_judged(shown: Sequence[Ordering]) -> bytes:
    """The reconstructions of originals from the best to the worst by PSNR: recognised, or not (figure 5)."""
    from matplotlib.figure import Figure

    across = max(len(one.guesses) for one in shown) + 1
    figure = Figure(figsize=(1.1 * across, 1.4 * len(shown) + 0.4), layout="constrained")
    for line, one in zip(figure.subplots(len(shown), across, squeeze=False), shown, strict=True):
        for axes in line:
            axes.set_axis_off()
        _picture(line[0], one.original, "original")
        for axes, place in zip(line[1:], np.argsort(-one.psnr, kind="stable"), strict=False):
            seen = bool(one.recognised[place])
            _picture(axes, one.guesses[place], f"{one.psnr[place]:.1f} dB", "green" if seen else "red")
    figure.suptitle("By PSNR, best to worst; recognised by the judges: green, not: red", fontsize=9)
    return png(figure)


def draw_contradictions(shown: Sequence[Contradiction]) -> bytes:
    """Two reconstructions of each original: metrics say that the first shows more, judges the second (figure 1)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 2.2 * len(shown)), layout="constrained")
    for line, one in zip(figure.subplots(len(shown), 3, squeeze=False), shown, strict=True):
        said = f"shows more by\n{', '.join(one.fooled)}", "shows more to\njudges"
        _picture(line[0], one.original, "original")
        for axes, guess, share, words in zip(line[1:], one.guesses, one.shares, said, strict=True):
            _picture(axes, guess, f"recognised by {share:.0%}\n{words}")
    return png(figure)


def _picture(axes: Any, picture: Tensor, title: str, frame: str | None = None) -> None:
    pixels = picture.permute(1, 2, 0).numpy()
    axes.imshow(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels, cmap="gray", vmin=0, vmax=1)
    axes.set(xticks=[], yticks=[])
    axes.set_axis_on()
    axes.set_title(title, fontsize=8)
    for side in axes.spines.values():
        side.set(visible=frame is not None, color=frame, linewidth=3)


def draw_ablation(rows: Sequence[JSON]) -> bytes:
    """Rho and tau of every variant, a panel for each thing that was changed (figures 7 and 9).

    SemSim is a distance: one that ranks as judges do falls as they recognise more, so both are turned.
    """
    from matplotlib.figure import Figure

    panels = list(dict.fromkeys(str(row["panel"]) for row in rows))
    figure = Figure(figsize=(3.6 * len(panels), 3.2), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        some = [row for row in rows if row["panel"] == panel and row["tau"] is not None]
        for place, name in enumerate(("rho", "tau")):
            x = np.arange(len(some)) + 0.12 * (place - 0.5)
            values, bars = turned(some, name)
            axes.errorbar(x, values, yerr=bars, fmt="o", capsize=2, label=f"-{name}")
        axes.set_xticks(range(len(some)), [str(row["value"]) for row in some], rotation=30)
        axes.set(title=panel, ylim=(min(0, axes.get_ylim()[0]), 1.05))
        axes.grid(alpha=0.3)
        axes.legend()
    return png(figure)


def turned(rows: Sequence[JSON], name: str) -> tuple[Array, Array]:
    """Minus a value of each row, (N,), and how far its interval reaches below and above that, (2, N)."""
    values = -np.array([row[name] for row in rows], float)
    low, high = (-np.array([row[f"{name}_{end}"] for row in rows], float) for end in ("high", "low"))
    return values, np.stack([values - low, high - values])


def ablation_rows(rows: Sequence[JSON]) -> list[list[str]]:
    """A line for each variant."""
    return [
        [
            str(row["panel"]),
            str(row["value"]),
            str(row["originals"]),
            *(_cell(row, name) for name in ("rho", "tau", "auc_within_original")),
        ]
        for row in rows
    ]


def ablation_remarks(rows: Sequence[JSON]) -> list[str]:
    """Why variants have no figures, and what lessons brought at all."""
    return [f"{row['panel']} {row['value']}: {row['failed']}" for row in rows if row["failed"]] + _worth(rows)


def _worth(rows: Sequence[JSON]) -> list[str]:
    """Whether the lessons moved the ranking, where a network was also tested before any."""
    sizes = [row for row in rows if row["panel"] == SIZES_PANEL and row["tau_low"] is not None]
    if not sizes or sizes[0]["originals"] != 0 or len(sizes) == 1:
        return []
    before, after = sizes[0], sizes[-1]
    moved = f"{before['tau']:.3f}, after {after['originals']} originals {after['tau']:.3f}"
    inside = before["tau_low"] <= after["tau"] <= before["tau_high"]
    less = ", a difference within the interval of the first: what the network is built of ranks, lessons add little"
    return [f"Before any lesson SemSim's tau is {moved}{less if inside else ': lessons changed how it ranks'}."]


def _cell(row: JSON, name: str) -> str:
    if row[name] is None:
        return "n/a"
    low, high = (np.nan if row[f"{name}_{end}"] is None else row[f"{name}_{end}"] for end in ("low", "high"))
    return f"{row[name]:.3f} [{low:.3f}, {high:.3f}]"


def evaluation_rows(tests: Sequence[JSON]) -> list[list[str]]:
    """A line for each test and metric: what was left out, the metric, and how it agrees with the judges."""
    lines = []
    for test in tests:
        head, found = f"{test['axis']} {test['left_out']}", test["correlation"]
        if found is None:
            continue
        for name, one in found["metrics"].items():
            agreement = (_cell(one, value) for value in ("rho", "tau", "auc_within_original", "auc_within_model"))
            resolved = one["resolved_accuracy"]
            lines.append([head, name, *agreement, "n/a" if resolved is None else f"{resolved:.3f}"])
        lines.append([head, "item difficulty", *["n/a"] * 3, _cell(found, "difficulty_auc_within_model"), "n/a"])
    return lines


def evaluation_remarks(tests: Sequence[JSON]) -> list[str]:
    """Of each test: why there is none, what is missing in it, and on how little it rests."""
    lines = []
    for test in tests:
        name, found = f"{test['axis']} {test['left_out']}", test["correlation"]
        if found is None:
            lines.append(f"{name}: {test['failed']}")
        lines += [f"{name}, without {metric}: {why}." for metric, why in test["missing"].items()]
        if test["unlearned_models"]:
            lines.append(f"{name}, without {test['unlearned_models']} models whose networks have not learned.")
        if found is not None and found["trainings"] < MANY:
            lines.append(f"{name}: {too_narrow()}")
    return lines


def write_evaluation(found: Evaluation, folder: Path, asked: JSON, before: Sequence[JSON]) -> None:
    """Write the pictures of the last test, and evaluation.json with the tests that were there ``before``."""
    whose = "people" if found.testers.startswith("human") else "classifiers"
    test = found.tests[-1]
    if test.found is not None:
        room = folder / re.sub(r"[^0-9A-Za-z_.-]+", "-", f"{test.axis} {test.left_out}")
        write_figures(test.found, room, whose)
        for place, shown in enumerate(test.orderings):
            write_atomic(room / f"order-{place}.png", draw_order(shown))
    made = found.to_json()
    content = {"asked": asked} | made | {"tests": [*before, *made["tests"]]}
    write_atomic(folder / EVALUATION, json.dumps(content, indent=1, allow_nan=False).encode())
