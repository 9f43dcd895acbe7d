"""Personal links: a random token for each annotator, of which the study keeps only the hash."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from glasshouse import checks
from glasshouse.errors import SettingError
from glasshouse.store import Annotator, Votes

TOKEN_BYTES = 32
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Invitation:
    """An annotator and the token of its link, which is shown once and kept nowhere."""

    annotator: Annotator
    token: str


def public_origin(url: str) -> str:
    """What links begin with, as browsers write it: scheme and host in small letters, no port that goes without saying.

    Nothing may follow, since cookies and pages are those of the whole host.
    """
    refusal = SettingError(f"'{url}' is no address for links: give https://HOST or https://HOST:PORT, and no path.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise refusal from error
    more = parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None
    if parts.scheme not in PORTS or not host or more:
        raise refusal
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}" + ("" if port in (None, PORTS[parts.scheme]) else f":{port}")


def hash_of(token: str) -> str:
    """What is stored of a token; it has 256 random bits, so a plain hash cannot be turned back."""
    return hashlib.sha256(token.encode()).hexdigest()


def invite(store: Votes, names: Sequence[str]) -> list[Invitation]:
    """Invite people by name."""
    tokens = [secrets.token_urlsafe(TOKEN_BYTES) for _ in names]
    return [Invitation(store.invite(name, hash_of(token)), token) for name, token in zip(names, tokens, strict=True)]


def free_names(store: Votes, count: int) -> list[str]:
    """Names for so many people that are not taken: "annotator 1" and so on."""
    checks.between("annotators", count, 1, 1000)
    taken = {one.name for one in store.annotators()}
    numbered = (f"annotator {number}" for number in range(1, count + len(taken) + 1))
    return [name for name in numbered if name not in taken][:count]


def new_owner_token(store: Votes) -> str:
    """A token that opens the owner's overview from now on; the one before it no longer does."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    store.set_owner_hash(hash_of(token))
    return token
