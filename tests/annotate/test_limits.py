"""How large, how often, and what is understood at all."""

from __future__ import annotations

import pytest

from glasshouse.annotate.limits import Buckets, Limits, Rate


def test_a_bucket_fills_with_time_and_never_beyond_its_burst():
    now = 0.0
    buckets = Buckets(Rate(2.0, 3), clock=lambda: now)
    assert [buckets.wait("one") for _ in range(3)] == [0, 0, 0]
    assert buckets.wait("one") == pytest.approx(0.5)
    assert buckets.wait("other") == 0
    now = 0.5
    assert [buckets.wait("one") == 0 for _ in range(2)] == [True, False]
    now = 1000.0
    assert [buckets.wait("one") == 0 for _ in range(4)] == [True, True, True, False]


def test_buckets_forget_those_that_were_quiet_for_longest(monkeypatch):
    monkeypatch.setattr(Buckets, "MOST", 2)
    buckets = Buckets(Rate(1e-9, 1), clock=lambda: 0.0)
    for name in ("first", "second", "third"):
        assert buckets.wait(name) == 0
    assert buckets.wait("third") > 0
    assert buckets.wait("first") == 0


def test_one_link_too_often_is_told_to_wait_and_others_are_not(make_study):
    study = make_study()
    client = study.client(study.tokens[0], limits=Limits(token=Rate(0.1, 3)))
    assert [client.get("/api/work").status_code for _ in range(4)] == [200, 200, 200, 429]
    assert int(client.get("/api/work").headers["Retry-After"]) >= 1
    client.cookies.clear()
    client.get(f"/join/{study.tokens[1]}")
    assert client.get("/api/work").status_code == 200


def test_one_address_too_often_is_told_to_wait(make_study):
    client = make_study().client(limits=Limits(address=Rate(0.1, 2)))
    assert [client.get("/").status_code for _ in range(3)] == [403, 403, 429]


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_that_is_too_long_is_not_read(make_study, declared):
    study = make_study()
    client = study.client(study.tokens[0], limits=Limits(body_bytes=1_000))
    piece = b" " * 600
    content = piece * 4 if declared else iter([piece] * 4)
    answer = client.post("/api/votes", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "wrong",
    [
        {"item": "../../etc/passwd"},
        {"item": ""},
        {"item": "a\u0000b"},
        {"confidence": "very"},
        {"milliseconds": -1},
        {"milliseconds": 1e300},
        {"milliseconds": "soon"},
        {"answer": 5},
        {"answer": "x" * 1_000},
        {"annotator": "somebody else"},
    ],
)
def test_messages_that_are_not_understood_are_refused(make_study, wrong):
    study = make_study()
    client = study.client(study.tokens[0])
    item = client.get("/api/work").json()["items"][0]
    body = {"item": item["id"], "answer": item["answers"][0], "confidence": "guess", "milliseconds": 5, **wrong}
    assert client.post("/api/votes", json=body).status_code == 422
    assert study.votes.votes() == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"item": NaN}', b"[" * 2_000])
def test_bodies_that_are_no_message_are_refused(make_study, content):
    study = make_study()
    client = study.client(study.tokens[0])
    answer = client.post("/api/votes", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
