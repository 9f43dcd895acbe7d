"""``glasshouse study`` from an empty directory to a table, as people use it."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
from tests.small_grid import SMALL
from typer.testing import CliRunner

from glasshouse.cli.main import app
from glasshouse.cli.study_tables import duration
from glasshouse.errors import GlasshouseError, StudyError
from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.federations.results import SCHEMA
from glasshouse.studies.grid.plan import to_toml
from glasshouse.studies.reading import to_toml as study_to_toml


def glasshouse_here(*words, code=0):
    """The command line in this process."""
    done = CliRunner().invoke(app, ["study", *map(str, words)])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "study"
    folder.mkdir()
    (folder / "study.toml").write_text(to_toml(SMALL))
    log = folder.parent / "log"
    done = glasshouse_here("run", folder, "--engine", "inline", "--log", log)
    assert "small: what could be seen" in done.stdout
    assert "Training: 1 of 1 networks" in log.read_text()
    assert "Attacking: 4 of 4 cases" in log.read_text()
    return folder


def test_a_new_plan_is_written_once(tmp_path):
    assert "study.toml" in glasshouse_here("new", tmp_path / "a", "--preset", "audit").stdout
    again = CliRunner().invoke(app, ["study", "new", str(tmp_path / "a")])
    assert isinstance(again.exception, StudyError)
    unknown = CliRunner().invoke(app, ["study", "new", str(tmp_path / "b"), "--preset", "adit"])
    assert "Did you mean 'audit'" in str(unknown.exception)
    assert not (tmp_path / "b").exists()


def test_a_run_without_time_says_what_is_left(tmp_path):
    (tmp_path / "study.toml").write_text(to_toml(SMALL))
    done = glasshouse_here("run", tmp_path, "--engine", "inline", "--quiet", "--minutes", "0")
    assert "Left: 1 of 1 networks" in done.stdout


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (dataclasses.replace(SMALL, lr=1e30, epochs=2, checkpoints=(2,)), "Every network failed.*diverged"),
        (Federations(datasets=("nowhere.npz",), defenses=("none",)), r"Every federation failed.*nowhere\.npz"),
    ],
)
def test_a_run_from_which_nothing_came_ends_in_an_error(plan, words, tmp_path):
    (tmp_path / "study.toml").write_text(study_to_toml(plan))
    futile = CliRunner().invoke(app, ["study", "run", str(tmp_path), "--engine", "inline", "--quiet"])
    assert isinstance(futile.exception, StudyError), futile.output
    assert re.search(words, str(futile.exception))


def test_json_is_all_that_goes_to_standard_output(directory):
    found = json.loads(glasshouse_here("run", directory, "--engine", "inline", "--quiet", "--json").stdout)
    assert found["settings"]["title"] == "small"
    counts = json.loads(glasshouse_here("status", directory, "--json").stdout)
    assert counts["cases"] == {"done": 4, "failed": 0, "left": 0}


def test_the_dry_run_counts_and_leaves_nothing_behind(tmp_path):
    (tmp_path / "study.toml").write_text(to_toml(SMALL))
    done = glasshouse_here("run", tmp_path, "--dry-run", "--quiet")
    assert "1 networks to train, 4 cases to attack" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]


def test_the_dry_run_refuses_and_leaves_out_what_the_run_would(tmp_path):
    both = dataclasses.replace(SMALL, models=("lenet:width=4", "mlp:width=4"))
    attacks = ("invgrad:steps=2", "fc_inversion")
    (tmp_path / "study.toml").write_text(to_toml(dataclasses.replace(both, attacks=attacks)))
    done = glasshouse_here("run", tmp_path, "--dry-run", "--quiet", "--workers", "1")
    assert "Left out: fc_inversion on lenet:width=4" in done.stdout
    assert "With one worker" in done.stdout
    (tmp_path / "study.toml").write_text(to_toml(dataclasses.replace(SMALL, attacks=attacks)))
    refused = CliRunner().invoke(app, ["study", "run", str(tmp_path), "--dry-run", "--quiet"])
    assert isinstance(refused.exception, GlasshouseError), refused.output


def test_other_things_than_the_directory_of_a_study_are_named(tmp_path):
    (tmp_path / "study.toml").write_text(to_toml(SMALL))
    file = CliRunner().invoke(app, ["study", "run", str(tmp_path / "study.toml")])
    assert "is a file: give the directory that it lies in" in str(file.exception)
    (tmp_path / "audit.json").write_text("{}")
    audited = CliRunner().invoke(app, ["study", "status", str(tmp_path)])
    assert "is the directory of an audit" in str(audited.exception)


def test_the_dry_run_of_federations_counts_them_and_their_shadows(tmp_path):
    plan = Federations(
        datasets=("digits",),
        models=("mlp:width=4",),
        defenses=("none", "csvar"),
        extra=("digits | mlp:width=4 | none | shadows",),
        seeds=(0, 1),
        rounds=3,
        images=64,
        shadow_membership=("lira:shadows=4",),
    )
    (tmp_path / "study.toml").write_text(study_to_toml(plan))
    done = glasshouse_here("run", tmp_path, "--dry-run", "--quiet", "--json")
    found = json.loads(done.stdout)
    assert (found["federations"], found["shadows"]) == (4, 8)
    assert 0 < found["hours"] <= found["training_hours"] < 1
    weights = 4 * (64 * 4 + 4 + 4 * 10 + 10)  # bytes of the numbers alone
    assert found["disk"] > 4 * (plan.clients + plan.rounds) * weights
    assert "4 federations and 8 shadows to train" in glasshouse_here("run", tmp_path, "--dry-run", "--quiet").stdout
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]


def test_times_are_told_in_the_unit_that_people_would_choose():
    assert [duration(hours) for hours in (0.001, 0.05, 2.25)] == ["4 seconds", "3.0 minutes", "2.2 hours"]


def test_status_export_compare_and_report(directory, tmp_path):
    assert "networks" in glasshouse_here("status", directory).stdout
    assert "4 rows" in glasshouse_here("export", directory, tmp_path / "table.csv").stdout
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 5
    compared = glasshouse_here("compare", directory, directory).stdout
    assert "Of 4 values both studies have: none beyond chance." in compared
    assert (
        "All: data digits:size=16, model lenet:width=4, defense none, attack invgrad:steps=2, batch norm none."
        in " ".join(compared.split())
    )
    assert "Differences, paired by image" in compared
    assert "index.html" in glasshouse_here("report", directory).stdout.replace("\n", "")


def test_a_plan_that_is_wrong_is_one_line_and_exit_code_two(directory, tmp_path, glasshouse):
    (tmp_path / "study.toml").write_text(to_toml(SMALL).replace("invgrad", "invgard"))
    done = glasshouse("study", "run", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "study.toml, line" in done.stderr


def test_a_title_may_have_brackets(tmp_path):
    (tmp_path / "study.toml").write_text(to_toml(dataclasses.replace(SMALL, title="[/b] run")))
    assert "[/b] run" in glasshouse_here("status", tmp_path).stdout


def test_modes_of_batch_norm_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    both = {"models": ("tanhnet_bn:width=2,hidden=4",), "batchnorm": ("eval", "train"), "images": 4, "batch": 2}
    (tmp_path / "study.toml").write_text(
        to_toml(dataclasses.replace(SMALL, **both, checkpoints=(0,), metrics=("mse",)))
    )
    shown = glasshouse_here("run", tmp_path, "--engine", "inline", "--quiet").stdout
    compared = glasshouse_here("compare", tmp_path, tmp_path).stdout
    assert all("batch norm" in text and "train" in text and "eval" in text for text in (shown, compared))


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("changed", "key", "words"),
    [
        ({"attacks": ("invgrad:steps=2", "fc_inversion")}, "attacks", "'fc_inversion' needs"),
        ({"attacks": ("invgrad:steps=2", "lenet:width=4 | fc_inversion")}, "attacks", "'fc_inversion' needs"),
        ({"attacks": ("invgrad:steps=2", "invgrad:steps=02")}, "attacks", "which mean the same"),
        ({"datasets": ("digits:size=16", "no/such/directory")}, "datasets", "no/such/directory"),
        ({"images": 100_000}, "images", "images=100000 is more than the"),
        ({"public": "no/such/directory"}, "public", "no/such/directory"),
        ({"attacks": ("invgrad:steps=2,restarts=9999",), "memory": 0.01}, "models", "--memory gives it 0.01"),
    ],
)
def test_what_only_images_and_networks_show_is_refused_with_its_line_before_any_work(
    changed, key, words, options, tmp_path
):
    text = to_toml(dataclasses.replace(SMALL, **changed))
    (tmp_path / "study.toml").write_text(text)
    done = CliRunner().invoke(app, ["study", "run", str(tmp_path), "--engine", "inline", "--quiet", *options])
    assert isinstance(done.exception, StudyError)
    (line,) = (number for number, one in enumerate(text.splitlines(), 1) if one.startswith(f"{key} ="))
    assert f"study.toml, line {line}: " in str(done.exception)
    assert words in str(done.exception)
    assert {one.name for one in tmp_path.iterdir()} <= {"study.toml", ".glasshouse.lock"}


@pytest.mark.parametrize(
    ("option", "url", "words"),
    [
        ("--store", "postgresql://user:secret@127.0.0.1:1/x", "start the server"),
        ("--store", "mysql://user:secret@host/x", "postgresql://USER@HOST:PORT/DATABASE"),
        ("--pictures", "nothing://x", "a URL that fsspec knows"),
        ("--pictures", "ftp://user:secret@127.0.0.1/x", "FSSPEC_FTP_PASSWORD"),
    ],
)
def test_a_wrong_place_is_one_line_without_the_password(option, url, words, tmp_path):
    (tmp_path / "study.toml").write_text(to_toml(SMALL))
    done = CliRunner().invoke(app, ["study", "run", str(tmp_path), "--quiet", option, url])
    assert isinstance(done.exception, StudyError)
    assert words in str(done.exception)
    assert "\n" not in str(done.exception)
    assert "secret" not in done.output + str(done.exception)
    assert not (tmp_path / "storage.toml").exists()


def test_the_command_to_go_on_shows_no_password(tmp_path, monkeypatch):
    (tmp_path / "study.toml").write_text(to_toml(SMALL))
    words = "run", tmp_path, "--engine", "inline", "--quiet", "--minutes", "0"
    url = f"sqlite:///{tmp_path}/x.db"
    typed = ["glasshouse", "study", *map(str, words), "--store", "postgresql://user:secret@host/x"]
    monkeypatch.setattr("sys.argv", typed)
    done = glasshouse_here(*words, "--store", url)
    assert "--store postgresql://user@host/x" in done.stdout
    assert "secret" not in done.stdout


def test_studies_of_federations_have_the_same_commands(tmp_path):
    plan = Federations(rounds=1, defenses=("none",))
    settings = {**dataclasses.asdict(plan), "versions": {}}
    waiting = {"dataset": "digits", "model": "mlp", "defense": "none", "seed": 0, "pending": True}
    (tmp_path / "study.toml").write_text(study_to_toml(plan))
    (tmp_path / "study.json").write_text(json.dumps({"schema": SCHEMA, "settings": settings, "rows": [waiting]}))
    assert json.loads(glasshouse_here("status", tmp_path, "--json").stdout)["targets"]["left"] == 1
    assert "federations" in glasshouse_here("status", tmp_path).stdout
    assert "index.html" in glasshouse_here("report", tmp_path).stdout
    assert "0 rows" in glasshouse_here("export", tmp_path, tmp_path / "table.csv").stdout
    refused = CliRunner().invoke(app, ["study", "compare", str(tmp_path), str(tmp_path)])
    assert "no finished federation in common" in str(refused.exception)


def test_two_kinds_of_studies_cannot_be_compared(directory, tmp_path):
    (tmp_path / "study.toml").write_text(study_to_toml(Federations()))
    refused = CliRunner().invoke(app, ["study", "compare", str(directory), str(tmp_path)])
    assert "studies of two kinds" in str(refused.exception)
