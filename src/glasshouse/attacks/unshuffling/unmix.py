"""Part B: which blocks of the channels belong together, by assignment of patterns that look alike."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from glasshouse.attacks.unshuffling.grid import Array, Group

LEAST_SPREAD = 1e-6


def unmix(image: Array, groups: list[Group]) -> Array:
    """Bring the blocks of every channel of an image (C, H, W) into the order of its middle channel.

    Channels of natural images rise and fall together, so a block is matched with the one whose pattern, relative
    to the mean and spread of its group, is nearest (Hungarian assignment). Places stay those of the middle channel.
    """
    mixed = image.copy()
    reference = len(image) // 2
    for group in groups:
        blocks = group.cut(image)
        relative = blocks - blocks.mean((1, 2), keepdims=True)
        relative = relative / np.maximum(blocks.std((1, 2), keepdims=True), LEAST_SPREAD)
        for channel in range(len(image)):
            if channel != reference:
                cost = np.square(relative[reference][:, None] - relative[channel][None]).sum(-1)
                group.paste(mixed, channel, blocks[channel][linear_sum_assignment(cost)[1]])
    return mixed
