"""A damaged database never lies: what is left of it is as it was written, and the rest is refused or computed anew.

``make soak`` makes 2,000 damages.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress

import pytest
from tests.small_study import make_study
from tests.soak import count, piece

from glasshouse.errors import StudyError
from glasshouse.store import DATABASE_FILE, Score, Store, Votes, mend, mending
from glasshouse.store.seals import sealed_case

DAMAGES = count(40, 2_000)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """The file of a finished study with scores and a trained network."""
    directory = make_study(tmp_path_factory.mktemp("study"))
    store = Store(directory / DATABASE_FILE)
    store.add_targets([("t1", {"model": "lenet"}), ("t2", {"model": "mlp"})])
    store.finish_target("t1", {"weights": {"2": "0" * 24}})
    store.add_scores(
        Score(one.case_key, one.place, name, one.place / 7)
        for name in ("mse", "psnr", "ssim")
        for one in store.reconstructions()
    )
    store.close()
    with sqlite3.connect(directory / DATABASE_FILE) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return directory / DATABASE_FILE


def everything(file):
    """All that a study found, as sets."""
    store = Store(file)
    try:
        done = {(one.key, str(one.outcome)) for one in (*store.cases(), *store.targets()) if one.state == "done"}
        return {*store.images(), *store.reconstructions()}, done, set(store.scores().items())
    finally:
        store.close()


def flip(file, dice):
    """Change one to thirty neighbouring bytes, or empty a page."""
    content = bytearray(file.read_bytes())
    start, length = dice.randrange(len(content)), dice.randint(1, 30)
    if dice.random() < 0.2:
        start, length = start // 4096 * 4096, 4096
    content[start : start + length] = dice.randbytes(len(content[start : start + length]))
    file.write_bytes(content)


@pytest.mark.soak
def test_whatever_is_damaged_what_is_left_is_right(database, tmp_path, record_property):
    whole = everything(database)
    dice = random.Random(3 + piece())
    refused = kept = rebuilt = 0
    for number in range(DAMAGES):
        file = tmp_path / str(number) / DATABASE_FILE
        file.parent.mkdir()
        shutil.copy(database, file)
        flip(file, dice)
        try:
            mend(file)
        except StudyError:
            refused += 1
        else:
            for found, before in zip(everything(file), whole, strict=True):
                assert found <= before
            kept += everything(file) == whole
            rebuilt += file.with_name(f"{file.name}.damaged").exists()
        shutil.rmtree(file.parent)
    assert rebuilt
    assert refused < DAMAGES / 2
    counts = {"cost nothing": kept, "mended": DAMAGES - refused - kept, "refused": refused, "rebuilt": rebuilt}
    for name, number in {"damages": DAMAGES, **counts}.items():
        record_property(name, number)


def changed(file, statement):
    with sqlite3.connect(file) as connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "lost"),
    [
        ("UPDATE scores SET value = 0.5 WHERE rowid = 4", (0, 0, 1)),
        ("UPDATE cases SET outcome = '{\"seconds\": 1}' WHERE key = 'none2'", (1, 1, 0)),
        ("UPDATE reconstructions SET case_key = 'none3' WHERE case_key = 'none2'", (2, 2, 0)),
        ("DELETE FROM reconstructions WHERE case_key = 'none2'", (1, 1, 0)),
        ("UPDATE targets SET outcome = '{}' WHERE key = 't1'", (0, 1, 0)),
        ("UPDATE images SET label = 9 WHERE place = 0", (1, 0, 0)),
        ("UPDATE cases SET described = '{' WHERE key = 'none2'", (1, 1, 0)),
        ("UPDATE cases SET described = CAST(x'7B2261223A2022FF227D' AS TEXT) WHERE key = 'none2'", (1, 1, 0)),
    ],
)
def test_a_row_that_is_not_as_it_was_sealed_goes_and_takes_no_other_along(database, tmp_path, statement, lost):
    file = shutil.copy(database, tmp_path / DATABASE_FILE)
    before = everything(file)
    changed(file, statement)
    mend(file)
    assert tuple(len(old - new) for old, new in zip(before, everything(file), strict=True)) == lost
    mend(file)
    assert tuple(len(old - new) for old, new in zip(before, everything(file), strict=True)) == lost


def first_page(file, table):
    """Where the first page of a table begins."""
    with closing(sqlite3.connect(file)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return (page - 1) * 4096


def page_of(file, table):
    start = first_page(file, table)
    return file.read_bytes()[start : start + 4096]


def empty_page(file, table):
    """Empty the first page of a table, as a broken disk does, whoever has the file open."""
    start = first_page(file, table)
    with file.open("r+b") as content:
        content.seek(start)
        content.write(bytes(4096))


#: Another program that votes, says so, and stays until it is ended; a text, so that it can be sent as it is.
VOTING = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("INSERT INTO annotators VALUES ('b', 'Bob', 'human', 77, NULL, 0)")
print("voted", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def voting(database, tmp_path):
    """A database with a damaged page that another program has open, and that program."""
    file = shutil.copy(database, tmp_path / DATABASE_FILE)
    words = [sys.executable, "-c", VOTING, str(file)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"voted\n"
        empty_page(file, "scores")
        yield file, other
        other.kill()


def test_a_database_that_another_program_has_open_is_not_written_anew(voting, database):
    file, other = voting
    with pytest.raises(StudyError, match="while another program has it open: end that one"):
        mend(file)
    assert page_of(file, "scores") == bytes(4096)
    other.kill()
    other.wait()
    assert file.with_name(f"{file.name}-wal").stat().st_size  # the vote is in the log alone
    mend(file)
    for found in (file, file.with_name(f"{file.name}.damaged")):
        with closing(sqlite3.connect(found)) as connection:
            assert connection.execute("SELECT name FROM annotators").fetchall() == [("Bob",)]
    assert everything(file)[:2] == everything(database)[:2]


def test_votes_that_cannot_be_read_are_never_thrown_away(database, tmp_path):
    file = shutil.copy(database, tmp_path / DATABASE_FILE)
    empty_page(file, "votes")
    with pytest.raises(StudyError, match="damaged where votes are kept"):
        mend(file)
    assert page_of(file, "votes") == bytes(4096)


def test_votes_outlive_damage_to_results(database, tmp_path):
    file = shutil.copy(database, tmp_path / DATABASE_FILE)
    votes = Votes(file)
    invited = votes.invite("Ann")
    votes.close()
    empty_page(file, "scores")
    mend(file)
    assert not everything(file)[2]
    assert everything(file)[:2] == everything(database)[:2]
    assert page_of(tmp_path / f"{DATABASE_FILE}.damaged", "scores") == bytes(4096)
    votes = Votes(file)
    assert votes.annotators() == [invited]
    votes.close()


def test_older_rows_without_a_seal_are_trusted(database, tmp_path):
    file = shutil.copy(database, tmp_path / DATABASE_FILE)
    before = everything(file)
    changed(file, "UPDATE scores SET seal = NULL")
    mend(file)
    assert everything(file) == before


def test_nothing_is_made_where_nothing_is(tmp_path):
    mend(tmp_path / DATABASE_FILE)
    assert not list(tmp_path.iterdir())


def test_a_case_that_is_finished_meanwhile_is_not_taken_for_damaged(database, tmp_path, monkeypatch):
    file = shutil.copy(database, tmp_path / DATABASE_FILE)
    with closing(Store(file)) as store:
        store.add_cases([("late", {"model": "lenet"})])
    picture = (0, "images/late.png", "0" * 64)
    looked = mending._held

    def then_finished(connection):
        found = looked(connection)
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(file, timeout=0)) as other, other:
            other.execute("INSERT INTO reconstructions VALUES ('late', ?, ?, ?)", picture)
            seal = sealed_case("late", "{}", [picture])
            other.execute("UPDATE cases SET state = 'done', outcome = '{}', seal = ? WHERE key = 'late'", (seal,))
        return found

    monkeypatch.setattr(mending, "_held", then_finished)
    mend(file)
    with closing(Store(file)) as store:
        assert "late" in {case.key for case in store.cases()}
