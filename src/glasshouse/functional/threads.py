"""One torch thread for the length of a block, and several Python threads where what they do is apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor, nn

AT_ONCE = 64  # images; more at once wait for memory longer than it saves
OURS = ("glasshouse", "torch", "torchvision")  # packages whose networks compute and remember nothing


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums come out differently on two threads, and attacks blow that up; on one, a seed gives the same everywhere."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def outputs(model: nn.Module, images: Tensor) -> Tensor:
    """What a model on the CPU makes of images (N, ...), without gradients, and the same on any number of cores.

    As many batches at once as torch may use threads, each on one: a small network has nothing for two. A network of
    somebody else may keep what it saw until it is asked again, and so is asked by one batch after another.
    """
    compute: Callable[[Tensor], Tensor] = torch.no_grad()(model)
    threads = torch.get_num_threads() if _keeps_nothing(model) else 1
    with one_thread(), ThreadPoolExecutor(threads) as pool:
        return torch.cat(list(pool.map(compute, images.split(AT_ONCE))))


def _keeps_nothing(model: nn.Module) -> bool:
    """Whether every part is one that we know, without a hook of somebody else."""
    return all(
        type(part).__module__.partition(".")[0] in OURS and not (part._forward_hooks or part._forward_pre_hooks)
        for part in model.modules()
    )
