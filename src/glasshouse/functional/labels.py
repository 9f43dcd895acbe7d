"""What the gradient of the last layer says about the labels behind it."""

from __future__ import annotations

import torch
from torch import Tensor


def row_sum_label(weight_gradient: Tensor) -> int:
    """The label behind one image's gradient as iDLG reads it (Zhao et al. 2020): the row with the smallest sum.

    Exact where the features before the last layer are non-negative.
    """
    return int(weight_gradient.sum(1).argmin())


def single_label(bias_gradient: Tensor | None, weight_gradient: Tensor) -> int:
    """The label behind one image's gradient, whatever the features, and robust to noise.

    Weight and bias gradients of one image are (softmax - one-hot) times (features, 1), a matrix of rank one.
    Its first left singular vector is softmax - one-hot up to sign, whose largest entry is that of the label; of
    two classes the entries are alike, and the sign that row sums or bias agree with decides.
    """
    columns = [weight_gradient] if bias_gradient is None else [weight_gradient, bias_gradient[:, None]]
    direction = torch.linalg.svd(torch.cat(columns, 1).double(), full_matrices=False)[0][:, 0]
    if len(direction) > 2:
        return int(direction.abs().argmax())
    evidence = weight_gradient.sum(1) if bias_gradient is None else bias_gradient
    return int(evidence.argmin())


def label_counts(evidence: Tensor, mean_probabilities: Tensor, batch_size: int) -> Tensor:
    """How often each class occurs behind a gradient averaged over a batch.

    The mean bias gradient is (mean softmax) - (share of each class), so the shares follow from an estimate
    of the mean softmax; the counts are rounded so that they add up to the batch size.
    """
    shares = (mean_probabilities - evidence).clamp_min(0) * batch_size
    shares = shares * (batch_size / shares.sum().clamp_min(torch.finfo(shares.dtype).tiny))
    counts = shares.floor()
    missing = batch_size - int(counts.sum())
    counts[(shares - counts).argsort(descending=True)[:missing]] += 1
    return counts.long()
