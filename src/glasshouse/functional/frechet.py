"""The Fréchet distance between two sets of feature vectors."""

from __future__ import annotations

import torch
from torch import Tensor


def frechet_distance(first: Tensor, second: Tensor) -> float:
    """Fréchet distance between Gaussians fitted to two (N, D) sets of features (Heusel et al. 2017).

    The trace of the root of C1 C2 is the sum of the singular values of A1.T A2, where A is a centred set
    divided by sqrt(N - 1): N x N work instead of D x D, and no root of an ill-conditioned matrix.
    """
    centred = []
    for features in (first.double(), second.double()):
        centred.append((features - features.mean(0)) / (len(features) - 1) ** 0.5)
    distance = (first.double().mean(0) - second.double().mean(0)).pow(2).sum()
    roots = torch.linalg.svdvals(centred[0] @ centred[1].T)
    return float(distance + centred[0].pow(2).sum() + centred[1].pow(2).sum() - 2 * roots.sum())
