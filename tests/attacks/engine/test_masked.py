"""Masked matching: the derivative is autograd's, and what is zero in the target does not count."""

from __future__ import annotations

import torch

from glasshouse.attacks.engine.masked import MaskedCosine
from glasshouse.attacks.engine.objectives import Cosine


def gradients(seed: int) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return [torch.randn(2, *shape, generator=rng, dtype=torch.float64) for shape in ((4, 3), (5,))]


def test_value_and_derivative_are_those_of_the_plain_distance():
    found, target = gradients(0), [one * (one.abs() > 0.5) for one in gradients(1)]
    values, pulls = MaskedCosine()([one.clone() for one in found], target)
    for problem in range(2):
        x = [one[problem].clone().requires_grad_() for one in found]
        value = MaskedCosine.plain(x, [one[problem] for one in target])
        torch.testing.assert_close(values[problem], value.detach())
        for own, pull in zip(torch.autograd.grad(value, x), pulls, strict=True):
            torch.testing.assert_close(own, pull[problem])


def test_a_pruned_gradient_matches_the_whole_one_perfectly_where_it_is_not_zero():
    found = gradients(0)
    pruned = [one * (one.abs() > 1) for one in found]
    masked, plain = (kind()([one.clone() for one in found], pruned)[0] for kind in (MaskedCosine, Cosine))
    assert masked.abs().max() < 1e-12
    assert plain.min() > 0.01


def test_tiny_gradients_keep_their_direction_in_single_precision():
    found, target = ([one.float() for one in gradients(seed)] for seed in (0, 1))
    whole, pulls = Cosine()([one.clone() for one in found], target)
    tiny, lifted = Cosine()([one * 1e-25 for one in found], [one * 1e-25 for one in target])
    torch.testing.assert_close(tiny, whole)
    for one, other in zip(lifted, pulls, strict=True):
        torch.testing.assert_close(one * 1e-25, other, rtol=1e-4, atol=1e-6)
    plain = [
        Cosine.plain([one[0] * scale for one in found], [one[0] * scale for one in target]) for scale in (1, 1e-25)
    ]
    torch.testing.assert_close(plain[1], plain[0])
    assert Cosine()([one * 0 for one in found], target)[0].tolist() == [1, 1]
