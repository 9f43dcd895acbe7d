"""SemSim in pictures: how far its probability can be trusted."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from glasshouse.functional.intervals import Array, mean_interval

BINS = 10
FEWEST = 5  # judgements in a bin; of fewer a share says little


def reliability(predicted: Array, judged: Array) -> list[tuple[float, float, float, float, int]]:
    """Of bins of predicted probabilities: their mean, the judged share with its 95 % interval, and how many."""
    edges = np.linspace(0, 1, BINS + 1)
    places = np.clip(np.digitize(predicted, edges) - 1, 0, BINS - 1)
    found = []
    for number in range(BINS):
        inside = places == number
        if inside.sum() >= FEWEST:
            share = mean_interval(judged[inside].tolist())
            ends = max(share.low, 0.0), min(share.high, 1.0)
            found.append((float(predicted[inside].mean()), share.mean, *ends, int(inside.sum())))
    return found


def draw_reliability(predicted: Array, judged: Array) -> bytes:
    """Judged share against predicted probability on held-out originals; on the diagonal it can be taken at its word."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2, 4.6), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=(3, 1), sharex=True)
    bins = reliability(predicted, judged)
    above.plot([0, 1], [0, 1], "--", color="grey", linewidth=1)
    if bins:
        x, share, low, high, _ = (np.array(column) for column in zip(*bins, strict=True))
        above.errorbar(x, share, yerr=(np.maximum(share - low, 0), np.maximum(high - share, 0)), fmt="o-", capsize=2)
    above.set(ylabel="recognised by judges", xlim=(0, 1), ylim=(0, 1))
    below.hist(predicted, bins=BINS, range=(0, 1), color="C0")
    below.set(xlabel="probability that SemSim gives", ylabel="guesses")
    return _png(figure)


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100, facecolor="white")
    return buffer.getvalue()
