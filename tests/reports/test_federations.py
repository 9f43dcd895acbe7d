"""The page of a study of federations says what its numbers carry, and no more."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
from tests.reports.federated_rows import row

from glasshouse.errors import StudyError
from glasshouse.reports.federations import render, write_federations_report
from glasshouse.studies.federations.comparison import compare
from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.federations.results import SCHEMA, lines, read_results

PLAN = Federations(title="two <ways>", datasets=("digits",), defenses=("none", "csvar", "clip"), rounds=2, seeds=(0, 1))


def written(directory, rows):
    settings = {**dataclasses.asdict(PLAN), "versions": {"glasshouse": "0"}}
    directory.mkdir(exist_ok=True)
    (directory / "study.json").write_text(json.dumps({"schema": SCHEMA, "settings": settings, "rows": rows}))
    return directory


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    lost = {"dataset": "digits", "model": "mlp", "defense": "prune", "seed": 0, "failed": "it <diverged>"}
    waiting = {"dataset": "digits", "model": "mlp", "defense": "clip", "seed": 1, "pending": True}
    return written(
        tmp_path_factory.mktemp("study"),
        [row("none", 0.9, 0.8), row("csvar", 0.7, 0.55), row("clip", 0.6, 0.79), lost, waiting],
    )


@pytest.fixture(scope="module")
def page(study):
    return write_federations_report(study).read_text()


def text(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", re.sub(r"<(style|svg|script).*?</\1>", " ", page, flags=re.S)))


def test_the_page_stands_alone_and_escapes_what_others_wrote(page):
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", page)
    assert "two &lt;ways&gt;" in page
    assert "it &lt;diverged&gt;" in page
    assert page.count("<svg") == 3


def test_numbers_come_with_intervals_and_choices_are_printed(page):
    found = text(page)
    assert "90.0% 88.0% to 92.0%" in found
    assert "0.550 0.530 to 0.570" in found
    for words in ("local_epochs 1 passes of a client", "split iid", "momentum 0.0 Nesterov", "seeds 0, 1"):
        assert words in found


def test_a_defense_is_credited_only_where_intervals_are_apart(page):
    found = text(page)
    assert "of what hid members more than chance explains (csvar), csvar leaves most accuracy" in found
    assert "with csvar 70.0% of test images are recognised" in found
    assert "20.0 points less than none" in found
    assert "1 of 5 federations are left" in found


def test_where_nothing_helps_nothing_is_advised(tmp_path):
    found = text(render(written(tmp_path, [row("none", 0.9, 0.8), row("clip", 0.6, 0.79)])))
    assert "no defense here hid members more than chance explains" in found


def test_a_coin_is_called_a_coin(tmp_path):
    assert "better than a coin would" in text(render(written(tmp_path, [row("none", 0.9, 0.51)])))


def test_an_attack_that_surely_tells_is_not_hidden_by_one_that_may(tmp_path):
    unsure, sure = row("none", 0.9, 0.60), row("csvar", 0.9, 0.55)
    for told in unsure["membership"].values():
        for one in told.values():
            one["auc"] |= {"low": 0.4, "high": 0.8}
    found = text(render(written(tmp_path, [unsure, sure])))
    assert "At worst members of the training data are told from others with AUC 0.550" in found


def test_clients_that_did_not_take_part_are_named(tmp_path):
    absent = {**row("none", 0.9, 0.8), "faults": ["round 3, client 1: did not reply within 600 s"]}
    assert "digits, mlp, none, round 3, client 1: did not reply" in text(render(written(tmp_path, [absent])))


def test_nothing_finished_says_nothing(tmp_path):
    waiting = {"dataset": "digits", "model": "mlp", "defense": "clip", "seed": 1, "pending": True}
    assert "Nothing was finished yet" in text(render(written(tmp_path, [waiting])))


def test_several_seeds_have_the_wider_interval(tmp_path):
    found = text(render(written(tmp_path, [row("none", 0.8, 0.7), row("none", 0.9, 0.7, seed=1)])))
    assert "85.0% 21.5% to 100.0%" in found  # Student's t of two values: 12.7 standard errors of 0.05
    assert "0.700 0.680 to 0.720" in found  # seeds that agree are no surer than the images behind them


def test_comparison_pairs_seeds(tmp_path):
    first = written(tmp_path / "a", [row("none", 0.8, 0.7), row("none", 0.9, 0.7, seed=1)])
    second = written(tmp_path / "b", [row("none", 0.7, 0.7, seed=1), row("none", 0.6, 0.7, seed=2)])
    (one,) = [one for one in compare(first, second) if (one.measure, one.round) == ("accuracy on test images", 2)]
    assert (one.first, one.second) == (0.9, 0.7)
    assert one.difference.mean == pytest.approx(-0.2)
    with pytest.raises(StudyError, match="no finished federation in common"):
        compare(first, written(tmp_path / "c", []))


def test_augmented_clients_have_rows_of_their_own(tmp_path):
    rows = [row("none", 0.9, 0.8), row("none", 0.8, 0.6, augment=True)]
    found = text(render(written(tmp_path, rows)))
    assert "digits mlp none, augmented 1 80.0%" in found
    assert "with none, augmented 80.0% of test images are recognised" in found
    assert {line.augment for line in lines(tmp_path)} == {False, True}


def test_lines_hold_every_value_once(study):
    table = lines(study)
    assert len({(line.setup, line.seed) for line in table}) == len(table)
    areas = [line.mean for line in table if line.measure == "auc" and line.defense == "csvar"]
    assert areas == [0.55] * 4  # two rounds, two ways of asking
    assert not [line for line in table if line.measure == "tpr_at_fpr_0.001"]  # which could not be estimated


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": 1, "settings": {}, "rows": []}'])
def test_what_is_no_study_is_refused(content, tmp_path):
    (tmp_path / "study.json").write_text(content)
    with pytest.raises(StudyError, match="run the study again"):
        read_results(tmp_path)
