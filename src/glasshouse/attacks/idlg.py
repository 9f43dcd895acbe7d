"""iDLG: read the label off the gradient first, then match it as DLG does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from glasshouse.attacks.base import LabelUse, attacks
from glasshouse.attacks.dlg import DLG
from glasshouse.attacks.labels import refuse_hidden_labels, row_sum_labels
from glasshouse.types import Observation


@attacks.register("idlg")
@dataclass(frozen=True, kw_only=True)
class IDLG(DLG):
    """DLG with the label recovered exactly from the last layer's gradient (one image)."""

    paper: ClassVar[str] = "Zhao et al. 2020, iDLG: Improved Deep Leakage from Gradients"
    label_use: ClassVar[LabelUse] = "recovered"

    def refuse(self, model: nn.Module, seen: Observation) -> None:
        """Refuse networks whose last layer does not tell the labels, too."""
        super().refuse(model, seen)
        refuse_hidden_labels(model, seen)

    def fixed_labels(self, model: nn.Module, seen: Observation) -> Tensor | None:
        """The labels read off the last layer's gradient."""
        return row_sum_labels(model, seen)
