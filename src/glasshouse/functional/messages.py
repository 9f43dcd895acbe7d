"""How many bytes a message takes that shares tensors."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

INDEX = 4  # bytes that say where a value lies
BITS = 8


def message_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of the shortest of three codings, chosen for each tensor; no value is rounded and nothing compressed.

    All values; or those that are not zero, with one bit for each place that says whether there is one; or those that
    are not zero, each with the number of its place in 32 bits.
    """
    return sum(_coded(tensor) for tensor in tensors)


def _coded(tensor: Tensor) -> int:
    size, places, left = tensor.element_size(), tensor.numel(), int(tensor.count_nonzero())
    return min(places * size, left * size + -(-places // BITS), left * (size + INDEX))
