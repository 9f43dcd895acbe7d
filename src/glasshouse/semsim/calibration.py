"""From a distance to a probability: the curve that lies nearest to what judges said."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

RIDGE = 1e-4  # keeps the curve of judges who all say the same finite


def logistic_line(distances: Tensor, shares: Tensor) -> Tensor:
    """(a, b) for which sigmoid(a - b d) is nearest to shares (K,) in [0, 1] at distances (K,); b is not negative."""
    values, votes = distances.double(), shares.double()
    line = torch.tensor([1.0, 1.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([line], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(line[0] - line[1] * values, votes) + RIDGE * line.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    fitted = line.detach()
    if float(fitted[1]) >= 0:
        return fitted
    # nearer pairs less recognised: distance says nothing here, so the base rate is all
    share = votes.mean().clamp(1e-3, 1 - 1e-3)
    return torch.stack((torch.logit(share), torch.zeros((), dtype=torch.float64)))
