"""Total variation against a slow loop."""

from __future__ import annotations

import torch

from glasshouse.functional.variation import total_variation


def test_against_a_loop():
    images = torch.rand(2, 3, 5, 4)
    across = [
        abs(images[n, c, y, x + 1] - images[n, c, y, x])
        for n in range(2)
        for c in range(3)
        for y in range(5)
        for x in range(3)
    ]
    down = [
        abs(images[n, c, y + 1, x] - images[n, c, y, x])
        for n in range(2)
        for c in range(3)
        for y in range(4)
        for x in range(4)
    ]
    expected = sum(across) / len(across) + sum(down) / len(down)
    torch.testing.assert_close(total_variation(images), expected)


def test_flat_images_have_none():
    assert float(total_variation(torch.full((1, 3, 4, 4), 0.3))) == 0
