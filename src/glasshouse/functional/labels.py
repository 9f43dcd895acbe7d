"""What the gradient of the last layer says about the labels behind it."""

from __future__ import annotations

import torch
from torch import Tensor


def single_label(bias_gradient: Tensor | None, weight_gradient: Tensor) -> int:
    """The label behind one image's gradient.

    With a bias the answer is exact: the bias gradient is softmax minus one-hot, and negative only at the
    true class. Without one, the row of the weight gradient with the smallest sum, which is exact where the
    features are non-negative (iDLG, Zhao et al. 2020).
    """
    evidence = weight_gradient.flatten(1).sum(1) if bias_gradient is None else bias_gradient
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
