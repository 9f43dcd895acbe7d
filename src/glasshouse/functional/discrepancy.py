"""The maximum mean discrepancy between two sets of feature vectors."""

from __future__ import annotations

from torch import Tensor

ROWS = 1024  # of the table of kernels that are held at a time


def polynomial_mmd(first: Tensor, second: Tensor) -> float:
    """Unbiased squared maximum mean discrepancy between two (N, D) sets of features (Binkowski et al. 2018).

    The kernel is (x.y / D + 1)^3. A vector's kernel with itself is left out, so that equal distributions give 0 on
    average, and single values may be negative.
    """
    one, two = first.double(), second.double()
    inside = [(_total(own, own) - _with_themselves(own)) / (len(own) * (len(own) - 1)) for own in (one, two)]
    return sum(inside) - 2 * _total(one, two) / (len(one) * len(two))


def _total(first: Tensor, second: Tensor) -> float:
    """The sum of the kernels of all pairs."""
    return sum(float(_kernel(rows @ second.T, second.shape[1]).sum()) for rows in first.split(ROWS))


def _with_themselves(features: Tensor) -> float:
    return float(_kernel(features.square().sum(1), features.shape[1]).sum())


def _kernel(products: Tensor, dimensions: int) -> Tensor:
    return (products / dimensions + 1) ** 3
