"""Structural similarity with the original Gaussian window, by two small matrix products per map.

A valid Gaussian filter is linear in rows and in columns, so filtering all maps of a batch is
``G_h @ map @ G_w.T`` with banded matrices; at the image sizes of federated learning that is several times
faster than a depth-wise convolution, and exact.
"""

from __future__ import annotations

import torch
from torch import Tensor

WINDOW = 11
SIGMA = 1.5
LUMINANCE_CONSTANT = 0.01**2
CONTRAST_CONSTANT = 0.03**2


def structural_similarity(truth: Tensor, guess: Tensor) -> Tensor:
    """SSIM (Wang et al. 2004) of each pair of (N, C, H, W) images in [0, 1]: (N,), mean over channels."""
    rows, columns = (_filter(size, truth) for size in truth.shape[-2:])
    maps = torch.stack((truth, guess, truth * truth, guess * guess, truth * guess))
    mean_t, mean_g, square_t, square_g, product = rows @ maps @ columns.T
    means = mean_t * mean_g
    powers = mean_t * mean_t + mean_g * mean_g
    numerator = (2 * means + LUMINANCE_CONSTANT) * (2 * (product - means) + CONTRAST_CONSTANT)
    denominator = (powers + LUMINANCE_CONSTANT) * (square_t + square_g - powers + CONTRAST_CONSTANT)
    similarity: Tensor = (numerator / denominator).mean((1, 2, 3))
    return similarity


def _filter(size: int, like: Tensor) -> Tensor:
    """The (size - 10, size) matrix whose rows are the Gaussian window at every valid place."""
    offsets = torch.arange(WINDOW, dtype=torch.float64) - WINDOW // 2
    window = torch.exp(-0.5 * (offsets / SIGMA) ** 2)
    window /= window.sum()
    places = size - WINDOW + 1
    matrix = torch.zeros(places, size, dtype=torch.float64)
    matrix.as_strided((places, WINDOW), (size + 1, 1)).copy_(window.expand(places, WINDOW))
    return matrix.to(like)
