"""``glasshouse annotate serve``: the page on which people say what they see."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

if TYPE_CHECKING:
    from glasshouse.annotate.serve import Address

File = Optional[Path]  # noqa: UP045 - typer reads it at run time
Url = Optional[str]  # noqa: UP045


def serve(
    study: Annotated[Path, typer.Argument(help="study directory")],
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="port to listen on")] = 8000,
    database: Annotated[Url, typer.Option(help="URL of the database [default: the study's own]")] = None,
    certfile: Annotated[File, typer.Option(help="TLS certificate, PEM")] = None,
    keyfile: Annotated[File, typer.Option(help="its private key, PEM")] = None,
    public_url: Annotated[
        Url, typer.Option(help="where people find the page behind a proxy that speaks TLS: https://HOST")
    ] = None,
    unencrypted: Annotated[
        bool,
        typer.Option(
            "--i-know-this-is-not-encrypted",
            help="listen to others without TLS: links and pictures can be read on the way",
        ),
    ] = False,
) -> None:
    """Serve the page of STUDY until interrupted; ``annotate invite`` makes the links."""
    from glasshouse import checks
    from glasshouse.cli.annotate import open_votes
    from glasshouse.store import Location

    with checks.from_extra("annotate", "The page"):
        from glasshouse.annotate.serve import Address
        from glasshouse.annotate.serve import serve as run
    address = Address(
        host=host, port=port, certfile=certfile, keyfile=keyfile, unencrypted=unencrypted, public_url=public_url
    )
    with open_votes(study, database) as votes:
        invited = sum(one.token_hash is not None and not one.revoked for one in votes.annotators())
    if not invited:
        print(f"Nobody is invited yet: run 'glasshouse annotate invite {study}'.")
    with suppress(KeyboardInterrupt):
        run(study, database or Location.of(study).database, address, ready=_announce)
    print("Stopped. Every answer that was shown as saved is saved.")


def _announce(address: Address) -> None:
    print(f"Serving at {address.url}. Ctrl-C ends it.", flush=True)
