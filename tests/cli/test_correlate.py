"""``glasshouse correlate`` on the command line."""

from __future__ import annotations

import json

import pytest
from tests.judged_study import make_study, vote
from typer.testing import CliRunner

from glasshouse.cli.main import app
from glasshouse.errors import GlasshouseError


def invoke(*words: object):
    result = CliRunner().invoke(app, ["correlate", *map(str, words)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_json_and_pictures(voted, tmp_path):
    printed = json.loads(invoke(voted, "--json", "--out", tmp_path / "out").stdout)
    assert list(printed["metrics"]) == ["psnr", "lpips"]
    assert printed["metrics"]["psnr"]["tau"] > 0 > printed["metrics"]["lpips"]["tau"]
    assert json.loads((tmp_path / "out" / "correlation.json").read_text()) == printed
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == [".json", ".png", ".png"]


def test_tables_and_hostile_names(voted, tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text(voted.read_text().replace("model 3", "[/red] 3"))
    output = invoke(path, "--metrics", " psnr, other ", "--judge", "mean").output
    assert "[/red] 3" in output
    assert "judged by mean" in output
    assert "other" in output


def test_a_study_that_people_voted_on(tmp_path):
    study = make_study(tmp_path / "study")
    vote(study, ("one", "two", "three"), kind="human")
    printed = json.loads(invoke(study, "--metrics", "psnr,semsim", "--json").stdout)
    assert printed["metrics"]["psnr"]["tau"] > 0 > printed["metrics"]["semsim"]["tau"]
    assert (printed["judges"], printed["missing"], printed["annotators"]) == ("people", {}, 3)
    assert "Metrics against people" in invoke(study, "--metrics", "psnr").output


def test_a_study_without_votes_is_told_how_to_get_some(tmp_path):
    with pytest.raises(
        GlasshouseError, match=r"no human or classifier votes on pictures .* 'glasshouse annotate invite'"
    ):
        invoke(make_study(tmp_path / "study"), "--metrics", "psnr")


def test_classifiers_are_not_called_people(tmp_path):
    study = make_study(tmp_path / "study")
    vote(study, ("inception_v3 lineup 4", "efficientnet_lite0 lineup 4", "inception_v3 probe 4"))
    output = invoke(study, "--metrics", "psnr,mse", "--judges", "classifier", "--out", tmp_path / "out").output
    assert "Metrics against classifiers" in output
    assert "Ceiling of these classifiers" in output
    assert not {"people", "Human"} & set(output.split())
    assert (tmp_path / "out" / "metric-against-classifiers.png").is_file()


def test_tables_and_studies_are_not_mixed(voted, tmp_path):
    with pytest.raises(GlasshouseError, match="one table of votes, or any number of studies"):
        invoke(voted, tmp_path)
    with pytest.raises(GlasshouseError, match="a table holds those of people"):
        invoke(voted, "--judges", "classifier")
    with pytest.raises(GlasshouseError, match="a table holds answers alone"):
        invoke(voted, "--forced")


def test_answers_are_no_metrics(voted):
    with pytest.raises(GlasshouseError, match="derived from the votes"):
        invoke(voted, "--metrics", "psnr,frac_recognized")


def test_an_error_is_one_line(tmp_path, glasshouse):
    path = tmp_path / "votes.csv"
    path.write_bytes(b"\xff\xfe\x00")
    done = glasshouse("correlate", str(path))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "not UTF-8" in done.stderr
