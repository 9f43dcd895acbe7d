"""Exports hold every vote once, of one kind unless asked, the same in each format."""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest

from glasshouse.errors import SettingError
from glasshouse.store import Vote
from glasshouse.votes.exporters import export, to_csv, to_json, to_parquet
from glasshouse.votes.items import Questions, prepare
from glasshouse.votes.lines import lines


@pytest.fixture
def voted(study, votes):
    prepare(study, votes, Questions())
    ada, probe = votes.invite("Ada").id, votes.invite("probe", kind="classifier").id
    for item in votes.claim(ada, 0, 3):
        votes.vote(Vote(item.id, ada, None, item.truth, "guess", 1.25, when=9.0))
    votes.record([Vote(votes.items()[0].id, probe, "cat", when=1.0, grade=0.625)])
    return votes


def test_kinds_are_apart_unless_asked(voted):
    assert {line.kind for line in lines(voted)} == {"human", None}
    assert {line.kind for line in lines(voted, "classifier")} == {"classifier", None}
    assert {line.kind for line in lines(voted, None)} == {"human", "classifier", None}


def test_every_item_is_there_with_how_it_was_judged(voted):
    table = lines(voted)
    assert {line.item for line in table} == {item.id for item in voted.items()}
    given = [line for line in table if line.annotator]
    assert len(given) == 3
    assert all((line.recognised, line.forced_recognised, line.basis) == (False, True, "truth") for line in given)
    assert all(line.reference == line.truth for line in given)


def test_the_formats_say_the_same(voted):
    from pyarrow import parquet

    table = lines(voted, None)
    assert [line.grade for line in table if line.kind == "classifier"] == [0.625]
    as_json = json.loads(to_json(table))
    assert as_json["schema"] == 1
    rows = list(csv.DictReader(io.StringIO(to_csv(table).decode())))
    columns = parquet.read_table(io.BytesIO(to_parquet(table))).to_pylist()
    assert len(rows) == len(columns) == len(as_json["votes"]) == len(table)
    for row, column, one in zip(rows, columns, as_json["votes"], strict=True):
        assert json.loads(column.pop("answers")) == one.pop("answers") == json.loads(row.pop("answers"))
        assert column == one
        assert row == {name: "" if value is None else str(value) for name, value in column.items()}


def test_the_suffix_says_how(voted, tmp_path):
    for name in ("a.csv", "b.JSON", "c.parquet"):
        export(lines(voted), tmp_path / name)
        assert (tmp_path / name).stat().st_size
    with pytest.raises(SettingError, match=r"ends in '.xlsx'"):
        export(lines(voted), tmp_path / "d.xlsx")


def test_without_pyarrow_parquet_says_what_to_install(voted, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SettingError, match=r"pip install 'glasshouse\[annotate\]'"):
        to_parquet(lines(voted))
