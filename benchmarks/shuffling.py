"""CSVAR: variance and shuffle of one image, against a plain copy and albumentations' grid shuffle where installed."""

from __future__ import annotations

import importlib.util

import numpy as np
import torch
from clock import best, row

from glasshouse.defenses import csvar

KEY = bytes(32)


def run() -> list[dict[str, object]]:
    """Measure on one thread: 224 px planar and interleaved, and batches of 32 px."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (224, 224, 3), dtype=np.uint8)
    planar = torch.from_numpy(image).permute(2, 0, 1).contiguous()
    small = rng.integers(0, 256, (1000, 32, 32, 3), dtype=np.uint8)
    ids = [f"x_train/{index:06d}" for index in range(len(small))]
    chw = best(lambda: csvar.shuffle(planar, key=KEY, ids="a", epoch=0)) * 1e6
    hwc = best(lambda: csvar.shuffle(image, key=KEY, ids="a", epoch=0)) * 1e6
    copy = best(lambda: image.copy()) * 1e6
    rate = len(small) / best(lambda: csvar.shuffle(small, key=KEY, ids=ids, epoch=0), repeats=20)
    return [
        row("224x224x3, planar: variance and shuffle", f"{chw:.0f} microseconds", "200", chw < 200),
        row("224x224x3, interleaved: variance and shuffle", f"{hwc:.0f} microseconds", "230", hwc <= 230),
        row("224x224x3, a copy in memory", f"{copy:.0f} microseconds", "", True),
        row("32x32x3 in batches of 1,000", f"{rate:,.0f} images per second", "40,000", rate > 40_000),
        *against_albumentations(image, hwc),
    ]


def against_albumentations(image: np.ndarray, mine: float) -> list[dict[str, object]]:
    """The nearest thing others have: a random shuffle of a 56x56 grid."""
    if importlib.util.find_spec("albumentations") is None:
        return [row("against albumentations' RandomGridShuffle", "not installed here", "50x", False)]
    import albumentations

    shuffle = albumentations.RandomGridShuffle(grid=(56, 56), p=1)
    theirs = best(lambda: shuffle(image=image), repeats=20) * 1e6
    return [
        row(
            "against albumentations' RandomGridShuffle, 56x56",
            f"{theirs / mine:.0f}x faster",
            "50x",
            theirs / mine >= 50,
        )
    ]
