"""What leaves a grid study: a line for each reconstruction, as CSV and Parquet, and differences between studies."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from tests.small_grid import SMALL

from glasshouse.errors import SettingError, StudyError
from glasshouse.store import DATABASE_FILE, Location, Score, Store
from glasshouse.studies.audit import Running
from glasshouse.studies.export import export, to_csv, to_parquet
from glasshouse.studies.grid.comparison import compare
from glasshouse.studies.grid.lines import Line, lines
from glasshouse.studies.grid.opening import open_grid
from glasshouse.studies.grid.program import carry_out
from glasshouse.studies.grid.status import status
from glasshouse.studies.reading import read_grid
from glasshouse.studies.table import labels_known


@pytest.fixture(scope="module")
def table(finished):
    return lines(finished)


def test_means_of_the_lines_are_the_rows_of_the_study(finished, table):
    for row in json.loads((finished / "study.json").read_text())["rows"]:
        alike = [
            line.scores[row["metric"]]
            for line in table
            if (line.dataset, line.recipe, line.epoch) == (row["dataset"], row["recipe"], row["epoch"])
        ]
        assert len(alike) == 2
        assert sum(alike) / 2 == pytest.approx(row["mean"])


def test_what_the_attacker_knew_is_what_the_threat_cards_say(finished, table):
    cards = [row["threat"] for row in json.loads((finished / "study.json").read_text())["rows"]]
    assert {(line.batchnorm, line.labels) for line in table} == {(one["batchnorm"], one["labels"]) for one in cards}
    assert {line.batchnorm for line in table} == {"none"}  # LeNet has no batch norm


@pytest.mark.parametrize(
    ("attack", "known"), [("invgrad:steps=3", "recovered"), ("fc_inversion", "unused"), ("idlg:steps=3", "recovered")]
)
def test_labels_are_those_that_the_attack_has(attack, known):
    assert labels_known("recovered", attack) == known


def test_seen_is_what_the_study_counts(finished, table):
    for one in json.loads((finished / "study.json").read_text())["identified"]:
        alike = [line for line in table if (line.dataset, line.recipe) == (one["dataset"], one["recipe"])]
        assert sum(line.seen for line in alike) / len(alike) == one["mean"]


def test_csv_and_parquet_hold_the_same(table):
    parquet = pytest.importorskip("pyarrow.parquet")
    written = list(csv.DictReader(io.StringIO(to_csv(table, Line).decode())))
    read = parquet.read_table(io.BytesIO(to_parquet(table, Line))).to_pylist()
    assert len(written) == len(read) == 12
    for one, two in zip(written, read, strict=True):
        assert one.keys() == two.keys()
        assert float(one["psnr"]) == two["psnr"]
        assert (one["recipe"], one["class_name"], int(one["epoch"])) == (two["recipe"], two["class_name"], two["epoch"])


def test_a_table_without_lines_has_its_columns():
    assert to_csv([], Line).decode().startswith("dataset,model,recipe")
    assert to_parquet([], Line)[:4] == b"PAR1"


def test_no_spreadsheet_takes_a_name_for_a_formula(table):
    hostile = [replace(table[0], class_name=name) for name in ("=1+1", "-2+cmd", "\uff1d1", "@x", "cat", "a=b")]
    rows = list(csv.DictReader(io.StringIO(to_csv(hostile, Line).decode())))
    assert [row["class_name"] for row in rows] == ["'=1+1", "'-2+cmd", "'\uff1d1", "'@x", "cat", "a=b"]
    assert {row["image"] for row in rows} == {"0"}


def test_an_unknown_suffix_is_refused(table, tmp_path):
    with pytest.raises(SettingError, match=r"\.csv or \.parquet"):
        export(table, Line, tmp_path / "table.xlsx")


def test_identical_pictures_are_compared_without_a_number(tmp_path):
    """What fc_inversion brings back is the image itself, whose PSNR is infinite."""
    grid = replace(SMALL, models=("mlp",), attacks=("fc_inversion",), metrics=("psnr",), checkpoints=(0,))
    carry_out(grid, tmp_path, Running())
    (one,) = compare(tmp_path, tmp_path)
    json.dumps(one.to_json(), allow_nan=False)
    assert (one.to_json()["first"], one.to_json()["mean"]) == (None, 0.0)


def test_a_study_does_not_differ_from_itself(finished):
    found = compare(finished, finished)
    assert {(one.difference.mean, one.difference.images) for one in found} == {(0.0, 2)}
    assert len(found) == 6 * 3


def test_differences_are_second_minus_first(finished, study):
    store = Store(study / DATABASE_FILE)
    store.add_scores(
        Score(key, place, name, value + 1)
        for (key, place, name), value in store.scores().items()
        if name.startswith("psnr") and value is not None
    )
    store.close()
    found = {(one.metric, round(one.difference.mean, 9)) for one in compare(finished, study)}
    assert found == {("mse", 0.0), ("psnr", 1.0), ("ssim", 0.0)}


def test_while_an_edited_plan_is_trained_there_are_lines_of_what_is_trained(grid, study):
    location = Location.of(study)
    open_grid(replace(grid, recipes=("none", "crop/prune:percent=50,at=training")), location).store.close()
    assert {line.recipe for line in lines(study)} == {"fresh", "none"}
    open_grid(replace(grid, seeds=(7,)), location).store.close()
    assert lines(study) == []


def test_the_last_batch_is_of_the_same_setup(tmp_path):
    carry_out(replace(SMALL, images=3, batch=2, checkpoints=(0,), metrics=("mse",)), tmp_path, Running())
    (one,) = compare(tmp_path, tmp_path)
    assert one.difference.images == 3


def test_studies_without_a_common_setup_are_refused(finished, study):
    store = Store(study / DATABASE_FILE)
    store.reset([one.key for one in store.cases()])
    store.close()
    with pytest.raises(StudyError, match="no finished setup in common"):
        compare(finished, study)


def test_status_counts_networks_cases_and_disk(finished):
    found = status(read_grid(finished), finished)
    assert (found.targets.done, found.targets.left) == (4, 0)
    assert found.cases is not None
    assert (found.cases.done, found.cases.failed, found.cases.left) == (12, 0, 0)
    assert found.disk > (finished / "study.json").stat().st_size


def test_two_ways_to_write_one_data_set_share_networks_and_have_lines_of_their_own(grid, tmp_path):
    twice = "digits:size=16", "digits:size=16,split=test"
    carry_out(replace(grid, datasets=twice, recipes=("none",), checkpoints=(2,)), tmp_path, Running())
    table = lines(tmp_path)
    assert [line.dataset for line in table] == [twice[0]] * 2 + [twice[1]] * 2
    assert {line.accuracy for line in table} == {table[0].accuracy}
    found = status(read_grid(tmp_path), tmp_path)
    assert (found.targets.done, found.targets.left) == (1, 0)
    assert found.cases is not None


def test_status_before_any_run(finished, tmp_path):
    (tmp_path / "study.toml").write_bytes((finished / "study.toml").read_bytes())
    found = status(read_grid(tmp_path), tmp_path)
    assert (found.targets.left, found.cases) == (4, None)
    with pytest.raises(StudyError, match="no results"):
        lines(tmp_path)
