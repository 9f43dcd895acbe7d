"""One torch thread for the length of a block, and several Python threads where what they do is apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor, nn


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums come out differently on two threads, and attacks blow that up; on one, a seed gives the same everywhere."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def outputs(model: nn.Module, parts: Sequence[Tensor]) -> list[Tensor]:
    """What a model on the CPU makes of each batch, without gradients, and the same on any number of cores.

    As many batches at once as torch may use threads, each on one: a small network has nothing for two.
    """
    compute: Callable[[Tensor], Tensor] = torch.no_grad()(model)
    threads = min(torch.get_num_threads(), len(parts))
    with one_thread(), ThreadPoolExecutor(max(1, threads)) as pool:
        return list(pool.map(compute, parts))
