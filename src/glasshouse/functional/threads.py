"""One torch thread for the length of a block, and several Python threads where what they do is apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn

AT_ONCE = 64  # images; more at once wait for memory longer than it saves
OURS = ("glasshouse", "torch", "torchvision")  # packages whose networks compute and remember nothing
_allowed: ContextVar[int | None] = ContextVar("allowed", default=None)  # threads of torch before it was set to one


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums come out differently on two threads, and attacks blow that up; on one, a seed gives the same everywhere."""
    threads = torch.get_num_threads()
    before = _allowed.set(_allowed.get() or threads)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        _allowed.reset(before)


def in_batches(compute: Callable[[Tensor], Tensor], images: Tensor, at_once: int = AT_ONCE) -> Tensor:
    """What a function makes of images (N, ...), without gradients, and the same on any number of cores.

    As many batches at once as torch may use threads, each on one: a small network has nothing for two.
    """
    threads = _allowed.get() or torch.get_num_threads()
    with one_thread(), ThreadPoolExecutor(threads) as pool:
        return torch.cat(list(pool.map(torch.no_grad()(compute), images.split(at_once))))


def outputs(model: nn.Module, images: Tensor) -> Tensor:
    """What a model on the CPU makes of images (N, ...), in batches.

    A network of somebody else may keep what it saw until it is asked again, and so is asked by one after another.
    """
    if _keeps_nothing(model):
        return in_batches(model, images)
    with one_thread(), torch.no_grad():
        return torch.cat([model(part) for part in images.split(AT_ONCE)])


def _keeps_nothing(model: nn.Module) -> bool:
    """Whether every part is one that we know, without a hook of somebody else."""
    return all(
        type(part).__module__.partition(".")[0] in OURS and not (part._forward_hooks or part._forward_pre_hooks)
        for part in model.modules()
    )
