"""Who is asking: tokens in links, cookies after the first visit, and proof that a write comes from our own page.

A link carries a random token of 256 bits, and the database holds its hash alone. The cookie carries the token as well:
it can do what the link can and no more, it ends when the link is revoked, and the server has no sessions to lose.
Tokens are found by their hash, so how long a wrong one takes tells nothing of a right one.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Literal

from starlette.requests import HTTPConnection
from starlette.responses import Response

Role = Literal["annotator", "owner"]

CSRF_HEADER = "X-CSRF-Token"
LONGEST_TOKEN = 128
MONTH = 30 * 24 * 3600


def csrf_token(token: str) -> str:
    """What a page of this visitor sends along with a write; nobody can make it who has not the cookie's secret."""
    return hmac.new(token.encode(), b"glasshouse csrf", hashlib.sha256).hexdigest()


class Cookies:
    """The cookies of one study. Over TLS they have the prefix that lets no other host or plain page set them."""

    def __init__(self, study: Path, *, secure: bool) -> None:
        self.secure = secure
        self.study = hashlib.sha256(str(study.resolve()).encode()).hexdigest()[:8]

    def name(self, role: Role) -> str:
        """The cookie's name; one browser may hold several, since ports share cookies and owners may annotate."""
        return f"{'__Host-' if self.secure else ''}glasshouse_{self.study}_{role}"

    def give(self, response: Response, role: Role, token: str) -> None:
        """Let the browser keep a token where no script and no other site can reach it."""
        response.set_cookie(
            self.name(role), token, max_age=MONTH, path="/", secure=self.secure, httponly=True, samesite="strict"
        )

    def token(self, request: HTTPConnection, role: Role) -> str | None:
        """The token that a request brings."""
        found = request.cookies.get(self.name(role))
        return found if found and len(found) <= LONGEST_TOKEN else None


def is_own_page(request: HTTPConnection, token: str, public: str | None = None) -> bool:
    """Whether a write was sent by our own page: it knows the page's token, and the browser names no other origin.

    Behind a proxy that speaks TLS the request does not say what the browser was told: ``public`` is that origin.
    """
    given = request.headers.get(CSRF_HEADER, "")
    origin = request.headers.get("Origin")
    expected = public or f"{request.url.scheme}://{request.headers.get('Host', '')}"
    ours = origin is None or origin == expected
    return ours and hmac.compare_digest(given.encode(), csrf_token(token).encode())
