"""Ray as we begin it ourselves: it keeps SIGTERM to its caller and its ports to this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from glasshouse.signals import sigterm_kept

#: Read by Ray as it is imported, there to spare some systems a question of their firewall.
HOME = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for the length of a block; Flower changes the path of Python, too."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def at_home() -> Iterator[None]:
    """A Ray that begins in this block listens on loopback alone: it runs the code of whoever reaches its ports."""
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False  # for a Ray that was imported before
    try:
        with environment(HOME), sigterm_kept():
            yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
