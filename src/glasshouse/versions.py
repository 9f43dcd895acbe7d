"""Which versions made a result."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("glasshouse", "torch", "torchvision", "numpy", "scipy", "scikit-image", "pillow", "safetensors")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide results."""
    return {"python": platform.python_version(), **{name: _installed(name) for name in PACKAGES}}


@cache
def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
