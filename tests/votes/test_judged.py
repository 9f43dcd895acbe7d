"""Judges, and columns that cannot be metrics."""

from __future__ import annotations

import numpy as np
import pytest

from glasshouse.errors import DataError, SettingError
from glasshouse.functional.agreement import MISSING
from glasshouse.metrics import metrics
from glasshouse.votes.judged import JUDGES, LEAKS_WHEN, Judged, direction, judged, metric_columns
from glasshouse.votes.table import read_votes

HITS = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, MISSING, MISSING, MISSING], [1, 1, 0, MISSING], [0, 0, 0, 0]])


def test_a_majority_is_more_than_half_of_all_votes():
    assert JUDGES["majority"](HITS).tolist() == [1, 0, 1, 1, 0]
    assert JUDGES["mean"](HITS).tolist() == pytest.approx([0.75, 0.5, 1, 2 / 3, 0])
    chances = JUDGES["dawid-skene"](HITS)
    assert chances[0] > 0.5 > chances[4]
    assert ((chances >= 0) & (chances <= 1)).all()


def test_images_without_a_vote_are_left_out(voted):
    table = read_votes(voted)
    people = judged(table, "majority")
    assert len(people.rows) == 119
    assert people.models == table.models
    assert people.per_model(np.ones(119)).tolist() == [1] * 6
    for row, hits, chance in zip(people.rows, people.hits, people.chances, strict=True):
        votes = [table.cells[name][row] for name in table.annotators]
        right = votes.count(table.cells["gt_fine"][row])
        assert (hits == 1).sum() == right
        assert chance == (right > (4 - votes.count("")) / 2)


def test_no_votes_at_all_and_unknown_judges(voted, tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("config,gt_fine,annot1,psnr\na,1,,3\nb,1,,4\n")
    with pytest.raises(DataError, match="has no votes"):
        judged(read_votes(empty), "majority")
    with pytest.raises(SettingError, match="judge=mode is not known: use one of majority, mean, dawid-skene"):
        judged(read_votes(voted), "mode")


def test_known_directions_are_those_of_the_metrics():
    for name in set(metrics.names()) & set(LEAKS_WHEN):
        assert metrics.get(name).leaks_when == direction(name)
    assert direction("lpips:net=vgg") == "low"
    assert direction("other") is None


def test_known_metrics_are_found_and_others_only_when_named(voted):
    table = read_votes(voted)
    assert metric_columns(table, ()) == ("psnr", "lpips")
    assert metric_columns(table, ("other", "psnr", "other")) == ("other", "psnr")
    with pytest.raises(SettingError, match=r"Unknown metric column 'pnsr'. Did you mean 'psnr'"):
        metric_columns(table, ("pnsr",))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("config", "names the model"),
        ("set_index", "names the original"),
        ("gt_fine", "the truth"),
        ("gt_name", "the truth"),
        ("annot2", "vote"),
        ("frac_recognized", "derived from the votes"),
    ],
)
def test_columns_that_give_the_answer_are_refused(voted, name, reason):
    with pytest.raises(SettingError, match=f"'{name}' cannot be a metric: .*{reason}.*Use psnr, lpips, other"):
        metric_columns(read_votes(voted), ("psnr", name))


def test_a_table_without_metrics_says_so(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("config,gt_fine,annot1,mine\na,1,1,3\n")
    with pytest.raises(DataError, match=r"no column of a known metric .*--metrics; here are mine"):
        metric_columns(read_votes(path), ())


def test_models_that_only_rounding_tells_apart_tie():
    chances = np.array([0.2, 0.4, 0.6, 0.0, 0.1, 0.2, 0.3, 0.0])
    model = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    found = Judged(np.arange(8), ("a", "b", "c", "d"), model, np.arange(8), np.ones((8, 1)), chances)
    assert np.bincount(model, chances)[0] != np.bincount(model, chances)[1]  # in floating point
    shares = found.per_model(chances)
    assert (shares[0], shares[2]) == (shares[1], shares[3])
    assert shares.tolist() == pytest.approx([0.3, 0.3, 0.15, 0.15], rel=1e-15)  # and nothing else is changed
    assert found.per_model(1e-9 * chances).tolist() == pytest.approx([3e-10, 3e-10, 1.5e-10, 1.5e-10])
