"""What the gradient of the last layer says about the labels behind it."""

from __future__ import annotations

import torch
from scipy.optimize import nnls
from torch import Tensor

LONGEST = 2.0  # how much longer than usual an input of the last layer may be
ALIKE = 0.9  # share of the largest entry from which noise may have made another one as large
SUM_WEIGHT = 10.0  # how much more the sum of the counts weighs than one class's equation


def row_sum_label(weight_gradient: Tensor) -> int:
    """The label behind one image's gradient as iDLG reads it (Zhao et al. 2020): the row with the smallest sum.

    Exact where the features before the last layer are non-negative.
    """
    return int(weight_gradient.sum(1).argmin())


def single_label(bias_gradient: Tensor | None, weight_gradient: Tensor) -> int:
    """The label behind one image's gradient, whatever the features, and robust to noise.

    Weight and bias gradients of one image are (softmax - one-hot) times (features, 1), a matrix of rank one.
    Its first left singular vector is softmax - one-hot up to sign, whose largest entry is that of the label. Of two
    classes, and where the model is sure of a wrong one, two entries are alike but for the sign: the vector is then
    turned as the bias gradient lies, or the row sums where there is no bias, and the label is its lowest entry.
    """
    columns = [weight_gradient] if bias_gradient is None else [weight_gradient, bias_gradient[:, None]]
    direction = torch.linalg.svd(torch.cat(columns, 1).double(), full_matrices=False)[0][:, 0]
    below, above = -float(direction.min()), float(direction.max())
    if min(below, above) < ALIKE * max(below, above):
        return int(direction.abs().argmax())
    evidence = weight_gradient.sum(1) if bias_gradient is None else bias_gradient
    turned = direction if float(direction @ evidence.double()) > 0 else -direction
    return int(turned.argmin())


def class_inputs(bias_gradient: Tensor, weight_gradient: Tensor) -> Tensor:
    """An input of the last layer for every class, as its row of the gradients says: (classes, features).

    A row is dominated by the images of its class, so that weight over bias gradient is about their mean input. Where
    the bias gradient nearly cancels the quotient says nothing, and is cut to twice the usual length.
    """
    tiny = torch.finfo(bias_gradient.dtype).tiny
    inputs = weight_gradient / torch.where(bias_gradient.abs() > tiny, bias_gradient, tiny)[:, None]
    lengths = inputs.norm(dim=1, keepdim=True)
    usual = lengths.median()
    return torch.where(lengths > LONGEST * usual, inputs * (usual / lengths), inputs)


def label_counts(bias_gradient: Tensor, probabilities: Tensor, batch_size: int) -> Tensor:
    """How often each class occurs behind a gradient averaged over a batch (Ma et al. 2023, iLRG).

    Row j of ``probabilities`` (classes, classes) is what the model says of images of class j. The bias gradient is the
    mean of (probabilities - one-hot), linear in the counts, which are never negative and add up to the batch size.
    """
    classes = len(bias_gradient)
    system = torch.cat([probabilities.T - torch.eye(classes), torch.full((1, classes), SUM_WEIGHT)]).double()
    right = torch.cat([bias_gradient, bias_gradient.new_tensor([SUM_WEIGHT])]).double() * batch_size
    shares = torch.from_numpy(nnls(system.numpy(), right.numpy())[0])
    return whole(shares, batch_size)


def whole(shares: Tensor, total: int) -> Tensor:
    """Shares (classes,) as whole numbers that add up to ``total``, the largest remainders first."""
    if not bool(shares.sum() > 0):
        shares = torch.ones_like(shares)  # nothing is known: all alike
    shares = shares * (total / shares.sum())
    counts = shares.floor()
    missing = total - int(counts.sum())
    counts[(shares - counts).argsort(descending=True, stable=True)[:missing]] += 1
    return counts.long()
