"""Total variation, the smoothness prior of gradient inversion."""

from __future__ import annotations

from torch import Tensor


def total_variation(images: Tensor) -> Tensor:
    """Anisotropic total variation of (N, C, H, W): mean |dx| + mean |dy| (Geiping et al. 2020)."""
    horizontal = (images[..., :, 1:] - images[..., :, :-1]).abs().mean()
    vertical = (images[..., 1:, :] - images[..., :-1, :]).abs().mean()
    return horizontal + vertical
