"""Images as 8-bit pixels and back, and pixels as PNG."""

from __future__ import annotations

import io

import numpy as np
import torch
from PIL import Image
from torch import Tensor


def to_pixels(image: Tensor) -> np.ndarray:
    """One (C, H, W) image in [0, 1] as 8-bit (H, W, C)."""
    return (image.detach() * 255).round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0).cpu().numpy()


def to_tensor(pixels: np.ndarray) -> Tensor:
    """One 8-bit (H, W, C) picture as (C, H, W) in [0, 1]."""
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255


def to_png(pixels: np.ndarray) -> bytes:
    """Encode 8-bit (H, W, 1 or 3) pixels as PNG."""
    buffer = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(buffer, "PNG")
    return buffer.getvalue()
