"""Who is let in, what a stranger learns, and which writes are taken."""

from __future__ import annotations

import secrets

import pytest
from fastapi.testclient import TestClient

from glasshouse.annotate.sessions import CSRF_HEADER, csrf_token
from glasshouse.store import Votes

PLACES = ("/", "/thanks", "/owner", "/api/work", "/api/overview")


def ballot(client, answer=None):
    item = client.get("/api/work").json()["items"][0]
    return {"item": item["id"], "answer": answer or item["answers"][0], "confidence": "likely", "milliseconds": 900}


def test_a_link_becomes_a_cookie_that_scripts_and_other_sites_cannot_use(make_study):
    study = make_study()
    client = study.client()
    answer = client.get(f"/join/{study.tokens[0]}")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie
    assert study.tokens[0] not in answer.text
    assert client.get("/").status_code == 200


def test_over_tls_the_cookie_is_secure(make_study):
    study = make_study()
    cookie = study.client(secure=True).get(f"/join/{study.tokens[0]}").headers["Set-Cookie"]
    assert cookie.startswith("__Host-")
    assert "Secure" in cookie
    assert "Path=/" in cookie


def test_only_the_hash_of_a_token_is_stored(make_study):
    study = make_study()
    study.votes.close()
    stored = b"".join(file.read_bytes() for file in study.directory.glob("glasshouse.db*"))
    assert not any(token.encode() in stored for token in (*study.tokens, study.owner))


@pytest.mark.parametrize("place", PLACES)
def test_without_a_link_everything_is_closed(make_study, place):
    assert make_study().client().get(place).status_code == 403


def test_wrong_revoked_and_foreign_links_look_the_same(make_study):
    study = make_study(annotators=2)
    study.votes.revoke(study.people[1].id)
    wrong = secrets.token_urlsafe(32)
    answers = [
        study.client().get(f"/{door}/{token}")
        for door, token in (
            ("join", wrong),
            ("join", "short"),
            ("join", study.tokens[1]),
            ("join", study.owner),
            ("owner", study.tokens[0]),
            ("owner", wrong),
        )
    ]
    assert {answer.status_code for answer in answers} == {403}
    assert len({answer.text for answer in answers}) == 1
    assert not any("Set-Cookie" in answer.headers for answer in answers)


def test_a_revoked_link_ends_at_once(make_study):
    study = make_study()
    client = study.client(study.tokens[0])
    vote, picture = ballot(client), client.get("/api/work").json()["items"][0]["pictures"][0]["address"]
    study.votes.revoke(study.people[0].id)
    assert client.post("/api/votes", json=vote).status_code == 403
    assert client.get(picture).status_code == 403
    assert study.votes.votes() == []


def test_annotators_do_not_see_the_overview_and_the_owner_does_not_vote(make_study):
    study = make_study()
    assert study.client(study.tokens[0]).get("/api/overview").status_code == 403
    owner = study.client()
    assert owner.get(f"/owner/{study.owner}").status_code == 200
    assert owner.get("/owner").status_code == 200
    assert owner.get("/api/work").status_code == 403


@pytest.mark.parametrize("path", ["/api/votes", "/api/undo"])
@pytest.mark.parametrize("sent", ["", "0" * 64, "other annotator", "é"])
def test_a_write_without_the_pages_own_token_is_refused(make_study, path, sent):
    study = make_study()
    client = study.client(study.tokens[0])
    body = ballot(client) if path.endswith("votes") else {"done": 1}
    other = csrf_token(study.tokens[1]) if sent == "other annotator" else sent
    del client.headers[CSRF_HEADER]
    assert client.post(path, json=body, headers={CSRF_HEADER: other.encode()}).status_code == 403
    assert study.votes.votes() == []


def test_a_write_from_another_origin_is_refused(make_study):
    study = make_study()
    client = study.client(study.tokens[0])
    body = ballot(client)
    for origin in ("http://elsewhere.example", "null", "http://127.0.0.1:8001", "https://127.0.0.1:8000"):
        assert client.post("/api/votes", json=body, headers={"Origin": origin}).status_code == 403
    assert client.post("/api/votes", json=body, headers={"Origin": "http://127.0.0.1:8000"}).status_code == 200


def test_behind_a_proxy_the_public_url_says_what_is_ours(make_study):
    study = make_study()
    client = study.client(study.tokens[0], public_url="https://Votes.example:443/")
    cookie = client.get(f"/join/{study.tokens[0]}").headers["Set-Cookie"]
    assert cookie.startswith("__Host-")
    assert "Secure" in cookie
    client.cookies.clear()
    client.headers["Cookie"] = cookie.split(";")[0]  # to the proxy it goes over TLS, from there to us it does not
    body = ballot(client)
    for origin in ("http://127.0.0.1:8000", "http://votes.example", "https://other.example"):
        assert client.post("/api/votes", json=body, headers={"Origin": origin}).status_code == 403
    assert client.post("/api/votes", json=body, headers={"Origin": "https://votes.example"}).status_code == 200


def test_an_error_of_ours_carries_the_safe_headers_too(make_study, monkeypatch):
    study = make_study()
    app = study.client(study.tokens[0]).app
    monkeypatch.setattr(Votes, "annotator_by_hash", lambda *given: 1 / 0)
    answer = TestClient(app, raise_server_exceptions=False).get(f"/join/{study.tokens[0]}")
    assert answer.status_code == 500
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("place", ["/", "/join/nothing", "/static/judge.js", "/nowhere", "/api/work", "/openapi.json"])
def test_every_answer_carries_the_safe_headers(make_study, place):
    headers = make_study().client().get(place).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
