"""Figures as pictures."""

from __future__ import annotations

import io
from typing import Any


def png(figure: Any, dpi: int = 100) -> bytes:
    """A figure as PNG on white."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, facecolor="white")
    return buffer.getvalue()
