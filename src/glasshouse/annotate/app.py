"""The web application: one per study, with everything it needs handed in."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from glasshouse.annotate import overview, pages, pictures, work
from glasshouse.annotate.headers import SafeHeaders
from glasshouse.annotate.limits import Buckets, Limits, RateLimit, SizeLimit
from glasshouse.annotate.sessions import Cookies
from glasshouse.annotate.visits import Site
from glasshouse.errors import VoteError
from glasshouse.store.votes import Votes
from glasshouse.votes.invitations import public_origin

DATA = ("/api", "/images", "/openapi.json")


def create_app(
    votes: Votes,
    study: Path,
    *,
    secure: bool = False,
    public_url: str | None = None,
    limits: Limits | None = None,
) -> ASGIApp:
    """The application over a study's votes and pictures; ``secure`` where it is served over TLS.

    ``public_url`` is where people find it, if that is not where it listens: then it alone says whether over TLS.
    """
    origin = None if public_url is None else public_origin(public_url)
    if origin is not None:
        secure = origin.startswith("https:")
    limits = limits or Limits()
    app = FastAPI(
        title="Glasshouse annotation",
        version=version("glasshouse"),
        description="People's judgements of reconstructed images. Every request needs the cookie of a personal link.",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.site = Site(votes, study, Cookies(study, secure=secure), Buckets(limits.token), origin)
    for part in (work, overview, pictures, pages):
        app.include_router(part.router)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_exception_handler(VoteError, _not_taken)
    app.add_middleware(SizeLimit, limits=limits)
    app.add_middleware(RateLimit, limits=limits)
    return SafeHeaders(app)  # around everything: a middleware would not see the answer to an error of ours


async def _refused(request: Request, error: Exception) -> Response:
    """A page for people, a sentence for programs; neither says more than the number does."""
    found = error if isinstance(error, HTTPException) else HTTPException(500)
    if request.url.path.startswith(DATA):
        return JSONResponse({"detail": found.detail}, found.status_code, found.headers)
    answer = pages.refusal(found.status_code)
    answer.headers.update(found.headers or {})
    return answer


async def _not_understood(request: Request, error: Exception) -> Response:
    """Says what is wrong with a request without repeating it."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    places = [{"loc": [str(part) for part in one["loc"]], "msg": one["msg"], "type": one["type"]} for one in found]
    return JSONResponse({"detail": places}, 422)


async def _not_taken(request: Request, error: Exception) -> Response:
    """Says why a vote was not taken."""
    return JSONResponse({"detail": str(error)}, 409)
