"""Batches side by side come out as one after another."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

from glasshouse.functional.threads import outputs


class Watched(nn.Module):
    """Remembers who computed, with how many threads of torch, and whether gradients were kept."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3)
        self.meeting = threading.Barrier(2, timeout=60)
        self.seen: set[tuple[int, int, bool]] = set()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.meeting.wait()  # passes only where two are at work at once
        self.seen.add((threading.get_ident(), torch.get_num_threads(), torch.is_grad_enabled()))
        return self.linear(images.flatten(1))


@pytest.fixture
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_two_threads")
def test_batches_go_side_by_side_in_order_on_one_thread_each():
    model, parts = Watched(), torch.rand(40, 1, 4, 4).split(10)
    found = outputs(model, parts)
    assert len({who for who, _, _ in model.seen}) == 2
    assert {(threads, grad) for _, threads, grad in model.seen} == {(1, False)}
    assert torch.get_num_threads() == 2
    for part, value in zip(parts, found, strict=True):
        assert torch.equal(value, model.linear(part.flatten(1)))


def test_no_batches_have_no_outputs():
    assert outputs(nn.Identity(), []) == []
