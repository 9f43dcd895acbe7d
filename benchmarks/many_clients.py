"""Twenty clients, twenty rounds of Flower's simulation on images of MNIST's shape and number: minutes and memory."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy as np
from clock import row

from glasshouse.federated import Federation
from glasshouse.federated.run import federate

IMAGES = 60_000
CLIENTS = 20
ROUNDS = 20
MINUTES = 15
GROWTH = 1.05  # of memory from the middle to the end, which flat memory stays under
PAGE = os.sysconf("SC_PAGE_SIZE")


def run() -> list[dict[str, object]]:
    """One federation in a directory of its own; what images show does not matter to its time."""
    with tempfile.TemporaryDirectory() as name:
        home, held = Path(name), list[int]()
        write_images(home / "images.npz")
        plan = Federation(dataset=str(home / "images.npz"), model="lenet", clients=CLIENTS, rounds=ROUNDS, batch=32)
        began = time.perf_counter()
        federate(plan, home / "federation", tell=lambda facts: held.append(memory(os.getpid())))
        minutes = (time.perf_counter() - began) / 60
    middle, end = held[len(held) // 2 - 1], held[-1]
    return [
        row(
            f"LeNet, {CLIENTS} clients x {ROUNDS} rounds, {IMAGES:,} images of 28 px",
            f"{minutes:.1f} minutes",
            f"{MINUTES} minutes",
            minutes < MINUTES,
        ),
        row(
            f"memory of all processes after round {ROUNDS}, beside that after round {ROUNDS // 2}",
            f"{end / middle:.3f}x of {middle / 2**20:.0f} MB",
            f"{GROWTH}x",
            end <= GROWTH * middle,
        ),
    ]


def write_images(file: Path) -> None:
    """Random pixels of MNIST's shape, with a tenth of each label."""
    rng = np.random.default_rng(0)
    parts = {"train": IMAGES, "test": 1000}
    pixels = {f"x_{part}": rng.integers(0, 256, (count, 28, 28), np.uint8) for part, count in parts.items()}
    np.savez(file, **pixels, **{f"y_{part}": np.arange(count) % 10 for part, count in parts.items()})


def memory(process: int) -> int:
    """Resident bytes of a process and of all that it started, directly or not."""
    parents = {}
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            try:
                parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # which ended meanwhile
                continue
    family = {process}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(resident(one) for one in family)


def resident(process: int) -> int:
    """Resident bytes of one process; none of one that ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE
    except OSError:
        return 0
