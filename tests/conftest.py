"""What all tests share: one torch thread, small photographs, real data only where GLASSHOUSE_DATA says so."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.postgres import fresh_database, running_server

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


@pytest.fixture(scope="session")
def voted(tmp_path_factory) -> Path:
    """A table of votes: 6 models x 20 originals x 4 annotators; psnr and lpips see what people see, other sees nothing.

    A few votes are missing, and one image has none.
    """
    random = np.random.default_rng(0)
    rows = ["config,set_index,gt_fine,gt_name,annot1,annot2,annot3,annot4,frac_recognized,psnr,lpips,other"]
    easy = random.normal(size=20)
    for model in range(6):
        for original in range(20):
            seen = 0.5 * model - 1.2 + easy[original] + random.normal()
            hits = seen + random.normal(size=4) > 0
            votes = [str(original) if hit else random.choice(["-1", "55"]) for hit in hits]
            votes = ["" if random.random() < 0.05 else vote for vote in votes]
            votes = [""] * 4 if (model, original) == (2, 3) else votes
            metrics = f"{12 + seen + 0.5 * random.normal():.3f},{0.5 - 0.1 * seen:.4f},{random.normal():.3f}"
            rows.append(f"model {model},{100 + original},{original},thing,{','.join(votes)},{hits.mean()},{metrics}")
    path = tmp_path_factory.mktemp("votes") / "votes.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """A PostgreSQL server, started once where it is first needed."""
    with running_server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Where votes lie: None for a study's own SQLite file, else the URL of an empty database of the server."""
    if request.param == "sqlite":
        yield None
    else:
        with fresh_database(request.getfixturevalue("postgresql"), f"votes_{secrets.token_hex(4)}") as url:
            yield url
