"""``glasshouse protect`` and ``unprotect``: shuffle a data set before it leaves, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def protect(
    source: Annotated[Path, typer.Argument(help="folder of images, or FILE.npz")],
    out: Annotated[Path, typer.Argument(help="directory to write to")],
    key_file: Annotated[Path, typer.Option(help="the secret key, made by 'glasshouse key new'")],
    epochs: Annotated[int, typer.Option(help="how many versions of each image")] = 1,
    files: Annotated[str, typer.Option("--format", help="png, npz or shards")] = "png",
    block_size: Annotated[int | None, typer.Option(help="fixed size of all blocks [default: adaptive]")] = None,
    channel_wise: Annotated[bool, typer.Option(help="shuffle channels independently")] = True,
    workers: Annotated[int, typer.Option(help="processes that shuffle and write")] = 1,
) -> None:
    """Write shuffled versions of every image (CSVAR); raw images are never written. The same command goes on."""
    from glasshouse.cli.screen import tallying
    from glasshouse.collection import protect as run
    from glasshouse.collection import read_key

    with tallying("Protecting", "images") as progress:
        found = run(
            source,
            out,
            key=read_key(key_file),
            epochs=epochs,
            files=files,
            block_size=block_size,
            channel_wise=channel_wise,
            workers=workers,
            progress=progress,
        )
    for line in found.unreadable:
        print(f"skipped {line}")
    print(f"{found.images} images in {epochs} version{'' if epochs == 1 else 's'} each: {out}")


def unprotect(
    protected: Annotated[Path, typer.Argument(help="directory that 'protect' wrote")],
    back: Annotated[Path, typer.Argument(help="empty directory for the restored images")],
    key_file: Annotated[Path, typer.Option(help="the key that protected them")],
    epoch: Annotated[int, typer.Option(help="which version to restore from")] = 0,
) -> None:
    """Restore the original images, to the bit, with the key that protected them."""
    from glasshouse.cli.screen import tallying
    from glasshouse.collection import read_key
    from glasshouse.collection import unprotect as run

    with tallying("Restoring", "images") as progress:
        count = run(protected, back, key=read_key(key_file), epoch=epoch, progress=progress)
    print(f"{count} images restored: {back}")
