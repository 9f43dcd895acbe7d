"""Questions and answers: the same item until it is answered, saved once, and taken back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from glasshouse.store import Votes


def answer(item, **changes):
    return {"item": item["id"], "answer": item["answers"][0], "confidence": "likely", "milliseconds": 900, **changes}


@pytest.fixture
def study(make_study):
    return make_study(annotators=2)


@pytest.fixture
def client(study):
    return study.client(study.tokens[0])


def test_the_question_comes_with_the_one_after_it_and_stays(client):
    work = client.get("/api/work").json()
    assert (work["done"], work["undoable"], len(work["items"])) == (0, False, 2)
    assert client.get("/api/work").json() == work


def test_answers_are_saved_until_nothing_is_left(study, client):
    work = client.get("/api/work").json()
    ahead = work["items"][1]
    work = client.post("/api/votes", json=answer(work["items"][0])).json()
    assert work["items"][0] == ahead
    assert work["undoable"]
    while work["items"]:
        work = client.post("/api/votes", json=answer(work["items"][0])).json()
    assert work["done"] == work["total"] == len(study.votes.votes()) == 4
    assert "All 4 of your answers are saved" in client.get("/thanks").text


def test_a_vote_keeps_what_was_said(study, client):
    item = client.get("/api/work").json()["items"][0]
    said = {"answer": None, "forced": item["answers"][3], "confidence": "guess", "milliseconds": 2_500}
    assert client.post("/api/votes", json=answer(item, **said)).status_code == 200
    (vote,) = study.votes.votes()
    assert (vote.item, vote.annotator) == (item["id"], study.people[0].id)
    assert (vote.answer, vote.forced, vote.confidence, vote.seconds) == (None, item["answers"][3], "guess", 2.5)


def test_sending_again_changes_nothing_and_another_answer_is_refused(study, client):
    item = client.get("/api/work").json()["items"][0]
    first, again = (client.post("/api/votes", json=answer(item)) for _ in range(2))
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json() == again.json()
    other = client.post("/api/votes", json=answer(item, answer=item["answers"][1]))
    assert other.status_code == 409
    assert len(study.votes.votes()) == 1


def test_an_item_that_is_not_ones_own_is_refused(study, client):
    held = {item["id"] for item in client.get("/api/work").json()["items"]}
    other = next(item for item in study.votes.items() if item.id not in held)
    for item in ({"id": other.id, "answers": other.answers}, {"id": "f" * 32, "answers": ["cat"]}):
        assert client.post("/api/votes", json=answer(item)).status_code == 409
    assert study.votes.votes() == []


def test_an_answer_that_was_not_offered_is_refused(study, client):
    item = client.get("/api/work").json()["items"][0]
    assert client.post("/api/votes", json=answer(item, answer="submarine")).status_code == 409
    assert study.votes.votes() == []


def test_undo_asks_the_same_question_again(study, client):
    before = client.get("/api/work").json()
    client.post("/api/votes", json=answer(before["items"][0]))
    assert client.post("/api/undo", json={"done": 1}).json() == before
    assert study.votes.votes() == []


def test_undo_sent_twice_takes_back_one_answer(study, client):
    for _ in range(2):
        work = client.get("/api/work").json()
        client.post("/api/votes", json=answer(work["items"][0]))
    first, again = (client.post("/api/undo", json={"done": 2}) for _ in range(2))
    assert first.json() == again.json()
    assert first.json()["done"] == len(study.votes.votes()) == 1


def test_two_copies_of_one_undo_in_flight_take_back_one_answer(study, client, monkeypatch):
    for _ in range(2):
        client.post("/api/votes", json=answer(client.get("/api/work").json()["items"][0]))
    both = threading.Barrier(2, timeout=30)
    undo = Votes.undo

    def undo_together(*given):
        both.wait()
        return undo(*given)

    monkeypatch.setattr(Votes, "undo", undo_together)
    clients = [study.client(study.tokens[0]) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda one: one.post("/api/undo", json={"done": 2}), clients))
    assert [one.status_code for one in answers] == [200, 200]
    assert len(study.votes.votes()) == 1


def test_the_order_of_answers_is_each_annotators_own_and_stays(make_study):
    study = make_study(annotators=3, originals=1)
    orders = [study.client(token).get("/api/work").json()["items"][0]["answers"] for token in study.tokens]
    assert len({tuple(order) for order in orders}) == 3
    assert len({tuple(sorted(order)) for order in orders}) == 1
    assert study.client(study.tokens[0]).get("/api/work").json()["items"][0]["answers"] == orders[0]


def test_classification_never_shows_the_original_beside(client):
    for item in client.get("/api/work").json()["items"]:
        assert len(item["pictures"]) == 1
        assert item["none"]


def test_the_pair_task_asks_same_or_different(make_study):
    study = make_study(task="pair")
    item = study.client(study.tokens[0]).get("/api/work").json()["items"][0]
    assert item["answers"] == ["same", "different"]
    assert item["none"] is None
    assert len(item["pictures"]) == 2


def test_the_pair_task_takes_no_none(make_study):
    study = make_study(task="pair")
    client = study.client(study.tokens[0])
    refused = client.post("/api/votes", json=answer(client.get("/api/work").json()["items"][0], answer=None))
    assert refused.status_code == 409
    assert "has no 'none': choose one of same, different" in refused.json()["detail"]
    assert study.votes.votes() == []
