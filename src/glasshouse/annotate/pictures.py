"""Pictures by opaque addresses: which file is meant stands in the database, never in a request."""

from __future__ import annotations

import hashlib
import hmac
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi import Path as Part

from glasshouse.annotate.messages import Identity
from glasshouse.annotate.sessions import Role
from glasshouse.annotate.visits import Forbidden, Site, site
from glasshouse.errors import StudyError
from glasshouse.store.ballots import Item
from glasshouse.votes.pictures import bare_png

Side = Literal["image", "beside"]

KEPT = 256
SEAL = 32

router = APIRouter()


def address(token: str, item: Item, side: Side) -> str:
    """Where a visitor fetches a picture; sealed with the visitor's own token, so that nobody can ask for others."""
    return f"/images/{item.id}/{side}/{seal(token, item.id, side)}"


def seal(token: str, item: str, side: str) -> str:
    """Proof that the server itself gave this address to this visitor."""
    return hmac.new(token.encode(), f"{item}/{side}".encode(), hashlib.sha256).hexdigest()[:SEAL]


@router.get(
    "/images/{item}/{side}/{sealed}",
    response_class=Response,
    responses={200: {"content": {"image/png": {}}}, 403: {}, 404: {}},
)
def image(
    request: Request,
    item: Identity,
    side: Side,
    sealed: Annotated[str, Part(min_length=SEAL, max_length=SEAL, pattern="^[0-9a-f]+$")],
    at: Annotated[Site, Depends(site)],
) -> Response:
    """One picture as PNG, pixels only: no name, no comment, no place where it was taken."""
    if not any(_is_sealed_for(request, at, role, (item, side, sealed)) for role in get_args(Role)):
        raise Forbidden
    found = at.votes.item(item)
    file = None if found is None else getattr(found, side)
    if file is None:
        raise HTTPException(404, "There is no such picture.")
    return Response(pixels(at.study, file), media_type="image/png")


def _is_sealed_for(request: Request, at: Site, role: Role, sealed: tuple[str, str, str]) -> bool:
    """Whether the visitor's cookie made this seal; a revoked link's is not accepted."""
    item, side, given = sealed
    token = at.cookies.token(request, role)
    if token is None or not hmac.compare_digest(seal(token, item, side), given):
        return False
    at.admit(role, token)
    return True


@lru_cache(maxsize=KEPT)
def pixels(study: Path, file: str) -> bytes:
    """A file of the study as PNG without anything but pixels; why there is none is not the visitor's business."""
    try:
        return bare_png(study, file)
    except StudyError as error:
        raise HTTPException(404, "There is no such picture.") from error
