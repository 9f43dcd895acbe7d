"""How many pairs of images the shipped SemSim compares in a second, with one one-thread process per core."""

from __future__ import annotations

import os
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch
from clock import row

from glasshouse.metrics import create

PAIRS = 256
SIDE = 32
TURNS = 5
WANTED = 300


def run() -> list[dict[str, object]]:
    """Pairs per second of all processes together, the median of a few turns."""
    processes = os.cpu_count() or 1
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        turns = [sum(pool.map(pairs_per_second, range(processes))) for _ in range(TURNS + 1)][1:]  # the first warms up
    found = statistics.median(turns)
    what = f"pairs of {SIDE} px compared in a second by {processes} processes of one thread"
    return [row(what, f"{found:.0f} ({min(turns):.0f} to {max(turns):.0f})", str(WANTED), found >= WANTED)]


def pairs_per_second(seed: int) -> float:
    """Of one process."""
    torch.set_num_threads(1)
    metric = create("semsim")
    rng = torch.Generator().manual_seed(seed)
    truth, guess = (torch.rand((PAIRS, 3, SIDE, SIDE), generator=rng) for _ in range(2))
    metric(truth[:8], guess[:8])
    began = time.perf_counter()
    metric(truth, guess)
    return PAIRS / (time.perf_counter() - began)
