"""What gradients of batches with known members say about each member: linear equations."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def membership_shares(batches: Sequence[Sequence[int]], count: int) -> Tensor:
    """By how much each of ``count`` samples enters the mean over each batch: (batches, count) in float64."""
    shares = torch.zeros(len(batches), count, dtype=torch.float64)
    for row, batch in zip(shares, batches, strict=True):
        row[list(batch)] = 1 / len(batch)
    return shares


def loss_gradients(shares: Tensor, bias_gradients: Tensor) -> Tensor:
    """Each sample's loss gradient at a layer's output, (count, units), from bias gradients (batches, units).

    The bias gradient of a batch is the mean of its samples' loss gradients: least squares over the batches
    (Jin et al. 2021, step 1). Exact where the batches are as many, and as different, as the samples.
    """
    pulls: Tensor = torch.linalg.pinv(shares) @ bias_gradients.double()
    return pulls


def layer_inputs(shares: Tensor, pulls: Tensor, weight_gradients: Sequence[Tensor]) -> Tensor:
    """Each sample's input of a layer, (count, features), from weight gradients (units, features) of every batch.

    The weight gradient of a batch is the mean of pull times input over its samples (Jin et al. 2021, step 2). The
    normal equations of all batches together are the product, entry by entry, of two Gram matrices, so that they can
    be solved wherever the batches tell the samples apart, however few units the layer has.
    """
    lengths = pulls.norm(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
    units = pulls / lengths  # samples that the model knows well pull a thousand times less than others
    system = (shares.T @ shares) * (units @ units.T)
    right = torch.zeros(len(pulls), weight_gradients[0].shape[1], dtype=torch.float64)
    for row, gradient in zip(shares, weight_gradients, strict=True):
        right += row[:, None] * (units @ gradient.double())
    inputs: Tensor = torch.linalg.pinv(system, hermitian=True) @ right / lengths
    return inputs
