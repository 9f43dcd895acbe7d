"""``glasshouse annotate``: from an import to tables, links, files and a released data set."""

from __future__ import annotations

import json
import sys
from urllib.parse import urlparse

import pytest
from tests.small_study import make_study
from typer.testing import CliRunner

from glasshouse.cli import main as command
from glasshouse.cli.main import app
from glasshouse.store import DATABASE_FILE, Vote, Votes
from glasshouse.votes.invitations import hash_of

HUMAN = "config,x_index,gt_fine,gt_name,annot1,annot2,annot3\n" + "".join(
    f"m{model},{image},{image % 3},{'abc'[image % 3]},{image % 3},{image % 3 if model else -1},-1\n"
    for model in range(2)
    for image in range(6)
)


def run(*arguments):
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["annotate", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def study(tmp_path):
    return make_study(tmp_path / "study")


@pytest.fixture
def imported(tmp_path):
    (tmp_path / "votes.csv").write_text(HUMAN)
    assert "12 items and 36 votes of 3" in run("import", tmp_path / "new" / "study", tmp_path / "votes.csv")
    return tmp_path / "new" / "study"


def test_agreement_prints_what_the_votes_say(imported):
    printed = run("agreement", imported)
    for text in ("Fleiss' kappa", "Krippendorff's alpha", "Unanimous items", "annot1", "36 human votes on them"):
        assert text in printed
    (report,) = json.loads(run("agreement", imported, "--json"))
    assert report["recognised"]["mean"] == 0.5
    assert [one["recognition"]["mean"] for one in report["annotators"]] == [1.0, 0.5, 0.0]


def test_importing_again_says_what_was_there(imported, tmp_path):
    (tmp_path / "more.csv").write_text(HUMAN + HUMAN.splitlines()[-1].replace(",", "x,", 1) + "\n")
    printed = run("import", imported, tmp_path / "more.csv")
    assert "13 items and 39 votes" in printed
    assert "12 of these items and 36 of these votes were there already" in printed
    assert "1 of these items were new to this study, which asked about 12 before" in printed


def test_links_begin_as_browsers_write_it(study):
    assert "Ada: https://votes.example/join/" in run(
        "invite", study, "--name", "Ada", "--public-url", "HTTPS://Votes.Example:443/"
    )


def test_status_counts(imported):
    assert "0 of 12 items have their 5 votes" in run("status", imported)
    found = json.loads(run("status", imported, "--json"))
    assert found["overview"]["votes"] == 36
    assert found["items"] == {"classification reconstruction": 12}


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_export(imported, tmp_path, suffix):
    assert "36 votes" in run("export", imported, tmp_path / f"out.{suffix}")
    assert (tmp_path / f"out.{suffix}").stat().st_size
    assert "0 votes" in run("export", imported, tmp_path / f"out.{suffix}", "--kind", "classifier")
    assert "36 votes" in run("export", imported, tmp_path / f"out.{suffix}", "--kind", "all")


def test_an_export_before_anything_is_asked_says_what_to_do(study, tmp_path):
    printed = run("export", study, tmp_path / "votes.csv")
    assert f"Nothing is asked yet: 'glasshouse annotate invite {study}'" in printed


def test_links_are_personal_and_only_their_hashes_are_kept(study):
    printed = run("invite", study, "--annotators", 2, "--votes-per-item", 2, "--base", "https://votes.example")
    links = dict(line.split(": ") for line in printed.splitlines() if "https://" in line)
    assert set(links) == {"annotator 1", "annotator 2", "owner"}
    assert "18 items to answer" in printed
    assert "need 2 more annotators" in printed
    votes = Votes(study / DATABASE_FILE)
    for person in votes.annotators():
        token = urlparse(links[person.name]).path.removeprefix("/join/")
        assert len(token) >= 43
        assert person.token_hash == hash_of(token)
    assert votes.owner_hash() == hash_of(urlparse(links["owner"]).path.removeprefix("/owner/"))
    votes.close()
    held = b"".join(path.read_bytes() for path in study.glob(f"{DATABASE_FILE}*"))
    assert not any(link.rpartition("/")[2].encode() in held for link in links.values())
    again = run("invite", study, "--name", "Ada")
    assert "Ada: http://127.0.0.1:8000/join/" in again
    assert "owner" not in again
    assert "owner" in run("invite", study, "--annotators", 1, "--owner")


def test_revoke(study):
    run("invite", study, "--name", "Ada")
    assert "can no longer vote" in run("revoke", study, "Ada")
    assert json.loads(run("status", study, "--json"))["people"][0]["revoked"]


def test_release(study, tmp_path):
    run("invite", study, "--name", "Ada")
    votes = Votes(study / DATABASE_FILE)
    (ada,) = votes.annotators()
    (item,) = votes.claim(ada.id, 0)
    votes.vote(Vote(item.id, ada.id, item.truth))
    votes.close()
    run("release", study, tmp_path / "set")
    assert (tmp_path / "set" / "README.md").is_file()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_server_holds_the_votes_of_a_study(database, tmp_path):
    (tmp_path / "votes.csv").write_text(HUMAN)
    run("import", tmp_path / "new", tmp_path / "votes.csv", "--database", database)
    assert not (tmp_path / "new" / DATABASE_FILE).exists()
    assert "36 human votes" in run("agreement", tmp_path / "new", "--database", database)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["status", "{none}"], "holds no study"),
        (["agreement", "{empty}"], "holds no study"),
        (["import", "{none}", "{none}"], "There is no"),
        (["export", "{study}", "{none}.txt"], "ends in '.txt'"),
        (["export", "{study}", "{none}.csv", "--kind", "robot"], "kind=robot"),
        (["revoke", "{study}", "Nobody"], "Unknown annotator 'Nobody'"),
        (["invite", "{study}", "--annotators", "0"], "annotators=0"),
        (["invite", "{study}", "--public-url", "https://host/path"], "and no path"),
        (["serve", "{study}", "--public-url", "votes.example"], "and no path"),
        (["agreement", "{study}"], "no human votes yet"),
        (["status", "{study}", "--database", "oracle://x"], "sqlite:///FILE"),
    ],
)
def test_errors_are_one_line(arguments, says, study, tmp_path, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    places = {"none": tmp_path / "none", "empty": tmp_path / "empty", "study": study}
    given = [argument.format(**places) for argument in arguments]
    monkeypatch.setattr(sys, "argv", ["glasshouse", "annotate", *given])
    with pytest.raises(SystemExit) as stopped:
        command.main()
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
