"""Requests made from the API's own OpenAPI description, and broken ones: no answer is ever an error of the server.

``make soak`` makes 2,000 requests.
"""

from __future__ import annotations

import json
from collections import Counter
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.annotate.study import FAST
from tests.soak import count, piece

from glasshouse.annotate.sessions import CSRF_HEADER, csrf_token

REQUESTS = count(100, 2_000)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


class Requests:
    """Strategies for requests that an OpenAPI document describes; ``hints`` are texts that mean something here."""

    def __init__(self, described: dict, hints: list[str]) -> None:
        self.described = described
        self.hints = st.sampled_from(hints)
        self.operations = [
            (method, path, operation)
            for path, methods in described["paths"].items()
            for method, operation in methods.items()
        ]

    def valid(self, schema: dict) -> st.SearchStrategy:
        """Values as a schema wants them."""
        if "$ref" in schema:
            return self.valid(self.described["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
        if "anyOf" in schema:
            return st.one_of([self.valid(one) for one in schema["anyOf"]])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        return {"null": self.null, "integer": self.integer, "string": self.string, "object": self.object}[
            schema["type"]
        ](schema)

    def null(self, schema: dict) -> st.SearchStrategy:
        return st.none()

    def integer(self, schema: dict) -> st.SearchStrategy:
        return st.integers(schema.get("minimum"), schema.get("maximum"))

    def string(self, schema: dict) -> st.SearchStrategy:
        most = schema.get("maxLength")
        texts = st.from_regex(schema["pattern"], fullmatch=True) if "pattern" in schema else st.text(max_size=most)
        return self.hints | texts

    def object(self, schema: dict) -> st.SearchStrategy:
        fields = {name: self.valid(one) for name, one in schema["properties"].items()}
        required = {name: fields.pop(name) for name in schema.get("required", [])}
        return st.fixed_dictionaries(required, optional=fields)

    def request(self, draw) -> dict:
        """A request as described, or with one thing wrong."""
        method, path, operation = draw(st.sampled_from(self.operations))
        for parameter in operation.get("parameters", []):
            value = draw(self.valid(parameter["schema"]) | st.text(max_size=40))
            path = path.replace("{" + parameter["name"] + "}", quote(value, safe="", errors="replace") or "-")
        method = draw(st.sampled_from([method] * 9 + ["get", "put", "delete", "options"]))
        return {"method": method.upper(), "url": path, "content": self.body(draw, operation)}

    def body(self, draw, operation: dict) -> bytes | None:
        if "requestBody" not in operation:
            return draw(st.none() | st.binary(max_size=20))
        body = draw(self.valid(operation["requestBody"]["content"]["application/json"]["schema"]))
        if draw(st.integers(0, 3)) == 0:
            body[draw(st.sampled_from([*body, "more"]))] = draw(ANYTHING)
        whole = json.dumps(body).encode()
        return draw(st.sampled_from([whole] * 6 + [whole[:-1]])) if draw(st.integers(0, 9)) else draw(st.binary())


@pytest.mark.soak
@pytest.mark.parametrize("who", ["annotator", "owner", "stranger"])
def test_no_request_ends_in_an_error_of_the_server(make_study, who, record_property):
    study = make_study(originals=100)
    client = study.client(limits=FAST)
    doors = {"annotator": f"/join/{study.tokens[0]}", "owner": f"/owner/{study.owner}"}
    if who in doors:
        client.get(doors[who])
    client.headers.update({CSRF_HEADER: csrf_token(study.tokens[0]), "Content-Type": "application/json"})
    items = study.votes.claim(study.people[0].id, 0.0, 2)
    hints = [*(item.id for item in items), *items[0].answers[:2], "x" * 64]
    requests = Requests(client.get("/openapi.json").json(), hints)
    seen: Counter[int] = Counter()

    @seed(piece())
    @settings(
        max_examples=-(-REQUESTS // 3),
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(request=st.composite(lambda draw: requests.request(draw))())
    def ask(request):
        answer = client.request(**request)
        seen[answer.status_code] += 1
        assert answer.status_code < 500, request

    ask()
    assert seen.total() >= REQUESTS // 3
    assert seen[403] if who == "stranger" else seen[200]
    record_property("requests", seen.total())
    record_property("errors", sum(seen[code] for code in seen if code >= 500))


def test_the_description_holds_every_write_and_every_answer(make_study):
    described = make_study().client().get("/openapi.json").json()
    assert set(described["paths"]) == {
        "/api/work",
        "/api/votes",
        "/api/undo",
        "/api/overview",
        "/images/{item}/{side}/{sealed}",
    }
    for path in ("/api/votes", "/api/undo"):
        assert set(described["paths"][path]["post"]["responses"]) >= {"200", "403", "409", "413", "422", "429"}
