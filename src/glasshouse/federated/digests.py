"""By what it is told whether a federation still has the images, and the network, that it began with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from glasshouse.errors import GlasshouseError
from glasshouse.federated.holdings import Pool, dealt, open_test
from glasshouse.federated.plan import Federation
from glasshouse.models import own

BATCH = 256


def data_digest(plan: Federation, root: Path | None) -> str:
    """A hash of what clients train on, of the test images, and of the file of a network of one's own.

    It is empty where images cannot be read: training says why.
    """
    content = hashlib.sha256(own.source(plan.model))
    try:
        test = open_test(plan, root)
        names = plan.class_names(test.class_names)
        for client in range(plan.clients):
            holding = dealt(plan, client, names, root)
            content.update(json.dumps([client, holding.labels.tolist()]).encode())
            content.update(holding.pool.digest.encode())
            _add(content, _read(holding.pool, holding.places))
        content.update(json.dumps([int(label) for label in test.labels]).encode())
        _add(content, _read(test, range(len(test.labels))))
    except GlasshouseError:
        return ""
    return content.hexdigest()[:24]


def _read(pool: Pool, places: Iterable[int]) -> Iterator[torch.Tensor]:
    """Images of a pool as they are in the first epoch, a few at a time."""
    every = list(places)
    for start in range(0, len(every), BATCH):
        yield pool.read(every[start : start + BATCH], 0)


def _add(content: hashlib._Hash, images: Iterable[torch.Tensor]) -> None:
    for some in images:
        content.update((some * 255).round().to(torch.uint8).numpy().tobytes())
