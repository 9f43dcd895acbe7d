"""Reports of agreement: what they count, whom they flag, and that nobody is dropped."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from glasshouse.errors import StudyError
from glasshouse.store import Item, Vote, Votes
from glasshouse.votes.agreement import agreement

SIGHTED, BLIND, HASTY = "sighted", "blind", "hasty"


def make_item(number, role, task="classification", truth="cat"):
    return Item(
        id=f"{role} {number}",
        task=task,
        role=role,
        original=f"o{number}",
        condition=role,
        case_key=role,
        place=number,
        answers=("same", "different") if task == "pair" else ("cat", "dog"),
        truth=truth,
    )


@pytest.fixture
def votes(tmp_path):
    votes = Votes(tmp_path / "glasshouse.db")
    yield votes
    votes.close()


def test_no_votes_no_report(votes):
    with pytest.raises(StudyError, match="no human votes yet"):
        agreement(votes)


def test_classification_counts_recognition_none_and_attention(votes):
    versions = [make_item(number, "reconstruction") for number in range(10)]
    originals = [make_item(number, "original") for number in range(10)]
    votes.add_items(versions + originals)
    people = {name: votes.invite(name).id for name in (SIGHTED, BLIND, HASTY)}
    cast = []
    for number, item in enumerate(versions):
        seen = "cat" if number < 6 else None
        cast += [Vote(item.id, people[SIGHTED], seen, seconds=3.0), Vote(item.id, people[HASTY], seen, seconds=0.1)]
        cast += [Vote(item.id, people[BLIND], None, seconds=4.0)]
    for item in originals:
        cast += [Vote(item.id, people[SIGHTED], "cat"), Vote(item.id, people[HASTY], "cat")]
        cast += [Vote(item.id, people[BLIND], "dog")]
    votes.record(cast)
    (report,) = agreement(votes)
    assert (report.items, report.votes, report.bases) == (10, 30, {"original": 10})
    assert report.recognised.mean == 0.6
    assert report.unanimous.mean == 0.4
    by_name = {one.name: one for one in report.annotators}
    assert by_name[SIGHTED].recognition.mean == 0.6
    assert by_name[BLIND].none.mean == 1.0
    assert by_name[SIGHTED].originals.mean == 1.0
    assert by_name[BLIND].originals.mean == 0.0
    assert by_name[SIGHTED].d_prime is None  # the two others disagree or both see nothing: no signal to tell
    assert by_name[BLIND].d_prime.mean == pytest.approx(0, abs=0.5)
    assert by_name[BLIND].criterion.mean > 1
    assert by_name[SIGHTED].flags == ()
    assert by_name[BLIND].flags == ("0 of 10 originals right",)
    assert by_name[HASTY].flags == ("answers in 0.1 s",)
    assert by_name[SIGHTED].reliability > by_name[BLIND].reliability
    assert len(report.annotators) == 3
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["schema"] == 1


def test_pairs_are_told_from_decoys(votes):
    pairs = [make_item(number, "reconstruction", "pair", "same") for number in range(8)]
    decoys = [make_item(number + 8, "decoy", "pair", "different") for number in range(8)]
    votes.add_items(pairs + decoys)
    sighted, yes = votes.invite(SIGHTED).id, votes.invite("says same").id
    votes.record([Vote(item.id, sighted, item.truth) for item in pairs + decoys])
    votes.record([Vote(item.id, yes, "same") for item in pairs + decoys])
    (report,) = agreement(votes)
    assert report.items == 8  # decoys check attention; they are no versions
    by_name = {one.name: one for one in report.annotators}
    assert by_name[SIGHTED].d_prime.mean > 2
    assert by_name["says same"].d_prime.mean == pytest.approx(0)
    assert by_name["says same"].criterion.mean < -1
    assert by_name["says same"].flags == ("0 of 8 decoys right",)
    assert report.fleiss_kappa is None  # all votes on true pairs are one answer


def test_kinds_are_reported_apart_and_tasks_too(votes):
    votes.add_items([make_item(0, "reconstruction"), make_item(0, "reconstruction", "pair", "same")][:1])
    votes.add_items([make_item(1, "shuffled", "pair", "same")])
    ada, probe = votes.invite("Ada").id, votes.invite("probe", kind="classifier").id
    votes.record([Vote("reconstruction 0", ada, "cat"), Vote("shuffled 1", ada, "same")])
    votes.record([Vote("reconstruction 0", probe, "dog")])
    assert [(one.task, one.votes) for one in agreement(votes)] == [("classification", 1), ("pair", 1)]
    assert [one.recognised.mean for one in agreement(votes, "classifier")] == [0.0]
    assert [one.votes for one in agreement(votes, None)] == [2, 1]


def test_where_nobody_knows_the_truth_most_people_do(votes):
    items = [replace(make_item(number, "original", "counting", None), answers=("1", "2")) for number in range(10)]
    votes.add_items(items)
    people = [votes.invite(name).id for name in ("Ada", "Bob", "Cyd", BLIND)]
    votes.record([Vote(item.id, person, "1") for item in items for person in people[:3]])
    votes.record([Vote(item.id, people[3], "2") for item in items])
    (report,) = agreement(votes)
    assert [one.originals.mean for one in report.annotators] == [1.0, 1.0, 1.0, 0.0]
    assert [bool(one.flags) for one in report.annotators] == [False, False, False, True]
    votes.add_items([replace(make_item(99, "original", "counting:most=2", None), answers=("1", "2"))])
    votes.record([Vote("original 99", people[0], "1")])  # one person's word is no reference
    assert agreement(votes)[1].annotators[0].originals is None


def test_originals_alone_make_a_report_without_agreement(votes):
    votes.add_items([make_item(0, "original")])
    votes.record([Vote("original 0", votes.invite("Ada").id, "cat")])
    (report,) = agreement(votes)
    assert (report.items, report.recognised, report.fleiss_kappa, report.krippendorff_alpha) == (0, None, None, None)
    assert report.annotators[0].originals.mean == 1.0
