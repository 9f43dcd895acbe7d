"""``glasshouse preview``: what CSVAR does to one image, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def preview(
    image: Annotated[Path, typer.Argument(help="image file, or the name of an embedded photograph")],
    out: Annotated[Path, typer.Option(help="picture to write")] = Path("preview.png"),
    size: Annotated[int | None, typer.Option(help="resize to this many pixels first")] = None,
) -> None:
    """Draw original, variance map, block map, shuffled image and the granularity grid."""
    from glasshouse.reports.preview import write_preview

    write_preview(image, out, size=size)
    print(f"Picture: {out}")
