"""What all tests share: one torch thread, small photographs, real data only where GLASSHOUSE_DATA says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from glasshouse import data
from glasshouse.torchvision_cpu import allow_cpu_torchvision

torch.set_num_threads(1)
allow_cpu_torchvision()


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="session")
def photos() -> torch.Tensor:
    """Four photographs, (4, 3, 32, 32) in [0, 1]."""
    return data.load("photos").batch(range(4))[0]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The directory of real data sets, or a skip with the reason."""
    root = os.environ.get("GLASSHOUSE_DATA")
    if not root or not Path(root).is_dir():
        pytest.skip("real data is not here: set GLASSHOUSE_DATA to a directory with cifar10.npz and the others")
    return Path(root)
