"""Guesses are measured once, each by its own picture."""

from __future__ import annotations

import pytest
import torch

from glasshouse.metrics import create
from glasshouse.store import DATABASE_FILE, Store
from glasshouse.studies import measuring
from glasshouse.studies.judgements import Guess, Judgements, Original


@pytest.fixture
def judgements(tmp_path):
    """One original; a reconstruction of it, and copies of it that two tasks shuffled under keys of their own."""
    Store(tmp_path / DATABASE_FILE).close()
    rng = torch.Generator().manual_seed(0)
    truth, *guesses = (torch.randint(0, 256, (3, 12, 12), generator=rng) / 255 for _ in range(4))

    def guess(case_key, facts, picture):
        return Guess(tmp_path, case_key, 0, 0, case_key, facts, picture, {"a": True}, {})

    made = [("case", {"model": "lenet"}), ("csvar", {}), ("csvar", {})]
    shown = tuple(guess(*one, picture) for one, picture in zip(made, guesses, strict=True))
    return Judgements("human", ("a",), (Original("d", None, truth),), shown)


def test_every_guess_is_measured_by_its_own_picture_and_once(judgements, monkeypatch):
    truth = judgements.originals[0].picture
    expected = torch.stack([((guess.picture - truth) ** 2).mean() for guess in judgements.guesses])
    assert torch.allclose(measuring.measured(judgements, "mse"), expected, atol=1e-6)

    def refuse(spec):
        metric = create(spec)
        monkeypatch.setattr(type(metric), "per_image", None)
        return metric

    monkeypatch.setattr(measuring, "create", refuse)
    assert torch.allclose(measuring.measured(judgements, "mse"), expected, atol=1e-6)


def test_a_reconstruction_is_known_by_its_case(judgements, tmp_path):
    measuring.measured(judgements, "mse")
    store = Store(tmp_path / DATABASE_FILE)
    assert sum(case == "case" for case, _, _ in store.scores()) == 1
    store.close()
