"""How long people wait for help."""

from __future__ import annotations

import subprocess
import sys

from clock import row, seconds


def run() -> list[dict[str, object]]:
    """Time ``glasshouse --help`` in fresh processes."""

    def ask() -> None:
        subprocess.run([sys.executable, "-m", "glasshouse", "--help"], capture_output=True, check=True)

    took = seconds(ask, repeats=7)
    return [row("glasshouse --help", f"{took:.2f} s", "0.5 s", took < 0.5)]
