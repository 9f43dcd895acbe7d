"""All of a secret counts, not the 32 bits that a seed comes down to."""

from __future__ import annotations

import numpy as np
import torch

from glasshouse.functional.generators import OFFSET, WORDS, secret_generator


def test_the_state_lies_where_it_is_written():
    """Numpy's Mersenne Twister begins with the same words for the same seed."""
    state = torch.Generator().manual_seed(5).get_state().numpy()
    words = state[OFFSET : OFFSET + 8 * WORDS].view("<u8")
    assert words.tolist() == np.random.RandomState(5).get_state()[1].tolist()


def test_the_same_secret_draws_the_same_and_another_something_else():
    first, again, other = (torch.randn(8, generator=secret_generator(one)) for one in (b"a", b"a", b"b"))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_bits_that_a_seed_forgets_count_here():
    low = 5
    seeded = [torch.rand(4, generator=torch.Generator().manual_seed(low + (high << 32))) for high in (0, 1)]
    assert torch.equal(*seeded)
    secret = [torch.rand(4, generator=secret_generator((low + (high << 32)).to_bytes(8, "big"))) for high in (0, 1)]
    assert not torch.equal(*secret)


def test_it_draws_evenly():
    drawn = torch.rand(100_000, generator=secret_generator(b"secret"))
    assert abs(float(drawn.mean()) - 0.5) < 0.005
    assert abs(float(drawn.std()) - 12**-0.5) < 0.005
