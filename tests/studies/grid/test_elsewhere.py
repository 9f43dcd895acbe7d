"""A study whose results lie on a server and whose pictures lie elsewhere gives the same numbers."""

from __future__ import annotations

import json
import pickle
import secrets
import tempfile
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.postgres import fresh_database

from glasshouse.errors import StudyError
from glasshouse.reports.grid import write_grid_report
from glasshouse.store import DATABASE_FILE, STORAGE_FILE, Album, Location, Store
from glasshouse.store.album import MARK
from glasshouse.studies import bench as bench_room
from glasshouse.studies.audit import Running
from glasshouse.studies.bench import Bench
from glasshouse.studies.grid.comparison import compare
from glasshouse.studies.grid.lines import lines
from glasshouse.studies.grid.program import carry_out
from glasshouse.studies.grid.status import status
from glasshouse.studies.networks import trained_network
from glasshouse.studies.reading import read_grid
from glasshouse.types import ImageSpec


@pytest.fixture(scope="module")
def part(grid):
    """One data set of the small study, trained in one way."""
    return replace(grid, datasets=grid.datasets[:1], recipes=("none",), checkpoints=(2,))


@pytest.fixture(scope="module")
def elsewhere(part, postgresql, tmp_path_factory):
    """A study with its results on PostgreSQL and its pictures in memory."""
    directory = tmp_path_factory.mktemp("elsewhere") / "study"
    with fresh_database(postgresql, f"study_{secrets.token_hex(4)}") as url:
        pictures = f"memory://{secrets.token_hex(4)}"
        carry_out(part, directory, Running(store=url.replace("tester@", "tester:secret@"), pictures=pictures))
        yield directory


def rows(directory, part):
    found = json.loads((directory / "study.json").read_text())["rows"]
    return [row for row in found if (row["dataset"], row["recipe"], row["epoch"]) == (part.datasets[0], "none", 2)]


def test_the_numbers_are_those_of_a_directory(elsewhere, finished, part):
    assert len(rows(elsewhere, part)) == 3
    assert rows(elsewhere, part) == rows(finished, part)
    assert {(one.difference.mean, one.difference.images) for one in compare(elsewhere, finished)} == {(0.0, 2)}


def test_the_numbers_are_those_of_another_disk(part, finished, tmp_path):
    places = {"store": f"sqlite:///{tmp_path}/other.db", "pictures": f"file://{tmp_path}/pictures"}
    carry_out(part, tmp_path / "study", Running(**places))
    assert rows(tmp_path / "study", part) == rows(finished, part)
    assert len(list((tmp_path / "pictures").glob("*.png"))) == 4  # two originals, two reconstructions
    assert {path.name for path in (tmp_path / "pictures").iterdir() if path.suffix != ".png"} == {".glasshouse"}
    assert not {"images", DATABASE_FILE} & {path.name for path in (tmp_path / "study").iterdir()}


def test_neither_results_nor_pictures_nor_the_password_lie_in_the_directory(elsewhere):
    assert not (elsewhere / DATABASE_FILE).exists()
    assert not (elsewhere / "images").exists()
    for path in elsewhere.rglob("*"):
        assert path.is_dir() or b"secret" not in path.read_bytes()


def test_status_export_and_report_find_them_again(elsewhere):
    found = status(read_grid(elsewhere), elsewhere)
    assert found.cases is not None
    assert (found.targets.done, found.cases.done) == (1, 2)
    assert [line.image for line in lines(elsewhere)] == [0, 1]
    assert "data:image/png" in write_grid_report(elsewhere).read_text()


def test_pictures_that_are_not_mounted_are_not_computed_again(elsewhere, part):
    album = Location.of(elsewhere).album
    files, mark = album._path(MARK)
    files.mv(mark, f"{mark}-away")
    with pytest.raises(StudyError, match="is it mounted"):
        carry_out(part, elsewhere, Running())
    files.mv(f"{mark}-away", mark)


def test_the_next_run_finds_all_and_makes_lost_pictures_again(elsewhere, part):
    location = Location.of(elsewhere)
    assert carry_out(part, elsewhere, Running()).attacking.found == 2
    before = rows(elsewhere, part)
    store = Store(location.database)
    location.album.write(store.reconstructions()[0].file, b"damaged")
    store.close()
    again = carry_out(part, elsewhere, Running()).attacking
    assert (again.found, again.done) == (1, 1)
    assert rows(elsewhere, part) == before


def test_a_second_directory_cannot_run_on_the_same_database_at_once(elsewhere, part, tmp_path):
    location = Location.of(elsewhere)
    with location.held(), pytest.raises(StudyError, match="Another run is working on postgresql"):
        carry_out(part, tmp_path / "study", Running(store=str(location.database)))
    assert not (tmp_path / "study" / STORAGE_FILE).exists()


def test_another_study_cannot_use_the_same_database(elsewhere, part, tmp_path):
    for plan in (part, replace(part, seed=5)):
        with pytest.raises(StudyError, match="belongs to another study"):
            carry_out(plan, tmp_path, Running(store=str(Location.of(elsewhere).database)))


def test_a_wrong_place_is_refused_before_anything_is_written(part, tmp_path):
    for wrong in ({"store": "postgresql://user:secret@127.0.0.1:1/x"}, {"pictures": "nothing://x"}):
        with pytest.raises(StudyError) as caught:
            carry_out(part, tmp_path / "study", Running(**wrong))
        assert "secret" not in str(caught.value)
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize("packed", [False, True])
def test_workers_get_pictures_that_they_cannot_reach(finished, packed):
    store = Store(finished / DATABASE_FILE)
    images = tuple(store.images())
    store.close()
    album = Album(f"memory://{secrets.token_hex(4)}")
    for image in images:
        album.write(image.file, Album.of(finished).read(image.file))
    bench = Bench(finished, album, images, {"digits:size=16": ImageSpec(1, 16, 16, 10)})
    sent = pickle.dumps(bench.packed() if packed else bench)
    for image in images:  # as if another process had them never
        album._reached()[0].rm(album._path(image.file)[1])
    assert pickle.loads(sent).batch((0, 1))[0].shape == (2, 1, 16, 16)


def test_a_bench_that_travelled_lays_weights_down_for_nobody_else_and_leaves_nothing(finished, tmp_path, monkeypatch):
    store = Store(finished / DATABASE_FILE)
    facts = store.cases()[0].described
    images = tuple(store.images())
    store.close()
    sent = Bench(finished, Album.of(finished), images, {facts["dataset"]: ImageSpec(1, 16, 16, 10)}).packed()
    arrived = pickle.loads(pickle.dumps(replace(sent, directory=tmp_path / "nowhere")))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []

    def load(text, image, file):
        seen.append((file.parent.stat().st_mode & 0o777, [path.suffix for path in tmp_path.rglob("*.*")]))
        return trained_network(text, image, file)

    monkeypatch.setattr(bench_room, "trained_network", load)
    arrived.network(SimpleNamespace(**facts))
    assert seen == [(0o700, [".safetensors"])]  # and no picture
    assert list(tmp_path.iterdir()) == []
