"""Tables fit the terminal without cutting words; what does not fit is left out and named."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from rich.console import Console

from glasshouse.cli.fitting import FOLDS, fitted, fold
from glasshouse.cli.tables import result_table
from glasshouse.studies.plan import DEFAULT_ATTACKS, DEFAULT_DEFENSES, DEFAULT_METRICS, Plan
from glasshouse.studies.results import AuditResult
from glasshouse.studies.rows import Identified, Row, Setup
from glasshouse.types import Interval, Threat


def printed(table, width: int) -> str:
    console = Console(width=width, file=StringIO())
    console.print(table)
    return console.file.getvalue()


def audited(*rounds: str) -> AuditResult:
    """A default audit of three images, in as many rounds and both batch-norm modes."""
    card = Threat("eval", "running", "recovered", 1.0, 1, 1, 1, "0", "fixed settings", None)
    setups = [
        Setup("photos", "resnet20", defense, attack, 0, replace(card, round=one, batchnorm=mode), defense, attack)
        for one in rounds
        for mode in (("eval", "train") if len(rounds) > 1 else ("eval",))
        for defense in DEFAULT_DEFENSES
        for attack in DEFAULT_ATTACKS
    ]
    rows = [Row(setup, metric, Interval(0.0123, 0.01, 0.02, 3)) for setup in setups for metric in DEFAULT_METRICS]
    share = Interval(1.0, 0.4, 1.0, 3)
    seen = [Identified(setup, share, (0, 1, 2), share) for setup in setups]
    return AuditResult(Path(), Plan(), (), tuple(rows), (), (), tuple(seen), (), 0)


@pytest.mark.parametrize("rounds", [("0",), ("0", "trained")])
def test_the_table_of_an_audit_cuts_no_word_at_eighty_columns(rounds):
    result = audited(*rounds)
    text = printed(result_table(result, 80), 80)
    assert max(map(len, text.splitlines())) <= 80
    words = set(re.split(r"[\s│┃]+", text))
    names = {piece for one in (*DEFAULT_ATTACKS, *DEFAULT_DEFENSES) for piece in FOLDS.split(one)}
    assert all(any(word.endswith(piece) for word in words) for piece in names)
    assert {"defense", "attack", "seen", "apart", "semsim", "lpips", "trained" if len(rounds) > 1 else "seen"} <= words
    assert "no room for mse" in " ".join(text.split())
    wide = printed(result_table(result, 250), 250)
    assert {*DEFAULT_ATTACKS, *DEFAULT_DEFENSES, *DEFAULT_METRICS} <= set(re.split(r"[\s│┃]+", wide))
    assert "no room" not in wide


def test_columns_are_left_out_in_turn_and_no_more_than_must_be():
    rows = [("longer", "words", "here", "again")]
    heads = ("a", "b", "c", "d")
    assert "no room" not in printed(fitted("t", heads, rows, 33, spare=("c", "b")), 33)
    less = printed(fitted("t", heads, rows, 32, spare=("c", "b")), 60)
    assert "here" not in less
    assert "words" in less
    assert "no room for c in 32 columns:" in " ".join(less.split())


def test_names_are_no_markup_and_room_goes_to_what_lacks_least():
    text = printed(fitted("[b]", ("x", "y"), [("[red]none[/red] and more", "one two"), ("", "1 of 3")], 28), 28)
    assert "[b]" in text
    assert "[red]none[/" in text
    assert "one two" in text


@given(some.text(some.sampled_from("ab:,/= \n"), max_size=40), some.integers(1, 20))
def test_folding_loses_nothing_but_blanks_and_is_as_narrow_as_words_allow(text, width):
    lines = fold(text, width).split("\n")
    assert "".join("".join(lines).split()) == "".join(text.split())
    longest = max((len(piece.strip()) for line in text.splitlines() for piece in FOLDS.split(line)), default=0)
    assert all(len(line.strip()) <= max(width, longest) for line in lines)
