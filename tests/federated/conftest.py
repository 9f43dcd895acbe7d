"""Federations without processes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.federated.local import LocalGrid, carry_out

from glasshouse.federated import Federation


@pytest.fixture(scope="session")
def local_grid() -> type:
    """The grid without processes."""
    return LocalGrid


@pytest.fixture(scope="session", name="carry_out")
def _carry_out() -> Callable:
    """Carries a federation out in this process."""
    return carry_out


@pytest.fixture(scope="session")
def small() -> Federation:
    """Three clients with forty digits each, two rounds."""
    return Federation(images=120, clients=3, rounds=2, batch=20, model="mlp:width=16", timeout=5)
