"""SemSim's pictures: what they show is right, and they are pictures."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glasshouse.reports.semsim import (
    ablation_remarks,
    ablation_rows,
    draw_ablation,
    draw_contradictions,
    draw_judged,
    draw_order,
    draw_reliability,
    reliability,
    turned,
)
from glasshouse.studies.ordering import Contradiction, Ordering


def test_bins_hold_what_was_judged_against_what_was_predicted():
    predicted = np.repeat([0.05, 0.55, 0.95, 1.0], [10, 10, 5, 5])
    judged = np.repeat([0.0, 1.0, 1.0, 0.5], [10, 10, 5, 5])
    owners = np.arange(30)
    bins = reliability(predicted, judged, owners)
    assert [(round(mean, 3), share, count) for mean, share, _, _, count in bins] == [
        (0.05, 0.0, 10),
        (0.55, 1.0, 10),
        (0.975, 0.75, 10),
    ]
    assert all(0 <= low <= share <= high <= 1 for _, share, low, high, _ in bins)
    assert reliability(predicted[:3], judged[:3], owners[:3]) == []
    assert draw_reliability(predicted, judged, owners).startswith(b"\x89PNG")


def test_an_original_counts_once_in_a_bin():
    owners = np.repeat(np.arange(6), [50, 1, 1, 1, 1, 1])
    judged = (owners == 0).astype(float)
    ((_, share, low, high, originals),) = reliability(np.full(55, 0.5), judged, owners)
    assert (share, originals) == (pytest.approx(1 / 6), 6)
    assert high - low > 0.5  # fifty guesses of one original are no fifty judgements
    assert reliability(np.full(55, 0.5), judged, np.zeros(55, int)) == []


SIZED = ((0, -0.4), (50, -0.5), (90, -0.9))  # originals, and tau after them


def test_pictures_of_orders_and_ablations(rng):
    images = tuple(torch.rand(1, 8, 8, generator=rng) for _ in range(3))
    shown = Ordering(images[0], images, np.array([9.0, 12.0, 10.0]), np.array([0.5, 0.1, 0.3]), np.array([0, 1, 0]))
    assert draw_order(shown).startswith(b"\x89PNG")
    assert draw_judged([shown, shown]).startswith(b"\x89PNG")
    twice = [Contradiction(images[0], images[1:], (0.0, 1.0), ("psnr", "mse"))] * 2
    assert draw_contradictions(twice).startswith(b"\x89PNG")
    rows = [
        {"panel": "loss", "value": "rank", "originals": 9, "rho": -0.5, "rho_low": -0.9, "rho_high": None, "tau": -0.4}
        | {"tau_low": -0.8, "tau_high": 0.0, "auc_within_original": None, "failed": None},
        {"panel": "loss", "value": "triplet", "originals": 9, "failed": "too few"}
        | {
            name: None
            for end in ("", "_low", "_high")
            for name in (f"rho{end}", f"tau{end}", f"auc_within_original{end}")
        },
    ]
    assert draw_ablation(rows).startswith(b"\x89PNG")
    assert ablation_rows(rows) == [
        ["loss", "rank", "9", "-0.500 [-0.900, nan]", "-0.400 [-0.800, 0.000]", "n/a"],
        ["loss", "triplet", "9", "n/a", "n/a", "n/a"],
    ]
    assert ablation_remarks(rows) == ["loss triplet: too few"]
    sized = [rows[0] | {"panel": "training originals", "originals": some, "tau": tau} for some, tau in SIZED]
    assert ablation_remarks(sized[:1]) == []
    assert ablation_remarks(sized[:2])[0].endswith(
        "after 50 originals -0.500, a difference within the interval of the first: what the network is built of ranks, "
        "lessons add little."
    )
    assert ablation_remarks(sized)[0].endswith("after 90 originals -0.900: lessons changed how it ranks.")
    value, (below, above) = turned(rows[:1], "tau")
    assert (value - below, value, value + above) == (0.0, 0.4, 0.8)  # -tau, between minus its high and its low end
