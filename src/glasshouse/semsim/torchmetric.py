"""SemSim for those who keep their metrics in torchmetrics; needs ``pip install 'glasshouse[torchmetrics]'``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

import torch
from torch import Tensor

from glasshouse import checks
from glasshouse.errors import SettingError
from glasshouse.semsim.files import SHIPPED, load
from glasshouse.semsim.network import FORMS, Form
from glasshouse.torchvision_cpu import allow_cpu_torchvision

allow_cpu_torchvision()
with checks.from_extra("torchmetrics", "SemSimMetric"):
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat

AT_ONCE = 16  # pairs; what they make should stay in the caches


class SemSimMetric(Metric):
    """SemSim over all pairs that ``update`` was given: their mean, or with ``reduction="none"`` each, (N,).

    ``form`` is the length of the difference of unit vectors (``l2``, Eq. 6) or 1 - their ``cosine`` (Eq. 7). ``file``
    is a network of your own, None the shipped one. Low values leak. What else a ``torchmetrics.Metric`` takes, such as
    ``dist_sync_on_step``, it takes as well.
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    total: Tensor
    count: Tensor
    values: list[Tensor]

    def __init__(
        self,
        file: str | Path | None = None,
        reduction: Literal["mean", "none"] = "mean",
        form: Form = "l2",
        **about_processes: Any,
    ) -> None:
        super().__init__(**about_processes)
        checks.one_of("reduction", reduction, ("mean", "none"))
        checks.one_of("form", form, tuple(FORMS))
        # its own: a move to another device is nobody else's
        self.network = load(SHIPPED if file is None else Path(file))
        self.reduction = reduction
        self.form: Form = form
        if reduction == "mean":
            self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
            self.add_state("count", torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")
        else:
            self.add_state("values", [], dist_reduce_fx="cat")

    def train(self, mode: bool = True) -> Self:
        """As every module, but the network inside has been trained and stays in eval mode."""
        super().train(mode)
        self.network.eval()
        return self

    def update(self, truth: Tensor, guess: Tensor) -> None:
        """Take in some more pairs (N, C, H, W) in [0, 1]."""
        checks.pairs(truth, guess)
        checks.colours(truth)
        precision = next(self.network.parameters()).dtype
        with torch.no_grad():
            chunks = zip(*(images.to(precision).split(AT_ONCE) for images in (truth, guess)), strict=True)
            distances = FORMS[self.form](torch.cat([self.network.distances(*both) for both in chunks]))
        if self.reduction == "none":
            self.values.append(distances)
        else:
            self.total += distances.double().sum()
            self.count += len(distances)

    def compute(self) -> Tensor:
        """The mean distance, or the distance of each pair in the order of the updates."""
        # gathered from several processes the values are one tensor
        if (len(self.values) if self.reduction == "none" else self.count) == 0:
            raise SettingError("SemSimMetric has no pairs yet: call update before compute.")
        if self.reduction == "none":
            found: Tensor = dim_zero_cat(self.values)
            return found
        return (self.total / self.count).float()
