"""What every request needs: the votes, the study's directory, and who is asking."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import Depends, HTTPException, Request

from glasshouse.annotate.limits import Buckets
from glasshouse.annotate.lookout import Lookout
from glasshouse.annotate.sessions import Cookies, Role, csrf_token, is_own_page
from glasshouse.store.ballots import Annotator
from glasshouse.store.votes import Votes
from glasshouse.votes.invitations import hash_of


class Forbidden(HTTPException):
    """The one answer to everybody without a valid link, whatever was wrong with it."""

    def __init__(self) -> None:
        super().__init__(403, "This needs a valid link.")


class TooMany(HTTPException):
    """One request too many with one link."""

    def __init__(self, wait: float) -> None:
        super().__init__(429, "Too many requests: wait a moment.", {"Retry-After": str(int(wait) + 1)})


@dataclass(frozen=True, slots=True)
class Site:
    """The parts that one server works with; ``origin`` is what people's browsers call it, where it cannot know."""

    votes: Votes
    study: Path
    cookies: Cookies
    buckets: Buckets
    origin: str | None = None
    lookout: Lookout = field(default_factory=Lookout)
    clock: Callable[[], float] = time.time

    def annotator(self, token: str) -> Annotator:
        """The annotator whom a token lets in."""
        found = self.votes.annotator_by_hash(hash_of(token))
        if found is None or found.revoked:
            raise Forbidden
        return found

    def check_owner(self, token: str) -> None:
        """Let the owner's token in, and no other; hashes are compared, so time tells nothing of the token."""
        if self.votes.owner_hash() != hash_of(token):
            raise Forbidden

    def admit(self, role: Role, token: str) -> None:
        """Let somebody in who has a token of this role, and count the request."""
        if role == "owner":
            self.check_owner(token)
        else:
            self.annotator(token)
        self.limit(token)

    def limit(self, token: str) -> None:
        """Count a request with a valid token."""
        wait = self.buckets.wait(hash_of(token))
        if wait:
            raise TooMany(wait)


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of somebody who was let in."""

    site: Site
    token: str

    @property
    def csrf(self) -> str:
        """What this visitor's pages send along with writes."""
        return csrf_token(self.token)


@dataclass(frozen=True, slots=True)
class AnnotatorVisit(Visit):
    """One request of an annotator."""

    annotator: Annotator


async def site(request: Request) -> Site:
    """The site that got the request."""
    found: Site = request.app.state.site
    return found


def _token(request: Request, at: Site, role: Role) -> str:
    token = at.cookies.token(request, role)
    if token is None:
        raise Forbidden
    return token


def annotator_visit(request: Request, at: Annotated[Site, Depends(site)]) -> AnnotatorVisit:
    """Let an annotator in by the cookie."""
    token = _token(request, at, "annotator")
    found = at.annotator(token)
    at.limit(token)
    return AnnotatorVisit(at, token, found)


def owner_visit(request: Request, at: Annotated[Site, Depends(site)]) -> Visit:
    """Let the owner in by the cookie."""
    token = _token(request, at, "owner")
    at.check_owner(token)
    at.limit(token)
    return Visit(at, token)


async def writing_visit(request: Request, visit: Annotated[AnnotatorVisit, Depends(annotator_visit)]) -> AnnotatorVisit:
    """Let an annotator write, from our own page only."""
    if not is_own_page(request, visit.token, visit.site.origin):
        raise Forbidden
    return visit


Visiting = Annotated[AnnotatorVisit, Depends(annotator_visit)]
Writing = Annotated[AnnotatorVisit, Depends(writing_visit)]
Owning = Annotated[Visit, Depends(owner_visit)]
