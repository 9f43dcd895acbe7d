"""What CSVAR adds to a client's round of ResNet20: rounds with and without it in turns, as a federation runs them."""

from __future__ import annotations

import time

import numpy as np
import torch
from clock import row

from glasshouse.federated import Federation
from glasshouse.federated.clients import Member, network, train_round, weights_of
from glasshouse.federated.holdings import Holding, Pool
from glasshouse.types import ImageSpec

SPEC = ImageSpec(3, 32, 32, 10)
IMAGES = 256
TURNS = 36


def run() -> list[dict[str, object]]:
    """Neighbouring rounds compared, on one thread; with the standard error that this leaves."""
    torch.set_num_threads(1)
    plans = [Federation(model="resnet20", defense=defense, batch=32, rounds=TURNS + 1) for defense in ("none", "csvar")]
    rng = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (IMAGES, 3, 32, 32), generator=rng, dtype=torch.uint8) / 255
    names = tuple(map(str, range(SPEC.classes)))
    pool = Pool("random", [place % 10 for place in range(IMAGES)], names, SPEC, lambda places, _: pixels[list(places)])
    holding = Holding.of(pool, range(IMAGES), names)
    times = np.array([[seconds(plan, holding, turn) for plan in plans] for turn in range(TURNS + 1)])[1:]
    ratios = times[:, 1] / times[:, 0]
    ratio, error = ratios.mean(), ratios.std(ddof=1) / TURNS**0.5
    return [
        row(f"ResNet20, a client's round on {IMAGES} images of 32 px", f"{np.median(times[:, 0]):.2f} s", "", True),
        row(
            "the same behind CSVAR, seconds of the processor",
            f"{ratio:.3f}x, standard error {error:.3f}",
            "1.05x",
            bool(ratio <= 1.05),
        ),
    ]


def seconds(plan: Federation, holding: Holding, number: int) -> float:
    """Seconds of the processor for one round of one client: there is one thread, and nothing to wait for."""
    weights = weights_of(network(plan, SPEC))
    began = time.process_time()
    train_round(plan, holding, Member.simulated(0, 0), number, weights)
    return time.process_time() - began
