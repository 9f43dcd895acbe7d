"""A generator of torch with all of its state drawn from a secret."""

from __future__ import annotations

import hashlib

import numpy as np
import torch

WORDS = 624  # of 32 bits, the state of a Mersenne Twister
OFFSET = 24  # bytes before them: the seed, how many are left, whether there is a seed, and the next


def secret_generator(secret: bytes) -> torch.Generator:
    """A generator that follows from a secret of any length.

    ``manual_seed`` keeps 32 bits of a seed, which anybody can try one by one. The Mersenne Twister is no cryptographic
    generator all the same: who sees enough of what it draws can compute the rest.
    """
    rng = torch.Generator().manual_seed(0)
    state = rng.get_state()
    drawn = np.frombuffer(hashlib.shake_256(secret).digest(4 * WORDS), "<u4").astype("<u8")
    state[OFFSET : OFFSET + 8 * WORDS] = torch.from_numpy(drawn.view(np.uint8))
    return rng.set_state(state)
