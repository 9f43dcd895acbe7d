"""``glasshouse annotate serve``: the page on which people say what they see."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

File = Optional[Path]  # noqa: UP045 - typer reads it at run time
Url = Optional[str]  # noqa: UP045


def serve(
    study: Annotated[Path, typer.Argument(help="study directory")],
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="port to listen on")] = 8000,
    database: Annotated[Url, typer.Option(help="URL of the database [default: the study's own]")] = None,
    certfile: Annotated[File, typer.Option(help="TLS certificate, PEM")] = None,
    keyfile: Annotated[File, typer.Option(help="its private key, PEM")] = None,
    unencrypted: Annotated[
        bool,
        typer.Option(
            "--i-know-this-is-not-encrypted",
            help="listen to others without TLS: links and pictures can be read on the way",
        ),
    ] = False,
) -> None:
    """Serve the page of STUDY until interrupted; invite people with ``annotate invite``."""
    from glasshouse.annotate.serve import Address
    from glasshouse.annotate.serve import serve as run

    address = Address(host=host, port=port, certfile=certfile, keyfile=keyfile, unencrypted=unencrypted)
    print(f"Serving {study} at {address.url} (Ctrl-C ends it; every answer is saved at once)", flush=True)
    run(study, database or study / "glasshouse.db", address)
