"""Rows of a table are gone on with by whoever asks the same of the same votes, and by nobody else."""

from __future__ import annotations

import json

import pytest
from tests.judged_study import make_study, vote

from glasshouse.errors import StudyError
from glasshouse.semsim import Recipe
from glasshouse.studies.semsim import Lesson
from glasshouse.studies.unfinished import question, rows_before


def test_who_asks_the_same_of_the_same_votes_goes_on(tmp_path):
    study, file = make_study(tmp_path / "study"), tmp_path / "table.json"
    vote(study, ("alexnet lineup 4",))
    ask = lambda epochs=1, **more: question([study], [], Lesson(recipe=Recipe(epochs=epochs)), **more)  # noqa: E731
    assert rows_before(file, ask(), "rows") == []
    file.write_text(json.dumps({"asked": ask(leave_out=None), "rows": [{"value": 1}]}))
    assert rows_before(file, ask(), "rows") == [{"value": 1}]
    for other, said in ((ask(2), "lesson"), (ask(leave_out="a"), "leave_out")):
        with pytest.raises(StudyError, match=f"of one with other {said}: choose another --out"):
            rows_before(file, other, "rows")
    vote(study, ("a latecomer",), kind="human")
    with pytest.raises(StudyError, match="of one with other votes"):
        rows_before(file, ask(), "rows")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"asked": 1, "rows": []}', '{"asked": {}, "rows": [1]}', "\udcff"]
)
def test_what_is_no_such_table_stays_as_it_is(tmp_path, content):
    file = tmp_path / "table.json"
    file.write_text(content, errors="surrogateescape")
    with pytest.raises(StudyError, match="cannot be gone on with"):
        rows_before(file, {}, "rows")
    assert file.read_text(errors="surrogateescape") == content
