"""Reading tables of votes: what is kept, and what is refused with its place."""

from __future__ import annotations

import numpy as np
import pytest

from glasshouse.errors import DataError
from glasshouse.votes import table as module
from glasshouse.votes.table import NO_VOTE, NONE, read_votes

HEADER = "config,set_index,gt_fine,gt_name,annot1,annot2,psnr"
ROWS = ("a,7,3,cat,3,-1,12.5", "b,7,3,cat,,3.0,11", "a,9,0,dog,nan,0,1e1")


@pytest.fixture
def write(tmp_path):
    def written(*rows: str, header: str = HEADER, encoding: str = "utf-8"):
        path = tmp_path / "votes.csv"
        path.write_bytes("\n".join((header, *rows)).encode(encoding))
        return path

    return written


def test_a_table_is_read(write):
    table = read_votes(write(*ROWS, ""))
    assert table.models == ("a", "b")
    assert table.originals == ("7", "9")
    assert table.annotators == ("annot1", "annot2")
    assert table.model.tolist() == [0, 1, 0]
    assert table.original.tolist() == [0, 0, 1]
    assert table.truth.tolist() == [3, 3, 0]
    assert table.votes.tolist() == [[3, NONE], [NO_VOTE, 3], [NO_VOTE, 0]]
    assert table.numbers("psnr").tolist() == [12.5, 11, 10]
    assert table.cells["gt_name"] == ("cat", "cat", "dog")


def test_a_byte_order_mark_and_quoted_cells_do_no_harm(write):
    table = read_votes(write('"a, b",7,3,cat,3,-1,12.5', encoding="utf-8-sig"))
    assert table.models == ("a, b",)


def test_without_a_name_of_the_original_each_row_is_its_own(write):
    table = read_votes(write("a,3,3", "a,3,3", header="config,gt_fine,annot1"))
    assert table.originals == ()
    assert np.array_equal(table.original, [0, 1])


@pytest.mark.parametrize(
    ("header", "rows", "said"),
    [
        ("", (), "is empty"),
        (HEADER, (), "no rows"),
        ("config,annot1", ("a,1",), "no column 'gt_fine'"),
        ("gt_fine,annot1", ("1,1",), "no column 'config'"),
        ("config,gt_fine,annotator", ("a,1,1",), "has no votes"),
        ("config,gt_fine,annot1,annot1", ("a,1,1,1",), "more than one column 'annot1'"),
        (HEADER, (ROWS[0], "a,8"), "row 2: 2 cells, but 7 columns"),
        (HEADER, (ROWS[0], ROWS[0]), "'a' has image 7 more than once"),
        (HEADER, ("a,7,3,cat,yes,-1,1",), "row 1: annot1 is 'yes'"),
        (HEADER, ("a,7,3,cat,2.5,-1,1",), "annot1 is '2.5': give a class"),
        (HEADER, ("a,7,3,cat,-3,-1,1",), "annot1 is '-3'"),
        (HEADER, ("a,7,3,cat,1e300,-1,1",), "annot1 is '1e300'"),
        (HEADER, ("a,7,-1,cat,1,-1,1",), "gt_fine is '-1'"),
        (HEADER, ("a\x1b[2J,7,3,cat,1,-1,1",), "cannot be printed"),
        ("con\x07fig", ("a",), "cannot be printed"),
        (HEADER, ('a,7,3,"cat,1,-1,1',), "not a CSV table"),
    ],
)
def test_what_is_not_a_table_is_refused(write, header, rows, said):
    with pytest.raises(DataError, match=said):
        read_votes(write(*rows, header=header))


@pytest.mark.parametrize("cell", ["", "nan", "inf", "high", "0x10"])
def test_a_metric_without_a_number_is_refused(write, cell):
    table = read_votes(write(ROWS[0], f"a,9,0,dog,1,0,{cell}"))
    with pytest.raises(DataError, match=f"row 2: psnr is '{cell}'"):
        table.numbers("psnr")


def test_files_that_are_no_text_are_refused(write, tmp_path, monkeypatch):
    with pytest.raises(DataError, match="not UTF-8"):
        read_votes(write("a,7,3,cåt,3,-1,1", encoding="latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        read_votes(write(*ROWS, encoding="utf-16"))
    with pytest.raises(DataError, match="Cannot read"):
        read_votes(tmp_path / "nothing.csv")
    with pytest.raises(DataError, match="Cannot read"):
        read_votes(tmp_path)
    monkeypatch.setattr(module, "LARGEST_FILE", 100)
    with pytest.raises(DataError, match="at most 100 are read"):
        read_votes(write(*ROWS))
