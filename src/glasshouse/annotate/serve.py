"""Serving the page: on this machine without more, to others only over TLS or with eyes open."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import uvicorn

from glasshouse.annotate.app import create_app
from glasshouse.annotate.limits import Limits
from glasshouse.errors import SettingError
from glasshouse.store.votes import Votes
from glasshouse.votes.invitations import public_origin

LOOPBACK_NAMES = ("localhost", "localhost.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the page is served, and how the way there is protected.

    ``public_url`` is where people find it behind a proxy; it must be plain to us which, as requests do not say.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    certfile: Path | None = None
    keyfile: Path | None = None
    unencrypted: bool = False
    public_url: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise SettingError(f"port={self.port} is no port: use 1 to 65535, or 0 for any that is free.")
        if (self.certfile is None) != (self.keyfile is None):
            raise SettingError("TLS needs a certificate and its key: give --certfile and --keyfile together.")
        for file in (self.certfile, self.keyfile):
            if file is not None and not file.is_file():
                raise SettingError(f"{file} is not a file: give the certificate and its key in PEM format.")
        if self.public_url is not None:
            public_origin(self.public_url)
        if not (self.is_loopback or self.is_encrypted or self.unencrypted):
            raise SettingError(
                f"{self.host} can be reached by others, who could read links and private pictures on the way: "
                "give --certfile and --keyfile, or --i-know-this-is-not-encrypted."
            )

    @property
    def is_encrypted(self) -> bool:
        """Whether the page is served over TLS."""
        return self.certfile is not None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() in LOOPBACK_NAMES

    @property
    def url(self) -> str:
        """What links begin with."""
        if self.public_url is not None:
            return public_origin(self.public_url)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_encrypted else 'http'}://{host}:{self.port}"


def listen(address: Address) -> tuple[socket.socket, Address]:
    """Take the port, before anything is promised to anybody; also the address with the port that was free."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        taken = socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SettingError(
            f"Cannot listen on {address.host}, port {address.port} ({reason}): choose another --host or --port."
        ) from error
    return taken, replace(address, port=taken.getsockname()[1])


def serve(
    study: Path,
    database: Path | str,
    address: Address,
    *,
    limits: Limits | None = None,
    ready: Callable[[Address], None] = lambda address: None,
) -> None:
    """Serve the page of a study until interrupted; ``ready`` is told the address once the port is ours."""
    listener, address = listen(address)
    votes = Votes(database)
    try:
        ready(address)
        config = uvicorn.Config(
            create_app(votes, study, secure=address.is_encrypted, public_url=address.public_url, limits=limits),
            ssl_certfile=address.certfile,
            ssl_keyfile=address.keyfile,
            access_log=False,  # a link's token is part of its first address
            log_level="warning",
            server_header=False,
            proxy_headers=False,  # anybody can write them, and an address counts for the rate limit
            timeout_keep_alive=75,
            h11_max_incomplete_event_size=16_384,
        )
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        votes.close()
        listener.close()
