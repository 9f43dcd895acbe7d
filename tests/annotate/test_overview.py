"""The owner's overview: what it counts, against votes that are known."""

from __future__ import annotations

from collections import Counter

import pytest

from glasshouse.annotate.lookout import REST, Lookout
from glasshouse.annotate.overview import most_disputed, per_hour
from glasshouse.store import Vote


def vote(item: str, answer: str | None, when: float = 0.0) -> Vote:
    return Vote(item, f"{item} {answer} {when}", answer, when=when)


def test_hours_are_counted_from_now_and_the_present_one_is_last():
    now = 1_000_000.0
    votes = [vote("a", "cat", now - ago) for ago in (1, 3_599, 3_601, 23.5 * 3_600, 25 * 3_600)]
    assert per_hour(votes, now) == [1, *[0] * 21, 1, 2]


def test_the_most_disputed_items_come_first_and_unanimous_ones_never():
    votes = [
        *(vote("all differ", answer) for answer in ("cat", "dog", None, "cup")),
        *(vote("split", answer) for answer in ("cat", "cat", "dog", "dog")),
        *(vote("one against four", answer) for answer in ("cat", "cat", "cat", "cat", "dog")),
        *(vote("unanimous", "cat") for _ in range(5)),
        vote("alone", "cat"),
    ]
    assert [item for item, _ in most_disputed(votes)] == ["all differ", "one against four", "split"]
    assert most_disputed(votes)[2][1] == Counter({"cat": 2, "dog": 2})


def test_what_takes_long_is_not_done_for_every_look(make_study):
    study = make_study()
    lookout = Lookout()
    first = lookout.findings(study.votes, 100.0)
    assert lookout.findings(study.votes, 100.0 + REST / 2) is first
    assert lookout.findings(study.votes, 50.0) is not first  # a clock that was set back
    assert lookout.findings(study.votes, 50.0 + 100 * REST).at == 50.0 + 100 * REST


@pytest.fixture
def voted(make_study):
    """Three people: two who see what is there, one who says none and is quick."""
    study = make_study(annotators=4, originals=4)
    for number, person in enumerate(study.people[:3]):
        while held := study.votes.claim(person.id, 0.0, 1):
            answer = None if number == 2 else held[0].truth
            forced = None if answer else held[0].answers[0]
            seconds = 0.2 if number == 2 else 3.0
            study.votes.vote(Vote(held[0].id, person.id, answer, forced, "likely", seconds, 10.0))
    study.votes.revoke(study.people[3].id)
    return study


def overview(study) -> dict:
    client = study.client()
    client.get(f"/owner/{study.owner}")
    return client.get("/api/overview").json()


def test_the_overview_adds_up(voted):
    found = overview(voted)
    assert (found["items"], found["complete"], found["votes"], found["wanted"]) == (4, 0, 12, 20)
    assert sum(found["hours"]) == found["votes_last_hour"] == 0  # these votes are old
    (task,) = found["agreement"]
    assert task["task"] == "classification"
    assert task["recognised"]["mean"] == 1.0
    people = {one["name"]: one for one in found["annotators"]}
    assert [people[f"annotator {number}"]["votes"] for number in (1, 2, 3, 4)] == [4, 4, 4, 0]
    assert [people[f"annotator {number}"]["none"] for number in (1, 3)] == [0.0, 1.0]
    assert people["annotator 3"]["flags"] == ["answers in 0.2 s"]
    assert people["annotator 4"]["revoked"]
    assert people["annotator 4"]["last_answer"] is None


def test_the_overview_shows_what_is_disputed_and_its_pictures(voted):
    client = voted.client()
    client.get(f"/owner/{voted.owner}")
    disputed = client.get("/api/overview").json()["disputed"]
    assert len(disputed) == 4
    truths = {item.truth for item in voted.votes.items()}
    for one in disputed:
        assert one["given"] == [{"answer": one["truth"], "votes": 2}, {"answer": None, "votes": 1}]
        assert one["truth"] in truths
        assert client.get(one["pictures"][0]).headers["Content-Type"] == "image/png"


def test_it_says_how_many_people_are_missing(make_study):
    assert overview(make_study(annotators=2, versions=2))["missing"] == 8
    assert overview(make_study(annotators=5))["missing"] == 0


def test_an_empty_study_has_an_overview(make_study):
    found = overview(make_study())
    assert (found["votes"], found["agreement"], found["disputed"]) == (0, [], [])
