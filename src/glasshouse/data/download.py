"""Downloads of official archives through torchvision, which checks them; only ever when asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.error import URLError

from glasshouse.errors import DataError
from glasshouse.torchvision_cpu import allow_cpu_torchvision


def fetch(name: str, root: Path, **options: Any) -> None:
    """Download and unpack one of torchvision's data sets under the root."""
    allow_cpu_torchvision()
    from torchvision import datasets as vision

    try:
        getattr(vision, name)(root=str(root), download=True, **options)
    except (URLError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{name} cannot be downloaded ({reason}): copy its files to {root} by hand.") from error
