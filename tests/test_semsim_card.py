"""The figures of SemSim's model card: what they say is what the evaluation and the ratings say."""

from __future__ import annotations

import importlib
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture
def card(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("generate_semsim")


def rated(sheet, original, grade, value):
    return {"sheet": sheet, "original": original, "grade": grade, "ssim": value, "lpips": 1 - value}


@pytest.mark.parametrize("name", ["ssim", "lpips"])
def test_pairs_in_order_equal_a_slow_loop(card, name):
    random = np.random.default_rng(0)
    found = [rated("ab"[n % 2], n % 5, float(random.integers(0, 4)), float(random.normal())) for n in range(60)]
    slow = [
        (one["original"], float(one["ssim"] > two["ssim"]))
        for one, two in itertools.product(found, found)
        if (one["original"], one["sheet"]) == (two["original"], two["sheet"])
        and one["grade"] >= two["grade"] + card.CLEARLY
    ]
    expected = [np.mean([right for at, right in slow if at == original]) for original in range(5)]
    assert card.in_order(found, name) == pytest.approx(expected)


def test_originals_without_two_grades_count_nothing(card):
    found = [rated("a", 0, 1.0, 0.2), rated("a", 0, 1.1, 0.3), rated("a", 1, 0.0, 0.1), rated("a", 1, 2.0, 0.1)]
    assert card.in_order(found, "ssim") == [0.5]  # a tie of the one original that has a pair


def difference(first, second, low, high):
    one = {"first": first, "second": second}
    for name in ("tau", "auc_within_original"):
        one |= {name: None if low is None else (low + high) / 2, f"{name}_low": low, f"{name}_high": high}
    return one


def test_differences_are_of_semsim_less_the_other(card):
    known = [
        difference("lpips", "semsim", 0.1, 0.3),
        difference("semsim", "mse", 0.2, 0.4),
        difference("mse", "lpips", 0, 1),
    ]
    known.append(difference("psnr", "semsim", None, None))
    evaluation = {"tests": [{"left_out": "faces", "correlation": {"differences": known}}, {"correlation": None}]}
    found = {other: one for _, other, one in card.differences(evaluation)}
    assert set(found) == {"lpips", "mse", "psnr"}
    assert (found["lpips"]["tau"], found["lpips"]["tau_low"], found["lpips"]["tau_high"]) == pytest.approx(
        (-0.2, -0.3, -0.1)
    )
    assert found["mse"]["tau"] == pytest.approx(0.3)
    said = card.resolved(evaluation)
    favour, against = said.partition("to its disadvantage")[::2]
    assert said.startswith("Of 4 paired")
    assert ("mse (tau, faces)" in favour, "lpips (tau, faces)" in against) == (True, True)
    assert "lpips" not in favour


def test_probabilities_are_off_by_what_tenths_are_on_average(card):
    given, said = np.array([0.01, 0.09, 0.55, 0.55, 1.0]), np.array([0.0, 0.0, 1.0, 0.5, 1.0])
    assert card.off(given, said) == pytest.approx((2 * 0.05 + 2 * 0.2 + 0) / 5)


def test_strangers_are_farther_than_another_digit_of_its_class(card):
    kin, strangers, noisy = card.likeness("digits")
    assert kin["pairs"] == strangers["pairs"] == noisy["pairs"] == card.PAIRS
    assert noisy["distance"] < kin["distance"] < strangers["distance"]
    assert noisy["probability"] > kin["probability"] > strangers["probability"]


def test_the_page_is_what_the_results_say(card):
    """Nobody typed a figure: what is generated anew from the committed results stands on the page."""
    text = card.figures(json.loads(card.RESULTS.read_text()))
    assert text in card.PAGE.read_text(encoding="utf-8")
