"""Loading and checking 10,000 PNG files: speed, and memory that does not grow with the set."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from clock import row
from PIL import Image

MEASURE = """
import json, resource, sys, time
from pathlib import Path
from glasshouse.data.folder import open_folder
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
found = open_folder(Path(sys.argv[1]))
total = sum(int(found.read(place).sum()) for place in range(len(found)))
seconds = time.perf_counter() - began
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"images": len(found), "seconds": seconds, "megabytes": (after - before) / 1024}))
"""


def run() -> list[dict[str, object]]:
    """Measure 1,000 and 10,000 files in fresh processes and compare how much memory each took."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = (measure(write(Path(folder) / str(count), count)) for count in (1_000, 10_000))
    growth = large["megabytes"] - small["megabytes"]
    raw = 10_000 * 64 * 64 * 3 / 2**20
    return [
        row("10,000 PNG files of 64 px checked and read", f"{10_000 / large['seconds']:.0f} per second", "", True),
        row(
            "memory of 10,000 files beyond that of 1,000",
            f"{growth:.0f} MB (the pixels alone are {raw:.0f} MB)",
            "a tenth of the pixels",
            growth < raw / 10,
        ),
    ]


def write(folder: Path, count: int) -> Path:
    """Write that many small pictures."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    for number in range(count):
        pixels[0, 0] = (number % 256, number // 256, 0)
        Image.fromarray(pixels).save(folder / f"{number:05d}.png", compress_level=1)
    return folder


def measure(folder: Path) -> dict[str, float]:
    """Load a folder in a process of its own."""
    time.sleep(0.1)
    done = subprocess.run([sys.executable, "-c", MEASURE, str(folder)], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found
