"""What CSVAR adds to a client's round of ResNet20, as a federation runs them.

Rounds without, without again and with it in turns, in an order drawn anew: the second tells how much two equal rounds
differ. Each is timed by the clock on the wall and by the processor's own, which a busy neighbour moves less. The limit
counts as reached where two standard errors more would reach it too. The shuffle is timed by itself as well.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import numpy as np
import torch
from clock import row

from glasshouse.federated import Federation
from glasshouse.federated.clients import Member, RoundClient, network, train_round, weights_of
from glasshouse.federated.holdings import Holding, Pool
from glasshouse.types import ImageSpec

SPEC = ImageSpec(3, 32, 32, 10)
IMAGES = 256
TURNS = 90
LIMIT = 1.05
KINDS = ("none", "none again", "csvar")
CLOCKS = {"on the wall": time.perf_counter, "of the processor": time.process_time}


def run() -> list[dict[str, object]]:
    """Neighbouring rounds compared, on one thread; with the standard error that this leaves."""
    torch.set_num_threads(1)
    holding = drawn()
    plans = {kind: Federation(model="resnet20", defense=kind.split()[0], batch=32, rounds=TURNS + 1) for kind in KINDS}
    order = random.Random(0)
    turns = [
        {kind: seconds(plans[kind], holding, turn) for kind in order.sample(KINDS, len(KINDS))}
        for turn in range(TURNS + 1)
    ][1:]
    plain = float(np.median([turn["none"]["on the wall"] for turn in turns]))
    alone = float(np.median([shuffling(plans["csvar"], holding, turn) for turn in range(TURNS + 1)][1:]))
    return [
        row(f"ResNet20, a client's round on {IMAGES} images of 32 px, median of {TURNS}", f"{plain:.2f} s", "", True),
        *(line for clock in CLOCKS for line in compared(turns, clock)),
        row(
            "the shuffle of such a round alone",
            f"{alone * 1000:.1f} ms, {1 + alone / plain:.3f}x",
            f"{LIMIT}x",
            1 + alone / plain <= LIMIT,
        ),
    ]


def drawn() -> Holding:
    """A client with random images, which give CSVAR the most to shuffle: every part of them varies."""
    rng = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (IMAGES, 3, 32, 32), generator=rng, dtype=torch.uint8) / 255
    names = tuple(map(str, range(SPEC.classes)))
    pool = Pool("random", [place % 10 for place in range(IMAGES)], names, SPEC, lambda places, _: pixels[list(places)])
    return Holding.of(pool, range(IMAGES), names)


def seconds(plan: Federation, holding: Holding, number: int) -> dict[str, float]:
    """Seconds for one round of one client, by each clock."""
    weights = weights_of(network(plan, SPEC))
    began = read(CLOCKS)
    train_round(plan, holding, Member.simulated(0, 0), number, weights)
    ended = read(CLOCKS)
    return {clock: ended[clock] - began[clock] for clock in CLOCKS}


def read(clocks: dict[str, Callable[[], float]]) -> dict[str, float]:
    """What the clocks say now."""
    return {name: clock() for name, clock in clocks.items()}


def shuffling(plan: Federation, holding: Holding, number: int) -> float:
    """Seconds that the defense takes to make what the client trains on in one round."""
    client = RoundClient(plan, holding, Member.simulated(0, 0), number)
    samples = holding.in_epoch(client.first)
    began = time.perf_counter()
    client.samples(samples)
    return time.perf_counter() - began


def compared(turns: list[dict[str, dict[str, float]]], clock: str) -> list[dict[str, object]]:
    """The mean ratio of neighbouring rounds to those without a defense and its standard error: two equal, and CSVAR."""
    lines = []
    for kind, what, limit in (("none again", "round again", None), ("csvar", "round behind CSVAR", LIMIT)):
        ratios = np.array([turn[kind][clock] / turn["none"][clock] for turn in turns])
        mean, error = ratios.mean(), ratios.std(ddof=1) / len(ratios) ** 0.5
        lines.append(
            row(
                f"the same {what}, by the clock {clock}",
                f"{mean:.3f}x, standard error {error:.3f}",
                f"{limit}x" if limit else "",
                limit is None or bool(mean + 2 * error <= limit),
            )
        )
    return lines
