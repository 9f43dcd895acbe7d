"""Batches side by side come out as one after another."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from torch import nn

from glasshouse.functional.threads import AT_ONCE, in_batches, one_thread, outputs


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


@pytest.fixture
def _known(monkeypatch):
    monkeypatch.setattr(Watched, "__module__", "glasshouse.models.watched")


@pytest.mark.usefixtures("_two_threads", "_known")
def test_batches_go_side_by_side_in_order_on_one_thread_each():
    model, images = Watched(), torch.rand(4 * AT_ONCE, 1, 4, 4)
    found = outputs(model, images)
    assert len({who for who, _, _ in model.seen}) == 2
    assert {(threads, grad) for _, threads, grad in model.seen} == {(1, False)}
    assert torch.get_num_threads() == 2
    parts = images.flatten(1).split(AT_ONCE)
    assert torch.equal(found, torch.cat([model.linear(part) for part in parts]))


@pytest.mark.usefixtures("_two_threads")
def test_batches_go_side_by_side_where_all_else_keeps_to_one_thread():
    meeting, images = threading.Barrier(2, timeout=60), torch.rand(8, 3)

    def doubled(some):
        meeting.wait()  # passes only where two are at work at once
        assert torch.get_num_threads() == 1
        return 2 * some

    with one_thread(), one_thread():
        assert torch.equal(in_batches(doubled, images, 2), 2 * images)
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


class Remembering(nn.Linear):
    """Gives what it saw last, which is not what it was asked where two ask at once."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.seen = images
        time.sleep(0.01)
        return super().forward(self.seen)


@pytest.mark.usefixtures("_two_threads")
def test_a_network_that_remembers_is_asked_by_one_batch_after_another():
    model, images = nn.Sequential(Remembering(16, 3)), torch.rand(4 * AT_ONCE, 16)
    found = outputs(model, images)
    assert torch.equal(found, torch.cat([model(part) for part in images.split(AT_ONCE)]))


@pytest.mark.usefixtures("_two_threads")
def test_so_is_one_with_a_hook():
    model, seen = nn.Linear(16, 3), []
    model.register_forward_pre_hook(lambda module, inputs: seen.append(threading.get_ident()))
    outputs(model, torch.rand(4 * AT_ONCE, 16))
    assert len(set(seen)) == 1


def test_no_images_have_outputs_of_the_same_width():
    assert outputs(nn.Linear(16, 3), torch.empty(0, 16)).shape == (0, 3)
