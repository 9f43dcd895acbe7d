"""A study small enough to run many times."""

from __future__ import annotations

import pytest

from glasshouse.studies.plan import Plan


@pytest.fixture(scope="session")
def plan() -> Plan:
    return Plan(
        dataset="photos:size=16",
        images=2,
        model="lenet:width=4",
        attacks=("invgrad:steps=4",),
        defenses=("none", "gaussian:sigma=0.5"),
        metrics=("mse", "psnr", "ssim"),
    )
