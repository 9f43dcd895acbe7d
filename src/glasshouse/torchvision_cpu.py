"""Import torchvision beside a CPU-only torch.

The torchvision wheel of the package registry is linked to CUDA: beside a CPU build of torch its compiled
operators do not load, and importing it fails with "operator torchvision::nms does not exist", because it
registers shape functions for operators that are not there. Declaring the two operators it asks for lets
models, transforms and data sets work; nobody calls them. The library object must stay alive.
"""

from __future__ import annotations

import torch

_DECLARED: list[torch.library.Library] = []


def allow_cpu_torchvision() -> None:
    """Declare the operators torchvision expects, unless they exist; call before the first import of it."""
    if _DECLARED or hasattr(torch.ops.torchvision, "nms"):
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _DECLARED.append(library)
