"""The pages, and what they are made of; all of it is read once, so no request reaches the file system."""

from __future__ import annotations

import re
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from glasshouse.annotate.visits import Forbidden, Owning, Site, Visiting, site

TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
TOKEN = re.compile(r"[0-9A-Za-z_-]{16,128}")

router = APIRouter(default_response_class=HTMLResponse, include_in_schema=False)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("glasshouse.annotate"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )


def page(template: str, status_code: int = 200, **values: object) -> HTMLResponse:
    """A page from its template; everything put into it is escaped, and nothing may be missing."""
    return HTMLResponse(_environment().get_template(template).render(**values), status_code)


@cache
def _static() -> dict[str, tuple[bytes, str]]:
    folder = resources.files("glasshouse.annotate") / "static"
    return {
        file.name: (file.read_bytes(), TYPES[file.name[file.name.rindex(".") :]])
        for file in folder.iterdir()
        if file.is_file()
    }


@router.get("/static/{name}")
def static(name: str) -> Response:
    """Scripts and style."""
    if name not in _static():
        raise HTTPException(404, "There is no such page.")
    content, media_type = _static()[name]
    return Response(content, media_type=media_type)


@router.get("/join/{token}")
def join(token: str, at: Annotated[Site, Depends(site)]) -> HTMLResponse:
    """The first visit by a personal link: from now on the cookie says who it is."""
    at.annotator(_well_formed(token))
    entering = page("entering.html", target="/")
    at.cookies.give(entering, "annotator", token)
    return entering


@router.get("/owner/{token}")
def own(token: str, at: Annotated[Site, Depends(site)]) -> HTMLResponse:
    """The owner's first visit."""
    at.check_owner(_well_formed(token))
    entering = page("entering.html", target="/owner")
    at.cookies.give(entering, "owner", token)
    return entering


def _well_formed(token: str) -> str:
    if not TOKEN.fullmatch(token):
        raise Forbidden
    return token


@router.get("/")
def judge(visit: Visiting) -> HTMLResponse:
    """One picture after another."""
    return page("judge.html", csrf=visit.csrf)


@router.get("/thanks")
def thanks(visit: Visiting) -> HTMLResponse:
    """The last page."""
    return page("thanks.html", csrf=visit.csrf, done=visit.site.votes.progress(visit.annotator.id).done)


@router.get("/owner")
def overview(visit: Owning) -> HTMLResponse:
    """The live overview."""
    return page("overview.html", name=visit.site.study.resolve().name)


WORDS = {
    403: (
        "This link does not open anything",
        "It may be incomplete, or withdrawn. Open your personal link again, or ask whoever sent it for a new one.",
    ),
    404: ("There is nothing here", "Open your personal link to go on."),
    429: ("One moment, please", "There were too many requests. Wait a moment and load the page again."),
}


def refusal(status: int) -> HTMLResponse:
    """The page for people who cannot be let in; it says the same to everybody."""
    head, text = WORDS.get(status, (HTTPStatus(status).phrase, "Open your personal link to go on."))
    return page("refused.html", status, status=status, head=head, text=text)
