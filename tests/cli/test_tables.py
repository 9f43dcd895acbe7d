"""The terminal's table says what has no number, and why."""

from __future__ import annotations

import math
from dataclasses import replace
from io import StringIO
from pathlib import Path

from rich.console import Console

from glasshouse.cli.tables import number, reasons, result_table
from glasshouse.functional.intervals import mean_interval
from glasshouse.studies.plan import Plan
from glasshouse.studies.results import AuditResult
from glasshouse.studies.rows import Row, Setup, row_json
from glasshouse.studies.table import _identical
from glasshouse.types import Interval, Threat

CARD = Threat("none", "none", "recovered", 1.0, 1, 1, 1, "0", "tuned", None)
SETUP = Setup("photos", "lenet", "none", "invgrad", 0, CARD, "none", "invgrad:steps=1")


def shown(*rows: Row) -> tuple[str, AuditResult]:
    plan = Plan(metrics=tuple(row.metric for row in rows))
    result = AuditResult(Path(), plan, (), rows, (), (), (), (), 0)
    console = Console(width=100, record=True, file=StringIO())
    console.print(result_table(result, 100))
    return console.export_text(), result


def test_reasons_stand_below_the_table_once():
    rows = [Row(SETUP, "ssim", None, "images are smaller than 11 pixels")] * 2
    text, result = shown(*rows)
    assert "n/a" in text
    assert reasons(result) == ["n/a: ssim: images are smaller than 11 pixels"]


def test_one_identical_picture_does_not_hide_the_others():
    reason = _identical([math.inf, 20.0, 30.0])
    assert reason == "1 of 3 identical, the others 25"
    text, _ = shown(Row(SETUP, "psnr", Interval(math.inf, math.inf, math.inf, 3), reason))
    assert "1 of 3 identical" in text
    assert _identical([1.0, 2.0]) is None
    assert _identical([math.inf]) == "1 of 1 identical"


def test_the_title_says_whether_attacks_were_tuned():
    text, _ = shown(Row(SETUP, "mse", Interval(0.1, 0.0, 0.2, 3)))
    assert "attacks: tuned" in " ".join(text.split())


def test_one_image_has_a_value_and_no_interval():
    row = Row(SETUP, "mse", mean_interval([0.25]))
    text, result = shown(row)
    assert number(mean_interval([0.25]), wide=True) == "0.25"
    assert "0.25" in text
    assert reasons(result) == ["one image: no interval"]
    assert row_json(row)["mean"] == 0.25
    assert row_json(row)["low"] is row_json(row)["high"] is None
    assert "<td>0.25<td>one image: no interval<td>1" in result._repr_html_()


def test_metrics_of_sets_have_no_interval_in_a_notebook_either():
    _, result = shown(Row(SETUP, "fid", Interval(30.0, math.nan, math.nan, 4)))
    assert "<td>30<td>one value for the whole set<td>4" in result._repr_html_()


def test_what_tuning_chose_stands_in_the_table_and_what_it_did_not_search_too():
    chosen = replace(SETUP, attack="invgrad (tuned)", attack_spec="invgrad:lr=0.3,steps=7,tv=0.01")
    fixed = replace(SETUP, attack="dlg", attack_spec="dlg", threat=replace(CARD, tuning="fixed settings"))
    text, _ = shown(*(Row(setup, "mse", Interval(0.1, 0.0, 0.2, 3)) for setup in (chosen, fixed)))
    assert "invgrad:steps=7,tv=0.01,lr=0.3" in text
    assert "│ fixed settings" in text
    text, _ = shown(Row(fixed, "mse", Interval(0.1, 0.0, 0.2, 3)))
    assert "attacks: fixed settings" in " ".join(text.split())
